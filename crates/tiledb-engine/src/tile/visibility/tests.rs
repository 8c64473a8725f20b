use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::format::datatype::Datatype;

/// A tile that owns the data of a [`ComparedTile`].
#[derive(Debug, Clone)]
struct Tile {
    age: usize,
    time: u64,
    timestamps: Option<Vec<u64>>,
    /// Cell by cell, dimension by dimension, as stored.
    cells: Vec<Vec<Vec<u8>>>,
    mask: Vec<bool>,
}

/// The type of each dimension; `None` for strings.
type Types = [Option<Datatype>];

/// Tiles with 0.0 in place of every -0.0.
fn with_one_zero(types: &Types, tiles: &[Tile]) -> Vec<Tile> {
    let negative = (-0.0_f64).to_le_bytes();
    let mut tiles = tiles.to_vec();
    for cell in tiles.iter_mut().flat_map(|tile| &mut tile.cells) {
        for (value, datatype) in cell.iter_mut().zip(types) {
            if *datatype == Some(Datatype::Float64) && *value == negative {
                value.fill(0);
            }
        }
    }
    tiles
}

/// The expected result, computed as simply as possible.
fn simple(tiles: &[Tile]) -> Vec<Vec<bool>> {
    let mut newest = HashMap::new();
    let asked = |tile: &Tile| {
        (0..tile.mask.len())
            .filter(|c| tile.mask[*c])
            .collect::<Vec<_>>()
    };
    let time = |tile: &Tile, cell: usize| tile.timestamps.as_ref().map_or(tile.time, |t| t[cell]);
    for (t, tile) in tiles.iter().enumerate() {
        for cell in asked(tile) {
            let version = (time(tile, cell), tile.age, t, cell);
            let known = newest.entry(&tile.cells[cell]).or_insert(version);
            if (known.0, known.1) < (version.0, version.1) {
                *known = version;
            }
        }
    }
    let seen = |t: usize, tile: &Tile, cell: usize| {
        let (newest_time, age, newest_tile, newest_cell) = newest[&tile.cells[cell]];
        (time(tile, cell), tile.age) == (newest_time, age)
            && (tile.timestamps.is_none() || (t, cell) == (newest_tile, newest_cell))
    };
    let mask = |(t, tile): (usize, &Tile)| {
        let cells = 0..tile.mask.len();
        cells.map(|c| tile.mask[c] && seen(t, tile, c)).collect()
    };
    tiles.iter().enumerate().map(mask).collect()
}

/// The result under test.
fn resolve(types: &Types, tiles: &[Tile]) -> (Vec<Vec<bool>>, usize) {
    let columns = |tile: &Tile| {
        let column = |d: usize| {
            let starts = tile.cells.iter().scan(0, |end, cell| {
                let start = *end;
                *end += cell[d].len();
                Some(start)
            });
            let data: Vec<u8> = tile.cells.iter().flat_map(|cell| cell[d].clone()).collect();
            let offsets: Vec<usize> = starts.chain([data.len()]).collect();
            (offsets, data)
        };
        (0..types.len()).map(column).collect::<Vec<_>>()
    };
    let columns: Vec<_> = tiles.iter().map(columns).collect();
    let mut masks: Vec<_> = tiles.iter().map(|t| t.mask.clone()).collect();
    let mut compared = Vec::new();
    for ((tile, columns), mask) in tiles.iter().zip(&columns).zip(&mut masks) {
        let dims = types
            .iter()
            .zip(columns)
            .map(|(datatype, (offsets, data))| match datatype {
                Some(datatype) => DimCells::Numbers {
                    datatype: *datatype,
                    bytes: data,
                },
                None => DimCells::Bytes {
                    offsets: offsets.clone(),
                    data,
                },
            });
        compared.push(ComparedTile {
            age: tile.age,
            fragment_time: tile.time,
            timestamps: tile.timestamps.as_deref(),
            dims: dims.collect(),
            mask,
        });
    }
    let hidden = hide_older_versions(&mut compared).unwrap();
    (masks, hidden)
}

/// A few values of a dimension, some of them far apart.
fn value(datatype: Option<Datatype>) -> BoxedStrategy<Vec<u8>> {
    match datatype {
        None => prop::sample::select(vec!["", "a", "aa", "b", "\0"])
            .prop_map(|s| s.as_bytes().to_vec())
            .boxed(),
        Some(Datatype::Float64) => prop::sample::select(vec![-0.0_f64, 0.0, 1.5, -1e300, 1e300])
            .prop_map(|v| v.to_le_bytes().to_vec())
            .boxed(),
        Some(datatype) => {
            let size = datatype.size();
            let near = (0_u8..4).prop_map(|v| u64::from(v).to_le_bytes());
            let far =
                prop::sample::select(vec![u64::MAX, 1 << 63, 12345]).prop_map(u64::to_le_bytes);
            prop_oneof![3 => near, 1 => far]
                .prop_map(move |bytes| bytes[..size].to_vec())
                .boxed()
        }
    }
}

