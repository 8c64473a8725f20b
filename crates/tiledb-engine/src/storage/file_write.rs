//! Writing of local files on threads that may block, so that they outlive a power cut.
//!
//! A file system may write a name before the bytes it stands for. So the bytes of a file are synced before it gets its name,
//! and the folder after that; `object_store` does neither. A file is staged beside the array's folders under a name that
//! readers ignore, because libtiledb takes everything in `__schema` for a schema.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::{TryStreamExt, stream};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// The most staged files of one name that processes may have left.
const MOST_STAGED: u32 = 100;

/// So many files are synced at the same time.
const SYNCED_AT_ONCE: usize = 8;

/// What [`create`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CreateOutcome {
    /// The file is new.
    New,
    /// A file of this name exists.
    Exists,
}

/// Creates a file with all its bytes at once, by way of `staging`. Folders that are missing are created.
pub(super) async fn create(
    path: PathBuf,
    staging: PathBuf,
    bytes: Bytes,
) -> io::Result<CreateOutcome> {
    blocking(move || {
        let parent = parent_of(&path)?;
        create_folder(parent)?;
        let staging = write_staged(staging, &bytes)?;
        let named = give_name(&staging, &path);
        let removed = remove_if_there(&staging);
        let created = named?;
        sync_folder(parent)?;
        removed.map(|()| created)
    })
    .await
}

/// Replaces a file's bytes atomically, through `staging`; `false` if the file is gone or doesn't hold `old`.
///
/// A file system can't compare and rename in one step. If someone removes the file in between, it reappears.
pub(super) async fn replace(
    path: PathBuf,
    staging: PathBuf,
    old: Bytes,
    new: Bytes,
) -> io::Result<bool> {
    blocking(move || {
        let staging = write_staged(staging, &new)?;
        let holds_old = match fs::read(&path) {
            Ok(bytes) => bytes == old,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => {
                remove_if_there(&staging)?;
                return Err(error);
            }
        };
        if !holds_old {
            return remove_if_there(&staging).map(|()| false);
        }
        fs::rename(&staging, &path)?;
        record(|| FileEvent::Rename(staging, path.clone()));
        sync_folder(parent_of(&path)?).map(|()| true)
    })
    .await
}

/// Opens a new file to append to; folders that are missing are created.
pub(super) async fn begin(path: PathBuf) -> io::Result<File> {
    blocking(move || {
        create_folder(parent_of(&path)?)?;
        create_new(&path)
    })
    .await
}

/// Appends to a file.
pub(super) async fn append(mut file: File, pieces: Vec<Bytes>) -> io::Result<File> {
    blocking(move || {
        for piece in pieces {
            write(&mut file, &piece)?;
        }
        Ok(file)
    })
    .await
}

/// Begins to put the bytes of a file on disk while others are appended, so that [`sync`] has less to wait for. Nobody may
/// rely on it: tests of power cuts do not see it.
pub(super) fn begin_sync(file: &File) -> io::Result<Option<JoinHandle<io::Result<()>>>> {
    let Ok(runtime) = Handle::try_current() else {
        return Ok(None);
    };
    let file = file.try_clone()?;
    Ok(Some(runtime.spawn_blocking(move || file.sync_data())))
}

/// Waits until the bytes of files are on disk, and then the names in their folders.
pub(super) async fn sync(files: Vec<File>, folders: Vec<PathBuf>) -> io::Result<()> {
    // A few together wait for the disk about as long as one of them.
    let files = files
        .into_iter()
        .map(|file| Ok(blocking(move || sync_file(&file))));
    let synced = stream::iter(files).try_buffer_unordered(SYNCED_AT_ONCE);
    synced.try_collect::<()>().await?;
    blocking(move || folders.iter().try_for_each(|folder| sync_folder(folder))).await
}

/// Creates folders, and those above them.
pub(super) async fn create_folders(folders: Vec<PathBuf>) -> io::Result<()> {
    blocking(move || folders.iter().try_for_each(|folder| create_folder(folder))).await
}

