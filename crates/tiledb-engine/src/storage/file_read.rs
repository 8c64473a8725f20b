//! Reading of local files on threads that may block.
//!
//! A file is opened and all ranges of a call are read in one task, because switching threads costs as much as reading
//! some kilobytes. Each range takes a single system call where the system allows it. If the caller stops waiting, the
//! thread stops at the next piece.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use tokio::runtime::Handle;

use super::buffers::{FileBuffers, RecycledBytes};

/// Bytes read between two checks whether the caller still waits.
const PIECE_BYTES: usize = 8 << 20;

/// The part of a file to read.
#[derive(Debug, Clone)]
pub(super) enum WantedPart {
    /// The whole file.
    Whole,
    /// The last bytes, or all of a shorter file.
    End(u64),
    /// These ranges.
    Ranges(Vec<Range<u64>>),
}

/// The result of reading a file.
#[derive(Debug)]
pub(super) struct FileRead {
    /// The size of the file.
    pub(super) file_bytes: u64,
    /// The bytes; empty if one of the ranges ends beyond the file.
    pub(super) buffers: Vec<Bytes>,
}

/// Opens a file and reads it. A folder is an error.
pub(super) async fn open(
    path: PathBuf,
    wanted: WantedPart,
    buffers: FileBuffers,
) -> io::Result<FileRead> {
    blocking(move |waiter| open_and_read(path, wanted, &buffers, waiter)).await
}

/// Opens files and reads them, one after the other.
pub(super) async fn open_all(
    files: Vec<(PathBuf, WantedPart)>,
    buffers: FileBuffers,
) -> io::Result<Vec<io::Result<FileRead>>> {
    blocking(move |waiter| {
        let files = files.into_iter();
        let reads = files.map(|(path, wanted)| open_and_read(path, wanted, &buffers, waiter));
        Ok(reads.collect())
    })
    .await
}

/// Reads `ranges` of an open file, which the caller has checked against its size.
pub(super) async fn read(
    mut file: File,
    ranges: Vec<Range<u64>>,
    buffers: FileBuffers,
) -> io::Result<Vec<Bytes>> {
    blocking(move |waiter| read_all(&mut file, ranges, &buffers, waiter)).await
}

/// Runs `work` on a thread that may block; the `Weak` expires when the caller stops waiting.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Weak<()>) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let waiting = Arc::new(());
    let waiter = Arc::downgrade(&waiting);
    let result = match Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(move || work(&waiter)).await?,
        Err(_) => work(&waiter),
    };
    drop(waiting);
    result
}

#[expect(
    clippy::single_range_in_vec_init,
    reason = "a list of one range is meant"
)]
fn open_and_read(
    path: PathBuf,
    wanted: WantedPart,
    buffers: &FileBuffers,
    waiter: &Weak<()>,
) -> io::Result<FileRead> {
    let mut file = open_at_once(&path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "a folder, no file"));
    }
    if !metadata.is_file() {
        let what = "a pipe, a socket or a device, where a file is expected";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let file_bytes = metadata.len();
    let ranges = match wanted {
        WantedPart::Whole => vec![0..file_bytes],
        WantedPart::End(len) => vec![file_bytes.saturating_sub(len)..file_bytes],
        WantedPart::Ranges(ranges) => ranges,
    };
    let buffers = if ranges.iter().all(|range| range.end <= file_bytes) {
        read_all(&mut file, ranges, buffers, waiter)?
    } else {
        Vec::new()
    };
    Ok(FileRead {
        file_bytes,
        buffers,
    })
}

/// Opens a file for reading; a pipe that nobody writes to is opened, too, instead of waited for.
fn open_at_once(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options.open(path)
}

fn read_all(
    file: &mut File,
    ranges: Vec<Range<u64>>,
    buffers: &FileBuffers,
    waiter: &Weak<()>,
) -> io::Result<Vec<Bytes>> {
    let ranges = ranges.into_iter();
    ranges
        .map(|range| read_range(file, range, buffers, waiter))
        .collect()
}

fn read_range(
    file: &mut File,
    range: Range<u64>,
    buffers: &FileBuffers,
    waiter: &Weak<()>,
) -> io::Result<Bytes> {
    let len = range.end.saturating_sub(range.start);
    let mut buffer = RecycledBytes::new(usize::try_from(len).map_err(io::Error::other)?, buffers)?;
    file.seek(SeekFrom::Start(range.start))?;
    let mut filled = 0;
    while let Some(rest) = buffer
        .as_mut_slice()
        .get_mut(filled..)
        .filter(|rest| !rest.is_empty())
    {
        if waiter.strong_count() == 0 {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "cancelled"));
        }
        let piece = rest.len().min(PIECE_BYTES);
        match file.read(rest.get_mut(..piece).unwrap_or_default()) {
            Ok(0) => {
                let end = range.start + filled as u64;
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!("the file now ends at {end}, before byte {}", range.end),
                ));
            }
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(buffer.freeze())
}
#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::memory::idle::IdleAccount;

    #[test]
    fn reads_ranges_without_a_runtime_and_stops_when_nobody_waits() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let ranges = vec![3..5, 0..10, 9..9];
        let read = futures::executor::block_on(read(
            file.try_clone().unwrap(),
            ranges,
            IdleAccount::closed(),
        ))
        .unwrap();
        assert_eq!(read, [&b"34"[..], b"0123456789", b""]);

        let nobody = Weak::new();
        let error = read_range(&mut file, 0..5, &IdleAccount::closed(), &nobody).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn a_file_that_shrank_is_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let waiting = Arc::new(());
        let error = read_range(
            &mut file,
            4..20,
            &IdleAccount::closed(),
            &Arc::downgrade(&waiting),
        )
        .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(error.to_string().contains("ends at 10"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn pipes_and_devices_are_no_files_and_nobody_waits_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [pipe, PathBuf::from("/dev/zero")] {
            let opened =
                futures::executor::block_on(open(path, WantedPart::Whole, IdleAccount::closed()));
            let error = opened.unwrap_err();
            assert!(error.to_string().starts_with("a pipe,"), "{error}");
        }
    }

    #[test]
    fn ends_of_files_and_what_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "0123456789").unwrap();
        let open = |wanted| {
            futures::executor::block_on(open(path.clone(), wanted, IdleAccount::closed())).unwrap()
        };
        assert_eq!(open(WantedPart::Whole).buffers, [&b"0123456789"[..]]);
        assert_eq!(open(WantedPart::End(3)).buffers, [&b"789"[..]]);
        assert_eq!(open(WantedPart::End(30)).buffers, [&b"0123456789"[..]]);
        let beyond = open(WantedPart::Ranges(vec![0..1, 9..11]));
        assert_eq!((beyond.file_bytes, beyond.buffers.len()), (10, 0));
        let paths = [folder.path().to_owned(), folder.path().join("g"), path];
        let ends = paths.map(|path| (path, WantedPart::End(2))).to_vec();
        let ends = futures::executor::block_on(open_all(ends, IdleAccount::closed())).unwrap();
        let missing = |e: &io::Result<FileRead>| e.as_ref().unwrap_err().kind();
        assert_eq!(missing(&ends[0]), io::ErrorKind::NotFound);
        assert_eq!(missing(&ends[1]), io::ErrorKind::NotFound);
        assert_eq!(ends[2].as_ref().unwrap().buffers, [&b"89"[..]]);
    }
}
