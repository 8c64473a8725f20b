//! `CREATE EXTERNAL TABLE … STORED AS TILEDB LOCATION '…' OPTIONS (…)`.
//!
//! Without a column list the array is opened and says what its columns are. With one, the list is a promise about
//! an array that exists; this release creates none.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::Result;
use datafusion::logical_expr::CreateExternalTable;

use super::open::open_table;
use super::options::TableOptions;
use super::to_datafusion;
use crate::error::{Error, ErrorKind};

/// Makes tables of arrays.
#[derive(Debug)]
pub(crate) struct TileDbTableFactory;

#[async_trait]
impl TableProviderFactory for TileDbTableFactory {
    async fn create(
        &self,
        session: &dyn Session,
        statement: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        open(session, statement).await.map_err(to_datafusion)
    }
}

async fn open(
    session: &dyn Session,
    statement: &CreateExternalTable,
) -> crate::error::Result<Arc<dyn TableProvider>> {
    let [location] = statement.locations.as_slice() else {
        return Err(Error::invalid(format!(
            "a table STORED AS TILEDB has one LOCATION, found {}",
            statement.locations.len()
        )));
    };
    if !statement.table_partition_cols.is_empty() {
        return Err(Error::unsupported(
            "PARTITIONED BY does not apply to arrays: their dimensions are the partitioning",
        ));
    }
    let options = TableOptions::from_statement(&statement.options)?;
    let table = match open_table(location, &options, session.runtime_env()).await {
        Err(e) if e.kind() == ErrorKind::NotFound && !statement.schema.fields().is_empty() => {
            return Err(Error::unsupported(format!(
                "there is no array at '{location}', and this release does not create arrays"
            ))
            .with_source(e));
        }
        opened => opened?,
    };
    if !statement.schema.fields().is_empty() {
        check_columns(statement, &table)?;
    }
    Ok(Arc::new(table))
}

/// The declared columns must be the array's, by name and in order.
fn check_columns(
    statement: &CreateExternalTable,
    table: &super::TileDbTable,
) -> crate::error::Result<()> {
    let declared = statement
        .schema
        .fields()
        .iter()
        .map(|f| f.name().as_str())
        .collect::<Vec<_>>();
    let schema = datafusion::catalog::TableProvider::schema(table);
    let found = schema
        .fields()
        .iter()
        .map(|f| f.name().as_str())
        .collect::<Vec<_>>();
    if declared == found {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the statement declares the columns {} but the array has {}: leave the list out, or name them all in order",
        declared.join(", "),
        found.join(", ")
    )))
}
