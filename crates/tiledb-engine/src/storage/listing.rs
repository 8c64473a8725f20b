//! The contents of a folder, and how long a listing of it may be reused.
//!
//! A local folder has a change time, which the system sets whenever something is added to it or removed, and which nobody
//! can set back. If its files are never rewritten, a listing can be reused as long as that time stays what it was before
//! listing: an array of thousands of fragments is then opened again without reading thousands of commits.
//!
//! The evidence has two gaps. Mounted object stores and network file systems keep no such times for folders, or tell them
//! late, so only the file systems of a machine's own disks and memory are believed. And clocks of file systems are coarse,
//! so a folder that changed just before it was listed may change again without a new time: such listings are not kept.
//!
//! The times of a folder also show whether a listing tells what was there at one moment. Entries are read one after the other, and
//! stores list a page at a time: what is put or removed meanwhile is seen or not, depending on its name.

mod tree;

use std::fs::{self, DirEntry, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use object_store::{ListResult, ObjectMeta};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

/// How far a time with fractions of a millisecond lies behind the clock at most. Systems advance the times of their files in
/// ticks of up to 10 ms.
const FINE_GRAIN: Duration = Duration::from_millis(50);
/// How far a time without such fractions lies behind the clock at most: it may be that of a file system that counts in seconds.
const COARSE_GRAIN: Duration = Duration::from_secs(2);

/// Stores give at least so many entries of a folder at once, if it has so many.
const PAGE: usize = 1000;
/// A listing that takes longer may consist of several short pages: stores skip what was removed.
const LONG: Duration = Duration::from_millis(500);

/// The files and folders directly in a folder, both sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The files.
    pub files: Vec<FileInfo>,
    /// The names of the folders.
    pub folders: Vec<String>,
}

impl Listing {
    /// The files that may be TileDB's: their names begin with two underscores. In all folders but fragment folders, other files
    /// come from users and their file managers.
    pub fn named_files(&self) -> impl Iterator<Item = &FileInfo> {
        self.files.iter().filter(|file| file.is_named())
    }
}

/// The store's information on a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// The name, without folders unless a whole tree was listed.
    pub name: String,
    /// The size.
    pub bytes: u64,
    /// When it was last modified, in microseconds since 1970 (some stores know only seconds).
    pub modified_us: i64,
    /// The entity tag, which changes whenever the contents do, if the store has one.
    pub e_tag: Option<String>,
}

impl FileInfo {
    /// Whether the name begins like all TileDB names outside fragments.
    pub fn is_named(&self) -> bool {
        self.name.starts_with("__")
    }
}

/// A listing, and what is known of its moment.
#[derive(Debug, Clone, Default)]
pub struct DatedListing {
    /// The contents of the folder.
    pub listing: Arc<Listing>,
    /// Whether the folder held exactly this at one moment. Otherwise what was put or removed while it was listed may be in
    /// it or not.
    pub at_once: bool,
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

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems do not tell")]
fn inode(metadata: &Metadata) -> Option<u64> {
    Some(std::os::unix::fs::MetadataExt::ino(metadata))
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> Option<u64> {
    None
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
    pub(super) fn new(listed: ListResult, folder: &object_store::path::Path) -> Self {
        let child = |p: &object_store::path::Path| -> Option<String> {
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

    /// Whether a store gave so many entries in so much time at once.
    pub(super) fn is_one_page(entries: usize, took: Duration) -> bool {
        entries < page() && took < LONG
    }

    /// The listing of a local folder, which is what its store would give. The store would ask the system three times for each
    /// file, and parse the path of each as a URL.
    fn of_local(folder: &Path) -> io::Result<Self> {
        let entries = match fs::read_dir(folder) {
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
pub enum ListingReuse {
    /// Always: its files are only added and removed, never rewritten.
    Always,
    /// Only if it has no files: those may be rewritten, which does not change the folder's time.
    WithoutFiles,
}

/// The state of a folder as the system reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FolderState {
    Known(FolderStamp),
    /// The folder does not exist.
    Missing,
    /// The system does not report the state.
    Unknown,
}

/// The state of a local folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FolderStamp {
    times: FolderTimes,
    /// When the state was read.
    asked: SystemTime,
}

/// What changes whenever something is added to a folder or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FolderTimes {
    /// When something was last added or removed, unless somebody has set another time.
    modified: SystemTime,
    /// When something was last added or removed, or a time was set.
    changed: SystemTime,
    /// The device and the number of the folder, in case another replaces it.
    identity: (u64, u64),
}

impl FolderStamp {
    /// The current states of folders, all read at once.
    pub(super) async fn of_all(paths: Vec<PathBuf>) -> Vec<FolderState> {
        let count = paths.len();
        let looked = blocking(move || paths.iter().map(|path| Self::of(path)).collect()).await;
        looked.unwrap_or_else(|_| vec![FolderState::Unknown; count])
    }

    fn of(path: &Path) -> FolderState {
        let asked = SystemTime::now();
        match fs::metadata(path) {
            Ok(metadata) => match FolderTimes::of(&metadata) {
                Some(times) => FolderState::Known(Self { times, asked }),
                None => FolderState::Unknown,
            },
            Err(error) if error.kind() == ErrorKind::NotFound => FolderState::Missing,
            Err(_) => FolderState::Unknown,
        }
    }

    /// When something was last added or removed, in milliseconds since 1970.
    pub(super) fn changed_ms(&self) -> Option<u64> {
        let since = self.times.modified.duration_since(SystemTime::UNIX_EPOCH);
        u64::try_from(since.ok()?.as_millis()).ok()
    }

    /// Whether any later change is sure to change the times.
    fn is_settled(&self) -> bool {
        let changed = self.times.changed;
        let fraction = changed.duration_since(SystemTime::UNIX_EPOCH);
        let is_fine = fraction.is_ok_and(|since| !since.subsec_nanos().is_multiple_of(1_000_000));
        let grain = if is_fine { FINE_GRAIN } else { COARSE_GRAIN };
        let since = self.asked.duration_since(changed);
        since.is_ok_and(|since| since > grain)
    }
}

impl FolderTimes {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;

        let nanos = u32::try_from(metadata.ctime_nsec()).unwrap_or(0);
        let since = Duration::new(metadata.ctime().unsigned_abs(), 0);
        let changed = if metadata.ctime() < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(since)?
        } else {
            SystemTime::UNIX_EPOCH.checked_add(since)?
        };
        Some(Self {
            modified: metadata.modified().ok()?,
            changed: changed.checked_add(Duration::new(0, nanos))?,
            identity: (metadata.dev(), metadata.ino()),
        })
    }

    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Option<Self> {
        None
    }
}

/// Whether the file system that holds a folder sets the folder's change time with each change, by its own clock.
///
/// These are those of disks and memory of this machine, and what containers lay over them. Behind a mounted object store, a
/// network or a virtual machine's host, others change a folder without this system's knowledge.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn tells_changes(folder: &Path) -> bool {
    /// The numbers of ext2 to ext4, XFS, Btrfs, F2FS, ZFS, bcachefs, NILFS, JFS, tmpfs, ramfs and overlayfs.
    const BELIEVED: [u64; 11] = [
        0xEF53,
        0x5846_5342,
        0x9123_683E,
        0xF2F5_2010,
        0x2FC1_2FC1,
        0xCA45_1A4E,
        0x3434,
        0x3153_464A,
        0x0102_1994,
        0x8584_58F6,
        0x794C_7630,
    ];
    let told = rustix::fs::statfs(folder);
    told.is_ok_and(|told| u64::try_from(told.f_type).is_ok_and(|kind| BELIEVED.contains(&kind)))
}

/// See above: the file systems of a Mac's own disks.
#[cfg(target_os = "macos")]
fn tells_changes(folder: &Path) -> bool {
    let told = rustix::fs::statfs(folder);
    told.is_ok_and(|told| {
        let name = told
            .f_fstypename
            .iter()
            .map(|byte| byte.cast_unsigned())
            .take_while(|byte| *byte != 0)
            .collect::<Vec<_>>();
        matches!(name.as_slice(), b"apfs" | b"hfs")
    })
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos")))]
fn tells_changes(_: &Path) -> bool {
    false
}

/// Does the work on a thread that may block, if there is one.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    match Handle::try_current() {
        Ok(runtime) => Ok(runtime.spawn_blocking(work).await?),
        Err(_) => Ok(work()),
    }
}

