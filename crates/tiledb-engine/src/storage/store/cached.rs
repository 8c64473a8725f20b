//! The bytes of files behind a network that the engine keeps on disk.
//!
//! A key is the endpoint and the bucket, the path, and the exact range that was asked for: a tile or a section. Requests are joined
//! from what is missing, so the neighbours of a tile decide how it's fetched, but not whether it's found again. Files that are read
//! whole or from their end need their size, too. It is kept with their last bytes, in one entry for each file, because the number of
//! bytes that are asked for depends on the number of fragments.
//!
//! The subtle thing is what may be kept. A name that is unique for ever always means the same bytes. The lists of commits and the
//! conditions of deletes are rewritten in place, so their key also has the entity tag from the listing. Everything else is never kept.
//! A storage doesn't look into the cache
//! before it has listed something in the same folder: a user who may not list the array doesn't get its bytes, even if somebody else
//! has fetched them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::{StreamExt, stream};
use tiledb_stores::disk_cache::{CachedEnd, CachedRange, DiskCache};

use super::{FileSuffix, Storage};
use crate::format::commit::CommitKind;
use crate::format::names::TimestampedName;
use crate::storage::coalesce::RequestPlan;
use crate::storage::listing::Listing;

/// Entries of one file that are read from disk at the same time.
const PARALLEL_LOOKUPS: usize = 16;
/// Hexadecimal digits of a UUID without dashes.
const UUID_DIGITS: usize = 32;

/// What the listings of an array have shown.
#[derive(Debug, Default)]
pub(super) struct ListedFiles {
    any: AtomicBool,
    /// The entity tags of files that may be rewritten in place.
    tags: Mutex<HashMap<String, Arc<str>>>,
}

impl ListedFiles {
    fn tags(&self) -> MutexGuard<'_, HashMap<String, Arc<str>>> {
        self.tags.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the store has listed a folder.
    pub fn add(&self, folder: &str, listing: &Listing) {
        let mut tags = self.tags();
        for file in &listing.files {
            let path = format!("{}/{}", folder.trim_matches('/'), file.name);
            if NameKind::of(&path) != Some(NameKind::Rewritten) {
                continue;
            }
            match &file.e_tag {
                Some(tag) => tags.insert(path, tag.as_str().into()),
                None => tags.remove(&path),
            };
        }
        self.any.store(true, Ordering::Relaxed);
    }

    /// Forgets the entity tag of a file that was rewritten or removed here.
    pub fn forget(&self, file: &str) {
        self.tags().remove(file.trim_matches('/'));
    }
}

/// The reason for which the bytes of a file may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameKind {
    /// It belongs to a fragment, whose name is unique for ever, and which is complete when a commit names it.
    OfFragment,
    /// Its name is unique for ever.
    Unique,
    /// Its name is unique, but it's rewritten in place.
    Rewritten,
}

impl NameKind {
    /// The kind of a file relative to the array; `None` if it must not be kept.
    fn of(file: &str) -> Option<Self> {
        let parts: Vec<&str> = file.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            ["__fragments", fragment, _] => has_unique_name(fragment).then_some(Self::OfFragment),
            ["__commits", name] => {
                let kind = match CommitKind::of(name) {
                    Some(CommitKind::Vacuum | CommitKind::Ignore) => Self::Unique,
                    Some(CommitKind::Consolidated | CommitKind::Delete | CommitKind::Update) => {
                        Self::Rewritten
                    }
                    _ => return None,
                };
                has_unique_name(name).then_some(kind)
            }
            ["__schema", "__enumerations", name] => has_uuid(name).then_some(Self::Unique),
            ["__schema" | "__fragment_meta" | "__meta" | "__group", name] => {
                has_unique_name(name).then_some(Self::Unique)
            }
            // Fragments lie beside these folders before version 12 of the format.
            [fragment, _] => has_unique_name(fragment).then_some(Self::OfFragment),
            _ => None,
        }
    }
}

/// Whether a name has times and a UUID.
fn has_unique_name(name: &str) -> bool {
    has_uuid(name) && !name.ends_with(".tmp") && TimestampedName::parse(name).is_ok()
}

fn has_uuid(name: &str) -> bool {
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    let is_hex = |part: &str| part.bytes().all(|digit| digit.is_ascii_hexdigit());
    let mut parts = stem.split('_');
    parts.any(|part| part.len() == UUID_DIGITS && is_hex(part))
}

