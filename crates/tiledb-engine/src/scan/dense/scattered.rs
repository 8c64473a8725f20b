//! Cells of sparse fragments in a dense array, whose coordinates are read before anything else.
//!
//! The coordinates of the tiles that may hold cells of a unit's clips are fetched together, each tile once. Then every
//! such clip is painted, and copies that turn out to supply nothing are not read.

use std::collections::HashMap;
use std::sync::Arc;

use super::clip::{ClipSource, TileClip};
use super::{dense_plan, fragment};
use crate::array::fragment::TileIdx;
use crate::error::{Error, Result};
use crate::memory::budget::MemoryBudget;
use crate::scan::context::ScanContext;
use crate::tile::coordinates::DimCells;
use crate::tile::decode::NeededCells;
use crate::tile::fetch::{FetchList, FetchedBytes};
use crate::tile::fields::{ColumnRequest, TileOf};
use crate::tile::tile_memory::DecodeScratch;

/// A tile of the plan: fragment and number.
type TileKey = (usize, TileIdx);

/// Paints the clips that have copies in sparse fragments.
pub(super) async fn resolve(
    context: &Arc<ScanContext>,
    clips: Vec<TileClip>,
) -> Result<Vec<TileClip>> {
    if !clips.iter().any(TileClip::has_scattered_copies) {
        return Ok(clips);
    }
    let table = &context.plan.spec.table;
    let storage = &table.snapshot.storage;
    let mut list = FetchList::default();
    let mut requests: HashMap<TileKey, (usize, Vec<ColumnRequest>)> = HashMap::new();
    let mut bytes = 0_usize;
    for copy in clips.iter().flat_map(|clip| &clip.copies) {
        let key = (copy.fragment, copy.tile);
        if copy.written.is_some() || requests.contains_key(&key) {
            continue;
        }
        let scan = fragment(&context.plan, copy)?;
        let tiles = scan.tiles(storage).await?;
        let dimensions = (0..table.dimension_count()).collect::<Vec<_>>();
        let asked = scan.ask(tiles, &dimensions, copy.tile, &mut list)?;
        for request in &asked {
            // The stored values, and the keys made of them.
            bytes = bytes
                .saturating_add(scan.decoded_bytes(table, request, copy.cells)?)
                .saturating_add(copy.cells.saturating_mul(8));
        }
        // The rows of its cells, and their numbers.
        bytes = bytes.saturating_add(copy.cells.saturating_mul(16));
        requests.insert(key, (copy.cells, asked));
    }
    let bytes = bytes.saturating_add(usize::try_from(list.bytes())?);
    let _grant = context.memory.reserve(bytes)?;
    let fetched = context.fetch(list).await?;
    context
        .decode(move |context, scratch| {
            let tiles = requests
                .into_iter()
                .map(|(key, (cells, requests))| {
                    let dims = coordinates(context, key, cells, &requests, &fetched, scratch)?;
                    Ok((key, dims))
                })
                .collect::<Result<HashMap<_, _>>>()?;
            paint(context, clips, &tiles)
        })
        .await
}

/// The keys of the coordinates of a tile's cells, dimension by dimension.
fn coordinates(
    context: &ScanContext,
    (number, tile): TileKey,
    cells: usize,
    requests: &[ColumnRequest],
    fetched: &FetchedBytes,
    scratch: &mut DecodeScratch,
) -> Result<Vec<Vec<u64>>> {
    let table = &context.plan.spec.table;
    let scan = context
        .plan
        .fragments
        .get(number)
        .ok_or_else(|| Error::internal("a tile names a fragment not planned"))?;
    let of = TileOf { table, tile, cells };
    let dimensions = scan.fragment.schema.dimensions.iter();
    dimensions
        .zip(requests)
        .map(|(dimension, request)| {
            let cells = scan.decode_cells(request, fetched, of, NeededCells::All, scratch)?;
            let keys = DimCells::new(dimension.datatype, &cells).map(|dim| dim.keys());
            keys.map_err(|e| {
                e.with("dimension", &dimension.name)
                    .with("fragment", &scan.fragment.name.name)
            })
        })
        .collect()
}

fn paint(
    context: &ScanContext,
    mut clips: Vec<TileClip>,
    tiles: &HashMap<TileKey, Vec<Vec<u64>>>,
) -> Result<Vec<TileClip>> {
    let dense = dense_plan(&context.plan)?;
    let budget = context.memory.as_ref();
    for clip in clips.iter_mut().filter(|clip| clip.has_scattered_copies()) {
        let strides = clip.strides(dense);
        clip.resolve(dense, budget, |clip: &TileClip, copy: &ClipSource| {
            let dims = tiles
                .get(&(copy.fragment, copy.tile))
                .ok_or_else(|| Error::internal("the coordinates of a tile were not read"))?;
            let cells = (0..copy.cells).filter_map(|number| {
                let keys = dims.iter().map(|dim| dim.get(number).copied().unwrap_or(0));
                Some((clip.row_of(&strides, keys)?, number))
            });
            Ok(cells.collect())
        })?;
    }
    Ok(clips)
}