/// How many entries a store gives at once, if a folder has so many.
#[cfg(not(any(test, feature = "testing")))]
pub(super) fn page() -> usize {
    PAGE
}

/// How many entries the stores of tests give at once, as this thread believes.
#[cfg(any(test, feature = "testing"))]
pub(super) fn page() -> usize {
    believed::page()
}

/// What a thread of tests believes of its stores.
#[cfg(any(test, feature = "testing"))]
pub mod believed {
    use std::cell::Cell;

    thread_local! {
        static ENTRIES: Cell<usize> = const { Cell::new(super::PAGE) };
    }

    pub(super) fn page() -> usize {
        ENTRIES.get()
    }

    thread_local! {
        static IN_ORDER: Cell<bool> = const { Cell::new(false) };
    }

    pub(in crate::storage) fn is_in_order() -> bool {
        IN_ORDER.get()
    }

    /// From now on, stores list in the order of names, and can begin behind any of them.
    pub fn set_in_order(in_order: bool) {
        IN_ORDER.set(in_order);
    }

    /// From now on, stores give so many entries at once.
    pub fn set_page(entries: usize) {
        ENTRIES.set(entries);
    }
}

/// The listing of a local folder, and the state of the folder before it was made.
#[derive(Debug)]
pub(super) struct LocalListing {
    /// The contents of the folder.
    pub(super) listed: DatedListing,
    stamp: FolderState,
}

impl LocalListing {
    /// Lists a folder.
    pub(super) async fn of(folder: PathBuf) -> io::Result<Self> {
        let list = move || -> io::Result<Self> {
            let stamp = FolderStamp::of(&folder);
            let listing = Arc::new(Listing::of_local(&folder)?);
            let at_once = match (&stamp, FolderStamp::of(&folder)) {
                (FolderState::Missing, FolderState::Missing) => true,
                (FolderState::Known(before), FolderState::Known(after)) => {
                    let unchanged = before.is_settled() && before.times == after.times;
                    unchanged && tells_changes(&folder)
                }
                _ => false,
            };
            let listed = DatedListing { listing, at_once };
            Ok(Self { listed, stamp })
        };
        blocking(list).await?
    }

    /// The listing to keep, if a later change of the folder will be seen.
    pub(super) fn kept(&self, keep: ListingReuse) -> Option<KeptListing> {
        let DatedListing { listing, at_once } = &self.listed;
        let FolderState::Known(stamp) = &self.stamp else {
            return None;
        };
        let may_be_kept = *at_once && (keep == ListingReuse::Always || listing.files.is_empty());
        may_be_kept.then(|| KeptListing {
            times: stamp.times.clone(),
            listing: Arc::clone(listing),
        })
    }
}

/// A listing, and the state of the folder when it was made.
#[derive(Debug)]
pub(super) struct KeptListing {
    times: FolderTimes,
    /// The contents of the folder.
    pub(super) listing: Arc<Listing>,
}

impl KeptListing {
    /// Whether the folder is unchanged.
    pub(super) fn holds(&self, now: &FolderStamp) -> bool {
        self.times == now.times
    }
}
