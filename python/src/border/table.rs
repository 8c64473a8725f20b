//! A table for another session.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_tiledb::session::in_one_statement;

use super::BorderSession;
use super::filters::of_this_session;
use super::plan::BorderExec;

/// A table whose scans are queries of this package's session.
pub(super) struct BorderTable {
    inner: Arc<dyn TableProvider>,
    border: BorderSession,
}

impl BorderTable {
    pub(super) fn new(inner: Arc<dyn TableProvider>, border: BorderSession) -> Self {
        Self { inner, border }
    }
}

impl fmt::Debug for BorderTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BorderTable").field(&self.inner).finish()
    }
}

#[async_trait]
impl TableProvider for BorderTable {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let state = self.border.ctx.state();
        let supported = filters
            .iter()
            .map(|filter| match of_this_session(filter, &state) {
                Some(_) => TableProviderFilterPushDown::Exact,
                None => TableProviderFilterPushDown::Unsupported,
            });
        Ok(supported.collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (ctx, inner) = (self.border.ctx.clone(), Arc::clone(&self.inner));
        let (projection, filters) = (projection.cloned(), filters.to_vec());
        let planned = async move {
            let state = ctx.state();
            let mut frame = ctx.read_table(inner)?;
            for filter in &filters {
                // The host has asked whether the filter is supported.
                let known = of_this_session(filter, &state);
                frame = frame.filter(known.unwrap_or_else(|| filter.clone()))?;
            }
            if let Some(rows) = limit {
                frame = frame.limit(0, Some(rows))?;
            }
            if let Some(projection) = projection {
                let schema = frame.schema().clone();
                let columns = projection.iter().map(|column| {
                    let (table, field) = schema.qualified_field(*column);
                    Expr::Column(Column::from((table, field)))
                });
                frame = frame.select(columns.collect::<Vec<_>>())?;
            }
            in_one_statement(frame.create_physical_plan()).await
        };
        let plan = self.border.run(planned).await?;
        Ok(Arc::new(BorderExec::new(plan, self.border.ctx.task_ctx())))
    }

    async fn insert_into(
        &self,
        _: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (ctx, inner) = (self.border.ctx.clone(), Arc::clone(&self.inner));
        let planned = async move {
            let state = ctx.state();
            inner.insert_into(&state, input, insert_op).await
        };
        let plan = self.border.run(planned).await?;
        Ok(Arc::new(BorderExec::new(plan, self.border.ctx.task_ctx())))
    }
}
