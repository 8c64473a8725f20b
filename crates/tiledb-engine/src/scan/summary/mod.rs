//! Aggregates of whole tiles from metadata: number of values, minimum, maximum, sum.
//!
//! Nothing is decoded. The statistics of the requested columns are loaded fragment by fragment, and answer for those
//! tiles for which they prove all that is requested ([`crate::stats::trust`]); the other tiles must be read.
//! Coordinates need no statistics: MBRs bound those of sparse tiles, and those of dense tiles are computed.

mod fields;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

pub use self::fields::DimensionBounds;
use self::fields::{SummaryField, SummaryFields};
use super::plan::ScanPlan;
use super::plan::whole::WholeTile;
use crate::array::fragment::statistics::TileSum;
use crate::arrow::{repeat, stored_values};
use crate::error::{Error, ErrorKind, Result};
use crate::geometry::domain::KeyBox;
use crate::geometry::key;
use crate::stats::trust::{ProvenAggregates, adds_up_exactly};
pub use crate::stats::trust::{RequestedAggregates, SumAs, SumRounding, tells_dimension};

/// Fragments whose statistics are loaded at the same time.
const FRAGMENTS_AT_ONCE: usize = 16;

/// The aggregates of some whole tiles of one fragment.
#[derive(Debug)]
pub struct TilesSummary {
    /// The numbers of the tiles among those of the plan, ascending.
    pub ordinals: Vec<u64>,
    /// The number of rows of each tile.
    pub rows: Vec<u64>,
    /// The requested columns, in the order of the request.
    pub columns: Vec<ColumnSummary>,
}

/// The aggregates of one column, one value for each tile.
#[derive(Debug)]
pub struct ColumnSummary {
    /// The numbers of values that are not NULL.
    pub counts: Vec<u64>,
    /// The minima; NULL for a tile without values.
    pub mins: Option<ArrayRef>,
    /// The maxima; NULL for a tile without values.
    pub maxes: Option<ArrayRef>,
    /// The sums, if requested; undefined for a tile without values.
    pub sums: Vec<TileSum>,
}

