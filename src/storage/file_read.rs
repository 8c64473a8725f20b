//! Reads ranges of an open local file on a thread that may block.
//!
//! All ranges of a call are read in one go, since going to another thread costs as much as reading some
//! kilobytes. A range is one system call as far as the system allows; zeroing its buffer first is cheaper than
//! reading it in growing pieces. When the caller no longer waits, the thread stops at the next piece.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use tokio::runtime::Handle;

/// How much is read between two looks at whether anybody still waits.
const PIECE_BYTES: usize = 8 << 20;

/// Reads `ranges`, which the caller has checked against the size of the file.
pub(super) async fn read(mut file: File, ranges: Vec<Range<u64>>) -> io::Result<Vec<Bytes>> {
    let waiting = Arc::new(());
    let waiter = Arc::downgrade(&waiting);
    let work = move || {
        ranges
            .into_iter()
            .map(|range| read_range(&mut file, range, &waiter))
            .collect()
    };
    let result = match Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await?,
        Err(_) => work(),
    };
    drop(waiting);
    result
}

fn read_range(file: &mut File, range: Range<u64>, waiter: &Weak<()>) -> io::Result<Bytes> {
    let len = range.end.saturating_sub(range.start);
    let len = usize::try_from(len).map_err(io::Error::other)?;
    let mut buffer = Vec::new();
    buffer
        .try_reserve_exact(len)
        .map_err(|source| io::Error::new(io::ErrorKind::OutOfMemory, source))?;
    buffer.resize(len, 0);
    file.seek(SeekFrom::Start(range.start))?;
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
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
    Ok(buffer.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn reads_ranges_without_a_runtime_and_stops_when_nobody_waits() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let ranges = vec![3..5, 0..10, 9..9];
        let read = futures::executor::block_on(read(file.try_clone().unwrap(), ranges)).unwrap();
        assert_eq!(read, [&b"34"[..], b"0123456789", b""]);

        let nobody = Weak::new();
        let error = read_range(&mut file, 0..5, &nobody).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn a_file_that_shrank_is_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let waiting = Arc::new(());
        let error = read_range(&mut file, 4..20, &Arc::downgrade(&waiting)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(error.to_string().contains("ends at 10"), "{error}");
    }
}
