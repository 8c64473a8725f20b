//! Functions of enumerations that return dictionaries of numbers.
//!
//! DataFusion's `length` and similar functions turn a dictionary of text into a dictionary of numbers. Values that such
//! numbers are compared with become dictionaries as well, with keys that cannot hold more than 256 values, and a join
//! has no hash table for them ("Unsupported type for ArrayMap"). The analyzer rule here makes plain numbers of them,
//! before types are resolved, in queries of arrays with enumerations of text.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema, Result};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::function_rewrite::ApplyFunctionRewrites;

use crate::arrow::DATATYPE_KEY;

/// Replaces dictionaries of numbers by plain numbers.
#[derive(Debug)]
pub(in crate::sql) struct PlainNumbers;

impl PlainNumbers {
    pub(in crate::sql) const NAME: &'static str = "tiledb_plain_numbers";
}

impl AnalyzerRule for PlainNumbers {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        match reads_codes(&plan)? {
            true => ApplyFunctionRewrites::new(vec![Arc::new(Self)]).analyze(plan, config),
            false => Ok(plan),
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
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
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
