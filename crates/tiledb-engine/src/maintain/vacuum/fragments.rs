//! Fragments that others replace, or that TRUNCATE hides. The commit of each one goes first, then its folder, and last the list
//! that names it.
//!
//! Two consolidations of the same fragments at the same time find each other once both are committed, and one is taken back.
//! The fragments that only this one replaces are then visible again, so neither is vacuumed while this may happen.
//!
//! A replacing fragment may have been replaced itself. Then its list goes first, so that the list never outlives the fragment
//! that it belongs to.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use futures::future::ready;
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    FRAGMENTS_FOLDER, FragmentFolders, VacuumAction, VacuumOptions, VacuumPlan, VacuumedObject,
};
use crate::array::commits::ArrayCommit;
use crate::array::directory::list_commits;
use crate::array::inspect::ArrayInspection;
use crate::array::snapshot::DEAD_AFTER_MS;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, ErrorKind, Result};
use crate::format::commit::{
    CommitKind, encode_ignore, parse_vacuum, path_name, staged_vacuum, truncates,
};
use crate::format::names::TimestampedName;
use crate::storage::{FileInfo, Storage};

const REPLACED: &str = "another fragment replaces it";
const TRUNCATED: &str = "a TRUNCATE hides it";
const FOLDER_SINCE: u32 = 12;

pub(super) async fn plan(storage: &Storage, options: &VacuumOptions) -> Result<VacuumPlan> {
    let window = OpenWindow::new(TimestampMs(0), None)?;
    let inspection = ArrayInspection::open(storage, window).await?;
    let storage = inspection.storage();
    let commits = inspection.commits().await?;
    let committed = committed(&commits);
    let lists = commits.iter().filter(|c| c.kind == CommitKind::Vacuum);
    let believed = lists.filter(|c| is_replaced_for_good(&committed, &c.name) || is_truncation(c));
    let mut plan = VacuumPlan::default();
    let mut removable = Vec::new();
    let mut sizes = HashMap::new();
    for (list, file) in with_files(storage, believed).await? {
        if options.is_old(&file) {
            sizes.insert(list.name.name.as_str(), file.bytes);
            removable.push(list);
        } else {
            plan.kept.extend(kept(list, &commits, options));
        }
    }
    let announced = ReplacementLists::read(storage).await?;
    removable.retain(|list| is_truncation(list) || !announced.rival(list));
    let wanted = removable.iter().map(|list| list.lists.len()).sum();
    let folders = FragmentFolders::list(storage, wanted).await?;
    for list in in_order(removable) {
        add(storage, options, list, &commits, &folders, &mut plan).await?;
        if let Some(file) = &list.file {
            let bytes = sizes.get(list.name.name.as_str()).copied();
            let removal = VacuumAction::file(file, bytes.unwrap_or(0), "what it names is gone");
            plan.then(vec![vec![removal]]);
        }
    }
    Ok(plan)
}

/// The lists whose files exist, with these.
async fn with_files<'a>(
    storage: &Storage,
    lists: impl Iterator<Item = &'a ArrayCommit>,
) -> Result<Vec<(&'a ArrayCommit, FileInfo)>> {
    let files = lists.filter_map(|list| Some((list, list.file.clone()?)));
    let files = files.map(|(list, path)| async move {
        let file = storage.head(&path).await?;
        Ok(file.map(|file| (list, file)))
    });
    let found = stream::iter(files.collect::<Vec<_>>()).buffered(storage.reads_at_once(1));
    found
        .try_filter_map(|found| ready(Ok(found)))
        .try_collect()
        .await
}