/// A file whose bytes are kept.
pub(super) struct CachedFile<'a> {
    storage: &'a Storage,
    cache: Arc<DiskCache>,
    store: Arc<str>,
    path: Arc<str>,
    /// The entity tag that the file must have, if it's rewritten in place. Only all of it is kept then.
    tag: Option<Arc<str>>,
}

impl Storage {
    /// The entries of a file on disk, if it may be kept and the engine has a cache.
    pub(super) async fn cached_file(&self, file: &str) -> Option<CachedFile<'_>> {
        if !self.is_remote() || self.asks_store || !self.listed.any.load(Ordering::Relaxed) {
            return None;
        }
        let address = self.location.address()?;
        let kind = NameKind::of(file)?;
        if kind != NameKind::OfFragment && !address.has_whole_objects() {
            return None;
        }
        let store = Arc::clone(address.name()?);
        let path = self.location.path_of(file);
        let tag = match kind {
            NameKind::Rewritten => Some(self.listed.tags().get(file.trim_matches('/')).cloned()?),
            NameKind::OfFragment | NameKind::Unique => None,
        };
        let path = match &tag {
            // No path has a line break.
            Some(tag) => format!("{path}\n{tag}").into(),
            None => path.as_ref().into(),
        };
        let cache = self.engine.disk_cache_opened().await?;
        Some(CachedFile {
            storage: self,
            cache,
            store,
            path,
            tag,
        })
    }
}

impl CachedFile<'_> {
    /// The last `len` bytes of the file, or all if it is shorter.
    pub async fn end(&self, len: u64) -> Option<FileSuffix> {
        let key = CachedRange::end(Arc::clone(&self.store), Arc::clone(&self.path));
        let kept = self.cache.get_end(&key).await?;
        let wanted = usize::try_from(len.min(kept.object_bytes)).ok()?;
        let bytes = tail(&kept.bytes, wanted)?;
        self.count(bytes.len());
        Some(FileSuffix {
            bytes,
            file_bytes: kept.object_bytes,
        })
    }

    /// The size of the file.
    pub async fn size(&self) -> Option<u64> {
        let key = CachedRange::end(Arc::clone(&self.store), Arc::clone(&self.path));
        let kept = self.cache.get_end(&key).await?;
        Some(kept.object_bytes)
    }

    /// Keeps the size of a file, without any of its bytes.
    pub fn insert_size(&self, file_bytes: u64) {
        self.insert_end(&FileSuffix {
            bytes: Bytes::new(),
            file_bytes,
        });
    }

    pub fn insert_end(&self, end: &FileSuffix) {
        if self.tag.is_some() {
            return;
        }
        let end = CachedEnd {
            bytes: end.bytes.clone(),
            object_bytes: end.file_bytes,
        };
        let key = CachedRange::end(Arc::clone(&self.store), Arc::clone(&self.path));
        self.cache.insert_end(key, &end);
    }

    /// The whole file.
    pub async fn whole(&self) -> Option<Bytes> {
        self.end(u64::MAX).await.map(|end| end.bytes)
    }

    /// Keeps the whole file; `tag` is the entity tag of the answer.
    pub fn insert_whole(&self, bytes: &Bytes, tag: Option<&str>) {
        if self.tag.is_some() && self.tag.as_deref() != tag {
            return;
        }
        let end = CachedEnd {
            bytes: bytes.clone(),
            object_bytes: bytes.len() as u64,
        };
        let key = CachedRange::end(Arc::clone(&self.store), Arc::clone(&self.path));
        self.cache.insert_end(key, &end);
    }

    /// The ranges that are kept, in their order.
    pub async fn ranges(&self, ranges: &[Range<u64>]) -> Vec<Option<Bytes>> {
        let mut lookups = Vec::with_capacity(ranges.len());
        for range in ranges {
            lookups.push(self.range(range.clone()));
        }
        let found: Vec<_> = stream::iter(lookups)
            .buffered(PARALLEL_LOOKUPS)
            .collect()
            .await;
        if let Some(reads) = &self.storage.cache_reads
            && found.iter().all(Option::is_some)
        {
            reads.add_file();
        }
        found
    }

    async fn range(&self, range: Range<u64>) -> Option<Bytes> {
        if range.is_empty() {
            return Some(Bytes::new());
        }
        if self.tag.is_some() {
            return None;
        }
        let bytes = self.cache.get(&self.key(range)).await?;
        self.count(bytes.len());
        Some(bytes)
    }

    /// Keeps ranges that were fetched as `plan` says.
    pub fn insert_ranges(&self, ranges: &[Range<u64>], plan: &RequestPlan, fetched: &[Bytes]) {
        if self.tag.is_some() {
            return;
        }
        for ((range, bytes), request_bytes) in ranges.iter().zip(fetched).zip(plan.request_sizes())
        {
            // A slice keeps its whole request in memory until it's on disk, so a small part of one is copied.
            let bytes = if (bytes.len() as u64) < request_bytes / 2 {
                Bytes::copy_from_slice(bytes)
            } else {
                bytes.clone()
            };
            if !bytes.is_empty() {
                self.cache.insert(self.key(range.clone()), bytes);
            }
        }
    }

    fn key(&self, range: Range<u64>) -> CachedRange {
        CachedRange::new(Arc::clone(&self.store), Arc::clone(&self.path), range)
    }

    fn count(&self, bytes: usize) {
        if let Some(reads) = &self.storage.cache_reads {
            reads.add_hit(bytes as u64);
        }
        log::trace!("{}: {bytes} bytes from disk", self.path);
    }
}

