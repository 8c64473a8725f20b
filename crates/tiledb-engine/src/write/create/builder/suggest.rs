//! Suggestions for an array, made from its rows. They never change a choice.

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::DataType;

use super::resolve::dimension_type;
use super::settings::{DimensionSettings, EnumerationMember, EnumerationMembers};
use super::{ArrayBuilder, BuilderColumn, execute};
use crate::arrow::{CellWriter, ColumnType, TypeOptions};
use crate::error::{Error, Result, ResultExt};
use crate::format::datatype::Datatype;
use crate::format::filter_list::FilterList;
use crate::format::schema::{ArrayType, Dimension, Layout};
use crate::geometry::key;
use crate::storage::Storage;
use crate::write::create::defaults;
use crate::write::create::integer::{self, IntegerSpan};
use crate::write::create::literal::{LiteralValue, show_element};

/// What the name of a suggested enumeration ends with.
const SUGGESTED: &str = " (suggested)";

/// Whether COPY made an enumeration from the values of its rows, so that later rows may bring new ones. The name of the enumeration
/// shows this, because the name stays the same when the schema evolves.
pub fn is_suggested_enumeration(name: &str) -> bool {
    name.ends_with(SUGGESTED)
}

impl ArrayBuilder {
    /// Whether the builder makes a dense array.
    pub fn is_dense(&self) -> bool {
        self.array.array_type == Some(ArrayType::Dense)
    }

    /// Whether a domain must still be chosen before the array can be created.
    pub fn lacks_domains(&self) -> bool {
        let needed = self.is_dense() || self.array.cell_order == Some(Layout::Hilbert);
        let mut dimensions = self.dimensions.iter();
        needed && dimensions.any(|column| column.chosen.domain.is_none())
    }

    /// Fails if an array or anything else is at `storage`.
    pub async fn check_vacant(&self, storage: &Storage) -> Result<()> {
        let vacant = execute::check_vacant(storage).await;
        vacant
            .map(|_| ())
            .map_err(|e| e.with("array", storage.uri()))
    }

    /// The names of the dimensions.
    pub fn dimensions(&self) -> impl Iterator<Item = &str> {
        self.dimensions.iter().map(|column| column.name.as_str())
    }

    /// Whether a domain was chosen for a dimension.
    pub fn has_domain(&self, dimension: &str) -> bool {
        self.coordinate(dimension)
            .is_some_and(|column| column.chosen.domain.is_some())
    }

    /// Whether cells lie in a space of floats, and neither their order nor tiles were chosen.
    pub fn may_follow_hilbert(&self) -> bool {
        let array = &self.array;
        let undecided = array.cell_order.is_none() && array.tile_order.is_none();
        let of_space = |column: &BuilderColumn<DimensionSettings>| {
            matches!(column.declared, DataType::Float32 | DataType::Float64)
                && column.chosen.stored.is_none()
                && column.chosen.tile.is_none()
        };
        let space = self.dimensions.len() > 1 && self.dimensions.iter().all(of_space);
        undecided && space && !self.is_dense()
    }

    /// Makes cells follow the Hilbert curve.
    pub fn suggest_hilbert(&mut self) {
        self.array.cell_order.get_or_insert(Layout::Hilbert);
    }

    /// Makes a domain of the least and the greatest value of a column, which are arrays of one row. With `room`, the distance
    /// between them is added on either side. Returns the domain as text; `None` if the dimension takes no domain, or has one
    /// already.
    ///
    /// # Errors
    /// The values do not fit the type of the dimension.
    pub fn suggest_domain(
        &mut self,
        dimension: &str,
        ends: [&ArrayRef; 2],
        room: bool,
        options: &TypeOptions,
    ) -> Result<Option<String>> {
        let column = self.coordinate_mut(dimension)?;
        if column.chosen.domain.is_some() {
            return Ok(None);
        }
        let Some((datatype, [mut low, mut high])) = stored_ends(column, ends, options)? else {
            return Ok(None);
        };
        if datatype.is_float() {
            let ends = [&low, &high].map(|end| integer::float(end));
            if !ends.iter().all(|end| end.is_finite()) {
                return Ok(None);
            }
            if room {
                [low, high] = with_room(datatype, ends);
            }
        }
        let shown = format!(
            "[{}, {}]",
            show_element(datatype, &low),
            show_element(datatype, &high)
        );
        column.chosen.domain = Some((LiteralValue::Bytes(low), LiteralValue::Bytes(high)));
        Ok(Some(shown))
    }

