//! [`GroupEdit`]: members come and go.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::array::folder::kind_at;
use crate::array::group::{GROUP_FOLDER, ListedMembers, list_members};
use crate::array::metadata::settled_group;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::generic_tile;
use crate::format::group::{GroupDetails, MemberEntry};
use crate::format::names::last_component;
use crate::storage::{Location, Storage};
use crate::write::change_options::{ChangeOptions, change_setters};

/// The end of the name of a file of changes.
const CHANGES: &str = "_2";

/// Describes changes of the members of a group, and makes them, all at once.
///
/// ```
/// use tiledb_engine::{GroupEdit, Location, create_group};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("experiment").display().to_string();
/// let experiment = Location::local(&path)?;
/// create_group(experiment.clone()).await?;
/// create_group(experiment.join("ms")).await?;
/// create_group(experiment.join("other")).await?;
/// GroupEdit::new()
///     .add(experiment.join("ms"), Some("measurements"))
///     .add(experiment.join("other"), None)
///     .apply(experiment.clone())
///     .await?;
/// GroupEdit::new().remove("other").apply(experiment).await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone, Default)]
pub struct GroupEdit {
    changes: Vec<MemberChange>,
    change: ChangeOptions,
}

#[derive(Debug, Clone)]
enum MemberChange {
    Add(NewMember),
    Remove(String),
}

#[derive(Debug, Clone)]
struct NewMember {
    place: MemberPlace,
    name: Option<String>,
    /// Whether its URI is relative to the group; by default, it is if the member lies below the group.
    relative: Option<bool>,
}

#[derive(Debug, Clone)]
enum MemberPlace {
    At(Location),
    /// A path from the group's folder.
    Path(String),
}

impl GroupEdit {
    /// Changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an array or a group, by a name or else known by its URI. If it lies below the group, its URI is relative, so that
    /// both can be moved together.
    #[must_use]
    pub fn add(self, member: Location, name: Option<&str>) -> Self {
        self.add_place(MemberPlace::At(member), name, None)
    }

    /// Adds an array or a group by its whole URI, wherever it lies.
    #[must_use]
    pub fn add_absolute(self, member: Location, name: Option<&str>) -> Self {
        self.add_place(MemberPlace::At(member), name, Some(false))
    }

    /// Adds an array or a group by its path from the group's folder.
    #[must_use]
    pub fn add_path(self, path: &str, name: Option<&str>) -> Self {
        self.add_place(MemberPlace::Path(path.to_owned()), name, Some(true))
    }

    /// As [`Self::add`] or [`Self::add_path`], with or without a choice.
    pub fn add_member(
        self,
        member: std::result::Result<Location, String>,
        name: Option<&str>,
        relative: Option<bool>,
    ) -> Self {
        let place = match member {
            Ok(location) => MemberPlace::At(location),
            Err(path) => MemberPlace::Path(path),
        };
        self.add_place(place, name, relative)
    }

    fn add_place(mut self, place: MemberPlace, name: Option<&str>, relative: Option<bool>) -> Self {
        self.changes.push(MemberChange::Add(NewMember {
            place,
            name: name.map(str::to_owned),
            relative,
        }));
        self
    }

    /// Removes the member of a name, or of a URI if it has no name. The array or group itself stays on storage.
    #[must_use]
    pub fn remove(mut self, name: &str) -> Self {
        self.changes.push(MemberChange::Remove(name.to_owned()));
        self
    }

    change_setters! {
        key: "A key with which the list of members is encrypted, as few groups are.",
        time: "Makes the changes as of this time, in milliseconds since 1970, instead of the present."
    }

    /// Makes the changes, and returns the name of the file that holds them; `None` if there are none.
    ///
    /// # Errors
    /// There is no group; a member doesn't exist, or the group has one of its name; or the storage fails.
    pub async fn apply(
        &self,
        group: impl TryInto<Storage, Error: Into<Error>>,
    ) -> Result<Option<String>> {
        let (file, _) = self.apply_in_words(group).await?;
        Ok(file)
    }

