//! The folder of a cache: who may use it, and which files it holds.
//!
//! | Name | Holds |
//! |---|---|
//! | `lock` | nothing; the process that locks it owns the cache |
//! | `identity` | the version of the files, and a random number that is part of every key |
//! | `blocks/` | foyer's files, one for each block |

use std::fs::{self, DirBuilder, DirEntry, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::cached_range::FolderIdentity;
use super::layout::{BLOCK_INDEX_BYTES, BlockLayout};
use super::problem::{DiskCacheProblem, ProblemCause};

const LOCK_FILE: &str = "lock";
const IDENTITY_FILE: &str = "identity";
const BLOCKS_FOLDER: &str = "blocks";

/// foyer names the file of a block by this and eight digits.
const BLOCK_PREFIX: &str = "foyer-storage-direct-fs-";

/// The beginning of the identity file. It changes with the encoding of keys and with foyer's format.
const FORMAT_MARK: [u8; 8] = *b"rangecv1";

/// A cache that was dropped keeps its lock while its last write runs, so a busy lock is tried this often.
const LOCK_ATTEMPTS: u32 = 6;
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// The disk space that a cache leaves to other programs.
///
/// foyer loses blocks if a write fails, and may panic. So the cache stops storing before the disk is full.
pub(super) const RESERVED_DISK_BYTES: u64 = 64 * 1024 * 1024;

/// A folder that this process has locked.
#[derive(Debug)]
pub(super) struct CacheFolder {
    path: PathBuf,
    identity: FolderIdentity,
    _lock: File,
}

impl CacheFolder {
    /// Creates the folder if needed, and locks it.
    pub(super) fn open(path: &Path) -> Result<Self, DiskCacheProblem> {
        Self::open_locked(path).map_err(|cause| DiskCacheProblem::new(path, cause))
    }

    fn open_locked(path: &Path) -> Result<Self, ProblemCause> {
        create_private_folder(path)?;
        let lock = lock_folder(path)?;
        let blocks = path.join(BLOCKS_FOLDER);
        let identity = match read_identity(path)? {
            Some(identity) => identity,
            None => {
                check_free_space(path)?;
                // The files of another version are useless to this one.
                remove_any(&blocks)?;
                create_identity(path)?
            }
        };
        if !blocks.is_dir() {
            remove_any(&blocks)?;
            fs::create_dir(&blocks)?;
        }
        Ok(Self {
            path: path.to_path_buf(),
            identity,
            _lock: lock,
        })
    }

    pub(super) fn identity(&self) -> FolderIdentity {
        self.identity
    }

    /// The folder of foyer's files.
    pub(super) fn blocks(&self) -> PathBuf {
        self.path.join(BLOCKS_FOLDER)
    }

    pub(super) fn problem(&self, cause: ProblemCause) -> DiskCacheProblem {
        DiskCacheProblem::new(&self.path, cause)
    }

    /// Prepares the files of earlier runs for foyer, and returns the blocks with entries, oldest first.
    ///
    /// Files beyond the capacity are deleted, which frees their space after a cache became smaller.
    pub(super) fn prepare_blocks(
        &self,
        layout: &BlockLayout,
    ) -> Result<Vec<u32>, DiskCacheProblem> {
        self.delete_needless_files(layout)
            .and_then(|()| self.blocks_by_age(layout))
            .map_err(|error| self.problem(error.into()))
    }

    /// Deletes all blocks.
    pub(super) fn discard_blocks(&self) -> Result<(), DiskCacheProblem> {
        remove_any(&self.blocks())
            .and_then(|()| fs::create_dir_all(self.blocks()))
            .map_err(|error| self.problem(error.into()))
    }

    /// Whether the disk keeps its reserve after so many bytes are written.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let needed = u64::try_from(bytes)
            .unwrap_or(u64::MAX)
            .saturating_add(RESERVED_DISK_BYTES);
        free_disk_bytes(&self.blocks()).is_none_or(|free| free >= needed)
    }

    fn delete_needless_files(&self, layout: &BlockLayout) -> io::Result<()> {
        for entry in fs::read_dir(self.blocks())? {
            let entry = entry?;
            if !entry.file_type()?.is_file() || !is_block_of(&entry, layout) {
                remove_any(&entry.path())?;
            }
        }
        Ok(())
    }

    /// The blocks with entries, oldest first. If none is empty, the oldest one becomes empty.
    ///
    /// foyer never reclaims its first block unless it found an empty one, and then waits for it forever. A process that
    /// was killed, and a smaller capacity, can leave only full blocks.
    fn blocks_by_age(&self, layout: &BlockLayout) -> io::Result<Vec<u32>> {
        let mut filled = Vec::new();
        for block in 0..layout.block_count {
            if let Some(sequence) = first_sequence(&self.block_path(block))? {
                filled.push((sequence, block));
            }
        }
        filled.sort_unstable();
        let mut blocks: Vec<u32> = filled.into_iter().map(|(_, block)| block).collect();
        if u32::try_from(blocks.len()) == Ok(layout.block_count) && !blocks.is_empty() {
            let path = self.block_path(blocks.remove(0));
            OpenOptions::new()
                .write(true)
                .open(path)?
                .write_all(&[0; BLOCK_INDEX_BYTES])?;
        }
        Ok(blocks)
    }

    fn block_path(&self, block: u32) -> PathBuf {
        self.blocks().join(format!("{BLOCK_PREFIX}{block:08}"))
    }
}

