//! The rule that makes statements which write to arrays carry floats bit by bit.
//!
//! The rule follows each written column down the plan: through projections, as long as the value is a column itself, a branch
//! of CASE, or either of them in a cast that changes nothing; and through aliases, filters, sorts, limits and joins. If the
//! path ends in the scan of an array, the scan returns the column a second time, as stored. The nodes on the path pass this
//! second column on under its own name, beside the column that everything else uses. The rule runs before all others, which
//! then drop unused columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::datasource::DefaultTableSource;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::logical_plan::TableScanBuilder;
use datafusion::logical_expr::{
    DmlStatement, Expr, ExprSchemable, Join, JoinType, LogicalPlan, Projection, SubqueryAlias,
    TableScan, WriteOp,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use tiledb_engine::arrow::DATATYPE_KEY;

use super::WithStoredFloats;
use crate::error::to_datafusion_error;
use crate::statements::changes::exactly_cast;

/// The file extension with which COPY writes to arrays.
const ARRAYS: &str = "tiledb";

/// Makes statements that write to arrays carry floats bit by bit.
#[derive(Debug)]
pub(crate) struct StoredBits;

impl StoredBits {
    const NAME: &'static str = "tiledb_stored_bits";
}

impl OptimizerRule for StoredBits {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        // Few plans write to arrays, and a search costs less than a rewrite.
        if !plan.exists(|node| Ok(input_of_write(node).is_some()))? {
            return Ok(Transformed::no(plan));
        }
        plan.transform_down(|plan| {
            let Some(input) = input_of_write(&plan) else {
                return Ok(Transformed::no(plan));
            };
            let Some(rows) = with_stored_bits(input)? else {
                return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
            };
            let rows = Arc::new(rows);
            let plan = match plan {
                LogicalPlan::Dml(statement) => LogicalPlan::Dml(DmlStatement {
                    input: rows,
                    ..statement
                }),
                LogicalPlan::Copy(copy) => LogicalPlan::Copy(CopyTo {
                    input: rows,
                    ..copy
                }),
                plan => plan,
            };
            Ok(Transformed::new(plan, true, TreeNodeRecursion::Jump))
        })
    }
}

/// The rows that a node writes to an array.
fn input_of_write(node: &LogicalPlan) -> Option<&Arc<LogicalPlan>> {
    match node {
        LogicalPlan::Dml(statement) if writes_array(statement) => Some(&statement.input),
        LogicalPlan::Copy(copy) if copy.file_type.get_ext() == ARRAYS => Some(&copy.input),
        _ => None,
    }
}

fn writes_array(statement: &DmlStatement) -> bool {
    let target = statement.target.schema();
    let mut fields = target.fields().iter();
    let of_array = fields.any(|field| field.metadata().contains_key(DATATYPE_KEY));
    of_array && matches!(statement.op, WriteOp::Insert(_))
}

/// The rows with the stored bits of all floats that nothing computes; `None` if nothing changes.
fn with_stored_bits(rows: &Arc<LogicalPlan>) -> Result<Option<LogicalPlan>> {
    let schema = rows.schema();
    let floats = schema
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, field)| has_floats(field.data_type()));
    let wanted = floats.map(|(i, _)| i).collect::<Vec<_>>();
    if wanted.is_empty() {
        return Ok(None);
    }
    let mut carrier = PlanWidener { names: 0 };
    let Some(WidenedPlan { plan, stored }) = carrier.carried(rows, &wanted)? else {
        return Ok(None);
    };
    let columns = schema.iter().enumerate().map(|(i, (table, field))| {
        let own = || Expr::Column(Column::new(table.cloned(), field.name()));
        match stored.get(&i) {
            Some(bits) => Expr::Column(bits.clone()).alias_qualified(table.cloned(), field.name()),
            None => own(),
        }
    });
    let rows = Projection::try_new(columns.collect(), Arc::new(plan))?;
    Ok(Some(LogicalPlan::Projection(rows)))
}

fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::FixedSizeList(item, _) => has_floats(item.data_type()),
        other => matches!(other, DataType::Float32 | DataType::Float64),
    }
}

/// A plan with added columns.
struct WidenedPlan {
    plan: LogicalPlan,
    /// Maps the index of a column in the original plan to the added column with its stored bits.
    stored: BTreeMap<usize, Column>,
}

/// Builds plans that carry stored bits.
struct PlanWidener {
    /// The number of names given so far.
    names: usize,
}

