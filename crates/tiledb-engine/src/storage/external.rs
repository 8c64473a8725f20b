//! Where the members of a group, and the arrays of dimension labels, may lie.
//!
//! Whoever writes a group or an array chooses these locations, and whoever opens it makes the requests: with their
//! credentials, from their network, on their disk. So only what lies in the same store below the folder that was attached
//! or opened is followed, unless the user's [`ExternalMembers`] say more, and a remote store never leads to files of this
//! machine. A nested group below the attached folder may name anything below that folder: it is part of what the user
//! chose to open. The subtle thing: locations are compared as they will be opened, once parsed, decoded and free of `..`,
//! part by part; text that looks alike proves nothing. A symbolic link on a local disk is not followed up: who can make
//! one there need no group.

use std::fmt;
use std::str::FromStr;

use object_store::path::Path;
use serde::{Deserialize, Serialize};
use url::Url;

use super::location::{Location, is_local};
use crate::error::{Error, ErrorKind, Result};

/// The locations outside the attached folder that members of groups and arrays of dimension labels may have.
///
/// ```
/// use tiledb_engine::storage::ExternalMembers;
///
/// assert_eq!(ExternalMembers::default(), ExternalMembers::None);
/// let shared: ExternalMembers = "s3://shared/reference/, /data/labels".parse()?;
/// assert_eq!(shared.to_string(), "s3://shared/reference/,/data/labels");
/// assert!("somewhere".parse::<ExternalMembers>().is_err());
/// # Ok::<(), tiledb_engine::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum ExternalMembers {
    /// No others: `none`.
    #[default]
    None,
    /// All of the same store: `same_store`.
    SameStore,
    /// Those at or below one of these URLs or absolute paths, in whichever store: `s3://shared/reference/, /data/labels`.
    Below(Vec<LocationPrefix>),
}

/// A URL or an absolute path, at or below which members may lie.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LocationPrefix {
    text: String,
    address: ComparableLocation,
}

/// A location in a form that can be compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ComparableLocation {
    /// Scheme, user, host and port of a remote store; `None` for files of this machine.
    origin: Option<String>,
    path: Path,
}

/// A member or an array of labels as it is named: by the group or array at `from`, in what was opened at `root`.
#[derive(Debug, Clone, Copy)]
pub struct MemberLink<'a> {
    /// The folder that the user opened or attached.
    pub root: &'a Location,
    /// The folder of the group or array that names the other one.
    pub from: &'a Location,
    /// What lies outside the root and may be opened.
    pub external: &'a ExternalMembers,
}

/// The location that a URI of a member names.
#[derive(Debug)]
pub enum FollowedLink {
    /// In the store of the root, or a file of this machine.
    At(Location),
    /// In another store, which is to be found by the URI.
    Elsewhere,
}

