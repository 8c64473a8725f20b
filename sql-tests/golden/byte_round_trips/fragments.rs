//! Fragment metadata and tiles, read and written again.

use std::fs;
use std::path::{Path, PathBuf};

use datafusion_tiledb::Result;
use libtest_mimic::Failed;
use tiledb_engine::filter::{FilterScratch, Pipeline, TileContext, TileEncoder, generic_tile};
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::format::delete_condition::{
    decode_processed_conditions, encode_processed_conditions,
};
use tiledb_engine::format::filter_list::{Filter, FilterList, FilterSetting};
use tiledb_engine::format::fragment::footer::Footer;
use tiledb_engine::format::fragment::offsets::{decode_u64s, encode_u64s};
use tiledb_engine::format::fragment::rtree::Mbrs;
use tiledb_engine::format::fragment::statistics::{FragmentStatistics, TileMinMax};
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::format::version::FormatVersion;

use super::{Written, files};

trial!(fragments);
/// Footers and all sections.
fn fragments() -> std::result::Result<(), Failed> {
    let mut written = Written::default();
    for file in files(|_, name| name == "__fragment_metadata.tdb")? {
        // A fragment of an old array lies beside its schema, and that is not of this version.
        let Some(array) = file.ancestors().nth(3) else {
            continue;
        };
        // Encrypted and damaged ones, and those of other versions, have their own tests.
        if let Ok(Some(fragment)) = Fragment::read(&file, array) {
            fragment.compare(&file, &mut written)?;
        }
    }
    written.end(10_000)
}

/// The metadata of a fragment.
struct Fragment {
    bytes: Vec<u8>,
    stored_footer: Vec<u8>,
    schema: ArraySchema,
    footer: Footer,
}

impl Fragment {
    /// `None` if the fragment is of another version.
    fn read(file: &Path, array: &Path) -> std::result::Result<Option<Self>, Failed> {
        let bytes = fs::read(file)?;
        let range = Footer::footer_range(&bytes, bytes.len() as u64)?;
        let (start, end) = (usize::try_from(range.start)?, usize::try_from(range.end)?);
        let stored_footer = bytes.get(start..end).unwrap_or_default().to_vec();
        let (version, name) = Footer::peek_schema_name(&stored_footer)?;
        if version != FormatVersion::WRITTEN {
            return Ok(None);
        }
        let schema = fs::read(array.join("__schema").join(name))?;
        let schema = generic_tile::decode(&schema, "array schema", None)?;
        let schema = ArraySchema::decode(&schema.data)?;
        let footer = Footer::decode(&stored_footer, &schema)?;
        Ok(Some(Self {
            bytes,
            stored_footer,
            schema,
            footer,
        }))
    }

    fn compare(&self, file: &Path, written: &mut Written) -> std::result::Result<(), Failed> {
        let again = self.footer.encode(&self.schema);
        written.compare(file, "the footer", &self.stored_footer, &again);
        let sections = &self.footer.sections;
        let numbers = |tile: &[u8]| Ok(encode_u64s(&decode_u64s(tile, "numbers")?));
        let bounds = |tile: &[u8]| Ok(TileMinMax::decode(tile, "bounds")?.encode());
        let of_numbers = [
            ("tile offsets", &sections.tile_offsets),
            ("var offsets", &sections.var_offsets),
            ("var sizes", &sections.var_sizes),
            ("validity offsets", &sections.validity_offsets),
            ("sums", &sections.sums),
            ("null counts", &sections.null_counts),
        ];
        for (what, starts) in of_numbers {
            self.sections(file, what, starts, numbers, written)?;
        }
        for (what, starts) in [("mins", &sections.mins), ("maxes", &sections.maxes)] {
            self.sections(file, what, starts, bounds, written)?;
        }
        let tiles = self.footer.sparse_tile_count;
        let version = self.footer.version;
        let rtree =
            |tile: &[u8]| Mbrs::decode(tile, &self.schema, version, tiles)?.encode(&self.schema);
        self.sections(file, "the R-tree", &[sections.rtree], rtree, written)?;
        let slots = self.footer.slots(&self.schema).count();
        let statistics = |tile: &[u8]| Ok(FragmentStatistics::decode(tile, slots)?.encode());
        let starts = sections
            .fragment_statistics
            .iter()
            .copied()
            .collect::<Vec<_>>();
        self.sections(file, "the statistics", &starts, statistics, written)?;
        let processed = |tile: &[u8]| {
            Ok(encode_processed_conditions(&decode_processed_conditions(
                tile,
            )?))
        };
        let starts = sections
            .processed_conditions
            .iter()
            .copied()
            .collect::<Vec<_>>();
        self.sections(file, "processed conditions", &starts, processed, written)
    }

