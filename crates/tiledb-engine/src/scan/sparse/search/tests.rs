//! No search misses a cell, and where cells are in order, a search decodes few chunks.

use proptest::prelude::*;

use super::*;
use crate::format::filter_list::FilterList;
use crate::format::schema::{CellValNum, Dimension, Layout};
use crate::geometry::subarray::KeyRange;
use crate::growth::grows_in_proportion;

fn dimension(extent: Option<u16>) -> Dimension {
    Dimension {
        name: "d".to_owned(),
        datatype: Datatype::UInt16,
        cell_val_num: CellValNum::Fixed(1),
        filters: FilterList::default(),
        domain: Some((0_u16.to_le_bytes().into(), 999_u16.to_le_bytes().into())),
        extent: extent.map(|extent| extent.to_le_bytes().into()),
    }
}

/// Cells of a tile in global order.
struct Tile {
    dimensions: Vec<Dimension>,
    order: GlobalOrder,
    cells: Vec<[u16; 2]>,
}

impl Tile {
    fn new(extents: [Option<u16>; 2], orders: (Layout, Layout), mut cells: Vec<[u16; 2]>) -> Self {
        let dimensions = extents.map(dimension).to_vec();
        let order = GlobalOrder::of_dimensions(&dimensions, orders.0, orders.1).unwrap();
        let keys = |cell: &[u16; 2]| cell.map(NativeKey::to_key);
        cells.sort_by(|a, b| order.compare_keys(&keys(a), &keys(b)));
        Self {
            dimensions,
            order,
            cells,
        }
    }

    /// Searches, in chunks of `per_chunk` cells, for the cells whose dimension `d` lies in `ranges`. Gives the numbers
    /// of decoded and of all chunks, and checks that no cell is missed.
    fn search(&self, d: usize, ranges: &DimRanges, per_chunk: usize) -> Option<(usize, usize)> {
        let values = |d: usize| self.cells.iter().map(move |cell| cell[d]);
        let of_box = |d: usize| {
            let (lo, hi) = (values(d).min().unwrap(), values(d).max().unwrap());
            Some((lo.to_key(), hi.to_key()))
        };
        let by = search_by(&self.dimensions, &self.order, of_box, |s| s == d)?;
        assert_eq!(by.dimension, d);
        let bytes: Vec<u8> = values(d).flat_map(u16::to_le_bytes).collect();
        let starts = (0..bytes.len()).step_by(per_chunk * 2);
        let chunks = starts
            .map(|start| start..(start + per_chunk * 2).min(bytes.len()))
            .collect::<Vec<_>>();
        let mut search = TileSearch::new(&by, Datatype::UInt16, &self.order, ranges);
        let mut decoded = vec![false; chunks.len()];
        search.begin(&chunks);
        while let Some(number) = search.next() {
            assert!(
                !std::mem::replace(&mut decoded[number], true),
                "{number} twice"
            );
            search.decoded(number, &bytes[chunks[number].clone()]);
        }
        let mut mask = vec![true; self.cells.len()];
        search.select(&mut mask);
        for (cell, (value, selected)) in values(d).zip(mask).enumerate() {
            assert_eq!(selected, decoded[cell / per_chunk]);
            assert!(
                selected || !ranges.contains_key(value.to_key()),
                "cell {cell} is missed"
            );
        }
        Some((decoded.iter().filter(|d| **d).count(), chunks.len()))
    }
}

fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![Just(Layout::RowMajor), Just(Layout::ColMajor)]
}

