//! Fragments: their files, footers and sections.

use tiledb_engine::maintain::check::Rule;

use super::super::forge::edit;
use super::{Damage, add, cut, remove};
use crate::support::array_files::{Files, METADATA_FILE};

pub const FRAGMENTS: &[Damage] = &[
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
];
