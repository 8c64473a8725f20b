//! The sections of a fragment's metadata file, each read when it is needed.
//!
//! A section is located by an offset in the footer; the sections of one request are read together, and kept in the
//! metadata cache, because a fragment never changes. What comes with the footer is kept: all of a small file, and from a store behind a network as much as a request is worth. The metadata of versions 1 and 2 are one tile, read and kept as a
//! whole.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::layout::{FieldLayout, MetadataSection};
use super::{FieldTiles, Fragment, FragmentField};
use crate::error::{Error, Result, ResultExt};
use crate::format::commit;
use crate::format::delete_condition::decode_processed_conditions;
use crate::format::fragment::footer::Footer;
use crate::format::fragment::monolithic::{LAST_MONOLITHIC, MonolithicMetadata};
use crate::format::fragment::offsets::decode_u64s;
use crate::format::fragment::rtree::Mbrs;
use crate::format::schema::ArraySchema;
use crate::storage::{CacheKey, FileInfo, FileSuffix, Storage};

/// What is cached of a footer has this number in its key. Sections have the offset at which they start, and none starts there.
pub(in crate::array) const FOOTER: u64 = u64::MAX;

/// The end of a metadata file that came with its footer.
struct MetadataEnd {
    /// The offset of its first byte in the file.
    start: u64,
    bytes: Bytes,
}

impl MetadataEnd {
    /// The bytes of a range, if they are all here.
    fn part(&self, range: &Range<u64>) -> Option<Bytes> {
        let start = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(self.start)?).ok()?;
        let is_inside = start <= end && end <= self.bytes.len();
        is_inside.then(|| self.bytes.slice(start..end))
    }
}

/// Keeps the end of a fragment's metadata file, so that the sections in it need no other requests: if it is the whole file, or if
/// it was read from afar, where it is as long as a request is worth.
pub(in crate::array) fn keep_end(storage: &Storage, footer_key: CacheKey, end: &FileSuffix) {
    let len = end.bytes.len();
    let start = end.file_bytes.saturating_sub(len as u64);
    if start == 0 || storage.is_remote() {
        // The bytes may share a larger buffer with others.
        let bytes = Bytes::copy_from_slice(&end.bytes);
        let kept = MetadataEnd { start, bytes };
        storage.cache().insert(footer_key, kept, len);
    }
}

impl Fragment {
    /// Reads parts of the metadata file, from the cache if all of it is there.
    pub(super) async fn read_parts(
        &self,
        storage: &Storage,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        let kept = if ranges.is_empty() {
            return Ok(Vec::new());
        } else {
            storage
                .cache()
                .get::<MetadataEnd>(self.cache_key(storage, FOOTER))
        };
        let parts = kept.and_then(|kept| {
            let parts = ranges.iter().map(|range| kept.part(range));
            parts.collect::<Option<Vec<_>>>()
        });
        match parts {
            Some(parts) => Ok(parts),
            // The file is larger, or the footer names bytes beyond its end, which the store reports.
            None => storage.read_ranges(&self.metadata_path(), ranges).await,
        }
    }

    async fn read_part(&self, storage: &Storage, range: Range<u64>) -> Result<Bytes> {
        let parts = self.read_parts(storage, &[range]).await?;
        let part = parts.into_iter().next();
        part.ok_or_else(|| Error::internal("fewer ranges came back than were asked for"))
    }

    pub(super) async fn section_range(
        &self,
        storage: &Storage,
        start: u64,
        what: &str,
    ) -> Result<Range<u64>> {
        let path = self.metadata_path();
        let limit = self.footer_start.unwrap_or(u64::MAX);
        let mut end = self.section_end(start, limit);
        if end == u64::MAX {
            // This is the last section, and the footer was read from elsewhere. Bytes after the section do no harm.
            let bytes = storage.file_bytes(&path).await?;
            // The copy of the footer may be left of a fragment that a vacuum has removed.
            end = bytes.ok_or_else(|| {
                Error::not_found(format!("{}/{path} does not exist", storage.uri()))
            })?;
        }
        if end < start {
            return Err(Error::corrupt(format!(
                "the section \"{what}\" starts at {start} but no section or footer follows it"
            ))
            .with("file", path));
        }
        Ok(start..end)
    }

    pub(super) fn cache_key(&self, storage: &Storage, start: u64) -> CacheKey {
        storage.cache_key(&self.metadata_path(), start, &self.commit)
    }

    /// The single tile with all metadata of a fragment of versions 1 and 2; `None` for later versions.
    async fn monolithic(&self, storage: &Storage) -> Result<Option<Arc<MonolithicMetadata>>> {
        if self.footer.version.since(LAST_MONOLITHIC + 1) {
            return Ok(None);
        }
        let path = self.metadata_path();
        let dense = self.footer.dense;
        let metadata = load_monolithic(storage, &path, &self.commit, &self.schema, dense).await;
        metadata.map(Some).context("fragment", || &self.name.name)
    }