    /// As [`Self::apply`]; also returns the changes in words.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub async fn apply_in_words(
        &self,
        group: impl TryInto<Storage, Error: Into<Error>>,
    ) -> Result<(Option<String>, Vec<String>)> {
        let storage = self.change.storage(group)?;
        let applied = self.change_members(&storage).await;
        applied.map_err(|e| e.with("group", storage.uri()))
    }

    async fn change_members(&self, storage: &Storage) -> Result<(Option<String>, Vec<String>)> {
        let storage = &settled_group(storage).await?;
        let window = OpenWindow::new(TimestampMs(0), Some(TimestampMs(u64::MAX)))?;
        let listed = list_members(storage, &window).await?;
        let mut members: BTreeMap<String, MemberEntry> = BTreeMap::new();
        for member in &listed.members {
            members.insert(member.key().to_owned(), member.clone());
        }
        let (mut entries, mut words) = (Vec::new(), Vec::new());
        for change in &self.changes {
            let entry = match change {
                MemberChange::Add(new) => {
                    let entry = entry(storage, new).await?;
                    check_new(&members, &entry)?;
                    members.insert(entry.key().to_owned(), entry.clone());
                    words.push(format!("add {} {:?}", entry.kind, entry.key()));
                    entry
                }
                MemberChange::Remove(name) => {
                    let key = find(&members, name)?;
                    let found = members
                        .remove(&key)
                        .ok_or_else(|| Error::internal("a member is gone"))?;
                    words.push(format!("remove {} {key:?}", found.kind));
                    MemberEntry {
                        version: 2,
                        deleted: true,
                        ..found
                    }
                }
            };
            entries.push(entry);
        }
        if entries.is_empty() {
            return Ok((None, words));
        }
        let file = self.put(storage, &listed, members, entries).await?;
        Ok((Some(file), words))
    }

    async fn put(
        &self,
        storage: &Storage,
        listed: &ListedMembers,
        members: BTreeMap<String, MemberEntry>,
        entries: Vec<MemberEntry>,
    ) -> Result<String> {
        let clock = self.change.clock_of(storage);
        let time = self.change.time(&clock).await;
        let name = clock.fresh_name(time, time)?;
        let (details, name) = if listed.complete {
            let members = members.into_values().map(|member| MemberEntry {
                version: 1,
                ..member
            });
            let details = GroupDetails {
                complete: true,
                members: members.collect(),
            };
            (details, name)
        } else {
            (changes_of(entries), format!("{name}{CHANGES}"))
        };
        let tile = generic_tile::encode_with(&details.encode(), storage.encryption_key())?;
        let file = format!("{GROUP_FOLDER}/{name}");
        storage.create_file(&file, Bytes::from(tile)).await?;
        if listed.complete {
            let now = storage.list(GROUP_FOLDER).await?;
            let known = |other: &str| other == name || listed.files.iter().any(|f| f == other);
            if let Some(other) = now.named_files().find(|f| !known(&f.name)) {
                return Err(Error::conflict(format!(
                    "the members were listed anew in {} at the same time, and of two lists of a group of version 1 the later one counts: look at the members, and run again what is missing",
                    other.name
                )));
            }
        }
        Ok(file)
    }
}

/// A file of changes with each member once: its last change counts.
fn changes_of(entries: Vec<MemberEntry>) -> GroupDetails {
    let mut members: Vec<MemberEntry> = Vec::new();
    for entry in entries {
        members.retain(|known| known.key() != entry.key());
        members.push(entry);
    }
    GroupDetails {
        complete: false,
        members,
    }
}

/// The record of a new member, with the kind that is found at its place.
async fn entry(storage: &Storage, new: &NewMember) -> Result<MemberEntry> {
    let group = storage.location();
    let location = match &new.place {
        MemberPlace::At(location) => location.clone(),
        MemberPlace::Path(path) => group.resolve(path),
    };
    if location.same_location(group) {
        return Err(Error::invalid("a group isn't a member of itself"));
    }
    if new.name.as_deref() == Some("") {
        return Err(Error::invalid("the name of a member is empty"));
    }
    let kind = kind_at(&storage.at(location.clone())).await;
    let kind = kind.map_err(|e| match e.kind() {
        ErrorKind::NotFound | ErrorKind::NotAnArray => {
            Error::new(e.kind(), "a member is an array or a group that is there")
                .with("member", location.uri())
                .with_source(e)
        }
        _ => e,
    })?;
    let below = group.path_to(&location);
    let uri = match (&new.place, below, new.relative) {
        (MemberPlace::Path(path), _, None | Some(true)) => Some(path.trim_matches('/').to_owned()),
        (_, Some(below), None | Some(true)) => Some(below),
        (_, None, Some(true)) => {
            return Err(Error::invalid(
                "the member does not lie below the group, so its URI cannot be relative",
            )
            .with("member", location.uri()));
        }
        (_, _, _) => None,
    };
    Ok(MemberEntry {
        version: 2,
        kind,
        relative: uri.is_some(),
        uri: uri.unwrap_or_else(|| location.absolute_uri()),
        name: new.name.clone(),
        deleted: false,
    })
}

fn check_new(members: &BTreeMap<String, MemberEntry>, new: &MemberEntry) -> Result<()> {
    let Some(known) = members.get(new.key()) else {
        return Ok(());
    };
    Err(Error::already_exists(format!(
        "the group has a member \"{}\" already, at {}: remove it first, or choose another name",
        known.key(),
        Location::without_secrets(&known.uri)
    )))
}

/// The key of the member that a name means: its own name or URI, or the end of its URI if it has no name.
fn find(members: &BTreeMap<String, MemberEntry>, name: &str) -> Result<String> {
    if members.contains_key(name) {
        return Ok(name.to_owned());
    }
    let means = |entry: &MemberEntry| entry.name.is_none() && last_component(&entry.uri) == name;
    let found = members
        .iter()
        .filter(|(_, entry)| means(entry))
        .map(|(key, _)| key.clone())
        .collect::<Vec<_>>();
    match found.as_slice() {
        [key] => Ok(key.clone()),
        [] => {
            let names = members.keys().map(|key| Location::without_secrets(key));
            Err(Error::not_found(format!(
                "the group has no member \"{name}\"; its members are {}",
                names.collect::<Vec<_>>().join(", ")
            )))
        }
        several => Err(Error::invalid(format!(
            "\"{name}\" may mean {}: give the whole URI",
            several.join(" or ")
        ))),
    }
}
