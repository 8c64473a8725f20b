//! The target of the rewritten statements: an array, and what the rows that are put into it mean.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, internal_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::sql::dml::{delete_plan, write_changes, write_rows_again};
use crate::sql::provider::TileDbTable;

/// What the rows mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The coordinates of rows that are deleted.
    Delete,
    /// Rows with new values at the coordinates they have.
    Update(&'static str),
    /// Old coordinates, the new row, whether it stays, and whether its coordinates were taken.
    Change(&'static str),
}

/// An array that a statement changes.
#[derive(Debug)]
pub(super) struct ChangeTarget {
    table: Arc<dyn TableProvider>,
    meaning: Meaning,
}

impl ChangeTarget {
    pub(super) fn new(table: &Arc<dyn TableProvider>, meaning: Meaning) -> Self {
        Self {
            table: Arc::clone(table),
            meaning,
        }
    }
}

#[async_trait]
impl TableProvider for ChangeTarget {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("the target of a statement is not read")
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        _insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(array) = self.table.downcast_ref::<TileDbTable>() else {
            return internal_err!("only statements on arrays are rewritten");
        };
        let statement = match self.meaning {
            Meaning::Delete => "DELETE",
            Meaning::Update(statement) | Meaning::Change(statement) => statement,
        };
        let to = array.destination(statement).await;
        let to = to.map_err(DataFusionError::from)?;
        match self.meaning {
            Meaning::Delete => delete_plan(&to, input),
            Meaning::Update(statement) => write_rows_again(&to, input, statement),
            Meaning::Change(statement) => write_changes(&to, input, statement),
        }
    }
}
