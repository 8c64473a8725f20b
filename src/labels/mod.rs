//! Dimension labels as columns (specification: "Dimension labels").
//!
//! A label names the values of a dimension; its own array stores them by index. In the table it is one more column,
//! after the attributes: the label of a row is the one at the row's index. A filter on a label alone becomes ranges of
//! the dimension ([`scan`]); a label in the projection is read in addition to the rows ([`reader`]). A
//! query without labels neither lists nor reads a label's array.

mod index;
mod reader;
mod scan;

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use futures::future::try_join_all;

pub(crate) use self::reader::LabelProjection;
use tiledb_engine::array::label::LabelArray;
use tiledb_engine::array::snapshot::Snapshot;
use tiledb_engine::array::table::ArrayTable;
use tiledb_engine::arrow::{ColumnType, label_field};
use tiledb_engine::format::schema::DimensionLabel;
use tiledb_engine::geometry::domain::DimensionExtent;
use tiledb_engine::geometry::subarray::{DimRanges, Subarray};
use tiledb_engine::memory::budget::MemoryBudget;
use tiledb_engine::scan::EmptyCells;
use tiledb_engine::storage::{ExternalMembers, FollowedLink, MemberLink, Storage};
use tiledb_engine::{Error, Result};

use self::reader::{LabelReader, LabelSource};
use self::scan::LabelScan;
use crate::stores::location::{local, locate};
use crate::stores::runtime::ArrayRuntime;

/// Where the arrays of labels are found.
pub(crate) struct LabelSurroundings<'a> {
    /// The object stores of the session.
    pub(crate) runtime: &'a ArrayRuntime,
    /// The arrays of labels that may be opened outside the folder that was opened.
    pub(crate) external: &'a ExternalMembers,
}

/// The label columns of a table.
#[derive(Debug, Clone)]
pub(crate) struct LabelColumns {
    /// The columns of the array, then the labels.
    schema: SchemaRef,
    /// The column of the first label.
    first: usize,
    columns: Vec<LabelColumn>,
}

#[derive(Debug, Clone)]
struct LabelColumn {
    label: DimensionLabel,
    /// The index of the dimension it labels.
    dimension: usize,
    field: FieldRef,
    ty: ColumnType,
}

/// The labels that an expression reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MentionedLabels {
    /// No label.
    None,
    /// One label, by its index, and no other column.
    Only(usize),
    /// Labels and other columns.
    Among,
}

/// The opened labels that a query uses.
#[derive(Debug)]
pub(crate) struct OpenLabels<'a> {
    labels: &'a LabelColumns,
    scans: Vec<Option<Arc<LabelScan>>>,
    /// Whether rows lie in the whole domain, and not only in the box around written cells.
    has_whole_domain: bool,
}

impl LabelColumns {
    /// The labels of an array, without reading any of them.
    pub(crate) fn of_table(table: &ArrayTable, empty_cells: EmptyCells) -> Result<Self> {
        let schema = &table.snapshot.schema;
        let mut fields = table.schema.fields().to_vec();
        let first = fields.len();
        let mut columns = Vec::with_capacity(schema.labels.len());
        for label in &schema.labels {
            let (field, ty) = label_field(schema, label, &table.options)?;
            let nullable = field.is_nullable() || empty_cells == EmptyCells::Null;
            let field = Arc::new(field.with_nullable(nullable));
            fields.push(Arc::clone(&field));
            columns.push(LabelColumn {
                label: label.clone(),
                dimension: usize::try_from(label.dimension)?,
                field,
                ty,
            });
        }
        let schema = if columns.is_empty() {
            Arc::clone(&table.schema)
        } else {
            let metadata = table.schema.metadata().clone();
            Arc::new(Schema::new_with_metadata(fields, metadata))
        };
        Ok(Self {
            schema,
            first,
            columns,
        })
    }

    /// The columns of the table: dimensions, attributes, labels.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The labels that an expression over the table's columns reads.
    pub(crate) fn mentioned(&self, expr: &Expr) -> MentionedLabels {
        let columns = expr.column_refs();
        let number = |c: &Column| self.columns.iter().position(|l| l.field.name() == &c.name);
        let numbers: Vec<_> = columns.into_iter().map(number).collect();
        match numbers.as_slice() {
            [Some(label)] => MentionedLabels::Only(*label),
            some if some.iter().any(Option::is_some) => MentionedLabels::Among,
            _ => MentionedLabels::None,
        }
    }

    /// The index of the label that a column of the table shows.
    pub(crate) fn number(&self, column: usize) -> Option<usize> {
        let number = column.checked_sub(self.first)?;
        (number < self.columns.len()).then_some(number)
    }