/// Removes a folder and all that is in it; one that does not exist is removed already.
pub(super) async fn remove_folder(folder: PathBuf) -> io::Result<()> {
    blocking(move || match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.inspect(|()| record(|| FileEvent::RemoveFolder(folder.clone()))),
    })
    .await
}

/// Removes a file, and waits until that is on disk; one that does not exist is removed already.
pub(super) async fn remove_file(path: PathBuf) -> io::Result<()> {
    blocking(move || match fs::remove_file(&path) {
        Ok(()) => {
            record(|| FileEvent::Remove(path.clone()));
            sync_folder(parent_of(&path)?)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    })
    .await
}

/// Gives the staged file its name, unless another file has it.
fn give_name(staging: &Path, path: &Path) -> io::Result<CreateOutcome> {
    match fs::hard_link(staging, path) {
        Ok(()) => {
            record(|| FileEvent::Link(staging.to_owned(), path.to_owned()));
            Ok(CreateOutcome::New)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(CreateOutcome::Exists),
        // The file system may have no hard links. Nobody else has chosen this name, so looking first is enough.
        Err(_) if path.try_exists()? => Ok(CreateOutcome::Exists),
        Err(_) => fs::rename(staging, path).map(|()| CreateOutcome::New),
    }
}

/// Writes a staged file; returns its path. A process that died may have left one of this name, so others are tried.
fn write_staged(staging: PathBuf, bytes: &Bytes) -> io::Result<PathBuf> {
    for number in 1..MOST_STAGED {
        match write_new(&staging_path(&staging, number), bytes) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            written => return written.map(|()| staging_path(&staging, number)),
        }
    }
    write_new(&staging, bytes).map(|()| staging)
}

/// The path of a staged file: the first has no number.
fn staging_path(staging: &Path, number: u32) -> PathBuf {
    match (number, staging.extension()) {
        (2.., Some(extension)) => {
            staging.with_extension(format!("{number}.{}", extension.display()))
        }
        _ => staging.to_owned(),
    }
}

/// Writes a file that does not exist yet; if that fails, there is none.
fn write_new(path: &Path, bytes: &Bytes) -> io::Result<()> {
    let mut file = create_new(path)?;
    let written = write(&mut file, bytes).and_then(|()| sync_file(&file));
    if written.is_err() {
        drop(file);
        remove_if_there(path)?;
    }
    written
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => {
            record(|| FileEvent::Remove(path.to_owned()));
            Ok(())
        }
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Err(_) => Ok(()),
    }
}

fn create_new(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    record(|| FileEvent::Create(path.to_owned(), id_of(&file)));
    Ok(file)
}

fn write(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    record(|| FileEvent::Write(id_of(file), bytes.to_vec()));
    Ok(())
}

fn sync_file(file: &File) -> io::Result<()> {
    file.sync_all()?;
    record(|| FileEvent::SyncFile(id_of(file)));
    Ok(())
}

/// Creates a folder and those above it that are missing, and waits until their names are on disk.
fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let missing = folder.ancestors().take_while(|above| !above.exists());
    let parents = missing
        .filter_map(Path::parent)
        .map(Path::to_owned)
        .collect::<Vec<_>>();
    fs::create_dir_all(folder)?;
    record(|| FileEvent::CreateFolder(folder.to_owned()));
    parents.iter().try_for_each(|parent| sync_folder(parent))
}

fn parent_of(path: &Path) -> io::Result<&Path> {
    let parent = path.parent();
    parent.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "the root has no parent folder"))
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    // An empty path is the working directory.
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    File::open(folder)?.sync_all()?;
    record(|| FileEvent::SyncFolder(folder.to_owned()));
    Ok(())
}

/// Other systems have no way to sync a folder.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "other systems can fail")]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await?,
        Err(_) => work(),
    }
}