    fn sections(
        &self,
        file: &Path,
        what: &str,
        starts: &[u64],
        again: impl Fn(&[u8]) -> Result<Vec<u8>>,
        written: &mut Written,
    ) -> std::result::Result<(), Failed> {
        for start in starts {
            let bytes = self.bytes.get(usize::try_from(*start)?..);
            let Ok(tile) = generic_tile::decode(bytes.unwrap_or_default(), "a section", None)
            else {
                continue;
            };
            if let Ok(again) = again(&tile.data) {
                written.compare(file, what, &tile.data, &again);
            }
        }
        Ok(())
    }
}

trial!(tiles);
/// The tiles of all fields: values, offsets and validity.
fn tiles() -> std::result::Result<(), Failed> {
    let mut written = Written::default();
    for file in files(|_, name| name == "__fragment_metadata.tdb")? {
        let (Some(folder), Some(array)) = (file.parent(), file.ancestors().nth(3)) else {
            continue;
        };
        if let Ok(Some(fragment)) = Fragment::read(&file, array) {
            fragment.compare_tiles(folder, &mut written)?;
        }
    }
    written.end(10_000)
}

fn encode_cells(encoder: &mut TileEncoder, tile: &[u8]) -> Result<Vec<u8>> {
    encoder.encode(tile)
}

/// Filters whose output is a matter of the library that compresses.
fn is_free(filters: &FilterList) -> bool {
    filters.contains(|f| {
        matches!(
            f,
            Filter::Gzip | Filter::Zstd | Filter::Lz4 | Filter::Bzip2 | Filter::WebP(_)
        )
    })
}

/// Whether there are images that nobody writes here.
fn makes_lossy_images(filters: &FilterList) -> bool {
    let lossy =
        |setting: &FilterSetting| !matches!(setting, FilterSetting::Image(image) if image.lossless);
    let mut stages = filters.stages();
    stages.any(|(filter, setting)| matches!(filter, Filter::WebP(_)) && lossy(setting))
}

fn reduces(filters: &FilterList) -> bool {
    filters.contains(|f| *f == Filter::BitWidthReduction)
}

/// The tiles of one field in one kind of file.
struct Tiles<'a> {
    path: PathBuf,
    bytes: Vec<u8>,
    starts: Vec<u64>,
    filters: &'a FilterList,
    context: TileContext,
}

