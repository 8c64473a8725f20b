//! The plans of statements that insert into an array or truncate it.

use std::sync::Arc;

use datafusion::catalog::{ScanArgs, Session};
use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::ExecutionPlan;
use tiledb_engine::Error;

use crate::dml::{PlannedTarget, ReplannedStatement, insert_plan, overwrite_plan, truncate_plan};
use crate::error::to_datafusion_error;
use crate::options::FloatColumns;
use crate::scan::moment::StatementSnapshots;
use crate::table::provider::{LastOpened, TileDbTable};

impl TileDbTable {
    /// The array as a statement that changes it finds it.
    ///
    /// # Errors
    /// The table shows something that no statement can change.
    pub(crate) async fn planned_target(
        &self,
        statement: &str,
    ) -> tiledb_engine::Result<PlannedTarget> {
        let located = |e: Error| e.with("array", self.storage().uri());
        if matches!(*self.last(), LastOpened::Fixed(_)) {
            let why =
                format!("{statement} on a table that shows the past: a snapshot of the array");
            return Err(located(Error::unsupported(why)));
        }
        self.options()
            .check_changeable(statement)
            .map_err(located)?;
        let shown = self.shown().await?;
        let columns = shown.labels.schema();
        Ok(PlannedTarget::new(
            self.storage(),
            self.options(),
            &shown.table,
            columns,
        ))
    }

    /// The plan of a statement that inserts rows, and that is planned `again` if it met another one.
    pub(crate) async fn insert(
        &self,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
        again: Option<Arc<ReplannedStatement>>,
        read_by: Option<Arc<StatementSnapshots>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let statement = match insert_op {
            InsertOp::Append => "INSERT",
            InsertOp::Replace => "REPLACE",
            InsertOp::Overwrite => "INSERT OVERWRITE",
        };
        let to = self.planned_target(statement).await;
        let to = to.map_err(to_datafusion_error)?.again(again);
        let to = to.read_by(read_by);
        if insert_op == InsertOp::Replace && self.array_schema().allows_duplicates {
            let error = Error::unsupported(
                "REPLACE INTO an array that allows duplicates: no row replaces another",
            );
            return Err(to_datafusion_error(
                error.with("array", self.storage().uri()),
            ));
        }
        match insert_op {
            InsertOp::Overwrite => overwrite_plan(&to, input),
            _ => insert_plan(&to, input),
        }
    }

    /// The plan of a statement that hides all fragments and counts their rows. It is planned `again` if it conflicts with
    /// another statement.
    pub(crate) async fn truncated(
        &self,
        state: &dyn Session,
        again: Option<Arc<ReplannedStatement>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let to = self.planned_target("TRUNCATE").await;
        let to = to.map_err(to_datafusion_error)?.again(again);
        let args = ScanArgs::default().with_projection(Some(&[]));
        let scan = self.plan(state, &args, FloatColumns::Shown).await?;
        let rows = DataSourceExec::from_data_source(scan);
        Ok(truncate_plan(&to, rows))
    }

    /// The error for a statement that only the session's own rules can plan.
    pub(super) fn unplanned<T>(&self, statement: &str) -> Result<T> {
        let error = Error::unsupported(format!(
            "{statement} of an array needs the rules that register(&ctx) adds to a session: DataFusion's own plan loses parts \
             of the WHERE clause"
        ));
        Err(to_datafusion_error(
            error.with("array", self.storage().uri()),
        ))
    }
}
