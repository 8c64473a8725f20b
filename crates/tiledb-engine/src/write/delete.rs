//! Files of delete conditions (specification: "Delete commit file").
//!
//! A stored condition is what a cell must satisfy to survive. It applies to every cell that was written at its time or before.
//! The condition is stored flat, because libtiledb misreads an OR in an OR. The cells that a fragment marks as deleted also
//! name a delete file: without it, libtiledb can't consolidate them. Such a file deletes nothing by itself, so it is put before
//! the fragment is committed.
//!
//! A condition is rewritten in place, because fragments name the deletes that they have processed by their files. The condition
//! may be stored twice: in its own file, and in lists of commits, which contain this file. Each file is replaced atomically. A
//! reader in between may find the old form in one file and the new form in another, and both have the same meaning. The subtle
//! thing: a list that another writer has replaced meanwhile isn't restored, so a run that meets a vacuum of commits fails, and
//! finishes when it is run again.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::clock::Clock;
use crate::array::commits::ArrayCommit;
use crate::array::window::TimestampMs;
use crate::error::{Error, Result, ResultExt};
use crate::filter::{EncryptionKey, generic_tile};
use crate::format::commit::{CommitEntryKind, CommitKind, parse_consolidated_commits};
use crate::format::delete_condition::{Comparison, ConditionTest, DeleteCondition};
use crate::format::schema::ArraySchema;
use crate::storage::Storage;

/// A delete file that is to be written.
#[derive(Debug, Clone)]
pub struct NewDeleteFile {
    /// The path, relative to the array.
    pub path: String,
    /// The flat condition that cells must satisfy to survive.
    survivors: DeleteCondition,
}

impl NewDeleteFile {
    /// A delete at a time, of the cells that do not satisfy `survivors`.
    ///
    /// # Errors
    /// The system has no random numbers for a name.
    pub fn new(survivors: DeleteCondition, clock: &Clock, time: TimestampMs) -> Result<Self> {
        let name = clock.fresh_fragment_name(time, time)?;
        Ok(Self {
            path: format!("__commits/{name}.del"),
            survivors: survivors.flat(),
        })
    }

    /// A delete that deletes nothing.
    ///
    /// # Errors
    /// The system has no random numbers for a name.
    pub fn of_nothing(schema: &ArraySchema, clock: &Clock, time: TimestampMs) -> Result<Self> {
        Self::new(every_cell(schema)?, clock, time)
    }

    /// The contents of the file: a generic tile, encrypted if there is a key.
    ///
    /// # Errors
    /// The condition cannot be stored.
    pub fn encode(&self, key: Option<&Arc<EncryptionKey>>) -> Result<Bytes> {
        let condition = self.survivors.encode_delete()?;
        generic_tile::encode_with(&condition, key).map(Bytes::from)
    }
}

/// Whether a stored condition is one that all cells satisfy, as [`NewDeleteFile::of_nothing`] has it.
pub fn deletes_nothing(schema: &ArraySchema, survivors: &DeleteCondition) -> bool {
    every_cell(schema).is_ok_and(|all| all == *survivors)
}

/// A condition that all cells satisfy.
///
/// # Errors
/// The schema has no dimensions.
pub fn every_cell(schema: &ArraySchema) -> Result<DeleteCondition> {
    constant(schema, true)
}

/// A condition that no cell satisfies.
///
/// # Errors
/// The schema has no dimensions.
pub fn no_cell(schema: &ArraySchema) -> Result<DeleteCondition> {
    constant(schema, false)
}

/// A condition that all cells satisfy, or none. Coordinates are never NULL, so a comparison of one with the start of its
/// domain has the same result for all. String dimensions have no domain, and libtiledb takes no empty value, so strings are
/// compared with one that comes after all others.
fn constant(schema: &ArraySchema, satisfied: bool) -> Result<DeleteCondition> {
    let mut dimensions = schema.dimensions.iter();
    let bounded = dimensions.find_map(|d| Some((d, d.domain.as_ref()?)));
    if let (Some((dimension, (lo, _))), true) = (bounded, satisfied)
        && dimension.datatype.is_float()
    {
        // No other comparison of a NaN holds.
        let tests = [Comparison::Ge, Comparison::Ne].map(|comparison| DeleteCondition::Test {
            field: dimension.name.clone(),
            test: ConditionTest::Compare(comparison, lo.clone()),
        });
        return Ok(DeleteCondition::Any(tests.into()));
    }
    let (dimension, comparison, value) = match (bounded, schema.dimensions.first()) {
        (Some((dimension, (lo, _))), _) if satisfied => (dimension, Comparison::Ge, lo.clone()),
        (Some((dimension, (lo, _))), _) => (dimension, Comparison::Lt, lo.clone()),
        (None, Some(dimension)) => {
            // No byte of a string dimension is greater than 0x7f (ASCII), so all strings come before this one.
            let comparison = if satisfied {
                Comparison::Lt
            } else {
                Comparison::Ge
            };
            (dimension, comparison, vec![0xff])
        }
        (None, None) => return Err(Error::internal("an array has dimensions")),
    };
    Ok(DeleteCondition::Test {
        field: dimension.name.clone(),
        test: ConditionTest::Compare(comparison, value),
    })
}

