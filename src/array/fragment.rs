//! A fragment of a snapshot: its footer, and its other metadata on demand.
//!
//! The footer is parsed at open. Everything else in `__fragment_metadata.tdb` (specification: "Fragment Metadata
//! File") is a section of its own, found by an offset in the footer; sections are read only for the fields a query
//! touches, several in one request, and kept in the metadata cache: a fragment never changes.

use std::ops::Range;
use std::sync::Arc;

use super::window::Visibility;
use crate::error::{Error, Result, ResultExt};
use crate::filter::generic_tile;
use crate::format::datatype::Datatype;
use crate::format::fragment::footer::Footer;
use crate::format::fragment::offsets::decode_u64s;
use crate::format::fragment::rtree::Mbrs;
use crate::format::fragment::slots::Slots;
use crate::format::names::TimestampedName;
use crate::format::schema::{ArraySchema, CellValNum};
use crate::storage::{CacheKey, FileInfo, Storage};

/// The file that holds all metadata of a fragment.
pub const METADATA_FILE: &str = "__fragment_metadata.tdb";

/// The least a chunk takes; it stands for at most `u32::MAX` bytes.
const CHUNK_HEADER_BYTES: u64 = 12;

/// Position of a tile within its fragment, in the fragment's tile order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TileIdx(pub u64);

impl TileIdx {
    /// As an index into the per-tile vectors.
    pub fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// A field of a fragment's own schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FragmentField {
    /// The dimension of this number.
    Dimension(usize),
    /// The attribute of this number.
    Attribute(usize),
    /// The timestamp of each cell, in fragments consolidated with timestamps.
    Timestamps,
}

/// One committed fragment.
#[derive(Debug)]
pub struct Fragment {
    /// The parsed name.
    pub name: TimestampedName,
    /// The folder of its files, relative to the array.
    pub folder: String,
    /// How much of it the snapshot's window shows.
    pub visibility: Visibility,
    /// The schema it was written with.
    pub schema: Arc<ArraySchema>,
    /// The footer.
    pub footer: Arc<Footer>,
    pub(super) slots: Slots,
    pub(super) footer_start: Option<u64>,
    pub(super) commit: FileInfo,
}

/// Where the tiles of one file lie.
#[derive(Debug, Clone)]
pub struct TileFile {
    /// The file, relative to the array.
    pub path: String,
    bytes: u64,
    offsets: Arc<Vec<u64>>,
}

impl TileFile {
    /// The bytes of one tile.
    pub fn tile(&self, tile: TileIdx) -> Result<Range<u64>> {
        let missing = || {
            Error::corrupt(format!(
                "tile {} is asked for but the metadata lists {} tiles",
                tile.0,
                self.offsets.len()
            ))
            .with("file", &self.path)
        };
        let start = *self.offsets.get(tile.get()).ok_or_else(missing)?;
        let end = self
            .offsets
            .get(tile.get().saturating_add(1))
            .copied()
            .unwrap_or(self.bytes);
        if start > end || end > self.bytes {
            return Err(Error::corrupt(format!(
                "tile {} spans bytes {start} to {end} but the file has {} bytes",
                tile.0, self.bytes
            ))
            .with("file", &self.path));
        }
        Ok(start..end)
    }
}

/// Where the tiles of one field lie.
#[derive(Debug, Clone)]
pub struct FieldTiles {
    /// Fixed values, or the offsets of a var-sized field.
    pub values: TileFile,
    /// The data of a var-sized field, and the unfiltered size of each tile.
    pub var: Option<(TileFile, Arc<Vec<u64>>)>,
    /// The validity of a nullable attribute.
    pub validity: Option<TileFile>,
}

impl FieldTiles {
    /// Unfiltered bytes of the var tile, 0 for a fixed-size field.
    pub fn var_bytes(&self, tile: TileIdx) -> Result<usize> {
        let Some((file, sizes)) = &self.var else {
            return Ok(0);
        };
        let size = sizes.get(tile.get()).copied().ok_or_else(|| {
            Error::corrupt(format!("the size of var tile {} is not recorded", tile.0))
                .with("file", &file.path)
        })?;
        let Range { start, end } = file.tile(tile)?;
        let most = ((end - start) / CHUNK_HEADER_BYTES).saturating_mul(u64::from(u32::MAX));
        if size > most {
            return Err(Error::corrupt(format!(
                "var tile {} is said to hold {size} bytes, more than its {} filtered bytes can stand for",
                tile.0,
                end - start
            ))
            .with("file", &file.path));
        }
        Ok(usize::try_from(size)?)
    }
}

/// A section of the metadata file that is a list of `u64`.
#[derive(Debug, Clone, Copy)]
struct Section {
    start: u64,
    what: &'static str,
}

impl Fragment {
    /// Cells of a full tile.
    pub fn cells_per_tile(&self) -> u64 {
        if self.footer.dense {
            self.footer.last_tile_cell_count
        } else {
            self.schema.capacity
        }
    }

    /// Cells of one tile of a sparse fragment.
    pub fn sparse_tile_cells(&self, tile: TileIdx) -> Result<usize> {
        let last = self.footer.sparse_tile_count.checked_sub(1);
        let cells = if last == Some(tile.0) {
            self.footer.last_tile_cell_count
        } else {
            self.schema.capacity
        };
        Ok(usize::try_from(cells)?)
    }

