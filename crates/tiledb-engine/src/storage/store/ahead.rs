//! Files that are read before they are needed, because a store behind a network answers many requests in the time of one.
//!
//! Opening an array is a chain: each file names the next. What will be named can be seen in the listing, so all of it is asked for
//! at once, and the chain finds it in memory. If something isn't there, the chain asks the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::{StreamExt, stream};

use super::{FileSuffix, Storage};
use crate::error::Result;

/// Small files read at the same time.
pub(in crate::storage) const SMALL_READS: usize = 256;

/// Files in memory, or why they can't be read, until they are taken.
#[derive(Default)]
pub(in crate::storage) struct FilesAhead {
    whole: Mutex<HashMap<String, Result<Bytes>>>,
    ends: Mutex<HashMap<String, Result<FileSuffix>>>,
}

/// Files that are about to be read.
#[derive(Debug, Default)]
pub struct ExpectedFiles {
    /// Those that are read whole.
    pub whole: Vec<String>,
    /// Those whose end is read.
    pub ends: Vec<String>,
    /// The bytes of each end.
    pub end_bytes: u64,
}

/// One request.
enum AheadRequest {
    Whole(String),
    End(String, u64),
}

impl ExpectedFiles {
    fn requests(self) -> impl Iterator<Item = AheadRequest> {
        let ends = self.ends.into_iter();
        let ends = ends.map(move |file| AheadRequest::End(file, self.end_bytes));
        self.whole.into_iter().map(AheadRequest::Whole).chain(ends)
    }
}

impl FilesAhead {
    /// Takes a whole file. A second read asks the store, which may have more of a file that was being written.
    pub fn take(&self, file: &str) -> Option<Result<Bytes>> {
        locked(&self.whole).remove(file)
    }

    /// Takes the end of a file if it is as long as `len`, or all of the file.
    pub fn take_end(&self, file: &str, len: u64) -> Option<Result<FileSuffix>> {
        let read = locked(&self.ends).remove(file)?;
        let is_enough = |end: &FileSuffix| end.bytes.len() as u64 >= len.min(end.file_bytes);
        read.as_ref().map_or(true, is_enough).then_some(read)
    }
}

fn locked<T>(files: &Mutex<T>) -> MutexGuard<'_, T> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Storage {
    /// The storage with files in memory that are about to be read. If a file can't be read, reading it from there fails with the same
    /// error, so that nobody waits for a failing store twice.
    #[must_use]
    pub async fn with_read_ahead(&self, wanted: ExpectedFiles) -> Self {
        let ahead = FilesAhead::default();
        let read =
            stream::iter(wanted.requests()).map(|request| self.read_one_ahead(request, &ahead));
        read.buffer_unordered(SMALL_READS).collect::<()>().await;
        self.clone().with_files_ahead(Some(Arc::new(ahead)))
    }

    /// The storage that asks the store for every file.
    #[must_use]
    pub fn without_read_ahead(&self) -> Self {
        self.clone().with_files_ahead(None)
    }

    async fn read_one_ahead(&self, request: AheadRequest, ahead: &FilesAhead) {
        match request {
            AheadRequest::Whole(file) => {
                let read = self.read(&file).await;
                locked(&ahead.whole).insert(file, read);
            }
            AheadRequest::End(file, len) => {
                let read = self.read_suffix(&file, len).await;
                locked(&ahead.ends).insert(file, read);
            }
        }
    }
}
