//! Conditions on enumerated columns, evaluated on the values of the enumeration instead of on every row.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{
    AnyDictionaryArray, Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray,
    RecordBatch, UInt64Array, downcast_integer_array, make_array,
};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::cmp::{eq, neq};
use datafusion::arrow::datatypes::{ArrowNativeType, DataType, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, exec_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};

use crate::expressions::shortcut::{ShortcutFn, with_shortcuts};

/// Lets conditions on one enumerated column be evaluated on the few values of the enumeration.
pub(super) fn on_values(
    expr: Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
) -> Result<Arc<dyn PhysicalExpr>> {
    with_shortcuts(expr, |expr| OnValues::of(expr, schema))
}

/// A condition is evaluated on each value if the batch has so many rows for each, or if the same values come again: then they are
/// mostly those of an enumeration, which all batches share.
const ROWS_PER_VALUE: usize = 4;

/// A condition on one column of a dictionary. It is evaluated on each value once, and for NULL; a row has the answer of its
/// key.
#[derive(Debug)]
struct OnValues {
    /// The column.
    column: usize,
    /// The condition on a batch of nothing but the column.
    alone: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// The values that came last, and the answers for them if these are known.
    last: Mutex<Option<(ArrayRef, Option<Arc<ValueAnswers>>)>>,
}

/// The answers for the values of a dictionary, and for NULL.
#[derive(Debug)]
struct ValueAnswers {
    /// Whether the condition holds for each value.
    hold: Vec<bool>,
    /// For each value, whether the answer is other than NULL; `None` if all answers are.
    known: Option<Vec<bool>>,
    /// The answer for NULL.
    of_null: Option<bool>,
    /// The value for which alone the condition holds, with `true`, or alone does not hold, with `false`; `None` without one.
    only: Option<(usize, bool)>,
}

impl OnValues {
    /// The condition, if it is one on a column of a dictionary whose answers depend on nothing else.
    fn of(expr: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Result<Option<Self>> {
        let mut columns = collect_columns(expr).into_iter();
        let (Some(column), None) = (columns.next(), columns.next()) else {
            return Ok(None);
        };
        let field = schema.field(column.index());
        if !matches!(field.data_type(), DataType::Dictionary(..))
            || expr.data_type(schema)? != DataType::Boolean
            || expr.exists(|part| Ok(!has_one_answer(part)))?
        {
            return Ok(None);
        }
        let alone = Arc::new(Schema::new(vec![field.clone().with_nullable(true)]));
        Ok(Some(Self {
            alone: reassign_expr_columns(Arc::clone(expr), &alone)?,
            column: column.index(),
            schema: alone,
            last: Mutex::default(),
        }))
    }

    /// The answers for the values of a dictionary; `None` if the values are many and come for the first time, or if the condition
    /// fails on a value, which perhaps no row has.
    fn answers_for_values(&self, dictionary: &dyn AnyDictionaryArray) -> Option<Arc<ValueAnswers>> {
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let values = dictionary.values();
        let came_before = match last().as_ref() {
            Some((of, Some(answers))) if Arc::ptr_eq(of, values) => {
                return Some(Arc::clone(answers));
            }
            Some((of, None)) => Arc::ptr_eq(of, values),
            _ => false,
        };
        let are_few = values.len().saturating_mul(ROWS_PER_VALUE) <= dictionary.keys().len();
        if !are_few && !came_before {
            *last() = Some((Arc::clone(values), None));
            return None;
        }
        let keys = (0..values.len() as u64).map(Some).chain([None]);
        let keys = cast(
            &keys.collect::<UInt64Array>(),
            dictionary.keys().data_type(),
        )
        .ok()?;
        let each = keys
            .to_data()
            .into_builder()
            .data_type(dictionary.data_type().clone())
            .add_child_data(values.to_data())
            .build()
            .ok()?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![make_array(each)]).ok()?;
        let found = self
            .alone
            .evaluate(&batch)
            .ok()?
            .into_array(batch.num_rows())
            .ok()?;
        let answers = Arc::new(ValueAnswers::new(found.as_boolean_opt()?.iter().collect())?);
        *last() = Some((Arc::clone(values), Some(Arc::clone(&answers))));
        Some(answers)
    }
}

/// Whether an expression always has the same answer for the same arguments.
fn has_one_answer(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.is::<Column>()
        || expr.is::<Literal>()
        || expr.is::<BinaryExpr>()
        || expr.is::<InListExpr>()
        || expr.is::<LikeExpr>()
        || expr.is::<NotExpr>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<CastExpr>()
}

impl ValueAnswers {
    /// The answers for all values, and behind them that for NULL, which is there.
    fn new(mut answers: Vec<Option<bool>>) -> Option<Self> {
        let of_null = answers.pop()?;
        let hold = answers
            .iter()
            .map(|answer| *answer == Some(true))
            .collect::<Vec<_>>();
        let known = answers.iter().map(Option::is_some).collect::<Vec<_>>();
        let known = known.contains(&false).then_some(known);
        let only = [true, false].into_iter().find_map(|answer| {
            let mut values = (0..).zip(&hold).filter(|(_, holds)| **holds == answer);
            let (value, _) = values.next()?;
            values.next().is_none().then_some((value, answer))
        });
        Some(Self {
            only: only.filter(|_| known.is_none()),
            hold,
            known,
            of_null,
        })
    }

