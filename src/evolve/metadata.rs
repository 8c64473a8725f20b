//! `tiledb_set_metadata` and `tiledb_delete_metadata`: the key-value metadata of an array or a group.
//!
//! ```text
//! SELECT * FROM tiledb_set_metadata('/data/array', 'scale', 0.5)
//! SELECT * FROM tiledb_set_metadata('/data/array', 'levels', [1, 2, 4], type => 'UINT8')
//! SELECT * FROM tiledb_set_metadata('/data/array', {'title': 'harbour', 'year': 2024})
//! SELECT * FROM tiledb_delete_metadata('/data/array', 'draft')
//! ```
//!
//! A value has the type that an attribute of its SQL type would have, or the named type. Several keys at once, as the fields of
//! a struct, become one file.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::catalog::Session;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use futures::FutureExt;
use futures::future::BoxFuture;
use tiledb_engine::MetadataEdit;
use tiledb_engine::Result;

use super::functions::{check_time, target_of, usage};
use super::once::{ChangeFunction, FinishedAlteration, PendingAlteration};
use crate::functions::arguments::{FunctionCall, FunctionTarget, text};

const TYPE: &str = "type";

/// `tiledb_set_metadata`.
pub(super) struct SetMetadata {
    call: FunctionCall,
    edit: MetadataEdit,
}

impl ChangeFunction for SetMetadata {
    const NAME: &'static str = "tiledb_set_metadata";

    fn parse(arguments: &[Expr]) -> Result<Self> {
        if let [
            target,
            Expr::Literal(ScalarValue::Struct(fields), _),
            options @ ..,
        ] = arguments
        {
            let call = call(target, options)?;
            let type_name = type_of(&call);
            let mut edit = MetadataEdit::new();
            for (field, column) in fields.fields().iter().zip(fields.columns()) {
                edit = edit.set_column(field.name(), &elements(column)?, type_name)?;
            }
            return Ok(Self { call, edit });
        }
        let [target, key, value, options @ ..] = arguments else {
            let given = arguments.len();
            return Err(usage(Self::NAME, &format!("{given} arguments are given")));
        };
        let call = call(target, options)?;
        let key = text(Self::NAME, 1, key)?;
        let Expr::Literal(value, _) = value else {
            return Err(usage(
                Self::NAME,
                "argument 3 is an expression that is not constant, expected a value",
            ));
        };
        let odd = |e| usage(Self::NAME, "argument 3 isn't a value").with_source(e);
        let column = elements(&value.to_array().map_err(odd)?)?;
        let edit = MetadataEdit::new().set_column(&key, &column, type_of(&call))?;
        Ok(Self { call, edit })
    }

    fn prepare<'a>(&'a self, session: &'a dyn Session) -> BoxFuture<'a, Result<PendingAlteration>> {
        async move {
            let target = target_of(&self.call, session).await?;
            Ok(doing(self.edit.clone(), target))
        }
        .boxed()
    }
}

fn call(target: &Expr, options: &[Expr]) -> Result<FunctionCall> {
    let rest = std::iter::once(target).chain(options).cloned();
    let call = FunctionCall::parse_with(SetMetadata::NAME, &[TYPE], &rest.collect::<Vec<_>>())?;
    check_time(&call)?;
    Ok(call)
}

fn type_of(call: &FunctionCall) -> Option<&str> {
    call.own.last().map(|(_, name)| name.as_str())
}

/// The elements of the one value in a column: the elements of a list, or the value itself.
fn elements(column: &ArrayRef) -> Result<ArrayRef> {
    let value = ScalarValue::try_from_array(column, 0);
    let value = value.map_err(|e| usage(SetMetadata::NAME, "the value is odd").with_source(e))?;
    Ok(match value {
        ScalarValue::List(list) if list.is_valid(0) => list.value(0),
        ScalarValue::LargeList(list) if list.is_valid(0) => list.value(0),
        ScalarValue::FixedSizeList(list) if list.is_valid(0) => list.value(0),
        _ => column.slice(0, 1),
    })
}

/// `tiledb_delete_metadata`.
pub(super) struct DeleteMetadata {
    call: FunctionCall,
    edit: MetadataEdit,
}

impl ChangeFunction for DeleteMetadata {
    const NAME: &'static str = "tiledb_delete_metadata";

    fn parse(arguments: &[Expr]) -> Result<Self> {
        let [target, key, options @ ..] = arguments else {
            let given = arguments.len();
            return Err(usage(Self::NAME, &format!("{given} arguments are given")));
        };
        let rest = std::iter::once(target).chain(options).cloned();
        let call = FunctionCall::parse(Self::NAME, &rest.collect::<Vec<_>>())?;
        check_time(&call)?;
        let edit = MetadataEdit::new().delete(&text(Self::NAME, 1, key)?)?;
        Ok(Self { call, edit })
    }

    fn prepare<'a>(&'a self, session: &'a dyn Session) -> BoxFuture<'a, Result<PendingAlteration>> {
        async move {
            let target = target_of(&self.call, session).await?;
            Ok(doing(self.edit.clone(), target))
        }
        .boxed()
    }
}

/// Changes the metadata of the target once it is awaited.
fn doing(edit: MetadataEdit, target: FunctionTarget) -> PendingAlteration {
    let edit = edit.timestamp_if_given(target.options.write_timestamp);
    async move {
        let file = edit.apply(&target.storage).await?;
        Ok(FinishedAlteration {
            uri: target.storage.uri().to_owned(),
            changes: edit.changes(),
            file,
        })
    }
    .boxed()
}
