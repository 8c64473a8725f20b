//! INSERT, DELETE, UPDATE and MERGE INTO.
//!
//! DataFusion gives a table a list of filters from the optimized plan, which select the rows to delete or update. A WHERE that
//! is constant, or has a subquery or a LIMIT, leaves too few filters, and the statement would change rows that it does not
//! select. So an analyzer rule rewrites these statements before any other rule sees them: the rows to change are an ordinary
//! query, with their old coordinates and new values as columns, and the statement inserts them into a target that defines their
//! meaning. However the optimizer rewrites the query, it selects the same rows. Their values arrive [unchanged](values).
//!
//! The columns of changed rows are the old coordinates, the new row, whether the new row stays, and whether its coordinates
//! were taken.

mod lists;
mod merge;
mod rows;
mod target;
mod values;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result, ScalarValue, TableReference};
use datafusion::datasource::DefaultTableSource;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    DmlStatement, Expr, JoinType, LogicalPlan, LogicalPlanBuilder, TableSource, WriteOp, lit,
};
use datafusion::optimizer::AnalyzerRule;

pub(crate) use self::target::ChangeTarget;
use self::target::RowMeaning;
use crate::error::to_datafusion_error;
use crate::table::provider::TileDbTable;

/// The analyzer rule.
#[derive(Debug)]
struct ChangeStatements;

const NAME: &str = "tiledb_change_statements";

/// The value in an exact cast in place of DataFusion's cast, which fails over a value that it would change.
pub(crate) fn exactly_cast(call: &ScalarFunction) -> Option<&Expr> {
    match call.args.as_slice() {
        [value] if call.func.name() == values::EXACT => Some(value),
        _ => None,
    }
}

/// Adds the rule to a session that is being built.
pub(crate) fn install(builder: &mut SessionStateBuilder) {
    let rules = &mut builder.analyzer().get_or_insert_default().rules;
    if rules.iter().all(|rule| rule.name() != NAME) {
        // The rule must come before all others, which resolve types and subqueries in its output.
        rules.insert(0, Arc::new(ChangeStatements));
    }
}

/// Whether a session has the rule.
pub(crate) fn is_installed(state: &SessionState) -> bool {
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
struct ChangedArray<'a> {
    array: &'a TileDbTable,
    name: &'a TableReference,
    source: &'a Arc<dyn TableSource>,
}

impl ChangedArray<'_> {
    /// The array as the source of scans that only look up rows at coordinates that the statement writes.
    fn lookup_source(&self) -> Arc<dyn TableSource> {
        let table = Arc::new(self.array.for_lookups());
        Arc::new(DefaultTableSource::new(table))
    }

    /// The number of dimensions, which are the first columns.
    fn dimensions(&self) -> usize {
        self.array.array_schema().dimensions.len()
    }

    /// The number of columns that the array stores.
    fn stored_columns(&self) -> usize {
        let schema = self.array.array_schema();
        schema.dimensions.len() + schema.attributes.len()
    }

    /// A new value of a column. The value must not be NULL if the column is NOT NULL, even if the column has values that show
    /// as NULL. Errors name the row by its coordinates.
    fn required(&self, index: usize, value: Expr, coordinates: Vec<Expr>) -> Expr {
        let schema = self.source.schema();
        let array = self.array.array_schema();
        let attribute = index
            .checked_sub(self.dimensions())
            .and_then(|index| array.attributes.get(index));
        let field = schema.fields().get(index);
        let Some((attribute, field)) = attribute.zip(field) else {
            return value;
        };
        // Columns that can't show NULL are checked when they are written.
        if attribute.nullable || !field.is_nullable() {
            return value;
        }
        let names = schema.fields().iter().map(|field| field.name().clone());
        values::required(value, field.name(), names.zip(coordinates).collect())
    }

    /// The default of a column: its declared default, or NULL.
    fn default(&self, name: &str) -> Expr {
        let default = self.source.get_column_default(name);
        default
            .cloned()
            .unwrap_or(Expr::Literal(ScalarValue::Null, None))
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
    let changed = ChangedArray {
        array,
        name: &statement.table_name,
        source: &statement.target,
    };
    if matches!(statement.op, WriteOp::Delete | WriteOp::Update) {
        check_present(&statement.input, statement.op.name())?;
    }
    let (rows, meaning) = match &statement.op {
        WriteOp::Delete => (
            rows::deleted(&changed, &statement.input)?,
            RowMeaning::Delete,
        ),
        WriteOp::Update => rows::updated(&changed, &statement.input)?,
        WriteOp::MergeInto(merge) => merge::merged(&changed, &statement.input, merge)?,
        WriteOp::Insert(op) => {
            let rows = rows::inserted(&changed, &statement.input)?;
            let rows = lists::checked(Arc::unwrap_or_clone(rows), array.storage().uri())?;
            let rows = Arc::new(rows);
            return Ok(Some(putting(
                provider,
                statement,
                rows,
                WriteOp::Insert(*op),
                RowMeaning::Insert,
            )));
        }
        WriteOp::Truncate => {
            let (rows, op) = (Arc::clone(&statement.input), WriteOp::Truncate);
            return Ok(Some(putting(
                provider,
                statement,
                rows,
                op,
                RowMeaning::Truncate,
            )));
        }
        _ => return Ok(None),
    };
    let rows = lists::checked(rows, array.storage().uri())?;
    let (rows, op) = (Arc::new(rows), WriteOp::Insert(InsertOp::Append));
    Ok(Some(putting(provider, statement, rows, op, meaning)))
}

