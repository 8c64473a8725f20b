//! The checks of one field of a tile, which are the same in sparse and in dense fragments.

use super::context::Source;
use super::{Problem, TileFindings, of_field, values};
use crate::error::Result;
use crate::geometry::box_runs::Run;
use crate::maintain::check::directory::tile::stored;
use crate::maintain::check::rule::Rule;
use crate::maintain::check::statistics::{self, Seen, Values};
use crate::maintain::column::Column;
use crate::tile::decode::CellOrder;
use crate::tile::scratch::Scratch;

impl Values for Column {
    fn cell(&self, index: usize) -> &[u8] {
        Column::cell(self, index)
    }

    fn is_null(&self, index: usize) -> bool {
        Column::is_null(self, index)
    }
}

/// Decodes a field of a tile; `None` if it is told to be unreadable.
pub fn decode(
    source: &Source<'_>,
    field: usize,
    order: Option<&CellOrder>,
    scratch: &mut Scratch,
    findings: &mut TileFindings,
) -> Result<Option<Column>> {
    let audited = source.audited;
    let asked = source.asked.get(field).copied().flatten();
    let (Some(reader), Some(asked)) = (audited.fields.get(field), asked) else {
        return Ok(None);
    };
    let bytes = source.fetched.tile(asked.ticket)?;
    match reader.decode(&asked, &bytes, source.cells, order, scratch) {
        Ok(column) => {
            findings.fields = findings.fields.saturating_add(1);
            Ok(Some(column))
        }
        Err(e) => {
            let found = stored(e)?.to_string();
            let expected = format!("{} cells", source.cells);
            let rule = Rule::UnreadableTile;
            let problem = of_field(rule, field, source.tile, found, expected);
            findings.problems.push(problem);
            Ok(None)
        }
    }
}

/// Checks the values of a field, and its statistics. `runs` are the cells that count.
pub fn check(
    source: &Source<'_>,
    field: usize,
    column: &Column,
    runs: &[Run],
    scratch: &mut Scratch,
    findings: &mut TileFindings,
) -> Result<()> {
    let audited = source.audited;
    let tile = source.tile;
    let asked = source.asked.get(field).copied().flatten();
    let (Some(reader), Some(asked)) = (audited.fields.get(field), asked) else {
        return Ok(());
    };
    let problems = &mut findings.problems;
    if reader.field.nullable && !reader.field.validity_lost {
        let bytes = source.fetched.tile(asked.ticket)?;
        // It was decoded once already.
        if let Ok(Some(validity)) = reader.validity(&bytes, source.cells, scratch) {
            values::validity(&validity, field, tile, runs, problems);
        }
    }
    values::text(reader, column, field, tile, runs, problems);
    values::codes(audited, reader, column, field, tile, runs, problems);
    let counted: usize = runs.iter().map(|run| run.len).sum();
    let seen = Seen {
        visible: statistics::compute(&reader.field, column, values::cells(runs)),
        whole: (counted < column.len)
            .then(|| statistics::compute(&reader.field, column, 0..column.len)),
    };
    let context = statistics::Context {
        version: audited.sound.fragment.footer.version,
        dense: audited.sound.fragment.footer.dense,
        exact: audited.exact,
    };
    let index = usize::try_from(tile)?;
    for mismatch in statistics::compare_tile(&reader.field, &reader.stored, index, &seen, &context)
    {
        problems.push(Problem {
            rule: mismatch.rule,
            field: Some(field),
            tile,
            found: mismatch.found,
            expected: mismatch.expected,
        });
    }
    if let Some(total) = findings.totals.get_mut(field) {
        *total = Some(seen);
    }
    Ok(())
}
