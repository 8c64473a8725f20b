//! Fuzzing of fragment metadata. They depend on the schema, the version and the number of tiles, which stand in front of their
//! inputs.

use std::ops::Range;

use super::consolidated;
use super::footer::Footer;
use super::monolithic::MonolithicMetadata;
use super::offsets::{TileExtents, decode_u64s, encode_u64s};
use super::rtree::Mbrs;
use super::statistics::{FragmentStatistics, TileMinMax};
use crate::error::Result;
use crate::format::delete_condition::{decode_processed_conditions, encode_processed_conditions};
use crate::format::fixtures::starting_with;
use crate::format::fuzz::{again, is_written, outcome, refused, same, schemas};
use crate::format::schema::ArraySchema;
use crate::format::version::FormatVersion;
use crate::fuzzed::{Limits, Outcome, fuzz};

/// Schemas by number, and inputs that begin with the number of one.
struct OfSchemas {
    schemas: Vec<(String, ArraySchema)>,
}

impl OfSchemas {
    fn new() -> Self {
        let schemas = schemas().into_iter().map(|(name, bytes)| {
            let schema = ArraySchema::decode(&bytes).unwrap();
            (name, schema)
        });
        Self {
            schemas: schemas.collect(),
        }
    }

    fn input(&self, array: &str, rest: &[u8]) -> Vec<u8> {
        let is_it = |(name, _): &(String, ArraySchema)| name == array;
        let number = self.schemas.iter().position(is_it).unwrap();
        [&[number as u8], rest].concat()
    }

    fn split<'a>(&self, input: &'a [u8]) -> (&ArraySchema, &'a [u8]) {
        let (number, rest) = input.split_first().unwrap_or((&0, &[]));
        let number = usize::from(*number) % self.schemas.len();
        (&self.schemas[number].1, rest)
    }

    /// An input for each fixture of every array whose name ends in `suffix`.
    fn inputs(&self, suffixes: &[&str], before: impl Fn(&str) -> Vec<u8>) -> Vec<Vec<u8>> {
        let mut inputs = Vec::new();
        for (array, _) in &self.schemas {
            for suffix in suffixes {
                for (rest, bytes) in starting_with(&format!("{array}{suffix}")) {
                    if rest.is_empty() {
                        inputs.push(self.input(array, &[before(array), bytes].concat()));
                    }
                }
            }
        }
        assert!(!inputs.is_empty());
        inputs
    }
}

#[test]
fn footer() {
    let of = OfSchemas::new();
    let tails = of.inputs(&[".fragment.tail", ".tail"], |_| Vec::new());
    let seeds = tails.into_iter().map(|tail| {
        // A length is at the end if there is one.
        let (footer, length) = tail.split_last_chunk::<8>().unwrap();
        if u64::from_le_bytes(*length) + 1 == footer.len() as u64 {
            footer.to_vec()
        } else {
            tail
        }
    });
    fuzz("footer", seeds, Limits::USUAL, |input| {
        let (schema, footer) = of.split(input);
        outcome(try_footer(footer, schema))
    });
}

fn try_footer(input: &[u8], schema: &ArraySchema) -> Result<Result<(), String>> {
    let _ = Footer::footer_range(input, input.len() as u64);
    for versions in [3..=4, 5..=5, 9..=9] {
        let _ = Footer::range_without_length(&versions, schema, input.len() as u64);
    }
    let footer = Footer::decode(input, schema)?;
    Ok((|| {
        let (version, name) = again("the head", Footer::peek_schema_name(input))?;
        same(
            "heads",
            &(version, name),
            &(footer.version, footer.schema_name.clone()),
        )?;
        let slots = footer.slots(schema);
        same("numbers of files", &slots.count(), &footer.file_sizes.len())?;
        footer.sparse_cell_count(schema);
        let starts = footer.section_starts();
        for start in footer.sections.tile_offsets.iter().take(16) {
            let end = starts.end(*start, u64::MAX);
            if end < *start {
                return Err(format!("the section at {start} ends at {end}"));
            }
        }
        if !is_written(footer.version) {
            return Ok(());
        }
        let encoded = footer.encode(schema);
        let second = again("a footer", Footer::decode(&encoded, schema))?;
        same("footers", &footer, &second)
    })())
}

#[test]
fn rtree() {
    let of = OfSchemas::new();
    let suffixes = [".fragment@0", ".fragment.rtree", ".rtree"];
    let seeds = of.inputs(&suffixes, |array| {
        let digits = array.split('.').next().unwrap_or_default();
        let version = digits.strip_prefix('v').and_then(|v| v.parse().ok());
        vec![version.unwrap_or(22_u8)]
    });
    fuzz("R-tree", seeds, Limits::USUAL, |input| {
        let (schema, input) = of.split(input);
        let (version, tile) = input.split_first().unwrap_or((&22, &[]));
        let version = FormatVersion::known(u32::from(version.wrapping_sub(1) % 22) + 1);
        outcome(try_rtree(tile, schema, version))
    });
}

fn try_rtree(
    tile: &[u8],
    schema: &ArraySchema,
    version: FormatVersion,
) -> Result<Result<(), String>> {
    let (_, levels) = Mbrs::decode_levels(tile, schema, version)?;
    let leaves = levels.last().cloned().unwrap_or_else(|| Mbrs::none(schema));
    let tiles = leaves.len() as u64;
    Ok((|| {
        let read = again("the leaves", Mbrs::decode(tile, schema, version, tiles))?;
        same("leaves", &leaves, &read)?;
        try_boxes(&leaves, schema)
    })())
}

