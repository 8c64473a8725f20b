//! Evaluation of the delete conditions of one fragment on the cells of a tile.
//!
//! Conditions are evaluated on the stored values of the fragment's own fields, after the newest version of each cell is
//! known and before the predicate: a deleted cell still hides its older versions. The result is one value per cell; the
//! caller combines it with the visible cells.
//!
//! The subtle thing is a field that the fragment lacks because its attribute was added later. libtiledb evaluates the
//! comparison to false, and in an OR it also drops the alternatives before it. We do the same, so that an array has the same
//! cells here and there. Alternatives among alternatives, which libtiledb never stores and misreads, count as one list of
//! alternatives.

mod compare;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use self::compare::{CellTest, TestedCells};
use crate::array::deletes::PendingDelete;
use crate::array::fragment::{Fragment, FragmentField};
use crate::arrow::{UnfilteredCells, check_memory};
use crate::error::{Error, Result, ResultExt};
use crate::format::delete_condition::{ConditionTest, DeleteCondition};
use crate::format::domain_range::DomainRange;
use crate::format::schema::ArraySchema;

/// The delete conditions that apply to a fragment.
#[derive(Debug, Default)]
pub struct FragmentDeletes {
    conditions: Vec<CompiledDelete>,
    /// The fields that the conditions read, each once.
    fields: Vec<FragmentField>,
    /// Whether the fragment records when each cell was deleted.
    recorded: bool,
}

#[derive(Debug)]
struct CompiledDelete {
    tree: Arc<ConditionTree>,
    /// Cells written after this time are not deleted.
    until: Option<u64>,
}

/// A condition prepared for the fields of a schema.
#[derive(Debug)]
struct ConditionTree {
    root: Node,
    /// The fields that the condition reads, each once.
    fields: Vec<FragmentField>,
}

/// The trees of the conditions met so far. A condition may list a million values and apply to a thousand fragments: those of
/// the same schema share its tree.
#[derive(Debug, Default)]
pub struct DeleteTrees(HashMap<[usize; 2], SharedTree>);

/// A tree, with what its key holds the addresses of.
#[derive(Debug)]
struct SharedTree {
    tree: Arc<ConditionTree>,
    _condition: Arc<DeleteCondition>,
    _own: Arc<ArraySchema>,
}

impl DeleteTrees {
    fn tree(
        &mut self,
        array: &ArraySchema,
        own: &Arc<ArraySchema>,
        condition: &Arc<DeleteCondition>,
    ) -> Result<Arc<ConditionTree>> {
        let key = [Arc::as_ptr(condition).addr(), Arc::as_ptr(own).addr()];
        if let Some(shared) = self.0.get(&key) {
            return Ok(Arc::clone(&shared.tree));
        }
        let tree = Arc::new(ConditionTree::new(array, own, condition)?);
        let shared = SharedTree {
            tree: Arc::clone(&tree),
            _condition: Arc::clone(condition),
            _own: Arc::clone(own),
        };
        self.0.insert(key, shared);
        Ok(tree)
    }
}

#[derive(Debug)]
enum Node {
    Test(FragmentField, CellTest),
    /// A test of a field that the fragment does not have.
    Missing,
    All(Vec<Node>),
    Any(Vec<Node>),
}

/// The times of a tile's cells, which conditions depend on besides fields.
#[derive(Debug, Clone, Copy, Default)]
pub struct CellTimes<'a> {
    /// When each cell was written, if the fragment records it.
    pub written: Option<&'a [u64]>,
    /// When each cell was deleted, if the fragment records it.
    pub deleted: Option<&'a [u64]>,
}

impl FragmentDeletes {
    /// Prepares the conditions of `pending` for a fragment of an array that now has the schema `array`. `trees` are those that
    /// other fragments have met.
    pub fn new(
        array: &ArraySchema,
        fragment: &Fragment,
        pending: &[PendingDelete],
        trees: &mut DeleteTrees,
    ) -> Result<Self> {
        let mut deletes = Self {
            recorded: fragment.footer.has_delete_metadata,
            ..Self::default()
        };
        for PendingDelete {
            delete,
            by_cell_time,
        } in pending
        {
            let tree = trees
                .tree(array, &fragment.schema, &delete.condition)
                .context("delete", || &delete.name)?;
            for field in &tree.fields {
                if !deletes.fields.contains(field) {
                    deletes.fields.push(*field);
                }
            }
            deletes.conditions.push(CompiledDelete {
                tree,
                until: by_cell_time.then_some(delete.time),
            });
        }
        if deletes.fields.is_empty() && !deletes.conditions.is_empty() {
            // At least one field is read, because the number of cells in the metadata may be wrong.
            deletes.fields.push(FragmentField::Dimension(0));
        }
        Ok(deletes)
    }

