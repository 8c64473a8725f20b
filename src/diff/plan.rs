//! The plan of a difference: a join of the array at two times on all dimensions.
//!
//! In general it is a full join, whose unmatched cells were added or removed. If the two times differ only by new fragments, no
//! cell is gone. Then only the cells of these fragments are read at the later time, and the earlier time supplies the old
//! values; the join passes the coordinates it needs to that scan.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::catalog::{ScanArgs, Session, TableProvider};
use datafusion::common::{
    Column as Named, DFSchema, JoinType, NullEquality, Result, ScalarValue, TableReference,
    internal_datafusion_err,
};
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{Expr, Operator, binary_expr, ident, lit, when};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use tiledb_engine::array::fragment::Fragment;
use tiledb_engine::array::fragment::boxes::TileRange;
use tiledb_engine::array::snapshot::{Snapshot, SnapshotContents};
use tiledb_engine::array::table::{ArrayTable, fill_column};
use tiledb_engine::array::window::WindowVisibility;
use tiledb_engine::arrow::stored_values;
use tiledb_engine::format::schema::{ArraySchema, Attribute};
use tiledb_engine::stats::trust::tells_dimension;

use super::{DiffAttribute, DiffColumns, ShownSide};
use crate::error::to_datafusion_error;
use crate::table::provider::TileDbTable;

/// The qualifiers of the columns of the two sides in the join.
const OLD: &str = "old";
const NEW: &str = "new";

/// The array at two times.
pub(super) struct DiffSides<'a> {
    columns: &'a DiffColumns,
    old: TileDbTable,
    new: TileDbTable,
    /// The array at the later time.
    table: Arc<ArrayTable>,
    /// A condition on dimensions, outside which no cell differs.
    within: Option<Expr>,
    /// Whether the later side has only cells that were written after the earlier time, and none is gone.
    only_written: bool,
}

impl<'a> DiffSides<'a> {
    /// Opens both times, and finds out where they can differ.
    pub(super) async fn new(
        old: &TileDbTable,
        new: &TileDbTable,
        columns: &'a DiffColumns,
    ) -> tiledb_engine::Result<Self> {
        let (earlier, table) = (old.table().await?, new.table().await?);
        // Neither side sees later commits.
        let fixed = |table: &TileDbTable, snapshot| -> tiledb_engine::Result<TileDbTable> {
            let (storage, options) = (table.storage().clone(), table.options().clone());
            TileDbTable::of_snapshot(storage, options, snapshot)
        };
        let mut sides = Self {
            columns,
            old: fixed(old, &earlier.snapshot)?,
            new: fixed(new, &table.snapshot)?,
            table: Arc::clone(&table),
            within: None,
            only_written: false,
        };
        match DifferingRegion::between(&earlier.snapshot, &table.snapshot) {
            DifferingRegion::Anywhere => {}
            DifferingRegion::Within(fragments) => sides.within = condition(&table, &fragments),
            DifferingRegion::Written(seen) => {
                let written = table.snapshot.clone().only(&seen)?;
                sides.within = condition(&table, &written.fragments);
                sides.new = fixed(new, &written)?;
                sides.only_written = true;
            }
        }
        Ok(sides)
    }