fn try_boxes(leaves: &Mbrs, schema: &ArraySchema) -> Result<(), String> {
    for tile in 0..leaves.len() {
        for dimension in 0..schema.dimensions.len() {
            leaves.range(tile, dimension);
        }
    }
    let around = leaves.union(schema);
    if !leaves.is_empty() {
        same("dimensions", &around.len(), &schema.dimensions.len())?;
        let only = Mbrs::of_only_tile(&around, schema);
        same("tiles", &only.map(|only| only.len()), &Some(1))?;
    }
    let encoded = again("a tree", leaves.encode(schema))?;
    let version = FormatVersion::WRITTEN;
    let second = Mbrs::decode(&encoded, schema, version, leaves.len() as u64);
    same("trees", leaves, &again("a tree", second)?)
}

#[test]
fn metadata_of_one_tile() {
    let of = OfSchemas::new();
    let seeds = of.inputs(&[".metadata"], |_| Vec::new());
    fuzz("metadata of one tile", seeds, Limits::USUAL, |input| {
        let (schema, tile) = of.split(input);
        let _ = MonolithicMetadata::decode(tile, schema, true);
        match MonolithicMetadata::decode(tile, schema, false) {
            Err(e) => refused(e),
            Ok(metadata) => {
                metadata.footer.sparse_cell_count(schema);
                let room = metadata.memory_bytes();
                match try_boxes(&metadata.mbrs, schema) {
                    _ if room > 4 * tile.len() + 4096 => {
                        Outcome::Wrong(format!("it says {room} bytes"))
                    }
                    Err(wrong) => Outcome::Wrong(wrong),
                    Ok(()) => Outcome::Decoded,
                }
            }
        }
    });
}

#[test]
fn sections() {
    let fixtures = ["sparse.fragment@", "deleted.fragment@"]
        .iter()
        .flat_map(|name| starting_with(name));
    // The first byte says what it is read as, the second how many tiles and slots there are.
    let seeds = fixtures.flat_map(|(_, section)| {
        let kinds = [(0, 12), (1, 12), (2, 6), (2, 7), (3, 1)];
        let fit = kinds
            .into_iter()
            .filter(|(kind, n)| try_section(*kind, usize::from(*n), &section).is_ok())
            .map(|(kind, n)| [&[kind, n][..], &section].concat());
        fit.collect::<Vec<_>>()
    });
    fuzz("sections", seeds, Limits::USUAL, |input| {
        let (head, section) = input.split_at_checked(2).unwrap_or((&[0, 0], &[]));
        outcome(try_section(head[0] % 4, usize::from(head[1]), section))
    });
}

fn try_section(kind: u8, n: usize, section: &[u8]) -> Result<Result<(), String>> {
    let (what, encoded) = match kind {
        0 => {
            let values = decode_u64s(section, "tile offsets")?;
            for tiles in [n, values.len()] {
                let file_bytes = values.last().copied().unwrap_or(0);
                let extents = TileExtents::new(values.clone(), file_bytes, tiles as u64, "a0.tdb");
                if let Ok(extents) = extents {
                    let ranges = (0..extents.len()).map(|tile| extents.range(tile));
                    let inside = |range: Result<Range<u64>>| {
                        range.is_ok_and(|r| r.start <= r.end && r.end <= file_bytes)
                    };
                    if !ranges.into_iter().all(inside) {
                        return Ok(Err(format!("a tile is outside of the file: {values:?}")));
                    }
                }
            }
            ("numbers", encode_u64s(&values))
        }
        1 => {
            let values = TileMinMax::decode(section, "tile mins")?;
            for cell_size in [None, Some(1), Some(4), Some(8)] {
                let tiles = values.fixed.len() / cell_size.unwrap_or(8);
                if values.check(tiles as u64, cell_size).is_ok()
                    && (0..tiles).any(|tile| values.value(tile, cell_size).is_none())
                {
                    return Ok(Err("a tile has no value".to_owned()));
                }
                values.value(n, cell_size);
            }
            ("minima", values.encode())
        }
        2 => (
            "statistics",
            FragmentStatistics::decode(section, n)?.encode(),
        ),
        _ => {
            let paths = decode_processed_conditions(section)?;
            ("paths", encode_processed_conditions(&paths))
        }
    };
    Ok(same(what, &encoded, &section.to_vec()))
}

#[test]
fn consolidated_footers() {
    let of = OfSchemas::new();
    let seeds = of.inputs(&[".meta"], |_| Vec::new());
    fuzz("consolidated footers", seeds, Limits::USUAL, |input| {
        let (schema, tile) = of.split(input);
        match consolidated::decode(tile) {
            Err(e) => refused(e),
            Ok(entries) => {
                let inside = |(name, range): &(String, Range<usize>)| {
                    let footer = tile.get(range.clone())?;
                    let _ = Footer::decode(footer, schema);
                    Some((name.clone(), footer))
                };
                let footers = entries.iter().map(inside).collect::<Option<Vec<_>>>();
                let Some(footers) = footers else {
                    return Outcome::Wrong(format!("a footer is outside: {entries:?}"));
                };
                let encoded = consolidated::encode(&footers);
                let second = again(
                    "a list",
                    encoded.and_then(|tile| {
                        let entries = consolidated::decode(&tile)?;
                        let footers = entries.into_iter().map(|(name, range)| {
                            (name, tile.get(range).unwrap_or_default().to_vec())
                        });
                        Ok(footers.collect::<Vec<_>>())
                    }),
                );
                let footers = footers
                    .into_iter()
                    .map(|(name, footer)| (name, footer.to_vec()));
                match second.and_then(|second| same("footers", &footers.collect(), &second)) {
                    Ok(()) => Outcome::Decoded,
                    Err(wrong) => Outcome::Wrong(wrong),
                }
            }
        }
    });
}
