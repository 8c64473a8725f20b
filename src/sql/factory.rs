//! `CREATE EXTERNAL TABLE … STORED AS TILEDB LOCATION '…' OPTIONS (…)`.
//!
//! Without a column list the array is opened, and its columns become those of the table. A column list is compared with
//! the columns of the existing array; this release creates no arrays.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::CreateExternalTable;

use super::catalog::explain_group;
use super::open::open_table;
use super::options::TableOptions;
use crate::error::{Error, ErrorKind};

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

#[async_trait]
impl TableProviderFactory for TileDbTableFactory {
    async fn create(
        &self,
        session: &dyn Session,
        statement: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        open(session, statement)
            .await
            .map_err(DataFusionError::from)
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
        Ok(table) => table,
        Err(e) => {
            return Err(explain_group(e, location, &options, session.runtime_env()).await);
        }
    };
    if !statement.schema.fields().is_empty() {
        check_columns(statement, &table)?;
    }
    Ok(Arc::new(table))
}

/// Checks that the declared columns are the array's, by name, kind of type and order.
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
    if declared != found {
        return Err(Error::invalid(format!(
            "the statement declares the columns {} but the array has {}: leave the list out, or name them all in order",
            declared.join(", "),
            found.join(", ")
        )));
    }
    let mut columns = statement.schema.fields().iter().zip(schema.fields());
    match columns.find(|(declared, found)| !same_kind(declared.data_type(), found.data_type())) {
        None => Ok(()),
        Some((declared, found)) => Err(Error::invalid(format!(
            "the statement declares the column {} as {} but in the array it is {}: leave the list out, or declare what is there",
            found.name(),
            declared.data_type(),
            found.data_type()
        ))),
    }
}

/// Whether a type declared in SQL matches a type of an array. SQL has one kind of text, of bytes and, apart from the
/// precision, of timestamps, and cannot declare enumerations or lists of fixed length.
fn same_kind(declared: &DataType, found: &DataType) -> bool {
    use DataType::{Dictionary, FixedSizeList, LargeList, List, Timestamp};
    match (declared, found) {
        (declared, Dictionary(_, found)) => same_kind(declared, found),
        (Timestamp(_, declared), Timestamp(_, found)) => declared == found,
        (List(declared) | LargeList(declared), List(found) | FixedSizeList(found, _)) => {
            same_kind(declared.data_type(), found.data_type())
        }
        _ if declared.is_string() => found.is_string(),
        _ if declared.is_binary() => found.is_binary(),
        (DataType::Time64(_), DataType::Time64(_)) => true,
        _ => declared == found,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};

    use super::same_kind;

    #[test]
    fn declared_types_stand_for_a_kind() {
        let codes = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8));
        let item = |t: DataType| Arc::new(Field::new_list_field(t, false));
        let pair = DataType::FixedSizeList(item(DataType::Int16), 2);
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
        for (declared, found) in [
            (&DataType::Utf8View, &codes),
            (&DataType::Utf8, &DataType::Utf8View),
            (&DataType::Binary, &DataType::FixedSizeBinary(3)),
            (&nanoseconds, &seconds),
            (&DataType::List(item(DataType::Int16)), &pair),
        ] {
            assert!(same_kind(declared, found), "{declared} {found}");
        }
        for (declared, found) in [
            (&DataType::Utf8View, &DataType::Int32),
            (&DataType::Int32, &DataType::Int64),
            (&DataType::UInt32, &DataType::Int32),
            (&DataType::Date32, &seconds),
            (&DataType::Int16, &pair),
            (&DataType::Utf8, &DataType::BinaryView),
        ] {
            assert!(!same_kind(declared, found), "{declared} {found}");
        }
    }
}