    /// Whether a condition matches no cell of an array whose coordinates lie in these ranges, one for each dimension.
    pub fn spare(array: &ArraySchema, condition: &DeleteCondition, domain: &[DomainRange]) -> bool {
        // A condition that cannot be evaluated may match anything.
        let Ok(tree) = ConditionTree::new(array, array, condition) else {
            return false;
        };
        let tree = Arc::new(tree);
        let deletes = Self {
            conditions: vec![CompiledDelete { tree, until: None }],
            ..Self::default()
        };
        deletes.match_none(|dimension| {
            let range = domain.get(dimension)?;
            Some((range.lo.clone(), range.hi.clone()))
        })
    }

    /// Whether the bounds of its coordinates prove that no condition matches a cell of a tile; `range` gives those of a
    /// dimension, if they are known. So deletes by dimensions alone, such as by time, cost nothing in tiles they do not
    /// match.
    pub fn match_none(&self, range: impl Fn(usize) -> Option<(Vec<u8>, Vec<u8>)>) -> bool {
        let bounds = |field: FragmentField, test: &CellTest| match field {
            FragmentField::Dimension(d) => {
                let (lo, hi) = range(d)?;
                test.between(&lo, &hi)
            }
            _ => None,
        };
        let mut trees = self.conditions.iter().map(|c| &c.tree.root);
        !self.recorded && trees.all(|tree| tree.holds(&bounds) == Some(true))
    }

    /// The fields whose stored cells [`Self::survivors`] needs.
    pub fn fields(&self) -> &[FragmentField] {
        &self.fields
    }

    /// Whether [`Self::survivors`] needs the time at which each cell was written.
    pub fn needs_timestamps(&self) -> bool {
        self.conditions.iter().any(|c| c.until.is_some())
    }

    /// Whether [`Self::survivors`] needs the time at which each cell was deleted.
    pub fn needs_delete_times(&self) -> bool {
        self.recorded
    }

    /// Which of `count` cells are not deleted by the time `end`; `fields` are the cells of [`Self::fields`], in order.
    pub fn survivors(
        &self,
        fields: &[&UnfilteredCells],
        times: CellTimes<'_>,
        end: u64,
        count: usize,
    ) -> Result<Vec<bool>> {
        let missing = || Error::internal("the times of cells were not read");
        check_memory(count)?;
        let mut keep = vec![true; count];
        if self.recorded {
            let deleted = times.deleted.ok_or_else(missing)?;
            for (keep, deleted) in keep.iter_mut().zip(deleted) {
                *keep = *deleted > end || *deleted == u64::MAX;
            }
        }
        let fields = self
            .fields
            .iter()
            .copied()
            .zip(fields)
            .map(|(field, cells)| Ok((field, TestedCells::new(cells)?)));
        let mut work = DeleteWork {
            fields: fields.collect::<Result<_>>()?,
            answers: vec![false; count],
        };
        for condition in &self.conditions {
            let Some(until) = condition.until else {
                condition.tree.root.and_into(&mut keep, &mut work)?;
                continue;
            };
            let mut survives = vec![true; count];
            condition.tree.root.and_into(&mut survives, &mut work)?;
            let written = times.written.ok_or_else(missing)?.iter();
            for ((keep, survives), written) in keep.iter_mut().zip(survives).zip(written) {
                *keep &= survives | (*written > until);
            }
        }
        Ok(keep)
    }
}

impl ConditionTree {
    fn new(array: &ArraySchema, own: &ArraySchema, condition: &DeleteCondition) -> Result<Self> {
        let mut tree = Self {
            root: Node::Missing,
            fields: Vec::new(),
        };
        tree.root = tree.compile(array, own, condition)?;
        Ok(tree)
    }

    fn compile(
        &mut self,
        array: &ArraySchema,
        own: &ArraySchema,
        condition: &DeleteCondition,
    ) -> Result<Node> {
        let nodes = |this: &mut Self, nodes: &[DeleteCondition]| {
            let nodes = nodes.iter().map(|n| this.compile(array, own, n));
            nodes.collect::<Result<Vec<_>>>()
        };
        Ok(match condition {
            DeleteCondition::Test { field, test } => self.compile_test(array, own, field, test)?,
            DeleteCondition::All(children) => Node::All(nodes(self, children)?),
            DeleteCondition::Any(children) => {
                let nodes = nodes(self, children)?.into_iter();
                let flat = nodes.flat_map(|node| match node {
                    Node::Any(nodes) => nodes,
                    node => vec![node],
                });
                Node::Any(flat.collect())
            }
        })
    }