impl PlanWidener {
    /// A plan that also has the stored bits of the wanted columns, as far as they are available.
    fn carried(
        &mut self,
        plan: &Arc<LogicalPlan>,
        wanted: &[usize],
    ) -> Result<Option<WidenedPlan>> {
        if wanted.is_empty() {
            return Ok(None);
        }
        match plan.as_ref() {
            LogicalPlan::TableScan(scan) => scanned(scan, wanted),
            LogicalPlan::SubqueryAlias(alias) => self.aliased(alias, wanted),
            LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Repartition(_) => {
                let inputs = plan.inputs();
                let Some(input) = inputs.first() else {
                    return Ok(None);
                };
                let input = Arc::new((*input).clone());
                let Some(below) = self.carried(&input, wanted)? else {
                    return Ok(None);
                };
                Ok(Some(WidenedPlan {
                    plan: plan.with_new_exprs(plan.expressions(), vec![below.plan])?,
                    ..below
                }))
            }
            LogicalPlan::Projection(projection) => self.projected(projection, wanted),
            LogicalPlan::Join(join) => self.joined(join, wanted),
            _ => Ok(None),
        }
    }

    fn aliased(&mut self, alias: &SubqueryAlias, wanted: &[usize]) -> Result<Option<WidenedPlan>> {
        let Some(below) = self.carried(&alias.input, wanted)? else {
            return Ok(None);
        };
        let table = alias.alias.clone();
        let plan = SubqueryAlias::try_new(Arc::new(below.plan), table.clone())?;
        let stored = below
            .stored
            .into_iter()
            .map(|(index, column)| {
                let column = Column::new(Some(table.clone()), column.name);
                (index, column)
            })
            .collect::<BTreeMap<_, _>>();
        // If two columns share a name, an alias renames one of them.
        let own = alias.schema.iter().zip(plan.schema.iter());
        let kept = own.fold(true, |kept, (a, b)| kept && a.1.name() == b.1.name());
        let known = stored.values().all(|column| plan.schema.has_column(column));
        Ok((kept && known).then_some(WidenedPlan {
            plan: LogicalPlan::SubqueryAlias(plan),
            stored,
        }))
    }

    fn projected(
        &mut self,
        projection: &Projection,
        wanted: &[usize],
    ) -> Result<Option<WidenedPlan>> {
        let schema = projection.input.schema();
        let mut values = Vec::new();
        for index in wanted {
            if let Some(expr) = projection.expr.get(*index) {
                columns_of_values(expr, schema, &mut values)?;
            }
        }
        let mut below = values
            .iter()
            .filter_map(|column| schema.maybe_index_of_column(column))
            .collect::<Vec<_>>();
        below.sort_unstable();
        below.dedup();
        let Some(below) = self.carried(&projection.input, &below)? else {
            return Ok(None);
        };
        let bits_of = |column: &Column| {
            let index = schema.maybe_index_of_column(column)?;
            below.stored.get(&index).cloned()
        };
        let mut exprs = projection.expr.clone();
        let mut stored = BTreeMap::new();
        for index in wanted {
            let Some(expr) = projection.expr.get(*index) else {
                continue;
            };
            let expr = expr.clone().unalias_nested().data;
            let with_bits = with_bits_of_values(expr, schema, &bits_of)?;
            if with_bits.transformed {
                self.names += 1;
                let name = format!("__stored_{}", self.names);
                exprs.push(with_bits.data.alias(&name));
                stored.insert(*index, Column::new_unqualified(name));
            }
        }
        let plan = Projection::try_new(exprs, Arc::new(below.plan))?;
        Ok((!stored.is_empty()).then_some(WidenedPlan {
            plan: LogicalPlan::Projection(plan),
            stored,
        }))
    }

    fn joined(&mut self, join: &Join, wanted: &[usize]) -> Result<Option<WidenedPlan>> {
        let both = match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => true,
            JoinType::LeftSemi | JoinType::LeftAnti => false,
            _ => return Ok(None),
        };
        let count = join.left.schema().fields().len();
        let of_left = wanted.iter().copied().filter(|i| *i < count);
        let left = self.carried(&join.left, &of_left.collect::<Vec<_>>())?;
        let of_right = wanted.iter().filter_map(|i| i.checked_sub(count));
        let right = if both {
            self.carried(&join.right, &of_right.collect::<Vec<_>>())?
        } else {
            None
        };
        if left.is_none() && right.is_none() {
            return Ok(None);
        }
        let mut stored = BTreeMap::new();
        let mut side = |carried: Option<WidenedPlan>, plan: &Arc<LogicalPlan>, first: usize| {
            let Some(carried) = carried else {
                return Arc::clone(plan);
            };
            let of_side = carried.stored.into_iter();
            stored.extend(of_side.map(|(index, column)| (first + index, column)));
            Arc::new(carried.plan)
        };
        let (left, right) = (side(left, &join.left, 0), side(right, &join.right, count));
        let plan = Join::try_new(
            left,
            right,
            join.on.clone(),
            join.filter.clone(),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        Ok(Some(WidenedPlan {
            plan: LogicalPlan::Join(plan),
            stored,
        }))
    }
}

