//! What a look at the rows suggests for an array. Nothing that was chosen is changed.

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::DataType;

use super::resolve::dimension_type;
use super::settings::{DimensionSettings, Member, Members};
use super::{ArrayBuilder, Column, execute};
use crate::arrow::{CellWriter, ColumnType, TypeOptions};
use crate::error::{Error, Result, ResultExt};
use crate::format::datatype::Datatype;
use crate::format::filter_list::FilterList;
use crate::format::schema::{ArrayType, Dimension, Layout};
use crate::storage::Storage;
use crate::write::create::integer::{self, Span};
use crate::write::create::literal::{Value, show_element};

impl ArrayBuilder {
    /// Whether it makes a dense array.
    pub(crate) fn is_dense(&self) -> bool {
        self.array.array_type == Some(ArrayType::Dense)
    }

    /// Whether some domain must be chosen before there can be such an array.
    pub(crate) fn lacks_domains(&self) -> bool {
        let needed = self.is_dense() || self.array.cell_order == Some(Layout::Hilbert);
        let mut dimensions = self.dimensions.iter();
        needed && dimensions.any(|column| column.chosen.domain.is_none())
    }

    /// Fails if an array or anything else is at `storage`.
    pub(crate) async fn check_vacant(&self, storage: &Storage) -> Result<()> {
        let vacant = execute::check_vacant(storage).await;
        vacant.map_err(|e| e.with("array", storage.uri()))
    }

    /// The names of the dimensions.
    pub(crate) fn dimensions(&self) -> impl Iterator<Item = &str> {
        self.dimensions.iter().map(|column| column.name.as_str())
    }

    /// Whether a dimension has a domain that was chosen.
    pub(crate) fn has_domain(&self, dimension: &str) -> bool {
        self.coordinate(dimension)
            .is_some_and(|column| column.chosen.domain.is_some())
    }

    /// Whether cells lie in a space of floats, and nothing was said of the order in which they are stored.
    pub(crate) fn may_follow_hilbert(&self) -> bool {
        let array = &self.array;
        let undecided = array.cell_order.is_none() && array.tile_order.is_none();
        let of_space = |column: &Column<DimensionSettings>| {
            matches!(column.declared, DataType::Float32 | DataType::Float64)
                && column.chosen.stored.is_none()
                && column.chosen.tile.is_none()
        };
        let space = self.dimensions.len() > 1 && self.dimensions.iter().all(of_space);
        undecided && space && !self.is_dense()
    }

    /// Makes cells follow the Hilbert curve.
    pub(crate) fn suggest_hilbert(&mut self) {
        self.array.cell_order.get_or_insert(Layout::Hilbert);
    }

    /// Makes a domain of the least and the greatest value of a column, each the only row of an array; with `room`, as much is
    /// added on either side as lies between them. Returns the domain as text; `None` if there can be none, or one was chosen.
    ///
    /// # Errors
    /// The values do not fit the type of the dimension.
    pub(crate) fn suggest_domain(
        &mut self,
        dimension: &str,
        ends: [&ArrayRef; 2],
        room: bool,
        options: &TypeOptions,
    ) -> Result<Option<String>> {
        let position = self.dimensions.iter().position(|c| c.name == dimension);
        let Some(column) = position.and_then(|at| self.dimensions.get_mut(at)) else {
            return Err(Error::internal("there is no such dimension"));
        };
        let stored = dimension_type(column)?;
        if column.chosen.domain.is_some() || stored.datatype.is_string() {
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
        let (mut low, mut high) = (
            low.context("dimension", || dimension)?,
            high.context("dimension", || dimension)?,
        );
        if stored.datatype.is_float() {
            let ends = [&low, &high].map(|end| integer::float(end));
            if !ends.iter().all(|end| end.is_finite()) {
                return Ok(None);
            }
            if room {
                [low, high] = with_room(stored.datatype, ends);
            }
        }
        let shown = format!(
            "[{}, {}]",
            show_element(stored.datatype, &low),
            show_element(stored.datatype, &high)
        );
        column.chosen.domain = Some((Value::Bytes(low), Value::Bytes(high)));
        Ok(Some(shown))
    }

    /// The number of cells of the domain of a dense array; `None` if it is no such array, or has more than can be counted.
    ///
    /// # Errors
    /// There can be no such array.
    pub(crate) fn dense_cells(&self) -> Result<Option<u128>> {
        if !self.is_dense() {
            return Ok(None);
        }
        let mut cells = Some(1_u128);
        for dimension in &self.definition()?.schema.dimensions {
            let Some((low, high)) = &dimension.domain else {
                return Ok(None);
            };
            let size = Span::new(dimension.datatype, low, high)?.size();
            let size = u128::try_from(size).ok();
            cells = cells
                .zip(size)
                .and_then(|(cells, size)| cells.checked_mul(size));
        }
        Ok(cells)
    }

    /// The number of cells in a tile of a sparse array, if it was chosen.
    pub(crate) fn capacity(&self) -> Option<u64> {
        self.array.capacity
    }

    /// Sets the number of cells in a tile of a sparse array; returns whether that was open.
    pub(crate) fn suggest_capacity(&mut self, capacity: u64) -> bool {
        let open = self.array.capacity.is_none() && !self.is_dense();
        if open {
            self.array.capacity = Some(capacity);
        }
        open
    }

    /// Whether a column is an attribute of text of which nothing was chosen that speaks against an enumeration.
    pub(crate) fn may_be_enumerated(&self, attribute: &str) -> bool {
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

    /// Makes an attribute an enumeration of these values.
    pub(crate) fn suggest_enumeration(&mut self, attribute: &str, values: Vec<String>) {
        if !self.may_be_enumerated(attribute) {
            return;
        }
        if let Some(column) = self.attributes.iter_mut().find(|c| c.name == attribute) {
            column.chosen.enumeration = Some(Members {
                values: values.into_iter().map(Member::Verbatim).collect(),
                ordered: false,
            });
        }
    }

    /// Whether nothing was said of the filters of a column.
    pub(crate) fn are_filters_open(&self, column: &str) -> bool {
        let attribute = self.attributes.iter().find(|c| c.name == column);
        let dimension = self.coordinate(column);
        dimension.is_some_and(|c| c.chosen.filters.is_none() && self.array.coords_filters.is_none())
            || attribute.is_some_and(|c| c.chosen.filters.is_none())
    }

    /// Sets the filters of a column.
    pub(crate) fn suggest_filters(&mut self, column: &str, filters: FilterList) {
        if !self.are_filters_open(column) {
            return;
        }
        if let Some(found) = self.dimensions.iter_mut().find(|c| c.name == column) {
            found.chosen.filters = Some(filters);
        } else if let Some(found) = self.attributes.iter_mut().find(|c| c.name == column) {
            found.chosen.filters = Some(filters);
        }
    }

    fn coordinate(&self, name: &str) -> Option<&Column<DimensionSettings>> {
        self.dimensions.iter().find(|column| column.name == name)
    }
}

/// A range of floats, and as much on either side of it as it is wide.
fn with_room(datatype: Datatype, [low, high]: [f64; 2]) -> [Vec<u8>; 2] {
    let (least, most) = match datatype {
        Datatype::Float32 => (f64::from(f32::MIN), f64::from(f32::MAX)),
        _ => (f64::MIN, f64::MAX),
    };
    // Equal ends have a room that any float can tell from them.
    let width = match high - low {
        0.0 => low.abs().max(1.0),
        width => width,
    };
    let [low, high] = [(low - width).max(least), (high + width).min(most)];
    [low, high].map(|end| integer::float_bytes(datatype, end))
}
