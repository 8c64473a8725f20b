//! The files of a field's tiles, before the lists of tile offsets are read, and the sections of a fragment's metadata
//! file that are such lists of numbers, one per tile.

use std::sync::Arc;

use super::field_tiles::{FieldTiles, TileFile};
use crate::error::{Error, Result};
use crate::format::fragment::footer::SectionOffsets;
use crate::format::fragment::monolithic::MonolithicMetadata;

/// A [`TileFile`] without its offsets.
pub(super) struct FileLayout {
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) offsets: MetadataSection,
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

/// A [`FieldTiles`] without its lists of offsets.
pub(super) struct FieldLayout {
    pub(super) values: FileLayout,
    pub(super) var: Option<(FileLayout, MetadataSection)>,
    pub(super) validity: Option<FileLayout>,
}

impl FieldLayout {
    /// The sections to read, in the order in which [`Self::assemble`] takes their lists.
    pub(super) fn sections(&self) -> Vec<MetadataSection> {
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

/// A section of the metadata file that is a list of `u64`, one per tile.
#[derive(Debug, Clone, Copy)]
pub(super) struct MetadataSection {
    pub list: SectionList,
    pub slot: usize,
}

/// The contents of a list.
#[derive(Debug, Clone, Copy)]
pub(super) enum SectionList {
    TileOffsets,
    VarOffsets,
    VarSizes,
    ValidityOffsets,
}

impl MetadataSection {
    pub(super) fn what(self) -> &'static str {
        match self.list {
            SectionList::TileOffsets => "tile offsets",
            SectionList::VarOffsets => "var tile offsets",
            SectionList::VarSizes => "var tile sizes",
            SectionList::ValidityOffsets => "validity tile offsets",
        }
    }

    /// The offset of the section in the metadata file, from the footer.
    pub(super) fn start(self, sections: &SectionOffsets) -> Result<u64> {
        let starts = match self.list {
            SectionList::TileOffsets => &sections.tile_offsets,
            SectionList::VarOffsets => &sections.var_offsets,
            SectionList::VarSizes => &sections.var_sizes,
            SectionList::ValidityOffsets => &sections.validity_offsets,
        };
        starts.get(self.slot).copied().ok_or_else(|| {
            Error::corrupt(format!(
                "the footer has {} slots of {}, slot {} is asked for",
                starts.len(),
                self.what(),
                self.slot
            ))
        })
    }

    /// The list of the section, in metadata that are a single tile.
    pub(super) fn of(self, metadata: &MonolithicMetadata) -> Result<Arc<Vec<u64>>> {
        let lists = match self.list {
            SectionList::TileOffsets => Some(&metadata.tile_offsets),
            SectionList::VarOffsets => Some(&metadata.var_offsets),
            SectionList::VarSizes => Some(&metadata.var_sizes),
            SectionList::ValidityOffsets => None,
        };
        let list = lists.and_then(|lists| lists.get(self.slot));
        list.map(Arc::clone)
            .ok_or_else(|| Error::internal(format!("slot {} has no {}", self.slot, self.what())))
    }
}
