//! `tiledb_diff('location', 'time', 'time', 'option', 'value', …)`: the cells of an array that differ between two times, or
//! between one time and now.
//!
//! | Column | |
//! |---|---|
//! | the dimensions | the coordinates of the cell |
//! | `change` | `added`, `changed` or `removed` |
//! | `old_x`, `new_x` | the values of attribute `x` at the first time and at the second; NULL where the cell did not exist |

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::logical_expr::Expr;
use tiledb_engine::array::window::TimestampMs;
use tiledb_engine::{Error, Result};

use super::arguments::{FunctionCall, NameResolver, text};
use crate::diff::ArrayDiff;
use crate::error::to_datafusion_error;
use crate::options::TableOptions;
use crate::table::open::wait_for;

/// The name in SQL.
pub(super) const NAME: &str = "tiledb_diff";

/// The function.
#[derive(Debug)]
pub(super) struct DiffFunction;

impl TableFunctionImpl for DiffFunction {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> datafusion::error::Result<Arc<dyn TableProvider>> {
        let surroundings = NameResolver::of(args.session());
        let diff = open(args.exprs(), surroundings).map_err(to_datafusion_error)?;
        Ok(Arc::new(diff))
    }
}

fn open(arguments: &[Expr], surroundings: NameResolver) -> Result<ArrayDiff> {
    let [target, earlier, rest @ ..] = arguments else {
        let given = arguments.len();
        return Err(usage(&format!("{given} arguments are given")));
    };
    let earlier = time(1, earlier)?;
    // Options come in pairs, so one argument more is a time.
    let (later, options) = match rest.split_first() {
        Some((later, options)) if options.len().is_multiple_of(2) => (time(2, later)?, options),
        _ => (TimestampMs::now().0.max(earlier), rest),
    };
    let times = (earlier, later);
    let rest = std::iter::once(target).chain(options).cloned();
    let call = FunctionCall::parse(NAME, &rest.collect::<Vec<_>>())?;
    let given = [
        "timestamp",
        "timestamp_end",
        "system_columns",
        "all_versions",
        "empty_cells",
    ];
    let keys = call
        .pairs()
        .map(|(key, _)| key.strip_prefix("tiledb.").unwrap_or(key));
    if let Some(key) = keys.into_iter().find(|key| given.contains(key)) {
        return Err(usage(&format!("the option '{key}' has no meaning here")));
    }
    wait_for(NAME, async move || {
        let target = surroundings.resolve(&call).await?;
        ArrayDiff::open(target.storage, &target.options, times).await
    })
}

/// A time in milliseconds, written as in the option `tiledb.timestamp`.
fn time(position: usize, argument: &Expr) -> Result<u64> {
    let text = text(NAME, position, argument)?;
    let options = TableOptions::from_pairs([("timestamp", text.as_str())]).map_err(|e| {
        let position = position + 1;
        Error::invalid(format!("{NAME}: argument {position} isn't a time")).with_source(e)
    })?;
    Ok(options.timestamp_end.unwrap_or(0))
}

fn usage(problem: &str) -> Error {
    Error::invalid(format!(
        "{NAME}: {problem}; call it with one or two times, as {NAME}('<location or table>', '2024-05-01', '2024-06-01'), and \
         with options in pairs behind them"
    ))
}