impl From<io::Error> for ProblemCause {
    fn from(error: io::Error) -> Self {
        Self::Unusable(error)
    }
}

fn create_private_folder(path: &Path) -> Result<(), ProblemCause> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    if let Err(error) = builder.create(path) {
        let is_other = fs::metadata(path).is_ok_and(|metadata| !metadata.is_dir());
        return Err(if is_other {
            ProblemCause::NotAFolder
        } else {
            error.into()
        });
    }
    #[cfg(unix)]
    close_to_others(path)?;
    Ok(())
}

/// Takes the permissions of other users away.
///
/// A shared folder with files of other programs may be `/tmp`, so it keeps its permissions.
#[cfg(unix)]
fn close_to_others(path: &Path) -> Result<(), ProblemCause> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    let metadata = fs::metadata(path)?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(ProblemCause::OtherOwner);
    }
    if metadata.mode() & 0o077 == 0 {
        return Ok(());
    }
    let is_ours = fs::exists(path.join(IDENTITY_FILE))? || fs::read_dir(path)?.next().is_none();
    if !is_ours {
        return Err(ProblemCause::SharedFolder);
    }
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o700),
    )?)
}

fn lock_folder(path: &Path) -> Result<File, ProblemCause> {
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.join(LOCK_FILE))?;
    for _ in 0..LOCK_ATTEMPTS {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_INTERVAL),
            Err(TryLockError::Error(error)) => return Err(error.into()),
            Ok(()) => return Ok(lock),
        }
    }
    Err(ProblemCause::InUse)
}

/// The identity of a folder, or `None` if the folder is new or has files of another version.
fn read_identity(path: &Path) -> Result<Option<FolderIdentity>, ProblemCause> {
    match fs::read(path.join(IDENTITY_FILE)) {
        Ok(bytes) => Ok(bytes
            .strip_prefix(&FORMAT_MARK)
            .and_then(|identity| identity.try_into().ok())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn create_identity(path: &Path) -> Result<FolderIdentity, ProblemCause> {
    let mut identity = FolderIdentity::default();
    getrandom::getrandom(&mut identity).map_err(io::Error::from)?;
    fs::write(
        path.join(IDENTITY_FILE),
        [&FORMAT_MARK[..], &identity[..]].concat(),
    )?;
    Ok(identity)
}

fn check_free_space(path: &Path) -> Result<(), ProblemCause> {
    match free_disk_bytes(path) {
        Some(free_bytes) if free_bytes < RESERVED_DISK_BYTES => Err(ProblemCause::DiskFull {
            free_bytes,
            needed_bytes: RESERVED_DISK_BYTES,
        }),
        _ => Ok(()),
    }
}

/// The space that this user may still fill, if the system can say so.
#[cfg(unix)]
fn free_disk_bytes(path: &Path) -> Option<u64> {
    let statistics = rustix::fs::statvfs(path).ok()?;
    Some(statistics.f_bavail.saturating_mul(statistics.f_frsize))
}

#[cfg(not(unix))]
fn free_disk_bytes(_path: &Path) -> Option<u64> {
    None
}

fn is_block_of(entry: &DirEntry, layout: &BlockLayout) -> bool {
    let name = entry.file_name();
    let digits = name
        .to_str()
        .and_then(|name| name.strip_prefix(BLOCK_PREFIX));
    digits
        .filter(|digits| digits.len() == 8)
        .and_then(|digits| digits.parse().ok())
        .is_some_and(|index: u32| index < layout.block_count)
}

/// The number of a block's first entry, or `None` if the block has no file or begins with zeros in place of an index.
///
/// foyer counts entries up. In its index, a checksum, a count and a hash precede the number. The numbers of damaged
/// blocks are wrong, but they only decide what is evicted first.
fn first_sequence(path: &Path) -> io::Result<Option<u64>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut index = Vec::with_capacity(BLOCK_INDEX_BYTES);
    file.take(u64::try_from(BLOCK_INDEX_BYTES).unwrap_or(u64::MAX))
        .read_to_end(&mut index)?;
    if index.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let sequence = index.iter().skip(8 + 4 + 8).take(8);
    Ok(Some(sequence.fold(0, |sequence, byte| {
        sequence << 8 | u64::from(*byte)
    })))
}

/// Removes a file, a link, or a folder with all it holds.
fn remove_any(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
