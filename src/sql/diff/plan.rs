//! The plan of a difference: a join of the array at two times on all dimensions.
//!
//! In general it is a full join, whose unmatched cells were added or removed. Where only new fragments tell the two
//! times apart, no cell is gone: then only their cells are read of the later time, and the earlier time is asked for
//! what was there before; the join tells that scan which coordinates it needs.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{ScanArgs, Session, TableProvider};
use datafusion::common::{
    Column as Named, DFSchema, JoinSide, JoinType, NullEquality, Result, ScalarValue,
    TableReference, internal_datafusion_err,
};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{Expr, Operator, binary_expr, cast, lit, when};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;

use super::extent::{Differing, condition};
use super::{DiffAttribute, DiffColumns, Shown};
use crate::array::table::{ArrayTable, fill_column};
use crate::sql::provider::TileDbTable;

/// The qualifiers of the columns of the two sides in the join.
const OLD: &str = "old";
const NEW: &str = "new";

/// The array at two times.
pub(super) struct Sides<'a> {
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

impl<'a> Sides<'a> {
    /// Looks at both times, and finds out where they can differ.
    pub(super) async fn new(
        old: &TileDbTable,
        new: &TileDbTable,
        columns: &'a DiffColumns,
    ) -> crate::Result<Self> {
        let (earlier, table) = (old.table().await?, new.table().await?);
        // What is committed from here on is seen by neither side.
        let fixed = |table: &TileDbTable, snapshot| -> crate::Result<TileDbTable> {
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
        match Differing::between(&earlier.snapshot, &table.snapshot) {
            Differing::Anywhere => {}
            Differing::Within(fragments) => sides.within = condition(&table, &fragments),
            Differing::Written(seen) => {
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
        let filters = filters.iter().chain(&self.within).cloned();
        let filters = filters.collect::<Vec<_>>();
        let attributes = || self.columns.attributes.iter();
        let new = self.numbers(&self.new, attributes())?;
        let old = self.numbers(&self.old, attributes().filter(|a| a.in_old))?;
        let schema = side(&self.new, &new, NEW)?.join(&side(&self.old, &old, OLD)?)?;
        let join_type = match self.only_written {
            true => JoinType::Left,
            false => JoinType::Full,
        };
        let join = HashJoinExec::try_new(
            scan(state, &self.new, &new, &filters).await?,
            scan(state, &self.old, &old, &filters).await?,
            self.keys(),
            self.same_zeros(state)?,
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
    fn numbers<'b>(
        &self,
        table: &TileDbTable,
        attributes: impl Iterator<Item = &'b DiffAttribute>,
    ) -> Result<Vec<usize>> {
        let schema = table.schema();
        let attributes = attributes.map(|attribute| attribute.name.as_str());
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

    /// The condition that coordinates of floats have the same sign if they are zero: the keys of a join take 0.0 and -0.0
    /// for equal, which are different coordinates.
    fn same_zeros(&self, state: &dyn Session) -> Result<Option<JoinFilter>> {
        let schema = self.new.schema();
        let (mut indices, mut fields, mut same) = (Vec::new(), Vec::new(), Vec::new());
        for (index, name) in self.columns.dimensions.iter().enumerate() {
            let field = schema.field_with_name(name)?;
            if !field.data_type().is_floating() {
                continue;
            }
            for (side, name) in [(JoinSide::Left, NEW), (JoinSide::Right, OLD)] {
                indices.push(ColumnIndex { index, side });
                fields.push((Some(TableReference::bare(name)), Arc::new(field.clone())));
            }
            let (new, old) = (of(NEW, name), of(OLD, name));
            let zero = lit(ScalarValue::new_zero(field.data_type())?);
            // Comparisons take the zeros for equal, too; as text they differ.
            let text = |expr| cast(expr, DataType::Utf8);
            same.push(new.clone().not_eq(zero).or(text(new).eq(text(old))));
        }
        let Some(same) = conjunction(same) else {
            return Ok(None);
        };
        let schema = DFSchema::new_with_metadata(fields, HashMap::new())?;
        let same = state.create_physical_expr(same, &schema)?;
        let schema = Arc::clone(schema.inner());
        Ok(Some(JoinFilter::new(same, indices, schema)))
    }

    /// Whether a side does not have the cell.
    fn absent(&self, side: &'static str) -> Result<Expr> {
        let first = self.columns.dimensions.first();
        let first = first.ok_or_else(|| internal_datafusion_err!("an array has dimensions"))?;
        Ok(of(side, first).is_null())
    }

    /// Whether a cell differs.
    fn differs(&self) -> Result<Expr> {
        let mut ways = vec![self.absent(OLD)?, self.absent(NEW)?];
        for attribute in &self.columns.attributes {
            let new = of(NEW, &attribute.name);
            let old = match attribute.in_old {
                true => of(OLD, &attribute.name),
                false => lit(self.fill(attribute)?),
            };
            ways.push(binary_expr(new, Operator::IsDistinctFrom, old));
        }
        disjunction(ways).ok_or_else(|| internal_datafusion_err!("nothing to compare"))
    }

    /// The value that the cells of older fragments have in an attribute that these lack.
    fn fill(&self, attribute: &DiffAttribute) -> Result<ScalarValue> {
        let column = self.table.schema.index_of(&attribute.name)?;
        let fill = fill_column(&self.table, column, 1).map_err(DataFusionError::from)?;
        ScalarValue::try_from_array(&fill, 0)
    }

    /// A column of the difference over the columns of the join.
    fn expr(&self, shown: &Shown) -> Result<Expr> {
        match shown {
            Shown::Dimension(name) => {
                when(self.absent(NEW)?, of(OLD, name)).otherwise(of(NEW, name))
            }
            Shown::Change => when(self.absent(OLD)?, lit("added"))
                .when(self.absent(NEW)?, lit("removed"))
                .otherwise(lit("changed")),
            Shown::New(attribute) => Ok(of(NEW, &attribute.name)),
            Shown::Old(attribute) if attribute.in_old => Ok(of(OLD, &attribute.name)),
            Shown::Old(attribute) => {
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

/// The columns of one side in the join, where any may be missing.
fn side(table: &TileDbTable, columns: &[usize], name: &'static str) -> Result<DFSchema> {
    let schema = table.schema().project(columns)?;
    let fields = schema.fields().iter();
    let fields = fields.map(|field| Field::clone(field).with_nullable(true));
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