/// What happens on the disk. Tests of power cuts look at it; otherwise nobody does.
#[cfg_attr(
    not(any(test, feature = "testing")),
    expect(dead_code, reason = "nobody looks at it")
)]
#[derive(Debug, Clone)]
pub enum FileEvent {
    /// A new file, which is known by its number from now on.
    Create(PathBuf, u64),
    /// Bytes at the end of the file of this number.
    Write(u64, Vec<u8>),
    /// The file of this number is durable, but perhaps not its name.
    SyncFile(u64),
    /// The file of the first name has the second name, too.
    Link(PathBuf, PathBuf),
    /// The file now has only the second name.
    Rename(PathBuf, PathBuf),
    /// A file is gone.
    Remove(PathBuf),
    /// A folder, and those above it that were missing.
    CreateFolder(PathBuf),
    /// A folder is gone.
    RemoveFolder(PathBuf),
    /// The names in the folder are durable.
    SyncFolder(PathBuf),
}

#[cfg(not(any(test, feature = "testing")))]
fn record(_: impl FnOnce() -> FileEvent) {}

#[cfg(not(any(test, feature = "testing")))]
fn id_of(_: &File) -> u64 {
    0
}

#[cfg(any(test, feature = "testing"))]
use recorder::{id_of, record};

/// Records what happens to files, for tests of power cuts.
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "only tests use it")]
pub mod recorder {
    use std::collections::HashSet;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex, Weak};

    use super::FileEvent;

    /// What happens in a folder, until this is dropped.
    pub struct FileRecording(Arc<Mutex<WatchedFolder>>);

    struct WatchedFolder {
        folder: PathBuf,
        files: HashSet<u64>,
        events: Vec<FileEvent>,
    }

    static RECORDINGS: Mutex<Vec<Weak<Mutex<WatchedFolder>>>> = Mutex::new(Vec::new());

    /// Remembers from now on what happens in a folder.
    pub fn watch(folder: &Path) -> FileRecording {
        let watched = Arc::new(Mutex::new(WatchedFolder {
            folder: folder.to_owned(),
            files: HashSet::new(),
            events: Vec::new(),
        }));
        RECORDINGS.lock().unwrap().push(Arc::downgrade(&watched));
        FileRecording(watched)
    }

    impl FileRecording {
        /// The events in order.
        pub fn take(self) -> Vec<FileEvent> {
            std::mem::take(&mut self.0.lock().unwrap().events)
        }
    }

    pub(super) fn record(event: impl FnOnce() -> FileEvent) {
        let mut recordings = RECORDINGS.lock().unwrap();
        recordings.retain(|recording| recording.strong_count() > 0);
        if recordings.is_empty() {
            return;
        }
        let event = event();
        for recording in recordings.iter().filter_map(Weak::upgrade) {
            recording.lock().unwrap().add(&event);
        }
    }

    impl WatchedFolder {
        fn add(&mut self, event: &FileEvent) {
            let of_folder = match event {
                FileEvent::Create(path, file) if path.starts_with(&self.folder) => {
                    self.files.insert(*file);
                    true
                }
                FileEvent::Create(_, file) => {
                    self.files.remove(file);
                    false
                }
                FileEvent::Write(file, _) | FileEvent::SyncFile(file) => self.files.contains(file),
                FileEvent::Link(path, _)
                | FileEvent::Rename(path, _)
                | FileEvent::Remove(path)
                | FileEvent::CreateFolder(path)
                | FileEvent::RemoveFolder(path)
                | FileEvent::SyncFolder(path) => path.starts_with(&self.folder),
            };
            if of_folder {
                self.events.push(event.clone());
            }
        }
    }

    pub(super) fn id_of(file: &File) -> u64 {
        file.metadata().unwrap().ino()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn staged_files_of_a_crash_hinder_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let [path, staging] = ["a.vac", "a.vac.staged"].map(|name| folder.path().join(name));
        for left in ["a.vac.staged", "a.vac.2.staged"] {
            fs::write(folder.path().join(left), b"half").unwrap();
        }
        for expected in [CreateOutcome::New, CreateOutcome::Exists] {
            let bytes = Bytes::from_static(b"whole");
            let created = create(path.clone(), staging.clone(), bytes).await.unwrap();
            assert_eq!(created, expected);
            assert_eq!(fs::read(&path).unwrap(), b"whole");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
