//! Lists with a NULL element, which no cell can hold.
//!
//! A statement's values are cast to the types of the array, whose list elements can't be NULL. Arrow's cast fails over a NULL
//! element with a message about its own arrays, and even during planning if the list is a constant. So lists are first cast to
//! lists whose elements may be NULL, and checked when the statement reads its rows.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, ListArray, UInt64Array,
};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use tiledb_engine::Error;

use crate::error::to_datafusion_error;

/// The rows of a statement with checked casts to lists. No type that SQL can express forbids NULL in a list, so all of these
/// casts have types of the array.
pub(super) fn checked(rows: LogicalPlan, array: &str) -> Result<LogicalPlan> {
    let in_node = |plan: LogicalPlan| {
        plan.map_expressions(|expr| expr.transform_up(|expr| Ok(in_cast(expr, array))))
    };
    rows.transform_up(in_node).data()
}

fn in_cast(expr: Expr, array: &str) -> Transformed<Expr> {
    let Expr::Cast(Cast { expr: value, field }) = expr else {
        return Transformed::no(expr);
    };
    let Some(loose) = with_nulls(field.data_type()) else {
        return Transformed::no(Expr::Cast(Cast { expr: value, field }));
    };
    let value = Expr::Cast(Cast::new(value, loose));
    Transformed::yes(whole(value, field.data_type(), ("array", array)))
}

/// Casts lists to the type `to`, in which no element is NULL. An error names the `place`.
pub(super) fn whole(lists: Expr, to: &DataType, place: (&'static str, &str)) -> Expr {
    let (what, name) = place;
    let function = WholeList {
        // The check isn't evaluated before there are rows.
        signature: Signature::any(1, Volatility::Volatile),
        to: to.clone(),
        place: (what, name.to_owned()),
    };
    let function = Arc::new(ScalarUDF::from(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![lists]))
}

/// The type of lists whose elements may be NULL, given the type of lists whose elements may not.
pub(super) fn with_nulls(list: &DataType) -> Option<DataType> {
    let loose = |item: &FieldRef| Arc::new(item.as_ref().clone().with_nullable(true));
    match list {
        DataType::List(item) if !item.is_nullable() => Some(DataType::List(loose(item))),
        DataType::FixedSizeList(item, size) if !item.is_nullable() => {
            Some(DataType::FixedSizeList(loose(item), *size))
        }
        _ => None,
    }
}

/// A function that checks that a list has no NULL element.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WholeList {
    signature: Signature,
    /// The type of the lists without NULL elements.
    to: DataType,
    /// The array or column that an error names.
    place: (&'static str, String),
}

impl WholeList {
    /// The lists with the type whose elements can't be NULL.
    fn whole(&self, lists: &ArrayRef) -> Result<ArrayRef> {
        if let Some(row) = (0..lists.len()).find(|row| has_null(lists, *row)) {
            let options = FormatOptions::default().with_null("NULL");
            let shown = ArrayFormatter::try_new(lists.as_ref(), &options)?;
            let list = shown.value(row);
            let error = Error::invalid(format!(
                "the list {list} has a NULL in it, and the elements of a cell cannot be NULL: leave them out, or \
                 make the whole list NULL, if the attribute may be"
            ));
            let (what, name) = &self.place;
            return Err(to_datafusion_error(error.with(what, name)));
        }
        // Values between the lists may still be NULL.
        let rows = UInt64Array::from_iter_values(0..lists.len() as u64);
        let lists = take(lists, &rows, None)?;
        let nulls = lists.nulls().cloned();
        Ok(match &self.to {
            DataType::List(item) => {
                let lists = lists.as_list::<i32>();
                let (offsets, values) = (lists.offsets().clone(), Arc::clone(lists.values()));
                Arc::new(ListArray::try_new(
                    Arc::clone(item),
                    offsets,
                    values,
                    nulls,
                )?)
            }
            DataType::FixedSizeList(item, size) => {
                let values = Arc::clone(lists.as_fixed_size_list().values());
                let item = Arc::clone(item);
                Arc::new(FixedSizeListArray::try_new(item, *size, values, nulls)?)
            }
            other => return internal_err!("{other} isn't a type of lists"),
        })
    }
}

/// The lists with elements that begin at the first list. Arrow casts a slice of lists to lists of a fixed length as if the
/// slice began at the start of the array (`sliced-lists` in `docs/upstream/README.md`).
pub(super) fn from_their_start(values: &ArrayRef) -> Result<ArrayRef> {
    let start = match values.data_type() {
        DataType::List(_) => values
            .as_list::<i32>()
            .offsets()
            .first()
            .map(|at| i64::from(*at)),
        DataType::LargeList(_) => values.as_list::<i64>().offsets().first().copied(),
        _ => None,
    };
    if start.is_none_or(|start| start == 0) {
        return Ok(Arc::clone(values));
    }
    let rows = UInt64Array::from_iter_values(0..values.len() as u64);
    Ok(take(values, &rows, None)?)
}

/// The values of a list that isn't NULL.
pub(super) fn elements(lists: &ArrayRef, row: usize) -> Option<ArrayRef> {
    if lists.is_null(row) {
        return None;
    }
    match lists.data_type() {
        DataType::List(_) => Some(lists.as_list::<i32>().value(row)),
        DataType::LargeList(_) => Some(lists.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => Some(lists.as_fixed_size_list().value(row)),
        _ => None,
    }
}

/// Whether a list has a NULL element.
fn has_null(lists: &ArrayRef, row: usize) -> bool {
    let of = |elements: ArrayRef| lists.is_valid(row) && elements.null_count() > 0;
    match lists.data_type() {
        DataType::FixedSizeList(..) => of(lists.as_fixed_size_list().value(row)),
        _ => of(lists.as_list::<i32>().value(row)),
    }
}

impl ScalarUDFImpl for WholeList {
    fn name(&self) -> &'static str {
        "tiledb_whole_list"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [list] => Ok(list.schema_name().to_string()),
            _ => exec_err!("{} takes a list", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields {
            [list] => {
                let field = list.as_ref().clone().with_data_type(self.to.clone());
                Ok(Arc::new(field))
            }
            _ => internal_err!("{} takes a list", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [lists] => {
                let lists = lists.to_array(args.number_rows)?;
                Ok(ColumnarValue::Array(self.whole(&lists)?))
            }
            _ => exec_err!("{} takes a list", self.name()),
        }
    }
}
