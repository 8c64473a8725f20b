//! Inserting the rows of a [`DataFrame`], or of a stream, without a statement.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::{ScalarValue, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast, lit};
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::{DataFrame, SessionContext, ident};
use tiledb_engine::Error;

use crate::dml::SingleExecution;
use crate::error::to_datafusion_error;
use crate::table::provider::TileDbTable;
use crate::table::session::rebuild;

use super::register::{fill, is_equipped};

impl TileDbTable {
    /// Writes rows to the array as INSERT does, all at once: readers see all of them or none, also if the program stops in
    /// between. With [`InsertOp::Overwrite`] they replace all cells of the array, in the same commit. Returns their number.
    ///
    /// Columns are matched by name, in any order, and cast to the types of the array's columns. As with INSERT, no value may
    /// change, even if the session has no other preparation. Missing columns get their defaults, or NULL. Rows may come in any order: they are sorted as the array needs, on
    /// disk if the memory pool of the session isn't enough.
    ///
    /// ```
    /// use datafusion::logical_expr::dml::InsertOp;
    /// use datafusion::prelude::SessionContext;
    /// use datafusion_tiledb::TileDbTable;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let ctx = SessionContext::new();
    /// datafusion_tiledb::register(&ctx)?;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("levels").display().to_string();
    /// # let create = format!("CREATE EXTERNAL TABLE l (hour BIGINT NOT NULL, level DOUBLE, PRIMARY KEY (hour)) STORED AS TILEDB LOCATION '{path}'");
    /// # ctx.sql(&create).await?.collect().await?;
    /// let levels = TileDbTable::open(&path).await?;
    /// let rows = ctx.sql("SELECT 0.25 AS level, 2 AS hour").await?;
    /// assert_eq!(levels.insert_rows(rows, InsertOp::Append).await?, 1);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// A column does not exist or is given twice, one that cannot be NULL is missing, a value does not fit its column, a row lies
    /// outside the array's domain, two rows have the same coordinates in an array that allows no duplicates, the table shows the
    /// past, the rows can't be read, or the store fails. The array is then as it was.
    pub async fn insert_rows(&self, rows: DataFrame, op: InsertOp) -> Result<u64> {
        let uri = self.storage().uri().to_owned();
        let located = |e: Error| to_datafusion_error(e.with("array", &uri));
        // The columns may have changed since the table was opened.
        let table = TileDbTable::open_storage(self.storage().clone(), self.options().clone());
        let table = table.await.map_err(to_datafusion_error)?;
        let schema = table.array_schema();
        let labels = schema.labels.iter();
        let labels = labels.map(|label| label.name.clone()).collect::<Vec<_>>();
        let table: Arc<dyn TableProvider> = Arc::new(table);
        let given = Arc::clone(rows.schema().inner());
        let columns = columns(&given, table.as_ref(), &labels).map_err(located)?;
        let (mut state, rows) = rows.select(columns)?.into_parts();
        // Without our rules, the casts would cut values off.
        if !is_equipped(&state) {
            rebuild(&mut state, fill).map_err(to_datafusion_error)?;
        }
        let target = provider_as_source(table);
        // A path isn't a name in SQL, where dots would divide it.
        let name = TableReference::bare(uri.as_str());
        let plan = LogicalPlanBuilder::insert_into(rows, name, target, op)?;
        let counts = DataFrame::new(state, plan.build()?).collect().await?;
        let counts = counts.iter().filter_map(|batch| batch.columns().first());
        let counts = counts.filter_map(|column| column.as_primitive_opt::<UInt64Type>());
        Ok(counts.flat_map(|counts| counts.iter().flatten()).sum())
    }

    /// Writes the rows of a stream, as [`insert_rows`](Self::insert_rows) does. The stream may be larger than memory.
    ///
    /// # Errors
    /// Those of [`insert_rows`](Self::insert_rows), and the stream's. If the statement conflicts with another one, it isn't retried, because
    /// the rows come only once.
    pub async fn insert_stream(
        &self,
        ctx: &SessionContext,
        rows: SendableRecordBatchStream,
        op: InsertOp,
    ) -> Result<u64> {
        let schema = rows.schema();
        let partition: Arc<dyn PartitionStream> = Arc::new(SingleExecution::new(&schema, rows));
        let rows = ctx.read_table(Arc::new(StreamingTable::try_new(schema, vec![partition])?))?;
        self.insert_rows(rows, op).await
    }
}

/// The columns of the array, made of those that are given. Labels, which lie in arrays of their own, may be missing.
fn columns(
    given: &SchemaRef,
    table: &dyn TableProvider,
    labels: &[String],
) -> tiledb_engine::Result<Vec<Expr>> {
    let schema = table.schema();
    for (at, field) in given.fields().iter().enumerate() {
        let name = field.name();
        if schema.index_of(name).is_err() {
            let known = schema.fields().iter().map(|field| field.name().as_str());
            return Err(Error::invalid(format!(
                "the array has no column \"{name}\"; its columns are {}",
                known.collect::<Vec<_>>().join(", ")
            )));
        }
        if given.fields().iter().take(at).any(|f| f.name() == name) {
            let message = format!("the column \"{name}\" is given twice, expected once");
            return Err(Error::invalid(message));
        }
    }
    let columns = schema.fields().iter().map(|field| {
        let (name, wanted) = (field.name(), field.data_type());
        let value = match given.field_with_name(name) {
            Ok(found) if found.data_type() == wanted => return Ok(ident(name)),
            Ok(_) => cast(ident(name), wanted.clone()),
            Err(_) if let Some(default) = table.get_column_default(name) => default.clone(),
            Err(_) if field.is_nullable() || labels.contains(name) => {
                let null = ScalarValue::try_from(wanted);
                lit(null.map_err(|e| Error::internal("a type has a NULL").with_source(e))?)
            }
            Err(_) => {
                return Err(Error::invalid(format!(
                    "the rows have no column \"{name}\", which cannot be NULL"
                )));
            }
        };
        Ok(value.alias(name))
    });
    columns.collect()
}
