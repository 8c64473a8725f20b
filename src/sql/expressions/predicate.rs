//! DataFusion expressions as predicates of the scan.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{
    collect_columns, conjunction_opt, reassign_expr_columns, split_conjunction,
};

use crate::error::{Error, Result};
use crate::scan::Predicate;
use crate::scan::spec::{Conjunction, TextCondition};
use crate::sql::expressions::pruning::ExprPruner;
use crate::sql::expressions::text_conditions;
use crate::stats::pruner::TilePruner;

/// A physical expression over the columns it looks at.
#[derive(Debug)]
pub(crate) struct ExprPredicate {
    expr: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    schema: SchemaRef,
    pruner: Option<Arc<dyn TilePruner>>,
    conjunction: Option<Conjunction>,
}

impl ExprPredicate {
    /// Takes an expression over the table's columns.
    pub(crate) fn new(
        expr: &Arc<dyn PhysicalExpr>,
        table_schema: &SchemaRef,
    ) -> datafusion::error::Result<Self> {
        Ok(Self {
            conjunction: take_apart(expr, table_schema)?,
            ..Self::whole(expr, table_schema)?
        })
    }

    fn whole(
        expr: &Arc<dyn PhysicalExpr>,
        table_schema: &SchemaRef,
    ) -> datafusion::error::Result<Self> {
        let mut columns = collect_columns(expr)
            .iter()
            .map(|c| c.index())
            .collect::<Vec<_>>();
        columns.sort_unstable();
        columns.dedup();
        let schema: SchemaRef = Arc::new(Schema::clone(&table_schema.project(&columns)?));
        let expr = reassign_expr_columns(Arc::clone(expr), &schema)?;
        Ok(Self {
            expr,
            columns,
            schema,
            pruner: None,
            conjunction: None,
        })
    }

    /// With what judges whole tiles for it.
    pub(crate) fn with_pruner(mut self, pruner: Option<ExprPruner>) -> Self {
        self.pruner = pruner.map(|pruner| Arc::new(pruner) as _);
        self
    }
}

impl Predicate for ExprPredicate {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanArray> {
        let failed = |e: datafusion::error::DataFusionError| {
            Error::invalid(format!("the condition {} failed", self.expr)).with_source(e)
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch =
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.to_vec(), &options)
                .map_err(|e| failed(e.into()))?;
        let value = self.expr.evaluate(&batch).map_err(failed)?;
        let array = value.into_array(rows).map_err(failed)?;
        Ok(as_boolean_array(&array).map_err(failed)?.clone())
    }

    fn pruner(&self) -> Option<Arc<dyn TilePruner>> {
        self.pruner.clone()
    }

    fn conjunction(&self) -> Option<&Conjunction> {
        self.conjunction.as_ref()
    }
}

/// A condition taken apart; `None` if nothing in it is about text alone.
fn take_apart(
    expr: &Arc<dyn PhysicalExpr>,
    table_schema: &SchemaRef,
) -> datafusion::error::Result<Option<Conjunction>> {
    let (mut texts, mut rest) = (Vec::new(), Vec::new());
    for part in split_conjunction(expr) {
        let Some(text) = text_conditions::of_condition(part, table_schema) else {
            rest.push(Arc::clone(part));
            continue;
        };
        texts.push(TextCondition {
            predicate: Arc::new(ExprPredicate::whole(part, table_schema)?),
            needles: text.needles,
        });
    }
    if texts.is_empty() {
        return Ok(None);
    }
    let rest = match conjunction_opt(rest) {
        Some(rest) => Some(Arc::new(ExprPredicate::whole(&rest, table_schema)?) as _),
        None => None,
    };
    Ok(Some(Conjunction { texts, rest }))
}
