use proptest::prelude::*;

use super::*;
use crate::format::filter_list::FilterList;
use crate::format::schema::CellValNum;

const ROW: Layout = Layout::RowMajor;
const COL: Layout = Layout::ColMajor;

fn order(tile_order: Layout, cell_order: Layout) -> GlobalOrder {
    let tiling = Tiling::Integer { lo: 1, extent: 2 };
    GlobalOrder {
        tilings: vec![tiling; 2],
        tile_order,
        cell_order,
        hilbert: None,
    }
}

fn sorted(order: &GlobalOrder) -> Vec<[u64; 2]> {
    let mut cells: Vec<[u64; 2]> = (1..=4).flat_map(|a| (1..=4).map(move |b| [a, b])).collect();
    cells.sort_by(|a, b| order.compare_keys(a, b));
    cells
}

#[test]
fn tiles_come_first_then_cells() {
    let head = |t, c| sorted(&order(t, c))[..6].to_vec();
    assert_eq!(
        head(ROW, ROW),
        [[1, 1], [1, 2], [2, 1], [2, 2], [1, 3], [1, 4]]
    );
    assert_eq!(
        head(ROW, COL),
        [[1, 1], [2, 1], [1, 2], [2, 2], [1, 3], [2, 3]]
    );
    assert_eq!(
        head(COL, ROW),
        [[1, 1], [1, 2], [2, 1], [2, 2], [3, 1], [3, 2]]
    );
    assert_eq!(
        head(COL, COL),
        [[1, 1], [2, 1], [1, 2], [2, 2], [3, 1], [4, 1]]
    );
}

#[test]
fn strings_and_untiled_dimensions_only_count_within_a_tile() {
    let order = GlobalOrder {
        tilings: vec![
            Tiling::Untiled,
            Tiling::Float64 {
                lo: -1.0,
                extent: 0.5,
            },
        ],
        tile_order: ROW,
        cell_order: ROW,
        hilbert: None,
    };
    let compare = |a: (&[u8], f64), b: (&[u8], f64)| {
        order.compare(|dim| match dim {
            0 => (Coordinate::Bytes(a.0), Coordinate::Bytes(b.0)),
            _ => (Coordinate::Key(a.1.to_key()), Coordinate::Key(b.1.to_key())),
        })
    };
    assert_eq!(compare((b"z", -1.0), (b"a", -0.5)), Ordering::Less);
    assert_eq!(compare((b"z", -1.0), (b"a", -0.6)), Ordering::Greater);
    assert_eq!(compare((b"a", -0.6), (b"a\0", -1.0)), Ordering::Less);
    assert_eq!(compare((b"a", -0.6), (b"a", -0.6)), Ordering::Equal);
    assert_eq!(compare((b"\x80", 0.0), (b"a", 0.0)), Ordering::Greater);
}

#[test]
fn the_index_of_a_tile_does_not_fall() {
    let (lo, extent) = (-180.0, 10.0);
    let order = GlobalOrder {
        tilings: vec![
            Tiling::Float64 { lo, extent },
            Tiling::Float32 {
                lo: -180.0,
                extent: 10.0,
            },
        ],
        tile_order: ROW,
        cell_order: ROW,
        hilbert: None,
    };
    let numbers = [f64::NEG_INFINITY, -180.0, -175.0, 0.0, 180.0, f64::INFINITY];
    let tiles = [0, 0, 0, 18, 36, u64::MAX];
    for (number, tile) in numbers.into_iter().zip(tiles) {
        assert_eq!(order.tile_index(0, number.to_key()), tile);
        assert_eq!(order.tile_index(1, (number as f32).to_key()), tile);
    }
    // The last tile of ranges without an upper end.
    for (dim, last) in [(0, u64::MAX), (1, u64::from(u32::MAX))] {
        assert_eq!(order.tile_index(dim, 0), 0);
        assert_eq!(order.tile_index(dim, last), u64::MAX);
    }
}

proptest! {
    #[test]
    fn the_order_is_total(
        cells in prop::collection::vec([0u64..9, 0u64..9], 3), tile_col: bool, cell_col: bool
    ) {
        let pick = |col| if col { COL } else { ROW };
        let order = order(pick(tile_col), pick(cell_col));
        let compare = |i: usize, j: usize| order.compare_keys(&cells[i], &cells[j]);
        prop_assert_eq!(compare(0, 1), compare(1, 0).reverse());
        prop_assert_eq!(compare(0, 1).is_eq(), cells[0] == cells[1]);
        if compare(0, 1).is_le() && compare(1, 2).is_le() {
            prop_assert!(compare(0, 2).is_le());
        }
    }
}

proptest! {
    #[test]
    fn written_keys_are_in_global_order(
        a in [0u64..9, 0u64..9], b in [0u64..9, 0u64..9], tile_col: bool, cell_col: bool
    ) {
        let pick = |col| if col { COL } else { ROW };
        let order = order(pick(tile_col), pick(cell_col));
        let (mut key_a, mut key_b) = (Vec::new(), Vec::new());
        order.written_key(&a, &mut key_a);
        order.written_key(&b, &mut key_b);
        prop_assert_eq!(key_a.cmp(&key_b), order.compare_keys(&a, &b));
    }
}

/// A fixed-size dimension; `from` converts values to bytes.
fn dimension(
    datatype: Datatype,
    from: impl Fn(f64) -> Vec<u8>,
    domain: (f64, f64),
    extent: f64,
) -> Dimension {
    Dimension {
        name: "d".to_string(),
        datatype,
        cell_val_num: CellValNum::Fixed(1),
        filters: FilterList::default(),
        domain: Some((from(domain.0), from(domain.1))),
        extent: Some(from(extent)),
    }
}

