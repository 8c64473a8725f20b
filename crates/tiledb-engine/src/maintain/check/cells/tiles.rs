//! Checks a tile of a fragment. In a sparse fragment these are coordinates together with times, their rectangle, then each
//! attribute; in a dense one, the attributes of the cells that were written.

use std::cmp::Ordering;

use super::context::{self, CheckedFragment, TileSource};
use super::order::{CellChain, OrderRule, OrderedCell, OwnedCell};
use super::{TileFindings, TileProblem, field, of_field};
use crate::array::fragment::{FragmentField, TileIdx};
use crate::error::Result;
use crate::format::commit::path_name;
use crate::format::datatype::Datatype;
use crate::format::domain_range::compare_values;
use crate::format::names::TimestampedName;
use crate::geometry::box_runs::{BoxRuns, CellRun};
use crate::geometry::key;
use crate::geometry::key::Coordinate;
use crate::maintain::check::directory::folders::about_stored;
use crate::maintain::check::fragment::{FieldKind, ShownRange, compared_oddly};
use crate::maintain::check::rule::Rule;
use crate::maintain::column::DecodedColumn;
use crate::tile::decode::{CellOrder, EqualCells};
use crate::tile::tile_memory::DecodeScratch;

/// Whether other checks need a field, so that it is decoded together with them.
pub fn is_kept(audited: &CheckedFragment, field: usize) -> bool {
    let reader = audited.fields.get(field);
    reader.is_some_and(|reader| reader.field.kind != FieldKind::Attribute)
}

/// Checks a tile.
pub fn check_sparse(
    source: &TileSource<'_>,
    scratch: &mut DecodeScratch,
    findings: &mut TileFindings,
) -> Result<()> {
    let audited = source.audited;
    findings.cells = source.cells as u64;
    findings.totals = audited.fields.iter().map(|_| None).collect();
    let moved = moved(source, findings)?;
    let all = [CellRun {
        start: 0,
        len: source.cells,
    }];
    let mut kept: Vec<Option<DecodedColumn>> = Vec::with_capacity(audited.fields.len());
    for index in 0..audited.fields.len() {
        let column = if is_kept(audited, index) {
            field::decode(source, index, moved.as_ref(), scratch, findings)?
        } else {
            None
        };
        if let Some(column) = &column {
            field::check(source, index, column, &all, scratch, findings)?;
        }
        kept.push(column);
    }
    for (index, column) in kept.iter().take(audited.dimensions).enumerate() {
        if let Some(column) = column {
            check_box(audited, index, column, source.tile, &mut findings.problems);
        }
    }
    let system = |wanted| {
        let index = audited.system(wanted)?;
        kept.get(index).and_then(Option::as_ref)
    };
    let written = system(FragmentField::Timestamps);
    if let Some(written) = written {
        check_written(audited, written, source.tile, &mut findings.problems);
    }
    let deleted = system(FragmentField::DeleteTimestamps);
    let indexes = system(FragmentField::DeleteConditionIndex);
    if let Some((deleted, indexes)) = deleted.zip(indexes) {
        let problems = &mut findings.problems;
        check_deleted(audited, written, deleted, indexes, source.tile, problems);
    }
    if let Some(rule) = &audited.order {
        order(source, rule, &kept, written, findings)?;
    }
    drop(kept);
    for index in 0..audited.fields.len() {
        if is_kept(audited, index) {
            continue;
        }
        if let Some(column) = field::decode(source, index, moved.as_ref(), scratch, findings)? {
            field::check(source, index, &column, &all, scratch, findings)?;
        }
    }
    Ok(())
}

/// The order of the cells, if bitsort moved them.
fn moved(source: &TileSource<'_>, findings: &mut TileFindings) -> Result<Option<CellOrder>> {
    let audited = source.audited;
    if audited
        .fields
        .iter()
        .all(|reader| reader.stored.bitsort().is_none())
    {
        return Ok(None);
    }
    let times = audited.system(FragmentField::Timestamps).is_some();
    let name = &audited.sound.fragment.name;
    let duplicates = match name.t1 == name.t2 && !times {
        _ if audited
            .fields
            .iter()
            .all(|reader| reader.stored.bitsort().is_some()) =>
        {
            EqualCells::Harmless
        }
        true => EqualCells::SameCoordinates,
        false => EqualCells::SameHilbertValue,
    };
    let mut coordinates = Vec::new();
    for requested in source.requested.iter().take(audited.dimensions) {
        let Some(requested) = requested else {
            return Ok(None);
        };
        coordinates.push(source.fetched.tile(requested.ticket)?.values);
    }
    match context::moved_order(&audited.fields, &coordinates, source.cells, duplicates) {
        Ok(order) => Ok(order),
        Err(e) => {
            findings.problems.push(TileProblem {
                rule: Rule::UnreadableTile,
                field: None,
                tile: source.tile,
                found: about_stored(e)?.to_string(),
                expected: "coordinates by which bitsort's order is found".to_owned(),
            });
            Ok(None)
        }
    }
}

