//! `CREATE EXTERNAL TABLE … STORED AS TILEDB LOCATION '…' OPTIONS (…)`.
//!
//! Without a column list the array is opened, and its columns become those of the table. With one, the array is created if there
//! is none; if there is one, all that the statement says of it is compared with what it has. Nothing happens before the statement
//! runs: neither planning nor `EXPLAIN` creates anything.

use std::sync::Arc;

use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::Result;
use datafusion::logical_expr::CreateExternalTable;
use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use tiledb_engine::{Error, ErrorKind, Location};

use crate::catalog::explain_group;
use crate::create::CreateRequest;
use crate::error::to_datafusion_error;
use crate::options::ReadOnly;
use crate::stores::location::storage;
use crate::stores::runtime::ArrayRuntime;
use crate::stores::statement::check_used;
use crate::table::open::open_table;
use crate::table::provider::TileDbTable;
use crate::upstream::boxed_methods::forward_to_boxed;

/// Creates tables of arrays for `CREATE EXTERNAL TABLE … STORED AS TILEDB`. [`register`](crate::register) and
/// [`equip`](crate::equip) include it; use it directly to build a session by hand, or to choose another name than
/// `TILEDB`.
///
/// ```
/// use std::sync::Arc;
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
/// use datafusion_tiledb::TileDbTableFactory;
///
/// # async fn example() -> datafusion::error::Result<()> {
/// let state = SessionStateBuilder::new_with_default_features()
///     .with_table_factory("ARRAY".to_owned(), Arc::new(TileDbTableFactory))
///     .build();
/// let ctx = SessionContext::new_with_state(state);
/// ctx.sql("CREATE EXTERNAL TABLE weather STORED AS ARRAY LOCATION './examples/data/weather_stations'").await?;
/// # assert!(ctx.table("weather").await?.count().await? > 0);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct TileDbTableFactory;

impl TileDbTableFactory {
    fn create_boxed<'a>(
        &'a self,
        session: &'a dyn Session,
        statement: &'a CreateExternalTable,
    ) -> BoxFuture<'a, Result<Arc<dyn TableProvider>>> {
        open(session, statement)
            .map_err(to_datafusion_error)
            .boxed()
    }
}

impl TableProviderFactory for TileDbTableFactory {
    forward_to_boxed!(TableProviderFactory: create);
}

async fn open(
    session: &dyn Session,
    statement: &CreateExternalTable,
) -> tiledb_engine::Result<Arc<dyn TableProvider>> {
    let [location] = statement.locations.as_slice() else {
        return Err(Error::invalid(format!(
            "a table STORED AS TILEDB has one LOCATION, found {}",
            statement.locations.len()
        )));
    };
    check_used(&statement.options, session.table_options(), location)?;
    let request = CreateRequest::of(session, statement)?;
    let table = open_or_create(session, location, &request).await?;
    let table = table.named(statement.name.table());
    request.verify(&table.last_seen(), &TableProvider::schema(&table))?;
    Ok(Arc::new(table))
}

/// Opens the array, again if it is being created by several at once: all but one of them take their schemas back, perhaps after
/// these were listed and before they are read.
async fn open_settled(
    location: &str,
    request: &CreateRequest,
    runtime: &ArrayRuntime,
) -> tiledb_engine::Result<TileDbTable> {
    const ATTEMPTS: usize = 8;
    let attempts = if request.declares_columns() {
        ATTEMPTS
    } else {
        1
    };
    for _ in 1..attempts {
        match open_table(location, &request.options, runtime).await {
            Err(e) if e.kind() == ErrorKind::Corrupt => {}
            opened => return opened,
        }
    }
    open_table(location, &request.options, runtime).await
}

/// Opens the array; if there is none and the statement declares columns, it is created first.
async fn open_or_create(
    session: &dyn Session,
    location: &str,
    request: &CreateRequest,
) -> tiledb_engine::Result<TileDbTable> {
    let runtime = &ArrayRuntime::of_session(session);
    let options = &request.options;
    let missing = match open_settled(location, request, runtime).await {
        Ok(table) => return Ok(table),
        Err(e) => e,
    };
    let is_vacant = matches!(missing.kind(), ErrorKind::NotFound | ErrorKind::NotAnArray);
    if is_vacant && request.declares_columns() {
        if let Some(refusal) = ReadOnly::refusal(session.config(), "creating an array") {
            return Err(
                Error::unsupported(refusal).with("array", Location::without_secrets(location))
            );
        }
        // A key of the environment is for what turns out to be encrypted, which a new array is not.
        request
            .create(&storage(location, options, runtime)?)
            .await?;
        return open_settled(location, request, runtime).await;
    }
    if missing.kind() == ErrorKind::NotFound && request.describes_array() {
        let shown = Location::without_secrets(location);
        return Err(Error::invalid(format!(
            "there is no array at '{shown}', and none can be created without columns: declare them, and PRIMARY KEY (…) to say which are the dimensions"
        ))
        .with_source(missing));
    }
    Err(explain_group(missing, location, options, runtime).await)
}
