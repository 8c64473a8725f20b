//! For each rule an array that breaks it, and what is found then: the rule, at the object that is broken, and no error
//! besides those that follow from it.

use std::collections::BTreeSet;

use libtest_mimic::Failed;
use tiledb_engine::filter::generic_tile;
use tiledb_engine::format::commit::{encode_consolidated_commits, encode_ignore, encode_vacuum};
use tiledb_engine::format::delete_condition::{Comparison, Condition, Test};
use tiledb_engine::format::enumeration::Enumeration;
use tiledb_engine::maintain::check::{Finding, Rule, Severity};

use super::forge::{Metadata, Of, edit, edit_tiles};
use super::{of_files, statistics};
use crate::hostile::bad_input::edit_schema;
use crate::support::array_files::{Files, METADATA_FILE, contents, nested_delete, plain_tile};
use crate::support::fixtures;
use crate::support::trials::SqlTrial;
use crate::{block_on, trial};

const UUID: &str = "0123456789abcdef0123456789abcdef";

/// An array that breaks a rule.
pub struct Damage {
    pub rule: Rule,
    pub array: &'static str,
    /// A part of the object that is broken.
    pub object: &'static str,
    /// The other rules that are broken with it.
    pub besides: &'static [Rule],
    pub damage: fn(&mut Files),
}

trials!(each_damage());

fn each_damage() -> Vec<SqlTrial> {
    let damages = DAMAGES.iter().chain(statistics::DAMAGES).enumerate();
    let trials = damages.map(|(number, damage)| {
        let name = format!("{}_{number}", damage.rule);
        trial(name, move || block_on(is_found(damage)))
    });
    trials.collect()
}

async fn is_found(damage: &Damage) -> Result<(), Failed> {
    let mut files = files(damage.array);
    let before = rules(&of_files(&files).await);
    (damage.damage)(&mut files);
    let found = of_files(&files).await;
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    let shown = shown.join("\n");
    let mut at = found.iter().filter(|f| f.rule == damage.rule);
    if !at.any(|f| f.object.contains(damage.object)) {
        return Err(format!("{} was not found\n{shown}", damage.rule).into());
    }
    let known: BTreeSet<Rule> = damage
        .besides
        .iter()
        .copied()
        .chain([damage.rule])
        .collect();
    let others = rules(&found).into_iter();
    let others: Vec<_> = others
        .filter(|r| r.severity() != Severity::Leftover && !known.contains(r) && !before.contains(r))
        .collect();
    match others.is_empty() {
        true => Ok(()),
        false => Err(format!("{others:?} were found, too\n{shown}").into()),
    }
}

fn rules(found: &[Finding]) -> BTreeSet<Rule> {
    found.iter().map(|finding| finding.rule).collect()
}

/// An array, or a group if its name says so.
fn files(name: &str) -> Files {
    match name.strip_prefix("group:") {
        Some(group) => Files::of(&fixtures::root().join("groups").join(group)),
        None => Files::golden(name),
    }
}

trial!(every_rule_is_broken_once);
fn every_rule_is_broken_once() -> Result<(), Failed> {
    let all = DAMAGES.iter().chain(statistics::DAMAGES);
    let broken: BTreeSet<Rule> = all.map(|damage| damage.rule).collect();
    let unbroken: Vec<_> = Rule::ALL.iter().filter(|r| !broken.contains(r)).collect();
    match unbroken.is_empty() {
        true => Ok(()),
        false => Err(format!("no array breaks {unbroken:?}").into()),
    }
}

/// The name of the only fragment, or of the first.
fn fragment(files: &Files) -> String {
    let path = files.find(METADATA_FILE);
    let folder = path.rsplit('/').nth(1);
    folder.expect("a folder").to_owned()
}

fn add(files: &mut Files, path: &str, bytes: impl Into<Vec<u8>>) {
    files.0.insert(path.replace("UUID", UUID), bytes.into());
}

fn cut(files: &mut Files, part: &str) {
    let path = files.find(part);
    files.edit(&path, |bytes| bytes.truncate(bytes.len() / 2));
}

fn remove(files: &mut Files, part: &str) {
    files.0.retain(|path, _| !path.contains(part));
}

fn condition(field: &str) -> Vec<u8> {
    let condition = Condition::Test {
        field: field.to_owned(),
        test: Test::Compare(Comparison::Lt, 7_i32.to_le_bytes().to_vec()),
    };
    generic_tile::encode(&condition.encode_delete().expect("short")).expect("short")
}

