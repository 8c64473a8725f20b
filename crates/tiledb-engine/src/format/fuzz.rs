//! Fuzzing of everything that is decoded here. What decodes is written again, and decodes to the same.

use std::fmt::Debug;

use super::commit::{
    CommitEntryKind, encode_consolidated_commits, encode_ignore, encode_vacuum,
    parse_consolidated_commits, parse_ignore, parse_vacuum, path_name,
};
use super::cursor::Cursor;
use super::delete_condition::DeleteCondition;
use super::encoder::Encoder;
use super::enumeration::Enumeration;
use super::filter_list::FilterList;
use super::fixtures::{bytes, unhex};
use super::generic_tile::GenericTileHeader;
use super::group::GroupDetails;
use super::metadata::{decode_metadata, encode_metadata};
use super::schema::{ArraySchema, Attribute};
use super::version::FormatVersion;
use crate::error::{Error, ErrorKind, Result};
use crate::fuzzed::{Limits, Outcome, fuzz};

/// What becomes of an input whose decoding failed.
pub(super) fn refused(error: Error) -> Outcome {
    let message = error.to_string();
    match error.kind() {
        ErrorKind::Internal => Outcome::Wrong(message),
        _ => Outcome::Refused(message),
    }
}

/// What becomes of an input on which `try_all` did everything; it stops at a `Wrong`.
pub(super) fn outcome(tried: Result<Result<(), String>>) -> Outcome {
    match tried {
        Ok(Ok(())) => Outcome::Decoded,
        Ok(Err(wrong)) => Outcome::Wrong(wrong),
        Err(e) => refused(e),
    }
}

/// Says how two things differ that must be the same. Those with NaN are compared as they are shown.
pub(super) fn same<T: PartialEq + Debug>(what: &str, left: &T, right: &T) -> Result<(), String> {
    if left == right || format!("{left:?}") == format!("{right:?}") {
        Ok(())
    } else {
        Err(format!("{what} differ\n  {left:?}\n  {right:?}"))
    }
}

/// The result of decoding what was just encoded.
pub(super) fn again<T>(what: &str, decoded: Result<T>) -> Result<T, String> {
    decoded.map_err(|e| format!("{what} that was encoded is refused: {e}"))
}

pub(super) fn is_written(version: FormatVersion) -> bool {
    version == FormatVersion::WRITTEN
}

const SCHEMAS: [&str; 9] = [
    "dense", "sparse", "deleted", "current", "labels", "wide", "point", "hilbert", "v12",
];

/// The schemas of all fixtures, by the names of the arrays.
pub(super) fn schemas() -> Vec<(String, Vec<u8>)> {
    let old = (1..=11).map(|v| format!("v{v}.sparse"));
    let mixed = (5..=11).map(|v| format!("v{v}.mixed"));
    let newer = (13..=21).map(|v| format!("v{v}"));
    let names = SCHEMAS
        .iter()
        .map(|name| (*name).to_owned())
        .chain(old)
        .chain(mixed)
        .chain(newer);
    let named = names.map(|name| {
        let schema = bytes(&format!("{name}.schema"));
        (name, schema)
    });
    named.collect()
}

#[test]
fn schema() {
    fuzz(
        "schema",
        schemas().into_iter().map(|(_, schema)| schema),
        Limits::USUAL,
        |input| outcome(try_schema(input)),
    );
}

/// A schema whose fill values have as many elements as its cells: an old one implies the element, and is written with all.
fn filled(schema: &ArraySchema) -> ArraySchema {
    let mut filled = schema.clone();
    for attribute in &mut filled.attributes {
        let (size, fill) = (attribute.cell_size(), attribute.fill_value.len());
        if let Some(size) = size.filter(|size| fill > 0 && size % fill == 0) {
            attribute.fill_value = attribute.fill_value.repeat(size / fill);
        }
    }
    filled
}

