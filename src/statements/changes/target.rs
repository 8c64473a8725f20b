//! The target of the rewritten statements: an array, and the meaning of the rows that are inserted into it.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, TableReference, internal_err};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlan, TableType, WriteOp};
use datafusion::physical_plan::ExecutionPlan;

use crate::dml::{
    ChangeStatement, ReplannedStatement, delete_plan, insert_plan, write_changes, write_rows_again,
};
use crate::error::to_datafusion_error;
use crate::scan::moment::StatementSnapshots;
use crate::table::provider::TileDbTable;
use crate::upstream::boxed_methods::forward_to_boxed;
use futures::FutureExt;
use futures::future::BoxFuture;

/// The meaning of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowMeaning {
    /// Rows that are inserted.
    Insert,
    /// The coordinates of rows that are deleted.
    Delete,
    /// Rows with new values at the coordinates they have.
    Update(ChangeStatement),
    /// Old coordinates, the new row, whether it stays, and whether its coordinates were taken.
    Change(ChangeStatement),
    /// No rows are written: all existing rows are removed.
    Truncate,
}

/// An array that a statement changes.
#[derive(Debug, Clone)]
pub(crate) struct ChangeTarget {
    table: Arc<dyn TableProvider>,
    meaning: RowMeaning,
    /// The name of the table, and the rows, of a statement that is planned again after a conflict.
    again: Option<(TableReference, Arc<LogicalPlan>)>,
    /// The snapshots of the statement's scans, if it scans the array.
    statement: Option<Arc<StatementSnapshots>>,
}

impl ChangeTarget {
    pub(super) fn new(
        table: &Arc<dyn TableProvider>,
        meaning: RowMeaning,
        name: &TableReference,
        rows: &Arc<LogicalPlan>,
    ) -> Self {
        Self {
            table: Arc::clone(table),
            meaning,
            again: Some((name.clone(), Arc::clone(rows))),
            statement: None,
        }
    }

    /// The URI of the array.
    pub(crate) fn uri(&self) -> Result<&str> {
        Ok(self.array()?.storage().uri())
    }

    /// Returns this target for a statement whose scans of the array are recorded in `statement`.
    pub(crate) fn read_by(&self, statement: &Arc<StatementSnapshots>) -> Self {
        Self {
            statement: Some(Arc::clone(statement)),
            ..self.clone()
        }
    }

    fn array(&self) -> Result<&TileDbTable> {
        match self.table.downcast_ref::<TileDbTable>() {
            Some(array) => Ok(array),
            None => internal_err!("only statements on arrays are rewritten"),
        }
    }

    /// The statement for later runs, which do not repeat themselves.
    fn again(&self, session: &dyn Session, op: WriteOp) -> Option<Arc<ReplannedStatement>> {
        let (name, rows) = self.again.as_ref()?;
        let state = session.as_any().downcast_ref::<SessionState>()?;
        let target = Self {
            again: None,
            statement: None,
            ..self.clone()
        };
        Some(Arc::new(ReplannedStatement::new(
            state,
            name,
            Arc::new(target),
            op,
            rows,
        )))
    }
}

impl ChangeTarget {
    fn scan_boxed<'a>(
        &'a self,
        _state: &'a dyn Session,
        _projection: Option<&'a Vec<usize>>,
        _filters: &'a [Expr],
        _limit: Option<usize>,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        async move { internal_err!("the target of a statement is not read") }.boxed()
    }

    fn truncate_boxed<'a>(
        &'a self,
        state: &'a dyn Session,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        async move {
            let again = self.again(state, WriteOp::Truncate);
            self.array()?.truncated(state, again).await
        }
        .boxed()
    }

    fn insert_into_boxed<'a>(
        &'a self,
        state: &'a dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        async move {
            let array = self.array()?;
            let again = self.again(state, WriteOp::Insert(insert_op));
            let statement = match self.meaning {
                RowMeaning::Insert => {
                    let statement = self.statement.clone();
                    return array.insert(input, insert_op, again, statement).await;
                }
                RowMeaning::Truncate => return internal_err!("TRUNCATE has no rows"),
                RowMeaning::Delete => ChangeStatement::Delete,
                RowMeaning::Update(statement) | RowMeaning::Change(statement) => statement,
            };
            let to = array
                .planned_target(&statement.to_string())
                .await
                .map_err(to_datafusion_error)?
                .again(again)
                .read_by(self.statement.clone());
            match self.meaning {
                RowMeaning::Insert | RowMeaning::Truncate => insert_plan(&to, input),
                RowMeaning::Delete => delete_plan(&to, input),
                RowMeaning::Update(statement) => write_rows_again(&to, input, statement),
                RowMeaning::Change(statement) => write_changes(&to, input, statement),
            }
        }
        .boxed()
    }
}

impl TableProvider for ChangeTarget {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    forward_to_boxed!(TableProvider: scan, insert_into, truncate);
}
