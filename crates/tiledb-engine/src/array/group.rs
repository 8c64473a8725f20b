//! A group at a time: its members, and their locations.
//!
//! Follows the specification's "Group": the files of `__group` inside the window are replayed in the order of their
//! times; a file of version 1 replaces everything before it, one of version 2 changes it. Only group files are read
//! here, never a member. The subtle thing: members may have no name and are then identified by their URI; here they get
//! a name, unique in the group.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};

pub use super::folder::{GROUP_FILE, GROUP_FOLDER};
use super::metadata::settled_group;
use super::window::OpenWindow;
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::format::group::{GroupDetails, MemberEntry, ObjectKind};
use crate::format::names::{TimestampedName, last_component};
use crate::storage::{FileInfo, Listing, Location, Storage, once_finished};

/// Group files read at the same time.
const OPEN_CONCURRENCY: usize = 8;
/// The memory of a decoded member beyond its bytes on storage, for the cache.
const MEMBER_OVERHEAD: usize = 64;

/// A group at a time.
#[derive(Debug, Clone)]
pub struct Group {
    /// The storage of the group.
    pub storage: Storage,
    /// Its members, sorted by name.
    pub members: Vec<GroupMember>,
    /// The subfolders of a group that has never listed a member. Before TileDB listed members, these were the members of a
    /// group.
    pub unlisted: Vec<String>,
}

/// A member of a group.
#[derive(Debug, Clone)]
pub struct GroupMember {
    /// Its name, or one made from its URI; unique in the group.
    pub name: String,
    /// Whether the group lists it as an array or a group.
    pub kind: ObjectKind,
    /// Its path or URI, to show.
    pub uri: String,
    /// Its location, to open it.
    pub location: MemberLocation,
}

/// The location of a member.
#[derive(Debug, Clone)]
pub enum MemberLocation {
    /// A location in the group's own store.
    SameStore(Location),
    /// An absolute URI, possibly of another store.
    Uri(String),
}

impl Group {
    /// Opens the group at `storage` as seen through `window`.
    pub async fn open(storage: &Storage, window: OpenWindow) -> Result<Self> {
        let window = OpenWindow::new(window.start, Some(window.end_or_now()))?;
        let details = async { load_details(&settled_group(storage).await?, &window).await };
        let (details, unlisted) = details.await.map_err(|e| e.with("group", storage.uri()))?;
        Ok(Self {
            storage: storage.clone(),
            members: members(storage.location(), replay(&details)),
            unlisted,
        })
    }

    /// The member called `name`.
    pub fn member(&self, name: &str) -> Option<&GroupMember> {
        let found = self.members.binary_search_by(|m| m.name.as_str().cmp(name));
        found.ok().and_then(|index| self.members.get(index))
    }
}

/// The members that a group lists, as they are stored.
#[derive(Debug)]
pub struct ListedMembers {
    /// The records of the members, by key.
    pub members: Vec<MemberEntry>,
    /// Whether the newest file is a complete list, of version 1.
    pub complete: bool,
    /// The names of all files that list members.
    pub files: Vec<String>,
}

/// The members of the group at `storage` as seen through `window`, as they are stored.
///
/// # Errors
/// There is no group, or a file cannot be read.
pub async fn list_members(storage: &Storage, window: &OpenWindow) -> Result<ListedMembers> {
    let files = storage.list(GROUP_FOLDER).await?;
    let (details, _) = load_details(storage, window).await?;
    let members = replay(&details).into_values().cloned().collect();
    Ok(ListedMembers {
        members,
        complete: details.last().is_some_and(|newest| newest.complete),
        files: files.named_files().map(|file| file.name.clone()).collect(),
    })
}

/// The files that list members. If there are none, the group's subfolders.
async fn load_details(
    storage: &Storage,
    window: &OpenWindow,
) -> Result<(Vec<Arc<GroupDetails>>, Vec<String>)> {
    let listing = storage.list(GROUP_FOLDER).await?;
    let mut unlisted = Vec::new();
    if listing.named_files().next().is_none() {
        // This is a group without members or no group: object stores do not list empty folders.
        let root = storage.list("").await?;
        check_is_group(&root)?;
        let folders = root.folders.iter();
        unlisted.extend(
            folders
                .filter(|name| !name.starts_with(['_', '.']))
                .cloned(),
        );
    }
    let files = visible_files(listing.named_files().cloned(), window)?;
    let details = stream::iter(files)
        .map(|file| load_file(storage, file))
        .buffered(storage.reads_at_once(OPEN_CONCURRENCY))
        .try_collect()
        .await?;
    Ok((details, unlisted))
}

