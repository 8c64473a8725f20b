//! The files of an array's commits: which fragments they commit, list, ignore and replace, and which deletes they
//! contain.
//!
//! A list of replaced fragments is believed if the fragment that replaces them is committed, as libtiledb puts it later,
//! too; if that fragment was replaced in turn; or if no fragment belongs to it, as with TRUNCATE. Otherwise it would hide
//! rows that nothing else holds.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use futures::FutureExt;

use super::{ArrayFile, CommittedDelete};
use crate::array::window::{OpenWindow, WindowVisibility};
use crate::error::{Result, ResultExt};
use crate::format::commit::{self, CommitEntryKind, CommitKind};
use crate::format::names::TimestampedName;
use crate::storage::{Storage, once_finished};

/// The contents of the commit files.
#[derive(Default)]
pub(super) struct CommitFiles {
    /// Committed fragments, and the files that commit them.
    pub(super) committed: BTreeMap<String, ArrayFile>,
    /// The fragments that `.con` files list.
    pub(super) listed: HashSet<String>,
    /// The fragments that other fragments replace.
    pub(super) vacuumed: HashSet<String>,
    /// The fragments that each fragment replaces.
    pub(super) replaced: HashMap<String, Vec<String>>,
    /// A file whose fragments stay visible, because what replaces them is not there.
    pub(super) unfounded: Option<String>,
    /// The deletes inside the window.
    deletes: BTreeMap<String, CommittedDelete>,
}

/// The fragments that a `.vac` file lists.
struct ReplacedFragments {
    /// The fragment that replaces them.
    by: TimestampedName,
    /// The file.
    path: String,
    names: Vec<String>,
}

impl CommitFiles {
    pub(super) async fn read(
        storage: &Storage,
        files: &[ArrayFile],
        window: &OpenWindow,
        sparse_array: bool,
    ) -> Result<Self> {
        let mut commits = Self::default();
        let mut ignored = HashSet::new();
        let mut listed: BTreeMap<String, ArrayFile> = BTreeMap::new();
        let (mut lists, mut staged) = (Vec::new(), Vec::new());
        for file in files {
            let Some(kind) = CommitKind::of(&file.info.name) else {
                staged.extend(commit::staged_vacuum(&file.info.name).map(|name| (name, file)));
                continue;
            };
            let stem = commit::path_name(&file.info.name);
            let path = file.path();
            match kind {
                CommitKind::Write | CommitKind::Ok => {
                    commits.committed.insert(stem.to_owned(), file.clone());
                }
                CommitKind::Consolidated => {
                    let load = || {
                        async {
                            let bytes = storage.read(&path).await?;
                            let entries = commit::parse_consolidated_commits(&bytes)?;
                            Ok((bytes, entries))
                        }
                        .boxed()
                    };
                    let list = once_finished(&file.info, load).await;
                    let (bytes, entries) = list.context("file", || &path)?;
                    for entry in entries {
                        match entry.kind {
                            CommitEntryKind::Write | CommitEntryKind::Ok => {
                                listed.insert(entry.name, file.clone());
                            }
                            CommitEntryKind::Delete { range } if sparse_array => {
                                let start = range.start as u64;
                                let inline = Some((start, bytes.slice(range)));
                                let name = TimestampedName::parse(&entry.name)?;
                                commits.add_delete(name, file, inline, window);
                            }
                            CommitEntryKind::Delete { .. } => {}
                        }
                    }
                }
                CommitKind::Ignore => {
                    let bytes = storage.read(&path).await?;
                    let paths = commit::parse_ignore(&bytes).context("file", || &path)?;
                    ignored.extend(paths.iter().map(|p| commit::path_name(p).to_owned()));
                }
                CommitKind::Vacuum => {
                    lists.extend(read_list(storage, stem, path, window, sparse_array).await?);
                }
                CommitKind::Delete | CommitKind::Update if sparse_array => {
                    let name = TimestampedName::parse(stem).context("file", || &path)?;
                    commits.add_delete(name, file, None, window);
                }
                CommitKind::Delete | CommitKind::Update => {}
            }
        }
        // `.ign` files remove fragments from the lists of `.con` files, and do not affect commit files.
        listed.retain(|name, _| !ignored.contains(name));
        for (name, file) in listed {
            commits.listed.insert(name.clone());
            commits.committed.entry(name).or_insert(file);
        }
        // What a fragment replaces is hidden from the moment of its commit on.
        staged.retain(|(name, _)| commits.committed.contains_key(*name));
        for (name, file) in staged {
            lists.extend(read_list(storage, name, file.path(), window, sparse_array).await?);
        }
        commits.hide(lists);
        Ok(commits)
    }