    /// The dimensions of a sparse array except the one by which cells are sorted first within a space tile; `None` if a
    /// dimension is of text, or if tiles or their order were chosen.
    pub fn cut_dimensions(&self) -> Option<Vec<String>> {
        let array = &self.array;
        let open = !self.is_dense()
            && array.tile_order.is_none()
            && array.cell_order != Some(Layout::Hilbert);
        let of_numbers = |column: &BuilderColumn<DimensionSettings>| {
            let stored = dimension_type(column);
            column.chosen.tile.is_none() && stored.is_ok_and(|ty| !ty.datatype.is_string())
        };
        if !open || !self.dimensions.iter().all(of_numbers) {
            return None;
        }
        let mut names = self.dimensions().map(str::to_owned).collect::<Vec<_>>();
        match array.cell_order {
            Some(Layout::ColMajor) => drop(names.pop()),
            _ => drop(names.drain(..names.len().min(1))),
        }
        Some(names).filter(|names| !names.is_empty())
    }

    /// Cuts the range between the least and the greatest value of a column into `parts` space tiles. A dimension of floats gets
    /// a domain around these values, because an extent would be nothing beside the domain of all floats. Returns the choices as
    /// options and their values.
    ///
    /// # Errors
    /// The values do not fit the type of the dimension.
    pub fn suggest_tile(
        &mut self,
        dimension: &str,
        ends: [&ArrayRef; 2],
        parts: u64,
        options: &TypeOptions,
    ) -> Result<Vec<(&'static str, String)>> {
        let column = self.coordinate_mut(dimension)?;
        let Some((datatype, [low, high])) = stored_ends(column, ends, options)? else {
            return Ok(Vec::new());
        };
        let mut chosen = Vec::new();
        let tile = if datatype.is_float() {
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            let side = (integer::float(&high) - integer::float(&low)) / parts as f64;
            let tile = integer::float_bytes(datatype, side);
            let stored = integer::float(&tile);
            if !stored.is_finite() || stored <= 0.0 {
                return Ok(chosen);
            }
            if let Some(domain) = self.suggest_domain(dimension, ends, true, options)? {
                chosen.push(("domain", domain));
            }
            chosen.push(("tile", show_element(datatype, &tile)));
            tile
        } else {
            let size = IntegerSpan::new(datatype, &low, &high)?.size();
            let parts = i128::from(parts).clamp(1, size.max(1));
            let extent = size.saturating_add(parts - 1) / parts;
            if !holds(column, datatype, extent, [&low, &high])? {
                return Ok(chosen);
            }
            chosen.push(("tile", extent.to_string()));
            integer::bytes(datatype, extent)
        };
        self.coordinate_mut(dimension)?.chosen.tile = Some(LiteralValue::Bytes(tile));
        Ok(chosen)
    }

    /// The keys of the least and the greatest value of a column; `None` if it is a dimension of text.
    ///
    /// # Errors
    /// The values do not fit the type of the dimension.
    pub fn key_range(
        &self,
        dimension: &str,
        ends: [&ArrayRef; 2],
        options: &TypeOptions,
    ) -> Result<Option<(u64, u64)>> {
        let Some(column) = self.coordinate(dimension) else {
            return Ok(None);
        };
        let Some((datatype, [mut low, mut high])) = stored_ends(column, ends, options)? else {
            return Ok(None);
        };
        // Both zeros are equal, and their keys are not.
        for (end, zero) in [(&mut low, -0.0), (&mut high, 0.0)] {
            if datatype.is_float() && integer::float(end) == 0.0 {
                *end = integer::float_bytes(datatype, zero);
            }
        }
        Ok(Some((
            key::key(datatype, &low)?,
            key::key(datatype, &high)?,
        )))
    }

    /// The number of cells of the domain of a dense array; `None` if the array is sparse, or has more than can be counted.
    ///
    /// # Errors
    /// There can be no such array.
    pub fn dense_cells(&self) -> Result<Option<u128>> {
        if !self.is_dense() {
            return Ok(None);
        }
        let mut cells = Some(1_u128);
        for dimension in &self.definition()?.schema.dimensions {
            let Some((low, high)) = &dimension.domain else {
                return Ok(None);
            };
            let size = IntegerSpan::new(dimension.datatype, low, high)?.size();
            let size = u128::try_from(size).ok();
            cells = cells
                .zip(size)
                .and_then(|(cells, size)| cells.checked_mul(size));
        }
        Ok(cells)
    }

    /// The number of cells in a tile of a sparse array, if it was chosen.
    pub fn capacity(&self) -> Option<u64> {
        self.array.capacity
    }

    /// Sets the number of cells in a tile of a sparse array, unless it was chosen; returns whether it was set.
    pub fn suggest_capacity(&mut self, capacity: u64) -> bool {
        let open = self.array.capacity.is_none() && !self.is_dense();
        if open {
            self.array.capacity = Some(capacity);
        }
        open
    }

    /// Whether a column is an attribute of text, without a choice that excludes an enumeration.
    pub fn may_be_enumerated(&self, attribute: &str) -> bool {
        let column = self.attributes.iter().find(|c| c.name == attribute);
        column.is_some_and(|column| {
            let chosen = &column.chosen;
            let text = matches!(
                column.declared,
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            );
            let undecided = chosen.stored.is_none()
                && chosen.filters.is_none()
                && chosen.fill.is_none()
                && !chosen.is_enumerated()
                && !chosen.never_enumerated;
            text && undecided
        })
    }