/// Whether metadata may answer for some of these tiles; loads nothing.
pub fn may_know(
    plan: &ScanPlan,
    tiles: &[WholeTile],
    asked: &[RequestedAggregates],
    rounding: SumRounding,
) -> Result<bool> {
    for tiles in tiles.chunk_by(|a, b| a.fragment == b.fragment) {
        if let Some(tile) = tiles.first()
            && SummaryFields::new(plan, tile.fragment, asked, rounding)?.is_some()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The aggregates of those of these tiles for which metadata prove them.
pub async fn summarize(
    plan: &ScanPlan,
    tiles: &[WholeTile],
    asked: &[RequestedAggregates],
    rounding: SumRounding,
) -> Result<Vec<TilesSummary>> {
    let mut by_fragment: Vec<Vec<&WholeTile>> = vec![Vec::new(); plan.fragments.len()];
    for tile in tiles {
        if let Some(own) = by_fragment.get_mut(tile.fragment) {
            own.push(tile);
        }
    }
    let mut fragments = Vec::new();
    for (number, tiles) in by_fragment.into_iter().enumerate() {
        if !tiles.is_empty() {
            fragments.push(of_fragment(plan, number, tiles, asked, rounding).boxed());
        }
    }
    let mut summaries = stream::iter(fragments)
        .buffered(FRAGMENTS_AT_ONCE)
        .try_filter_map(|summary| async move { Ok(summary) })
        .try_collect::<Vec<_>>()
        .await?;
    if rounding == SumRounding::Exact {
        keep_exact(&mut summaries, asked);
    }
    Ok(summaries
        .into_iter()
        .map(|(summary, _)| summary)
        .filter(|summary| !summary.ordinals.is_empty())
        .collect())
}

/// A summary, and a bound of the sums of each column.
type BoundedSummary = (TilesSummary, Vec<u128>);

/// Drops fragments whose sums of integers are too large for floats to add them up exactly.
fn keep_exact(summaries: &mut Vec<BoundedSummary>, asked: &[RequestedAggregates]) {
    let mut totals = vec![0_u128; asked.len()];
    summaries.retain(|(_, magnitudes)| {
        let grown = totals
            .iter()
            .zip(magnitudes)
            .map(|(total, more)| total.saturating_add(*more))
            .collect::<Vec<_>>();
        let fits = |(asked, total): (&RequestedAggregates, &u128)| {
            matches!(asked.sum, None | Some(SumAs::Integer)) || adds_up_exactly(*total)
        };
        let exact = asked.iter().zip(&grown).all(fits);
        if exact {
            totals = grown;
        }
        exact
    });
}

async fn of_fragment(
    plan: &ScanPlan,
    number: usize,
    tiles: Vec<&WholeTile>,
    asked: &[RequestedAggregates],
    rounding: SumRounding,
) -> Result<Option<BoundedSummary>> {
    let Some(fields) = SummaryFields::new(plan, number, asked, rounding)? else {
        return Ok(None);
    };
    let fields = match fields.load(&plan.spec.table.snapshot.storage).await {
        Ok(fields) => fields,
        // Damaged statistics tell nothing; the cells are read instead.
        Err(e) if e.kind() == ErrorKind::Corrupt => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut answered = Vec::with_capacity(tiles.len());
    let mut known = vec![Vec::with_capacity(tiles.len()); asked.len()];
    let mut magnitudes = vec![0_u128; asked.len()];
    for tile in tiles {
        let Some(row) = fields.check(tile) else {
            continue;
        };
        answered.push(tile);
        for ((column, magnitude), tile) in known.iter_mut().zip(&mut magnitudes).zip(row) {
            *magnitude = magnitude.saturating_add(tile.magnitude);
            column.push(tile);
        }
    }
    let mut columns = Vec::with_capacity(asked.len());
    for ((asked, field), known) in asked.iter().zip(fields.fields()).zip(&known) {
        let Some(column) = column(plan, asked, field, &answered, known)? else {
            return Ok(None);
        };
        columns.push(column);
    }
    let summary = TilesSummary {
        ordinals: answered.iter().map(|tile| tile.ordinal).collect(),
        rows: answered.iter().map(|tile| tile.cells).collect(),
        columns,
    };
    Ok(Some((summary, magnitudes)))
}

/// `None` if the stored value differs from what the column shows.
fn column(
    plan: &ScanPlan,
    asked: &RequestedAggregates,
    field: &SummaryField<'_>,
    tiles: &[&WholeTile],
    known: &[ProvenAggregates<'_>],
) -> Result<Option<ColumnSummary>> {
    let ty = plan
        .spec
        .table
        .types
        .get(asked.column)
        .ok_or_else(|| Error::internal("what is requested isn't a column"))?;
    let nulls = BooleanBuffer::collect_bool(known.len(), |i| {
        known.get(i).is_some_and(|known| known.count > 0)
    });
    let nulls = Some(NullBuffer::new(nulls)).filter(|nulls| nulls.null_count() > 0);
    let (mut mins, mut maxes) = (None, None);
    for (wanted, slot, of, corner) in [
        (
            asked.min,
            &mut mins,
            min_of as ColumnExtreme,
            KeyBox::lo as BoxCorner,
        ),
        (asked.max, &mut maxes, max_of, KeyBox::hi),
    ] {
        if !wanted {
            continue;
        }
        let values = match field {
            SummaryField::Fill { cell, .. } => Some(repeat(cell, known.len())?),
            SummaryField::Grid {
                dimension,
                datatype,
            } => {
                let keys = tiles.iter().filter_map(|tile| {
                    let cells = tile.dense.as_ref()?;
                    corner(cells).get(*dimension).copied()
                });
                let coordinates = keys
                    .map(|key| key::from_key(*datatype, key))
                    .collect::<Vec<_>>();
                let stored = coordinates.iter().map(|c| Some(c.as_slice()));
                stored_values(ty, stored, None)?
            }
            SummaryField::Stored { .. } => stored_values(ty, known.iter().map(of), nulls.clone())?,
        };
        if values.as_ref().map(|values| values.len()) != Some(known.len()) {
            return Ok(None);
        }
        *slot = values;
    }
    Ok(Some(ColumnSummary {
        counts: known.iter().map(|known| known.count).collect(),
        mins,
        maxes,
        sums: match asked.sum {
            Some(_) => known
                .iter()
                .map(|k| k.sum.unwrap_or(TileSum::Int(0)))
                .collect(),
            None => Vec::new(),
        },
    }))
}

type ColumnExtreme = for<'a> fn(&ProvenAggregates<'a>) -> Option<&'a [u8]>;
type BoxCorner = fn(&KeyBox) -> &[u64];

fn min_of<'a>(known: &ProvenAggregates<'a>) -> Option<&'a [u8]> {
    known.min
}

fn max_of<'a>(known: &ProvenAggregates<'a>) -> Option<&'a [u8]> {
    known.max
}
