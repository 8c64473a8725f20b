//! The contents of a folder, and how long a listing of it may be reused.
//!
//! A local folder has a modification time, which changes whenever something is added to it or removed. If its files are
//! never rewritten, a listing can be reused as long as that time stays what it was before listing: an array of
//! thousands of fragments is then opened again without reading thousands of commits. Clocks of file systems are coarse,
//! so a folder that changed just before it was listed may change again without a new time: such listings are not kept.

use std::fs::{self, DirEntry, Metadata};
use std::io::{self, ErrorKind};
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

/// The store's information on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// The name, without folders.
    pub name: String,
    /// The size.
    pub bytes: u64,
    /// When it was last modified, in microseconds since 1970 (some stores know only seconds).
    pub modified_us: i64,
    /// The entity tag, which changes whenever the contents do, if the store has one.
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

    /// The information on a local file. Its entity tag is the one that a local store would give, so that a listed file has the
    /// same cache keys as one that was looked up.
    fn of_local(name: String, metadata: &Metadata) -> io::Result<Self> {
        let modified = metadata.modified()?.duration_since(SystemTime::UNIX_EPOCH);
        let since = modified.as_ref().map_or(0, Duration::as_micros);
        // Before 1970, times are negative.
        let modified_us = match &modified {
            Ok(_) => i64::try_from(since),
            Err(before) => i64::try_from(before.duration().as_nanos().div_ceil(1000)).map(|us| -us),
        };
        let inode = inode(metadata).unwrap_or(0);
        Ok(Self {
            name,
            bytes: metadata.len(),
            modified_us: modified_us.map_err(io::Error::other)?,
            e_tag: Some(format!("{inode:x}-{since:x}-{:x}", metadata.len())),
        })
    }
}

/// Whether there is no such folder or file.
fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Whether a local store gives such a name to a file that it has not written to its end.
fn is_unfinished(name: &str) -> bool {
    let number = name.split_once('#').map_or("", |(_, number)| number);
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

impl Listing {
    /// Converts the listing of `folder` by a store.
    pub(super) fn new(listed: ListResult, folder: &Path) -> Self {
        let child = |p: &Path| -> Option<String> {
            let mut parts = p.prefix_match(folder)?;
            let first = parts.next()?.as_ref().to_owned();
            parts.next().is_none().then_some(first)
        };
        let mut folders: Vec<String> = listed.common_prefixes.iter().filter_map(child).collect();
        folders.sort_unstable();
        folders.dedup();
        // Some tools represent a folder by an empty object: with the name of the folder, or beside its contents.
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

    /// The listing of a local folder, which is what its store would give. The store would ask the system three times for each
    /// file, and parse the path of each as a URL.
    pub(super) async fn of_local(folder: PathBuf) -> io::Result<Self> {
        let list = move || -> io::Result<Self> {
            let entries = match fs::read_dir(&folder) {
                Err(error) if is_nothing(&error) => return Ok(Self::default()),
                entries => entries?,
            };
            let mut listing = Self::default();
            for entry in entries {
                match entry.and_then(|entry| listing.add(&entry)) {
                    // It was removed meanwhile.
                    Err(error) if is_nothing(&error) => {}
                    added => added?,
                }
            }
            listing.folders.sort_unstable();
            listing.files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            Ok(listing)
        };
        match Handle::try_current() {
            Ok(runtime) => runtime.spawn_blocking(list).await?,
            Err(_) => list(),
        }
    }

    fn add(&mut self, entry: &DirEntry) -> io::Result<()> {
        // A store has no path for a name that is not UTF-8 or has control characters, so nobody can read such a file.
        let name = entry.file_name().into_string().ok();
        let Some(name) = name.filter(|name| !name.contains(|c: char| c.is_ascii_control())) else {
            return Ok(());
        };
        let mut kind = entry.file_type()?;
        let mut metadata = None;
        if kind.is_symlink() {
            // What it points to may be gone.
            let Ok(target) = fs::metadata(entry.path()) else {
                return Ok(());
            };
            kind = target.file_type();
            metadata = Some(target);
        }
        if kind.is_dir() {
            self.folders.push(name);
            return Ok(());
        }
        if is_unfinished(&name) {
            return Ok(());
        }
        let metadata = metadata.map_or_else(|| entry.metadata(), Ok)?;
        self.files.push(FileInfo::of_local(name, &metadata)?);
        Ok(())
    }

    /// About how much memory it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        const NAME_BYTES: usize = 128;
        let file = size_of::<FileInfo>().saturating_add(NAME_BYTES);
        let files = self.files.len().saturating_mul(file);
        files.saturating_add(self.folders.len().saturating_mul(NAME_BYTES))
    }
}

/// Whether the listing of an unchanged local folder may be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Always: its files are only added and removed, never rewritten.
    Always,
    /// Only if it has no files: those may be rewritten, which does not change the folder's time.
    WithoutFiles,
}

/// The state of a folder as the system reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stamped {
    Known(FolderStamp),
    /// The folder does not exist.
    Missing,
    /// The system does not report the state.
    Unknown,
}

/// The state of a local folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FolderStamp {
    /// When something was last added or removed.
    modified: SystemTime,
    /// The identity of the folder, in case another replaces it.
    inode: u64,
    /// When the state was read.
    asked: SystemTime,
}

impl FolderStamp {
    /// The current states of folders, all read at once.
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
        let stamp = |metadata: Metadata| {
            Some(Self {
                modified: metadata.modified().ok()?,
                inode: inode(&metadata)?,
                asked,
            })
        };
        match fs::metadata(path) {
            Ok(metadata) => stamp(metadata).map_or(Stamped::Unknown, Stamped::Known),
            Err(error) if error.kind() == ErrorKind::NotFound => Stamped::Missing,
            Err(_) => Stamped::Unknown,
        }
    }

    /// When something was last added or removed, in milliseconds since 1970.
    pub(super) fn changed_ms(&self) -> Option<u64> {
        let since = self.modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    }

    /// Whether any later change is sure to change the time.
    pub(super) fn is_settled(&self) -> bool {
        let since = self.asked.duration_since(self.modified);
        since.is_ok_and(|since| since > CLOCK_TICK)
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems do not tell")]
fn inode(metadata: &Metadata) -> Option<u64> {
    Some(std::os::unix::fs::MetadataExt::ino(metadata))
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> Option<u64> {
    None
}

/// A listing, and the state of the folder before it was made.
#[derive(Debug)]
pub(super) struct KeptListing {
    /// The state of the folder.
    pub(super) stamp: FolderStamp,
    /// The contents of the folder at that time.
    pub(super) listing: Arc<Listing>,
}

impl KeptListing {
    /// Whether the folder is unchanged.
    pub(super) fn holds(&self, now: &FolderStamp) -> bool {
        self.stamp.modified == now.modified && self.stamp.inode == now.inode
    }
}
