//! Which files hold the tiles of a field, and where in them each tile lies.
//!
//! A field has a file of fixed values or offsets, one of var-sized data and one of validity, as its schema says; before
//! version 5 all dimensions share a file. The subtle thing: only the starts of tiles are stored, so a tile ends where
//! the next one starts, and the last one where the footer says the file does.

use std::ops::Range;
use std::sync::Arc;

use super::sections::{List, Section};
use super::{Fragment, TileIdx};
use crate::error::{Error, Result};
use crate::format::fragment::data_files::{FilePart, FileStem};

/// The least a chunk takes; it stands for at most `u32::MAX` bytes.
const CHUNK_HEADER_BYTES: u64 = 12;

/// A field of a fragment's own schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FragmentField {
    /// The dimension of this number.
    Dimension(usize),
    /// The attribute of this number.
    Attribute(usize),
    /// The timestamp of each cell, in fragments consolidated with timestamps.
    Timestamps,
    /// The time at which each cell was deleted, in fragments consolidated with deletes.
    DeleteTimestamps,
    /// Which of the processed conditions deleted each cell, in the same fragments.
    DeleteConditionIndex,
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

impl Fragment {
    /// The slot of a field that only some fragments have.
    fn optional(&self, slot: Option<usize>, what: &str) -> Result<usize> {
        slot.ok_or_else(|| {
            Error::internal(format!("the fragment has no {what}")).with("fragment", &self.name.name)
        })
    }

    pub(super) fn layout(&self, field: FragmentField) -> Result<FieldLayout> {
        let version = self.footer.version;
        let (slot, stem, var, nullable) = match field {
            FragmentField::Dimension(i) => {
                let dimension = self.schema.dimensions.get(i);
                let dimension = dimension.ok_or_else(|| no_field("dimension", i))?;
                let stem = if self.slots.has_separate_dimensions() {
                    FileStem::dimension(version, i, &dimension.name)
                } else {
                    FileStem::coords()
                };
                (self.slots.dimension(i), stem, dimension.is_var(), false)
            }
            FragmentField::Attribute(i) => {
                let attribute = self.schema.attributes.get(i);
                let attribute = attribute.ok_or_else(|| no_field("attribute", i))?;
                let stem = FileStem::attribute(version, i, &attribute.name);
                let (var, nullable) = (attribute.is_var(), attribute.nullable);
                (self.slots.attribute(i), stem, var, nullable)
            }
            FragmentField::Timestamps => {
                let slot = self.optional(self.slots.timestamps(), "timestamps")?;
                (slot, FileStem::timestamps(), false, false)
            }
            FragmentField::DeleteTimestamps => {
                let slot = self.optional(self.slots.delete_timestamps(), "times of deletes")?;
                (slot, FileStem::delete_timestamps(), false, false)
            }
            FragmentField::DeleteConditionIndex => {
                let slot = self.slots.delete_condition_index();
                let slot = self.optional(slot, "indexes of deletes")?;
                (slot, FileStem::delete_condition_index(), false, false)
            }
        };
        let file = |part, sizes: &[u64], list| {
            let bytes = sizes.get(slot).copied().ok_or_else(|| {
                Error::corrupt(format!(
                    "the footer has {} slots, slot {slot} is asked for",
                    sizes.len()
                ))
            })?;
            Ok::<_, Error>(FileLayout {
                path: format!("{}/{}", self.folder, stem.file(part)),
                bytes,
                offsets: Section { list, slot },
            })
        };
        let footer = &self.footer;
        let (var, validity) = (
            var.then(|| {
                let data = file(FilePart::Var, &footer.var_file_sizes, List::VarOffsets)?;
                let list = List::VarSizes;
                Ok::<_, Error>((data, Section { list, slot }))
            }),
            nullable.then(|| {
                let sizes = &footer.validity_file_sizes;
                file(FilePart::Validity, sizes, List::ValidityOffsets)
            }),
        );
        Ok(FieldLayout {
            values: file(FilePart::Fixed, &footer.file_sizes, List::TileOffsets)?,
            var: var.transpose()?,
            validity: validity.transpose()?,
        })
    }
}

fn no_field(role: &str, number: usize) -> Error {
    Error::internal(format!("the fragment's schema has no {role} {number}"))
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
pub(super) struct FieldLayout {
    values: FileLayout,
    var: Option<(FileLayout, Section)>,
    validity: Option<FileLayout>,
}

impl FieldLayout {
    /// In the order in which [`Self::assemble`] takes the lists.
    pub(super) fn sections(&self) -> Vec<Section> {
        let mut sections = vec![self.values.offsets];
        if let Some((data, sizes)) = &self.var {
            sections.extend([data.offsets, *sizes]);
        }
        sections.extend(self.validity.as_ref().map(|v| v.offsets));
        sections
    }

    pub(super) fn assemble(
        self,
        lists: &mut impl Iterator<Item = Arc<Vec<u64>>>,
    ) -> Result<FieldTiles> {
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
