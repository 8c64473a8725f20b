//! What libtiledb wrote in the version that this crate writes, read and written again, has the same bytes: schemas,
//! enumerations, metadata, groups, delete conditions, commits and fragment metadata of all arrays that the tests have.

use std::fs;
use std::path::{Path, PathBuf};

use datafusion_tiledb::Result;
use datafusion_tiledb::filter::generic_tile;
use datafusion_tiledb::format::commit::{
    CommitEntryKind, CommitKind, encode_consolidated_commits, encode_ignore, encode_vacuum,
    parse_consolidated_commits, parse_ignore, parse_vacuum,
};
use datafusion_tiledb::format::delete_condition::Condition;
use datafusion_tiledb::format::enumeration::Enumeration;
use datafusion_tiledb::format::fragment::consolidated;
use datafusion_tiledb::format::fragment::footer::Footer;
use datafusion_tiledb::format::fragment::offsets::{decode_u64s, encode_u64s};
use datafusion_tiledb::format::fragment::processed_conditions::{
    decode_processed_conditions, encode_processed_conditions,
};
use datafusion_tiledb::format::fragment::rtree::Mbrs;
use datafusion_tiledb::format::fragment::statistics::{FragmentStatistics, TileMinMax};
use datafusion_tiledb::format::generic_tile::GenericTileHeader;
use datafusion_tiledb::format::group::GroupDetails;
use datafusion_tiledb::format::metadata::{decode_metadata, encode_metadata};
use datafusion_tiledb::format::schema::ArraySchema;
use datafusion_tiledb::format::version::FormatVersion;
use libtest_mimic::{Failed, Trial};

use crate::{fixtures, trial};

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

pub fn trials() -> Vec<Trial> {
    let kinds = KINDS.into_iter().map(|kind| {
        let name = format!("written::{}", kind.name);
        trial(name, move || kind.is_written_as_it_was())
    });
    let mut trials = kinds.collect::<Vec<_>>();
    trials.push(trial("written::commits", commits));
    trials.push(trial("written::fragments", fragments));
    trials
}

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
            }
        }
        written.end(self.at_least)
    }
}

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
                encode_consolidated_commits(entries)
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
