//! The files of group details: they decode.

use super::folders::Folders;
use super::tile;
use crate::array::group::GROUP_FOLDER;
use crate::error::Result;
use crate::format::group::GroupDetails;
use crate::format::names::TimestampedName;
use crate::maintain::check::report::Reporter;
use crate::maintain::check::rule::Rule;
use crate::storage::Storage;

/// Checks all files that list members; the members themselves are arrays and groups of their own.
pub async fn check(storage: &Storage, folders: &Folders, report: &Reporter) -> Result<()> {
    for file in &folders.group.files {
        // Names with a dot are vacuum files; bad names were told of already.
        if file.name.contains('.') || TimestampedName::parse(&file.name).is_err() {
            continue;
        }
        let path = format!("{GROUP_FOLDER}/{}", file.name);
        let details = match tile::read(storage, &path, "group details").await? {
            Ok(tile) => GroupDetails::decode(&tile.data).map(|_| ()),
            Err(e) => Err(e),
        };
        if let Err(e) = details {
            report.tell(
                Rule::UnreadableGroup,
                path,
                e.to_string(),
                "a list of members",
            );
        }
    }
    Ok(())
}
