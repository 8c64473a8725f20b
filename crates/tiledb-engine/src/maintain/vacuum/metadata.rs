//! Files of metadata that a consolidated one replaces: key-value metadata of an array or a group, and copies of
//! footers.
//!
//! The subtle thing: a replacement of some files may itself be replaced. It goes after these files and after the list that
//! names them, so that no list is ever without the replacement that justifies it.

use std::collections::HashSet;

use super::{VacuumAction, VacuumOptions, VacuumPlan};
use crate::array::directory::ArrayDirectory;
use crate::array::metadata::METADATA_FOLDER;
use crate::error::{Result, ResultExt};
use crate::format::commit::{parse_vacuum, path_name};
use crate::format::names::TimestampedName;
use crate::storage::Storage;

pub(super) async fn plan(storage: &Storage, options: &VacuumOptions) -> Result<VacuumPlan> {
    let listing = storage.list(METADATA_FOLDER).await?;
    let find = |name: &str| listing.files.iter().find(|file| file.name == name);
    let mut lists = Vec::new();
    for list in listing.named_files() {
        let Some(replacement) = list.name.strip_suffix(".vac") else {
            continue;
        };
        if !options.is_old(list) {
            continue;
        }
        let path = format!("{METADATA_FOLDER}/{}", list.name);
        let bytes = storage.read(&path).await?;
        let named = parse_vacuum(&bytes).context("file", || &path)?;
        let named = named.iter().map(|path| path_name(path).to_owned());
        lists.push(VacuumList {
            path,
            bytes: list.bytes,
            replacement,
            named: named.filter(|name| name != replacement).collect(),
        });
    }
    let is_there = |name: &str| find(name).is_some();
    let believed = believed(&lists, is_there);
    let (mut left, others): (Vec<_>, Vec<_>) = lists
        .iter()
        .partition(|list| believed.contains(list.replacement));
    let mut plan = VacuumPlan::default();
    let mut gone = HashSet::new();
    while !left.is_empty() {
        let replacements = left
            .iter()
            .map(|list| list.replacement)
            .collect::<HashSet<_>>();
        let is_outer =
            |list: &&VacuumList<'_>| list.named.iter().any(|n| replacements.contains(n.as_str()));
        let (mut outer, mut inner): (Vec<_>, Vec<_>) = left.into_iter().partition(is_outer);
        if inner.is_empty() {
            // Lists that replace each other are damaged, and hide all of their files already.
            inner = std::mem::take(&mut outer);
        }
        let named = inner
            .iter()
            .flat_map(|list| &list.named)
            .filter_map(|name| find(name).filter(|file| gone.insert(&file.name)));
        let replaced = named.map(|file| {
            let path = format!("{METADATA_FOLDER}/{}", file.name);
            vec![VacuumAction::file(
                path,
                file.bytes,
                "a consolidated file replaces it",
            )]
        });
        plan.then(replaced.collect());
        plan.then(inner.into_iter().map(VacuumList::removal).collect());
        left = outer;
    }
    // Neither the files that these lists name nor their replacements exist.
    let idle = others
        .into_iter()
        .filter(|list| !list.named.iter().any(|name| is_there(name)));
    plan.then(idle.map(VacuumList::removal).collect());
    Ok(plan)
}

/// A list of files that another one replaces.
struct VacuumList<'a> {
    path: String,
    bytes: u64,
    /// The file that replaces the others.
    replacement: &'a str,
    named: Vec<String>,
}

impl VacuumList<'_> {
    fn removal(&self) -> Vec<VacuumAction> {
        let why = "what it names is gone";
        vec![VacuumAction::file(self.path.as_str(), self.bytes, why)]
    }
}

/// The replacements that count: those that exist, and those replaced by others that count. If the vacuum of another program was
/// interrupted, a replacement may be gone before the files that it replaces.
fn believed<'a>(lists: &[VacuumList<'a>], is_there: impl Fn(&str) -> bool) -> HashSet<&'a str> {
    let mut believed = HashSet::new();
    loop {
        let before = believed.len();
        for list in lists {
            let name = list.replacement;
            let replaced = || {
                let mut others = lists.iter().filter(|l| believed.contains(l.replacement));
                others.any(|other| other.named.iter().any(|named| named == name))
            };
            if is_there(name) || replaced() {
                believed.insert(name);
            }
        }
        if believed.len() == before {
            return believed;
        }
    }
}

pub(super) async fn plan_copies(storage: &Storage, options: &VacuumOptions) -> Result<VacuumPlan> {
    let directory = ArrayDirectory::list(storage).await?;
    let mut named = Vec::new();
    for file in &directory.consolidated_footers {
        if let Ok(name) = TimestampedName::parse(&file.info.name) {
            named.push((name.t2, file.info.modified_us, name.name, file));
        }
    }
    named.sort_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
    // Readers that began before the latest file existed may still read an older one.
    let successor_is_old = named
        .last()
        .is_some_and(|(.., file)| options.is_old(&file.info));
    named.pop();
    let mut plan = VacuumPlan::default();
    if successor_is_old {
        let removals = named.into_iter().map(|(.., file)| {
            let why = "a later file has copies of all footers";
            vec![VacuumAction::file(file.path(), file.info.bytes, why)]
        });
        plan.then(removals.collect());
    }
    Ok(plan)
}
