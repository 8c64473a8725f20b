//! The files that hold the tiles of a field.
//!
//! A field has a file of fixed-size values or offsets, one of variable-sized data and one of validity, depending on its
//! schema; before version 5 all dimensions share a file.

use super::layout::{FieldLayout, FileLayout, MetadataSection, SectionList};
use super::{Fragment, FragmentField};
use crate::error::{Error, Result};
use crate::format::fragment::data_files::{FilePart, FileStem};

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
                offsets: MetadataSection { list, slot },
            })
        };
        let footer = &self.footer;
        let (var, validity) = (
            var.then(|| {
                let data = file(
                    FilePart::Var,
                    &footer.var_file_sizes,
                    SectionList::VarOffsets,
                )?;
                let list = SectionList::VarSizes;
                Ok::<_, Error>((data, MetadataSection { list, slot }))
            }),
            nullable.then(|| {
                let sizes = &footer.validity_file_sizes;
                file(FilePart::Validity, sizes, SectionList::ValidityOffsets)
            }),
        );
        Ok(FieldLayout {
            values: file(
                FilePart::Fixed,
                &footer.file_sizes,
                SectionList::TileOffsets,
            )?,
            var: var.transpose()?,
            validity: validity.transpose()?,
        })
    }
}

fn no_field(role: &str, number: usize) -> Error {
    Error::internal(format!("the fragment's schema has no {role} {number}"))
}
