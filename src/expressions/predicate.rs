//! DataFusion expressions as predicates of the scan.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::lit;
use datafusion::physical_expr::utils::{
    collect_columns, conjunction_opt, reassign_expr_columns, split_conjunction,
};
use tiledb_engine::scan::Predicate;
use tiledb_engine::scan::spec::{Conjunction, TextCondition};
use tiledb_engine::stats::pruner::TilePruner;
use tiledb_engine::{Error, Result};

use crate::expressions::in_numbers::in_numbers;
use crate::expressions::pruning::ExprPruner;
use crate::expressions::text_conditions;

/// A physical expression and the columns it reads.
#[derive(Debug)]
pub(crate) struct ExprPredicate {
    expr: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    schema: SchemaRef,
    /// The condition for rows on which `expr` fails.
    at_least: Option<Arc<dyn PhysicalExpr>>,
    pruner: Option<Arc<dyn TilePruner>>,
    conjunction: Option<Conjunction>,
}

impl ExprPredicate {
    /// A predicate from an expression over the table's columns.
    pub(crate) fn new(
        expr: &Arc<dyn PhysicalExpr>,
        table_schema: &SchemaRef,
    ) -> datafusion::error::Result<Self> {
        Ok(Self {
            conjunction: take_apart(expr, None, table_schema)?,
            ..Self::whole(expr, None, table_schema)?
        })
    }

    /// A predicate from a condition, and one that only helps to drop rows. The latter may fail on rows that the former
    /// rejects (a cast beyond the limits of its type), and is then ignored.
    pub(crate) fn helped(
        certain: Option<&Arc<dyn PhysicalExpr>>,
        helpful: &Arc<dyn PhysicalExpr>,
        table_schema: &SchemaRef,
    ) -> datafusion::error::Result<Self> {
        let parts = certain.into_iter().chain([helpful]).cloned();
        let both = conjunction_opt(parts).unwrap_or_else(|| lit(true));
        let certain = certain.cloned().unwrap_or_else(|| lit(true));
        Ok(Self {
            conjunction: take_apart(&both, Some(&certain), table_schema)?,
            ..Self::whole(&both, Some(&certain), table_schema)?
        })
    }

    fn whole(
        expr: &Arc<dyn PhysicalExpr>,
        at_least: Option<&Arc<dyn PhysicalExpr>>,
        table_schema: &SchemaRef,
    ) -> datafusion::error::Result<Self> {
        let mut columns = collect_columns(expr)
            .iter()
            .map(|c| c.index())
            .collect::<Vec<_>>();
        columns.sort_unstable();
        columns.dedup();
        let schema: SchemaRef = Arc::new(Schema::clone(&table_schema.project(&columns)?));
        let over_columns = |expr: &Arc<dyn PhysicalExpr>| {
            let expr = reassign_expr_columns(Arc::clone(expr), &schema)?;
            in_numbers(expr, &schema)
        };
        Ok(Self {
            expr: over_columns(expr)?,
            at_least: at_least.map(over_columns).transpose()?,
            columns,
            schema,
            pruner: None,
            conjunction: None,
        })
    }

    /// Sets the pruner of whole tiles.
    pub(crate) fn with_pruner(mut self, pruner: Option<ExprPruner>) -> Self {
        self.pruner = pruner.map(|pruner| Arc::new(pruner) as _);
        self
    }
}

impl Predicate for ExprPredicate {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanArray> {
        let failed = |e: datafusion::error::DataFusionError| {
            Error::invalid(format!("the condition {} failed", self.expr)).with_source(e)
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch =
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.to_vec(), &options)
                .map_err(|e| failed(e.into()))?;
        let value = match (self.expr.evaluate(&batch), &self.at_least) {
            (Err(_), Some(certain)) => certain.evaluate(&batch),
            (value, _) => value,
        };
        let value = value.map_err(failed)?;
        let array = value.into_array(rows).map_err(failed)?;
        Ok(as_boolean_array(&array).map_err(failed)?.clone())
    }

    fn pruner(&self) -> Option<Arc<dyn TilePruner>> {
        self.pruner.clone()
    }

    fn conjunction(&self) -> Option<&Conjunction> {
        self.conjunction.as_ref()
    }
}

