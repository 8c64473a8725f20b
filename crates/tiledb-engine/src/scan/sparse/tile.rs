//! The cells of one tile, from filtered bytes to rows.

mod text;

use super::TileState;
use super::decoder::TileDecoder;
use super::request::FirstRound;
use super::search::{self, TileSearch, search_by};
use crate::array::fragment::TileIdx;
use crate::array::table::ArrayTable;
use crate::array::window::WindowVisibility;
use crate::arrow::{ColumnType, UnfilteredCells, check_memory};
use crate::error::{Error, Result};
use crate::format::schema::Layout;
use crate::geometry::cell_order::GlobalOrder;
use crate::geometry::subarray::Subarray;
use crate::scan::plan::sparse_units::{CellVersions, SparseUnit};
use crate::scan::rows::DecodedColumns;
use crate::scan::sparse::tile::text::ConditionTexts;
use crate::scan::spec::Predicate;
use crate::tile::coordinates::DimCells;
use crate::tile::deletes::CellTimes;
use crate::tile::fields::{ColumnRequest, FragmentScan};
use crate::tile::selection;
use crate::tile::tile_memory::DecodeScratch;
use crate::tile::visibility::{ComparedCells, ComparedTile, TimedTile};

/// A tile while its cells are tested.
pub(super) struct TileWork<'a> {
    pub(super) decoder: TileDecoder<'a>,
    pub(super) request: FirstRound,
    /// The decoded cells of the fields read so far, by column; fields that are not decoded yet are in the request.
    stored: Vec<(usize, UnfilteredCells)>,
    timestamps: Option<Vec<u64>>,
    /// The cells that are left, selected by `true`; empty if all are. It is allocated only after a field has been
    /// decoded, because the number of cells in the metadata may be wrong.
    pub(super) mask: Vec<bool>,
}

impl<'a> TileWork<'a> {
    pub fn new(decoder: TileDecoder<'a>, request: FirstRound) -> Self {
        Self {
            decoder,
            request,
            stored: Vec::new(),
            timestamps: None,
            mask: Vec::new(),
        }
    }

    /// Fragment and number of the tile.
    pub fn tile_key(&self) -> (usize, TileIdx) {
        (self.request.tile.fragment, self.request.tile.tile)
    }

    /// Whether no cell is left.
    pub fn is_empty(&self) -> bool {
        !self.mask.is_empty() && !selection::any_selected(&self.mask)
    }

    /// Whether its cells are only compared, and become no rows.
    pub fn is_comparison_tile(&self) -> bool {
        self.request.is_comparison_tile
    }