fn try_schema(input: &[u8]) -> Result<Result<(), String>> {
    let schema = ArraySchema::decode(input)?;
    let _ = (schema.image_size(), schema.is_dense());
    if schema.is_dense() {
        let _ = schema.dense_tile_cells();
    }
    for index in 0..schema.dimensions.len() {
        schema.dimension_filters(index, schema.version);
    }
    // The cells of an old schema have fill values of any size, which are written in full.
    let is_small = |attribute: &Attribute| attribute.cell_size().is_none_or(|size| size <= 4096);
    if !schema.version.since(6) && !schema.attributes.iter().all(is_small) {
        return Ok(Ok(()));
    }
    // A field of an unknown type is not written again.
    let Ok(encoded) = schema.encode() else {
        return Ok(Ok(()));
    };
    Ok((|| {
        let second = again("a schema", ArraySchema::decode(&encoded))?;
        let second = ArraySchema {
            version: schema.version,
            ..second
        };
        same("schemas", &filled(&schema), &filled(&second))?;
        match is_written(schema.version)
            && encoded != input.get(..encoded.len()).unwrap_or_default()
        {
            true => Err(format!("a schema is written otherwise: {encoded:?}")),
            false => Ok(()),
        }
    })())
}

#[test]
fn commits() {
    let plain = (12..=21).map(|version| bytes(&format!("v{version}.vac")));
    let files = plain.chain([bytes("deleted.vac"), bytes("deleted.con")]);
    let more = [
        &b"__commits/__1_1_u_22.wrt\n__1_1_u_9.ok\n"[..],
        b"file:///old/__fragments/a/__fragments/__1_1_u_22/\n\n/__meta/__1_1_u\ns3://b/my__meta/__4_4_u_5\n",
    ];
    let files = files.chain(more.map(<[u8]>::to_vec)).collect::<Vec<_>>();
    let seeds = (0..3_u8).flat_map(|kind| {
        let fit = files
            .iter()
            .filter(move |file| try_commits(kind, file).is_ok());
        fit.map(move |file| [&[kind], &file[..]].concat())
    });
    fuzz("commits", seeds, Limits::USUAL, |input| {
        let (kind, file) = input.split_first().unwrap_or((&0, &[]));
        outcome(try_commits(kind % 3, file))
    });
}

fn try_commits(kind: u8, file: &[u8]) -> Result<Result<(), String>> {
    let paths = match kind {
        0 => {
            let entries = parse_consolidated_commits(file)?;
            let mut commits = Vec::new();
            for entry in &entries {
                let delete = match &entry.kind {
                    CommitEntryKind::Delete { range } => file.get(range.clone()),
                    _ => None,
                };
                if let Some(Ok(condition)) = delete.map(DeleteCondition::decode_delete) {
                    condition.fields();
                }
                commits.push((entry.path.as_str(), delete));
            }
            let encoded = encode_consolidated_commits(commits);
            return Ok((|| {
                let second = again("a list", parse_consolidated_commits(&encoded))?;
                let names = |entries: &[super::commit::CommitEntry]| {
                    let names = entries.iter().map(|e| (e.name.clone(), e.path.clone()));
                    names.collect::<Vec<_>>()
                };
                same("commits", &names(&entries), &names(&second))
            })());
        }
        1 => parse_ignore(file)?,
        _ => parse_vacuum(file)?,
    };
    paths.iter().for_each(|path| {
        path_name(path);
    });
    let texts = paths.iter().map(String::as_str);
    let second = match kind {
        1 => parse_ignore(&encode_ignore(texts)),
        _ => parse_vacuum(&encode_vacuum(texts)),
    };
    Ok(again("a list", second).and_then(|second| same("paths", &paths, &second)))
}

#[test]
fn delete_condition() {
    const LEAF: &str = "01 03 01000000 61 0400000000000000 05000000";
    const SET: &str = "01 07 01000000 73 0600000000000000 6f6e6574776f 1800000000000000
        0000000000000000 0300000000000000 0300000000000000";
    const TREE: &str = "00 01 0300000000000000 00 00 0200000000000000";
    let tree = [TREE, LEAF, "01 fd 01000000 79 0000000000000000", SET, LEAF].concat();
    let update = [
        LEAF,
        "0100000000000000 0100000000000000 62 0200000000000000 0102",
    ]
    .concat();
    fuzz("update", [unhex(&update)], Limits::USUAL, |input| {
        let read = DeleteCondition::decode_update(input);
        read.map_or_else(refused, |_| Outcome::Decoded)
    });
    let seeds = [LEAF, SET, &tree].map(unhex);
    fuzz("delete condition", seeds, Limits::USUAL, |input| {
        let tried = DeleteCondition::decode_delete(input).map(|condition| {
            condition.fields();
            let encoded = again("a condition", condition.encode_delete())?;
            let second = again("a condition", DeleteCondition::decode_delete(&encoded))?;
            same("conditions", &condition, &second)
        });
        outcome(tried)
    });
}