/// Fails if the rows to change are those of the past, as in `UPDATE t FOR SYSTEM_TIME AS OF …`: they would replace what is newer.
fn check_present(rows: &LogicalPlan, statement: &str) -> Result<()> {
    let mut plan = rows;
    while let [input] = plan.inputs().as_slice() {
        plan = input;
    }
    let LogicalPlan::TableScan(scan) = plan else {
        return Ok(());
    };
    let source = scan.source.downcast_ref::<DefaultTableSource>();
    let table = source.and_then(|source| source.table_provider.downcast_ref::<TileDbTable>());
    let Some(table) = table else { return Ok(()) };
    let checked = table.options().check_changeable(&statement.to_uppercase());
    checked.map_err(to_datafusion_error)
}

/// The statement that inserts rows into a target that defines their meaning.
fn putting(
    array: &Arc<dyn TableProvider>,
    statement: &DmlStatement,
    rows: Arc<LogicalPlan>,
    op: WriteOp,
    meaning: RowMeaning,
) -> LogicalPlan {
    let name = &statement.table_name;
    let target = ChangeTarget::new(array, meaning, name, &rows);
    LogicalPlan::Dml(DmlStatement::new(
        name.clone(),
        Arc::new(DefaultTableSource::new(Arc::new(target))),
        op,
        rows,
    ))
}

/// The names of the columns.
#[derive(Debug)]
struct ColumnNames {
    /// The old coordinates.
    old: Vec<String>,
    /// The new row.
    new: Vec<String>,
    /// Whether the new row stays. Otherwise, the old row is only removed.
    stays: String,
    /// Whether a row was at the new coordinates.
    taken: String,
}

impl ColumnNames {
    fn of(changed: &ChangedArray<'_>) -> Self {
        let numbered = |what: &str, count: usize| {
            let names = (0..count).map(|i| format!("__{what}_{i}"));
            names.collect::<Vec<_>>()
        };
        Self {
            old: numbered("old", changed.dimensions()),
            new: numbered("new", changed.stored_columns()),
            stays: "__stays".to_owned(),
            taken: "__taken".to_owned(),
        }
    }

    /// All columns but the last one.
    fn without_taken(&self) -> impl Iterator<Item = &String> {
        let of_rows = self.old.iter().chain(&self.new);
        of_rows.chain([&self.stays])
    }
}

/// Adds a column that shows whether the array has a row at the new coordinates.
fn with_taken(
    changed: &ChangedArray<'_>,
    names: &ColumnNames,
    rows: LogicalPlan,
) -> Result<LogicalPlan> {
    let there = TableReference::bare("__there");
    let schema = changed.source.schema();
    let dimensions = (0..changed.dimensions()).collect::<Vec<_>>();
    let coordinates = schema.fields().iter().take(changed.dimensions());
    let coordinates =
        coordinates.map(|field| Expr::Column(Column::new(Some(there.clone()), field.name())));
    let coordinates = coordinates.collect::<Vec<_>>();
    let scan = LogicalPlanBuilder::scan(there, changed.lookup_source(), Some(dimensions))?;
    let columns = coordinates.iter().cloned();
    let array = scan.project(
        columns
            .chain([lit(true).alias(&names.taken)])
            .collect::<Vec<_>>(),
    )?;
    let at = |name: &String| Expr::Column(Column::new_unqualified(name));
    let same = names
        .new
        .iter()
        .zip(coordinates)
        .map(|(new, coordinate)| at(new).eq(coordinate));
    let columns = names.without_taken().chain([&names.taken]).map(at);
    LogicalPlanBuilder::from(rows)
        .join_on(array.build()?, JoinType::Left, same)?
        .project(columns.collect::<Vec<_>>())?
        .build()
}
