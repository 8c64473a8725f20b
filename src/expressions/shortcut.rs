//! Conditions with a shorter way to their answers than to evaluate them on every row.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;

/// A shorter way to the answers of a condition.
pub(super) trait ShortcutFn: fmt::Debug + Send + Sync + Sized + 'static {
    /// The answers for the rows of a batch; `None` if only the condition itself has them.
    fn answers(&self, batch: &RecordBatch) -> Result<Option<BooleanArray>>;
}

/// A condition, and the shorter way to its answers. To everybody else it is the condition.
#[derive(Debug)]
struct ShortcutExpr<W> {
    condition: Arc<dyn PhysicalExpr>,
    way: W,
}

/// Takes the shorter way for each part of a condition for which `find` finds one.
pub(super) fn with_shortcuts<W: ShortcutFn>(
    condition: Arc<dyn PhysicalExpr>,
    find: impl Fn(&Arc<dyn PhysicalExpr>) -> Result<Option<W>>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let found = condition.transform_down(|condition| {
        Ok(match find(&condition)? {
            Some(way) => {
                let shortcut = Arc::new(ShortcutExpr { condition, way });
                Transformed::new(shortcut as _, true, TreeNodeRecursion::Jump)
            }
            None => Transformed::no(condition),
        })
    });
    found.data()
}

impl<W: ShortcutFn> PhysicalExpr for ShortcutExpr<W> {
    fn data_type(&self, _input: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.condition.nullable(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.way.answers(batch)? {
            Some(answers) => Ok(ColumnarValue::Array(Arc::new(answers))),
            None => self.condition.evaluate(batch),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        // Whoever changes the condition gets it as it is.
        let only = children.pop().filter(|_| children.is_empty());
        only.ok_or_else(|| internal_datafusion_err!("the expression lost its argument"))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}

impl<W> fmt::Display for ShortcutExpr<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.condition)
    }
}

impl<W> PartialEq for ShortcutExpr<W> {
    fn eq(&self, other: &Self) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl<W> Eq for ShortcutExpr<W> {}

impl<W> Hash for ShortcutExpr<W> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}
