//! Tiles and their cells.

use tiledb_engine::maintain::check::Rule;

use super::super::forge::{Of, edit_tiles};
use super::{Damage, leaf_low_end, swap_cells};

pub const TILES: &[Damage] = &[
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
