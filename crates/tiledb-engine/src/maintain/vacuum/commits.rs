//! Commit files that a list holds, lists that another list holds, and files that only those lists needed.
//!
//! A commit file that an ignore file names stays: the ignore file only hides entries of lists, so the commit file still commits
//! the fragment.

use std::collections::HashSet;

use super::{VacuumAction, VacuumOptions, VacuumPlan};
use crate::array::commits::ArrayCommit;
use crate::array::inspect::ArrayInspection;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::Result;
use crate::format::commit::{CommitKind, path_name};
use crate::storage::{FileInfo, Storage};

pub(super) async fn plan(storage: &Storage, options: &VacuumOptions) -> Result<VacuumPlan> {
    let window = OpenWindow::new(TimestampMs(0), None)?;
    let inspection = ArrayInspection::open(storage, window).await?;
    let storage = inspection.storage();
    let commits = inspection.commits().await?;
    let mut infos = Vec::new();
    for folder in ["", "__commits"] {
        let listing = storage.list(folder).await?;
        let path = |file: &FileInfo| match folder {
            "" => file.name.clone(),
            _ => format!("{folder}/{}", file.name),
        };
        infos.extend(listing.files.iter().map(|file| (path(file), file.clone())));
    }
    let info = |path: &str| infos.iter().find(|(p, _)| p == path).map(|(_, info)| info);
    let is_old = |path: &str| info(path).is_some_and(|info| options.is_old(info));
    let kept = kept_lists(&commits, &is_old);
    let gone_lists = of_kind(&commits, CommitKind::Consolidated)
        .filter_map(|c| c.file.as_deref())
        .filter(|file| !kept.contains(file) && is_old(file))
        .collect::<Vec<_>>();
    let mut singles = Vec::new();
    for commit in &commits {
        let single = matches!(
            commit.kind,
            CommitKind::Write | CommitKind::Ok | CommitKind::Delete
        );
        let mut held = commit.consolidated_in.iter();
        let held = held.any(|list| kept.contains(list.as_str()) && is_old(list));
        if let (true, true, None, Some(file)) = (single, held, &commit.ignored_by, &commit.file) {
            singles.push(file.as_str());
        }
    }
    let remaining = of_kind(&commits, CommitKind::Consolidated)
        .filter(|c| c.file.as_deref().is_some_and(|f| !gone_lists.contains(&f)))
        .flat_map(|c| c.lists.iter().map(|path| path_name(path)))
        .collect::<HashSet<_>>();
    let idle = of_kind(&commits, CommitKind::Ignore)
        .filter(|c| {
            !c.lists
                .iter()
                .any(|path| remaining.contains(path_name(path)))
        })
        .filter_map(|c| c.file.as_deref())
        .filter(|file| is_old(file));
    let remove = |file: &str, why: &'static str| {
        let bytes = info(file).map_or(0, |info| info.bytes);
        vec![VacuumAction::file(file, bytes, why)]
    };
    let mut plan = VacuumPlan::default();
    plan.then(
        singles
            .iter()
            .map(|f| remove(f, "a list of commits holds it"))
            .collect(),
    );
    plan.then(
        gone_lists
            .iter()
            .map(|f| remove(f, "another list holds all it lists"))
            .collect(),
    );
    plan.then(
        idle.map(|f| remove(f, "no list names what it ignores"))
            .collect(),
    );
    Ok(plan)
}

fn of_kind(commits: &[ArrayCommit], kind: CommitKind) -> impl Iterator<Item = &ArrayCommit> {
    commits.iter().filter(move |c| c.kind == kind)
}

/// The lists that remain: from the largest on, each one that holds an effective commit that no other one holds.
fn kept_lists<'a>(commits: &'a [ArrayCommit], is_old: &impl Fn(&str) -> bool) -> HashSet<&'a str> {
    let mut lists = of_kind(commits, CommitKind::Consolidated).collect::<Vec<_>>();
    lists.sort_by(|a, b| (b.lists.len(), &b.name.name).cmp(&(a.lists.len(), &a.name.name)));
    // Deletes are in effect whether they are ignored or not.
    let counts = |path: &str| {
        let name = path_name(path);
        let mut entries = commits.iter().filter(|c| c.name.name == name);
        entries.any(|c| match c.kind {
            CommitKind::Write | CommitKind::Ok => c.ignored_by.is_none(),
            CommitKind::Delete => true,
            _ => false,
        })
    };
    let (mut kept, mut held) = (HashSet::new(), HashSet::new());
    for list in lists {
        let Some(file) = list.file.as_deref() else {
            continue;
        };
        let new = list
            .lists
            .iter()
            .filter(|path| counts(path) && !held.contains(path.as_str()))
            .collect::<Vec<_>>();
        if new.is_empty() && is_old(file) {
            continue;
        }
        held.extend(new.into_iter().map(String::as_str));
        kept.insert(file);
    }
    kept
}
