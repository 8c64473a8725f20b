//! An array as seen at a time: one schema, the fragments in order, the enumerations.
//!
//! Opening lists the folder once and reads each footer once; consolidated footers save these reads. A snapshot never
//! changes afterwards, whatever is written meanwhile.

mod ahead;
mod announced;
mod files;
mod footers;
mod schemas;
mod succession;

pub use self::announced::AnnouncedChange;
pub use self::files::SnapshotFiles;
pub use self::footers::open_alone;
pub use self::succession::SnapshotSuccessor;

pub(super) use self::footers::open_fragments;
pub(super) use self::schemas::{load_enumerations, open_schema, read_schema};

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::join;

use serde::{Deserialize, Serialize};

use super::commits;
use super::deletes::Deletes;
use super::directory::{ArrayDirectory, CommittedFragment, DirectoryProof, MOST_LISTINGS};
use super::fragment::{Fragment, METADATA_FILE};
use super::window::{OpenWindow, TimestampMs, WindowVisibility};
use crate::arrow::ArrayEnumerations;
use crate::error::{Error, ErrorKind, Result};
use crate::format::names::TimestampedName;
use crate::format::schema::ArraySchema;
use crate::storage::{Storage, once_finished};

const FRAGMENTS_FOLDER: &str = "__fragments";
/// A writer that hasn't committed its complete fragment for this time is dead: it puts the metadata of a fragment last, and
/// commits it a moment later.
pub const DEAD_AFTER_MS: u64 = 20_000;

/// An array at a time.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The storage of the array.
    pub storage: Storage,
    /// The window of time, with a fixed end.
    pub window: OpenWindow,
    /// The schema of the table.
    pub schema: Arc<ArraySchema>,
    /// The enumerations of that schema, by name.
    pub enumerations: Arc<ArrayEnumerations>,
    /// The visible fragments, oldest first.
    pub fragments: Arc<Vec<Arc<Fragment>>>,
    /// The delete conditions that apply to the fragments.
    pub deletes: Arc<Deletes>,
    directory: Arc<ArrayDirectory>,
}

impl Snapshot {
    /// Opens the array at `storage` as seen through `window`.
    ///
    /// The present is that of the end of the listing: an earlier one would hide changes of later times that are listed, but
    /// not those of earlier times that were committed after them, and so show what never was.
    pub async fn open(storage: &Storage, window: OpenWindow) -> Result<Self> {
        let listed = ArrayDirectory::list_unsettled(storage).await?;
        Self::open_listed(storage, window, listed).await
    }

    /// Opens the array at `storage` as seen through `window` now, and reuses what has not changed since this snapshot
    /// was taken.
    pub async fn reopen(&self, storage: &Storage, window: OpenWindow) -> Result<Self> {
        if let Some(changed) = self.directory.list_again(storage).await? {
            return Self::open_listed(storage, window, changed).await;
        }
        let window = OpenWindow::new(window.start, Some(window.end_or_now()))?;
        let ends = [window.end_or_now(), self.window.end_or_now()];
        let ends_alike = ends.iter().all(|end| self.directory.is_seen_whole(*end));
        if window.start == self.window.start && (ends_alike || window.end == self.window.end) {
            return Ok(Self {
                window,
                ..self.clone()
            });
        }
        let listed = ArrayDirectory::list_unsettled(storage).await?;
        Self::open_listed(storage, window, listed).await
    }

    /// Whether the fragment of this name was made by a consolidation, or is about to replace what it was made of. It is not
    /// known any more once what it replaces has been vacuumed.
    pub(crate) fn replaces_others(&self, fragment: &str) -> bool {
        self.directory.replaces(fragment)
    }

    /// The array as if it lay in another storage, into which its files have yet to be written.
    #[must_use]
    pub(crate) fn at_storage(self, storage: Storage) -> Self {
        Self { storage, ..self }
    }

    /// The name of the file of [`Self::schema`].
    pub fn schema_name(&self) -> Result<&str> {
        let file = self.directory.schema_at(&self.window)?;
        Ok(&file.info.name)
    }

    /// The schema that `window` shows, and no fragments.
    pub(super) async fn without_fragments(
        storage: &Storage,
        window: OpenWindow,
        directory: Arc<ArrayDirectory>,
    ) -> Result<Self> {
        let opened = async {
            let (storage, schema) = open_schema(storage, window, &directory).await?;
            let enumerations = load_enumerations(&storage, &directory, &schema).await?;
            Ok(Self {
                storage,
                window,
                schema,
                enumerations: Arc::new(enumerations),
                fragments: Arc::default(),
                deletes: Arc::default(),
                directory,
            })
        };
        opened.await.map_err(|e: Error| located(e, storage))
    }

