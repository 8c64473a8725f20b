//! The location of an array: a store, the path of the array's folder in it, and the URI to show.
//!
//! The subtle thing: names are taken literally. An object path made from a string escapes `%`, `#` and others,
//! so `a%2A.tdb`, a name that old arrays do have, would become another file; here each part of a path is
//! kept as it is, and only `.`, `..` and control characters, which could leave the folder, are escaped.

use std::fmt;
use std::path::{Component, PathBuf};
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::{Path, PathPart};
use tiledb_stores::StoreAddress;
use url::Url;

use super::link::StoreLink;
use super::store_id::StoreId;
use crate::error::{Error, Result, url_without_secrets};

/// The location of an array: a store, the path of the array's folder in it, and the URI the user gave.
#[derive(Clone)]
pub struct Location {
    store: Arc<dyn ObjectStore>,
    store_id: StoreId,
    /// What is known of the way to the store; `None` for files of this machine.
    link: Option<Arc<StoreLink>>,
    /// The endpoint and the bucket of a store that an engine made.
    address: Option<StoreAddress>,
    /// The folder, if the store is the file system of this machine.
    local: Option<LocalFolder>,
    root: Path,
    uri: Arc<str>,
}

/// A folder of the file system of this machine.
#[derive(Clone)]
struct LocalFolder {
    files: Arc<LocalFileSystem>,
    /// `None` if the system has no such path.
    path: Option<Arc<std::path::Path>>,
}

