//! How fast is it found which copy of a cell is seen, where fragments overlap?
//!
//! ```text
//! python benches/arrays.py /data/bench            # once; needs tiledb==0.36.1, numpy, pyarrow
//! TILEDB_BENCH_DIR=/data/bench cargo bench --bench overlapping_merge
//! ```
//!
//! First one thread and coordinates in memory, as they are after decoding; the bytes are theirs. Then, with the folder
//! of arrays, a scan of such an array beside Parquet that was merged before it was written. A cell in five is
//! overwritten by a later fragment.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a benchmark prints, and stops at the first surprise"
)]

mod common;

use std::time::Instant;

use common::{Bench, Volume};
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::tile::coordinates::DimCells;
use tiledb_engine::tile::visibility::{ComparedTile, hide_older_versions};

// Where speed means nothing, a few will do.
const CELLS: u64 = if cfg!(debug_assertions) {
    1 << 16
} else {
    1 << 20
};

/// One dimension of one tile.
enum Column {
    Numbers(Datatype, Vec<u8>),
    Strings(Vec<usize>, Vec<u8>),
}

/// The cells of a fragment.
struct Tile {
    columns: Vec<Column>,
    timestamps: Option<Vec<u64>>,
    cells: usize,
}

fn main() {
    let side = 100_000;
    let grid = |key: u64| vec![long(key % 8_000), long(key / 8_000 % side)];
    let far = |key: u64| {
        vec![
            long(key.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            long(mix(key)),
            long(key),
        ]
    };
    let genomic = |key: u64| {
        let contig = format!("chr{}", key % 24).into_bytes();
        let sample = format!("sample-{:04}", key / 24 % 500).into_bytes();
        vec![
            Cell::String(contig),
            Cell::Int((key / 12_000) as u32),
            Cell::String(sample),
        ]
    };
    let mut bench = Bench::new("overlapping_merge", 1.0);
    run(&mut bench, "2 fragments, 2 integers", 2, false, grid);
    run(&mut bench, "20 fragments, 2 integers", 20, false, grid);
    run(&mut bench, "200 fragments, 2 integers", 200, false, grid);
    run(
        &mut bench,
        "20 fragments, 2 integers, timestamps",
        20,
        true,
        grid,
    );
    run(
        &mut bench,
        "20 fragments, 3 integers far apart",
        20,
        false,
        far,
    );
    run(
        &mut bench,
        "4 fragments, string, integer, string",
        4,
        false,
        genomic,
    );
    bench.query("scan, 20 fragments", "overlapping20", "SELECT * FROM a");
    bench.query(
        "scan with a condition, 20 fragments",
        "overlapping20",
        "SELECT * FROM a WHERE b >= 10",
    );
    bench.report();
}

enum Cell {
    Long(u64),
    Int(u32),
    String(Vec<u8>),
}

fn long(value: u64) -> Cell {
    Cell::Long(value)
}

/// Numbers that look random.
fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_mul(0x7FB5_D329_728E_A185);
    (n ^ (n >> 27)).wrapping_mul(0x81DA_DEF4_BC2D_D44D) ^ (n >> 33)
}

fn run(
    bench: &mut Bench,
    name: &str,
    fragments: u64,
    timed: bool,
    cell: impl Fn(u64) -> Vec<Cell>,
) {
    let each = CELLS / fragments;
    let tiles: Vec<Tile> = (0..fragments)
        .map(|fragment| {
            let fresh = (0..each).map(|i| mix(fragment * each + i));
            // Of every five, one that an earlier fragment wrote.
            let mut keys: Vec<u64> = fresh
                .enumerate()
                .map(|(i, fresh)| match i % 5 {
                    0 if fragment > 0 => mix(mix(fresh) % (fragment * each)),
                    _ => fresh,
                })
                .collect();
            keys.sort_unstable();
            keys.dedup();
            tile(&keys, timed, &cell)
        })
        .collect();
    let cells: usize = tiles.iter().map(|t| t.cells).sum();
    let bytes: usize = tiles
        .iter()
        .flat_map(|t| &t.columns)
        .map(Column::bytes)
        .sum();
    let volume = Volume {
        elements: cells as u64,
        bytes: bytes as u64,
    };
    bench.alone(name, volume, || {
        let mut masks: Vec<_> = tiles.iter().map(|t| vec![true; t.cells]).collect();
        let mut contested: Vec<_> = tiles
            .iter()
            .zip(&mut masks)
            .enumerate()
            .map(|(age, (tile, mask))| ComparedTile {
                age,
                fragment_time: age as u64,
                timestamps: tile.timestamps.as_deref(),
                dims: tile.columns.iter().map(Column::view).collect(),
                mask,
            })
            .collect();
        let begin = Instant::now();
        let hidden = hide_older_versions(&mut contested).expect("cells can be compared");
        let time = begin.elapsed();
        assert!(hidden > cells / 20, "{hidden} of {cells} cells are hidden");
        time
    });
}

fn tile(keys: &[u64], timed: bool, cell: &impl Fn(u64) -> Vec<Cell>) -> Tile {
    let mut columns: Vec<Column> = Vec::new();
    for (i, key) in keys.iter().enumerate() {
        for (d, value) in cell(*key).into_iter().enumerate() {
            if i == 0 {
                columns.push(match &value {
                    Cell::Long(_) => Column::Numbers(Datatype::Int64, Vec::new()),
                    Cell::Int(_) => Column::Numbers(Datatype::UInt32, Vec::new()),
                    Cell::String(_) => Column::Strings(vec![0], Vec::new()),
                });
            }
            match (&mut columns[d], value) {
                (Column::Numbers(_, bytes), Cell::Long(v)) => bytes.extend(v.to_le_bytes()),
                (Column::Numbers(_, bytes), Cell::Int(v)) => bytes.extend(v.to_le_bytes()),
                (Column::Strings(offsets, data), Cell::String(v)) => {
                    data.extend(v);
                    offsets.push(data.len());
                }
                _ => unreachable!("a dimension has one type"),
            }
        }
    }
    Tile {
        columns,
        timestamps: timed.then(|| keys.iter().map(|key| key % 50).collect()),
        cells: keys.len(),
    }
}

impl Column {
    fn bytes(&self) -> usize {
        match self {
            Self::Numbers(_, bytes) => bytes.len(),
            Self::Strings(_, data) => data.len(),
        }
    }

    fn view(&self) -> DimCells<'_> {
        match self {
            Self::Numbers(datatype, bytes) => DimCells::Numbers {
                datatype: *datatype,
                bytes,
            },
            Self::Strings(offsets, data) => DimCells::Bytes {
                offsets: offsets.clone(),
                data,
            },
        }
    }
}