    /// Opens the array that was just listed. While its files are read, the listing is proven.
    pub(super) async fn open_listed(
        storage: &Storage,
        window: OpenWindow,
        (directory, proof): (ArrayDirectory, DirectoryProof),
    ) -> Result<Self> {
        let mut directory = Arc::new(directory);
        let mut proof = Some(proof);
        for _ in 0..MOST_LISTINGS {
            // The present is that of the end of the listing.
            let window = OpenWindow::new(window.start, Some(window.end_or_now()))?;
            let opened = Self::open_directory(storage, window, Arc::clone(&directory));
            let (opened, changed) = join(Box::pin(opened), async {
                match proof.take() {
                    Some(proof) => proof.changed(storage).await,
                    None => Ok(None),
                }
            })
            .await;
            if let Some(changed) = changed? {
                directory = Arc::new(changed);
                continue;
            }
            // Files go while another process consolidates and vacuums the array, which a new listing shows.
            let opened = match opened {
                Ok((snapshot, None)) => return Ok(snapshot),
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(located(error, storage));
                }
                opened => opened,
            };
            if let Some((changed, its_proof)) = directory.list_again(storage).await? {
                directory = Arc::new(changed);
                proof = Some(its_proof);
                continue;
            }
            let (snapshot, unfounded) = opened.map_err(|e| located(e, storage))?;
            log::warn!(
                "{}: {} names fragments that another one replaces, which is not committed: they are read",
                storage.uri(),
                unfounded.unwrap_or_default()
            );
            return Ok(snapshot);
        }
        Err(Error::conflict(format!(
            "the files of the array changed {MOST_LISTINGS} times while they were read, because somebody consolidates and \
             vacuums it: run the statement again"
        ))
        .with("array", storage.uri()))
    }

    /// The snapshot, and the list of replaced fragments in it that nothing bears out, if there is one.
    async fn open_directory(
        storage: &Storage,
        window: OpenWindow,
        directory: Arc<ArrayDirectory>,
    ) -> Result<(Self, Option<String>)> {
        let with_files = ahead::read_ahead(storage, &window, &directory).await;
        let (storage, schema) = &open_schema(&with_files, window, &directory).await?;
        let schema = Arc::clone(schema);
        let enumerations = load_enumerations(storage, &directory, &schema).await?;
        let committed = directory
            .commits(storage, &window, !schema.is_dense())
            .await?;
        let fragments = open_fragments(storage, &directory, committed.fragments).await?;
        check_fragments(&schema, &fragments)?;
        let deletes = Deletes::load(storage, committed.deletes, &fragments).await?;
        log::debug!(
            "{}: opened as of {} to {} ms, {} fragments, after {} requests",
            storage.uri(),
            window.start,
            window.end_or_now(),
            fragments.len(),
            storage.counters().counts().requests
        );
        let snapshot = Self {
            storage: storage.without_read_ahead(),
            window,
            schema,
            enumerations: Arc::new(enumerations),
            fragments: Arc::new(fragments),
            deletes: Arc::new(deletes),
            directory,
        };
        Ok((snapshot, committed.unfounded))
    }
}

/// Adds the array to an error. Its schema exists, so a file that is missing now is damage, and does not mean that there
/// isn't an array.
fn located(error: Error, storage: &Storage) -> Error {
    match error.kind() {
        ErrorKind::NotFound => error.with_kind(ErrorKind::Corrupt),
        _ => error,
    }
    .with("array", storage.uri())
}

fn check_fragments(schema: &ArraySchema, fragments: &[Arc<Fragment>]) -> Result<()> {
    for fragment in fragments {
        let corrupt =
            |what: &str| Err(Error::corrupt(what.to_owned()).with("fragment", &fragment.name.name));
        // Releases up to 2.5 wrote sparse fragments into dense arrays, never the reverse.
        if fragment.footer.dense && !schema.is_dense() {
            return corrupt("a dense fragment in a sparse array");
        }
        if fragment.footer.has_delete_metadata && schema.is_dense() {
            return corrupt("the fragment records deletes, which a dense array has not");
        }
        let same = fragment.schema.dimensions.len() == schema.dimensions.len()
            && fragment
                .schema
                .dimensions
                .iter()
                .zip(&schema.dimensions)
                .all(|(a, b)| a.datatype == b.datatype && a.cell_val_num == b.cell_val_num);
        if !same {
            return corrupt("the dimensions of the fragment's schema differ from the array's");
        }
    }
    Ok(())
}

/// The fragments and deletes that a snapshot shows: plain data without a storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotContents {
    /// The window of time, with a fixed end.
    pub window: OpenWindow,
    /// The names of the fragments, oldest first.
    pub fragments: Vec<String>,
    /// The names of the deletes that apply to them, oldest first.
    pub deletes: Vec<String>,
}

impl Snapshot {
    /// The names of what the snapshot shows.
    pub fn seen(&self) -> SnapshotContents {
        let fragments = self.fragments.iter();
        SnapshotContents {
            window: self.window,
            fragments: fragments.map(|f| f.name.name.clone()).collect(),
            deletes: self.deletes.names().map(str::to_owned).collect(),
        }
    }

