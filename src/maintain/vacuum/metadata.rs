//! Files of metadata that a consolidated one replaces: key-value metadata of an array or a group, and copies of
//! footers.

use super::{Action, Plan, VacuumOptions};
use crate::array::directory::ArrayDirectory;
use crate::array::metadata::METADATA_FOLDER;
use crate::error::{Result, ResultExt};
use crate::format::commit::{parse_vacuum, path_name};
use crate::format::names::TimestampedName;
use crate::storage::Storage;

pub(super) async fn plan(storage: &Storage, options: &VacuumOptions) -> Result<Plan> {
    let listing = storage.list(METADATA_FOLDER).await?;
    let find = |name: &str| listing.files.iter().find(|file| file.name == name);
    let (mut replaced, mut lists) = (Vec::new(), Vec::new());
    for list in &listing.files {
        let Some(replacement) = list.name.strip_suffix(".vac") else {
            continue;
        };
        // Without the file that replaces the others, the list is not believed.
        if find(replacement).is_none() || !options.is_old(list) {
            continue;
        }
        let path = format!("{METADATA_FOLDER}/{}", list.name);
        let bytes = storage.read(&path).await?;
        for named in parse_vacuum(&bytes).context("file", || &path)? {
            let name = path_name(&named);
            if let Some(file) = find(name).filter(|_| name != replacement) {
                let path = format!("{METADATA_FOLDER}/{name}");
                let why = "a consolidated file replaces it";
                replaced.push(vec![Action::file(path, file.bytes, why)]);
            }
        }
        lists.push(vec![Action::file(
            path,
            list.bytes,
            "what it names is gone",
        )]);
    }
    let mut plan = Plan::default();
    plan.then(replaced);
    plan.then(lists);
    Ok(plan)
}

pub(super) async fn plan_copies(storage: &Storage, options: &VacuumOptions) -> Result<Plan> {
    let directory = ArrayDirectory::list(storage).await?;
    let mut named = Vec::new();
    for file in &directory.consolidated_footers {
        if let Ok(name) = TimestampedName::parse(&file.info.name) {
            named.push((name.t2, file.info.modified_us, name.name, file));
        }
    }
    named.sort_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
    // Its successor may have begun to be read a moment ago.
    let successor_is_old = named
        .last()
        .is_some_and(|(.., file)| options.is_old(&file.info));
    named.pop();
    let mut plan = Plan::default();
    if successor_is_old {
        let removals = named.into_iter().map(|(.., file)| {
            let why = "a later file has copies of all footers";
            vec![Action::file(file.path(), file.info.bytes, why)]
        });
        plan.then(removals.collect());
    }
    Ok(plan)
}