    /// Makes an attribute an enumeration of these values. The name of the enumeration shows that the user didn't choose it.
    pub fn suggest_enumeration(&mut self, attribute: &str, values: Vec<String>) {
        if !self.may_be_enumerated(attribute) {
            return;
        }
        if let Some(column) = self.attributes.iter_mut().find(|c| c.name == attribute) {
            let name = &mut column.chosen.enumeration_name;
            name.get_or_insert_with(|| format!("{attribute}{SUGGESTED}"));
            column.chosen.enumeration = Some(EnumerationMembers {
                values: values
                    .into_iter()
                    .map(EnumerationMember::Verbatim)
                    .collect(),
                ordered: false,
            });
        }
    }

    /// Whether no filters were chosen for a column.
    pub fn are_filters_open(&self, column: &str) -> bool {
        let attribute = self.attributes.iter().find(|c| c.name == column);
        let dimension = self.coordinate(column);
        dimension.is_some_and(|c| c.chosen.filters.is_none() && self.array.coords_filters.is_none())
            || attribute.is_some_and(|c| c.chosen.filters.is_none())
    }

    /// Sets the filters of a column.
    pub fn suggest_filters(&mut self, column: &str, filters: FilterList) {
        if !self.are_filters_open(column) {
            return;
        }
        if let Some(found) = self.dimensions.iter_mut().find(|c| c.name == column) {
            found.chosen.filters = Some(filters);
        } else if let Some(found) = self.attributes.iter_mut().find(|c| c.name == column) {
            found.chosen.filters = Some(filters);
        }
    }

    fn coordinate_mut(&mut self, name: &str) -> Result<&mut BuilderColumn<DimensionSettings>> {
        let column = self
            .dimensions
            .iter_mut()
            .find(|column| column.name == name);
        column.ok_or_else(|| Error::internal("there is no such dimension"))
    }

    fn coordinate(&self, name: &str) -> Option<&BuilderColumn<DimensionSettings>> {
        self.dimensions.iter().find(|column| column.name == name)
    }
}

/// Whether two values lie in the domain of a dimension whose space tiles have this many steps. The last tile must end within
/// the type.
fn holds(
    column: &BuilderColumn<DimensionSettings>,
    datatype: Datatype,
    extent: i128,
    ends: [&Vec<u8>; 2],
) -> Result<bool> {
    let Ok(extent) = u64::try_from(extent) else {
        return Ok(false);
    };
    let [low, high] = ends;
    if let Some((first, last)) = &column.chosen.domain {
        let domain = IntegerSpan::new(
            datatype,
            &first.element(datatype)?,
            &last.element(datatype)?,
        )?;
        return Ok(domain.has_room(extent));
    }
    let Some((first, last)) = defaults::domain(datatype, Some(extent)) else {
        return Ok(false);
    };
    let (domain, given) = (
        IntegerSpan::new(datatype, &first, &last)?,
        IntegerSpan::new(datatype, low, high)?,
    );
    Ok(domain.low <= given.low && given.high <= domain.high)
}

/// The type of a dimension, and two values of it as they are stored; `None` for text.
fn stored_ends(
    column: &BuilderColumn<DimensionSettings>,
    ends: [&ArrayRef; 2],
    options: &TypeOptions,
) -> Result<Option<(Datatype, [Vec<u8>; 2])>> {
    let stored = dimension_type(column)?;
    if stored.datatype.is_string() {
        return Ok(None);
    }
    let described = Dimension {
        name: column.name.clone(),
        datatype: stored.datatype,
        cell_val_num: stored.count,
        filters: FilterList::of([]),
        domain: None,
        extent: None,
    };
    let ty = ColumnType::of_dimension(&described, options)?;
    let shown = ty.data_type().clone();
    let writer = CellWriter::new(ty, false)?;
    let bytes = |end: &ArrayRef| {
        let end = cast(end, &shown).map_err(|e| Error::invalid(e.to_string()))?;
        let mut cells = writer.no_cells();
        let appended = writer.append(&end, &mut cells);
        appended.map_err(|refused| refused.why)?;
        Ok(cells.values)
    };
    let [low, high] = ends.map(bytes);
    let low = low.context("dimension", || &column.name)?;
    let high = high.context("dimension", || &column.name)?;
    Ok(Some((stored.datatype, [low, high])))
}

/// A range of floats, extended on either side by its width.
fn with_room(datatype: Datatype, [low, high]: [f64; 2]) -> [Vec<u8>; 2] {
    let (least, most) = match datatype {
        Datatype::Float32 => (f64::from(f32::MIN), f64::from(f32::MAX)),
        _ => (f64::MIN, f64::MAX),
    };
    // Equal ends get room that any float can distinguish from them.
    let width = match high - low {
        0.0 => low.abs().max(1.0),
        width => width,
    };
    let [low, high] = [(low - width).max(least), (high + width).min(most)];
    [low, high].map(|end| integer::float_bytes(datatype, end))
}
