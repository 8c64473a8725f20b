//! What the folders of commits held at one moment.
//!
//! Stores list a large folder a page at a time, and file systems an entry at a time, so that what is put or removed meanwhile is
//! seen or not. A second listing shows whether that happened.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::{ArrayDirectory, COMMITS, ROOT};
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::format::commit::{self, CommitKind};
use crate::format::names::TimestampedName;
use crate::storage::{DatedListing, Listing, ListingReuse, Storage};

/// How often an array is listed while others change it.
pub(in crate::array) const MOST_LISTINGS: usize = 20;

/// Listings of folders of commits, which may not show what there was at one moment.
#[derive(Debug)]
pub(in crate::array) struct UnsettledListings<const N: usize> {
    folders: [(&'static str, ListingReuse); N],
    listed: [DatedListing; N],
}

impl<const N: usize> UnsettledListings<N> {
    pub(in crate::array) fn new(
        folders: [(&'static str, ListingReuse); N],
        listed: [DatedListing; N],
    ) -> Self {
        Self { folders, listed }
    }

    /// The listings.
    pub(super) fn listings(&self) -> [Arc<Listing>; N] {
        self.listed.each_ref().map(|one| Arc::clone(&one.listing))
    }

    /// The listings, or later ones that show what there was at one moment.
    ///
    /// # Errors
    /// The store fails, or the folders change again and again.
    pub(in crate::array) async fn settled(self, storage: &Storage) -> Result<[Arc<Listing>; N]> {
        let changed = self.changed(storage).await?;
        Ok(changed.unwrap_or_else(|| self.listings()))
    }

    /// Lists the folders until the listings show what there was at one moment; `None` if these do.
    ///
    /// Two listings prove it if the later one has everything that the earlier one has, and otherwise only files of later times.
    /// A missing file may have moved to a place that the earlier listing had passed; a new file of an earlier time may be older
    /// than one that the earlier listing has. A vacuum removes files that are listed in others; these don't count as changes.
    ///
    /// # Errors
    /// As of [`settled`](Self::settled).
    pub(super) async fn changed(&self, storage: &Storage) -> Result<Option<[Arc<Listing>; N]>> {
        let folders = self.folders;
        let mut last = self.listed.clone();
        for attempt in 0..MOST_LISTINGS {
            if last.iter().all(|one| one.at_once) {
                return Ok((attempt > 0).then(|| last.map(|one| one.listing)));
            }
            let next = if attempt == 0 && storage.is_remote() {
                let names = folders.map(|(name, _)| name);
                storage.list_all_again(names, &last).await?
            } else {
                // A store may list in another order than that of names, so that what was listed in pages never agrees.
                storage.list_all(folders).await?
            };
            let settled = is_settled(storage, folders, &last, &next).await;
            if settled.map_err(|e| e.with("array", storage.uri()))? {
                return Ok((attempt > 0).then(|| last.map(|one| one.listing)));
            }
            last = next;
        }
        Err(Error::conflict(format!(
            "the array changed {MOST_LISTINGS} times while it was listed, because somebody consolidates and vacuums it: run \
             the statement again"
        ))
        .with("array", storage.uri()))
    }
}

/// The proof that the listing of an array folder shows what there was at one moment, which has yet to be found. A store behind a
/// network is asked for it while the listed files are read.
#[derive(Debug)]
pub(in crate::array) struct DirectoryProof {
    commits: UnsettledListings<2>,
    schemas: Arc<Listing>,
    footers: Arc<Listing>,
}

impl DirectoryProof {
    /// The directory of these listings, those of commits being the array's own folder and that of its commits, and the proof.
    pub(super) fn of_listings(
        storage: &Storage,
        schemas: Arc<Listing>,
        [root, commits, footers]: [DatedListing; 3],
    ) -> Result<(ArrayDirectory, Self)> {
        let proof = Self {
            commits: UnsettledListings::new([ROOT, COMMITS], [root, commits]),
            schemas,
            footers: footers.listing,
        };
        let directory = proof.directory(proof.commits.listings());
        let directory = directory.map_err(|e| e.with("array", storage.uri()))?;
        Ok((directory, proof))
    }

    fn directory(&self, [root, commits]: [Arc<Listing>; 2]) -> Result<ArrayDirectory> {
        let (schemas, footers) = (Arc::clone(&self.schemas), Arc::clone(&self.footers));
        ArrayDirectory::from_listings([root, schemas, commits, footers])
    }

    /// Lists the commits until the listings show what there was at one moment; `None` if the directory does.
    ///
    /// # Errors
    /// The store fails, or the commits change again and again.
    pub(in crate::array) async fn changed(
        &self,
        storage: &Storage,
    ) -> Result<Option<ArrayDirectory>> {
        let Some(commits) = self.commits.changed(storage).await? else {
            return Ok(None);
        };
        let changed = self.directory(commits);
        changed
            .map(Some)
            .map_err(|e| e.with("array", storage.uri()))
    }
}

/// The names of commits, of lists of commits, and of what is committed by being there.
fn counted<const N: usize>(listed: &[DatedListing; N]) -> BTreeSet<&str> {
    let listings = listed.iter().map(|listed| &listed.listing);
    let names = listings.flat_map(|listing| {
        let files = listing.named_files().map(|file| file.name.as_str());
        files.chain(listing.folders.iter().map(String::as_str))
    });
    let counts = |name: &&str| {
        let is_list = commit::staged_vacuum(name).is_some() || CommitKind::of(name).is_some();
        is_list || (!name.contains('.') && TimestampedName::parse(name).is_ok())
    };
    names.filter(counts).collect()
}

async fn is_settled<const N: usize>(
    storage: &Storage,
    folders: [(&'static str, ListingReuse); N],
    last: &[DatedListing; N],
    next: &[DatedListing; N],
) -> Result<bool> {
    let (before, after) = (counted(last), counted(next));
    let times = |name: &&str| TimestampedName::parse(name).ok();
    let latest = before.iter().filter_map(times).map(|name| name.t2).max();
    let mut new = after.difference(&before);
    if new.any(|name| times(name).is_none_or(|name| Some(name.t1) <= latest)) {
        return Ok(false);
    }
    let gone = before.difference(&after).copied().collect::<Vec<_>>();
    if gone.is_empty() {
        return Ok(true);
    }
    let Some(told) = ListedCommit::read(storage, folders, next).await? else {
        return Ok(false);
    };
    let is_there = |list: &&(String, Vec<String>)| {
        let commits = ["", ".wrt", ".ok"].map(|end| format!("{}{end}", list.0));
        told.held.contains(&list.0) || commits.iter().any(|name| after.contains(name.as_str()))
    };
    let believed = told.replaced.iter().filter(is_there);
    let replaced: HashSet<_> = believed.flat_map(|(_, names)| names).collect();
    Ok(gone.iter().all(|name| {
        let stem = commit::path_name(name).to_owned();
        match CommitKind::of(name) {
            Some(CommitKind::Delete) => told.held.contains(&stem),
            Some(CommitKind::Write | CommitKind::Ok) | None => {
                told.held.contains(&stem) || replaced.contains(&stem)
            }
            Some(_) => false,
        }
    }))
}

/// What lists of commits and of replaced fragments name.
#[derive(Default)]
struct ListedCommit {
    /// The names of listed commits.
    held: HashSet<String>,
    /// Fragments, or files of metadata, and what each of them replaces.
    replaced: Vec<(String, Vec<String>)>,
}

impl ListedCommit {
    /// Reads the lists; `None` if one is gone.
    async fn read<const N: usize>(
        storage: &Storage,
        folders: [(&'static str, ListingReuse); N],
        listed: &[DatedListing; N],
    ) -> Result<Option<Self>> {
        let mut told = Self::default();
        for ((folder, _), listed) in folders.iter().zip(listed) {
            for file in listed.listing.named_files() {
                let kind = CommitKind::of(&file.name);
                if !matches!(kind, Some(CommitKind::Consolidated | CommitKind::Vacuum)) {
                    continue;
                }
                let path = format!("{folder}/{}", file.name);
                let bytes = match storage.read(path.trim_start_matches('/')).await {
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                    bytes => bytes?,
                };
                let name = commit::path_name(&file.name);
                if kind == Some(CommitKind::Consolidated) {
                    let entries =
                        commit::parse_consolidated_commits(&bytes).context("file", || &path)?;
                    told.held
                        .extend(entries.into_iter().map(|entry| entry.name));
                } else {
                    let paths = commit::parse_vacuum(&bytes).context("file", || &path)?;
                    let names = paths.iter().map(|p| commit::path_name(p).to_owned());
                    told.replaced.push((name.to_owned(), names.collect()));
                }
            }
        }
        Ok(Some(told))
    }
}
