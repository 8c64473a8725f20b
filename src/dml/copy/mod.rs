//! `COPY … TO 'location' STORED AS TILEDB`: creates an array of the rows of a query.
//!
//! `PARTITIONED BY` names the dimensions, and the options of [`CREATE EXTERNAL TABLE`](crate::TileDbTableFactory) set the rest.
//! The data decide everything else. Nothing happens before the plan runs, and if it fails, no array appears.

mod choice;
mod exec;
mod profile;
mod spool;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{GetExt, Result, Statistics, not_impl_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{
    FileOpener, FileScanConfig, FileSinkConfig, FileSource,
};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::sort_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use object_store::{ObjectMeta, ObjectStore};

use self::choice::DomainChoice;
use self::exec::CopyExec;
pub(crate) use self::exec::{TileDbCopyExec, copy_choices};
pub(crate) use self::spool::ROWS_READ;
use tiledb_engine::Error;
use tiledb_engine::write::create::ArrayBuilder;

use crate::error::to_datafusion_error;
use crate::options::{COPY_OPTIONS, TableOptions, is_of_copy};
use crate::stores::location::storage;
use crate::stores::runtime::ArrayRuntime;
use crate::stores::statement::check_used;

/// The word in `STORED AS`, and the end of a location's name that means the same.
const EXTENSION: &str = "tiledb";

/// A key without the prefix that DataFusion adds to keys that have none.
fn bare(key: &str) -> &str {
    key.strip_prefix("format.").unwrap_or(key)
}

/// Makes [`ArrayFormat`]s of the options of a statement.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ArrayFormatFactory;

/// Arrays as the target of `COPY`.
#[derive(Debug, Clone, Default)]
struct ArrayFormat {
    options: HashMap<String, String>,
}

impl GetExt for ArrayFormatFactory {
    fn get_ext(&self) -> String {
        EXTENSION.to_owned()
    }
}

impl FileFormatFactory for ArrayFormatFactory {
    fn create(
        &self,
        _state: &dyn Session,
        format_options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(ArrayFormat {
            options: format_options.clone(),
        }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(ArrayFormat::default())
    }
}

impl ArrayFormat {
    /// Whether the rows make the open choices, and then the source of the domains.
    fn looks(&self) -> tiledb_engine::Result<Option<DomainChoice>> {
        let [choose_by, domains] = COPY_OPTIONS.map(|option| {
            let is_option =
                |key: &str| key.rsplit('.').next() == Some(option) && is_of_copy(bare(key));
            let mut given = self.options.iter().filter(|(key, _)| is_option(key));
            given.next().map(|(_, value)| value.trim().to_lowercase())
        });
        let wrong = |option: &str, value: &str| {
            let expected = format!("'{value}': expected rows or types");
            Err(Error::invalid(expected).with("option", format!("tiledb.{option}")))
        };
        let [choose, range] = COPY_OPTIONS;
        let domains = match domains.as_deref() {
            None | Some("types") => DomainChoice::Types,
            Some("rows") => DomainChoice::Rows,
            Some(other) => return wrong(range, other),
        };
        match choose_by.as_deref() {
            None | Some("rows") => Ok(Some(domains)),
            Some("types") if domains == DomainChoice::Rows => Err(Error::invalid(
                "domains come from the rows only if they are looked at: leave tiledb.choose_by out",
            )),
            Some("types") => Ok(None),
            Some(other) => wrong(choose, other),
        }
    }

    fn plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        target: &FileSinkConfig,
    ) -> tiledb_engine::Result<Arc<dyn ExecutionPlan>> {
        check_used(&self.options, state.table_options(), &target.original_url)?;
        // These options are for writers of files.
        let looks = self.looks()?;
        let ours = self
            .options
            .iter()
            .filter(|(key, _)| !key.starts_with("execution.") && !is_of_copy(bare(key)))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let (options, creation) = TableOptions::split_statement(&ours)?;
        let dimensions = target
            .table_partition_cols
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>();
        if dimensions.is_empty() {
            return Err(Error::invalid(
                "COPY does not say which columns are the dimensions of the array: add PARTITIONED BY (…) behind STORED AS TILEDB",
            ));
        }
        let columns = input.schema();
        let mut builder = ArrayBuilder::new(&plain(&columns), dimensions)?;
        for (key, value) in &creation {
            builder = builder.option_in_lower_case(key, value)?;
        }
        builder = builder.encryption_key(options.encryption_key.clone());
        builder = builder.timestamp_if_given(options.write_timestamp);
        if looks.is_none() || !builder.lacks_domains() {
            builder.definition()?;
        }
        let uri = target.original_url.trim_end_matches('/');
        let storage = storage(uri, &options, &ArrayRuntime::of_session(state))?;
        let copy = CopyExec {
            builder,
            storage,
            options,
            looks,
            chosen: Arc::default(),
            running: Arc::default(),
        };
        Ok(Arc::new(TileDbCopyExec::new(input, copy)))
    }
}

/// The columns without the metadata of the array they come from, which do not bind the new array. A dictionary that shows an
/// enumeration becomes its plain values.
fn plain(columns: &SchemaRef) -> Schema {
    let fields = columns.fields().iter().map(|field| {
        let data_type = match field.data_type() {
            DataType::Dictionary(_, values) => values.as_ref().clone(),
            other => other.clone(),
        };
        Field::new(field.name(), data_type, field.is_nullable())
    });
    Schema::new(fields.collect::<Vec<_>>())
}

#[async_trait]
impl FileFormat for ArrayFormat {
    fn get_ext(&self) -> String {
        EXTENSION.to_owned()
    }

    fn get_ext_with_compression(&self, _: &FileCompressionType) -> Result<String> {
        not_impl_err!("an array has filters instead of a compression")
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        None
    }

    async fn infer_schema(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        _objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        not_impl_err!(
            "an array isn't a list of files: CREATE EXTERNAL TABLE … STORED AS TILEDB opens it"
        )
    }

    async fn infer_stats(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        _table_schema: SchemaRef,
        _object: &ObjectMeta,
    ) -> Result<Statistics> {
        not_impl_err!("an array isn't a list of files")
    }

    async fn create_physical_plan(
        &self,
        _state: &dyn Session,
        _conf: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("an array isn't a list of files")
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
        _order_requirements: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.plan(input, state, &conf);
        plan.map_err(|e| to_datafusion_error(e.with("array", &conf.original_url)))
    }

    /// Only plans that read files need a source, and [`Self::create_physical_plan`] makes no such plan.
    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        let metrics = ExecutionPlanMetricsSet::new();
        Arc::new(NoFiles {
            table_schema,
            metrics,
        })
    }
}

/// Stands for the files that an array doesn't have.
#[derive(Clone)]
struct NoFiles {
    table_schema: TableSchema,
    metrics: ExecutionPlanMetricsSet,
}

impl FileSource for NoFiles {
    fn create_file_opener(
        &self,
        _object_store: Arc<dyn ObjectStore>,
        _base_config: &FileScanConfig,
        _partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        not_impl_err!("an array isn't a list of files")
    }

    fn table_schema(&self) -> &TableSchema {
        &self.table_schema
    }

    fn with_batch_size(&self, _batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(self.clone())
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &'static str {
        EXTENSION
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}