fn text() -> Dimension {
    let mut text = dimension(Datatype::StringAscii, |_| Vec::new(), (0.0, 0.0), 0.0);
    (text.cell_val_num, text.domain, text.extent) = (CellValNum::Var, None, None);
    text
}

fn sort<T>(
    order: &GlobalOrder,
    cells: &[T],
    at: impl Fn(&T, usize) -> Coordinate<'_>,
) -> Vec<usize> {
    let mut found: Vec<usize> = (0..cells.len()).collect();
    found.sort_by(|a, b| {
        let (a, b) = (&cells[*a], &cells[*b]);
        order.compare(|dim| (at(a, dim), at(b, dim)))
    });
    found
}

// The expected orders below are those in which libtiledb 2.30.0 stored the cells.

#[test]
fn libtiledb_orders_integers_along_the_curve_like_this() {
    let cells: [[i32; 2]; 24] = [
        [89, 44],
        [25, -49],
        [37, 99],
        [80, -11],
        [16, -4],
        [55, 1],
        [67, 17],
        [-55, 11],
        [-89, 2],
        [-40, 100],
        [-43, 62],
        [75, 59],
        [83, 40],
        [-99, 25],
        [0, -32],
        [65, 98],
        [-74, -7],
        [60, -57],
        [-77, 69],
        [-6, -68],
        [64, 72],
        [-40, 23],
        [-32, -77],
        [-45, -92],
    ];
    let int = dimension(
        Datatype::Int32,
        |v| (v as i32).to_le_bytes().to_vec(),
        (-100.0, 100.0),
        50.0,
    );
    let order = GlobalOrder::of_dimensions(&[int.clone(), int], ROW, Layout::Hilbert).unwrap();
    let expected = [
        23, 22, 19, 14, 16, 8, 13, 7, 18, 10, 9, 21, 2, 11, 20, 15, 0, 12, 6, 5, 3, 4, 1, 17,
    ];
    assert_eq!(
        sort(&order, &cells, |c, d| Coordinate::Key(c[d].to_key())),
        expected
    );
}

#[test]
fn libtiledb_orders_three_types_like_this() {
    let cells: [(f64, f32, u8); 12] = [
        (-0.929, 3.695, 5),
        (0.03, 0.037, 3),
        (-0.068, 8.3, 4),
        (0.834, 1.545, 6),
        (0.258, 2.676, 4),
        (0.028, 8.803, 2),
        (-0.006, 5.098, 4),
        (-0.505, 8.472, 4),
        (-0.976, 6.397, 0),
        (-0.615, 7.418, 0),
        (0.384, 0.915, 4),
        (-0.599, 5.411, 2),
    ];
    let dimensions = [
        dimension(
            Datatype::Float64,
            |v| v.to_le_bytes().to_vec(),
            (-1.0, 1.0),
            0.3,
        ),
        dimension(
            Datatype::Float32,
            |v| (v as f32).to_le_bytes().to_vec(),
            (0.0, 10.0),
            2.5,
        ),
        dimension(Datatype::UInt8, |v| vec![v as u8], (0.0, 9.0), 3.0),
    ];
    let by_tile_row = [0, 8, 9, 11, 7, 1, 6, 5, 2, 10, 4, 3];
    let by_tile_col = [8, 9, 11, 5, 1, 10, 0, 4, 6, 7, 2, 3];
    for (tile_order, cell_order, expected) in [
        (ROW, Layout::Hilbert, [0, 6, 7, 2, 9, 8, 11, 5, 3, 4, 1, 10]),
        (ROW, ROW, by_tile_row),
        (ROW, COL, by_tile_row),
        (COL, ROW, by_tile_col),
        (COL, COL, by_tile_col),
    ] {
        let order = GlobalOrder::of_dimensions(&dimensions, tile_order, cell_order).unwrap();
        let found = sort(&order, &cells, |c, d| {
            Coordinate::Key([c.0.to_key(), c.1.to_key(), c.2.to_key()][d])
        });
        assert_eq!(found, expected, "{tile_order:?} {cell_order:?}");
    }
}

#[test]
fn libtiledb_orders_strings_like_this() {
    type Cell = (&'static [u8], i64);
    let int = dimension(
        Datatype::Int64,
        |v| (v as i64).to_le_bytes().to_vec(),
        (0.0, 99.0),
        10.0,
    );
    fn at(cell: &Cell, dim: usize) -> Coordinate<'_> {
        match dim {
            0 => Coordinate::Bytes(cell.0),
            _ => Coordinate::Key(cell.1.to_key()),
        }
    }
    let ascii: [Cell; 9] = [
        (b"", 59),
        (b"a", 32),
        (b"abc", 22),
        (b"abd", 15),
        (b"zz", 38),
        (b"x", 81),
        (b"b", 40),
        (b"ab", 37),
        (b"0", 57),
    ];
    let others: [Cell; 9] = [
        (b"", 59),
        (b"a", 32),
        (b"abc", 22),
        (b"abd", 15),
        (b"zz", 38),
        (b"\x7f", 81),
        (b"b\xc3\xa9", 40),
        (b"ab\x80", 37),
        (b"0", 57),
    ];
    for (cell_order, cells, expected) in [
        (ROW, &ascii, [3, 2, 1, 7, 4, 6, 0, 8, 5]),
        (Layout::Hilbert, &ascii, [3, 2, 1, 7, 6, 4, 0, 8, 5]),
        (Layout::Hilbert, &others, [3, 2, 1, 4, 0, 8, 5, 6, 7]),
    ] {
        let order = GlobalOrder::of_dimensions(&[text(), int.clone()], ROW, cell_order).unwrap();
        assert_eq!(
            sort(&order, cells.as_slice(), at),
            expected,
            "{cell_order:?}"
        );
    }
}