    /// The MBR of every tile of a sparse fragment. If there is only one tile, the footer has its MBR, so that arrays of
    /// many small fragments are planned without reading the metadata of each.
    pub async fn mbrs(&self, storage: &Storage) -> Result<Arc<Mbrs>> {
        if self.footer.sparse_tile_count == 1
            && let Some(domain) = &self.footer.non_empty_domain
            && let Some(mbrs) = Mbrs::of_only_tile(domain, &self.schema)
        {
            return Ok(Arc::new(mbrs));
        }
        if let Some(metadata) = self.monolithic(storage).await? {
            return Ok(Arc::clone(&metadata.mbrs));
        }
        let start = self.footer.sections.rtree;
        let path = self.metadata_path();
        let load = async {
            let range = self.section_range(storage, start, "R-tree").await?;
            let bytes = self.read_part(storage, range).await?;
            let tile = storage
                .decode_generic_tile(&bytes, "R-tree")
                .context("file", || &path)?;
            let Footer {
                version,
                sparse_tile_count,
                ..
            } = *self.footer;
            let mbrs = Mbrs::decode(&tile.data, &self.schema, version, sparse_tile_count)
                .context("file", || &path)?;
            let size = tile.data.len();
            Ok((mbrs, size))
        };
        storage
            .cache()
            .get_or_load(self.cache_key(storage, start), load)
            .await
            .context("fragment", || &self.name.name)
    }

    /// The names of the deletes that the fragment has processed, without folder and extension.
    pub async fn processed_conditions(&self, storage: &Storage) -> Result<Arc<HashSet<String>>> {
        let Some(start) = self.footer.sections.processed_conditions else {
            return Ok(Arc::default());
        };
        let load = async {
            let paths = self.processed_paths(storage).await?;
            let bytes = paths.iter().map(|path| path.len().saturating_mul(2)).sum();
            let names = paths.iter().map(|p| commit::path_name(p).to_owned());
            Ok((names.collect(), bytes))
        };
        storage
            .cache()
            .get_or_load(self.cache_key(storage, start), load)
            .await
            .context("fragment", || &self.name.name)
    }

    /// The files of the deletes that the fragment has processed, in the order that the indices of cells refer to.
    pub async fn processed_paths(&self, storage: &Storage) -> Result<Vec<String>> {
        const WHAT: &str = "processed conditions";
        let Some(start) = self.footer.sections.processed_conditions else {
            return Ok(Vec::new());
        };
        let path = self.metadata_path();
        let range = self.section_range(storage, start, WHAT).await?;
        let bytes = self.read_part(storage, range).await?;
        let tile = storage
            .decode_generic_tile(&bytes, WHAT)
            .context("file", || &path)?;
        decode_processed_conditions(&tile.data).context("file", || &path)
    }

    /// The byte ranges of the tiles of each of `fields`. Lists that are not cached are read together.
    pub async fn field_tiles(
        &self,
        storage: &Storage,
        fields: &[FragmentField],
    ) -> Result<Vec<FieldTiles>> {
        let layouts = fields
            .iter()
            .map(|f| self.layout(*f))
            .collect::<Result<Vec<_>>>()?;
        let sections = layouts
            .iter()
            .flat_map(FieldLayout::sections)
            .collect::<Vec<_>>();
        let mut lists = self
            .load_sections(storage, &sections)
            .await
            .context("fragment", || &self.name.name)?
            .into_iter();
        layouts
            .into_iter()
            .map(|layout| layout.assemble(&mut lists))
            .collect::<Result<_>>()
            .context("fragment", || &self.name.name)
    }

    async fn load_sections(
        &self,
        storage: &Storage,
        sections: &[MetadataSection],
    ) -> Result<Vec<Arc<Vec<u64>>>> {
        if let Some(metadata) = self.monolithic(storage).await? {
            return sections.iter().map(|s| s.of(&metadata)).collect();
        }
        let path = self.metadata_path();
        let cache = storage.cache();
        let mut lists = Vec::with_capacity(sections.len());
        let mut missing = Vec::new();
        for section in sections {
            let start = section.start(&self.footer.sections)?;
            let key = self.cache_key(storage, start);
            let cached = cache.get::<Vec<u64>>(key.clone());
            if cached.is_none() {
                missing.push(self.section_range(storage, start, section.what()).await?);
            }
            lists.push((cached, key));
        }
        let mut fetched = self.read_parts(storage, &missing).await?.into_iter();
        let mut loaded = Vec::with_capacity(sections.len());
        for ((list, key), section) in lists.into_iter().zip(sections) {
            if let Some(list) = list {
                loaded.push(list);
                continue;
            }
            let bytes = fetched
                .next()
                .ok_or_else(|| Error::internal("fewer ranges came back than were asked for"))?;
            let tile = storage
                .decode_generic_tile(&bytes, section.what())
                .context("file", || &path)?;
            let values = decode_u64s(&tile.data, section.what()).context("file", || &path)?;
            let size = values.len().saturating_mul(8);
            loaded.push(cache.insert(key, values, size));
        }
        Ok(loaded)
    }
}

/// All metadata of a fragment of version 1 or 2; `file` is the store's information on their file.
pub(in crate::array) async fn load_monolithic(
    storage: &Storage,
    path: &str,
    file: &FileInfo,
    schema: &ArraySchema,
    dense: bool,
) -> Result<Arc<MonolithicMetadata>> {
    let load = async {
        let bytes = storage.read(path).await?;
        let tile = storage.decode_generic_tile(&bytes, "fragment metadata")?;
        let metadata = MonolithicMetadata::decode(&tile.data, schema, dense)?;
        let size = metadata.memory_bytes();
        Ok((metadata, size))
    };
    let key = storage.cache_key(path, 0, file);
    storage
        .cache()
        .get_or_load(key, load)
        .await
        .context("file", || path)
}
