//! Where an array or a group is, as programs say it.

use tiledb_engine::{Engine, Location, Result};

use super::location::{expand_home, locate};
use super::runtime::ArrayRuntime;

/// The place of an array or a group: a path or URL, or a [`Location`], which brings its object store along.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ArrayPlace {
    /// A path of this machine, or a URL. Its object store is found in a session.
    Uri(String),
    /// A folder in an object store, for example one in memory.
    Location(Location),
}

impl From<&str> for ArrayPlace {
    fn from(uri: &str) -> Self {
        Self::Uri(uri.to_owned())
    }
}

impl From<&String> for ArrayPlace {
    fn from(uri: &String) -> Self {
        Self::Uri(uri.clone())
    }
}

impl From<String> for ArrayPlace {
    fn from(uri: String) -> Self {
        Self::Uri(uri)
    }
}

impl From<Location> for ArrayPlace {
    fn from(location: Location) -> Self {
        Self::Location(location)
    }
}

impl ArrayPlace {
    /// The location, with the object stores of a session. Without one, the shared engine makes the store of a URL.
    pub(crate) fn locate(&self, runtime: Option<&ArrayRuntime>) -> Result<Location> {
        match (self, runtime) {
            (Self::Location(location), _) => Ok(location.clone()),
            (Self::Uri(uri), Some(runtime)) => locate(uri, runtime),
            (Self::Uri(uri), None) => Location::open(&expand_home(uri), &Engine::shared()),
        }
    }
}
