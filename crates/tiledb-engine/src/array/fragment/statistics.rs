//! The minimum, the maximum, the sum and the number of nulls of each tile of a field.
//!
//! Statistics are read only for the requested fields, with one request for all that are not cached, and borrowed, never
//! copied: [`FieldStatistics::mins`] gives the stored values of all tiles at once, for code that compares many.
//!
//! Stored statistics are what the writer computed, and not all of them are right. Before a tile is pruned by them,
//! consider:
//!
//! - Fragments before format 11 have none, and no field is sure to have any: a missing one is `None`.
//! - Dimensions have only sums; their bounds are the MBRs.
//! - Floats: a NaN resets the running minimum and maximum (`[1, NaN, 5]` has minimum 5). It shows in the sum: if that
//!   is NaN, infinite, or saturated at ±`f64::MAX`, minimum and maximum prove nothing.
//! - A tile with nulls only has zeros, sentinels or empty strings: if all cells are null, ignore minimum and maximum.
//! - Strings are compared up to their first NUL byte, so those of data with NULs are wrong.
//! - Variable-sized attributes of *dense* arrays have wrong minima and maxima (the first tile of a write has those of
//!   all its tiles, the others none), and nullable ones wrong null counts; nullable ones of a type without minimum
//!   (UTF-8) count no nulls when variable-sized, and too many when fixed and dense.
//! - Nullable fixed strings of dense fragments are wrong before format 21.
//! - Sums saturate at the limits of their type.
//! - All statistics are of the values before filters: lossy ones (float scaling, WebP) change the values that are read.
//! - Cells that newer fragments overwrite, or delete conditions remove, are included; so are the fill values between
//!   the boxes of a dense consolidation.

use std::sync::Arc;

use super::{Fragment, FragmentField, TileIdx};
use crate::error::{Error, Result, ResultExt};
use crate::format::datatype::Datatype;
use crate::format::fragment::offsets::decode_u64s;
use crate::format::fragment::statistics::TileMinMax;
use crate::format::schema::CellValNum;
use crate::storage::{CacheKey, Storage};

/// Which statistics are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatisticsWanted {
    /// Minima and maxima.
    pub min_max: bool,
    /// Sums.
    pub sums: bool,
    /// Numbers of nulls.
    pub null_counts: bool,
}

impl StatisticsWanted {
    /// All statistics.
    pub const ALL: Self = Self {
        min_max: true,
        sums: true,
        null_counts: true,
    };
}

/// The sum of a tile, in the type of the field's sums.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TileSum {
    /// The sum of signed integers, `CHAR`, dates or times.
    Int(i64),
    /// The sum of unsigned integers or booleans.
    UInt(u64),
    /// The sum of floats.
    Float(f64),
}

/// The statistics of the tiles of one field; the [module documentation](self) says which of them to trust.
#[derive(Debug, Clone)]
pub struct FieldStatistics {
    datatype: Datatype,
    /// The size of a cell; `None` if variable.
    cell_size: Option<usize>,
    mins: Option<Arc<TileMinMax>>,
    maxes: Option<Arc<TileMinMax>>,
    sums: Option<Arc<Vec<u64>>>,
    null_counts: Option<Arc<Vec<u64>>>,
}

impl FieldStatistics {
    /// The type of an element of the field.
    pub fn datatype(&self) -> Datatype {
        self.datatype
    }

    /// The minimum of a tile, as stored.
    pub fn min(&self, tile: TileIdx) -> Option<&[u8]> {
        self.mins.as_ref()?.value(tile.get(), self.cell_size)
    }

    /// The maximum of a tile, as stored.
    pub fn max(&self, tile: TileIdx) -> Option<&[u8]> {
        self.maxes.as_ref()?.value(tile.get(), self.cell_size)
    }

    /// The minima of all tiles of a field whose cells have `N` bytes, little-endian, in tile order.
    pub fn mins<const N: usize>(&self) -> Option<&[[u8; N]]> {
        fixed(self.mins.as_ref()?, self.cell_size)
    }

    /// The maxima of all tiles of a field whose cells have `N` bytes, little-endian, in tile order.
    pub fn maxes<const N: usize>(&self) -> Option<&[[u8; N]]> {
        fixed(self.maxes.as_ref()?, self.cell_size)
    }

    /// The sum of a tile.
    pub fn sum(&self, tile: TileIdx) -> Option<TileSum> {
        let bits = *self.sums.as_ref()?.get(tile.get())?;
        Some(match self.datatype {
            d if d.is_float() => TileSum::Float(f64::from_bits(bits)),
            d if d.is_signed() || d == Datatype::Char => TileSum::Int(bits.cast_signed()),
            _ => TileSum::UInt(bits),
        })
    }

