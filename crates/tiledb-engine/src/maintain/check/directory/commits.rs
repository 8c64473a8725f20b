//! Commits, and the files about other commits: lists of them (`.con`), of ignored ones (`.ign`) and of replaced
//! fragments (`.vac`).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::folders::{COMMITS_FOLDER, FolderListings, about_stored};
use crate::error::Result;
use crate::format::commit::truncates;
use crate::format::commit::{self, CommitEntryKind, CommitKind};
use crate::format::names::TimestampedName;
use crate::maintain::check::report::FindingReporter;
use crate::maintain::check::rule::Rule;
use crate::storage::{FileInfo, Storage};

/// Checks the files about other commits. `is_there` returns whether the folder of a fragment exists.
pub fn check(lists: &CommitLists, is_there: impl Fn(&str) -> bool, report: &FindingReporter) {
    let committed = lists.committed();
    ignored(lists, &committed, report);
    repeated(lists, report);
    replaced(lists, &committed, is_there, report);
}

/// Names that are ignored take effect only in lists. A vacuum that was interrupted may have left the commit file of a fragment that is
/// replaced; the next one removes it.
fn ignored(
    lists: &CommitLists,
    committed: &BTreeMap<&str, &CheckedCommit>,
    report: &FindingReporter,
) {
    let vacuums = lists.vacuums.iter();
    let valid = vacuums.filter(|vacuum| {
        committed.contains_key(vacuum.replacement.name.as_str())
            || truncates(&vacuum.replacement, &vacuum.replaced)
    });
    let replaced: BTreeSet<&str> = valid
        .flat_map(|vacuum| vacuum.replaced.iter().map(String::as_str))
        .collect();
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, file) in &lists.ignored {
        files.entry(file).or_default().push(name);
        if let Some(own) = lists.own.get(name)
            && !replaced.contains(name.as_str())
        {
            let found = format!("{file} ignores {name}, which has a commit file of its own");
            let expected = "no commit file for what is ignored";
            report.tell(Rule::IgnoredAndCommitted, &own.path, found, expected);
        }
    }
    for (file, names) in files {
        if !names.iter().any(|name| lists.named.contains(*name)) {
            let found = format!("{} names, none of which is in a list", names.len());
            report.tell(
                Rule::IgnoreOfNothing,
                file,
                found,
                "names of listed commits",
            );
        }
    }
}

/// A commit is a file of its own or a line of a list.
fn repeated(lists: &CommitLists, report: &FindingReporter) {
    for (name, own) in &lists.own {
        if let Some(list) = lists.listed.get(name) {
            let found = format!("{} lists it, too", list.path);
            report.tell(Rule::CommittedTwice, &own.path, found, "one commit");
        }
    }
    for delete in lists.deletes.iter().filter(|d| d.inline.is_none()) {
        let same = |other: &&CheckedDelete| other.inline.is_some() && other.name == delete.name;
        if let Some(list) = lists.deletes.iter().find(same) {
            let found = format!("{} contains it, too", list.path);
            report.tell(Rule::CommittedTwice, &delete.path, found, "one commit");
        }
    }
}

/// Replaced fragments are hidden, so their replacement must be committed.
fn replaced(
    lists: &CommitLists,
    committed: &BTreeMap<&str, &CheckedCommit>,
    is_there: impl Fn(&str) -> bool,
    report: &FindingReporter,
) {
    for vacuum in &lists.vacuums {
        let kept: Vec<&String> = vacuum
            .replaced
            .iter()
            .filter(|name| is_there(name))
            .collect();
        let replacement = vacuum.replacement.name.as_str();
        if kept.is_empty() {
            let found = format!("{} names, none of which exists", vacuum.replaced.len());
            let expected = "names of fragments that still exist";
            report.tell(Rule::VacuumOfNothing, &vacuum.path, found, expected);
        } else if !committed.contains_key(replacement)
            && !is_there(replacement)
            && !truncates(&vacuum.replacement, &vacuum.replaced)
        {
            let found = format!("it hides {} fragments", kept.len());
            let expected = format!("the fragment {replacement}, which replaces them");
            report.tell(
                Rule::VacuumWithoutReplacement,
                &vacuum.path,
                found,
                expected,
            );
        }
    }
}

/// A commit with a file of its own, or in a list.
#[derive(Debug, Clone)]
pub struct CheckedCommit {
    /// The file that commits it: its own, or a list.
    pub file: FileInfo,
    /// The path of that file.
    pub path: String,
}

/// A delete or an update.
#[derive(Debug, Clone)]
pub struct CheckedDelete {
    pub name: TimestampedName,
    /// Its file, or the list that contains it.
    pub path: String,
    pub update: bool,
    /// Its tile, if a list contains it.
    pub inline: Option<Bytes>,
}