    /// The array as a table.
    pub fn table(&self) -> &'a ArrayTable {
        self.decoder.of.table
    }

    /// How many cells are left.
    pub fn count(&self) -> usize {
        if self.mask.is_empty() {
            self.decoder.of.cells
        } else {
            self.mask
                .iter()
                .map(|selected| usize::from(*selected))
                .sum()
        }
    }

    /// The cells that are left, as a list.
    pub fn asked(&self) -> ComparedCells {
        if self.mask.is_empty() {
            ComparedCells::All(self.decoder.of.cells)
        } else {
            ComparedCells::new(&self.mask)
        }
    }

    /// Deselects a cell.
    pub fn hide(&mut self, cell: usize) {
        self.mask.resize(self.decoder.of.cells, true);
        if let Some(selected) = self.mask.get_mut(cell) {
            *selected = false;
        }
    }

    /// Selects the cells that lie in the time window and in the ranges of the unit.
    pub fn locate(&mut self, unit: &SparseUnit, scratch: &mut DecodeScratch) -> Result<()> {
        let (scan, of) = (self.decoder.scan, self.decoder.of);
        if scan.fragment.visibility == WindowVisibility::ByCell {
            self.decode_timestamps(scratch)?;
            if let Some(timestamps) = &self.timestamps {
                let window = of.table.snapshot.window;
                let window = window.start.0..=window.end_or_now().0;
                let inside = timestamps.iter().map(|time| window.contains(time));
                self.mask = inside.collect();
            }
        }
        if let Some(within) = &unit.within {
            // Perhaps no field has been decoded yet, and the number of cells in the metadata is wrong.
            check_memory(of.cells)?;
            self.mask.resize(of.cells, true);
            let inside = |(cell, selected): (usize, &mut bool)| *selected &= within.contains(&cell);
            self.mask.iter_mut().enumerate().for_each(inside);
        }
        let subarray = unit.clip.as_ref().unwrap_or(&self.decoder.context.subarray);
        let coordinates = self
            .request
            .coordinates
            .iter()
            .map(|r| r.column)
            .collect::<Vec<_>>();
        if !self.request.tile.covered {
            self.search(subarray, scratch)?;
        }
        for d in coordinates {
            if self.is_empty() {
                break;
            }
            let ranges = subarray.dim(d);
            let tested = !self.request.tile.covered && !ranges.is_all();
            // Where only neighbours are compared, coordinates are decoded when they are needed.
            if tested || unit.versions == CellVersions::Anywhere {
                self.decode_coordinates(d, scratch)?;
            }
            if tested {
                let mut mask = std::mem::take(&mut self.mask);
                mask.resize(of.cells, true);
                self.coordinates(d)?.select_inside(ranges, &mut mask);
                self.mask = mask;
            }
        }
        Ok(())
    }

    /// Searches a dimension by the order of its cells for those in the subarray, and deselects the others as far as the
    /// skipped chunks tell.
    fn search(&mut self, subarray: &Subarray, scratch: &mut DecodeScratch) -> Result<()> {
        let (of, plan) = (self.decoder.of, &self.decoder.context.plan);
        let schema = &of.table.snapshot.schema;
        let few = of.cells < search::FEWEST_CELLS;
        if few || !plan.spec.ways.cell_search || schema.cell_order == Layout::Hilbert {
            return Ok(());
        }
        let order = GlobalOrder::new(schema)?;
        let tile = self.request.tile;
        let requests = &self.request.coordinates;
        let request = |d: usize| requests.iter().position(|request| request.column == d);
        let searched = |d: usize| {
            let request = request(d).and_then(|index| requests.get(index));
            let scan = self.decoder.scan;
            !subarray.dim(d).is_all() && request.is_some_and(|r| scan.can_be_searched(r))
        };
        let boxes = plan.boxes.get(tile.fragment);
        let Some(boxes) = boxes.filter(|boxes| boxes.are_in_order()) else {
            return Ok(());
        };
        let ends = |d: usize| boxes.keys(tile.tile.get(), d);
        let by = search_by(&schema.dimensions, &order, ends, searched);
        let found = by.and_then(|by| Some((request(by.dimension)?, by)));
        let Some((index, by)) = found else {
            return Ok(());
        };
        let d = by.dimension;
        let request = self.request.coordinates.remove(index);
        let datatype = of
            .table
            .types
            .get(d)
            .map(ColumnType::datatype)
            .ok_or_else(|| Error::internal("a dimension has no type"))?;
        let mut search = TileSearch::new(&by, datatype, &order, subarray.dim(d));
        let cells = self.decoder.search(&request, &mut search, scratch)?;
        self.mask.resize(of.cells, true);
        search.select(&mut self.mask);
        self.stored.push((d, cells));
        Ok(())
    }

    /// Decodes the coordinates of a dimension, unless they are decoded already.
    pub fn decode_coordinates(&mut self, d: usize, scratch: &mut DecodeScratch) -> Result<()> {
        let mut requests = self.request.coordinates.iter();
        if let Some(index) = requests.position(|request| request.column == d) {
            let request = self.request.coordinates.remove(index);
            let cells = self.decoder.cells(&request, &self.mask, scratch)?;
            self.stored.push((d, cells));
        }
        Ok(())
    }

    /// Decodes the times at which cells were written, if they are requested and not decoded yet.
    pub fn decode_timestamps(&mut self, scratch: &mut DecodeScratch) -> Result<()> {
        if self.timestamps.is_none() {
            let ticket = self.request.timestamps;
            self.timestamps = self.decoder.times(ticket, scratch)?;
        }
        Ok(())
    }

    /// The decoded coordinates of a dimension.
    pub fn coordinates(&self, d: usize) -> Result<DimCells<'_>> {
        dim_cells(self.decoder.scan, &self.stored, d)
    }

    /// What decides between the versions in the tile; coordinates and times must be decoded.
    pub fn timed(&self, floats: &[usize]) -> Result<TimedTile<'_>> {
        let times = self.timestamps.as_deref();
        let missing = || {
            Error::internal("a fragment with versions of cells does not say when they were written")
        };
        Ok(TimedTile {
            times: times.ok_or_else(missing)?,
            floats: floats
                .iter()
                .map(|d| self.coordinates(*d))
                .collect::<Result<_>>()?,
        })
    }

    /// The tile for comparison with other tiles that may hide its cells.
    pub fn compared(&mut self, scratch: &mut DecodeScratch) -> Result<ComparedTile<'_>> {
        self.decode_timestamps(scratch)?;
        let (scan, of) = (self.decoder.scan, self.decoder.of);
        self.mask.resize(of.cells, true);
        let dimensions = 0..of.table.dimension_count();
        let dims = dimensions.map(|d| dim_cells(scan, &self.stored, d));
        Ok(ComparedTile {
            age: self.request.tile.fragment,
            fragment_time: scan.fragment.name.t1,
            timestamps: self.timestamps.as_deref(),
            dims: dims.collect::<Result<_>>()?,
            mask: &mut self.mask,
        })
    }

    /// Drops the coordinates that were decoded only to be compared.
    pub fn forget_coordinates(&mut self) {
        let (wanted, by_deletes) = (&self.request.wanted, self.decoder.scan.delete_columns());
        self.stored
            .retain(|(column, _)| wanted.contains(column) || by_deletes.contains(column));
    }

    /// Deselects the cells that a delete condition matches.
    pub fn drop_deleted(&mut self, scratch: &mut DecodeScratch) -> Result<()> {
        if self.request.tile.no_deletes || self.is_empty() {
            return Ok(());
        }
        let (scan, of) = (self.decoder.scan, self.decoder.of);
        for column in scan.delete_columns() {
            self.decode_coordinates(*column, scratch)?;
        }
        if scan.deletes().needs_timestamps() {
            self.decode_timestamps(scratch)?;
        }
        for request in std::mem::take(&mut self.request.by_deletes) {
            let cells = self.decoder.cells(&request, &self.mask, scratch)?;
            self.stored.push((request.column, cells));
        }
        let ticket = self.request.delete_times;
        let delete_times = self.decoder.times(ticket, scratch)?;
        let times = CellTimes {
            written: self.timestamps.as_deref(),
            deleted: delete_times.as_deref(),
        };
        let find = |column: &usize| {
            let found = self
                .stored
                .iter()
                .find(|(c, _)| c == column)
                .map(|(_, cells)| cells);
            found.ok_or_else(|| Error::internal("a field of a delete was not decoded"))
        };
        let fields = scan
            .delete_columns()
            .iter()
            .map(find)
            .collect::<Result<Vec<_>>>()?;
        let end = of.table.snapshot.window.end_or_now().0;
        let survivors = scan
            .deletes()
            .survivors(&fields, times, end, of.cells)
            .map_err(|e| {
                e.with("data tile", of.tile.0)
                    .with("fragment", &scan.fragment.name.name)
            })?;
        let deleted = keep_survivors(survivors, &mut self.mask);
        self.decoder.context.metrics.cells_deleted.add(deleted);
        Ok(())
    }

    /// Evaluates the predicate, and copies the columns of the first round for the selected cells; `None` if no cell is
    /// left.
    pub fn into_rows(mut self, scratch: &mut DecodeScratch) -> Result<Option<TileState>> {
        let context = self.decoder.context;
        let tile = self.request.tile;
        if self.selection().is_empty() {
            return Ok(None);
        }
        let mut columns = DecodedColumns::new();
        for (column, cells) in std::mem::take(&mut self.stored) {
            if self.request.wanted.contains(&column) {
                columns.push((column, self.decoder.to_array(column, cells)?));
            }
        }
        let predicate = context.predicate.as_deref().filter(|_| !tile.proven);
        let conjunction = predicate.and_then(Predicate::conjunction);
        let searched = conjunction.filter(|_| context.plan.spec.ways.text_search);
        let (texts, rest) = match searched {
            Some(conjunction) => (conjunction.texts.as_slice(), conjunction.rest.as_deref()),
            None => (&[][..], predicate),
        };
        let mut strings = ConditionTexts::new();
        for text in texts {
            self.ask_text(text, &mut columns, &mut strings, scratch)?;
            if self.is_empty() {
                return Ok(None);
            }
        }
        // The projection may need coordinates that no test has decoded.
        let wanted = |request: &&ColumnRequest| self.request.wanted.contains(&request.column);
        let coordinates = self.request.coordinates.iter().filter(wanted);
        // A value that all cells share is repeated for the rows, once their number is known.
        let mut shared = Vec::new();
        for request in coordinates.chain(&self.request.columns) {
            if !request.is_stored() {
                shared.push(request.column);
                continue;
            }
            let column = self.decoder.column(request, &self.mask, scratch)?;
            columns.push((request.column, column));
        }
        let selection = self.meeting(rest, &columns, &strings)?;
        if selection.is_empty() {
            return Ok(None);
        }
        let projection = &context.plan.spec.projection;
        columns.retain(|(column, _)| projection.contains(column));
        let rows = selection.copier(columns.len());
        for (_, column) in &mut columns {
            *column = rows.copy(column)?;
        }
        shared.retain(|column| projection.contains(column));
        for column in shared {
            let rows = self.decoder.repeated(column, selection.count())?;
            columns.push((column, rows));
        }
        strings.retain(|(column, _)| projection.contains(column));
        if !strings.is_empty() {
            let indices = selection.indices();
            for (column, strings) in &strings {
                let array = self.decoder.strings_of(*column, strings, &indices)?;
                columns.push((*column, array));
            }
        }
        Ok(Some(TileState {
            tile,
            selection,
            columns,
        }))
    }
}

/// The coordinates of a dimension among the stored cells of fields.
fn dim_cells<'c>(
    scan: &FragmentScan,
    stored: &'c [(usize, UnfilteredCells)],
    d: usize,
) -> Result<DimCells<'c>> {
    let dimension = scan.fragment.schema.dimensions.get(d);
    let cells = stored.iter().find(|(column, _)| *column == d);
    let Some((dimension, (_, cells))) = dimension.zip(cells) else {
        return Err(Error::internal(format!("dimension {d} was not decoded")));
    };
    DimCells::new(dimension.datatype, cells).map_err(|e| {
        e.with("dimension", &dimension.name)
            .with("fragment", &scan.fragment.name.name)
    })
}

/// Deselects the cells that do not survive, and counts them. An empty mask selects all.
fn keep_survivors(survivors: Vec<bool>, mask: &mut Vec<bool>) -> usize {
    if mask.is_empty() {
        *mask = survivors;
        return mask.iter().filter(|selected| !**selected).count();
    }
    let mut deleted = 0;
    for (selected, survives) in mask.iter_mut().zip(survivors) {
        deleted += usize::from(*selected & !survives);
        *selected &= survives;
    }
    deleted
}