async fn load_file(storage: &Storage, file: FileInfo) -> Result<Arc<GroupDetails>> {
    let path = format!("{GROUP_FOLDER}/{}", file.name);
    let load = || {
        async {
            let bytes = storage.read(&path).await?;
            let tile = storage.decode_generic_tile(&bytes, "group details")?;
            let details = GroupDetails::decode(&tile.data)?;
            let size = details.members.len().saturating_mul(MEMBER_OVERHEAD);
            Ok((details, size.saturating_add(tile.data.len())))
        }
        .boxed()
    };
    let key = storage.cache_key(&path, 0, &file);
    let finished = once_finished(&file, load);
    let details = storage.cache().get_or_load(key, finished).await;
    details.context("file", || path)
}

/// The files inside the window that are replayed, oldest first.
fn visible_files(
    files: impl Iterator<Item = FileInfo>,
    window: &OpenWindow,
) -> Result<Vec<FileInfo>> {
    let mut visible = Vec::new();
    for file in files {
        // Names with a dot are vacuum files or do not belong to the group.
        if file.name.contains('.') {
            continue;
        }
        let path = || format!("{GROUP_FOLDER}/{}", file.name);
        let name = TimestampedName::parse(&file.name).context("file", path)?;
        if window.contains(&name) {
            visible.push((name, file));
        }
    }
    visible.sort_by(|(a, _), (b, _)| (a.t1, &a.name).cmp(&(b.t1, &b.name)));
    // The name of a file with a complete list ends in `_1`, or has no version.
    let complete = |name: &TimestampedName| name.version.is_none_or(|v| v == 1);
    let newest_complete = visible.iter().rposition(|(name, _)| complete(name));
    let needed = visible.into_iter().skip(newest_complete.unwrap_or(0));
    Ok(needed.map(|(_, file)| file).collect())
}

/// The members after all files are replayed, by key.
fn replay(details: &[Arc<GroupDetails>]) -> BTreeMap<&str, &MemberEntry> {
    let mut members = BTreeMap::new();
    for file in details {
        if file.complete {
            members.clear();
        }
        for member in &file.members {
            if member.deleted {
                members.remove(member.key());
            } else {
                members.insert(member.key(), member);
            }
        }
    }
    members
}

fn members(group: &Location, entries: BTreeMap<&str, &MemberEntry>) -> Vec<GroupMember> {
    let given = |entry: &MemberEntry| entry.name.clone().filter(|name| !name.is_empty());
    let mut names = MemberNames {
        taken: entries.values().filter_map(|e| given(e)).collect(),
        numbers: HashMap::new(),
    };
    let mut members: Vec<GroupMember> = entries
        .into_values()
        .map(|entry| GroupMember {
            name: given(entry).unwrap_or_else(|| names.free(&entry.uri)),
            kind: entry.kind,
            uri: shown_uri(group, entry),
            location: member_location(group, entry),
        })
        .collect();
    members.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    members
}

/// The names of members.
struct MemberNames {
    taken: HashSet<String>,
    /// The last number that was tried for each last part of a URI.
    numbers: HashMap<String, u64>,
}

