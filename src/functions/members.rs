//! `tiledb_members('location')`: the members of a group and of the groups below it, one row per member.
//!
//! | Column | |
//! |---|---|
//! | `path` | the names that lead to the member: the name to use in a query if the group is attached |
//! | `name` | its name, or one made from its URI |
//! | `type` | `array` or `group`, as its group says |
//! | `uri` | its location |
//! | `found` | whether the object exists; NULL if it cannot be reached, may not be opened, or was not looked up |
//! | `problem` | the error of looking it up, if there is one |
//!
//! A group inside itself has a row and is not entered again. Arrays are looked up, several at a time, only if `found`
//! or `problem` is selected, and are not opened.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tiledb_engine::array::folder::kind_at;
use tiledb_engine::array::group::{Group, GroupMember};
use tiledb_engine::array::window::{OpenWindow, TimestampMs};
use tiledb_engine::format::group::ObjectKind;
use tiledb_engine::{Error, ErrorKind, Result};

use super::arguments::FunctionTarget;
use super::columns::{self, TEXT, optional, required};
use super::description::{DescribeArray, DescriptionRequest, DescriptionRows, once};
use crate::catalog::explore::{ExploredGroup, MemberStores, join, storage_of};

/// Arrays looked up at the same time.
const CONCURRENCY: usize = 16;
/// The columns for which every array must be looked up.
const FOUND: &[usize] = &[4, 5];

/// The function.
pub(super) struct MembersFunction;

impl DescribeArray for MembersFunction {
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

    fn rows(
        target: FunctionTarget,
        request: Arc<DescriptionRequest>,
    ) -> BoxStream<'static, Result<DescriptionRows>> {
        once(async move { rows(&target, request.wants(FOUND)).await })
    }
}

/// A member, its path, and its problem.
struct FoundMember {
    path: String,
    member: GroupMember,
    problem: Option<Error>,
}

async fn rows(target: &FunctionTarget, look: bool) -> Result<DescriptionRows> {
    let end = target.options.timestamp_end.map(TimestampMs);
    let window = OpenWindow::new(TimestampMs(0), end)?;
    let stores = &MemberStores::of_runtime(
        target.runtime.clone(),
        Some(target.external_members.clone()),
    );
    let root = Group::open(&target.storage, window).await?;
    let ExploredGroup {
        groups,
        mut problems,
    } = ExploredGroup::of(root, stores, window).await;
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
        .map(|((path, _, member), missing)| FoundMember {
            path: path.clone(),
            member: (*member).clone(),
            problem: missing.or_else(|| problems.remove(path)),
        })
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(DescriptionRows {
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

/// An object that cannot be reached may exist; one that is damaged, or contains itself, exists.
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
        Some(
            ErrorKind::Unsupported
            | ErrorKind::Storage
            | ErrorKind::PermissionDenied
            | ErrorKind::External,
        ) => None,
        Some(_) => Some(true),
    }
}

/// Looks up an array without opening it.
async fn find_array(stores: &MemberStores, group: &Group, member: &GroupMember) -> Result<()> {
    let storage = storage_of(stores, group, member).await?;
    match kind_at(&storage).await {
        Ok(ObjectKind::Array) => Ok(()),
        Ok(_) => Err(Error::new(ErrorKind::IsAGroup, "a TileDB group is there")),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotAnArray) => {
            Err(Error::not_found("no array is there"))
        }
        Err(e) => Err(e),
    }
}
