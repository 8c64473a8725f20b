//! Files with copies of footers: the latest remains.

use super::VacuumOptions;
use super::actions::{Action, Plan};
use crate::array::directory::ArrayDirectory;
use crate::error::Result;
use crate::format::names::TimestampedName;
use crate::storage::Storage;

pub(super) async fn plan(storage: &Storage, options: &VacuumOptions) -> Result<Plan> {
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