    /// The answers for the rows with these keys.
    fn of_keys<K: ArrowPrimitiveType>(&self, keys: &PrimitiveArray<K>) -> Result<BooleanArray> {
        let only = self.only.and_then(|(value, holds)| {
            let value = K::Native::from_usize(value)?;
            Some((PrimitiveArray::<K>::new_scalar(value), holds))
        });
        let bits = match only {
            Some((value, true)) => eq(keys, &value)?.values().clone(),
            Some((value, false)) => neq(keys, &value)?.values().clone(),
            None => look_up(&self.hold, keys),
        };
        let known = self.known.as_ref().map(|known| look_up(known, keys));
        let Some(nulls) = keys.nulls().filter(|nulls| nulls.null_count() > 0) else {
            return Ok(BooleanArray::new(bits, known.map(NullBuffer::new)));
        };
        let valid = nulls.inner();
        let Some(of_null) = self.of_null else {
            let known = known.map(NullBuffer::new);
            return Ok(BooleanArray::new(
                bits,
                NullBuffer::union(known.as_ref(), Some(nulls)),
            ));
        };
        let bits = if of_null {
            &bits | &!valid
        } else {
            &bits & valid
        };
        let known = known.map(|known| NullBuffer::new(&known | &!valid));
        Ok(BooleanArray::new(bits, known))
    }
}

/// What a table of values says of each key; something for NULL.
fn look_up<K: ArrowPrimitiveType>(table: &[bool], keys: &PrimitiveArray<K>) -> BooleanBuffer {
    let keys = keys.values();
    BooleanBuffer::collect_bool(keys.len(), |row| {
        let key = keys.get(row).and_then(|key| key.to_usize());
        key.and_then(|key| table.get(key).copied()).unwrap_or(false)
    })
}

impl ShortcutFn for OnValues {
    fn answers(&self, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        let column = batch.columns().get(self.column);
        let dictionary = column.and_then(|column| column.as_any_dictionary_opt());
        let Some((dictionary, answers)) = dictionary
            .and_then(|dictionary| Some((dictionary, self.answers_for_values(dictionary)?)))
        else {
            return Ok(None);
        };
        let keys = dictionary.keys();
        let found: BooleanArray = downcast_integer_array! {
            keys => answers.of_keys(keys)?,
            other => return exec_err!("{other} cannot key a dictionary")
        };
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Not;

    use datafusion::arrow::array::{DictionaryArray, Int64Array, StringArray};
    use datafusion::arrow::datatypes::{Field, Int8Type};
    use datafusion::common::{DFSchema, ScalarValue};
    use datafusion::execution::context::SessionContext;
    use datafusion::logical_expr::{ExprSchemable, cast, col, lit};

    use super::*;

    #[test]
    fn conditions_on_an_enumeration_answer_as_those_on_its_rows() {
        let words = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let schema = Arc::new(Schema::new(vec![
            Field::new("n", DataType::Int64, false),
            Field::new("e", words.clone(), true),
        ]));
        let in_df = DFSchema::try_from(Arc::clone(&schema)).unwrap();
        let ctx = SessionContext::new();
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..90));
        let dictionary = |values: [Option<&str>; 4]| {
            let keys = (0..90).map(|row: i8| (row % 7 != 0).then_some(row % 3));
            let values = StringArray::from(values.to_vec());
            Arc::new(DictionaryArray::<Int8Type>::new(
                keys.collect(),
                Arc::new(values),
            )) as ArrayRef
        };
        let text = |text: &str| lit(text).cast_to(&words, &in_df).unwrap();
        let conditions = [
            col("e").eq(text("4")),
            col("e").not_eq(text("4")),
            col("e").eq(text("absent")),
            col("e").is_null(),
            col("e").is_not_null(),
            col("e").eq(text("4")).not(),
            col("e").in_list(vec![text("4"), text("20")], false),
            col("e").in_list(vec![text("4"), lit(ScalarValue::Null)], true),
            cast(col("e"), DataType::Utf8).like(lit("%0")),
            cast(col("e"), DataType::Int64).gt(lit(4_i64)),
            col("e")
                .eq(text("4"))
                .and(col("n").gt(lit(30_i64)))
                .or(col("e").is_null()),
        ];
        for condition in conditions {
            let plain = ctx.create_physical_expr(condition, &in_df).unwrap();
            let on_values = on_values(Arc::clone(&plain), &schema).unwrap();
            assert!(format!("{on_values:?}").contains("OnValues"), "{plain}");
            // Other values with the same keys come later.
            for values in [
                [Some("4"), Some("20"), Some("-1"), Some("7")],
                [Some("20"), Some("4"), Some("400"), Some("7")],
                [Some("20"), None, Some("4"), Some("7")],
            ] {
                let all = [Arc::clone(&numbers), dictionary(values)];
                for rows in [0..90, 3..90, 1..7, 5..5] {
                    let part = |array: &ArrayRef| array.slice(rows.start, rows.len());
                    let batch =
                        RecordBatch::try_new(Arc::clone(&schema), all.iter().map(part).collect());
                    let batch = batch.unwrap();
                    let expected = plain
                        .evaluate(&batch)
                        .unwrap()
                        .into_array(rows.len())
                        .unwrap();
                    let found = on_values
                        .evaluate(&batch)
                        .unwrap()
                        .into_array(rows.len())
                        .unwrap();
                    assert_eq!(&found, &expected, "{plain} on {rows:?}");
                }
            }
        }
    }
}
