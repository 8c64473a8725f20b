//! Reading of files: whole, by their ends, and by ranges.

use std::ops::Range;

use bytes::Bytes;

use super::Storage;
use crate::error::{Error, Result, ResultExt};
use crate::storage::coalesce::{self, RequestPlan};

/// The end of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSuffix {
    /// The last bytes.
    pub bytes: Bytes,
    /// The size of the whole file.
    pub file_bytes: u64,
}

impl Storage {
    /// Reads a whole file.
    ///
    /// # Errors
    /// The file does not exist, or the store fails.
    pub async fn read(&self, file: &str) -> Result<Bytes> {
        if let Some(read) = self.ahead.as_ref().and_then(|ahead| ahead.take(file)) {
            return read;
        }
        of_files!(self, files => files.read(file).await)
    }

    /// Reads one range of a file; all of it, or an error.
    ///
    /// # Errors
    /// As [`read_ranges`](Self::read_ranges).
    pub async fn read_range(&self, file: &str, range: Range<u64>) -> Result<Bytes> {
        let slices = self.read_ranges(file, &[range]).await?;
        slices
            .into_iter()
            .next()
            .ok_or_else(|| Error::internal("one range was asked and none returned"))
    }

    /// Reads the last `len` bytes of a file, or all if it is shorter, in one request if the store can.
    ///
    /// # Errors
    /// The file does not exist, or the store fails.
    pub async fn read_suffix(&self, file: &str, len: u64) -> Result<FileSuffix> {
        if len == 0 {
            return self.suffix_by_size(file, len).await;
        }
        let ahead = self.ahead.as_ref();
        if let Some(read) = ahead.and_then(|ahead| ahead.take_end(file, len)) {
            return read;
        }
        of_files!(self, files => files.read_suffix(file, len).await)
    }

    /// As [`read_suffix`](Self::read_suffix) for each file; local files are read together.
    pub async fn read_suffixes(&self, files: &[String], len: u64) -> Vec<Result<FileSuffix>> {
        of_files!(self, place => place.read_suffixes(files, len).await)
    }

    /// Reads ranges of a file, which may be unsorted, overlapping and empty; the result has their order. Near ranges
    /// are fetched together, and the results are slices of what was fetched, so keeping one slice keeps all of its
    /// request.
    ///
    /// # Errors
    /// The file does not exist or is too short (`Corrupt`), or the store fails.
    pub async fn read_ranges(&self, file: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let plan = self.plan(file, ranges)?;
        of_files!(self, files => files.read_planned(file, ranges, &plan).await)
    }

    /// As [`read_ranges`](Self::read_ranges) for each of several files, which are read side by side. If they are local and their
    /// requests are small, one thread reads them all.
    ///
    /// # Errors
    /// As [`read_ranges`](Self::read_ranges).
    pub async fn read_files(&self, files: &[(String, Vec<Range<u64>>)]) -> Result<Vec<Vec<Bytes>>> {
        let plans = files
            .iter()
            .map(|(file, ranges)| self.plan(file, ranges))
            .collect::<Result<Vec<_>>>()?;
        of_files!(self, place => place.read_files(files, &plans).await)
    }

    pub(super) fn plan(&self, file: &str, ranges: &[Range<u64>]) -> Result<RequestPlan> {
        coalesce::plan(ranges, &self.io_options()).context("file", || file.to_owned())
    }

    /// Reads the end of a file from stores that must know its size first.
    pub(super) async fn suffix_by_size(&self, file: &str, len: u64) -> Result<FileSuffix> {
        let Some(info) = self.head(file).await? else {
            return Err(self.missing(file));
        };
        let start = info.bytes.saturating_sub(len);
        let bytes = self.read_range(file, start..info.bytes).await?;
        Ok(FileSuffix {
            bytes,
            file_bytes: info.bytes,
        })
    }
}