impl Tiles<'_> {
    /// The stored bytes of a tile, the sizes of its chunks before they were filtered.
    fn tile(&self, tile: usize) -> Option<(&[u8], Vec<usize>)> {
        let end = self
            .starts
            .get(tile + 1)
            .copied()
            .unwrap_or(self.bytes.len() as u64);
        let start = usize::try_from(*self.starts.get(tile)?).ok()?;
        let stored = self.bytes.get(start..usize::try_from(end).ok()?)?;
        let number = |at: usize, width: usize| {
            let bytes = stored.get(at..at + width)?;
            Some(
                bytes
                    .iter()
                    .rev()
                    .fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
            )
        };
        let (mut at, mut sizes) = (8, Vec::new());
        for _ in 0..number(0, 8)? {
            sizes.push(number(at, 4)?);
            at += 12 + number(at + 4, 4)? + number(at + 8, 4)?;
        }
        Some((stored, sizes))
    }

    /// Reads each tile of cells of one size, and writes it again.
    fn compare_all(&self, written: &mut Written) -> std::result::Result<(), Failed> {
        for tile in 0..self.starts.len() {
            self.compare(tile, written, encode_cells)?;
        }
        Ok(())
    }

    /// Reads a tile, and writes it again by `again`.
    fn compare(
        &self,
        tile: usize,
        written: &mut Written,
        again: impl Fn(&mut TileEncoder, &[u8]) -> Result<Vec<u8>>,
    ) -> std::result::Result<Option<Vec<u8>>, Failed> {
        let Ok(pipeline) = Pipeline::new(self.filters, &self.context, None) else {
            return Ok(None);
        };
        let (Some((stored, sizes)), false) = (self.tile(tile), pipeline.produces_offsets()) else {
            return Ok(None);
        };
        let size = sizes.iter().sum();
        let mut read = vec![0; size];
        if pipeline
            .decode(stored, &mut read, &mut FilterScratch::default())
            .is_err()
        {
            return Ok(None);
        }
        if makes_lossy_images(self.filters) {
            return Ok(Some(read));
        }
        // libtiledb writes empty chunks, some of which it cannot read back.
        let is_free = is_free(self.filters) || sizes.contains(&0);
        let what = format!("tile {tile} ({})", self.filters);
        let encoder = TileEncoder::new(self.filters, &self.context);
        let is = encoder.and_then(|mut encoder| again(&mut encoder, &read));
        match is {
            Err(e) => written
                .others
                .push(format!("{what} of {}: {e}", self.path.display())),
            // The offset of a window that is not reduced is whatever was in the memory of its writer.
            Ok(is) if is_free || (reduces(self.filters) && is.len() == stored.len()) => {
                let mut back = vec![0; size];
                pipeline.decode(&is, &mut back, &mut FilterScratch::default())?;
                written.compare(&self.path, &what, &read, &back);
            }
            Ok(is) => written.compare(&self.path, &what, stored, &is),
        }
        Ok(Some(read))
    }
}

impl Tiles<'_> {
    /// Reads a tile of strings with their offsets, and writes it again; `None` if the offsets have their own tiles.
    fn compare_strings(
        &self,
        tile: usize,
        cells: usize,
        written: &mut Written,
    ) -> std::result::Result<Option<()>, Failed> {
        let Ok(pipeline) = Pipeline::new(self.filters, &self.context, None) else {
            return Ok(None);
        };
        let (Some((stored, sizes)), true) = (self.tile(tile), pipeline.produces_offsets()) else {
            return Ok(None);
        };
        let bytes = sizes.iter().sum();
        let read = |stored: &[u8]| {
            let strings =
                pipeline.decode_strings(stored, cells, bytes, &mut FilterScratch::default())?;
            strings.cells()
        };
        let Ok((data, starts)) = read(stored) else {
            return Ok(Some(()));
        };
        let mut encoder = TileEncoder::new(self.filters, &self.context)?;
        assert!(encoder.takes_offsets());
        let is = encoder.encode_strings(&data, &starts)?;
        let what = format!("tile {tile} ({})", self.filters);
        if is_free(self.filters) || bytes == 0 {
            let (back, back_starts) = read(&is)?;
            assert_eq!(back_starts, starts, "{what} of {}", self.path.display());
            written.compare(&self.path, &what, &data, &back);
        } else {
            written.compare(&self.path, &what, stored, &is);
        }
        Ok(Some(()))
    }
}

