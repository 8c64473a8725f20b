//! Takes the place of the cache on disk in a build without it.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::ops::Range;

use bytes::Bytes;

use super::{FileSuffix, Storage};
use crate::storage::coalesce::RequestPlan;
use crate::storage::listing::Listing;

/// The listings of an array, which nobody asks for.
#[derive(Debug, Default)]
pub(super) struct UnlistedFiles;

impl UnlistedFiles {
    pub fn add(&self, _: &str, _: &Listing) {}

    pub fn forget(&self, _: &str) {}
}

/// A file whose bytes are kept, of which there is none.
#[allow(dead_code, reason = "nothing makes one")]
pub(super) struct AbsentFile<'a> {
    never: Infallible,
    storage: PhantomData<&'a Storage>,
}

impl Storage {
    pub(super) async fn cached_file(&self, _: &str) -> Option<AbsentFile<'_>> {
        // Only the cache looks at these.
        let _ = (self.asks_store, &self.cache_reads, self.location.address());
        None
    }
}

impl AbsentFile<'_> {
    pub async fn end(&self, _: u64) -> Option<FileSuffix> {
        match self.never {}
    }

    pub async fn size(&self) -> Option<u64> {
        match self.never {}
    }

    pub fn insert_size(&self, _: u64) {
        match self.never {}
    }

    pub fn insert_end(&self, _: &FileSuffix) {
        match self.never {}
    }

    pub async fn whole(&self) -> Option<Bytes> {
        match self.never {}
    }

    pub fn insert_whole(&self, _: &Bytes, _: Option<&str>) {
        match self.never {}
    }

    pub async fn ranges(&self, _: &[Range<u64>]) -> Vec<Option<Bytes>> {
        match self.never {}
    }

    pub fn insert_ranges(&self, _: &[Range<u64>], _: &RequestPlan, _: &[Bytes]) {
        match self.never {}
    }
}