impl Location {
    /// The folder `root` of `store`. `uri` is what errors show; user names, passwords and query strings in it are left out.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path, uri: impl Into<String>) -> Self {
        let (store_id, link) = StoreId::of(&store);
        // A store can't be asked for its type. Folders of files change while they are listed, so listings of them must be
        // compared, and requests are planned for files.
        let files = store.to_string().starts_with("LocalFileSystem");
        let uri = Self::without_secrets(&uri.into()).into();
        Self {
            store,
            store_id,
            link: (!files).then_some(link),
            address: None,
            local: None,
            root,
            uri,
        }
    }

    /// A folder of the local file system, given as a path (absolute, or relative to the working directory; `~` is not
    /// expanded) or as a `file://` URL. The folder need not exist.
    ///
    /// # Errors
    /// Another scheme than `file`, or a path that has no UTF-8 form.
    pub fn local(path_or_url: &str) -> Result<Self> {
        let path = match scheme(path_or_url).as_deref() {
            None => PathBuf::from(path_or_url),
            Some("file") => file_url_to_path(path_or_url)?,
            Some(other) => return Err(not_local(other, &Self::without_secrets(path_or_url))),
        };
        let root = absolute(&path, path_or_url).and_then(|absolute| {
            Path::from_absolute_path(&absolute)
                .map_err(|source| bad_path(path_or_url).with_source(source))
        })?;
        let local = LocalFolder::new(Arc::new(LocalFileSystem::new()), &root);
        Ok(Self {
            store: Arc::clone(&local.files) as _,
            store_id: StoreId::Local,
            link: None,
            address: None,
            local: Some(local),
            root,
            uri: path_or_url.into(),
        })
    }

    /// Sets the endpoint and the bucket of the store, so that the bytes of its objects can be kept on disk. A store that a program
    /// made has no address, and its bytes are never kept.
    #[must_use]
    pub fn with_address(mut self, address: Option<StoreAddress>) -> Self {
        self.address = address;
        self
    }

    /// Reads the folder through a store that the user registered for the files of this machine, from their root: for
    /// example one that counts, limits or delays requests.
    #[must_use]
    pub fn through(self, files: Arc<dyn ObjectStore>) -> Self {
        Self {
            uri: self.uri,
            ..Self::new(files, self.root, String::new())
        }
    }

    /// The URI as the user gave it, without secrets.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// The path of the folder in the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The location `relative` below this one. No name can lead out of the folder.
    #[must_use]
    pub fn join(&self, relative: &str) -> Self {
        self.with_root(self.path_of(relative), self.uri_of(relative))
    }

    /// The folder at a path of the same store.
    pub(super) fn with_root(&self, root: Path, uri: String) -> Self {
        let local = self.local.as_ref();
        Self {
            local: local.map(|local| LocalFolder::new(Arc::clone(&local.files), &root)),
            root,
            uri: uri.into(),
            ..self.clone()
        }
    }

    /// The location that `relative` names from this folder, where `..` is the parent folder; the root of a store has no
    /// parent.
    #[must_use]
    pub fn resolve(&self, relative: &str) -> Self {
        let mut root = self.root.clone();
        for part in relative.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    let above = root.parts().count().saturating_sub(1);
                    root = root.parts().take(above).collect();
                }
                part => root = below(&root, part),
            }
        }
        self.with_root(root, self.uri_of(relative))
    }

    /// The path from this folder to one below it; `None` if the other one lies elsewhere.
    pub fn path_to(&self, other: &Self) -> Option<String> {
        if self.store_id != other.store_id || self.root == other.root {
            return None;
        }
        let parts: Vec<_> = other
            .root
            .prefix_match(&self.root)?
            .map(|part| part.as_ref().to_owned())
            .collect();
        Some(parts.join("/"))
    }

    /// A URI that means the folder from anywhere on this machine.
    pub(crate) fn absolute_uri(&self) -> String {
        if self.uri.contains("://") {
            self.uri.trim_end_matches('/').to_owned()
        } else {
            format!("file:///{}", self.root)
        }
    }

    /// Whether both are the same folder of the same store.
    pub fn same_location(&self, other: &Self) -> bool {
        self.store_id == other.store_id && self.root == other.root
    }

    /// The path in the store of `relative` below this folder.
    pub(super) fn path_of(&self, relative: &str) -> Path {
        below(&self.root, relative)
    }

    /// Whether the folder is on a disk of this machine, and is read without a store.
    pub(super) fn is_on_disk(&self) -> bool {
        self.local.is_some()
    }

    /// The file or folder `relative` below this folder, if it lies in the file system of this machine.
    pub(super) fn local_path(&self, relative: &str) -> Option<PathBuf> {
        let LocalFolder { files, path } = self.local.as_ref()?;
        match path {
            Some(path) if relative.is_empty() => Some(path.to_path_buf()),
            // The names of fragments and of their files, for which no address need be built and taken apart again.
            Some(path) if relative.split('/').all(is_plain) => Some(path.join(relative)),
            _ => files.path_to_filesystem(&self.path_of(relative)).ok(),
        }
    }

    /// The URI of `relative` below this folder, for messages.
    pub(super) fn uri_of(&self, relative: &str) -> String {
        let relative = relative.trim_matches('/');
        if relative.is_empty() {
            return self.uri.to_string();
        }
        format!("{}/{relative}", self.uri.trim_end_matches('/'))
    }

    /// Removes what may be secret in a URL: `user:password@`, and the query of a signed address.
    pub fn without_secrets(uri: &str) -> String {
        url_without_secrets(uri)
    }

    /// Whether reads are likely served by the operating system's file cache.
    pub(super) fn is_files(&self) -> bool {
        self.link.is_none()
    }

    /// What is known of the way to the store; `None` for files of this machine.
    pub(super) fn link(&self) -> Option<&Arc<StoreLink>> {
        self.link.as_ref()
    }

    /// The endpoint and the bucket of the store, if an engine made it.
    pub(super) fn address(&self) -> Option<&StoreAddress> {
        self.address.as_ref()
    }

    pub(super) fn store_id(&self) -> StoreId {
        self.store_id
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Location").field(&self.uri).finish()
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri)
    }
}

impl LocalFolder {
    fn new(files: Arc<LocalFileSystem>, root: &Path) -> Self {
        let path = files.path_to_filesystem(root).ok().map(Arc::from);
        Self { files, path }
    }
}

/// The path of `relative` below `root`.
fn below(root: &Path, relative: &str) -> Path {
    let whole = [root.as_ref(), "/", relative.trim_matches('/')].concat();
    Path::parse(whole).unwrap_or_else(|_| {
        let parts = relative.split('/').filter(|part| !part.is_empty());
        parts.fold(root.clone(), |path, part| {
            path.join(PathPart::parse(part).unwrap_or_else(|_| PathPart::from(part)))
        })
    })
}

