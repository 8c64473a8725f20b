//! DELETE, UPDATE and MERGE INTO.
//!
//! DataFusion asks a table to delete or update what satisfies a list of filters, which it reads off the optimized plan; a
//! WHERE that is constant, has a subquery or a LIMIT leaves none or too few of them, and the statement would hit rows that
//! it does not select. So an analyzer rule rewrites these statements before any other rule sees them: the rows to change
//! are an ordinary query, with their old coordinates and new values as columns, and the statement inserts them into a
//! target that knows what they mean. Whatever the optimizer makes of the query, the rows are those it selects.

mod columns;
mod merge;
mod target;
mod update;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, TableReference};
use datafusion::datasource::DefaultTableSource;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    DmlStatement, LogicalPlan, Projection, TableSource, Values, WriteOp,
};
use datafusion::optimizer::AnalyzerRule;

use self::target::{ChangeTarget, Meaning};
use super::provider::TileDbTable;

/// The analyzer rule.
#[derive(Debug)]
struct ChangeStatements;

const NAME: &str = "tiledb_change_statements";

/// Adds the rule to a session that is being built.
pub(super) fn install(builder: &mut SessionStateBuilder) {
    let rules = &mut builder.analyzer().get_or_insert_default().rules;
    if rules.iter().all(|rule| rule.name() != NAME) {
        // Before all others, which resolve types and subqueries in what this writes.
        rules.insert(0, Arc::new(ChangeStatements));
    }
}

/// Whether a session has the rule.
pub(super) fn is_installed(state: &SessionState) -> bool {
    let rules = &state.analyzer().rules;
    rules.iter().any(|rule| rule.name() == NAME)
}

impl AnalyzerRule for ChangeStatements {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_down(|plan| {
            let LogicalPlan::Dml(statement) = &plan else {
                return Ok(Transformed::no(plan));
            };
            Ok(match rewrite(statement)? {
                Some(rewritten) => Transformed::yes(rewritten),
                None => Transformed::no(plan),
            })
        });
        rewritten.data()
    }

    fn name(&self) -> &'static str {
        NAME
    }
}

/// The array that a statement changes.
struct Changed<'a> {
    array: &'a TileDbTable,
    name: &'a TableReference,
    source: &'a Arc<dyn TableSource>,
}

impl Changed<'_> {
    /// The number of dimensions, which are the first columns.
    fn dimensions(&self) -> usize {
        self.array.array_schema().dimensions.len()
    }

    /// The number of columns that the array stores.
    fn stored_columns(&self) -> usize {
        let schema = self.array.array_schema();
        schema.dimensions.len() + schema.attributes.len()
    }
}

fn rewrite(statement: &DmlStatement) -> Result<Option<LogicalPlan>> {
    let source = statement.target.downcast_ref::<DefaultTableSource>();
    let Some(provider) = source.map(|source| &source.table_provider) else {
        return Ok(None);
    };
    let Some(array) = provider.downcast_ref::<TileDbTable>() else {
        return Ok(None);
    };
    let changed = Changed {
        array,
        name: &statement.table_name,
        source: &statement.target,
    };
    let (rows, meaning) = match &statement.op {
        WriteOp::Delete => (
            update::deleted(&changed, &statement.input)?,
            Meaning::Delete,
        ),
        WriteOp::Update => update::updated(&changed, &statement.input)?,
        WriteOp::MergeInto(merge) => merge::merged(&changed, &statement.input, merge)?,
        WriteOp::Insert(op) => {
            let rows = with_nulls(&statement.input)?;
            return Ok(Some(putting(
                provider,
                statement,
                rows,
                *op,
                Meaning::Insert,
            )));
        }
        _ => return Ok(None),
    };
    let (rows, op) = (Arc::new(rows), InsertOp::Append);
    Ok(Some(putting(provider, statement, rows, op, meaning)))
}

/// The rows of a VALUES list with NULL wherever it is written. DataFusion takes the types of such a list from the table, and
/// fails over a NULL in a column that must have none, without saying which column and row that are.
fn with_nulls(rows: &Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = rows.as_ref() else {
        return Ok(Arc::clone(rows));
    };
    let LogicalPlan::Values(list) = projection.input.as_ref() else {
        return Ok(Arc::clone(rows));
    };
    let fields = list.schema.iter().map(|(table, field)| {
        let field = field.as_ref().clone().with_nullable(true);
        (table.cloned(), Arc::new(field))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), list.schema.metadata().clone())?;
    let list = LogicalPlan::Values(Values {
        schema: Arc::new(schema),
        values: list.values.clone(),
    });
    let rows = Projection::try_new(projection.expr.clone(), Arc::new(list))?;
    Ok(Arc::new(LogicalPlan::Projection(rows)))
}

/// The statement that puts rows into a target that knows what they mean.
fn putting(
    array: &Arc<dyn TableProvider>,
    statement: &DmlStatement,
    rows: Arc<LogicalPlan>,
    op: InsertOp,
    meaning: Meaning,
) -> LogicalPlan {
    let name = &statement.table_name;
    let target = ChangeTarget::new(array, meaning, name, &rows);
    LogicalPlan::Dml(DmlStatement::new(
        name.clone(),
        Arc::new(DefaultTableSource::new(Arc::new(target))),
        WriteOp::Insert(op),
        rows,
    ))
}