/// A file that names replaced fragments.
#[derive(Debug)]
pub struct VacuumFile {
    pub path: String,
    /// The fragment that replaces them.
    pub replacement: TimestampedName,
    /// The names of the replaced fragments.
    pub replaced: Vec<String>,
}

/// The contents of all commit files, by the names of fragments.
#[derive(Debug, Default)]
pub struct CommitLists {
    /// Fragments with a commit file of their own.
    pub own: BTreeMap<String, CheckedCommit>,
    /// Fragments in lists.
    pub listed: BTreeMap<String, CheckedCommit>,
    /// Ignored names, and the file that ignores each.
    pub ignored: BTreeMap<String, String>,
    /// Names of all kinds in lists.
    pub named: BTreeSet<String>,
    pub vacuums: Vec<VacuumFile>,
    pub deletes: Vec<CheckedDelete>,
}

impl CommitLists {
    /// Reads all commit files; those that can't be read are reported.
    pub async fn read(
        storage: &Storage,
        folders: &FolderListings,
        report: &FindingReporter,
    ) -> Result<Self> {
        let mut lists = Self::default();
        for (path, file) in folders.in_root_and(COMMITS_FOLDER, &folders.commits) {
            let Some(kind) = CommitKind::of(&path) else {
                continue;
            };
            let in_root = !path.contains('/');
            // In the array's own folder only these kinds are commits.
            if in_root && !matches!(kind, CommitKind::Ok | CommitKind::Vacuum) {
                continue;
            }
            // Those in the folder of commits have been reported already.
            let Ok(name) = TimestampedName::parse(&path) else {
                continue;
            };
            lists.add(storage, kind, name, path, file, report).await?;
        }
        Ok(lists)
    }

    async fn add(
        &mut self,
        storage: &Storage,
        kind: CommitKind,
        name: TimestampedName,
        path: String,
        file: &FileInfo,
        report: &FindingReporter,
    ) -> Result<()> {
        match kind {
            CommitKind::Write | CommitKind::Ok => {
                let file = file.clone();
                self.own.insert(name.name, CheckedCommit { file, path });
            }
            CommitKind::Delete | CommitKind::Update => self.deletes.push(CheckedDelete {
                name,
                path,
                update: kind == CommitKind::Update,
                inline: None,
            }),
            CommitKind::Consolidated | CommitKind::Ignore | CommitKind::Vacuum => {
                let read = match storage.read(&path).await {
                    Ok(bytes) => self.add_list(kind, name, &path, file, &bytes),
                    Err(e) => Err(e),
                };
                if let Err(e) = read {
                    let problem = about_stored(e)?;
                    let found = problem.to_string();
                    report.tell(Rule::UnreadableList, path, found, "lines of names");
                }
            }
        }
        Ok(())
    }

    fn add_list(
        &mut self,
        kind: CommitKind,
        name: TimestampedName,
        path: &str,
        file: &FileInfo,
        bytes: &Bytes,
    ) -> Result<()> {
        let stems = |paths: Vec<String>| {
            let stems = paths.into_iter();
            stems.map(|path| commit::path_name(&path).to_owned())
        };
        match kind {
            CommitKind::Ignore => {
                let names = stems(commit::parse_ignore(bytes)?);
                self.ignored
                    .extend(names.map(|name| (name, path.to_owned())));
            }
            CommitKind::Vacuum => self.vacuums.push(VacuumFile {
                path: path.to_owned(),
                replacement: name,
                replaced: stems(commit::parse_vacuum(bytes)?).collect(),
            }),
            _ => {
                for entry in commit::parse_consolidated_commits(bytes)? {
                    self.named.insert(entry.name.clone());
                    let file = file.clone();
                    let path = path.to_owned();
                    match entry.kind {
                        CommitEntryKind::Write | CommitEntryKind::Ok => {
                            self.listed.insert(entry.name, CheckedCommit { file, path });
                        }
                        CommitEntryKind::Delete { range } => self.deletes.push(CheckedDelete {
                            name: TimestampedName::parse(&entry.name)?,
                            path,
                            update: false,
                            inline: (range.end <= bytes.len()).then(|| bytes.slice(range)),
                        }),
                    }
                }
            }
        }
        Ok(())
    }

    /// The committed fragments: those with a file of their own, and those in lists that are not ignored.
    pub fn committed(&self) -> BTreeMap<&str, &CheckedCommit> {
        let listed = self
            .listed
            .iter()
            .filter(|(name, _)| !self.ignored.contains_key(*name));
        let all = listed.chain(&self.own);
        all.map(|(name, commit)| (name.as_str(), commit)).collect()
    }
}