    /// The number of nulls in a tile of a nullable attribute.
    pub fn null_count(&self, tile: TileIdx) -> Option<u64> {
        self.null_counts.as_ref()?.get(tile.get()).copied()
    }

    /// The numbers of nulls of all tiles of a nullable attribute, in tile order.
    pub fn null_counts(&self) -> Option<&[u64]> {
        self.null_counts.as_deref().map(Vec::as_slice)
    }
}

fn fixed<const N: usize>(values: &TileMinMax, cell_size: Option<usize>) -> Option<&[[u8; N]]> {
    (cell_size == Some(N)).then(|| values.fixed.as_chunks::<N>().0)
}

/// A field's statistics as the footer and the schema describe them.
struct DescribedField {
    datatype: Datatype,
    cell_size: Option<usize>,
    slot: usize,
    dimension: bool,
    nullable: bool,
}

impl Fragment {
    /// The statistics of each of `fields`. Sections that are not cached are read together.
    pub async fn statistics(
        &self,
        storage: &Storage,
        fields: &[FragmentField],
        wanted: StatisticsWanted,
    ) -> Result<Vec<FieldStatistics>> {
        self.load_statistics(storage, fields, wanted)
            .await
            .context("fragment", || &self.name.name)
    }

    async fn load_statistics(
        &self,
        storage: &Storage,
        fields: &[FragmentField],
        wanted: StatisticsWanted,
    ) -> Result<Vec<FieldStatistics>> {
        let tiles = self.tile_count()?;
        let mut described = Vec::with_capacity(fields.len());
        let mut sections = Vec::new();
        for field in fields {
            let described_field = self.describe(*field)?;
            sections.extend(self.statistics_sections(&described_field, wanted));
            described.push(described_field);
        }
        let present: Vec<StatisticsSection> = sections.iter().copied().flatten().collect();
        let mut loaded = self.load_present(storage, &present).await?.into_iter();
        // `None` for a section that is not wanted or does not exist.
        let mut loaded = sections
            .into_iter()
            .map(|section| section.and_then(|_| loaded.next()));
        let mut next = || loaded.next().flatten();
        described
            .into_iter()
            .map(|field| {
                Ok(FieldStatistics {
                    mins: min_max(next(), tiles, field.cell_size)?,
                    maxes: min_max(next(), tiles, field.cell_size)?,
                    sums: numbers(next(), tiles)?,
                    null_counts: numbers(next(), tiles)?,
                    datatype: field.datatype,
                    cell_size: field.cell_size,
                })
            })
            .collect()
    }