/// The conjuncts of a condition; `None` if none of them is about text alone. `at_least` is evaluated on rows on which
/// the other conjuncts fail.
fn take_apart(
    expr: &Arc<dyn PhysicalExpr>,
    at_least: Option<&Arc<dyn PhysicalExpr>>,
    table_schema: &SchemaRef,
) -> datafusion::error::Result<Option<Conjunction>> {
    let (mut texts, mut rest) = (Vec::new(), Vec::new());
    for part in split_conjunction(expr) {
        let Some(text) = text_conditions::of_condition(part, table_schema) else {
            rest.push(Arc::clone(part));
            continue;
        };
        texts.push(TextCondition {
            predicate: Arc::new(ExprPredicate::whole(part, None, table_schema)?),
            needles: text.needles,
        });
    }
    if texts.is_empty() {
        return Ok(None);
    }
    let rest = match conjunction_opt(rest) {
        Some(rest) => {
            // Conditions on text cannot fail, and are evaluated separately.
            let about_rest = |part: &&Arc<dyn PhysicalExpr>| {
                text_conditions::of_condition(part, table_schema).is_none()
            };
            let at_least = at_least.map(|certain| {
                let parts = split_conjunction(certain).into_iter().filter(about_rest);
                conjunction_opt(parts.cloned()).unwrap_or_else(|| lit(true))
            });
            let rest = ExprPredicate::whole(&rest, at_least.as_ref(), table_schema)?;
            Some(Arc::new(rest) as _)
        }
        None => None,
    };
    Ok(Some(Conjunction { texts, rest }))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringViewArray, TimestampSecondArray};
    use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
    use datafusion::common::{DFSchema, ScalarValue};
    use datafusion::execution::context::SessionContext;
    use datafusion::logical_expr::{Expr, cast, col, lit};

    use super::*;

    /// The helping condition may fail on a row that the other one rejects, whether that is split into conjuncts or not.
    #[test]
    fn what_only_helps_may_fail() {
        let milliseconds = DataType::Timestamp(TimeUnit::Millisecond, None);
        let schema = Arc::new(Schema::new(vec![
            Field::new("name", DataType::Utf8View, false),
            Field::new("n", DataType::Int64, false),
            Field::new("t", DataType::Timestamp(TimeUnit::Second, None), false),
        ]));
        let in_df = DFSchema::try_from(Arc::clone(&schema)).unwrap();
        let ctx = SessionContext::new();
        let physical = |expr: Expr| ctx.create_physical_expr(expr, &in_df).unwrap();
        let later = lit(ScalarValue::TimestampMillisecond(Some(1000), None));
        let helpful = physical(cast(col("t"), milliseconds).gt_eq(later));
        let certain = physical(
            col("name")
                .like(lit(ScalarValue::from("a%")
                    .cast_to(&DataType::Utf8View)
                    .unwrap()))
                .and(col("n").eq(lit(0_i64))),
        );

        let names: ArrayRef = Arc::new(StringViewArray::from(vec!["ab", "ac", "b", "ad"]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![0, 1, 0, 0]));
        let times = |all: [i64; 4]| Arc::new(TimestampSecondArray::from(all.to_vec())) as ArrayRef;
        let passes =
            |found: BooleanArray| found.iter().map(|p| p == Some(true)).collect::<Vec<_>>();

        let both = ExprPredicate::helped(Some(&certain), &helpful, &schema).unwrap();
        let ask = |t| {
            passes(
                both.evaluate(&[names.clone(), numbers.clone(), t], 4)
                    .unwrap(),
            )
        };
        assert_eq!(ask(times([5, 5, 5, 0])), [true, false, false, false]);
        assert_eq!(ask(times([5, i64::MAX, 5, 0])), [true, false, false, true]);
        let apart = both.conjunction().unwrap();
        let rest = apart.rest.as_ref().unwrap();
        assert_eq!(rest.columns(), [1, 2]);
        let found = rest.evaluate(&[numbers.clone(), times([5, i64::MAX, 5, 0])], 4);
        assert_eq!(passes(found.unwrap()), [true, false, true, true]);

        let alone = ExprPredicate::helped(None, &helpful, &schema).unwrap();
        let found = alone.evaluate(&[times([5, i64::MAX, 5, 0])], 4).unwrap();
        assert_eq!(passes(found), [true; 4]);
        let asked = ExprPredicate::new(&helpful, &schema).unwrap();
        assert!(asked.evaluate(&[times([5, i64::MAX, 5, 0])], 4).is_err());
    }
}