/// The fragments of a list that is too young, with the reason why they stay.
fn kept(
    list: &ArrayCommit,
    commits: &[ArrayCommit],
    options: &VacuumOptions,
) -> Vec<(String, String)> {
    let since = if is_truncation(list) {
        "a TRUNCATE hid it"
    } else {
        "it was replaced"
    };
    let age = in_words(options.min_age);
    let why = format!("{since} less than {age} ago, and queries may still read it");
    let writes = commits
        .iter()
        .filter(|c| is_write(c))
        .map(|c| c.name.name.as_str())
        .collect::<HashSet<_>>();
    let names = list
        .lists
        .iter()
        .filter_map(|path| TimestampedName::parse(path).ok());
    names
        .filter(|name| name.name != list.name.name && writes.contains(name.name.as_str()))
        .map(|name| (folder_of(&name), why.clone()))
        .collect()
}

/// A length of time in the largest unit that divides it.
fn in_words(age: Duration) -> String {
    let seconds = age.as_secs();
    let units = [
        (24 * 3600, "day"),
        (3600, "hour"),
        (60, "minute"),
        (1, "second"),
    ];
    let (unit, name) = units
        .into_iter()
        .find(|(unit, _)| seconds.is_multiple_of(*unit))
        .unwrap_or((1, "second"));
    match seconds / unit {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    }
}

fn is_in_root(name: &TimestampedName) -> bool {
    name.version.is_none_or(|version| version < FOLDER_SINCE)
}

/// The folder of a fragment.
fn folder_of(name: &TimestampedName) -> String {
    if is_in_root(name) {
        name.name.clone()
    } else {
        format!("{FRAGMENTS_FOLDER}/{}", name.name)
    }
}

/// The lists of replaced fragments, including those of consolidations that are not committed yet.
struct ReplacementLists(Vec<AnnouncedList>);

struct AnnouncedList {
    /// The name of the replacing fragment.
    by: String,
    names: HashSet<String>,
    /// When the list was put.
    since_ms: u64,
}

impl ReplacementLists {
    async fn read(storage: &Storage) -> Result<Self> {
        let listing = list_commits(storage).await?;
        let lists = listing.named_files().filter_map(|file| {
            let by = staged_vacuum(&file.name).or_else(|| file.name.strip_suffix(".vac"))?;
            Some((by.to_owned(), file.clone()))
        });
        let lists = lists.map(|(by, file)| async move {
            let bytes = match storage.read(&format!("__commits/{}", file.name)).await {
                // The list was completed under its other name, or withdrawn.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok::<_, Error>(None),
                bytes => bytes?,
            };
            let names = parse_vacuum(&bytes)?;
            let names = names.iter().map(|path| path_name(path).to_owned());
            Ok(Some(AnnouncedList {
                by,
                names: names.collect(),
                since_ms: u64::try_from(file.modified_us / 1000).unwrap_or(0),
            }))
        });
        let read = stream::iter(lists.collect::<Vec<_>>()).buffered(storage.reads_at_once(1));
        let lists = read.try_filter_map(|list| ready(Ok(list))).try_collect();
        Ok(Self(lists.await?))
    }

    /// Whether this consolidation and another one replace the same fragments, and one of them may still be taken back.
    fn rival(&self, list: &ArrayCommit) -> bool {
        let now = TimestampMs::now().0;
        let is_young = |list: &AnnouncedList| now < list.since_ms.saturating_add(DEAD_AFTER_MS);
        let mut own = self.0.iter().filter(|own| own.by == list.name.name);
        let own_is_young = own.any(is_young);
        let mut others = self.0.iter().filter(|other| other.by != list.name.name);
        let shares = |other: &AnnouncedList| {
            let mut names = list.lists.iter().map(|path| path_name(path));
            names.any(|name| other.names.contains(name))
        };
        others.any(|other| (own_is_young || is_young(other)) && shares(other))
    }
}

/// The names of committed fragments.
fn committed(commits: &[ArrayCommit]) -> HashSet<&str> {
    let writes = commits.iter().filter(|c| is_write(c) && c.is_committed());
    writes.map(|c| c.name.name.as_str()).collect()
}

fn is_write(commit: &ArrayCommit) -> bool {
    matches!(commit.kind, CommitKind::Write | CommitKind::Ok)
}