#[test]
fn group() {
    const PLAIN: &str = "01000000 0200000000000000
        01000000 01 01 0300000000000000 737562 01 0600000000000000 6e6573746564
        01000000 01 01 0100000000000000 79 00";
    const CHANGES: &str = "02000000 0200000000000000
        02000000 01 01 0100000000000000 78 01 0100000000000000 58 01
        02000000 01 00 0800000000000000 66696c653a2f2f79 01 0200000000000000 5932 00";
    fuzz(
        "group",
        [PLAIN, CHANGES].map(unhex),
        Limits::USUAL,
        |input| {
            let tried = GroupDetails::decode(input).map(|details| {
                details.members.iter().for_each(|member| {
                    member.key();
                });
                same("groups", &details.encode(), &input.to_vec())
            });
            outcome(tried)
        },
    );
}

#[test]
fn metadata() {
    let seeds = ["keyed.0", "keyed.1"].map(bytes);
    fuzz("metadata", seeds, Limits::USUAL, |input| {
        let tried = decode_metadata(input).map(|entries| {
            let encoded = again("metadata", encode_metadata(&entries))?;
            let second = again("metadata", decode_metadata(&encoded))?;
            same("entries", &entries, &second)
        });
        outcome(tried)
    });
}

#[test]
fn enumeration() {
    let seeds = ["enumeration.colours", "enumeration.sizes"].map(bytes);
    fuzz("enumeration", seeds, Limits::USUAL, |input| {
        let tried = Enumeration::decode(input).map(|enumeration| {
            let missing = (0..enumeration.len()).any(|i| enumeration.member(i).is_none());
            if missing || enumeration.member(enumeration.len()).is_some() {
                return Err(format!("it has not {} members", enumeration.len()));
            }
            let encoded = again("an enumeration", enumeration.encode())?;
            same("enumerations", &encoded, &input.to_vec())
        });
        outcome(tried)
    });
}

#[test]
fn filter_list() {
    let texts = [
        "float_scale(0.5, 1.0, 2), delta(INT32), double_delta, bit_width_reduction, positive_delta(64)",
        "byteshuffle, zstd(5), gzip, lz4(5), rle, bzip2, dictionary, checksum_md5, checksum_sha256",
        "xor, bitshuffle, webp(rgb, lossless), double_delta(INT8)",
    ];
    let seeds = texts.iter().map(|text| {
        let mut to = Encoder::new();
        FilterList::parse(text).unwrap().encode(&mut to).unwrap();
        [&[22], &to.finish()[..]].concat()
    });
    fuzz("filter list", seeds, Limits::USUAL, |input| {
        let (version, stored) = input.split_first().unwrap_or((&22, &[]));
        let version = FormatVersion::known(u32::from(version.wrapping_sub(1) % 22) + 1);
        let tried = FilterList::decode(&mut Cursor::new(stored, "filters"), version);
        outcome(tried.map(try_filter_list))
    });
}

fn try_filter_list(list: FilterList) -> Result<(), String> {
    let _ = (list.to_string(), list.is_lossy(), list.spelling());
    let mut to = Encoder::new();
    again("a list", list.encode(&mut to))?;
    let encoded = to.finish();
    let version = FormatVersion::WRITTEN;
    let second = FilterList::decode(&mut Cursor::new(&encoded, "filters"), version);
    same("lists", &list, &again("a list", second)?)
}

#[test]
fn header_of_generic_tile() {
    let plain = "16000000 6400000000000000 a500000000000000 04 0100000000000000 00 12000000
        000001000100000001050000000101000000";
    fuzz(
        "header of a generic tile",
        [unhex(plain)],
        Limits::USUAL,
        |input| {
            let tried = GenericTileHeader::decode(input, "array schema").map(|header| {
                let _ = header.encoded_bytes();
                if header.header_bytes > input.len() {
                    return Err("it is longer than the input".to_owned());
                }
                let encoded = again("a header", header.encode())?;
                let second = again(
                    "a header",
                    GenericTileHeader::decode(&encoded, "array schema"),
                )?;
                let second = GenericTileHeader {
                    version: header.version,
                    header_bytes: header.header_bytes,
                    ..second
                };
                same("headers", &header, &second)
            });
            outcome(tried)
        },
    );
}