impl MemberNames {
    /// The last part of a URI, with a number if another member has that name.
    fn free(&mut self, uri: &str) -> String {
        let last = match last_component(uri) {
            "" => "member",
            last => last,
        };
        if self.taken.insert(last.to_owned()) {
            return last.to_owned();
        }
        let number = self.numbers.entry(last.to_owned()).or_insert(1);
        loop {
            *number += 1;
            let name = format!("{last}_{number}");
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

fn member_location(group: &Location, entry: &MemberEntry) -> MemberLocation {
    if entry.relative {
        return MemberLocation::SameStore(group.resolve(&entry.uri));
    }
    // A store registered only in this process cannot be found by a URI, but members below the group are in its store.
    let below = entry.uri.strip_prefix(group.uri().trim_end_matches('/'));
    match below.and_then(|rest| rest.strip_prefix('/')) {
        Some(rest) => MemberLocation::SameStore(group.resolve(rest)),
        None => MemberLocation::Uri(entry.uri.clone()),
    }
}

fn shown_uri(group: &Location, entry: &MemberEntry) -> String {
    if entry.relative {
        group.resolve(&entry.uri).uri().to_owned()
    } else {
        Location::without_secrets(&entry.uri)
    }
}

/// Fails unless the folder is a group; the error says what it is instead.
fn check_is_group(root: &Listing) -> Result<()> {
    let has_file = |name: &str| root.files.iter().any(|f| f.name == name);
    let has_folder = |name: &str| root.folders.iter().any(|f| f == name);
    if has_folder("__schema") || has_file("__array_schema.tdb") {
        Err(Error::new(
            ErrorKind::IsAnArray,
            "this is a TileDB array, not a group",
        ))
    } else if has_folder(GROUP_FOLDER) || has_file(GROUP_FILE) {
        Ok(())
    } else if root.files.is_empty() && root.folders.is_empty() {
        Err(Error::not_found(
            "no group is here: there is nothing, an empty folder, or a file where a group is a folder; check the path",
        ))
    } else {
        Err(Error::new(
            ErrorKind::NotAGroup,
            format!("the folder holds neither {GROUP_FOLDER} nor {GROUP_FILE}"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, path::Path};

    use super::*;
    use crate::array::window::TimestampMs;
    use crate::growth::grows_in_proportion;

    const UUID: &str = "0123456789abcdef0123456789abcdef";

    struct Entry<'a>(u8, bool, &'a str, Option<&'a str>, Option<bool>);

    /// A generic tile without filters.
    fn tile(contents: &[u8]) -> Vec<u8> {
        let len = u32::try_from(contents.len()).unwrap().to_le_bytes();
        let chunk = [&1_u64.to_le_bytes()[..], &len, &len, &[0; 4], contents].concat();
        let mut tile = 22_u32.to_le_bytes().to_vec();
        tile.extend((chunk.len() as u64).to_le_bytes());
        tile.extend((contents.len() as u64).to_le_bytes());
        tile.push(4);
        tile.extend(1_u64.to_le_bytes());
        tile.push(0);
        tile.extend(8_u32.to_le_bytes());
        tile.extend(65_536_u32.to_le_bytes());
        tile.extend(0_u32.to_le_bytes());
        tile.extend(chunk);
        tile
    }

    fn details(version: u32, entries: &[Entry<'_>]) -> Vec<u8> {
        let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
        let mut bytes = version.to_le_bytes().to_vec();
        bytes.extend((entries.len() as u64).to_le_bytes());
        for Entry(kind, relative, uri, name, deleted) in entries {
            bytes.extend(if deleted.is_some() { 2_u32 } else { 1 }.to_le_bytes());
            bytes.extend([*kind, u8::from(*relative)]);
            bytes.extend(text(uri));
            bytes.push(u8::from(name.is_some()));
            bytes.extend(name.map(text).unwrap_or_default());
            bytes.extend(deleted.map(u8::from));
        }
        tile(&bytes)
    }

    async fn group(files: &[(&str, Vec<u8>)]) -> Storage {
        let store = InMemory::new();
        for (name, bytes) in files {
            let path = Path::from(format!("data/g/{name}"));
            store.put(&path, bytes.clone().into()).await.unwrap();
        }
        let location = Location::new(Arc::new(store), Path::from("data/g"), "mem://s/data/g");
        Storage::new(location)
    }

    async fn names_at(storage: &Storage, end: u64) -> Vec<String> {
        let window = OpenWindow::new(TimestampMs(0), Some(TimestampMs(end))).unwrap();
        let group = Group::open(storage, window).await.unwrap();
        group.members.into_iter().map(|m| m.name).collect()
    }

    fn file(time: u64, suffix: &str) -> String {
        format!("__group/__{time}_{time}_{UUID}{suffix}")
    }

    #[tokio::test]
    async fn changes_are_replayed_and_complete_lists_replace() {
        let a = || Entry(2, true, "a", Some("A"), None);
        let b = || Entry(2, true, "b", Some("B"), Some(false));
        let storage = group(&[
            (&file(1, ""), details(1, &[a()])),
            (&file(2, "_2"), details(2, &[b()])),
            (
                &file(3, "_2"),
                details(2, &[Entry(2, true, "a", Some("A"), Some(true))]),
            ),
            (&file(4, "_1"), details(1, &[a()])),
            (&file(5, "_2"), details(2, &[b()])),
            ("__group/.DS_Store", Vec::new()),
            (&file(6, "_2.vac"), b"/__group/x\n".to_vec()),
        ])
        .await;
        for (end, names) in [
            (0, &[][..]),
            (1, &["A"]),
            (2, &["A", "B"]),
            (3, &["B"]),
            (4, &["A"]),
            (9, &["A", "B"]),
        ] {
            assert_eq!(names_at(&storage, end).await, names, "at {end}");
        }
    }

    #[tokio::test]
    async fn members_have_names_and_locations() {
        let storage = group(&[(
            &file(1, "_2"),
            details(
                2,
                &[
                    Entry(2, true, "x/obs", Some("obs"), Some(false)),
                    Entry(2, true, "y/obs", None, Some(false)),
                    Entry(2, true, "../obs", None, Some(false)),
                    Entry(1, false, "mem://s/data/g/ms", Some(""), Some(false)),
                    Entry(2, false, "s3://u:p@other/z/", None, Some(false)),
                    Entry(2, false, "mem://s/data/g2", None, Some(false)),
                ],
            ),
        )])
        .await;
        let group = Group::open(&storage, OpenWindow::default()).await.unwrap();
        let shown: Vec<_> = group
            .members
            .iter()
            .map(|m| {
                let location = match &m.location {
                    MemberLocation::SameStore(location) => location.root().to_string(),
                    MemberLocation::Uri(uri) => uri.clone(),
                };
                format!("{} {} {} {location}", m.name, m.kind, m.uri)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "g2 array mem://s/data/g2 mem://s/data/g2",
                "ms group mem://s/data/g/ms data/g/ms",
                "obs array mem://s/data/g/x/obs data/g/x/obs",
                "obs_2 array mem://s/data/g/../obs data/obs",
                "obs_3 array mem://s/data/g/y/obs data/g/y/obs",
                "z array s3://other/z/ s3://u:p@other/z/",
            ]
        );
        assert_eq!(group.member("ms").unwrap().kind, ObjectKind::Group);
        assert!(group.member("MS").is_none());
    }

    #[test]
    fn many_members_without_names_are_numbered_in_one_pass() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let with_members = |count: usize| {
            let uris = (0..count).map(|n| format!("{n:05}/a")).collect::<Vec<_>>();
            let entries = uris
                .iter()
                .map(|uri| Entry(2, true, uri, None, None))
                .collect::<Vec<_>>();
            let file = file(1, "");
            let storage = runtime.block_on(group(&[(&file, details(1, &entries))]));
            (storage, count)
        };
        grows_in_proportion(1_000, with_members, |(storage, count)| {
            let names = runtime.block_on(names_at(storage, 9));
            let different = names.iter().collect::<HashSet<_>>();
            assert_eq!(different.len(), *count);
            assert!(different.contains(&"a".to_owned()));
            assert!(different.contains(&format!("a_{count}")));
        });
    }

    #[tokio::test]
    async fn what_is_no_group_says_what_it_is() {
        let kind = async |files: &[(&str, Vec<u8>)]| {
            let storage = group(files).await;
            let error = Group::open(&storage, OpenWindow::default()).await.err();
            error.map(|e| e.kind())
        };
        assert_eq!(kind(&[("__tiledb_group.tdb", Vec::new())]).await, None);
        assert_eq!(kind(&[]).await, Some(ErrorKind::NotFound));
        for (file, expected) in [
            ("__schema/__1_1_x", ErrorKind::IsAnArray),
            ("__array_schema.tdb", ErrorKind::IsAnArray),
            ("data.csv", ErrorKind::NotAGroup),
        ] {
            let found = kind(&[(file, vec![1])]).await;
            assert_eq!(found, Some(expected), "{file}");
        }
    }

    #[tokio::test]
    async fn broken_files_name_themselves() {
        let good = details(2, &[Entry(2, true, "a", None, Some(false))]);
        for (name, bytes, words) in [
            (file(1, "_2"), good[..good.len() - 1].to_vec(), "truncated"),
            (file(1, "_2"), details(3, &[]), "version 3"),
            ("__group/__1_0_x_2".into(), good.clone(), "first time 1"),
            ("__group/__notes".into(), good.clone(), "not a timestamped"),
        ] {
            let storage = group(&[(&name, bytes)]).await;
            let error = Group::open(&storage, OpenWindow::default())
                .await
                .unwrap_err()
                .to_string();
            assert!(error.contains(words), "{error}");
            assert!(error.contains(&format!("file {name}")), "{error}");
            assert!(error.contains("group mem://s/data/g"), "{error}");
        }
    }
}