/// The last `wanted` bytes. They're copied if they are a small part, because a slice keeps all in memory.
fn tail(bytes: &Bytes, wanted: usize) -> Option<Bytes> {
    let start = bytes.len().checked_sub(wanted)?;
    let tail = bytes.slice(start..);
    Some(if wanted < bytes.len() / 2 {
        Bytes::copy_from_slice(&tail)
    } else {
        tail
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn only_unique_names_are_kept() {
        for (file, expected) in [
            (
                "__fragments/__1_2_UUID_22/a0.tdb",
                Some(NameKind::OfFragment),
            ),
            (
                "__fragments/__1_2_UUID_22/__fragment_metadata.tdb",
                Some(NameKind::OfFragment),
            ),
            ("__1_2_UUID_4/a.tdb", Some(NameKind::OfFragment)),
            ("__1_2_UUID/a.tdb", Some(NameKind::OfFragment)),
            ("__UUID_1/a.tdb", Some(NameKind::OfFragment)),
            ("__schema/__1_2_UUID", Some(NameKind::Unique)),
            ("__schema/__enumerations/__UUID_0", Some(NameKind::Unique)),
            ("__fragment_meta/__1_2_UUID_22.meta", Some(NameKind::Unique)),
            ("__meta/__1_2_UUID", Some(NameKind::Unique)),
            ("__meta/__1_2_UUID.vac", Some(NameKind::Unique)),
            ("__group/__1_2_UUID_2", Some(NameKind::Unique)),
            ("__commits/__1_2_UUID_22.vac", Some(NameKind::Unique)),
            ("__commits/__1_2_UUID_22.ign", Some(NameKind::Unique)),
            ("__commits/__1_2_UUID_22.con", Some(NameKind::Rewritten)),
            ("__commits/__1_2_UUID_22.del", Some(NameKind::Rewritten)),
            ("__commits/__1_2_UUID_22.upd", Some(NameKind::Rewritten)),
            // Files that others write again, or that aren't TileDB's.
            ("__commits/__1_2_UUID_22.wrt", None),
            ("__array_schema.tdb", None),
            ("__schema/__array_schema.tdb", None),
            ("__tiledb_group.tdb", None),
            ("__meta/__1_2_UUID.tmp", None),
            ("__fragments/__1_2_3_22/a0.tdb", None),
            ("__fragments/backup/a0.tdb", None),
            ("__fragments/__1_2_UUID_22", None),
            ("__fragments/__1_2_UUID_22/deeper/a0.tdb", None),
            ("array/__schema/__1_2_UUID", None),
            ("notes/UUID", None),
            ("", None),
        ] {
            assert_eq!(
                NameKind::of(&file.replace("UUID", UUID)),
                expected,
                "{file}"
            );
        }
    }

    #[test]
    fn a_tail_is_exact_and_keeps_no_large_buffer() {
        let bytes = Bytes::from((0..100).collect::<Vec<u8>>());
        for wanted in [0, 1, 49, 50, 99, 100] {
            let found = tail(&bytes, wanted).unwrap();
            assert_eq!(found, bytes[100 - wanted..]);
        }
        assert_eq!(tail(&bytes, 60).unwrap().as_ptr(), bytes[40..].as_ptr());
        assert_ne!(tail(&bytes, 40).unwrap().as_ptr(), bytes[60..].as_ptr());
        assert_eq!(tail(&bytes, 101), None);
    }
}
