//! What libtiledb wrote in the version that this crate writes, read and written again, has the same bytes: schemas,
//! enumerations, metadata, groups, delete conditions, commits and fragment metadata of all arrays that the tests have.

use std::fs;
use std::path::{Path, PathBuf};

use datafusion_tiledb::Result;
use libtest_mimic::Failed;
use tiledb_engine::filter::{Pipeline, Scratch, TileContext, TileEncoder, generic_tile};
use tiledb_engine::format::commit::{
    CommitEntryKind, CommitKind, LIST_START, encode_commit_list, encode_consolidated_commits,
    encode_ignore, encode_vacuum, parse_consolidated_commits, parse_ignore, parse_vacuum,
};
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::format::delete_condition::Condition;
use tiledb_engine::format::delete_condition::{
    decode_processed_conditions, encode_processed_conditions,
};
use tiledb_engine::format::enumeration::Enumeration;
use tiledb_engine::format::filter_list::{Filter, FilterList, Setting};
use tiledb_engine::format::fragment::consolidated;
use tiledb_engine::format::fragment::footer::Footer;
use tiledb_engine::format::fragment::offsets::{decode_u64s, encode_u64s};
use tiledb_engine::format::fragment::rtree::Mbrs;
use tiledb_engine::format::fragment::statistics::{FragmentStatistics, TileMinMax};
use tiledb_engine::format::generic_tile::GenericTileHeader;
use tiledb_engine::format::group::GroupDetails;
use tiledb_engine::format::metadata::{decode_metadata, encode_metadata};
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::format::version::FormatVersion;

use crate::support::fixtures;
use crate::trial;

/// Writes what it has read from the contents of a tile; `None` if these have another version.
type Again = fn(&[u8]) -> Result<Option<Vec<u8>>>;

struct Kind {
    name: &'static str,
    /// Whether a file is of this kind, by the folder it lies in and its name.
    is: fn(folder: &str, name: &str) -> bool,
    again: Again,
    /// Fewer files than this were not all looked at.
    at_least: usize,
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "schemas",
        is: |folder, _| folder == "__schema",
        again: |tile| {
            let schema = ArraySchema::decode(tile)?;
            let same = schema.version == FormatVersion::WRITTEN;
            same.then(|| schema.encode()).transpose()
        },
        at_least: 500,
    },
    Kind {
        name: "enumerations",
        is: |folder, _| folder == "__enumerations",
        again: |tile| Enumeration::decode(tile)?.encode().map(Some),
        at_least: 50,
    },
    Kind {
        name: "metadata",
        is: |folder, name| folder == "__meta" && !name.ends_with(".vac"),
        again: |tile| encode_metadata(&decode_metadata(tile)?).map(Some),
        at_least: 20,
    },
    Kind {
        name: "groups",
        is: |folder, name| folder == "__group" && !name.ends_with(".vac"),
        again: |tile| Ok(Some(GroupDetails::decode(tile)?.encode())),
        at_least: 20,
    },
    Kind {
        name: "deletes",
        is: |folder, name| folder == "__commits" && name.ends_with(".del"),
        again: |tile| Condition::decode_delete(tile)?.encode_delete().map(Some),
        at_least: 50,
    },
    Kind {
        name: "consolidated_footers",
        is: |folder, name| folder == "__fragment_meta" && name.ends_with(".meta"),
        again: |tile| {
            let footers = consolidated::decode(tile)?.into_iter();
            let footers = footers.map(|(name, range)| (name, tile.get(range).unwrap_or_default()));
            consolidated::encode(&footers.collect::<Vec<_>>()).map(Some)
        },
        at_least: 5,
    },
];

trials!(KINDS.map(|kind| trial(kind.name, move || kind.is_written_as_it_was())));

/// The arrays of which something is written in another way, and why.
const DIFFERENT: [(&str, &str); 2] = [
    (
        "arrays/delete_always/",
        "a condition that is always true or false has a value all the same, which nobody uses; it is written empty",
    ),
    (
        "arrays/nan_",
        "which of two boxes is larger if one ends in NaN, libtiledb decides by the order in which it meets them",
    ),
];

/// What is written as it was, and what is not.
#[derive(Default)]
struct Written {
    same: usize,
    others: Vec<String>,
}

impl Written {
    fn compare(&mut self, file: &Path, what: &str, was: &[u8], is: &[u8]) {
        let path = file.to_string_lossy().replace('\\', "/");
        match was == is {
            true => self.same += 1,
            false if DIFFERENT.iter().any(|(place, _)| path.contains(place)) => {}
            false => self.others.push(format!("{what} of {path}")),
        }
    }

    /// Fails if something is written in another way, or if there was less than expected.
    fn end(self, at_least: usize) -> std::result::Result<(), Failed> {
        let Self { same, others } = self;
        match (others.is_empty(), same >= at_least) {
            (true, true) => Ok(()),
            (true, false) => Err(format!("{same} things, expected {at_least} at least").into()),
            (false, _) => {
                let shown = others
                    .iter()
                    .take(20)
                    .cloned()
                    .collect::<Vec<_>>()
                    .join("\n");
                let message = format!(
                    "{same} are as they were, {} are not:\n{shown}",
                    others.len()
                );
                Err(message.into())
            }
        }
    }
}