fn ranges(ranges: &[(u16, u16)]) -> DimRanges {
    let ranges = ranges.iter().map(|(lo, len)| KeyRange {
        lo: lo.to_key(),
        hi: (lo + len).to_key(),
    });
    DimRanges::from_keys(ranges.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_cell_is_missed(
        extents in prop::array::uniform2(prop::option::of(1..30_u16)),
        orders in (layout(), layout()),
        corner in prop::array::uniform2(0..90_u16),
        size in prop::array::uniform2(1..40_u16),
        cells in prop::collection::vec(prop::array::uniform2(0..1000_u16), 1..200),
        window in (0.0..1.0_f64, 0.0..1.0_f64),
        wanted in prop::collection::vec((0..130_u16, 0..9_u16), 1..4),
        per_chunk in 1..12_usize,
    ) {
        let cells = cells.iter().map(|c| [0, 1].map(|d| corner[d] + c[d] % size[d]));
        let mut tile = Tile::new(extents, orders, cells.collect());
        // A tile begins and ends anywhere in the order.
        let cell_at = |part: f64| (part * tile.cells.len() as f64) as usize;
        let (from, to) = (cell_at(window.0.min(window.1)), cell_at(window.0.max(window.1)) + 1);
        tile.cells = tile.cells[from..to].to_vec();
        for d in 0..2 {
            tile.search(d, &ranges(&wanted), per_chunk);
        }
    }
}

/// Cells of fourteen out of fifteen space tiles in a row, and of the beginning of the next row.
#[test]
fn a_slice_of_the_inner_dimension_is_found_in_few_chunks() {
    let cells = (0..40_u16).flat_map(|row| (0..150_u16).map(move |column| [row, column]));
    let mut tile = Tile::new(
        [Some(20), Some(10)],
        (Layout::RowMajor, Layout::RowMajor),
        cells.collect(),
    );
    tile.cells = tile.cells[1000..3900].to_vec();
    for column in [0, 7, 44, 77, 101, 149] {
        let (decoded, chunks) = tile.search(1, &ranges(&[(column, 0)]), 200).unwrap();
        assert!(
            decoded <= 6 && chunks == 15,
            "{column}: {decoded} of {chunks}"
        );
    }
    // In a single row of space tiles, the bounds of both ends are unknown.
    tile.cells.retain(|cell| cell[0] < 20);
    let (decoded, chunks) = tile.search(1, &ranges(&[(77, 0)]), 100).unwrap();
    assert!(decoded <= 4 && chunks == 20, "{decoded} of {chunks}");
}

#[test]
fn the_leading_dimension_is_searched_by_its_coordinates() {
    let cells = (0..3000_u16).map(|i| [i / 3, i % 7]);
    let tile = Tile::new(
        [None, None],
        (Layout::RowMajor, Layout::ColMajor),
        cells.clone().collect(),
    );
    assert_eq!(tile.search(0, &ranges(&[(5, 5)]), 100), None);
    let tile = Tile::new(
        [None, None],
        (Layout::ColMajor, Layout::RowMajor),
        cells.collect(),
    );
    assert_eq!(tile.search(1, &ranges(&[(5, 5)]), 100), None);
    let (decoded, chunks) = tile.search(0, &ranges(&[(501, 2), (910, 0)]), 100).unwrap();
    assert!(decoded <= 6 && chunks == 30, "{decoded} of {chunks}");
}

#[test]
fn chunks_of_one_cell_are_decoded_in_one_pass() {
    let cells = (0..100).flat_map(|x| (0..1000).map(move |y| [x, y]));
    let orders = (Layout::RowMajor, Layout::RowMajor);
    let tile = Tile::new([None, None], orders, cells.collect());
    let even = (0..100).step_by(2).map(|x| (x, 0)).collect::<Vec<_>>();
    let begin = std::time::Instant::now();
    let (decoded, all) = tile.search(0, &ranges(&even), 1).unwrap();
    assert_eq!(all, 100_000);
    assert!((50_000..100_000).contains(&decoded), "{decoded}");
    // It took minutes when each decoded chunk was looked for among all.
    assert!(begin.elapsed().as_secs() < 20);
}

/// Cells that are not in order are all decoded, once the disorder shows.
#[test]
fn disorder_ends_the_search() {
    let mut tile = Tile::new(
        [None, None],
        (Layout::RowMajor, Layout::RowMajor),
        (0..1000_u16).map(|i| [i, 0]).collect(),
    );
    tile.cells.reverse();
    assert_eq!(tile.search(0, &ranges(&[(3, 4)]), 50), Some((20, 20)));
}

/// The writer of a tile chooses its chunks, and may choose one for each cell.
#[test]
fn chunks_of_one_cell_take_time_in_proportion() {
    let tile = |count: usize| {
        let cells = (0..count).map(|cell| [(cell % 1000) as u16, 0]);
        let orders = (Layout::RowMajor, Layout::RowMajor);
        Tile::new([None, None], orders, cells.collect())
    };
    grows_in_proportion(5_000, tile, |tile| {
        let (decoded, chunks) = tile.search(0, &ranges(&[(0, 999)]), 1).unwrap();
        assert_eq!((decoded, chunks), (tile.cells.len(), tile.cells.len()));
    });
}