/// Whether the fragment that replaces others is committed. Fragments before version 5 have no commit files, and were only
/// written by releases that removed what they replaced.
fn is_replaced_for_good(committed: &HashSet<&str>, replacement: &TimestampedName) -> bool {
    committed.contains(replacement.name.as_str())
}

fn is_truncation(list: &ArrayCommit) -> bool {
    let names = list.lists.iter().map(|path| path_name(path));
    truncates(&list.name, &names.collect::<Vec<_>>())
}

/// Sorts lists so that the list of a replaced fragment comes before the list that names this fragment.
fn in_order(mut lists: Vec<&ArrayCommit>) -> Vec<&ArrayCommit> {
    let mut ordered: Vec<&ArrayCommit> = Vec::with_capacity(lists.len());
    while !lists.is_empty() {
        let waiting = lists
            .iter()
            .map(|c| c.name.name.as_str())
            .collect::<HashSet<_>>();
        let names_waiting = |list: &&ArrayCommit| {
            let mut names = list.lists.iter().map(|path| path_name(path));
            names.any(|name| waiting.contains(name) && name != list.name.name)
        };
        let ready = lists
            .iter()
            .copied()
            .filter(|list| !names_waiting(list))
            .collect::<Vec<_>>();
        if ready.is_empty() {
            // No writer puts lists that name each other's fragments in a circle; they stay.
            break;
        }
        lists.retain(|list| names_waiting(list));
        ordered.extend(ready);
    }
    ordered
}

async fn add(
    storage: &Storage,
    options: &VacuumOptions,
    list: &ArrayCommit,
    commits: &[ArrayCommit],
    folders: &FragmentFolders,
    plan: &mut VacuumPlan,
) -> Result<()> {
    let mut writes: BTreeMap<&str, &ArrayCommit> = BTreeMap::new();
    for commit in commits.iter().filter(|c| is_write(c)) {
        writes.insert(commit.name.name.as_str(), commit);
    }
    let why = if is_truncation(list) {
        TRUNCATED
    } else {
        REPLACED
    };
    let (mut ignored, mut chains) = (Vec::new(), Vec::new());
    for path in &list.lists {
        let Ok(name) = TimestampedName::parse(path) else {
            continue;
        };
        if name.name == list.name.name {
            continue;
        }
        let folder = folder_of(&name);
        let commit = writes.get(name.name.as_str());
        let mut chain = Vec::new();
        if let Some(commit) = commit {
            if !commit.consolidated_in.is_empty() && commit.ignored_by.is_none() {
                let line = if is_in_root(&name) {
                    format!("{}.ok", name.name)
                } else {
                    format!("__commits/{}.wrt", name.name)
                };
                ignored.push((name.clone(), line));
            }
            chain.extend(
                commit
                    .file
                    .clone()
                    .map(|file| VacuumAction::file(file, 0, why)),
            );
        }
        chain.extend(folders.removal(storage, folder, why).await?);
        chains.push(chain);
    }
    if let Some(ignore) = ignore(options, &ignored)? {
        plan.then(vec![vec![ignore]]);
    }
    plan.then(chains);
    Ok(())
}

/// The file that hides fragments from the lists of commits that name them.
fn ignore(
    options: &VacuumOptions,
    ignored: &[(TimestampedName, String)],
) -> Result<Option<VacuumAction>> {
    let times = || ignored.iter().map(|(name, _)| name);
    let (Some(t1), Some(t2)) = (times().map(|n| n.t1).min(), times().map(|n| n.t2).max()) else {
        return Ok(None);
    };
    let name = options
        .clock
        .fresh_fragment_name(TimestampMs(t1), TimestampMs(t2))?;
    let lines = ignored.iter().map(|(_, line)| line.as_str());
    Ok(Some(VacuumAction {
        what: VacuumedObject::Create(Bytes::from(encode_ignore(lines))),
        path: format!("__commits/{name}.ign"),
        bytes: 0,
        why: "lists of commits no longer count for the fragments it names",
    }))
}
