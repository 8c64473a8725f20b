//! The sections of a fragment's metadata file, each read when it is needed.
//!
//! A section is found by an offset in the footer; those of one request are read in one go, and kept in the metadata
//! cache: a fragment never changes.

use std::ops::Range;
use std::sync::Arc;

use super::files::FieldLayout;
use super::{FieldTiles, Fragment, FragmentField};
use crate::error::{Error, Result, ResultExt};
use crate::filter::generic_tile;
use crate::format::fragment::offsets::decode_u64s;
use crate::format::fragment::rtree::Mbrs;
use crate::storage::{CacheKey, Storage};

/// A section of the metadata file that is a list of `u64`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Section {
    pub start: u64,
    pub what: &'static str,
}

impl Fragment {
    fn section_range(&self, start: u64, what: &str) -> Result<Range<u64>> {
        let limit = self.footer_start.unwrap_or(u64::MAX);
        let end = self.footer.section_end(start, limit);
        if end == u64::MAX || end < start {
            return Err(Error::corrupt(format!(
                "the section \"{what}\" starts at {start} but no section or footer follows it"
            ))
            .with("file", self.metadata_path()));
        }
        Ok(start..end)
    }

    fn cache_key(&self, storage: &Storage, start: u64) -> CacheKey {
        storage.cache_key(&self.metadata_path(), start, &self.commit)
    }

    /// The MBR of every tile of a sparse fragment.
    pub async fn mbrs(&self, storage: &Storage) -> Result<Arc<Mbrs>> {
        let start = self.footer.sections.rtree;
        let path = self.metadata_path();
        let load = async {
            let range = self.section_range(start, "R-tree")?;
            let bytes = storage.read_range(&path, range).await?;
            let tile = generic_tile::decode(&bytes, "R-tree", storage.encryption_key())
                .context("file", || &path)?;
            let mbrs = Mbrs::decode(&tile.data, &self.schema, self.footer.sparse_tile_count)
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

    /// Where the tiles of each of `fields` lie. What the cache lacks is read in one go.
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
        let lists = self
            .load_sections(storage, &sections)
            .await
            .context("fragment", || &self.name.name)?;
        let mut lists = lists.into_iter();
        layouts
            .into_iter()
            .map(|layout| layout.assemble(&mut lists))
            .collect::<Result<_>>()
            .context("fragment", || &self.name.name)
    }

    async fn load_sections(
        &self,
        storage: &Storage,
        sections: &[Section],
    ) -> Result<Vec<Arc<Vec<u64>>>> {
        let path = self.metadata_path();
        let cache = storage.cache();
        let mut lists = Vec::with_capacity(sections.len());
        let mut missing = Vec::new();
        for section in sections {
            let cached = cache.get::<Vec<u64>>(self.cache_key(storage, section.start));
            if cached.is_none() {
                missing.push(self.section_range(section.start, section.what)?);
            }
            lists.push(cached);
        }
        let mut fetched = storage.read_ranges(&path, &missing).await?.into_iter();
        let mut loaded = Vec::with_capacity(sections.len());
        for (list, section) in lists.into_iter().zip(sections) {
            if let Some(list) = list {
                loaded.push(list);
                continue;
            }
            let bytes = fetched
                .next()
                .ok_or_else(|| Error::internal("fewer ranges came back than were asked for"))?;
            let tile = generic_tile::decode(&bytes, section.what, storage.encryption_key())
                .context("file", || &path)?;
            let values = decode_u64s(&tile.data, section.what).context("file", || &path)?;
            let size = values.len().saturating_mul(8);
            loaded.push(cache.insert(self.cache_key(storage, section.start), values, size));
        }
        Ok(loaded)
    }
}