    /// The snapshot without fragments and deletes that are not in `seen`, because they were committed later with an
    /// earlier time.
    ///
    /// Fails if something in `seen` is gone, because the array was consolidated and vacuumed meanwhile.
    pub fn only(self, seen: &SnapshotContents) -> Result<Self> {
        let wanted = seen.fragments.iter().map(String::as_str).collect();
        let only = self.restricted(&wanted, &seen.deletes);
        let deleting: HashSet<&str> = only.deletes.names().collect();
        let here = only.names();
        let gone = seen
            .fragments
            .iter()
            .find(|f| !here.contains(f.as_str()))
            .or_else(|| seen.deletes.iter().find(|d| !deleting.contains(d.as_str())));
        match gone {
            None => Ok(only),
            Some(gone) => Err(Error::conflict(format!(
                "{gone} is no longer there: the array was consolidated since the query was planned; plan it again"
            ))
            .with("array", self.storage.uri())),
        }
    }

    /// The snapshot with these of its fragments and deletes.
    fn restricted(&self, fragments: &HashSet<&str>, deletes: &[String]) -> Self {
        let mut shown = self.fragments.as_ref().clone();
        shown.retain(|fragment| fragments.contains(fragment.name.name.as_str()));
        Self {
            fragments: Arc::new(shown),
            deletes: Arc::new(self.deletes.only(deletes)),
            ..self.clone()
        }
    }

    /// The names of the fragments.
    fn names(&self) -> HashSet<&str> {
        let fragments = self.fragments.iter();
        fragments.map(|f| f.name.name.as_str()).collect()
    }
}

impl Snapshot {
    /// The fragments that running writers have completed since this snapshot was taken, and not committed then. Those of
    /// consolidations, which change no cell, are not among them; `known` are the names of others that are left out.
    ///
    /// # Errors
    /// The array cannot be listed, or the metadata of such a fragment cannot be read.
    pub async fn staged(&self, known: &HashSet<&str>) -> Result<Vec<Fragment>> {
        let listing = self.storage.list(FRAGMENTS_FOLDER).await?;
        let here = self
            .fragments
            .iter()
            .map(|fragment| fragment.name.name.as_str());
        let files = self
            .directory
            .commit_files()
            .map(|(path, _)| path)
            .collect::<Vec<_>>();
        let committed = files
            .iter()
            .filter_map(|path| path.rsplit('/').next()?.strip_suffix(".wrt"));
        let here = here.chain(committed).collect::<HashSet<_>>();
        let others = listing
            .folders
            .iter()
            .map(String::as_str)
            .filter(|name| !here.contains(name) && !known.contains(name))
            .filter_map(|name| TimestampedName::parse(name).ok());
        // The fragment of a consolidation spans the times of several.
        let mut others = others.filter(|name| name.t1 == name.t2).collect::<Vec<_>>();
        if others.is_empty() {
            return Ok(Vec::new());
        }
        // Commits of several fragments name them in one file.
        let commits = match commits::load(&self.storage, &self.directory).await {
            // Such a file was vacuumed meanwhile, and nothing that it names is young.
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            commits => commits?,
        };
        let committed = commits
            .iter()
            .filter(|commit| commit.is_committed())
            .map(|commit| commit.name.name.as_str())
            .collect::<HashSet<_>>();
        others.retain(|name| !committed.contains(name.name.as_str()));
        let mut staged = Vec::new();
        for name in others {
            staged.extend(self.open_staged(name).await?);
        }
        Ok(staged)
    }

    /// Opens a fragment that nothing commits, if it is complete and not old.
    async fn open_staged(&self, name: TimestampedName) -> Result<Option<Fragment>> {
        let folder = format!("{FRAGMENTS_FOLDER}/{}", name.name);
        let metadata = format!("{folder}/{METADATA_FILE}");
        let Some(found) = self.storage.head(&metadata).await? else {
            return Ok(None);
        };
        let modified_ms = u64::try_from(found.modified_us / 1000).unwrap_or(0);
        if modified_ms.saturating_add(DEAD_AFTER_MS) < TimestampMs::now().0 {
            return Ok(None);
        }
        // Another attempt looks at the file again.
        let first = Mutex::new(Some(found.clone()));
        let open = || {
            let known = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            async {
                let commit = match known {
                    Some(known) => known,
                    None => match self.storage.head(&metadata).await? {
                        Some(commit) => commit,
                        None => return Ok(None),
                    },
                };
                let staged = CommittedFragment {
                    name: name.clone(),
                    folder: folder.clone(),
                    visibility: WindowVisibility::Whole,
                    commit,
                    listed: false,
                    has_coords_file: false,
                };
                let opened = open_alone(&self.storage, &self.directory, staged).await;
                opened.map(Some)
            }
            .boxed()
        };
        match once_finished(&found, open).await {
            // Its writer has withdrawn it.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            // Whoever writes it hasn't completed it.
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported) => {
                Ok(None)
            }
            opened => opened,
        }
    }
}