impl MemberLink<'_> {
    /// Passes on a location in the store of the group or array that names it.
    ///
    /// # Errors
    /// It is not to be opened.
    pub fn near(&self, location: Location) -> Result<Location> {
        if !is_local(self.from.uri()) && is_local(location.uri()) {
            return Err(self.leads_to_files(location.uri()));
        }
        let is_allowed = has(self.root, &location)
            || match self.external {
                ExternalMembers::None => false,
                ExternalMembers::SameStore => self.root.store_id() == location.store_id(),
                ExternalMembers::Below(prefixes) => {
                    let address = ComparableLocation::of(&location)?;
                    prefixes.iter().any(|prefix| prefix.address.has(&address))
                }
            };
        if is_allowed {
            Ok(location)
        } else {
            Err(self.refused(location.uri()))
        }
    }

    /// Finds out what an absolute URI names; `local` makes the location of a file of this machine.
    ///
    /// # Errors
    /// It is not to be opened, or is no usable URI.
    pub fn named(
        &self,
        uri: &str,
        local: impl FnOnce(&str) -> Result<Location>,
    ) -> Result<FollowedLink> {
        if is_local(uri) {
            if !is_local(self.from.uri()) {
                return Err(self.leads_to_files(uri));
            }
            return self.near(local(uri)?).map(FollowedLink::At);
        }
        let address = ComparableLocation::parse(uri)?;
        let root = ComparableLocation::of(self.root)?;
        if root.origin == address.origin && is_found_by_url(self.root) {
            let shown = Location::without_secrets(uri);
            let location = self.root.with_root(address.path, shown);
            return self.near(location).map(FollowedLink::At);
        }
        match self.external {
            ExternalMembers::Below(prefixes)
                if prefixes.iter().any(|p| p.address.has(&address)) =>
            {
                Ok(FollowedLink::Elsewhere)
            }
            _ => Err(self.refused(uri)),
        }
    }

    fn refused(&self, uri: &str) -> Error {
        let uri = Location::without_secrets(uri);
        Error::new(
            ErrorKind::External,
            format!(
                "{uri} lies outside {}, and is not opened: whoever writes a group or an array chooses where its members and \
                 labels lie, and would choose what you read; if you trust this location, allow it by SET \
                 tiledb.external_members = '{uri}' (several with commas between them; or same_store, for all of the same \
                 store), or by the option external_members of the statement",
                self.root.uri()
            ),
        )
    }

    fn leads_to_files(&self, uri: &str) -> Error {
        let uri = Location::without_secrets(uri);
        Error::new(
            ErrorKind::External,
            format!(
                "{uri} is a path of this machine, and {}, which names it, lies in a remote store: what others store there \
                 must not choose files here, so no setting allows it; open the path itself if you want to read it",
                self.from.uri()
            ),
        )
    }
}

impl ComparableLocation {
    /// The address of a path or URL, as it would be opened.
    fn parse(uri: &str) -> Result<Self> {
        if is_local(uri) {
            return Self::of(&Location::local(uri)?);
        }
        let shown = Location::without_secrets(uri);
        let bad = |why: String| Error::invalid(format!("{shown} is no usable URL: {why}"));
        let url = Url::parse(uri).map_err(|e| bad(e.to_string()))?;
        if url.password().is_some() {
            return Err(bad("it holds a password".to_owned()));
        }
        let path = Path::from_url_path(url.path()).map_err(|e| bad(e.to_string()))?;
        let port = url.port_or_known_default();
        let port = port.map_or_else(String::new, |port| format!(":{port}"));
        let host = url.host_str().unwrap_or_default();
        let (scheme, user) = (url.scheme(), url.username());
        Ok(Self {
            origin: Some(format!("{scheme}://{user}@{host}{port}")),
            path,
        })
    }

    /// The address of a location: the origin of its URI, and its path in the store.
    fn of(location: &Location) -> Result<Self> {
        let origin = if is_local(location.uri()) {
            None
        } else {
            Self::parse(origin(location.uri()))?.origin
        };
        Ok(Self {
            origin,
            path: location.root().clone(),
        })
    }

    /// Whether `other` is the same folder or lies below it.
    fn has(&self, other: &Self) -> bool {
        self.origin == other.origin && other.path.prefix_match(&self.path).is_some()
    }
}

/// Whether the other one is the folder or lies below it.
fn has(folder: &Location, other: &Location) -> bool {
    folder.store_id() == other.store_id() && other.root().prefix_match(folder.root()).is_some()
}

/// Whether the path of its URL is its path in the store, so that other URLs name folders of the store, too.
fn is_found_by_url(location: &Location) -> bool {
    let url = Url::parse(location.uri()).ok();
    let path = url.and_then(|url| Path::from_url_path(url.path()).ok());
    path.is_some_and(|path| path == *location.root())
}

/// A URL without its path.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let rest = url.get(host..).unwrap_or_default();
    let end = rest.find('/').map_or(url.len(), |at| host + at);
    url.get(..end).unwrap_or_default()
}

