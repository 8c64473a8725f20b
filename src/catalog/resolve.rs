//! Resolution of a path of names to an array, through the current state of the groups; and the error for a group that is
//! used like an array.
//!
//! Names may contain slashes themselves, so a path is not split at each: in every group the longest member name that
//! the path starts with is entered. If none matches exactly, the only one that matches in another case is taken.

use tiledb_engine::array::group::{Group, GroupMember, MemberLocation};
use tiledb_engine::array::window::OpenWindow;
use tiledb_engine::format::group::ObjectKind;
use tiledb_engine::storage::{Location, Storage};
use tiledb_engine::{Error, ErrorKind, Result, ResultExt};

use super::explore::{SHOWN_MEMBERS, contains_itself, join, storage_of, unlisted};
use super::group::GroupState;
use crate::options::TableOptions;
use crate::stores::location::group_storage;
use crate::stores::location::locate;
use crate::stores::runtime::ArrayRuntime;

/// The state of a resolution.
struct PathResolution<'a> {
    shared: &'a GroupState,
    window: OpenWindow,
    group: Group,
    /// The locations of the groups entered so far, the current one last.
    passed: Vec<Location>,
    /// The path entered so far.
    path: String,
}

impl GroupState {
    /// The storage of the array `name` below the group at `path`.
    pub(super) async fn find_array(&self, path: &str, name: &str) -> Result<Storage> {
        let mut walk = PathResolution::start(self).await?;
        if !path.is_empty() {
            walk.enter_all(path).await?;
        }
        walk.array(name).await
    }
}

impl<'a> PathResolution<'a> {
    async fn start(shared: &'a GroupState) -> Result<Self> {
        let window = GroupState::window(&shared.options)?;
        Ok(Self {
            shared,
            window,
            group: shared.root_group(window).await?,
            passed: vec![shared.root.location().clone()],
            path: String::new(),
        })
    }

    /// Enters every group of `path`.
    async fn enter_all(&mut self, path: &str) -> Result<()> {
        let mut rest = clean(path);
        while !rest.is_empty() {
            let (member, below) = self.next(rest, ObjectKind::Group)?;
            self.enter(&member).await?;
            rest = below;
        }
        Ok(())
    }

    /// The array that `path` leads to.
    async fn array(mut self, path: &str) -> Result<Storage> {
        let mut rest = clean(path);
        loop {
            let (member, below) = self.next(rest, ObjectKind::Array)?;
            if !below.is_empty() {
                self.enter(&member).await?;
                rest = below;
                continue;
            }
            if member.kind == ObjectKind::Array {
                let storage = self.storage_of(&member).await;
                return storage.context("member", || self.below(&member.name));
            }
            self.enter(&member).await?;
            return Err(Error::invalid(format!(
                "\"{}\" is a group, not an array; {}",
                self.path,
                holds(&self.group)
            ))
            .with("group", self.group.storage.uri()));
        }
    }

