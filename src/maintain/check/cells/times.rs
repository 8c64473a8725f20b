//! The times of cells in consolidated fragments: when each was written, and when and by which condition it was deleted.

use super::context::Audited;
use super::{Problem, of_field};
use crate::array::fragment::FragmentField;
use crate::format::commit::path_name;
use crate::format::names::TimestampedName;
use crate::maintain::check::rule::Rule;
use crate::maintain::column::Column;

/// The number of a cell.
pub fn number(column: &Column, cell: usize) -> u64 {
    let bytes = column.cell(cell).try_into();
    bytes.map_or(u64::MAX, u64::from_le_bytes)
}

/// Every cell was written between the times in the fragment's name.
pub fn written(audited: &Audited, column: &Column, tile: u64, problems: &mut Vec<Problem>) {
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
pub fn deleted(
    audited: &Audited,
    written: Option<&Column>,
    times: &Column,
    indexes: &Column,
    tile: u64,
    problems: &mut Vec<Problem>,
) {
    let Some(field) = audited.system(FragmentField::DeleteTimestamps) else {
        return;
    };
    let conditions = audited.sound.processed.as_deref();
    let conditions: Option<Vec<Option<u64>>> = conditions.map(|paths| {
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
