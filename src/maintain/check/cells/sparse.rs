//! A tile of a sparse fragment: coordinates and times together, then each attribute.

use super::context::{Audited, Source};
use super::order::{Cell, Chain, OrderRule, OwnedCell};
use super::{Problem, TileFindings, boxes, field, reader, times};
use crate::array::fragment::FragmentField;
use crate::error::Result;
use crate::geometry::box_runs::Run;
use crate::geometry::coordinate::Coordinate;
use crate::geometry::key;
use crate::maintain::check::directory::tile::stored;
use crate::maintain::check::fragment::Kind;
use crate::maintain::check::rule::Rule;
use crate::maintain::column::Column;
use crate::tile::decode::{CellOrder, Duplicates};
use crate::tile::scratch::Scratch;

/// Whether a field is needed beside others, and so is decoded together with them.
pub fn is_kept(audited: &Audited, field: usize) -> bool {
    let reader = audited.fields.get(field);
    reader.is_some_and(|reader| reader.field.kind != Kind::Attribute)
}

/// Checks a tile.
pub fn check(
    source: &Source<'_>,
    scratch: &mut Scratch,
    findings: &mut TileFindings,
) -> Result<()> {
    let audited = source.audited;
    findings.cells = source.cells as u64;
    findings.totals = audited.fields.iter().map(|_| None).collect();
    let moved = moved(source, findings)?;
    let all = [Run {
        start: 0,
        len: source.cells,
    }];
    let mut kept: Vec<Option<Column>> = Vec::with_capacity(audited.fields.len());
    for index in 0..audited.fields.len() {
        let column = match is_kept(audited, index) {
            true => field::decode(source, index, moved.as_ref(), scratch, findings)?,
            false => None,
        };
        if let Some(column) = &column {
            field::check(source, index, column, &all, scratch, findings)?;
        }
        kept.push(column);
    }
    for (index, column) in kept.iter().take(audited.dimensions).enumerate() {
        if let Some(column) = column {
            boxes::check(audited, index, column, source.tile, &mut findings.problems);
        }
    }
    let system = |wanted| {
        let index = audited.system(wanted)?;
        kept.get(index).and_then(Option::as_ref)
    };
    let written = system(FragmentField::Timestamps);
    if let Some(written) = written {
        times::written(audited, written, source.tile, &mut findings.problems);
    }
    let deleted = system(FragmentField::DeleteTimestamps);
    let indexes = system(FragmentField::DeleteConditionIndex);
    if let Some((deleted, indexes)) = deleted.zip(indexes) {
        let problems = &mut findings.problems;
        times::deleted(audited, written, deleted, indexes, source.tile, problems);
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
fn moved(source: &Source<'_>, findings: &mut TileFindings) -> Result<Option<CellOrder>> {
    let audited = source.audited;
    if audited.fields.iter().all(|reader| reader.moved().is_none()) {
        return Ok(None);
    }
    let times = audited.system(FragmentField::Timestamps).is_some();
    let name = &audited.sound.fragment.name;
    let duplicates = match name.t1 == name.t2 && !times {
        _ if audited.fields.iter().all(|reader| reader.moved().is_some()) => Duplicates::Harmless,
        true => Duplicates::SameCoordinates,
        false => Duplicates::SameHilbertValue,
    };
    let mut coordinates = Vec::new();
    for asked in source.asked.iter().take(audited.dimensions) {
        let Some(asked) = asked else {
            return Ok(None);
        };
        coordinates.push(source.fetched.tile(asked.ticket)?.values);
    }
    match reader::moved_order(&audited.fields, &coordinates, source.cells, duplicates) {
        Ok(order) => Ok(order),
        Err(e) => {
            findings.problems.push(Problem {
                rule: Rule::UnreadableTile,
                field: None,
                tile: source.tile,
                found: stored(e)?.to_string(),
                expected: "coordinates by which bitsort's order is found".to_owned(),
            });
            Ok(None)
        }
    }
}

/// The coordinates of a dimension, ready to compare.
enum Axis<'a> {
    Keys(Vec<u64>),
    Strings(&'a Column),
}

impl Axis<'_> {
    fn at(&self, cell: usize) -> Coordinate<'_> {
        match self {
            Self::Keys(keys) => Coordinate::Key(keys.get(cell).copied().unwrap_or(0)),
            Self::Strings(column) => Coordinate::Bytes(column.cell(cell)),
        }
    }
}

/// Compares each cell with the next one.
fn order(
    source: &Source<'_>,
    rule: &OrderRule,
    kept: &[Option<Column>],
    written: Option<&Column>,
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
                Axis::Keys(keys)
            }
            None => Axis::Strings(column),
        });
    }
    let (mut before, mut cell) = (Cell::default(), Cell::default());
    let (mut first, mut nan) = (None, false);
    let mut told = Vec::new();
    let mut buckets = Vec::new();
    for index in 0..source.cells {
        cell.coordinates.clear();
        cell.coordinates
            .extend(axes.iter().map(|axis| axis.at(index)));
        cell.time = written.map(|column| times::number(column, index));
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
                // One of a kind in each tile.
                let problem = rule.pair(&before, &cell, source.tile);
                if let Some(problem) = problem.filter(|p| !told.contains(&p.rule)) {
                    told.push(problem.rule);
                    findings.order.push(problem);
                }
            }
        }
        std::mem::swap(&mut before, &mut cell);
    }
    findings.chain = first.map(|first| Chain {
        tile: source.tile,
        first,
        last: OwnedCell::of(&before),
        nan,
    });
    Ok(())
}