    /// The member that `path` starts with, and the rest of the path after it.
    fn next<'p>(&self, path: &'p str, wanted: ObjectKind) -> Result<(GroupMember, &'p str)> {
        let exactly = |a: &str, b: &str| a == b;
        let candidates = self.candidates(path, wanted, exactly);
        if let Some(best) = candidates.into_iter().next() {
            return Ok(best);
        }
        let mut similar = self
            .candidates(path, wanted, str::eq_ignore_ascii_case)
            .into_iter();
        match (similar.next(), similar.next()) {
            (Some(only), None) => Ok(only),
            (Some((a, _)), Some((b, _))) => Err(Error::not_found(format!(
                "\"{path}\" may be \"{}\" or \"{}\": write it as the group does",
                a.name, b.name
            ))
            .with("group", self.group.storage.uri())),
            _ => Err(self.no_member(path)),
        }
    }

    /// The members that `path` may start with, the best match first.
    fn candidates<'p>(
        &self,
        path: &'p str,
        wanted: ObjectKind,
        same: impl Fn(&str, &str) -> bool,
    ) -> Vec<(GroupMember, &'p str)> {
        let begins = |member: &GroupMember| {
            let (name, rest) = path.split_at_checked(member.name.len())?;
            let below = match rest.strip_prefix('/') {
                Some(below) if member.kind == ObjectKind::Group => below.trim_matches('/'),
                None if rest.is_empty() => "",
                _ => return None,
            };
            same(name, &member.name).then(|| (member.clone(), below))
        };
        let mut found: Vec<_> = self.group.members.iter().filter_map(begins).collect();
        // A member of the wanted kind that ends the path comes first; then the longest name; one of the other kind that
        // ends the path comes last.
        found.sort_by_key(|(member, below)| {
            let rank = match (below.is_empty(), member.kind == wanted) {
                (true, true) => 0_u8,
                (false, _) => 1,
                (true, false) => 2,
            };
            (rank, std::cmp::Reverse(member.name.len()))
        });
        found
    }

    async fn enter(&mut self, member: &GroupMember) -> Result<()> {
        let path = self.below(&member.name);
        self.enter_group(member)
            .await
            .context("member", || path.clone())?;
        self.path = path;
        Ok(())
    }

    async fn enter_group(&mut self, member: &GroupMember) -> Result<()> {
        if member.kind == ObjectKind::Array {
            return Err(Error::invalid("this is an array: it has no members"));
        }
        let storage = self.storage_of(member).await?;
        let location = storage.location().clone();
        if self
            .passed
            .iter()
            .any(|passed| passed.same_location(&location))
        {
            return Err(contains_itself(&storage));
        }
        self.group = Group::open(&storage, self.window).await?;
        self.passed.push(location);
        Ok(())
    }

    async fn storage_of(&self, member: &GroupMember) -> Result<Storage> {
        storage_of(&self.shared.stores, &self.group, member).await
    }

    fn below(&self, name: &str) -> String {
        join(&self.path, name)
    }

    fn no_member(&self, path: &str) -> Error {
        Error::not_found(format!(
            "the group has no member \"{path}\"; {}",
            holds(&self.group)
        ))
        .with("group", self.group.storage.uri())
    }
}

/// The members of a group, in a clause: "it holds a (array), b (group)".
pub(super) fn holds(group: &Group) -> String {
    if group.members.is_empty() {
        return unlisted(group).unwrap_or_else(|| "it has no members".to_owned());
    }
    let shown: Vec<_> = group
        .members
        .iter()
        .take(SHOWN_MEMBERS)
        .map(|m| format!("{} ({})", m.name, m.kind))
        .collect();
    let more = group.members.len().saturating_sub(SHOWN_MEMBERS);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("it holds {}{more}", shown.join(", "))
}

/// A path without a leading `./` and without slashes at the ends.
fn clean(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path).trim_matches('/')
}

/// The error of opening an array at `path`; if it is a group, the error lists its members and how to query them.
pub(crate) async fn explain_group(
    error: Error,
    path: &str,
    options: &TableOptions,
    runtime: &ArrayRuntime,
) -> Error {
    if error.kind() != ErrorKind::IsAGroup {
        return error;
    }
    match open(path, options, runtime).await {
        Ok(group) => {
            // Advice to open a place elsewhere would come from the group's contents, not from this library.
            let folder = group.storage.location();
            let is_below = |member: &&GroupMember| match &member.location {
                MemberLocation::SameStore(location) => folder.path_to(location).is_some(),
                MemberLocation::Uri(_) => false,
            };
            let mut arrays = group.members.iter().filter(|m| m.kind == ObjectKind::Array);
            let array = arrays
                .find(is_below)
                .map(|m| format!("name one of its arrays, as '{}', or ", m.uri));
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
    runtime: &ArrayRuntime,
) -> tiledb_engine::Result<Group> {
    let storage = group_storage(locate(path, runtime)?, options, runtime)?;
    Group::open(&storage, GroupState::window(options)?).await
}