fn enumeration(files: &mut Files, change: impl FnOnce(&mut Enumeration)) {
    let path = files.find("__enumerations/");
    files.edit(&path, |file| {
        let mut enumeration = Enumeration::decode(&contents(file)).expect("an enumeration");
        change(&mut enumeration);
        *file = plain_tile(&enumeration.encode().expect("short"));
    });
}

/// Swaps the first two cells of a tile in both dimensions.
fn swap_cells(files: &mut Files) {
    for dimension in 0..2 {
        edit_tiles(files, "", Of::Dimension(dimension), |tile, bytes| {
            if tile == 0 {
                let (first, second) = bytes.split_at_mut(4);
                first.swap_with_slice(&mut second[..4]);
            }
        });
    }
}

const DAMAGES: &[Damage] = &[
    Damage {
        rule: Rule::ForeignFile,
        array: "quickstart_sparse",
        object: "__schema/notes.txt",
        besides: &[],
        damage: |files| add(files, "__schema/notes.txt", "mine"),
    },
    Damage {
        rule: Rule::BadName,
        array: "quickstart_sparse",
        object: "__commits/__9_3_",
        besides: &[],
        damage: |files| add(files, "__commits/__9_3_UUID_22.wrt", ""),
    },
    Damage {
        rule: Rule::BadName,
        array: "metadata",
        object: "__meta/__notes",
        besides: &[],
        damage: |files| add(files, "__meta/__notes", "mine"),
    },
    Damage {
        rule: Rule::UnknownFile,
        array: "quickstart_sparse",
        object: "__commits/__notes.txt",
        besides: &[],
        damage: |files| add(files, "__commits/__notes.txt", "mine"),
    },
    Damage {
        rule: Rule::UnknownFile,
        array: "quickstart_sparse",
        object: "_22/a1.tdb",
        besides: &[],
        damage: |files| {
            let path = files.find("a0.tdb").replace("a0.tdb", "a1.tdb");
            add(files, &path, "mine");
        },
    },
    Damage {
        rule: Rule::StagingFile,
        array: "quickstart_sparse",
        object: "_22/a0.tdb#7",
        besides: &[],
        damage: |files| {
            let path = format!("{}#7", files.find("a0.tdb"));
            add(files, &path, "half");
        },
    },
    Damage {
        rule: Rule::StagingFile,
        array: "metadata",
        object: "__meta/__1_1_0123456789abcdef0123456789abcdef.tmp",
        besides: &[],
        damage: |files| add(files, "__meta/__1_1_UUID.tmp", "half"),
    },
    Damage {
        rule: Rule::CommitWithoutFragment,
        array: "quickstart_sparse",
        object: ".wrt",
        besides: &[],
        damage: |files| remove(files, "__fragments/"),
    },
    Damage {
        rule: Rule::IdleCommit,
        array: "old/v10_appended",
        object: "__1000_1000_",
        besides: &[],
        damage: |files| {
            let gone = |path: &String| path.contains("__1000_1000_") && path.contains("/");
            files
                .0
                .retain(|path, _| path.starts_with("__schema") || !gone(path));
        },
    },
    Damage {
        rule: Rule::FragmentWithoutCommit,
        array: "quickstart_sparse",
        object: "__fragments/__1000_1000_",
        besides: &[],
        damage: |files| remove(files, ".wrt"),
    },
    Damage {
        rule: Rule::ReplacedFragment,
        array: "weather_stations",
        object: "__fragments/__1000_1000_",
        besides: &[],
        damage: |files| {
            let replaced = fragment(files);
            let vacuum = files.find("__commits/__2000_").replace(".wrt", ".vac");
            let lines = encode_vacuum([format!("__fragments/{replaced}").as_str()]);
            add(files, &vacuum, lines);
        },
    },
    Damage {
        rule: Rule::VacuumOfNothing,
        array: "quickstart_sparse",
        object: ".vac",
        besides: &[],
        damage: |files| {
            let lines = format!("/__fragments/__5_5_{UUID}_22\n");
            add(files, "__commits/__5_6_UUID_22.vac", lines);
        },
    },
    Damage {
        rule: Rule::VacuumWithoutReplacement,
        array: "quickstart_sparse",
        object: "__commits/__1000_2000_",
        besides: &[],
        damage: |files| {
            let lines = format!("/__fragments/{}\n", fragment(files));
            add(files, "__commits/__1000_2000_UUID_22.vac", lines);
        },
    },
    Damage {
        rule: Rule::UnreadableList,
        array: "quickstart_sparse",
        object: "__commits/__1_2_",
        besides: &[],
        damage: |files| {
            add(
                files,
                "__commits/__1_2_UUID_22.con",
                "__commits/__1_2_x_22.wr",
            )
        },
    },
    Damage {
        rule: Rule::IgnoreOfNothing,
        array: "quickstart_sparse",
        object: "__commits/__1_2_",
        besides: &[],
        damage: |files| {
            let lines = encode_ignore([format!("__commits/__1_1_{UUID}_22.wrt").as_str()]);
            add(files, "__commits/__1_2_UUID_22.ign", lines);
        },
    },
    Damage {
        rule: Rule::IgnoredAndCommitted,
        array: "quickstart_sparse",
        object: "__commits/__1000_1000_",
        besides: &[],
        damage: |files| {
            let lines = encode_ignore([files.find(".wrt").as_str()]);
            add(files, "__commits/__1_2_UUID_22.ign", lines);
        },
    },
    Damage {
        rule: Rule::CommittedTwice,
        array: "quickstart_sparse",
        object: "__commits/__1000_1000_",
        besides: &[],
        damage: |files| {
            let lines = encode_consolidated_commits([(files.find(".wrt").as_str(), None)]);
            add(files, "__commits/__1_2_UUID_22.con", lines);
        },
    },
    Damage {
        rule: Rule::UnreadableSchema,
        array: "quickstart_sparse",
        object: "__schema/__5000_5000_",
        besides: &[],
        damage: |files| add(files, "__schema/__5000_5000_UUID", "no schema"),
    },
    Damage {
        rule: Rule::SchemaOrder,
        array: "quickstart_sparse",
        object: "__schema/__10_10_",
        besides: &[],
        damage: |files| {
            // By name it comes behind __1000_1000.
            let schema = files.0[&files.find("__schema/")].clone();
            add(files, "__schema/__10_10_UUID", schema);
        },
    },
    Damage {
        rule: Rule::UnreadableField,
        array: "quickstart_sparse",
        object: "attribute a",
        besides: &[],
        damage: |files| {
            edit_schema(files, |schema| {
                let name = [1, 0, 0, 0, b'a'];
                let at = schema.windows(5).position(|w| w == name).expect("a");
                schema[at + 5] = 99;
            });
        },
    },
    Damage {
        rule: Rule::MissingEnumeration,
        array: "weather_stations",
        object: "__schema/__enumerations/",
        besides: &[],
        damage: |files| remove(files, "__enumerations/"),
    },
    Damage {
        rule: Rule::UnreadableEnumeration,
        array: "weather_stations",
        object: "__schema/__enumerations/",
        besides: &[],
        damage: |files| cut(files, "__enumerations/"),
    },
    Damage {
        rule: Rule::EnumerationValues,
        array: "weather_stations",
        object: "__schema/__enumerations/",
        besides: &[],
        damage: |files| {
            enumeration(files, |enumeration| {
                let first = enumeration.member(0).expect("a value").to_vec();
                let offset = enumeration.data.len() as u64;
                enumeration.data.extend(first);
                enumeration.offsets.as_mut().expect("text").push(offset);
            });
        },
    },
    Damage {
        rule: Rule::UnusedEnumeration,
        array: "weather_stations",
        object: "__enumerations/__0123456789abcdef",
        besides: &[],
        damage: |files| {
            let enumeration = files.0[&files.find("__enumerations/")].clone();
            add(files, "__schema/__enumerations/__UUID_0", enumeration);
        },
    },
    Damage {
        rule: Rule::UnreadableCopies,
        array: "fragment_metadata_consolidated",
        object: "__fragment_meta/",
        besides: &[],
        damage: |files| cut(files, ".meta"),
    },
    Damage {
        rule: Rule::FooterCopy,
        array: "fragment_metadata_consolidated",
        object: "__fragment_meta/",
        besides: &[],
        // A footer whose sections lie elsewhere.
        damage: |files| edit(files, "__2000_2000_", |_| {}),
    },
    Damage {
        rule: Rule::StaleCopy,
        array: "fragment_metadata_consolidated",
        object: "__fragment_meta/",
        besides: &[],
        damage: |files| remove(files, "__2000_2000_"),
    },
    Damage {
        rule: Rule::UnreadableDelete,
        array: "delete_simple",
        object: ".del",
        besides: &[],
        damage: |files| cut(files, ".del"),
    },
    Damage {
        rule: Rule::DeleteNesting,
        array: "delete_simple",
        object: ".del",
        besides: &[],
        damage: |files| {
            let path = files.find(".del");
            files.edit(&path, |bytes| *bytes = nested_delete(bytes));
        },
    },
    Damage {
        rule: Rule::DeleteField,
        array: "quickstart_sparse",
        object: "__commits/__2000_2000_",
        besides: &[],
        damage: |files| {
            add(
                files,
                "__commits/__2000_2000_UUID_22.del",
                condition("nobody"),
            )
        },
    },
    Damage {
        rule: Rule::DeleteInDense,
        array: "quickstart_dense",
        object: "__commits/__2000_2000_",
        besides: &[],
        damage: |files| add(files, "__commits/__2000_2000_UUID_22.del", condition("a")),
    },
    Damage {
        rule: Rule::UnreadableMetadata,
        array: "metadata",
        object: "__meta/",
        besides: &[],
        damage: |files| cut(files, "__meta/"),
    },
    Damage {
        rule: Rule::UnreadableGroup,
        array: "group:changes",
        object: "__group/",
        besides: &[],
        damage: |files| cut(files, "__group/"),
    },
    Damage {
        rule: Rule::UnreadableFragment,
        array: "quickstart_sparse",
        object: "__fragments/__1000_1000_",
        besides: &[],
        damage: |files| cut(files, METADATA_FILE),
    },
    Damage {
        rule: Rule::UnreadableFragment,
        array: "quickstart_sparse",
        object: "__fragments/__1000_1000_",
        besides: &[],
        damage: |files| remove(files, METADATA_FILE),
    },
    Damage {
        rule: Rule::UnreadableFragment,
        array: "quickstart_sparse",
        object: "_21",
        besides: &[],
        // The name says another version than the footer.
        damage: |files| {
            files.rename(|path| path.replace("_22.wrt", "_21.wrt").replace("_22/", "_21/"));
        },
    },
    Damage {
        rule: Rule::FragmentKind,
        array: "quickstart_sparse",
        object: METADATA_FILE,
        besides: &[],
        damage: |files| {
            let other = Files::golden("weather_stations");
            let schema = other.0[&other.find("__schema/__1000")].clone();
            add(files, "__schema/__5000_5000_UUID", schema);
            let path = other.find("__enumerations/");
            add(files, &path, other.0[&path].clone());
        },
    },
    Damage {
        rule: Rule::MissingFile,
        array: "quickstart_sparse",
        object: "/a0.tdb",
        besides: &[],
        damage: |files| remove(files, "a0.tdb"),
    },
    Damage {
        rule: Rule::FileSize,
        array: "quickstart_sparse",
        object: "/a0.tdb",
        besides: &[],
        damage: |files| cut(files, "a0.tdb"),
    },
    Damage {
        rule: Rule::FileSize,
        array: "quickstart_sparse",
        object: "slot 1",
        besides: &[],
        damage: |files| edit(files, "", |metadata| metadata.footer.file_sizes[1] = 5),
    },
    Damage {
        rule: Rule::LongFile,
        array: "quickstart_sparse",
        object: "/a0.tdb",
        besides: &[],
        damage: |files| {
            let path = files.find("a0.tdb");
            files.edit(&path, |bytes| bytes.push(0));
        },
    },
    Damage {
        rule: Rule::UnreadableSection,
        array: "quickstart_sparse",
        object: "tile sums of attribute a",
        besides: &[Rule::StatisticsShape],
        damage: |files| {
            edit(files, "", |metadata| {
                let start = metadata.footer.sections.sums[0];
                metadata.section(start).truncate(3);
            });
        },
    },
    Damage {
        rule: Rule::TileCount,
        array: "quickstart_dense",
        object: METADATA_FILE,
        besides: &[Rule::UnreadableTile],
        damage: |files| {
            edit(files, "", |metadata| {
                metadata.footer.last_tile_cell_count = 15
            })
        },
    },
    Damage {
        rule: Rule::TileCount,
        array: "quickstart_sparse",
        object: METADATA_FILE,
        besides: &[],
        damage: |files| {
            edit(files, "", |metadata| {
                metadata.footer.sparse_tile_count = 1 << 30
            })
        },
    },
    Damage {
        rule: Rule::TileOffsets,
        array: "rtree_three_levels",
        object: "tile offsets of attribute a, tile 5",
        besides: &[],
        damage: |files| {
            edit(files, "", |metadata| {
                let start = metadata.footer.sections.tile_offsets[0];
                metadata.numbers(start, |offsets| offsets.swap(4, 5));
            });
        },
    },
    Damage {
        rule: Rule::TileOffsets,
        array: "weather_stations",
        object: "var tile sizes of attribute note",
        besides: &[],
        damage: |files| {
            edit(files, "__1000_", |metadata| {
                let start = metadata.footer.sections.var_sizes[3];
                metadata.numbers(start, |sizes| sizes.push(1));
            });
        },
    },
    Damage {
        rule: Rule::BoxTree,
        array: "rtree_three_levels",
        object: "R-tree, level 0, rectangle 0",
        besides: &[],
        damage: |files| {
            edit(files, "", |metadata| {
                // Fanout, levels, a count, then the low end of the root in the first dimension.
                let start = metadata.footer.sections.rtree;
                metadata.section(start)[16..20].copy_from_slice(&500_u32.to_le_bytes());
            });
        },
    },
    Damage {
        rule: Rule::BoxTree,
        array: "quickstart_sparse",
        object: "R-tree",
        besides: &[
            Rule::TileOffsets,
            Rule::StatisticsShape,
            Rule::UnreadableTile,
        ],
        damage: |files| edit(files, "", |metadata| metadata.footer.sparse_tile_count += 1),
    },
    Damage {
        rule: Rule::NonEmptyDomain,
        array: "rtree_three_levels",
        object: "dimension x",
        besides: &[],
        damage: |files| {
            edit(files, "", |metadata| {
                let domain = metadata.footer.non_empty_domain.as_mut().expect("cells");
                domain[0].hi = 5_u32.to_le_bytes().to_vec();
            });
        },
    },
    Damage {
        rule: Rule::OutsideDomain,
        array: "rtree_three_levels",
        object: "dimension y",
        besides: &[Rule::NonEmptyDomain],
        damage: |files| {
            edit(files, "", |metadata| {
                let domain = metadata.footer.non_empty_domain.as_mut().expect("cells");
                domain[1].hi = 1000_u32.to_le_bytes().to_vec();
            });
        },
    },
    Damage {
        rule: Rule::OutsideCurrentDomain,
        array: "current_domain_sparse",
        object: "dimension i",
        besides: &[Rule::NonEmptyDomain],
        damage: |files| {
            edit(files, "", |metadata| {
                let domain = metadata.footer.non_empty_domain.as_mut().expect("cells");
                domain[0].hi = 10_i16.to_le_bytes().to_vec();
            });
        },
    },
    Damage {
        rule: Rule::StatisticsShape,
        array: "quickstart_sparse",
        object: "tile mins of attribute a",
        besides: &[],
        damage: |files| {
            edit(files, "", |metadata| {
                let start = metadata.footer.sections.mins[0];
                metadata.min_max(start, |mins| mins.fixed.clear());
            });
        },
    },
    Damage {
        rule: Rule::StatisticsShape,
        array: "quickstart_sparse",
        object: "tile null counts of attribute a",
        besides: &[],
        damage: |files| {
            edit(files, "", |metadata| {
                let start = metadata.footer.sections.null_counts[0];
                metadata.numbers(start, |counts| counts.push(0));
            });
        },
    },
    Damage {
        rule: Rule::UnreadableTile,
        array: "quickstart_sparse",
        object: "a0.tdb, attribute a, tile 0",
        besides: &[],
        damage: |files| {
            let path = files.find("a0.tdb");
            // The number of chunks.
            files.edit(&path, |bytes| bytes[0] = 9);
        },
    },
    Damage {
        rule: Rule::UnreadableTile,
        array: "sparse_nullable",
        object: "attribute s, tile",
        besides: &[],
        damage: |files| {
            // The first offset behind the header of the only chunk.
            let path = files.find("a4.tdb");
            files.edit(&path, |bytes| bytes[20 + 8..20 + 16].fill(0xFF));
        },
    },
    Damage {
        rule: Rule::ValidityBytes,
        array: "sparse_nullable",
        object: "a0.tdb, attribute i, tile 0",
        besides: &[],
        damage: |files| {
            // Runs of three bytes behind the headers of the first chunk.
            let path = files.find("a0_validity.tdb");
            files.edit(&path, |bytes| {
                let runs = (36..bytes.len()).step_by(3);
                let valid = runs.into_iter().find(|at| bytes[*at] == 1);
                bytes[valid.expect("a valid cell")] = 2;
            });
        },
    },
    Damage {
        rule: Rule::InvalidText,
        array: "refused_utf8",
        object: "attribute s, tile 0",
        besides: &[],
        damage: |_| {},
    },
    Damage {
        rule: Rule::UnknownCode,
        array: "enum_strings",
        object: "attribute e_int32, tile 0",
        besides: &[
            Rule::TileMin,
            Rule::TileMax,
            Rule::TileSum,
            Rule::FragmentMin,
            Rule::FragmentMax,
            Rule::FragmentSum,
        ],
        damage: |files| {
            edit_tiles(files, "", Of::Attribute(4), |tile, bytes| {
                if tile == 0 {
                    bytes[..4].copy_from_slice(&99_i32.to_le_bytes());
                }
            });
        },
    },
    Damage {
        rule: Rule::TileBox,
        array: "rtree_three_levels",
        object: "dimension x, tile 0",
        besides: &[Rule::BoxTree, Rule::NonEmptyDomain],
        damage: |files| leaf_low_end(files, 7),
    },
    Damage {
        rule: Rule::CellOrder,
        array: "rtree_three_levels",
        object: "__fragments/__1000_1000_1e1ae11d26b318d2d15715e25e22ae04_22, tile 0",
        besides: &[],
        damage: swap_cells,
    },
    Damage {
        rule: Rule::CellOrder,
        array: "delete_consolidated",
        object: ", tile 0",
        besides: &[
            Rule::TileBox,
            Rule::TileMax,
            Rule::TileSum,
            Rule::FragmentMax,
            Rule::FragmentSum,
            Rule::DeleteTimes,
        ],
        damage: |files| {
            // The cell is there twice, and its older version comes first.
            edit_tiles(files, "", Of::Dimension(0), |tile, bytes| {
                if tile == 0 {
                    bytes.copy_within(4..8, 0);
                }
            });
            edit_tiles(files, "", Of::Times, |tile, bytes| {
                if tile == 0 {
                    bytes[..8].copy_from_slice(&1000_u64.to_le_bytes());
                    bytes[8..16].copy_from_slice(&3000_u64.to_le_bytes());
                }
            });
        },
    },
    Damage {
        rule: Rule::SignedStringOrder,
        array: "sparse_strings_high_bytes",
        object: ", tile 0",
        besides: &[],
        damage: |_| {},
    },
    Damage {
        rule: Rule::DuplicateCells,
        array: "rtree_three_levels",
        object: ", tile 0",
        besides: &[Rule::TileBox, Rule::TileSum, Rule::FragmentSum],
        damage: |files| {
            for dimension in 0..2 {
                edit_tiles(files, "", Of::Dimension(dimension), |tile, bytes| {
                    if tile == 0 {
                        bytes.copy_within(4..8, 0);
                    }
                });
            }
        },
    },
    Damage {
        rule: Rule::CellTimes,
        array: "delete_consolidated",
        object: "t.tdb, field __timestamps, tile 0",
        besides: &[
            Rule::TileMax,
            Rule::TileSum,
            Rule::FragmentMax,
            Rule::FragmentSum,
            Rule::DeleteTimes,
        ],
        damage: |files| {
            edit_tiles(files, "", Of::Times, |tile, bytes| {
                if tile == 0 {
                    bytes[..8].copy_from_slice(&3001_u64.to_le_bytes());
                }
            });
        },
    },
    Damage {
        rule: Rule::DeleteTimes,
        array: "delete_consolidated",
        object: "dt.tdb, field __delete_timestamps, tile",
        besides: &[
            Rule::TileMin,
            Rule::TileSum,
            Rule::FragmentMin,
            Rule::FragmentSum,
        ],
        damage: |files| {
            edit_tiles(files, "", Of::DeleteTimes, |_, bytes| {
                let deleted = bytes.chunks_exact_mut(8).find(|time| **time == [0xFF; 8]);
                if let Some(time) = deleted {
                    time.copy_from_slice(&2000_u64.to_le_bytes());
                }
            });
        },
    },
];

/// Lowers the low end of the first leaf in the first dimension.
fn leaf_low_end(files: &mut Files, by: u32) {
    let mut metadata = Metadata::of(files, "");
    let start = metadata.footer.sections.rtree;
    let tiles = metadata.footer.sparse_tile_count as usize;
    let section = metadata.section(start);
    // The leaves are the last level: four numbers of four bytes each.
    let at = section.len() - tiles * 16;
    let low = u32::from_le_bytes(section[at..at + 4].try_into().expect("four bytes"));
    section[at..at + 4].copy_from_slice(&low.saturating_sub(by).to_le_bytes());
    metadata.put(files);
}