    /// Cells of a sparse fragment, all versions of a cell counted.
    pub fn sparse_cells(&self) -> u64 {
        match self.footer.sparse_tile_count {
            0 => 0,
            tiles => (tiles - 1)
                .saturating_mul(self.schema.capacity)
                .saturating_add(self.footer.last_tile_cell_count),
        }
    }

    fn metadata_path(&self) -> String {
        format!("{}/{METADATA_FILE}", self.folder)
    }

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
            let tile = generic_tile::decode(&bytes, "R-tree").context("file", || &path)?;
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
            let tile = generic_tile::decode(&bytes, section.what).context("file", || &path)?;
            let values = decode_u64s(&tile.data, section.what).context("file", || &path)?;
            let size = values.len().saturating_mul(8);
            loaded.push(cache.insert(self.cache_key(storage, section.start), values, size));
        }
        Ok(loaded)
    }

    fn layout(&self, field: FragmentField) -> Result<FieldLayout> {
        let (slot, stem, var, nullable) = match field {
            FragmentField::Dimension(i) => {
                let dimension = self.schema.dimensions.get(i);
                let var = dimension.is_some_and(|d| d.cell_val_num == CellValNum::Var);
                (self.slots.dimension(i), format!("d{i}"), var, false)
            }
            FragmentField::Attribute(i) => {
                let attribute = self.schema.attributes.get(i);
                let var = attribute.is_some_and(|a| a.cell_val_num == CellValNum::Var);
                let nullable = attribute.is_some_and(|a| a.nullable);
                (self.slots.attribute(i), format!("a{i}"), var, nullable)
            }
            FragmentField::Timestamps => {
                let slot = self.slots.timestamps().ok_or_else(|| {
                    Error::internal("the fragment has no timestamps")
                        .with("fragment", &self.name.name)
                })?;
                (slot, "t".to_owned(), false, false)
            }
        };
        let sections = &self.footer.sections;
        let file = |suffix: &str, sizes: &[u64], offsets: &[u64], what| {
            Ok::<_, Error>(FileLayout {
                path: format!("{}/{stem}{suffix}.tdb", self.folder),
                bytes: at(sizes, slot)?,
                offsets: Section {
                    start: at(offsets, slot)?,
                    what,
                },
            })
        };
        let footer = &self.footer;
        Ok(FieldLayout {
            values: file(
                "",
                &footer.file_sizes,
                &sections.tile_offsets,
                "tile offsets",
            )?,
            var: if var {
                let sizes = Section {
                    start: at(&sections.var_sizes, slot)?,
                    what: "var tile sizes",
                };
                let data = file(
                    "_var",
                    &footer.var_file_sizes,
                    &sections.var_offsets,
                    "var tile offsets",
                )?;
                Some((data, sizes))
            } else {
                None
            },
            validity: if nullable {
                Some(file(
                    "_validity",
                    &footer.validity_file_sizes,
                    &sections.validity_offsets,
                    "validity tile offsets",
                )?)
            } else {
                None
            },
        })
    }

    /// The datatypes of the dimensions, in order.
    pub fn dimension_datatypes(&self) -> Vec<Datatype> {
        self.schema.dimensions.iter().map(|d| d.datatype).collect()
    }
}

fn at(list: &[u64], slot: usize) -> Result<u64> {
    list.get(slot).copied().ok_or_else(|| {
        Error::corrupt(format!(
            "the footer has {} slots, slot {slot} is asked for",
            list.len()
        ))
    })
}

/// A [`TileFile`] whose offsets are still to be read.
struct FileLayout {
    path: String,
    bytes: u64,
    offsets: Section,
}

impl FileLayout {
    fn assemble(self, offsets: Arc<Vec<u64>>) -> TileFile {
        TileFile {
            path: self.path,
            bytes: self.bytes,
            offsets,
        }
    }
}

/// A [`FieldTiles`] whose lists are still to be read.
struct FieldLayout {
    values: FileLayout,
    var: Option<(FileLayout, Section)>,
    validity: Option<FileLayout>,
}

impl FieldLayout {
    /// In the order in which [`Self::assemble`] takes the lists.
    fn sections(&self) -> Vec<Section> {
        let mut sections = vec![self.values.offsets];
        if let Some((data, sizes)) = &self.var {
            sections.extend([data.offsets, *sizes]);
        }
        sections.extend(self.validity.as_ref().map(|v| v.offsets));
        sections
    }

    fn assemble(self, lists: &mut impl Iterator<Item = Arc<Vec<u64>>>) -> Result<FieldTiles> {
        let mut next = || {
            lists
                .next()
                .ok_or_else(|| Error::internal("a section was not loaded"))
        };
        let values = self.values.assemble(next()?);
        let var = match self.var {
            Some((data, _)) => Some((data.assemble(next()?), next()?)),
            None => None,
        };
        let validity = match self.validity {
            Some(file) => Some(file.assemble(next()?)),
            None => None,
        };
        Ok(FieldTiles {
            values,
            var,
            validity,
        })
    }
}