    /// The sections of minima, maxima, sums and null counts of a field: always four.
    fn statistics_sections(
        &self,
        field: &DescribedField,
        wanted: StatisticsWanted,
    ) -> [Option<StatisticsSection>; 4] {
        let sections = &self.footer.sections;
        let section = |wanted: bool, starts: &[u64], what: &'static str, shape: StatisticsShape| {
            // Fragments of versions without statistics have no starts either.
            let start = starts.get(field.slot).copied().filter(|_| wanted)?;
            Some(StatisticsSection { start, what, shape })
        };
        let min_max = wanted.min_max && !field.dimension;
        [
            section(
                min_max,
                &sections.mins,
                "tile mins",
                StatisticsShape::MinMax,
            ),
            section(
                min_max,
                &sections.maxes,
                "tile maxes",
                StatisticsShape::MinMax,
            ),
            section(
                wanted.sums,
                &sections.sums,
                "tile sums",
                StatisticsShape::Numbers,
            ),
            section(
                wanted.null_counts && field.nullable,
                &sections.null_counts,
                "tile null counts",
                StatisticsShape::Numbers,
            ),
        ]
    }

    /// Loads sections in the requested order. Sections that are not cached are read together.
    async fn load_present(
        &self,
        storage: &Storage,
        sections: &[StatisticsSection],
    ) -> Result<Vec<LoadedSection>> {
        let path = self.metadata_path();
        let mut found = Vec::with_capacity(sections.len());
        let mut missing = Vec::new();
        for section in sections {
            let key = self.cache_key(storage, section.start);
            let cached = section.shape.cached(storage, key);
            if cached.is_none() {
                let range = self.section_range(storage, section.start, section.what);
                missing.push(range.await?);
            }
            found.push(cached);
        }
        let mut fetched = self.read_parts(storage, &missing).await?.into_iter();
        let mut loaded = Vec::with_capacity(sections.len());
        for (cached, section) in found.into_iter().zip(sections) {
            if let Some(cached) = cached {
                loaded.push(cached);
                continue;
            }
            let bytes = fetched
                .next()
                .ok_or_else(|| Error::internal("fewer ranges came back than were asked for"))?;
            let key = self.cache_key(storage, section.start);
            let value = section.decode(&bytes, storage, key);
            loaded.push(value.context("file", || &path)?);
        }
        Ok(loaded)
    }

    fn describe(&self, field: FragmentField) -> Result<DescribedField> {
        let missing = || {
            Error::internal(format!("the fragment's schema has no field {field:?}"))
                .with("fragment", &self.name.name)
        };
        let (datatype, cell_val_num, slot, nullable) = match field {
            FragmentField::Dimension(i) => {
                let d = self.schema.dimensions.get(i).ok_or_else(missing)?;
                (d.datatype, d.cell_val_num, self.slots.dimension(i), false)
            }
            FragmentField::Attribute(i) => {
                let a = self.schema.attributes.get(i).ok_or_else(missing)?;
                (
                    a.datatype,
                    a.cell_val_num,
                    self.slots.attribute(i),
                    a.nullable,
                )
            }
            FragmentField::Timestamps => {
                let slot = self.slots.timestamps().ok_or_else(missing)?;
                (Datatype::UInt64, CellValNum::Fixed(1), slot, false)
            }
            FragmentField::DeleteTimestamps => {
                let slot = self.slots.delete_timestamps().ok_or_else(missing)?;
                (Datatype::UInt64, CellValNum::Fixed(1), slot, false)
            }
            FragmentField::DeleteConditionIndex => {
                let slot = self.slots.delete_condition_index().ok_or_else(missing)?;
                (Datatype::UInt64, CellValNum::Fixed(1), slot, false)
            }
        };
        Ok(DescribedField {
            datatype,
            cell_size: cell_val_num.cell_size(datatype)?,
            slot,
            dimension: matches!(field, FragmentField::Dimension(_)),
            nullable,
        })
    }
}

/// A section of the metadata file.
#[derive(Debug, Clone, Copy)]
struct StatisticsSection {
    start: u64,
    what: &'static str,
    shape: StatisticsShape,
}

/// The layout of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatisticsShape {
    Numbers,
    MinMax,
}

/// A section's contents.
enum LoadedSection {
    Numbers(Arc<Vec<u64>>),
    MinMax(Arc<TileMinMax>),
}

impl StatisticsShape {
    fn cached(self, storage: &Storage, key: CacheKey) -> Option<LoadedSection> {
        let cache = storage.cache();
        match self {
            Self::Numbers => cache.get(key).map(LoadedSection::Numbers),
            Self::MinMax => cache.get(key).map(LoadedSection::MinMax),
        }
    }
}

impl StatisticsSection {
    fn decode(&self, bytes: &[u8], storage: &Storage, key: CacheKey) -> Result<LoadedSection> {
        let tile = storage.decode_generic_tile(bytes, self.what)?;
        let cache = storage.cache();
        Ok(match self.shape {
            StatisticsShape::Numbers => {
                let values = decode_u64s(&tile.data, self.what)?;
                let size = values.len().saturating_mul(8);
                LoadedSection::Numbers(cache.insert(key, values, size))
            }
            StatisticsShape::MinMax => {
                let values = TileMinMax::decode(&tile.data, self.what)?;
                LoadedSection::MinMax(cache.insert(key, values, tile.data.len()))
            }
        })
    }
}

fn min_max(
    loaded: Option<LoadedSection>,
    tiles: u64,
    cell_size: Option<usize>,
) -> Result<Option<Arc<TileMinMax>>> {
    let Some(LoadedSection::MinMax(values)) = loaded else {
        return Ok(None);
    };
    values.check(tiles, cell_size)?;
    Ok(Some(values).filter(|values| !values.is_empty()))
}

fn numbers(loaded: Option<LoadedSection>, tiles: u64) -> Result<Option<Arc<Vec<u64>>>> {
    let Some(LoadedSection::Numbers(values)) = loaded else {
        return Ok(None);
    };
    if !values.is_empty() && values.len() as u64 != tiles {
        return Err(Error::corrupt(format!(
            "tile statistics have {} values, expected none or one for each of {tiles} tiles",
            values.len()
        )));
    }
    Ok(Some(values).filter(|values| !values.is_empty()))
}