impl FromStr for ExternalMembers {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() || text.eq_ignore_ascii_case("none") {
            return Ok(Self::None);
        }
        if text.eq_ignore_ascii_case("same_store") {
            return Ok(Self::SameStore);
        }
        let prefixes = text.split(',').map(str::trim).filter(|p| !p.is_empty());
        prefixes
            .map(LocationPrefix::parse)
            .collect::<Result<_>>()
            .map(Self::Below)
    }
}

impl LocationPrefix {
    fn parse(text: &str) -> Result<Self> {
        let is_whole = if is_local(text) {
            text.contains(":/") || std::path::Path::new(text).is_absolute()
        } else {
            true
        };
        if !is_whole {
            return Err(Error::invalid(format!(
                "{:?} is not where members may lie; expected none, same_store, or URLs and absolute paths with commas between \
                 them, such as s3://bucket/folder",
                Location::without_secrets(text)
            )));
        }
        Ok(Self {
            text: text.to_owned(),
            address: ComparableLocation::parse(text)?,
        })
    }
}

impl fmt::Display for ExternalMembers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::SameStore => f.write_str("same_store"),
            Self::Below(prefixes) => {
                let texts: Vec<&str> = prefixes.iter().map(|p| p.text.as_str()).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

impl From<ExternalMembers> for String {
    fn from(members: ExternalMembers) -> Self {
        members.to_string()
    }
}

impl TryFrom<String> for ExternalMembers {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::ObjectStore;
    use object_store::memory::InMemory;

    use super::*;

    fn remote(uri: &str) -> Location {
        let path = Url::parse(uri).unwrap().path().to_owned();
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        Location::new(store, Path::from_url_path(path).unwrap(), uri)
    }

    /// What is opened: `here` in the store of the root, `there` in another one, or the reason why it is not.
    fn follow(root: &Location, from: &Location, uri: &str, external: &str) -> String {
        let external = external.parse().unwrap();
        let link = MemberLink {
            root,
            from,
            external: &external,
        };
        let named = link.named(uri, |path| {
            Location::local(path.strip_prefix("file://").unwrap_or(path))
        });
        match named {
            Ok(FollowedLink::At(location)) => format!("here {}", location.root()),
            Ok(FollowedLink::Elsewhere) => "there".to_owned(),
            Err(e) if e.kind() == ErrorKind::External => {
                let words = e.to_string();
                let outside = words.contains("tiledb.external_members");
                if outside { "outside" } else { "files" }.to_owned()
            }
            Err(_) => "bad".to_owned(),
        }
    }

    #[test]
    fn locations_are_compared_as_they_are_opened() {
        let root = remote("http://host:8080/data/g");
        for (uri, expected) in [
            ("http://host:8080/data/g/a", "here data/g/a"),
            ("HTTP://HOST:8080/data/g//", "bad"),
            ("HTTP://HOST:8080/data/g/a", "here data/g/a"),
            ("http://host:8080/data/g", "here data/g"),
            ("http://host:8080/data/g2", "outside"),
            ("http://host:8080/data/ga/x", "outside"),
            ("http://host:8080/data/g/../x", "outside"),
            ("http://host:8080/data/g/%2e%2e/x", "outside"),
            ("http://host:8080/data/g/%2E./x", "outside"),
            ("http://host:8080/data/g/..%2fx", "bad"),
            ("http://host:8080/data/g/a%2fb", "here data/g/a/b"),
            ("http://host:8080/x/../data/g/a", "here data/g/a"),
            ("http://host:8080//data/g/a", "bad"),
            ("http://host:8080\\data\\g\\a", "here data/g/a"),
            ("http://host/data/g/a", "outside"),
            ("http://host:80/data/g/a", "outside"),
            ("http://host.:8080/data/g/a", "outside"),
            ("https://host:8080/data/g/a", "outside"),
            ("http://u@host:8080/data/g/a", "outside"),
            ("http://u:p@host:8080/data/g/a", "bad"),
            ("http://host:8080@other/data/g/a", "bad"),
            ("http://host@other:8080/data/g/a", "outside"),
            ("http://other#@host:8080/data/g/a", "outside"),
            ("s3://host:8080/data/g/a", "outside"),
            ("file:///data/g/a", "files"),
            ("FILE:/data/g/a", "files"),
            ("file://host:8080/data/g/a", "files"),
            ("/data/g/a", "files"),
            ("data/g/a", "files"),
            ("a", "files"),
            ("c:\\data", "files"),
        ] {
            assert_eq!(follow(&root, &root, uri, "none"), expected, "{uri}");
        }
        let plain = remote("https://host/g");
        let port = follow(&plain, &plain, "https://host:443/g/a", "none");
        assert_eq!(port, "here g/a");
    }

    #[test]
    fn settings_open_more_but_never_files_of_this_machine() {
        let root = remote("s3://b/g");
        let nested = root.resolve("nested");
        for (uri, external, expected) in [
            ("s3://b/x", "none", "outside"),
            ("s3://b/x", "same_store", "here x"),
            ("s3://b/x", "s3://b/x", "here x"),
            ("s3://b/xy", "s3://b/x", "outside"),
            ("s3://b/x/y", "s3://c, s3://b/x/", "here x/y"),
            ("s3://c/x", "same_store", "outside"),
            ("s3://c/x", "s3://c", "there"),
            ("s3://cc/x", "s3://c", "outside"),
            ("s3://c/x/../y", "s3://c/x", "outside"),
            ("s3://b/g/other", "none", "here g/other"),
            ("/x", "same_store", "files"),
            ("/x", "/x", "files"),
            ("file:///x", "file:///", "files"),
        ] {
            let found = follow(&root, &nested, uri, external);
            assert_eq!(found, expected, "{uri} with {external}");
        }
        // What is local may name what is remote, but not the other way back.
        let disk = Location::local("/d/g").unwrap();
        for (uri, external, expected) in [
            ("/d/g/a", "none", "here d/g/a"),
            ("file:///d/g/a", "none", "here d/g/a"),
            ("/d/g/../a", "none", "outside"),
            ("/d/ga", "none", "outside"),
            ("g/a", "none", "outside"),
            ("/d/a", "same_store", "here d/a"),
            ("/d/a", "/d/a/", "here d/a"),
            ("/d/a", "file:///d", "here d/a"),
            ("/e/a", "/d", "outside"),
            ("s3://b/x", "same_store", "outside"),
            ("s3://b/x", "s3://b/", "there"),
        ] {
            let found = follow(&disk, &disk, uri, external);
            assert_eq!(found, expected, "{uri} with {external}");
        }
        assert_eq!(follow(&disk, &root, "/d/g/a", "/d"), "files");
    }

    #[test]
    fn relative_members_stay_below_the_root() {
        let root = remote("mem://s/data/g");
        let nested = root.resolve("a/b");
        let near = |relative: &str, external: &str| {
            let external = external.parse().unwrap();
            let link = MemberLink {
                root: &root,
                from: &nested,
                external: &external,
            };
            link.near(nested.resolve(relative)).is_ok()
        };
        assert!(near("x", "none") && near("../x", "none") && near("../..", "none"));
        assert!(!near("../../../x", "none") && !near("../../../g2", "none"));
        assert!(near("../../../x", "same_store") && near("../../../x", "mem://s/data"));
        assert!(!near("../../../x", "mem://s/data/g2") && !near("../../../x", "mem://t/data"));
    }

    #[test]
    fn only_whole_locations_are_prefixes() {
        for text in ["none", "NONE", " ", "same_store", "s3://b,/d", "file:///d"] {
            let members: ExternalMembers = text.parse().unwrap();
            assert_eq!(
                members.to_string().parse::<ExternalMembers>().unwrap(),
                members
            );
        }
        for text in [
            "here",
            "same store",
            "./x",
            "true",
            "s3://b, x",
            "https://u:p@h/",
        ] {
            let error = text.parse::<ExternalMembers>().unwrap_err();
            assert!(!error.to_string().contains("u:p"), "{error}");
        }
    }
}
