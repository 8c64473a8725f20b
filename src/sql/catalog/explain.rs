//! The error for a group that is used like an array.

use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;

use super::super::location::group_storage;
use super::super::options::TableOptions;
use super::group::Shared;
use super::resolve::holds;
use crate::array::group::Group;
use crate::error::{Error, ErrorKind};
use crate::format::group::ObjectKind;
use crate::sql::location::locate;

/// The error of opening an array at `path`; if there is a group, it lists its members and says how to query them.
pub(crate) async fn explain_group(
    error: Error,
    path: &str,
    options: &TableOptions,
    runtime: &Arc<RuntimeEnv>,
) -> Error {
    if error.kind() != ErrorKind::IsAGroup {
        return error;
    }
    match open(path, options, runtime).await {
        Ok(group) => {
            let array = group.members.iter().find(|m| m.kind == ObjectKind::Array);
            let array = array.map(|m| format!("name one of its arrays, as '{}', or ", m.uri));
            let message = format!(
                "this is a TileDB group, not an array: {}; {}attach it: ATTACH '{}' AS name (in a program: register_group)",
                holds(&group),
                array.unwrap_or_default(),
                group.storage.uri()
            );
            Error::new(ErrorKind::IsAGroup, message).with("group", group.storage.uri())
        }
        // The folder is a group, so the error of opening it is more useful.
        Err(group_error) => error.with_source(group_error),
    }
}

async fn open(
    path: &str,
    options: &TableOptions,
    runtime: &Arc<RuntimeEnv>,
) -> crate::error::Result<Group> {
    let storage = group_storage(locate(path, runtime)?, options)?;
    Group::open(&storage, Shared::window(options)?).await
}