    /// Fails if any of these columns of the table cannot be read, whatever its cells; the error says how to avoid the
    /// column.
    pub(crate) fn check_readable(
        &self,
        table: &ArrayTable,
        columns: impl Iterator<Item = usize>,
    ) -> Result<()> {
        let labels = self.columns.iter().map(|label| &label.ty);
        let types = table.types.iter().chain(labels).collect::<Vec<_>>();
        let (mut names, mut why) = (BTreeSet::new(), None);
        for column in columns {
            let Some(Err(e)) = types.get(column).map(|ty| ty.check_readable()) else {
                continue;
            };
            names.extend(self.schema.fields().get(column).map(|f| quoted(f.name())));
            why.get_or_insert(e);
        }
        let Some(why) = why else {
            return Ok(());
        };
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let message = format!(
            "{names} cannot be read, the other columns can: name those, or SELECT * EXCEPT ({names})"
        );
        Err(Error::new(why.kind(), message)
            .with("array", table.snapshot.storage.uri())
            .with_source(why))
    }

    /// Adds to the error of a scan that cannot be planned how to avoid the label or attribute that causes it.
    pub(crate) fn how_to_leave_out(&self, error: Error) -> Error {
        let about = |key: &str| error.context().find(|(k, _)| *k == key);
        // The attribute may be one of the label's array.
        let named = about("label").or_else(|| about("attribute"));
        let column = named.and_then(|(_, name)| self.schema.column_with_name(name));
        match column.map(|(_, field)| quoted(field.name())) {
            Some(name) => error.with("left out by", format!("SELECT * EXCEPT ({name})")),
            None => error,
        }
    }

    /// The column of a label, by its index.
    pub(crate) fn column(&self, number: usize) -> usize {
        self.first.saturating_add(number)
    }

    /// Opens the arrays of the labels for which `used` is true, at the time of the labelled array.
    pub(crate) async fn open(
        &self,
        table: &ArrayTable,
        surroundings: &LabelSurroundings<'_>,
        empty_cells: EmptyCells,
        used: impl Fn(usize) -> bool,
    ) -> Result<OpenLabels<'_>> {
        let columns = self.columns.iter().enumerate();
        let opening: Vec<_> = columns
            .map(|(number, column)| column.open(table, surroundings, empty_cells, used(number)))
            .collect();
        Ok(OpenLabels {
            labels: self,
            scans: try_join_all(opening).await?,
            has_whole_domain: empty_cells == EmptyCells::Domain,
        })
    }
}

impl LabelColumn {
    async fn open(
        &self,
        table: &ArrayTable,
        surroundings: &LabelSurroundings<'_>,
        empty_cells: EmptyCells,
        used: bool,
    ) -> Result<Option<Arc<LabelScan>>> {
        if !used {
            return Ok(None);
        }
        self.ty.check_readable()?;
        let snapshot = &table.snapshot;
        let storage = storage_of(&snapshot.storage, &self.label, surroundings)
            .map_err(|e| e.with("label", &self.label.name))?;
        let array = LabelArray::open(
            &storage,
            snapshot.window,
            &snapshot.schema,
            &self.label,
            (self.field.as_ref(), &self.ty),
            &table.options,
        )
        .await?;
        Ok(Some(Arc::new(LabelScan::new(array, empty_cells))))
    }
}

/// A quoted name in SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The storage of a label's array. It is read with the key of the labelled array; if it was made with that array it is
/// encrypted, too, and another array of the user's may or may not be.
fn storage_of(
    array: &Storage,
    label: &DimensionLabel,
    surroundings: &LabelSurroundings<'_>,
) -> Result<Storage> {
    let own = array.location();
    let link = MemberLink {
        root: array.root(),
        from: own,
        external: surroundings.external,
    };
    // A store that only this process knows cannot be found by a URI, but everything below the array is in its store.
    let below = label.uri.strip_prefix(own.uri().trim_end_matches('/'));
    let location = match below.and_then(|rest| rest.strip_prefix('/')) {
        _ if label.relative => link.near(own.resolve(&label.uri))?,
        Some(rest) => link.near(own.resolve(rest))?,
        None => match link.named(&label.uri, |path| local(path, surroundings.runtime))? {
            FollowedLink::At(location) => location,
            FollowedLink::Elsewhere => locate(&label.uri, surroundings.runtime)?,
        },
    };
    let key = array.encryption_key().cloned();
    let storage = array.of_member(location);
    Ok(if label.external {
        storage.with_encryption_key_on_demand(key)
    } else {
        storage.with_encryption_key(key)
    })
}

