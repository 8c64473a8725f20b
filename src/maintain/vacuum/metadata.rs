//! Files of key-value metadata that a consolidated one replaces, of an array or a group.

use super::VacuumOptions;
use super::actions::{Action, Plan};
use crate::array::metadata::METADATA_FOLDER;
use crate::error::{Result, ResultExt};
use crate::format::commit::{parse_vacuum, path_name};
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
