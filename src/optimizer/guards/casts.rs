//! Types that a function or a cast gives a column: the bounds of casts, and dictionaries of numbers.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema, Result};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::function_rewrite::ApplyFunctionRewrites;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use tiledb_engine::arrow::DATATYPE_KEY;

use super::hiding::{HiddenClaims, HidingExec};
use crate::optimizer::PlanRef;
use crate::optimizer::below::{rewritten_below, scan, scans_array};

/// The plan whose scans of arrays have the bounds of columns, and in which nodes hide the wrong bounds of casts.
///
/// For a projection that casts a column, DataFusion casts the bounds of the column, and uses them as bounds of the cast
/// (`project_column_statistics_through_expr`). That is correct only if the cast keeps the order of values. As text, 11 comes
/// before 2, so MIN and MAX from statistics are wrong, and the planning of conditions fails because the lower bound is above
/// the upper one. So scans have no bounds of columns at first. Before any rule uses statistics, the [rule](crate::optimizer)
/// adds the bounds to scans, and inserts a [node](HidingExec) above such projections, which hides the bounds of the cast from
/// aggregates, conditions and joins.
pub(crate) fn with_bounds_below(plan: &PlanRef) -> Result<PlanRef> {
    let hide = |plan: &PlanRef, believed: bool| {
        if let Some(source) = scan(plan).filter(|_| believed) {
            source.tell_bounds();
        }
        let columns = reordered(plan);
        if !believed || columns.is_empty() || !scans_array(plan) {
            return Ok(None);
        }
        let hidden = HiddenClaims::Statistics(columns.into());
        Ok(Some(
            Arc::new(HidingExec::new(Arc::clone(plan), hidden)) as _
        ))
    };
    let guarded = rewritten_below(plan, false, &believes, &hide)?;
    Ok(guarded.unwrap_or_else(|| Arc::clone(plan)))
}

/// Whether a node uses the bounds of columns below it; joins use them to estimate their number of rows.
fn believes(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<AggregateExec>() || plan.is::<FilterExec>() || plan.children().len() > 1
}

/// The columns of a projection that are casts of columns to a type with another order.
fn reordered(plan: &PlanRef) -> Vec<usize> {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else {
        return Vec::new();
    };
    let input = projection.input().schema();
    let exprs = projection.expr().iter().enumerate();
    exprs
        .filter(|(_, shown)| reorders(&shown.expr, &input))
        .map(|(column, _)| column)
        .collect()
}

fn reorders(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> bool {
    let Some(cast) = expr.downcast_ref::<CastExpr>() else {
        return false;
    };
    let from = cast.expr().data_type(input);
    !from.is_ok_and(|from| keeps_order(&from, cast.cast_type())) || reorders(cast.expr(), input)
}

/// Whether a cast keeps the order of values.
fn keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Dictionary, Duration, LargeBinary, LargeUtf8,
        Time32, Time64, Timestamp, Utf8, Utf8View,
    };
    let bytes = |t: &DataType| {
        matches!(
            t,
            Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView
        )
    };
    let moment = |t: &DataType| matches!(t, Date32 | Date64 | Timestamp(_, None));
    match (from, to) {
        (Dictionary(_, from), to) => keeps_order(from, to),
        (from, Dictionary(_, to)) => keeps_order(from, to),
        (from, to) if from == to => true,
        (from, to) if bytes(from) && bytes(to) => true,
        (Boolean, to) => to.is_numeric(),
        (from, to) if from.is_numeric() && to.is_numeric() => true,
        (from, to) if moment(from) && moment(to) => true,
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) => true,
        (Duration(_), Duration(_)) => true,
        (from, to) if from.is_integer() => moment(to) || matches!(to, Duration(_)),
        (from, to) if to.is_integer() => moment(from) || matches!(from, Duration(_)),
        _ => false,
    }
}

/// Replaces dictionaries of numbers by plain numbers.
///
/// DataFusion's `length` and similar functions turn a dictionary of text into a dictionary of numbers. Values that are compared
/// with such numbers become dictionaries as well, with keys that cannot hold more than 256 values, and a join has no hash table
/// for them ("Unsupported type for ArrayMap"). Before types are resolved, the analyzer rule here turns these dictionaries into
/// plain numbers, in queries of arrays with enumerations of text.
#[derive(Debug)]
pub(crate) struct PlainNumbers;

impl PlainNumbers {
    pub(crate) const NAME: &'static str = "tiledb_plain_numbers";
}

impl AnalyzerRule for PlainNumbers {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if reads_codes(&plan)? {
            ApplyFunctionRewrites::new(vec![Arc::new(Self)]).analyze(plan, config)
        } else {
            Ok(plan)
        }
    }
}

/// Whether a plan or one of its subqueries reads an array with an enumeration of text.
fn reads_codes(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::TableScan(scan) = plan {
            let schema = scan.source.schema();
            let mut fields = schema.fields().iter();
            found |= fields.any(|field| {
                matches!(field.data_type(), DataType::Dictionary(..))
                    && field.metadata().contains_key(DATATYPE_KEY)
            });
        }
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

impl FunctionRewrite for PlainNumbers {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        if !matches!(expr, Expr::ScalarFunction(_)) || !is_of_array(&expr, schema) {
            return Ok(Transformed::no(expr));
        }
        // Types are not resolved yet; an expression without a type is reported by the rules that resolve them.
        Ok(match expr.get_type(schema) {
            Ok(DataType::Dictionary(_, values)) if values.is_primitive() => {
                Transformed::yes(cast(expr, *values))
            }
            _ => Transformed::no(expr),
        })
    }
}

/// Whether an expression is computed from columns of an array.
fn is_of_array(expr: &Expr, schema: &DFSchema) -> bool {
    let mut columns = expr.column_refs().into_iter();
    columns.any(|column| {
        let field = schema.field_from_column(column);
        field.is_ok_and(|field| field.metadata().contains_key(DATATYPE_KEY))
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn casts_to_text_times_and_truth_change_the_order() {
        use DataType::{Boolean, Date32, Float64, Int16, Int64, Time64, Timestamp, Utf8, Utf8View};
        let seconds = Timestamp(TimeUnit::Second, None);
        let zoned = Timestamp(TimeUnit::Second, Some("Europe/Oslo".into()));
        let codes = DataType::Dictionary(Box::new(Int16), Box::new(Utf8));
        for (from, to) in [
            (Int16, Int64),
            (Int64, Float64),
            (Boolean, Int64),
            (Utf8, Utf8View),
            (codes.clone(), Utf8),
            (seconds.clone(), Date32),
            (Int64, seconds.clone()),
        ] {
            assert!(keeps_order(&from, &to), "{from} to {to}");
        }
        for (from, to) in [
            (Int64, Utf8),
            (Utf8, Int64),
            (codes, Int64),
            (Int64, Boolean),
            (Date32, Utf8),
            (seconds.clone(), Time64(TimeUnit::Nanosecond)),
            (seconds, zoned),
        ] {
            assert!(!keeps_order(&from, &to), "{from} to {to}");
        }
    }
}