/// The coordinates of a dimension, ready to compare.
enum CheckedAxis<'a> {
    Keys(Vec<u64>),
    Strings(&'a DecodedColumn),
}

impl CheckedAxis<'_> {
    fn at(&self, cell: usize) -> Coordinate<'_> {
        match self {
            Self::Keys(keys) => Coordinate::Key(keys.get(cell).copied().unwrap_or(0)),
            Self::Strings(column) => Coordinate::Bytes(column.cell(cell)),
        }
    }
}

/// Compares each cell with the next one.
fn order(
    source: &TileSource<'_>,
    rule: &OrderRule,
    kept: &[Option<DecodedColumn>],
    written: Option<&DecodedColumn>,
    findings: &mut TileFindings,
) -> Result<()> {
    let mut axes = Vec::with_capacity(source.audited.dimensions);
    for (reader, column) in source
        .audited
        .fields
        .iter()
        .zip(kept)
        .take(source.audited.dimensions)
    {
        let Some(column) = column else {
            return Ok(());
        };
        axes.push(match column.fixed() {
            Some(bytes) => {
                let mut keys = Vec::with_capacity(column.len);
                key::keys(reader.field.datatype, bytes, &mut keys)?;
                CheckedAxis::Keys(keys)
            }
            None => CheckedAxis::Strings(column),
        });
    }
    let (mut before, mut cell) = (OrderedCell::default(), OrderedCell::default());
    let (mut first, mut nan) = (None, false);
    let mut told = Vec::new();
    let mut buckets = Vec::new();
    for index in 0..source.cells {
        cell.coordinates.clear();
        cell.coordinates
            .extend(axes.iter().map(|axis| axis.at(index)));
        cell.time = written.map(|column| number(column, index));
        rule.complete(&mut cell, &mut buckets);
        cell.zeros = rule.zeros(&cell, |d| {
            let column = kept.get(d).and_then(Option::as_ref);
            let last = column.and_then(|column| column.cell(index).last());
            last.is_some_and(|byte| *byte >= 0x80)
        });
        nan |= rule.has_nan(&cell);
        match index {
            0 => first = Some(OwnedCell::of(&cell)),
            _ => {
                // Report each kind of problem once in a tile.
                let problem = rule.pair(&before, &cell, source.tile);
                if let Some(problem) = problem.filter(|p| !told.contains(&p.rule)) {
                    told.push(problem.rule);
                    findings.order.push(problem);
                }
            }
        }
        std::mem::swap(&mut before, &mut cell);
    }
    findings.chain = first.map(|first| CellChain {
        tile: source.tile,
        first,
        last: OwnedCell::of(&before),
        nan,
    });
    Ok(())
}

/// Checks the written cells of a tile.
///
/// The cells around them are padding, whose content nobody reads.
pub fn check_dense(
    source: &TileSource<'_>,
    scratch: &mut DecodeScratch,
    findings: &mut TileFindings,
) -> Result<()> {
    let audited = source.audited;
    findings.totals = audited.fields.iter().map(|_| None).collect();
    let mut runs = None;
    for index in 0..audited.fields.len() {
        let Some(column) = field::decode(source, index, None, scratch, findings)? else {
            continue;
        };
        // A tile that has been decoded has as many cells as its metadata say.
        let runs = match &runs {
            Some(runs) => runs,
            None => runs.insert(written(source)?),
        };
        findings.cells = runs.iter().map(|run| run.len as u64).sum();
        field::check(source, index, &column, runs, scratch, findings)?;
    }
    Ok(())
}

/// The written cells of the tile, in stored order.
fn written(source: &TileSource<'_>) -> Result<Vec<CellRun>> {
    let Some((tiles, grid)) = &source.audited.dense else {
        return Ok(Vec::new());
    };
    let Some(clip) = tiles.cells_of(TileIdx(source.tile)) else {
        return Ok(Vec::new());
    };
    let first = clip.lo().iter().enumerate();
    let tile: Vec<u64> = first.map(|(d, key)| grid.tile_of(d, *key)).collect();
    let runs = BoxRuns::new(
        grid.extents(),
        grid.cell_order(),
        &grid.tile_lo(&tile),
        &clip,
    )?;
    Ok(runs.collect())
}

