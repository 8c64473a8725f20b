//! The cells of an array that differ between two times, as a table.
//!
//! | Column | |
//! |---|---|
//! | the dimensions | the coordinates of the cell |
//! | `change` | `added`, `changed` or `removed` |
//! | `old_x`, `new_x` | the values of attribute `x` at the earlier time and at the later; NULL where the cell did not exist |
//!
//! A cell is changed if one of its attributes is distinct, as `IS DISTINCT FROM` defines it: NULL equals NULL, and NaN equals
//! NaN. The attributes are those of the later time; one that the earlier time lacks, or has with another type, counts
//! as its fill value there, as it reads in older fragments. Cells of dense arrays exist where a fragment wrote them.

mod plan;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt;
use futures::future::BoxFuture;
use tiledb_engine::arrow::{ATTRIBUTE_ROLE, DIMENSION_ROLE, ROLE_KEY};
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::scan::EmptyCells;
use tiledb_engine::storage::Storage;
use tiledb_engine::{Error, Result};

use self::plan::DiffSides;
use crate::error::to_datafusion_error;
use crate::expressions::evaluable::evaluable;
use crate::options::TableOptions;
use crate::table::provider::TileDbTable;
use crate::upstream::boxed_methods::forward_to_boxed;

/// The column that shows the change of a cell.
const CHANGE: &str = "change";

/// The cells of an array that differ between two times.
#[derive(Debug)]
pub(crate) struct ArrayDiff {
    old: TileDbTable,
    new: TileDbTable,
    columns: DiffColumns,
}

/// The columns of the table.
#[derive(Debug, Clone)]
struct DiffColumns {
    dimensions: Vec<String>,
    attributes: Vec<DiffAttribute>,
    schema: SchemaRef,
    /// The meaning of each column of the schema.
    shown: Vec<ShownSide>,
}

/// An attribute of the later time.
#[derive(Debug, Clone)]
struct DiffAttribute {
    name: String,
    /// Whether the earlier time has it with the same type.
    in_old: bool,
}

/// The meaning of a column.
#[derive(Debug, Clone)]
enum ShownSide {
    /// A dimension.
    Dimension(String),
    /// The change of the cell.
    Change,
    /// An attribute at the earlier time.
    Old(DiffAttribute),
    /// An attribute at the later time.
    New(DiffAttribute),
}

impl ArrayDiff {
    /// Opens the array at two times, in milliseconds since 1970.
    pub(crate) async fn open(
        storage: Storage,
        options: &TableOptions,
        (earlier, later): (u64, u64),
    ) -> Result<Self> {
        if earlier > later {
            return Err(Error::invalid(format!(
                "the first time, {earlier} ms, is later than the second, {later} ms: a difference goes from an earlier \
                 time to a later one"
            )));
        }
        let at = |time| {
            let options = TableOptions {
                timestamp_end: Some(time),
                // In dense arrays, too, only written cells exist.
                empty_cells: EmptyCells::Skip,
                system_columns: false,
                all_versions: false,
                ..options.clone()
            };
            TileDbTable::open_columns(storage.clone(), options)
        };
        let (old, new) = (at(earlier).await?, at(later).await?);
        check_identity(&new.array_schema()).map_err(|e| e.with("array", storage.uri()))?;
        let columns = DiffColumns::new(&old.schema(), &new.schema());
        Ok(Self {
            columns: columns.map_err(|e| e.with("array", storage.uri()))?,
            old,
            new,
        })
    }
}

/// Fails if several cells of an array may have the same coordinates.
fn check_identity(schema: &ArraySchema) -> Result<()> {
    if schema.allows_duplicates {
        return Err(Error::unsupported(
            "the array allows duplicates, so it is not known which of several cells at the same coordinates became \
             which; compare what GROUP BY all columns counts at both times instead",
        ));
    }
    let lossy = |d: &usize| schema.dimension_filters(*d, schema.version).is_lossy();
    let lossy = (0..schema.dimensions.len()).find(lossy);
    match lossy.and_then(|d| schema.dimensions.get(d)) {
        None => Ok(()),
        Some(dimension) => Err(Error::unsupported(
            "the dimension has a filter that changes coordinates, so different cells may be read at the same ones, and \
             it is not known which became which",
        )
        .with("dimension", &dimension.name)),
    }
}

