//! Scalar subqueries that find no row.
//!
//! `(SELECT v FROM t WHERE x = 2)` is NULL if no such row exists. If `v` is NOT NULL, as every dimension is, DataFusion assumes
//! that the value is never NULL: it simplifies `… IS NULL` and `coalesce(…, 0)` accordingly, and fails over the NULL in a
//! column of the value. The analyzer rule here gives the subquery a nullable column before DataFusion derives anything from it.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result, internal_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Expr, LogicalPlan, Projection, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Subquery, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::optimizer::plan_search::reads_array_and_has_expr;

/// Makes the column of scalar subqueries nullable.
#[derive(Debug)]
struct NullableSubqueries {
    function: Arc<ScalarUDF>,
}

const NAME: &str = "tiledb_nullable_subqueries";

/// Adds the rule and its function to a session that is being built.
pub(crate) fn install(builder: &mut SessionStateBuilder) {
    let function = Arc::new(ScalarUDF::from(MaybeNull {
        // On a constant, the function would be evaluated, and the resulting constant isn't nullable.
        signature: Signature::any(1, Volatility::Volatile),
    }));
    let functions = builder.scalar_functions().get_or_insert_default();
    functions.push(Arc::clone(&function));
    let analyzer = builder.analyzer().get_or_insert_default();
    // The rule must run before all others, because they derive types.
    analyzer
        .rules
        .insert(0, Arc::new(NullableSubqueries { function }));
}

impl AnalyzerRule for NullableSubqueries {
    fn name(&self) -> &'static str {
        NAME
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !reads_array_and_has_expr(&plan, |expr| matches!(expr, Expr::ScalarSubquery(_)))? {
            return Ok(plan);
        }
        plan.transform_up_with_subqueries(|plan| {
            let changed = plan.map_expressions(|expr| {
                expr.transform_up(|expr| match expr {
                    Expr::ScalarSubquery(subquery) => self.nullable(subquery),
                    expr => Ok(Transformed::no(expr)),
                })
            })?;
            match changed.transformed {
                // The columns above the subquery may now be NULL.
                true => changed.map_data(LogicalPlan::recompute_schema),
                false => Ok(changed),
            }
        })
        .data()
    }
}

impl NullableSubqueries {
    fn nullable(&self, subquery: Subquery) -> Result<Transformed<Expr>> {
        let rows = subquery.subquery.as_ref();
        let fields = rows.schema().fields();
        let is_nullable = fields.iter().any(|field| field.is_nullable());
        if fields.len() != 1 || is_nullable || always_has_a_row(rows) {
            return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
        }
        let (table, field) = rows.schema().qualified_field(0);
        let named = |value: Expr| {
            let value = ScalarFunction::new_udf(Arc::clone(&self.function), vec![value]);
            Expr::ScalarFunction(value).alias_qualified(table.cloned(), field.name())
        };
        let rows = match rows {
            LogicalPlan::Projection(Projection { expr, input, .. }) => {
                let values = expr.iter().cloned().map(|value| named(value.unalias()));
                Projection::try_new(values.collect(), Arc::clone(input))?
            }
            rows => {
                let column = Expr::Column(Column::from((table, field)));
                Projection::try_new(vec![named(column)], Arc::new(rows.clone()))?
            }
        };
        Ok(Transformed::yes(Expr::ScalarSubquery(
            subquery.with_plan(Arc::new(LogicalPlan::Projection(rows))),
        )))
    }
}

/// Whether a query aggregates all its rows, which gives a row even if there are none.
fn always_has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(Aggregate { group_expr, .. }) => group_expr.is_empty(),
        LogicalPlan::Projection(projection) => always_has_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => always_has_a_row(&alias.input),
        LogicalPlan::EmptyRelation(nothing) => nothing.produce_one_row,
        _ => false,
    }
}

/// A function that returns its value with a nullable type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MaybeNull {
    signature: Signature,
}

impl ScalarUDFImpl for MaybeNull {
    fn name(&self) -> &'static str {
        "tiledb_maybe_null"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [value] => Ok(value.clone()),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields {
            [value] => Ok(Arc::new(value.as_ref().clone().with_nullable(true))),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.pop() {
            Some(value) if args.args.is_empty() => Ok(value),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }
}
