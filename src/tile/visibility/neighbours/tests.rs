use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::format::datatype::Datatype;

/// A tile of cells with two dimensions, of floats and of strings.
#[derive(Debug, Clone, Default)]
struct Tile {
    floats: Vec<f64>,
    strings: Vec<&'static str>,
    times: Vec<u64>,
    mask: Vec<bool>,
}

impl Tile {
    fn push(&mut self, (float, string, time, asked): Cell) {
        self.floats.push(float);
        self.strings.push(string);
        self.times.push(time);
        self.mask.push(asked);
    }

    fn dims(&self) -> (Vec<u8>, (Vec<usize>, Vec<u8>)) {
        let ends = self.strings.iter().scan(0, |end, string| {
            *end += string.len();
            Some(*end)
        });
        let offsets = std::iter::once(0).chain(ends).collect();
        let floats = self.floats.iter().flat_map(|v| v.to_le_bytes());
        let strings = self.strings.concat().into_bytes();
        (floats.collect(), (offsets, strings))
    }
}

type Cell = (f64, &'static str, u64, bool);

/// The cells with newer versions.
fn older(tiles: &[Tile]) -> Vec<(usize, usize)> {
    let stored: Vec<_> = tiles.iter().map(Tile::dims).collect();
    let floats = |tile: usize| DimCells::Numbers {
        datatype: Datatype::Float64,
        bytes: &stored[tile].0,
    };
    let strings = |tile: usize| DimCells::Bytes {
        offsets: stored[tile].1.0.clone(),
        data: &stored[tile].1.1,
    };
    let mut runs = Runs::new(tiles.iter().map(|tile| Asked::new(&tile.mask)));
    let all = 0..tiles.len();
    let meet = |runs: &Runs| all.clone().map(|t| runs.meet(t)).collect::<Vec<_>>();
    let needed = meet(&runs).into_iter().enumerate();
    let dims: Vec<_> = needed.map(|(t, n)| n.then(|| strings(t))).collect();
    runs.compare(&dims).unwrap();
    let needed = meet(&runs).into_iter().enumerate();
    let dims: Vec<_> = needed.map(|(t, n)| n.then(|| floats(t))).collect();
    runs.compare(&dims).unwrap();
    let needed = meet(&runs).into_iter().enumerate();
    let timed = |(t, needed): (usize, bool)| {
        needed.then(|| TimedTile {
            times: &tiles[t].times,
            floats: vec![floats(t)],
        })
    };
    let timed: Vec<_> = needed.map(timed).collect();
    let mut older = runs.older(&timed);
    older.sort_unstable();
    older
}

/// The expected result, computed as simply as possible.
fn simple(tiles: &[Tile]) -> Vec<(usize, usize)> {
    let mut newest = HashMap::new();
    let mut older = Vec::new();
    for (t, tile) in tiles.iter().enumerate() {
        for c in (0..tile.mask.len()).filter(|c| tile.mask[*c]) {
            let coordinates = (tile.floats[c].to_bits(), tile.strings[c]);
            let known = newest.entry(coordinates).or_insert((t, c));
            if *known == (t, c) {
                continue;
            }
            if tile.times[c] > tiles[known.0].times[known.1] {
                older.push(std::mem::replace(known, (t, c)));
            } else {
                older.push((t, c));
            }
        }
    }
    older.sort_unstable();
    older
}

/// Cuts cells into tiles, each with a cell to compare.
fn cut(cells: &[Cell], sizes: &[usize]) -> Vec<Tile> {
    let mut tiles = Vec::new();
    let (mut rest, mut sizes) = (cells, sizes.iter().cycle());
    while !rest.is_empty() {
        let size = sizes.next().map_or(1, |size| (*size).min(rest.len()));
        let (now, then) = rest.split_at(size);
        let mut tile = Tile::default();
        now.iter().for_each(|cell| tile.push(*cell));
        if tile.mask.contains(&true) {
            tiles.push(tile);
        }
        rest = then;
    }
    tiles
}

const COORDINATES: [f64; 6] = [-1.5, -0.0, 0.0, 1.0, 1e300, f64::INFINITY];

proptest! {
    #[test]
    fn the_newest_of_neighbours_is_left(
        mut cells in prop::collection::vec(
            (
                prop::sample::select(COORDINATES.to_vec()),
                prop::sample::select(vec!["", "a", "ab"]),
                0_u64..4,
                prop::bool::weighted(0.8),
            ),
            0..60,
        ),
        sizes in prop::collection::vec(1_usize..6, 1..4),
    ) {
        // Zeros of either sign stay mixed.
        cells.sort_by_key(|(float, string, _, _)| (float.to_key(), *string));
        let tiles = cut(&cells, &sizes);
        prop_assert_eq!(older(&tiles), simple(&tiles));
    }
}

#[test]
fn copies_are_found_in_a_tile_and_across_tiles_of_the_same_coordinates() {
    let cell = |coordinate, time| (coordinate, "", time, true);
    let cells = [
        cell(1.0, 3),
        cell(2.0, 1),
        cell(2.0, 4),
        cell(2.0, 2),
        cell(2.0, 9),
        cell(2.0, 9),
        cell(2.0, 8),
        cell(3.0, 1),
    ];
    let tiles = cut(&cells, &[2]);
    assert_eq!(older(&tiles), [(0, 1), (1, 0), (1, 1), (2, 1), (3, 0)]);
    assert_eq!(
        older(&cut(&cells, &[8])),
        [(0, 1), (0, 2), (0, 3), (0, 5), (0, 6)]
    );
}

#[test]
fn a_cell_that_is_not_asked_for_hides_nothing_and_parts_nothing() {
    let cells = [
        (1.0, "", 9, false),
        (1.0, "", 5, true),
        (1.0, "", 8, false),
        (1.0, "", 4, true),
    ];
    assert_eq!(older(&cut(&cells, &[4])), [(0, 3)]);
    // A tile without cells to compare is left out.
    let tiles = cut(&cells, &[1]);
    assert_eq!(tiles.len(), 2);
    assert_eq!(older(&tiles), [(1, 0)]);
}

#[test]
fn what_has_no_order_does_not_part_copies() {
    let cell = |coordinate, time| (coordinate, "", time, true);
    let zeros = [cell(-0.0, 3), cell(0.0, 2), cell(-0.0, 1)];
    assert_eq!(older(&cut(&zeros, &[3])), [(0, 2)]);
    assert_eq!(older(&cut(&zeros, &[1])), [(2, 0)]);
    let nan = [cell(1.0, 3), cell(f64::NAN, 2), cell(1.0, 1)];
    assert_eq!(older(&cut(&nan, &[2])), [(1, 0)]);
}