impl DiffColumns {
    fn new(old: &Schema, new: &Schema) -> Result<Self> {
        let (mut dimensions, mut attributes) = (Vec::new(), Vec::new());
        let (mut of_dimensions, mut of_attributes) = (Vec::new(), Vec::new());
        for field in new.fields() {
            let role = field.metadata().get(ROLE_KEY).map(String::as_str);
            let (name, ty) = (field.name(), field.data_type());
            if role == Some(DIMENSION_ROLE) {
                dimensions.push(name.clone());
                let column = Field::new(name, ty.clone(), true);
                of_dimensions.push((column, ShownSide::Dimension(name.clone())));
            } else if role == Some(ATTRIBUTE_ROLE) {
                let before = old
                    .column_with_name(name)
                    .map(|(_, field)| field)
                    .filter(|field| field.data_type() == ty);
                let attribute = DiffAttribute {
                    name: name.clone(),
                    in_old: before.is_some(),
                };
                let before = match before {
                    Some(field) => field.clone().with_nullable(true),
                    None => Field::new(name, ty.clone(), true),
                };
                let after = Field::clone(field).with_nullable(true);
                let (old_name, new_name) = (format!("old_{name}"), format!("new_{name}"));
                of_attributes.extend([
                    (
                        before.with_name(old_name),
                        ShownSide::Old(attribute.clone()),
                    ),
                    (after.with_name(new_name), ShownSide::New(attribute.clone())),
                ]);
                attributes.push(attribute);
            }
        }
        let change = (Field::new(CHANGE, DataType::Utf8, false), ShownSide::Change);
        let columns = of_dimensions.into_iter().chain([change]);
        let (fields, shown): (Vec<_>, Vec<_>) = columns.chain(of_attributes).unzip();
        for (i, field) in fields.iter().enumerate() {
            let name = field.name();
            if fields.iter().take(i).any(|other| other.name() == name) {
                return Err(Error::unsupported(format!(
                    "two columns of the difference would be called \"{name}\", because a field of the array is called \
                     like a column that a difference adds"
                )));
            }
        }
        Ok(Self {
            dimensions,
            attributes,
            schema: Arc::new(Schema::new(fields)),
            shown,
        })
    }
}

impl ArrayDiff {
    fn scan_boxed<'a>(
        &'a self,
        state: &'a dyn Session,
        projection: Option<&'a Vec<usize>>,
        filters: &'a [Expr],
        _limit: Option<usize>,
    ) -> BoxFuture<'a, datafusion::common::Result<Arc<dyn ExecutionPlan>>> {
        async move {
            let sides = DiffSides::new(&self.old, &self.new, &self.columns)
                .await
                .map_err(to_datafusion_error)?;
            let all = (0..self.columns.schema.fields().len()).collect();
            sides.plan(state, projection.unwrap_or(&all), filters).await
        }
        .boxed()
    }

    fn scan_with_args_boxed<'a>(
        &'a self,
        state: &'a dyn Session,
        args: ScanArgs<'a>,
    ) -> BoxFuture<'a, datafusion::common::Result<ScanResult>> {
        async move {
            let projection = args.projection().map(<[usize]>::to_vec);
            let filters = args.filters().unwrap_or_default();
            let plan = self.scan(state, projection.as_ref(), filters, args.limit());
            Ok(plan.await?.into())
        }
        .boxed()
    }
}

impl TableProvider for ArrayDiff {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.columns.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    /// Conditions on coordinates alone are pushed down to both times; other conditions need both rows.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion::common::Result<Vec<TableProviderFilterPushDown>> {
        let is_dimension = |name: &String| self.columns.dimensions.contains(name);
        let support = |filter: &&Expr| {
            let columns = filter.column_refs();
            let decided = columns.iter().all(|c| is_dimension(&c.name)) && !columns.is_empty();
            Ok(if decided && evaluable(filter)? {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Unsupported
            })
        };
        filters.iter().map(support).collect()
    }

    forward_to_boxed!(TableProvider: scan, scan_with_args);
}
