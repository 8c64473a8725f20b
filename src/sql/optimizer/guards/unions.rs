//! Field metadata above a UNION.
//!
//! The fields of an array have metadata ([`crate::arrow`]). If the inputs of a UNION have different metadata for a
//! column, the logical planner takes those of the last input, and the physical planner those of the last input and of
//! the first that may be NULL: an aggregate above, and `UNION` without ALL is one, fails because "physical input schema
//! should be the same as the one converted from logical input schema". The rule here is the last of those for logical
//! plans, and sets the metadata that the physical plan will have.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{LogicalPlan, Union};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::sql::optimizer::arrays::reads_array;

/// Sets the metadata of a UNION's fields to those of its physical plan.
#[derive(Debug)]
pub(in crate::sql) struct UnionFields;

impl UnionFields {
    pub(in crate::sql) const NAME: &'static str = "tiledb_union_fields";
}

impl OptimizerRule for UnionFields {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !reads_array(&plan)? {
            return Ok(Transformed::no(plan));
        }
        let mut changed = false;
        plan.transform_up_with_subqueries(|plan| {
            if let LogicalPlan::Union(union) = &plan
                && let Some(union) = as_planned(union)?
            {
                changed = true;
                return Ok(Transformed::yes(LogicalPlan::Union(union)));
            }
            // The nodes above have copies of the UNION's schema.
            Ok(match changed {
                true => Transformed::yes(plan.recompute_schema()?),
                false => Transformed::no(plan),
            })
        })
    }
}

/// The UNION with other metadata; `None` if they are right already.
fn as_planned(union: &Union) -> Result<Option<Union>> {
    let old = &union.schema;
    let mut fields = Vec::with_capacity(old.fields().len());
    for (column, (table, field)) in old.iter().enumerate() {
        let field = field.as_ref().clone().with_metadata(said(union, column));
        fields.push((table.cloned(), Arc::new(field)));
    }
    let schema = DFSchema::new_with_metadata(fields, old.metadata().clone())?;
    let schema = schema.with_functional_dependencies(old.functional_dependencies().clone())?;
    Ok((schema != **old).then(|| Union {
        inputs: union.inputs.clone(),
        schema: Arc::new(schema),
    }))
}

/// The metadata of a column in the physical plan of a UNION, as in `union_schema` of DataFusion's `UnionExec`.
fn said(union: &Union, column: usize) -> HashMap<String, String> {
    let inputs = union.inputs.iter();
    let fields = inputs.filter_map(|input| input.schema().fields().get(column));
    let fields = fields.collect::<Vec<_>>();
    let first = fields.iter().position(|field| field.is_nullable());
    let first = first.unwrap_or_default();
    let mut said = HashMap::new();
    let others = fields.iter().enumerate().filter(|(i, _)| *i != first);
    for field in fields.get(first).into_iter().chain(others.map(|(_, f)| f)) {
        said.extend(field.metadata().clone());
    }
    said
}