impl Kind {
    fn is_written_as_it_was(&self) -> std::result::Result<(), Failed> {
        let mut written = Written::default();
        for file in files(self.is)? {
            let bytes = fs::read(&file)?;
            // Encrypted and damaged ones, and those of versions that cannot be read, have their own tests.
            let Ok(header) = GenericTileHeader::decode(&bytes, self.name) else {
                continue;
            };
            if header.version == FormatVersion::WRITTEN {
                let was = bytes.get(..header.header_bytes).unwrap_or_default();
                written.compare(&file, "the header", was, &header.encode()?);
            }
            let Ok(tile) = generic_tile::decode(&bytes, self.name, None) else {
                continue;
            };
            if let Ok(Some(again)) = (self.again)(&tile.data) {
                written.compare(&file, "the contents", &tile.data, &again);
                // What gzip makes of it is a matter of the library.
                let whole = generic_tile::encode(&again)?;
                let read = generic_tile::decode(&whole, self.name, None)?;
                written.compare(&file, "the tile", &read.data, &again);
                assert_eq!(read.consumed, whole.len());
            }
        }
        written.end(self.at_least)
    }
}

trial!(commits);
fn commits() -> std::result::Result<(), Failed> {
    let mut written = Written::default();
    let is = |folder: &str, _: &str| folder == "__commits";
    for file in files(is)? {
        let bytes = fs::read(&file)?;
        let again = match CommitKind::of(&file.to_string_lossy()) {
            Some(CommitKind::Consolidated) => parse_consolidated_commits(&bytes).map(|entries| {
                let entries = entries.iter().map(|entry| match &entry.kind {
                    CommitEntryKind::Delete { range } => {
                        (entry.path.as_str(), bytes.get(range.clone()))
                    }
                    _ => (entry.path.as_str(), None),
                });
                match bytes.starts_with(LIST_START.as_bytes()) {
                    true => encode_commit_list(entries),
                    false => encode_consolidated_commits(entries),
                }
            }),
            Some(CommitKind::Ignore) => {
                parse_ignore(&bytes).map(|paths| encode_ignore(paths.iter().map(String::as_str)))
            }
            // Until version 19 these were whole addresses.
            Some(CommitKind::Vacuum) if bytes.starts_with(b"/__") => {
                parse_vacuum(&bytes).map(|paths| encode_vacuum(paths.iter().map(String::as_str)))
            }
            _ => continue,
        };
        if let Ok(again) = again {
            written.compare(&file, "the contents", &bytes, &again);
        }
    }
    written.end(20)
}

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
        let starts = sections.fragment_statistics.iter().copied();
        let starts = starts.collect::<Vec<_>>();
        self.sections(file, "the statistics", &starts, statistics, written)?;
        let processed = |tile: &[u8]| {
            Ok(encode_processed_conditions(&decode_processed_conditions(
                tile,
            )?))
        };
        let starts = sections.processed_conditions.iter().copied();
        let starts = starts.collect::<Vec<_>>();
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
    let lossy = |setting: &Setting| !matches!(setting, Setting::Image(image) if image.lossless);
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
            .decode(stored, &mut read, &mut Scratch::default())
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
                pipeline.decode(&is, &mut back, &mut Scratch::default())?;
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
            let strings = pipeline.decode_strings(stored, cells, bytes, &mut Scratch::default())?;
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
            let cells = |encoder: &mut TileEncoder, tile: &[u8]| encoder.encode(tile);
            if nullable {
                let validity = tiles(
                    format!("{name}_validity.tdb"),
                    &sections.validity_offsets,
                    &self.schema.validity_filters,
                    Datatype::UInt8,
                    1,
                    false,
                );
                for (validity, tile) in validity
                    .iter()
                    .flat_map(|v| (0..v.starts.len()).map(move |t| (v, t)))
                {
                    validity.compare(tile, written, cells)?;
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
                let (Some(offsets), Some(data)) = (offsets, data) else {
                    continue;
                };
                for tile in 0..offsets.starts.len() {
                    if data
                        .compare_strings(tile, self.cells(tile)?, written)?
                        .is_some()
                    {
                        continue;
                    }
                    let Some(starts) = offsets.compare(tile, written, cells)? else {
                        continue;
                    };
                    let starts = starts
                        .as_chunks::<8>()
                        .0
                        .iter()
                        .map(|s| u64::from_le_bytes(*s));
                    let starts = starts.collect::<Vec<_>>();
                    data.compare(tile, written, |encoder, tile| {
                        encoder.encode_var(tile, &starts)
                    })?;
                }
                continue;
            };
            let values = tiles(file, &sections.tile_offsets, filters, datatype, size, false);
            for (values, tile) in values
                .iter()
                .flat_map(|v| (0..v.starts.len()).map(move |t| (v, t)))
            {
                values.compare(tile, written, cells)?;
            }
        }
        Ok(())
    }
}

/// The files of arrays and groups that are wanted, by the folder they lie in and their names.
fn files(is: fn(&str, &str) -> bool) -> std::io::Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![fixtures::root().to_owned()]);
    while let Some(folder) = folders.pop() {
        let folder_name = folder.file_name().unwrap_or_default().to_string_lossy();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if is(&folder_name, &entry.file_name().to_string_lossy()) {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}