/// Returns the new form of the condition of the delete with this name; `None` if it stays unchanged.
type ConditionRewrite<'a> = dyn Fn(&str, DeleteCondition) -> Option<DeleteCondition> + Sync + 'a;

/// A file whose deletes get another form.
#[derive(Debug)]
pub struct RewrittenFile {
    path: String,
    /// The number of deletes that change.
    pub deletes: u64,
    old: Bytes,
    new: Bytes,
}

impl RewrittenFile {
    /// The path, relative to the array.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The size before the change.
    pub fn old_bytes(&self) -> u64 {
        self.old.len() as u64
    }

    /// The size after the change.
    pub fn new_bytes(&self) -> u64 {
        self.new.len() as u64
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// Somebody else has changed or removed the file meanwhile, or the store fails.
    pub async fn put(self, storage: &Storage) -> Result<()> {
        if storage.replace_file(&self.path, self.old, self.new).await? {
            Ok(())
        } else {
            Err(Error::conflict(format!(
                "{} was consolidated or vacuumed by another writer meanwhile: run it again",
                self.path
            )))
        }
    }
}

/// The files of an array with these `commits` that change with the form of their deletes. This call changes nothing yet.
///
/// # Errors
/// A delete cannot be decoded, or the store fails.
pub async fn rewritten(
    storage: &Storage,
    commits: &[ArrayCommit],
    change: &ConditionRewrite<'_>,
) -> Result<Vec<RewrittenFile>> {
    let deletes =
        |commit: &&ArrayCommit| matches!(commit.kind, CommitKind::Delete | CommitKind::Update);
    let deletes = || commits.iter().filter(deletes);
    let own = deletes().filter_map(|commit| Some((commit.file.as_ref()?, &commit.name.name)));
    let mut files = Vec::new();
    for (path, name) in own {
        let old = storage.read(path).await?;
        let new = rewritten_tile(storage, &old, name, change);
        if let Some(new) = new.context("file", || path.clone())? {
            files.push(RewrittenFile {
                path: path.clone(),
                deletes: 1,
                old,
                new,
            });
        }
    }
    let lists = deletes().flat_map(|commit| &commit.consolidated_in);
    for path in lists.collect::<BTreeSet<_>>() {
        let old = storage.read(path).await?;
        let new = rewritten_list(storage, &old, change);
        if let Some((new, deletes)) = new.context("file", || path.clone())? {
            files.push(RewrittenFile {
                path: path.clone(),
                deletes,
                old,
                new,
            });
        }
    }
    Ok(files)
}

/// A delete in another form.
fn rewritten_tile(
    storage: &Storage,
    stored: &[u8],
    name: &str,
    change: &ConditionRewrite<'_>,
) -> Result<Option<Bytes>> {
    let tile = storage.decode_generic_tile(stored, "delete condition")?;
    let contents = DeleteCondition::replace_in(&tile.data, |condition| change(name, condition))?;
    let key: Option<&Arc<_>> = storage.encryption_key();
    let encoded = contents.map(|contents| generic_tile::encode_with(&contents, key));
    Ok(encoded.transpose()?.map(Bytes::from))
}

/// A list of commits with deletes in another form, and the number of these deletes. All other bytes stay.
fn rewritten_list(
    storage: &Storage,
    list: &Bytes,
    change: &ConditionRewrite<'_>,
) -> Result<Option<(Bytes, u64)>> {
    let (mut bytes, mut kept, mut deletes) = (Vec::new(), 0, 0_u64);
    for entry in parse_consolidated_commits(list)? {
        let CommitEntryKind::Delete { range } = entry.kind else {
            continue;
        };
        let stored = list.get(range.clone()).unwrap_or_default();
        let Some(tile) = rewritten_tile(storage, stored, &entry.name, change)? else {
            continue;
        };
        // The size of a delete precedes it.
        let before = kept..range.start.saturating_sub(size_of::<u64>());
        bytes.extend_from_slice(list.get(before).unwrap_or_default());
        bytes.extend_from_slice(&(tile.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&tile);
        kept = range.end;
        deletes = deletes.saturating_add(1);
    }
    bytes.extend_from_slice(list.get(kept..).unwrap_or_default());
    Ok((deletes > 0).then(|| (Bytes::from(bytes), deletes)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compare(comparison: Comparison, value: u8) -> DeleteCondition {
        DeleteCondition::Test {
            field: "a".to_owned(),
            test: ConditionTest::Compare(comparison, vec![value]),
        }
    }

    fn not(value: u8) -> DeleteCondition {
        compare(Comparison::Ne, value)
    }

    fn trees() -> impl Strategy<Value = DeleteCondition> {
        let equal = prop_oneof![Just(Comparison::Eq), Just(Comparison::Ne)];
        let leaf = (equal, 0..4_u8).prop_map(|(comparison, value)| compare(comparison, value));
        leaf.prop_recursive(6, 40, 4, |inner| {
            let nodes = prop::collection::vec(inner, 1..4);
            prop_oneof![
                nodes.clone().prop_map(DeleteCondition::All),
                nodes.prop_map(DeleteCondition::Any)
            ]
        })
    }

    /// Whether a cell with this value satisfies a condition.
    fn holds(condition: &DeleteCondition, cell: u8) -> bool {
        match condition {
            DeleteCondition::Test { test, .. } => match test {
                ConditionTest::Compare(Comparison::Eq, value) => *value == [cell],
                ConditionTest::Compare(_, value) => *value != [cell],
                ConditionTest::Member { .. } | ConditionTest::Always(_) => {
                    unreachable!("not generated")
                }
            },
            DeleteCondition::All(nodes) => nodes.iter().all(|node| holds(node, cell)),
            DeleteCondition::Any(nodes) => nodes.iter().any(|node| holds(node, cell)),
        }
    }

    /// How libtiledb 2.30 evaluates a condition: `cell` is whether the cell has survived so far, and `or` whether the node
    /// is one of several alternatives. libtiledb itself agrees on 1,000 random trees.
    fn survives_in_libtiledb(
        condition: &DeleteCondition,
        cell: u8,
        so_far: bool,
        or: bool,
    ) -> bool {
        let each = |start: bool, or: bool, nodes: &[DeleteCondition]| {
            let next = |so_far, node| survives_in_libtiledb(node, cell, so_far, or);
            nodes.iter().fold(start, next)
        };
        match condition {
            DeleteCondition::Test { .. } if or => so_far | holds(condition, cell),
            DeleteCondition::Test { .. } => so_far & holds(condition, cell),
            DeleteCondition::All(nodes) if or => so_far | each(true, false, nodes),
            DeleteCondition::All(nodes) => each(so_far, false, nodes),
            DeleteCondition::Any(nodes) => so_far & each(false, true, nodes),
        }
    }

    proptest! {
        #[test]
        fn flat_conditions_mean_the_same_also_to_libtiledb(tree in trees()) {
            let flat = tree.clone().flat();
            prop_assert!(!flat.is_misread());
            prop_assert_eq!(flat.clone().flat(), flat.clone());
            for cell in 0..5 {
                let expected = holds(&tree, cell);
                prop_assert_eq!(holds(&flat, cell), expected);
                prop_assert_eq!(survives_in_libtiledb(&flat, cell, true, false), expected);
                if !tree.is_misread() {
                    prop_assert_eq!(survives_in_libtiledb(&tree, cell, true, false), expected);
                }
            }
            let stored = flat.encode_delete().unwrap();
            prop_assert_eq!(DeleteCondition::decode_delete(&stored).unwrap(), flat);
        }
    }

    /// `NOT (a = 1 AND a = 2 AND a = 3)` as a chain of two: libtiledb keeps only cells that satisfy the last alternative, or
    /// both.
    #[test]
    fn nested_alternatives_are_misread() {
        let pair = DeleteCondition::Any(vec![not(1), not(2)]);
        for nested in [vec![pair.clone(), not(3)], vec![not(3), pair]] {
            let nested = DeleteCondition::Any(nested);
            assert!(nested.is_misread() && holds(&nested, 3));
            assert!(!survives_in_libtiledb(&nested, 3, true, false));
            assert!(DeleteCondition::All(vec![nested.clone(), not(4)]).is_misread());
            let DeleteCondition::Any(nodes) = nested.flat() else {
                panic!("an OR stays one")
            };
            assert_eq!(nodes.len(), 3);
        }
        let alternating = DeleteCondition::Any(vec![
            DeleteCondition::All(vec![not(1), DeleteCondition::Any(vec![not(2), not(3)])]),
            not(4),
        ]);
        assert!(!alternating.is_misread());
        assert_eq!(alternating.clone().flat(), alternating);
    }
}
