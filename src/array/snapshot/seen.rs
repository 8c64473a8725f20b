//! The names of what a snapshot shows, so that it can be opened again on another machine.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Snapshot;
use crate::array::window::OpenWindow;
use crate::error::{Error, Result};

/// The fragments and deletes that a snapshot shows: plain data without a storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The window of time, with a fixed end.
    pub window: OpenWindow,
    /// The names of the fragments, oldest first.
    pub fragments: Vec<String>,
    /// The names of the deletes that apply to them, oldest first.
    pub deletes: Vec<String>,
}

impl Snapshot {
    /// The names of what the snapshot shows.
    pub fn seen(&self) -> Seen {
        let fragments = self.fragments.iter();
        Seen {
            window: self.window,
            fragments: fragments.map(|f| f.name.name.clone()).collect(),
            deletes: self.deletes.names().map(str::to_owned).collect(),
        }
    }

    /// The snapshot without fragments and deletes that are not in `seen`, because they were committed later with an
    /// earlier time.
    ///
    /// Fails if something in `seen` is gone, because the array was consolidated and vacuumed meanwhile.
    pub fn only(self, seen: &Seen) -> Result<Self> {
        let wanted: HashSet<&str> = seen.fragments.iter().map(String::as_str).collect();
        let mut fragments = self.fragments.as_ref().clone();
        fragments.retain(|fragment| wanted.contains(fragment.name.name.as_str()));
        let deletes = self.deletes.only(&seen.deletes);
        let here: HashSet<&str> = fragments.iter().map(|f| f.name.name.as_str()).collect();
        let deleting: HashSet<&str> = deletes.names().collect();
        let gone = seen.fragments.iter().find(|f| !here.contains(f.as_str()));
        let gone = gone.or_else(|| seen.deletes.iter().find(|d| !deleting.contains(d.as_str())));
        if let Some(gone) = gone {
            return Err(Error::conflict(format!(
                "{gone} is no longer there: the array was consolidated since the query was planned; plan it again"
            ))
            .with("array", self.storage.uri()));
        }
        Ok(Self {
            fragments: Arc::new(fragments),
            deletes: Arc::new(deletes),
            ..self
        })
    }
}
