//! What a unit asks of the storage.

use std::sync::Arc;

use super::fragment;
use crate::array::window::Visibility;
use crate::error::Result;
use crate::geometry::subarray::DimRanges;
use crate::scan::context::ScanContext;
use crate::scan::plan::sparse_units::{CellVersions, SparseUnit, TileRef};
use crate::tile::fetch::{FetchList, TileTicket};
use crate::tile::fields::ColumnRequest;

/// What the first round asks for one tile.
pub(super) struct FirstRound {
    pub tile: TileRef,
    /// Dimensions whose coordinates are tested or compared.
    pub coordinates: Vec<ColumnRequest>,
    /// Other fields whose stored cells deletes look at.
    pub by_deletes: Vec<ColumnRequest>,
    /// Other columns.
    pub columns: Vec<ColumnRequest>,
    /// Which of the fields looked at are wanted as columns.
    pub wanted: Vec<usize>,
    pub timestamps: Option<TileTicket>,
    pub delete_times: Option<TileTicket>,
    /// Whether cells are only compared, and become no rows.
    pub witness: bool,
}

pub(super) struct UnitReader<'a> {
    pub context: &'a Arc<ScanContext>,
    pub unit: &'a SparseUnit,
}

/// A unit asks for few places if there is one for so many cells.
const CELLS_PER_COORDINATE: u64 = 64;

impl UnitReader<'_> {
    /// Whether most tiles will have no cell in the ranges, or next to none: then their other columns wait.
    pub fn asks_for_few(&self) -> bool {
        let subarray = self.unit.clip.as_ref().unwrap_or(&self.context.subarray);
        let coordinates = subarray.dims().iter().map(DimRanges::distinct_values);
        let coordinates = coordinates.fold(1_u64, u64::saturating_mul);
        coordinates.saturating_mul(CELLS_PER_COORDINATE) <= self.unit.cells
    }

    /// Whether cells are compared with each other.
    fn compares(&self) -> bool {
        self.unit.versions != CellVersions::None
    }

    /// The dimensions of a tile whose values must be looked at.
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
        let delete_columns = match tile.no_deletes {
            true => &[],
            false => scan.delete_columns(),
        };
        let by_deletes = delete_columns.iter().copied();
        let by_deletes = by_deletes.filter(|c| !coordinates.contains(c));
        let by_deletes = by_deletes.collect::<Vec<_>>();
        let looked_at = || coordinates.iter().chain(&by_deletes).copied();
        let rest = columns.iter().copied();
        let rest = rest.filter(|column| looked_at().all(|c| c != *column));
        let all = looked_at().chain(rest).collect::<Vec<_>>();
        let mut asked = self.ask(tile, &all, list).await?;
        let mut by_deletes_asked = asked.split_off(coordinates.len());
        let columns_asked = by_deletes_asked.split_off(by_deletes.len());
        // What is read anyway serves the second round, too.
        let projected = |c: &usize| self.context.plan.spec.projection.contains(c);
        let wanted = looked_at().filter(|c| columns.contains(c) || projected(c));
        let wanted = wanted.collect();
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
            witness: false,
        })
    }

    /// What is compared of a witness.
    pub async fn witness(&self, tile: &TileRef, list: &mut FetchList) -> Result<FirstRound> {
        Ok(FirstRound {
            tile: *tile,
            timestamps: self.ask_timestamps(tile, list).await?,
            delete_times: None,
            coordinates: self.ask(tile, &self.coordinates(tile), list).await?,
            by_deletes: Vec::new(),
            columns: Vec::new(),
            wanted: Vec::new(),
            witness: true,
        })
    }

    /// When the cells of a tile were written, where that may decide.
    async fn ask_timestamps(
        &self,
        tile: &TileRef,
        list: &mut FetchList,
    ) -> Result<Option<TileTicket>> {
        let scan = fragment(&self.context.plan, tile)?;
        let partly = scan.fragment.visibility == Visibility::ByCell;
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

    /// Of `columns`, those that the first round does not bring.
    pub fn missing(&self, request: &FirstRound, columns: &[usize]) -> Vec<usize> {
        let missing = columns.iter().filter(|c| !request.wanted.contains(c));
        missing.copied().collect()
    }

    /// Memory for the decoded tile, both rounds.
    pub fn decoded_bytes(&self, request: &FirstRound, later: &[ColumnRequest]) -> Result<usize> {
        let scan = fragment(&self.context.plan, &request.tile)?;
        let cells = request.tile.cells;
        // What compares cells that lie anywhere asks for its memory itself, when it knows how many there are.
        let per_cell = match self.unit.versions {
            CellVersions::None => 1,
            CellVersions::Neighbours => 24,
            CellVersions::Anywhere => 2,
        };
        // Two times and a few marks.
        let per_cell = per_cell + if request.tile.no_deletes { 0 } else { 20 };
        let mut bytes = cells.saturating_mul(per_cell);
        let first = request.coordinates.iter().chain(&request.by_deletes);
        for column in first.chain(&request.columns).chain(later) {
            bytes = bytes.saturating_add(scan.decoded_bytes(column, cells)?);
        }
        Ok(bytes)
    }
}