/// Whether a name is the same in every file system and in every address.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
    name.starts_with(|c| c != '.') && name.bytes().all(is_plain)
}

/// The lower-case scheme of a URL, or `None` for a plain path.
pub(super) fn scheme(text: &str) -> Option<String> {
    let is_file = text
        .get(..6)
        .is_some_and(|start| start.eq_ignore_ascii_case("file:/"));
    if is_file {
        return Some("file".to_owned());
    }
    let (scheme, _) = text.split_once("://")?;
    let first_is_letter = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-');
    (first_is_letter && scheme.chars().all(allowed)).then(|| scheme.to_ascii_lowercase())
}

/// Whether a path or URL names files of this machine.
pub(super) fn is_local(path_or_url: &str) -> bool {
    scheme(path_or_url).is_none_or(|scheme| scheme == "file")
}

pub(super) fn not_local(scheme: &str, uri: &str) -> Error {
    match scheme {
        "memory" | "mem" => Error::invalid(format!(
            "{uri} names a store in memory, which only the program that made it can reach; pass the store itself to Location::new"
        )),
        "tiledb" => Error::unsupported(format!(
            "the scheme tiledb:// of {uri} (TileDB Cloud); give the location of the array in its object store"
        )),
        _ => Error::unsupported(format!(
            "the scheme {scheme}:// of {uri} without an object store for it; register one with the session, or pass it to Location::new"
        )),
    }
}

fn bad_path(given: &str) -> Error {
    Error::invalid(format!(
        "{given:?} is not a usable path; expected a path in UTF-8 without control characters"
    ))
}

/// Local files have no query and fragment, so `?` and `#` are part of the name, as in libtiledb.
fn file_url_to_path(text: &str) -> Result<PathBuf> {
    let escaped = text.replace('#', "%23").replace('?', "%3F");
    let url = Url::parse(&escaped).map_err(|source| {
        Error::invalid(format!("{text:?} is not a valid URL")).with_source(source)
    })?;
    url.to_file_path().map_err(|()| {
        Error::invalid(format!(
            "{text:?} is not a file of this machine; expected file:///path"
        ))
    })
}

