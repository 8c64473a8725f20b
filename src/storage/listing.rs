//! What is in a folder, and how long that stays true.
//!
//! A folder of local files has a time of its own, which changes whenever something is added to it or removed. Where files
//! are never rewritten, a listing is kept as long as that time stays what it was before listing: an array of thousands of
//! fragments is then opened again without looking at thousands of commits. Clocks of file systems are coarse, so a folder that changed just before
//! it was listed may change once more without its time telling: such listings are not kept.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use object_store::path::Path;
use object_store::{ListResult, ObjectMeta};
use tokio::runtime::Handle;

/// The coarsest clock of a file system in use (FAT counts in two seconds).
const CLOCK_TICK: Duration = Duration::from_secs(2);

/// The files and folders directly in a folder, both sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The files.
    pub files: Vec<FileInfo>,
    /// The names of the folders.
    pub folders: Vec<String>,
}

/// What a store tells about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// The name, without folders.
    pub name: String,
    /// The size.
    pub bytes: u64,
    /// When it was last modified, in microseconds since 1970 (some stores know only seconds).
    pub modified_us: i64,
    /// What changes whenever the contents do, if the store has such a thing.
    pub e_tag: Option<String>,
}

impl FileInfo {
    pub(super) fn new(meta: ObjectMeta) -> Self {
        Self {
            name: meta.location.filename().unwrap_or_default().to_owned(),
            bytes: meta.size,
            modified_us: meta.last_modified.timestamp_micros(),
            e_tag: meta.e_tag,
        }
    }
}

impl Listing {
    /// What a store says is in `folder`.
    pub(super) fn new(listed: ListResult, folder: &Path) -> Self {
        let child = |p: &Path| -> Option<String> {
            let mut parts = p.prefix_match(folder)?;
            let first = parts.next()?.as_ref().to_owned();
            parts.next().is_none().then_some(first)
        };
        let mut folders: Vec<String> = listed.common_prefixes.iter().filter_map(child).collect();
        folders.sort_unstable();
        folders.dedup();
        // Some tools stand an empty object in for a folder: with the name of the listed folder, or beside its contents.
        let is_placeholder =
            |info: &FileInfo| info.bytes == 0 && folders.binary_search(&info.name).is_ok();
        let mut files: Vec<FileInfo> = listed
            .objects
            .into_iter()
            .filter(|meta| child(&meta.location).is_some())
            .map(FileInfo::new)
            .filter(|info| !is_placeholder(info))
            .collect();
        files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Self { files, folders }
    }

    /// About how much memory it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        const NAME_BYTES: usize = 128;
        let file = size_of::<FileInfo>().saturating_add(NAME_BYTES);
        let files = self.files.len().saturating_mul(file);
        files.saturating_add(self.folders.len().saturating_mul(NAME_BYTES))
    }
}

/// When the listing of a local folder that is as it was may serve again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Always: its files are only ever added and removed, never rewritten.
    Always,
    /// If there are no files: those may be rewritten, which changes nothing of the folder.
    WithoutFiles,
}

/// What the system tells of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stamped {
    Known(FolderStamp),
    /// There is none.
    Missing,
    /// It does not tell.
    Unknown,
}

/// The state of a local folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FolderStamp {
    /// When something was last added or removed.
    modified: SystemTime,
    /// Which folder it is, should another take its place.
    inode: u64,
    /// When this was asked.
    asked: SystemTime,
}

impl FolderStamp {
    /// The state of folders now, all asked at once.
    pub(super) async fn of_all(paths: Vec<PathBuf>) -> Vec<Stamped> {
        let count = paths.len();
        let look = move || paths.iter().map(|path| Self::of(path)).collect();
        match Handle::try_current() {
            Ok(runtime) => {
                let looked = runtime.spawn_blocking(look).await;
                looked.unwrap_or_else(|_| vec![Stamped::Unknown; count])
            }
            Err(_) => look(),
        }
    }

    fn of(path: &std::path::Path) -> Stamped {
        let asked = SystemTime::now();
        let stamp = |metadata: std::fs::Metadata| {
            Some(Self {
                modified: metadata.modified().ok()?,
                inode: inode(&metadata)?,
                asked,
            })
        };
        match std::fs::metadata(path) {
            Ok(metadata) => stamp(metadata).map_or(Stamped::Unknown, Stamped::Known),
            Err(error) if error.kind() == ErrorKind::NotFound => Stamped::Missing,
            Err(_) => Stamped::Unknown,
        }
    }

    /// Whether any later change is sure to change the time.
    pub(super) fn is_settled(&self) -> bool {
        let since = self.asked.duration_since(self.modified);
        since.is_ok_and(|since| since > CLOCK_TICK)
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems do not tell")]
fn inode(metadata: &std::fs::Metadata) -> Option<u64> {
    Some(std::os::unix::fs::MetadataExt::ino(metadata))
}

#[cfg(not(unix))]
fn inode(_: &std::fs::Metadata) -> Option<u64> {
    None
}

/// A listing and the state of the folder before it was made.
#[derive(Debug)]
pub(super) struct KeptListing {
    /// The state of the folder.
    pub(super) stamp: FolderStamp,
    /// What was in it.
    pub(super) listing: Arc<Listing>,
}

impl KeptListing {
    /// Whether the folder is still as it was.
    pub(super) fn holds(&self, now: &FolderStamp) -> bool {
        self.stamp.modified == now.modified && self.stamp.inode == now.inode
    }
}
