//! The fuzzer finds what it is for: tables that give wrong answers on purpose are found, and their statements made small.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use libtest_mimic::Failed;

use super::arrays::{Loaded, Source};
use super::ast::Statement;
use super::case::{Case, relations};
use super::generate::Generator;
use super::judge::{Verdict, judge};
use super::print;
use super::report::report;
use super::run::Runner;
use super::session::{Parts, USUAL};
use crate::support::rng::Rng;

/// So many statements are enough to meet a mistake.
const STATEMENTS: u64 = 600;
/// Longer than it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

/// What a table does wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mistake {
    /// It says that it filters, and lets no row with `a = 3` through any filter.
    DropsThrees,
    /// It filters after its limit instead of before.
    FiltersBelowLimit,
}

trial!(a_table_that_drops_rows_is_found);
fn a_table_that_drops_rows_is_found() -> Result<(), Failed> {
    found(Mistake::DropsThrees, 130)
}

trial!(a_filter_below_a_limit_is_found);
fn a_filter_below_a_limit_is_found() -> Result<(), Failed> {
    found(Mistake::FiltersBelowLimit, 170)
}

/// Rows in memory, with a mistake.
#[derive(Debug)]
struct Faulty {
    rows: MemTable,
    mistake: Mistake,
}

#[async_trait]
impl TableProvider for Faulty {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        use datafusion::logical_expr::{col, lit};
        use datafusion::physical_plan::projection::ProjectionExec;
        let mut plan = self.rows.scan(state, None, &[], None).await?;
        let limited = limit.filter(|_| self.mistake == Mistake::FiltersBelowLimit);
        if let Some(limit) = limited {
            plan = Arc::new(GlobalLimitExec::new(plan, 0, Some(limit)));
        }
        let mut filters = filters.to_vec();
        if self.mistake == Mistake::DropsThrees && !filters.is_empty() {
            filters.push(col("a").not_eq(lit(3)));
        }
        if let Some(filter) = conjunction(filters) {
            let schema = datafusion::common::DFSchema::try_from(self.schema())?;
            let filter = state.create_physical_expr(filter, &schema)?;
            plan = Arc::new(FilterExec::try_new(filter, plan)?);
        }
        let Some(projection) = projection else {
            return Ok(plan);
        };
        let schema = self.schema();
        let columns = projection.iter().map(|index| {
            let name = schema.field(*index).name();
            let column = datafusion::physical_expr::expressions::Column::new(name, *index);
            (Arc::new(column) as _, name.clone())
        });
        Ok(Arc::new(ProjectionExec::try_new(
            columns.collect::<Vec<_>>(),
            plan,
        )?))
    }
}

/// A mistake is found, and told by a statement of so many characters at most.
fn found(mistake: Mistake, longest: usize) -> std::result::Result<(), Failed> {
    let mut runner = Runner::new(&format!("{mistake:?}"));
    let source = Source {
        path: "fuzz/arrays/plane".to_owned(),
        options: Vec::new(),
    };
    let whole = runner.wait(async move { source.load().await })?;
    let rows = MemTable::try_new(whole.rows.schema(), vec![vec![whole.rows.clone()]])?;
    let table = Loaded {
        // It isn't an array that could be made smaller.
        source: Source {
            path: String::new(),
            options: Vec::new(),
        },
        table: Arc::new(Faulty { rows, mistake }),
        ..whole
    };
    let (tables, parts) = (vec![Arc::new(table)], Parts::new()?);
    for number in 0..STATEMENTS {
        let statement = Generator::new(Rng::new(11, number), relations(&tables)).statement();
        let case = Case {
            tables: tables.clone(),
            statement,
            shape: USUAL,
        };
        let verdict = judge(&case, &mut runner, &parts);
        if let Verdict::Wrong(_) = verdict {
            let small = report(
                "of a faulty table",
                &case,
                &verdict,
                &mut runner,
                &parts,
                PATIENCE,
            );
            return is_small(&case.statement, &small, longest);
        }
    }
    Err(format!("{STATEMENTS} statements did not find that a table {mistake:?}").into())
}

fn is_small(
    statement: &Statement,
    report: &str,
    longest: usize,
) -> std::result::Result<(), Failed> {
    let sql = report
        .lines()
        .rfind(|line| line.starts_with("SELECT") && line.ends_with(';'));
    match sql {
        Some(sql) if sql.len() <= longest => Ok(()),
        _ => Err(format!("not small: {report}\nof {}", print::statement(statement).1).into()),
    }
}