fn tiles(types: &'static Types) -> impl Strategy<Value = Vec<Tile>> {
    let cell = move || types.iter().map(|t| value(*t)).collect::<Vec<_>>();
    let rows = move || prop::collection::vec((cell(), 0_u64..4, prop::bool::weighted(0.8)), 0..20);
    let fragment = move || {
        let tiles = prop::collection::vec(rows(), 1..3);
        (0_u64..4, prop::bool::weighted(0.3), tiles)
    };
    prop::collection::vec(fragment(), 1..5).prop_map(|fragments| {
        let mut all = Vec::new();
        for (age, (time, timed, tiles)) in fragments.into_iter().enumerate() {
            for rows in tiles {
                all.push(Tile {
                    age,
                    time,
                    timestamps: timed.then(|| rows.iter().map(|row| row.1).collect()),
                    cells: rows.iter().map(|row| row.0.clone()).collect(),
                    mask: rows.iter().map(|row| row.2).collect(),
                });
            }
        }
        all
    })
}

fn agrees(types: &Types, tiles: &[Tile]) -> Result<(), TestCaseError> {
    let expected = simple(&with_one_zero(types, tiles));
    let (masks, hidden) = resolve(types, tiles);
    let asked = tiles.iter().flat_map(|t| &t.mask).filter(|m| **m).count();
    let left = expected.iter().flatten().filter(|m| **m).count();
    prop_assert_eq!(masks, expected);
    prop_assert_eq!(hidden, asked - left);
    Ok(())
}

const NUMBER: &Types = &[Some(Datatype::Int64)];
const SMALL: &Types = &[Some(Datatype::UInt16), Some(Datatype::Int8)];
const GENOMIC: &Types = &[None, Some(Datatype::UInt32), None];
const FLOATS: &Types = &[Some(Datatype::Float64), Some(Datatype::Float64)];
/// Dimensions with more bits than a packed number has.
const WIDE: &Types = &[
    Some(Datatype::UInt64),
    Some(Datatype::Int64),
    None,
    Some(Datatype::UInt64),
    Some(Datatype::Int32),
];

proptest! {
    #[test]
    fn one_dimension(tiles in tiles(NUMBER)) {
        agrees(NUMBER, &tiles)?;
    }

    #[test]
    fn small_numbers(tiles in tiles(SMALL)) {
        agrees(SMALL, &tiles)?;
    }

    #[test]
    fn strings_and_numbers(tiles in tiles(GENOMIC)) {
        agrees(GENOMIC, &tiles)?;
    }

    #[test]
    fn floats_with_two_zeros(tiles in tiles(FLOATS)) {
        agrees(FLOATS, &tiles)?;
    }

    #[test]
    fn more_bits_than_a_number_has(tiles in tiles(WIDE)) {
        agrees(WIDE, &tiles)?;
    }
}

#[test]
fn many_cells_go_through_many_buckets() {
    // Each fragment writes every key of the first, third, fifth, … kind again.
    let mut tiles = Vec::new();
    for age in 0..6_usize {
        let keys = (0..30_000_u64).map(|i| i * (age as u64 + 1) % 40_009);
        let cells = keys.map(|key| vec![(key << 20).to_le_bytes().to_vec()]);
        tiles.push(Tile {
            age,
            time: 10 - (age as u64 % 3),
            timestamps: (age == 2).then(|| (0..30_000).map(|i| 7 + i % 5).collect()),
            cells: cells.collect(),
            mask: vec![true; 30_000],
        });
    }
    for timed in [true, false] {
        let expected = simple(&tiles);
        assert_eq!(resolve(NUMBER, &tiles).0, expected, "timed: {timed}");
        tiles.retain(|t| t.timestamps.is_none());
    }
}

fn tile(age: usize, time: u64, keys: &[u64], times: Option<&[u64]>) -> Tile {
    Tile {
        age,
        time,
        timestamps: times.map(<[u64]>::to_vec),
        cells: keys
            .iter()
            .map(|k| vec![k.to_le_bytes().to_vec()])
            .collect(),
        mask: vec![true; keys.len()],
    }
}

fn masks(tiles: &[Tile]) -> Vec<Vec<bool>> {
    resolve(&[Some(Datatype::UInt64)], tiles).0
}

#[test]
fn the_newest_fragment_wins() {
    let tiles = [tile(0, 10, &[1, 2, 3], None), tile(1, 20, &[3, 4], None)];
    assert_eq!(masks(&tiles), [vec![true, true, false], vec![true, true]]);
}

#[test]
fn a_cells_own_timestamp_beats_the_age_of_its_fragment() {
    // A consolidated fragment [1, 10] holds a version of cell 7 from time 10; a fragment from time 5 is later in order.
    let tiles = [
        tile(0, 1, &[7, 7, 8], Some(&[10, 1, 1])),
        tile(1, 5, &[7, 8], None),
    ];
    assert_eq!(masks(&tiles), [vec![true, false, false], vec![false, true]]);
}

#[test]
fn copies_inside_one_fragment_without_timestamps_stay() {
    let tiles = [tile(0, 1, &[5, 5], None), tile(1, 1, &[6], None)];
    assert_eq!(masks(&tiles), [vec![true, true], vec![true]]);
}

#[test]
fn a_tie_goes_to_the_later_fragment_and_unasked_cells_do_not_count() {
    let mut tiles = [tile(0, 5, &[1], None), tile(1, 5, &[1], None)];
    assert_eq!(masks(&tiles), [[false], [true]]);
    tiles[1].mask[0] = false;
    assert_eq!(masks(&tiles), [[true], [false]]);
}