    /// The plan for some columns of the difference, under conditions on dimensions.
    pub(super) async fn plan(
        &self,
        state: &dyn Session,
        projection: &[usize],
        filters: &[Expr],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filters = filters
            .iter()
            .chain(&self.within)
            .cloned()
            .collect::<Vec<_>>();
        let attributes = || self.columns.attributes.iter();
        let new = self.numbers(&self.new, &attributes().collect::<Vec<_>>())?;
        let old = self.numbers(
            &self.old,
            &attributes().filter(|a| a.in_old).collect::<Vec<_>>(),
        )?;
        let schema = side(&self.new, &new, NEW)?.join(&side(&self.old, &old, OLD)?)?;
        let join_type = if self.only_written {
            JoinType::Left
        } else {
            JoinType::Full
        };
        let join = HashJoinExec::try_new(
            scan(state, &self.new, &new, &filters).await?,
            scan(state, &self.old, &old, &filters).await?,
            self.keys(),
            None,
            &join_type,
            None,
            PartitionMode::Auto,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        let physical = |expr| state.create_physical_expr(expr, &schema);
        let differ = FilterExec::try_new(physical(self.differs()?)?, Arc::new(join))?;
        let mut exprs = Vec::with_capacity(projection.len());
        for column in projection {
            let field = self.columns.schema.fields().get(*column);
            let shown = self.columns.shown.get(*column);
            let (field, shown) = field
                .zip(shown)
                .ok_or_else(|| internal_datafusion_err!("a difference has no column {column}"))?;
            exprs.push((physical(self.expr(shown)?)?, field.name().clone()));
        }
        Ok(Arc::new(ProjectionExec::try_new(exprs, Arc::new(differ))?))
    }

    /// The numbers of the dimensions, then of some attributes, among the columns of one side.
    fn numbers(&self, table: &TileDbTable, attributes: &[&DiffAttribute]) -> Result<Vec<usize>> {
        let schema = table.schema();
        let attributes = attributes.iter().map(|attribute| attribute.name.as_str());
        let dimensions = self.columns.dimensions.iter().map(String::as_str);
        let numbers = dimensions
            .chain(attributes)
            .map(|name| schema.index_of(name));
        Ok(numbers.collect::<std::result::Result<_, _>>()?)
    }

    /// The dimensions, which are the first columns of both sides.
    fn keys(&self) -> Vec<(PhysicalExprRef, PhysicalExprRef)> {
        let dimensions = self.columns.dimensions.iter().enumerate();
        let key = |(i, name): (usize, &String)| {
            let column: PhysicalExprRef = Arc::new(Column::new(name, i));
            (Arc::clone(&column), column)
        };
        dimensions.map(key).collect()
    }

    /// Whether a side does not have the cell.
    fn absent(&self, side: &'static str) -> Result<Expr> {
        let first = self
            .columns
            .dimensions
            .first()
            .ok_or_else(|| internal_datafusion_err!("an array has dimensions"))?;
        Ok(of(side, first).is_null())
    }

    /// Whether a cell differs.
    fn differs(&self) -> Result<Expr> {
        let mut ways = vec![self.absent(OLD)?, self.absent(NEW)?];
        for attribute in &self.columns.attributes {
            let new = of(NEW, &attribute.name);
            let old = if attribute.in_old {
                of(OLD, &attribute.name)
            } else {
                lit(self.fill(attribute)?)
            };
            ways.push(binary_expr(new, Operator::IsDistinctFrom, old));
        }
        disjunction(ways).ok_or_else(|| internal_datafusion_err!("nothing to compare"))
    }

    /// The value that the cells of older fragments have in an attribute that these lack.
    fn fill(&self, attribute: &DiffAttribute) -> Result<ScalarValue> {
        let column = self.table.schema.index_of(&attribute.name)?;
        let fill = fill_column(&self.table, column, 1).map_err(to_datafusion_error)?;
        ScalarValue::try_from_array(&fill, 0)
    }

    /// A column of the difference over the columns of the join.
    fn expr(&self, shown: &ShownSide) -> Result<Expr> {
        match shown {
            ShownSide::Dimension(name) => {
                when(self.absent(NEW)?, of(OLD, name)).otherwise(of(NEW, name))
            }
            ShownSide::Change => when(self.absent(OLD)?, lit("added"))
                .when(self.absent(NEW)?, lit("removed"))
                .otherwise(lit("changed")),
            ShownSide::New(attribute) => Ok(of(NEW, &attribute.name)),
            ShownSide::Old(attribute) if attribute.in_old => Ok(of(OLD, &attribute.name)),
            ShownSide::Old(attribute) => {
                let fill = self.fill(attribute)?;
                let none = ScalarValue::try_new_null(&fill.data_type())?;
                when(self.absent(OLD)?, lit(none)).otherwise(lit(fill))
            }
        }
    }
}

/// A column of one side of the join.
fn of(side: &'static str, name: &str) -> Expr {
    Expr::Column(Named::new(Some(TableReference::bare(side)), name))
}

/// The columns of one side in the join, all nullable because the side may lack a cell.
fn side(table: &TileDbTable, columns: &[usize], name: &'static str) -> Result<DFSchema> {
    let schema = table.schema().project(columns)?;
    let fields = schema
        .fields()
        .iter()
        .map(|field| Field::clone(field).with_nullable(true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    DFSchema::try_from_qualified_schema(TableReference::bare(name), &schema)
}

async fn scan(
    state: &dyn Session,
    table: &TileDbTable,
    columns: &[usize],
    filters: &[Expr],
) -> Result<Arc<dyn ExecutionPlan>> {
    let args = ScanArgs::default()
        .with_projection(Some(columns))
        .with_filters(Some(filters));
    Ok(Arc::clone(table.scan_with_args(state, args).await?.plan()))
}

/// With more fragments than this, one box stands for all of them.
const MOST_BOXES: usize = 16;

/// Where an array differs between two snapshots.
///
/// A cell can differ only if a fragment that may hold it differs. A fragment is the same for both snapshots if both see all of
/// it and it records no deletes, which depend on the time of the snapshot. If unprocessed deletes differ, any cell may differ.
#[derive(Debug)]
pub(super) enum DifferingRegion {
    /// Where these fragments of the later snapshot have cells, each of which is newer than all that the earlier one
    /// shows. No cell is gone.
    Written(SnapshotContents),
    /// Where these fragments of one snapshot or the other have cells.
    Within(Vec<Arc<Fragment>>),
    /// Anywhere.
    Anywhere,
}

impl DifferingRegion {
    /// Compares the fragments and deletes of two snapshots.
    pub(super) fn between(old: &Snapshot, new: &Snapshot) -> Self {
        let deletes = old.deletes.names().eq(new.deletes.names());
        if !deletes || !reads_alike(old, new) {
            return Self::Anywhere;
        }
        let whole = |snapshot: &Snapshot| -> HashSet<String> {
            let fragments = snapshot.fragments.iter().filter(|f| is_whole(f));
            fragments.map(|f| f.name.name.clone()).collect()
        };
        let (in_old, in_new) = (whole(old), whole(new));
        let differs = |fragment: &&Arc<Fragment>| {
            let name = &fragment.name.name;
            !in_old.contains(name) || !in_new.contains(name)
        };
        let gone = old
            .fragments
            .iter()
            .filter(differs)
            .cloned()
            .collect::<Vec<_>>();
        let added = new
            .fragments
            .iter()
            .filter(differs)
            .cloned()
            .collect::<Vec<_>>();
        let last = old.window.end_or_now().0;
        let newer = |f: &Arc<Fragment>| f.name.t1 > last && !f.footer.has_delete_metadata;
        if gone.is_empty() && added.iter().all(newer) {
            return Self::Written(SnapshotContents {
                window: new.window,
                fragments: added.iter().map(|f| f.name.name.clone()).collect(),
                deletes: Vec::new(),
            });
        }
        Self::Within(gone.into_iter().chain(added).collect())
    }
}

/// Whether a fragment that two snapshots show has the same values in both, by the schema of the first.
///
/// A code that one enumeration lacks is NULL there, and may be a value of the other. An attribute that the first schema lacks
/// has its fill value there. But an old fragment may store it, if the attribute was dropped and added again later.
fn reads_alike(old: &Snapshot, new: &Snapshot) -> bool {
    new.schema.attributes.iter().all(|attribute| {
        let name = &attribute.name;
        let before = old
            .schema
            .attribute_index(name)
            .and_then(|i| old.schema.attributes.get(i));
        let Some(before) = before.filter(|before| is_of_type(before, attribute)) else {
            let stores = |f: &Arc<Fragment>| f.schema.attribute_index(name).is_some();
            return !old.fragments.iter().any(stores);
        };
        let file = |schema: &ArraySchema, attribute: &Attribute| {
            let name = attribute.enumeration.as_ref();
            let found = name.and_then(|name| schema.enumeration(name));
            found.map(|found| found.file.clone())
        };
        file(&old.schema, before) == file(&new.schema, attribute)
    })
}

/// Whether two attributes have the same type of cells.
fn is_of_type(a: &Attribute, b: &Attribute) -> bool {
    (a.datatype, a.cell_val_num, &a.enumeration) == (b.datatype, b.cell_val_num, &b.enumeration)
}

/// Whether every snapshot that shows all of a fragment shows the same values.
fn is_whole(fragment: &Fragment) -> bool {
    fragment.visibility == WindowVisibility::Whole && !fragment.footer.has_delete_metadata
}

/// A condition on dimensions that holds where one of the fragments may have a cell; `None` if it holds everywhere.
pub(super) fn condition(table: &ArrayTable, fragments: &[Arc<Fragment>]) -> Option<Expr> {
    if fragments.len() <= MOST_BOXES {
        let boxes = fragments
            .iter()
            .map(|f| box_of(table, std::slice::from_ref(f)));
        // Without fragments there are no cells.
        return Some(disjunction(boxes.collect::<Option<Vec<_>>>()?).unwrap_or_else(|| lit(false)));
    }
    box_of(table, fragments)
}

/// The condition of lying in the box around some fragments; `None` if no side of the box is known.
fn box_of(table: &ArrayTable, fragments: &[Arc<Fragment>]) -> Option<Expr> {
    let dimensions = 0..table.dimension_count();
    conjunction(dimensions.filter_map(|d| side_of(table, fragments, d)))
}

fn side_of(table: &ArrayTable, fragments: &[Arc<Fragment>], d: usize) -> Option<Expr> {
    let ty = table.types.get(d).filter(|ty| !ty.is_lossy())?;
    let name = table.schema.fields().get(d)?.name();
    let datatype = ty.datatype();
    let mut around: Option<(Vec<u8>, Vec<u8>)> = None;
    let mut keys: Option<(u64, u64)> = None;
    for fragment in fragments {
        let known = fragment.footer.dense || tells_dimension(fragment, d);
        match fragment.non_empty_range(d) {
            _ if !known => return None,
            TileRange::Bytes { lo, hi } => {
                let (lo, hi) = (lo.to_vec(), hi.to_vec());
                around = Some(match around {
                    Some((l, h)) => (l.min(lo), h.max(hi)),
                    None => (lo, hi),
                });
            }
            range => {
                let (lo, hi) = range.keys()?;
                keys = Some(keys.map_or((lo, hi), |(l, h)| (l.min(lo), h.max(hi))));
            }
        }
    }
    let stored = |key| tiledb_engine::geometry::key::from_key(datatype, key);
    let (lo, hi) = match keys {
        Some((lo, hi)) => (stored(lo), stored(hi)),
        None => around?,
    };
    let ends = [Some(lo.as_slice()), Some(hi.as_slice())];
    let ends = stored_values(ty, ends.into_iter(), None).ok()??;
    let value = |i| ScalarValue::try_from_array(&ends, i).ok().map(lit);
    Some(ident(name).between(value(0)?, value(1)?))
}