/// Makes a path absolute and free of `.` and `..`; `..` after a symbolic link means the parent of its target.
fn absolute(path: &std::path::Path, given: &str) -> Result<PathBuf> {
    let absolute =
        std::path::absolute(path).map_err(|source| bad_path(given).with_source(source))?;
    let mut resolved = PathBuf::new();
    for component in absolute.components() {
        match component {
            Component::ParentDir => {
                resolved = resolved.canonicalize().unwrap_or(resolved);
                resolved.pop();
            }
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;
    use crate::error::ErrorKind;

    fn root(path: &str) -> String {
        Location::local(path).unwrap().root().to_string()
    }

    #[test]
    fn local_paths_and_urls_name_the_same_folder() {
        let here = std::env::current_dir().unwrap();
        let here = here.to_str().unwrap().trim_start_matches('/');
        assert_eq!(root("/data/a"), "data/a");
        assert_eq!(root("/data/a///"), "data/a");
        assert_eq!(root("/data/./x/../a"), "data/a");
        assert_eq!(root("file:///data/a/"), "data/a");
        assert_eq!(root("FILE:///data/a"), "data/a");
        assert_eq!(root("file:/data/a"), "data/a");
        assert_eq!(root("file://localhost/data/a"), "data/a");
        assert_eq!(root("a"), format!("{here}/a"));
        assert_eq!(root("./a/"), format!("{here}/a"));
        assert_eq!(root("~/a"), format!("{here}/~/a"));
        assert_eq!(root("/"), "");
    }

    #[test]
    fn names_are_literal() {
        assert_eq!(root("/d/a b%20c#1?d~é"), "d/a b%20c#1?d~é");
        assert_eq!(root("file:///d/a b%20c%2525#1?d~é"), "d/a b c%25#1?d~é");
        let location = Location::local("/d").unwrap();
        assert_eq!(location.path_of("x/a%2A.tdb").as_ref(), "d/x/a%2A.tdb");
        assert_eq!(location.path_of("/x//y/").as_ref(), "d/x/y");
        assert_eq!(location.path_of("").as_ref(), "d");
    }

    #[test]
    fn members_of_groups_may_lie_above() {
        let location = Location::local("/d/group").unwrap();
        for (relative, root) in [
            ("x/y", "d/group/x/y"),
            ("./x//y/", "d/group/x/y"),
            ("../x", "d/x"),
            ("a/../../../../x%2Fy", "x%2Fy"),
            ("", "d/group"),
        ] {
            let resolved = location.resolve(relative);
            assert_eq!(resolved.root().as_ref(), root);
            assert!(resolved.same_location(&Location::local(&format!("/{root}")).unwrap()));
        }
        assert_eq!(location.resolve("../x").uri(), "/d/group/../x");
        assert!(!location.same_location(&location.resolve("..")));
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let location = Location::local("/d/array").unwrap();
        assert_eq!(location.path_of("../x").as_ref(), "d/array/%2E%2E/x");
        assert_eq!(
            location.join("a/../../x").root().as_ref(),
            "d/array/a/%2E%2E/%2E%2E/x"
        );
        assert_eq!(location.path_of("a\0b").as_ref(), "d/array/a%00b");
    }

    #[test]
    fn local_paths_are_those_of_the_store() {
        let store = LocalFileSystem::new();
        for root in ["/", "/d/array", "/d/a b%20c#1?d~é"] {
            let location = Location::local(root).unwrap();
            for relative in [
                "",
                "/",
                "__schema",
                "__fragments/__1_2_00ff_23/a0.tdb",
                "__fragments//x",
                "a%2A.tdb",
                "é",
                "..",
                "../x",
                "a/./b",
                ".x",
            ] {
                let expected = store.path_to_filesystem(&location.path_of(relative));
                let found = location.local_path(relative);
                assert_eq!(found, expected.ok(), "{root} {relative}");
                let below = location.join(relative);
                let file = store.path_to_filesystem(&below.path_of("a0.tdb"));
                let found = below.local_path("a0.tdb");
                assert_eq!(found, file.ok(), "{root} {relative}");
            }
            // The name of a file that the store still writes.
            assert_eq!(location.local_path("x#1"), None);
        }
    }

    #[test]
    fn other_schemes_are_refused_with_advice() {
        let kind_and_text = |uri: &str| {
            let error = Location::local(uri).unwrap_err();
            (error.kind(), error.to_string())
        };
        let (kind, text) = kind_and_text("memory://a");
        assert_eq!(kind, ErrorKind::InvalidInput);
        assert!(text.contains("Location::new"), "{text}");
        let (kind, text) = kind_and_text("s3://key:secret@bucket/a?token=1");
        assert_eq!(kind, ErrorKind::Unsupported);
        assert!(text.contains("s3:// of s3://bucket/a without"), "{text}");
        assert_eq!(kind_and_text("").0, ErrorKind::InvalidInput);
        assert_eq!(kind_and_text("/a\nb").0, ErrorKind::InvalidInput);
        assert_eq!(kind_and_text("file:///a%FF").0, ErrorKind::InvalidInput);
        assert_eq!(
            kind_and_text("file://elsewhere/a").0,
            ErrorKind::InvalidInput
        );
    }

    #[test]
    fn uris_are_shown_without_secrets() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let shown = |uri: &str| {
            let location = Location::new(Arc::clone(&store), Path::ROOT, uri);
            location.join("__schema").uri().to_owned()
        };
        assert_eq!(shown("s3://b/a/"), "s3://b/a/__schema");
        assert_eq!(shown("https://u:p@h/a?sig=x"), "https://h/a/__schema");
        assert_eq!(shown("/a?b"), "/a?b/__schema");
        assert_eq!(shown("/"), "/__schema");
    }
}