/// The scan of an array with the stored bits of the wanted columns.
fn scanned(scan: &TableScan, wanted: &[usize]) -> Result<Option<WidenedPlan>> {
    let Some(source) = scan.source.downcast_ref::<DefaultTableSource>() else {
        return Ok(None);
    };
    let both = WithStoredFloats::of(&source.table_provider);
    let Some(both) = both.map_err(to_datafusion_error)? else {
        return Ok(None);
    };
    let projection = match &scan.projection {
        Some(projection) => projection.clone(),
        None => (0..both.columns.len()).collect(),
    };
    let at = |index: &usize| both.columns.get(*index).copied();
    let mut columns = projection
        .iter()
        .filter_map(|column| Some(at(column)?.0))
        .collect::<Vec<_>>();
    let mut stored = BTreeMap::new();
    for index in wanted {
        let bits = projection.get(*index).and_then(at);
        let Some((_, Some(bits))) = bits else {
            continue;
        };
        columns.push(bits);
        let name = both.schema.field(bits).name();
        let column = Column::new(Some(scan.table_name.clone()), name);
        stored.insert(*index, column);
    }
    if stored.is_empty() {
        return Ok(None);
    }
    let source = Arc::new(DefaultTableSource::new(Arc::new(both)));
    let scan = TableScanBuilder::new(scan.table_name.clone(), source)
        .with_projection(Some(columns))
        .with_filters(scan.filters.clone())
        .with_fetch(scan.fetch)
        .build()?;
    Ok(Some(WidenedPlan {
        plan: LogicalPlan::TableScan(scan),
        stored,
    }))
}

/// Adds the columns whose values an expression may return unchanged.
fn columns_of_values(expr: &Expr, schema: &DFSchema, to: &mut Vec<Column>) -> Result<()> {
    match expr {
        Expr::Column(column) => to.push(column.clone()),
        Expr::Alias(alias) => columns_of_values(&alias.expr, schema, to)?,
        Expr::Cast(cast) if keeps_type(expr, &cast.expr, schema)? => {
            columns_of_values(&cast.expr, schema, to)?;
        }
        Expr::ScalarFunction(call) => {
            if let Some(value) = exactly_cast(call)
                && keeps_type(expr, value, schema)?
            {
                columns_of_values(value, schema, to)?;
            }
        }
        Expr::Case(case) => {
            for (_, then) in &case.when_then_expr {
                columns_of_values(then, schema, to)?;
            }
            if let Some(otherwise) = &case.else_expr {
                columns_of_values(otherwise, schema, to)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// The expression with the stored bits of the columns whose values it may return unchanged.
fn with_bits_of_values(
    expr: Expr,
    schema: &DFSchema,
    bits_of: &dyn Fn(&Column) -> Option<Column>,
) -> Result<Transformed<Expr>> {
    let inner = |expr: Box<Expr>| with_bits_of_values(*expr, schema, bits_of);
    Ok(match expr {
        Expr::Column(column) => match bits_of(&column) {
            Some(bits) => Transformed::yes(Expr::Column(bits)),
            None => Transformed::no(Expr::Column(column)),
        },
        Expr::Alias(alias) => inner(alias.expr)?,
        Expr::Cast(cast) => {
            let whole = Expr::Cast(cast.clone());
            if keeps_type(&whole, &cast.expr, schema)? {
                inner(cast.expr)?
            } else {
                Transformed::no(whole)
            }
        }
        Expr::ScalarFunction(call) => {
            let value = exactly_cast(&call).cloned();
            let whole = Expr::ScalarFunction(call);
            match value {
                Some(value) if keeps_type(&whole, &value, schema)? => inner(Box::new(value))?,
                _ => Transformed::no(whole),
            }
        }
        Expr::Case(case) => {
            let mut changed = false;
            let mut branches = Vec::with_capacity(case.when_then_expr.len());
            for (when, then) in case.when_then_expr {
                let then = inner(then)?;
                changed |= then.transformed;
                branches.push((when, Box::new(then.data)));
            }
            let otherwise = case.else_expr.map(inner).transpose()?;
            let otherwise = otherwise.map(|otherwise| {
                changed |= otherwise.transformed;
                Box::new(otherwise.data)
            });
            let case = Expr::Case(Case::new(case.expr, branches, otherwise));
            if changed {
                Transformed::yes(case)
            } else {
                Transformed::no(case)
            }
        }
        expr => Transformed::no(expr),
    })
}

/// Whether a cast changes nothing.
fn keeps_type(cast: &Expr, inner: &Expr, schema: &DFSchema) -> Result<bool> {
    Ok(cast.get_type(schema)? == inner.get_type(schema)?)
}
