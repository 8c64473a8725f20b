//! What a unit requests from the storage.

use std::ops::Range;

use super::fragment;
use crate::array::window::WindowVisibility;
use crate::error::Result;
use crate::geometry::subarray::DimRanges;
use crate::scan::context::ScanContext;
use crate::scan::plan::sparse_units::{CellVersions, SparseUnit, TileRef};
use crate::tile::fetch::{FetchList, TileTicket};
use crate::tile::fields::ColumnRequest;

/// The requests of the first round for one tile.
pub(super) struct FirstRound {
    pub tile: TileRef,
    /// Dimensions whose coordinates are tested or compared.
    pub coordinates: Vec<ColumnRequest>,
    /// Other fields whose stored cells delete conditions read.
    pub by_deletes: Vec<ColumnRequest>,
    /// Other columns.
    pub columns: Vec<ColumnRequest>,
    /// Those of the fields above that are also returned as columns.
    pub wanted: Vec<usize>,
    pub timestamps: Option<TileTicket>,
    pub delete_times: Option<TileTicket>,
    /// Whether the tile is a comparison tile: its cells are compared, and become no rows.
    pub is_comparison_tile: bool,
}

/// The requests for the tiles of a unit.
pub(super) struct UnitReader<'a> {
    context: &'a ScanContext,
    unit: &'a SparseUnit,
}

/// A unit selects few cells if its ranges have at most one coordinate for this many cells.
const CELLS_PER_COORDINATE: u64 = 64;

impl<'a> UnitReader<'a> {
    pub fn new(context: &'a ScanContext, unit: &'a SparseUnit) -> Self {
        Self { context, unit }
    }

    /// Whether the ranges can select few cells of the unit: then its other columns are left to the second round.
    pub fn asks_for_few(&self) -> bool {
        let subarray = self.unit.clip.as_ref().unwrap_or(&self.context.subarray);
        let coordinates = subarray
            .dims()
            .iter()
            .map(DimRanges::distinct_values)
            .fold(1_u64, u64::saturating_mul);
        coordinates.saturating_mul(CELLS_PER_COORDINATE) <= self.unit.cells
    }

    /// Whether cells are compared with each other.
    fn compares(&self) -> bool {
        self.unit.versions != CellVersions::None
    }

    /// The dimensions of a tile whose coordinates must be tested or compared.
    fn coordinates(&self, tile: &TileRef) -> Vec<usize> {
        let spec = &self.context.plan.spec;
        let subarray = self.unit.clip.as_ref().unwrap_or(&self.context.subarray);
        (0..spec.table.dimension_count())
            .filter(|d| self.compares() || (!tile.covered && !subarray.dim(*d).is_all()))
            .collect()
    }

    pub async fn first_round(
        &self,
        tile: &TileRef,
        columns: &[usize],
        list: &mut FetchList,
    ) -> Result<FirstRound> {
        let scan = fragment(&self.context.plan, tile)?;
        let coordinates = self.coordinates(tile);
        let delete_columns = if tile.no_deletes {
            &[]
        } else {
            scan.delete_columns()
        };
        let by_deletes = delete_columns
            .iter()
            .copied()
            .filter(|c| !coordinates.contains(c))
            .collect::<Vec<_>>();
        let looked_at = || coordinates.iter().chain(&by_deletes).copied();
        let rest = columns
            .iter()
            .copied()
            .filter(|column| looked_at().all(|c| c != *column));
        let all = looked_at().chain(rest).collect::<Vec<_>>();
        let mut asked = self.ask(tile, &all, list).await?;
        let mut by_deletes_asked = asked.split_off(coordinates.len());
        let columns_asked = by_deletes_asked.split_off(by_deletes.len());
        // What the first round reads serves the second round, too.
        let projected = |c: &usize| self.context.plan.spec.projection.contains(c);
        let wanted = looked_at()
            .filter(|c| columns.contains(c) || projected(c))
            .collect();
        let tiles = scan
            .tiles(&self.context.plan.spec.table.snapshot.storage)
            .await?;
        Ok(FirstRound {
            tile: *tile,
            timestamps: self.ask_timestamps(tile, list).await?,
            delete_times: scan.ask_delete_times(tiles, tile.tile, list)?,
            coordinates: asked,
            by_deletes: by_deletes_asked,
            columns: columns_asked,
            wanted,
            is_comparison_tile: false,
        })
    }

    /// The requests for a comparison tile: only what is compared.
    pub async fn comparison_tile(
        &self,
        tile: &TileRef,
        list: &mut FetchList,
    ) -> Result<FirstRound> {
        Ok(FirstRound {
            tile: *tile,
            timestamps: self.ask_timestamps(tile, list).await?,
            delete_times: None,
            coordinates: self.ask(tile, &self.coordinates(tile), list).await?,
            by_deletes: Vec::new(),
            columns: Vec::new(),
            wanted: Vec::new(),
            is_comparison_tile: true,
        })
    }

    /// Requests the times at which the cells of a tile were written, where they may decide.
    async fn ask_timestamps(
        &self,
        tile: &TileRef,
        list: &mut FetchList,
    ) -> Result<Option<TileTicket>> {
        let scan = fragment(&self.context.plan, tile)?;
        let partly = scan.fragment.visibility == WindowVisibility::ByCell;
        let by_time = !tile.no_deletes && scan.deletes().needs_timestamps();
        if !self.compares() && !partly && !by_time {
            return Ok(None);
        }
        let tiles = scan
            .tiles(&self.context.plan.spec.table.snapshot.storage)
            .await?;
        scan.ask_timestamps(tiles, tile.tile, list)
    }

    pub async fn ask(
        &self,
        tile: &TileRef,
        columns: &[usize],
        list: &mut FetchList,
    ) -> Result<Vec<ColumnRequest>> {
        let scan = fragment(&self.context.plan, tile)?;
        let tiles = scan
            .tiles(&self.context.plan.spec.table.snapshot.storage)
            .await?;
        scan.ask(tiles, columns, tile.tile, list)
    }

    /// Those of `columns` that the first round does not read.
    pub fn missing(&self, request: &FirstRound, columns: &[usize]) -> Vec<usize> {
        let missing = columns.iter().filter(|c| !request.wanted.contains(c));
        missing.copied().collect()
    }

    /// The memory that the decoded tile takes in both rounds.
    pub fn decoded_bytes(&self, request: &FirstRound, later: &[ColumnRequest]) -> Result<usize> {
        let scan = fragment(&self.context.plan, &request.tile)?;
        let cells = request.tile.cells;
        // Comparing cells that lie anywhere reserves its own memory, once their number is known.
        let per_cell = match self.unit.versions {
            CellVersions::None => 1,
            CellVersions::Neighbours => 24,
            CellVersions::Anywhere => 2,
        };
        // Two times and a few masks.
        let per_cell = per_cell + if request.tile.no_deletes { 0 } else { 20 };
        let mut bytes = cells.saturating_mul(per_cell);
        let first = request.coordinates.iter().chain(&request.by_deletes);
        let read = self.unit.within.as_ref().map_or(cells, Range::len);
        let table = &self.context.plan.spec.table;
        for column in first.chain(&request.columns).chain(later) {
            let cells = match column.is_stored() {
                true => cells,
                // The predicate takes a value for each cell that it tests, and the rows take one each.
                false if self.context.tests(column.column) => read.saturating_mul(2),
                false => read,
            };
            bytes = bytes.saturating_add(scan.decoded_bytes(table, column, cells)?);
        }
        Ok(bytes)
    }
}