    fn compile_test(
        &mut self,
        array: &ArraySchema,
        own: &ArraySchema,
        name: &str,
        test: &ConditionTest,
    ) -> Result<Node> {
        let known = array.dimension_index(name).is_some() || array.attribute_index(name).is_some();
        if !known {
            return Err(Error::unsupported(format!(
                "cells are deleted by the attribute \"{name}\", which the array's schema no longer has; \
                 open the array at a time when it had, by the option 'tiledb.timestamp'"
            )));
        }
        let attribute = || {
            let index = own.attribute_index(name)?;
            let attribute = own.attributes.get(index)?;
            let field = FragmentField::Attribute(index);
            Some((field, attribute.datatype, attribute.cell_val_num))
        };
        let dimension = || {
            let index = own.dimension_index(name)?;
            let dimension = own.dimensions.get(index)?;
            let field = FragmentField::Dimension(index);
            Some((field, dimension.datatype, dimension.cell_val_num))
        };
        let Some((field, datatype, cells)) = dimension().or_else(attribute) else {
            return Ok(Node::Missing);
        };
        let test = CellTest::new(datatype, cells, test).context("field", || name.to_owned())?;
        if !self.fields.contains(&field) {
            self.fields.push(field);
        }
        Ok(Node::Test(field, test))
    }
}

/// The state that all comparisons of a tile share.
struct DeleteWork<'a> {
    fields: Vec<(FragmentField, TestedCells<'a>)>,
    /// The results of one comparison.
    answers: Vec<bool>,
}

impl DeleteWork<'_> {
    fn answers(&mut self, field: FragmentField, test: &CellTest) -> Result<&[bool]> {
        let cells = self.fields.iter().find(|(f, _)| *f == field);
        let (_, cells) =
            cells.ok_or_else(|| Error::internal("a field of a delete was not read"))?;
        test.answer(cells, &mut self.answers);
        Ok(&self.answers)
    }
}

impl Node {
    /// The result of the tree, if it is the same for every cell of a tile; `bounds` gives that of a comparison.
    fn holds(&self, bounds: &impl Fn(FragmentField, &CellTest) -> Option<bool>) -> Option<bool> {
        match self {
            Self::Test(field, test) => bounds(*field, test),
            Self::Missing => Some(false),
            Self::All(nodes) => {
                let mut all = Some(true);
                for node in nodes {
                    all = match (all, node.holds(bounds)) {
                        (Some(false), _) | (_, Some(false)) => Some(false),
                        (Some(true), Some(true)) => Some(true),
                        _ => None,
                    };
                }
                all
            }
            Self::Any(nodes) => {
                let mut any = Some(false);
                for node in nodes {
                    any = match (any, node.holds(bounds)) {
                        _ if matches!(node, Self::Missing) => Some(false),
                        (Some(true), _) | (_, Some(true)) => Some(true),
                        (Some(false), Some(false)) => Some(false),
                        _ => None,
                    };
                }
                any
            }
        }
    }

    /// Deselects the cells for which the tree does not hold.
    fn and_into(&self, all: &mut [bool], work: &mut DeleteWork<'_>) -> Result<()> {
        match self {
            Self::Test(field, test) => {
                let answers = work.answers(*field, test)?;
                all.iter_mut().zip(answers).for_each(|(a, b)| *a &= *b);
            }
            Self::Missing => all.fill(false),
            Self::All(nodes) => nodes.iter().try_for_each(|n| n.and_into(all, work))?,
            Self::Any(nodes) => {
                let mut any = vec![false; all.len()];
                nodes.iter().try_for_each(|n| n.or_into(&mut any, work))?;
                all.iter_mut().zip(any).for_each(|(a, b)| *a &= b);
            }
        }
        Ok(())
    }

    /// Selects the cells for which the tree holds.
    fn or_into(&self, any: &mut [bool], work: &mut DeleteWork<'_>) -> Result<()> {
        match self {
            Self::Test(field, test) => {
                let answers = work.answers(*field, test)?;
                any.iter_mut().zip(answers).for_each(|(a, b)| *a |= *b);
            }
            Self::Missing => any.fill(false),
            Self::All(nodes) => {
                let mut all = vec![true; any.len()];
                nodes.iter().try_for_each(|n| n.and_into(&mut all, work))?;
                any.iter_mut().zip(all).for_each(|(a, b)| *a |= b);
            }
            Self::Any(nodes) => nodes.iter().try_for_each(|n| n.or_into(any, work))?,
        }
        Ok(())
    }
}

/// The number of distinct deletes that apply to any of the fragments.
pub fn distinct<'a>(pending: impl Iterator<Item = &'a PendingDelete>) -> u64 {
    let names: std::collections::HashSet<_> = pending.map(|p| Arc::as_ptr(&p.delete)).collect();
    names.len() as u64
}