impl OpenLabels<'_> {
    fn get(&self, number: usize) -> Result<(&LabelColumn, &Arc<LabelScan>)> {
        let column = self.labels.columns.get(number);
        let scan = self.scans.get(number).and_then(Option::as_ref);
        column
            .zip(scan)
            .ok_or_else(|| Error::internal(format!("label {number} is not open")))
    }

    /// Narrows a subarray to the indexes whose label satisfies a predicate on that label alone. Returns the ranges, for
    /// display.
    pub(crate) async fn narrow(
        &self,
        number: usize,
        predicate: &Arc<dyn PhysicalExpr>,
        snapshot: &Snapshot,
        subarray: &mut Subarray,
        memory: &Arc<dyn MemoryBudget>,
    ) -> Result<String> {
        let (column, scan) = self.get(number)?;
        let dimension = column.dimension;
        let rows = if self.has_whole_domain {
            DimRanges::all()
        } else {
            non_empty(snapshot, dimension)?
        };
        let asked = subarray.dim(dimension).intersect(&rows);
        let found = scan::indexes(scan, predicate, &asked, memory)
            .await
            .map_err(|e| e.with("label", &column.label.name))?;
        let stored = snapshot.schema.dimensions.get(dimension);
        let text = stored.map_or_else(String::new, |d| {
            format!(
                "{predicate} => {} in {}",
                d.name.escape_default(),
                found.describe(d.datatype)
            )
        });
        subarray.set_dim(dimension, found);
        Ok(text)
    }

    /// The projection of the array's own scan of `subarray` for a projection of the table, and how labels are added to
    /// it.
    pub(crate) fn project(
        &self,
        projection: &[usize],
        table: &ArrayTable,
        subarray: &Subarray,
    ) -> Result<(Vec<usize>, Option<LabelProjection>)> {
        let is_label = |column: &usize| self.labels.number(*column).is_some();
        let mut scanned: Vec<usize> = projection
            .iter()
            .copied()
            .filter(|c| !is_label(c))
            .collect();
        if scanned.len() == projection.len() {
            return Ok((scanned, None));
        }
        let mut columns = Vec::with_capacity(projection.len());
        let mut positions = 0..;
        for column in projection {
            let Some(number) = self.labels.number(*column) else {
                columns.push(LabelSource::Scan(positions.next().unwrap_or_default()));
                continue;
            };
            let (column, scan) = self.get(number)?;
            let known = scanned.iter().position(|c| *c == column.dimension);
            let index = known.unwrap_or(scanned.len());
            if known.is_none() {
                scanned.push(column.dimension);
            }
            let dimension = table.snapshot.schema.dimensions.get(column.dimension);
            let dimension =
                dimension.ok_or_else(|| Error::internal("a label without a dimension"))?;
            let wanted = subarray.dim(column.dimension).clone();
            columns.push(LabelSource::Label {
                reader: Arc::new(LabelReader::new(Arc::clone(scan), wanted)),
                index,
                datatype: dimension.datatype,
            });
        }
        let schema = self
            .labels
            .schema
            .project(projection)
            .map_err(|e| Error::internal("no such column").with_source(e))?;
        let projected = LabelProjection {
            schema: Arc::new(schema),
            columns,
        };
        Ok((scanned, Some(projected)))
    }
}

/// The range of a dimension that contains all rows of the array.
fn non_empty(snapshot: &Snapshot, dimension: usize) -> Result<DimRanges> {
    let mut all: Option<DimensionExtent> = None;
    for fragment in snapshot.fragments.iter() {
        let range = fragment.footer.non_empty_domain.as_ref();
        let Some(range) = range.and_then(|ranges| ranges.get(dimension)) else {
            continue;
        };
        let stored = fragment
            .schema
            .dimensions
            .get(dimension)
            .ok_or_else(|| Error::internal("a label without a dimension"))?;
        // An invalid range rules nothing out.
        let Ok(bounds) = DimensionExtent::from_range(stored.datatype, range) else {
            return Ok(DimRanges::all());
        };
        match &mut all {
            Some(all) => all.extend(&bounds),
            None => all = Some(bounds),
        }
    }
    Ok(match all {
        Some(DimensionExtent::Keys { lo, hi }) => DimRanges::key_range(lo, hi),
        Some(DimensionExtent::Bytes { .. }) => DimRanges::all(),
        None => DimRanges::none(),
    })
}

#[cfg(test)]
mod tests {
    use tiledb_engine::format::datatype::Datatype;
    use tiledb_engine::format::schema::{CellValNum, DataOrder};
    use tiledb_engine::storage::Location;

    use super::*;

    /// libtiledb 2.30 encrypts the arrays of labels that it makes with an encrypted array.
    #[test]
    fn only_another_array_may_be_plain_where_the_labelled_one_is_encrypted() {
        let key = Arc::new(tiledb_engine::EncryptionKey::new(&[7; 32]));
        let array = Storage::new(Location::local("/d/a").unwrap()).with_encryption_key(Some(key));
        let surroundings = LabelSurroundings {
            runtime: &ArrayRuntime::new(Arc::default(), tiledb_engine::Engine::shared()),
            external: &ExternalMembers::None,
        };
        for external in [false, true] {
            let label = DimensionLabel {
                dimension: 0,
                name: "depth".to_owned(),
                relative: true,
                uri: "__labels/l0".to_owned(),
                attribute: "label".to_owned(),
                order: DataOrder::Unordered,
                datatype: Datatype::Float64,
                cell_val_num: CellValNum::Fixed(1),
                external,
                problem: None,
            };
            let storage = storage_of(&array, &label, &surroundings).unwrap();
            assert_eq!(storage.has_key_on_demand(), external);
            assert!(storage.root().same_location(array.location()));
        }
    }
}