impl Fragment {
    /// The number of cells of a tile.
    fn cells(&self, tile: usize) -> Result<usize> {
        let cells = match self.footer.sparse_tile_count {
            0 => self.schema.dense_tile_cells()?,
            tiles if tile as u64 + 1 == tiles => self.footer.last_tile_cell_count,
            _ => self.schema.capacity,
        };
        Ok(usize::try_from(cells)?)
    }

    fn numbers(&self, starts: &[u64], slot: usize) -> Option<Vec<u64>> {
        let start = usize::try_from(*starts.get(slot)?).ok()?;
        let tile = generic_tile::decode(self.bytes.get(start..)?, "a section", None).ok()?;
        decode_u64s(&tile.data, "numbers").ok()
    }

    fn compare_var_tiles(
        &self,
        offsets: &Tiles<'_>,
        data: &Tiles<'_>,
        written: &mut Written,
    ) -> std::result::Result<(), Failed> {
        for tile in 0..offsets.starts.len() {
            if data
                .compare_strings(tile, self.cells(tile)?, written)?
                .is_some()
            {
                continue;
            }
            let Some(starts) = offsets.compare(tile, written, encode_cells)? else {
                continue;
            };
            let starts = starts
                .as_chunks::<8>()
                .0
                .iter()
                .map(|s| u64::from_le_bytes(*s))
                .collect::<Vec<_>>();
            data.compare(tile, written, |encoder, tile| {
                encoder.encode_var(tile, &starts)
            })?;
        }
        Ok(())
    }

    fn compare_tiles(
        &self,
        folder: &Path,
        written: &mut Written,
    ) -> std::result::Result<(), Failed> {
        let slots = self.footer.slots(&self.schema);
        let version = self.footer.version;
        let attributes = self.schema.attributes.iter().enumerate().map(|(i, a)| {
            let types = (a.datatype, a.cell_val_num, a.nullable);
            (format!("a{i}"), slots.attribute(i), types, &a.filters)
        });
        let dimensions = self.schema.dimensions.iter().enumerate().map(|(i, d)| {
            let types = (d.datatype, d.cell_val_num, false);
            let filters = self.schema.dimension_filters(i, version);
            (format!("d{i}"), slots.dimension(i), types, filters)
        });
        for (name, slot, (datatype, count, nullable), filters) in attributes.chain(dimensions) {
            let tiles = |file: String, starts: &[u64], filters, datatype: Datatype, cell, var| {
                let path = folder.join(file);
                let bytes = fs::read(&path).ok()?;
                let context = TileContext {
                    datatype,
                    cell_bytes: cell,
                    schema_version: self.schema.version,
                    fragment_version: version,
                    var_data: var,
                };
                Some(Tiles {
                    path,
                    bytes,
                    starts: self.numbers(starts, slot)?,
                    filters,
                    context,
                })
            };
            let sections = &self.footer.sections;
            if nullable {
                let validity = tiles(
                    format!("{name}_validity.tdb"),
                    &sections.validity_offsets,
                    &self.schema.validity_filters,
                    Datatype::UInt8,
                    1,
                    false,
                );
                if let Some(validity) = validity {
                    validity.compare_all(written)?;
                }
            }
            let file = format!("{name}.tdb");
            let Some(size) = count.cell_size(datatype)? else {
                let offsets = tiles(
                    file,
                    &sections.tile_offsets,
                    &self.schema.offsets_filters,
                    Datatype::UInt64,
                    8,
                    false,
                );
                let file = format!("{name}_var.tdb");
                let data = tiles(
                    file,
                    &sections.var_offsets,
                    filters,
                    datatype,
                    datatype.size(),
                    true,
                );
                if let (Some(offsets), Some(data)) = (offsets, data) {
                    self.compare_var_tiles(&offsets, &data, written)?;
                }
                continue;
            };
            let values = tiles(file, &sections.tile_offsets, filters, datatype, size, false);
            if let Some(values) = values {
                values.compare_all(written)?;
            }
        }
        Ok(())
    }
}