/// Compares the coordinates of a dimension with the tile's rectangle.
fn check_box(
    audited: &CheckedFragment,
    dimension: usize,
    column: &DecodedColumn,
    tile: u64,
    problems: &mut Vec<TileProblem>,
) {
    let fragment = &audited.sound.fragment;
    let (Some(mbrs), Ok(index)) = (&audited.sound.mbrs, usize::try_from(tile)) else {
        return;
    };
    if index >= mbrs.len() || !fragment.tells(dimension) || compared_oddly(fragment, dimension) {
        return;
    }
    let Some(datatype) = fragment
        .schema
        .dimensions
        .get(dimension)
        .map(|d| d.datatype)
    else {
        return;
    };
    // Beside NaN, rectangles are the extremes of some of the cells.
    let Some((least, most)) = extremes(column, datatype) else {
        return;
    };
    let (lo, hi) = mbrs.range(index, dimension);
    let is = |a: &[u8], b: &[u8], wanted: Ordering| compare_values(datatype, a, b) == Some(wanted);
    if is(lo, least, Ordering::Equal) && is(hi, most, Ordering::Equal) {
        return;
    }
    let around = is(least, lo, Ordering::Less) || is(most, hi, Ordering::Greater);
    let cells = ShownRange::of(datatype, (least, most));
    let found = if around {
        format!(
            "coordinates {cells} leave the rectangle {}",
            ShownRange::of(datatype, (lo, hi))
        )
    } else {
        format!("the rectangle is {}", ShownRange::of(datatype, (lo, hi)))
    };
    let expected = format!("{cells}, the least and the largest coordinate");
    problems.push(of_field(Rule::TileBox, dimension, tile, found, expected));
}

/// The least and the largest coordinate; `None` if one is NaN, or if there are none.
fn extremes(column: &DecodedColumn, datatype: Datatype) -> Option<(&[u8], &[u8])> {
    let first = column.cell(0);
    // A single NaN compares with nothing, itself included.
    compare_values(datatype, first, first).filter(|_| column.len > 0)?;
    let (mut least, mut most) = (first, first);
    for index in 1..column.len {
        let cell = column.cell(index);
        if compare_values(datatype, cell, least)?.is_lt() {
            least = cell;
        } else if compare_values(datatype, cell, most)?.is_gt() {
            most = cell;
        }
    }
    Some((least, most))
}

/// The number of a cell.
fn number(column: &DecodedColumn, cell: usize) -> u64 {
    let bytes = column.cell(cell).try_into();
    bytes.map_or(u64::MAX, u64::from_le_bytes)
}

/// Every cell was written between the times in the fragment's name.
fn check_written(
    audited: &CheckedFragment,
    column: &DecodedColumn,
    tile: u64,
    problems: &mut Vec<TileProblem>,
) {
    let Some(field) = audited.system(FragmentField::Timestamps) else {
        return;
    };
    let name = &audited.sound.fragment.name;
    let inside = name.t1..=name.t2;
    let mut outside = (0..column.len).filter(|cell| !inside.contains(&number(column, *cell)));
    if let Some(first) = outside.next() {
        let count = outside.count().saturating_add(1);
        let found = format!(
            "{count} cells outside, the first of them {first} of time {}",
            number(column, first)
        );
        let expected = format!("times from {} to {}", name.t1, name.t2);
        problems.push(of_field(Rule::CellTimes, field, tile, found, expected));
    }
}

/// A deleted cell has the time of the condition that deleted it, which was not before its own.
fn check_deleted(
    audited: &CheckedFragment,
    written: Option<&DecodedColumn>,
    times: &DecodedColumn,
    indexes: &DecodedColumn,
    tile: u64,
    problems: &mut Vec<TileProblem>,
) {
    let Some(field) = audited.system(FragmentField::DeleteTimestamps) else {
        return;
    };
    let conditions: Option<Vec<Option<u64>>> = audited.sound.processed.as_deref().map(|paths| {
        let name = |path: &String| TimestampedName::parse(path_name(path)).ok();
        paths.iter().map(|path| name(path).map(|n| n.t1)).collect()
    });
    let mut tell = |cell: usize, found: String, expected: String| {
        let found = format!("cell {cell}: {found}");
        problems.push(of_field(Rule::DeleteTimes, field, tile, found, expected));
    };
    for cell in 0..times.len {
        let (time, index) = (number(times, cell), number(indexes, cell));
        if (time == u64::MAX) != (index == u64::MAX) {
            let found = format!("deleted at {time} by the condition {index}");
            return tell(cell, found, format!("both or none of them {}", u64::MAX));
        }
        if time == u64::MAX {
            continue;
        }
        if let Some(conditions) = &conditions {
            let named = usize::try_from(index).ok();
            let condition = named.and_then(|index| conditions.get(index));
            match condition {
                None => {
                    let found = format!("deleted by the condition {index}");
                    let expected = format!("one of {} processed conditions", conditions.len());
                    return tell(cell, found, expected);
                }
                Some(Some(of_condition)) if *of_condition != time => {
                    let found = format!("deleted at {time} by the condition {index}");
                    return tell(cell, found, format!("{of_condition}, the condition's time"));
                }
                Some(_) => {}
            }
        }
        if let Some(written) = written
            && number(written, cell) > time
        {
            let since = number(written, cell);
            let found = format!("written at {since}, deleted at {time}");
            return tell(
                cell,
                found,
                "a delete that is not older than the cell".to_owned(),
            );
        }
    }
}
