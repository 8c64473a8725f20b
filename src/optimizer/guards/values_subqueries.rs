//! Subqueries in VALUES.
//!
//! DataFusion evaluates the rows of VALUES while it plans, before any subquery has run, so `INSERT INTO t VALUES ((SELECT max(x)
//! + 1 FROM t))` ends in an internal error. The analyzer rule here makes a query of each row that has a subquery.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, Projection, Union, Values};
use datafusion::optimizer::AnalyzerRule;

use crate::optimizer::plan_search::{has_node, uses_array};

/// Turns rows of VALUES into queries.
#[derive(Debug)]
struct ValuesWithSubqueries;

/// Adds the rule to a session that is being built.
pub(crate) fn install(builder: &mut SessionStateBuilder) {
    let analyzer = builder.analyzer().get_or_insert_default();
    // The rule must run before all others, because they derive types.
    analyzer.rules.insert(0, Arc::new(ValuesWithSubqueries));
}

impl AnalyzerRule for ValuesWithSubqueries {
    fn name(&self) -> &'static str {
        "tiledb_values_with_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_node(&plan, has_subquery)? || !uses_array(&plan)? {
            return Ok(plan);
        }
        let mut changed = false;
        let queried = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Values(values)
                if values.values.iter().any(|row| row_has_subquery(row)) =>
            {
                changed = true;
                union_of_rows(values).map(Transformed::yes)
            }
            // The columns above may be nullable now.
            node if changed => node.recompute_schema().map(Transformed::yes),
            node => Ok(Transformed::no(node)),
        });
        queried.data()
    }
}

fn has_subquery(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Values(Values { values, .. }) => {
            values.iter().any(|row| row_has_subquery(row))
        }
        _ => false,
    }
}

/// Whether a row has a subquery.
fn row_has_subquery(row: &[Expr]) -> bool {
    let is_subquery = |part: &Expr| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_)
        ))
    };
    row.iter()
        .any(|expr| expr.exists(is_subquery).unwrap_or(false))
}

/// The rows in their order as a UNION: runs of rows without a subquery stay VALUES.
fn union_of_rows(values: Values) -> Result<LogicalPlan> {
    let Values { schema, values } = values;
    let (mut parts, mut plain) = (Vec::new(), Vec::new());
    let plain_rows = |rows: &mut Vec<Vec<Expr>>| {
        let rows = std::mem::take(rows);
        (!rows.is_empty()).then(|| {
            let schema = Arc::clone(&schema);
            LogicalPlan::Values(Values {
                schema,
                values: rows,
            })
        })
    };
    for row in values {
        if !row_has_subquery(&row) {
            plain.push(row);
            continue;
        }
        parts.extend(plain_rows(&mut plain));
        let columns = row
            .into_iter()
            .zip(schema.iter())
            .map(|(value, (table, field))| value.alias_qualified(table.cloned(), field.name()));
        let one_row = LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: true,
            schema: Arc::new(DFSchema::empty()),
        });
        let row = Projection::try_new(columns.collect(), Arc::new(one_row))?;
        parts.push(LogicalPlan::Projection(row));
    }
    parts.extend(plain_rows(&mut plain));
    match parts.len() {
        1 => Ok(parts.remove(0)),
        // One node is enough, however many rows there are.
        _ => {
            let parts = parts.into_iter().map(Arc::new).collect();
            Union::try_new_with_loose_types(parts).map(LogicalPlan::Union)
        }
    }
}
