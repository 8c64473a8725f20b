//! `tiledb_members('location')`: what is in a group and below it, one row a member.
//!
//! | Column | |
//! |---|---|
//! | `path` | the names that lead to the member: what to write in a query where the group is attached |
//! | `name` | its name, or one made from its URI |
//! | `type` | `array` or `group`, as its group says |
//! | `uri` | where it lies |
//! | `found` | whether there is such an object; NULL where it cannot be reached, or was not looked for |
//! | `problem` | what is wrong with it |
//!
//! A group inside itself has a row and is not entered again. Arrays are looked for, several at a time, only if `found` or
//! `problem` is asked for, and are not opened.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};

use super::columns::{self, TEXT, optional, required};
use super::description::{Describe, Request, Rows, once};
use super::target::Target;
use crate::array::group::{Group, Member};
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, ErrorKind, Result};
use crate::format::group::ObjectKind;
use crate::sql::catalog::explore::{Explored, join, storage_of};
use crate::sql::catalog::locate::Stores;

/// Arrays looked for at the same time.
const CONCURRENCY: usize = 16;
/// The columns that only looking for every array can fill.
const FOUND: &[usize] = &[4, 5];

/// The function.
pub(super) struct Members;

impl Describe for Members {
    const NAME: &'static str = "tiledb_members";

    fn schema() -> SchemaRef {
        columns::schema(vec![
            required("path", TEXT),
            required("name", TEXT),
            required("type", TEXT),
            required("uri", TEXT),
            optional("found", DataType::Boolean),
            optional("problem", TEXT),
        ])
    }

    fn rows(target: Target, request: Arc<Request>) -> BoxStream<'static, Result<Rows>> {
        once(async move { rows(&target, request.wants(FOUND)).await })
    }
}

/// A member, the path it is known by, and what is wrong with it.
struct Found {
    path: String,
    member: Member,
    problem: Option<Error>,
}

async fn rows(target: &Target, look: bool) -> Result<Rows> {
    let end = target.options.timestamp_end.map(TimestampMs);
    let window = OpenWindow::new(TimestampMs(0), end)?;
    let stores = &Stores::of_runtime(Arc::clone(&target.runtime));
    let root = Group::open(&target.storage, window).await?;
    let Explored {
        groups,
        mut problems,
    } = Explored::of(root, stores, window).await;
    let mut members = Vec::new();
    for (above, group) in &groups {
        let of_group = group.members.iter();
        members.extend(of_group.map(|member| (join(above, &member.name), group, member)));
    }
    let members = members.as_slice();
    let missing: Vec<_> = stream::iter(0..members.len())
        .map(|index| async move {
            let (_, group, member) = members.get(index)?;
            if !look || member.kind == ObjectKind::Group {
                return None;
            }
            find_array(stores, group, member).await.err()
        })
        .buffered(CONCURRENCY)
        .collect()
        .await;
    let mut found: Vec<_> = members
        .iter()
        .zip(missing)
        .map(|((path, _, member), missing)| Found {
            path: path.clone(),
            member: (*member).clone(),
            problem: missing.or_else(|| problems.remove(path)),
        })
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Rows {
        len: found.len(),
        columns: vec![
            columns::text(found.iter().map(|f| &f.path)),
            columns::text(found.iter().map(|f| &f.member.name)),
            columns::text(found.iter().map(|f| f.member.kind.to_string())),
            columns::text(found.iter().map(|f| &f.member.uri)),
            columns::opt_bools(found.iter().map(|f| is_found(f.problem.as_ref(), look))),
            columns::opt_text(
                found
                    .iter()
                    .map(|f| f.problem.as_ref().map(Error::to_string)),
            ),
        ],
    })
}

/// What cannot be reached may be there; what is broken, or contains itself, is there.
fn is_found(problem: Option<&Error>, looked: bool) -> Option<bool> {
    match problem.map(Error::kind) {
        None => looked.then_some(true),
        Some(
            ErrorKind::NotFound
            | ErrorKind::NotAnArray
            | ErrorKind::IsAGroup
            | ErrorKind::NotAGroup
            | ErrorKind::IsAnArray,
        ) => Some(false),
        Some(ErrorKind::Unsupported | ErrorKind::Storage | ErrorKind::PermissionDenied) => None,
        Some(_) => Some(true),
    }
}

/// Looks for an array without opening it.
async fn find_array(stores: &Stores, group: &Group, member: &Member) -> Result<()> {
    let storage = storage_of(stores, group, member).await?;
    let root = storage.list("").await?;
    let has_schema = root.folders.iter().any(|f| f == "__schema")
        || root.files.iter().any(|f| f.name == "__array_schema.tdb");
    if has_schema {
        return Ok(());
    }
    let is_group = root.folders.iter().any(|f| f == "__group")
        || root.files.iter().any(|f| f.name == "__tiledb_group.tdb");
    Err(if is_group {
        Error::new(ErrorKind::IsAGroup, "a TileDB group is there")
    } else {
        Error::not_found("no array is there")
    })
}