    /// Hides what lists name that are believed. What replaces others may be replaced itself.
    fn hide(&mut self, mut lists: Vec<ReplacedFragments>) {
        loop {
            let (believed, others): (Vec<_>, Vec<_>) =
                lists.into_iter().partition(|list| self.believes(list));
            let done = believed.is_empty();
            for list in believed {
                self.vacuumed.extend(list.names.iter().cloned());
                let replaced = self.replaced.entry(list.by.name).or_default();
                replaced.extend(list.names);
            }
            lists = others;
            if done {
                break;
            }
        }
        self.unfounded = lists.into_iter().next().map(|list| list.path);
    }

    fn believes(&self, list: &ReplacedFragments) -> bool {
        let by = &list.by;
        let is_there = self.committed.contains_key(&by.name) || self.vacuumed.contains(&by.name);
        // Fragments before version 5 have no commit files.
        if is_there || by.version.is_none() || commit::truncates(by, &list.names) {
            return true;
        }
        // Vacuum may have removed it, and the list that named it, before this list.
        let mut others = self
            .committed
            .keys()
            .filter(|name| !list.names.contains(name));
        others.any(|name| {
            let name = TimestampedName::parse(name);
            name.is_ok_and(|name| name.t1 <= by.t1 && by.t2 <= name.t2)
        })
    }

    /// Adds a delete or update once: one in a `.con` file often has a file of its own, too.
    fn add_delete(
        &mut self,
        name: TimestampedName,
        file: &ArrayFile,
        inline: Option<(u64, Bytes)>,
        window: &OpenWindow,
    ) {
        if !window.contains(&name) {
            return;
        }
        let is_inline = inline.is_some();
        let entry = self.deletes.entry(name.name.clone());
        let delete = CommittedDelete {
            name,
            update: CommitKind::of(&file.info.name) == Some(CommitKind::Update),
            file: file.clone(),
            inline,
        };
        match entry {
            Entry::Vacant(entry) => {
                entry.insert(delete);
            }
            // A delete that is already in memory saves a request.
            Entry::Occupied(mut entry) if is_inline => {
                entry.insert(delete);
            }
            Entry::Occupied(_) => {}
        }
    }

    pub(super) fn deletes_in_order(self) -> Vec<CommittedDelete> {
        let mut deletes = self.deletes.into_values().collect::<Vec<_>>();
        // The sort is stable, so deletes of one time stay sorted by name.
        deletes.sort_by_key(|delete| delete.name.t1);
        deletes
    }
}

/// Reads the list of what the fragment `by` replaces, if the window shows it.
async fn read_list(
    storage: &Storage,
    by: &str,
    path: String,
    window: &OpenWindow,
    sparse_array: bool,
) -> Result<Option<ReplacedFragments>> {
    let by = TimestampedName::parse(by).context("file", || &path)?;
    if window.sees_fragment(&by, sparse_array) == WindowVisibility::Hidden {
        return Ok(None);
    }
    let bytes = storage.read(&path).await?;
    let paths = commit::parse_vacuum(&bytes).context("file", || &path)?;
    let names = paths
        .iter()
        .map(|p| commit::path_name(p).to_owned())
        .collect();
    Ok(Some(ReplacedFragments { by, path, names }))
}
