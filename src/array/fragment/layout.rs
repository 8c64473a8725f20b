//! The files of a field's tiles, before the lists of tile offsets are read.

use std::sync::Arc;

use super::field_tiles::{FieldTiles, TileFile};
use super::lists::Section;
use crate::error::{Error, Result};

/// A [`TileFile`] without its offsets.
pub(super) struct FileLayout {
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) offsets: Section,
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
    pub(super) var: Option<(FileLayout, Section)>,
    pub(super) validity: Option<FileLayout>,
}

impl FieldLayout {
    /// The sections to read, in the order in which [`Self::assemble`] takes their lists.
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
