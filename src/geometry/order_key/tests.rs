//! Sorting by the numbers is sorting in global order.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;
use crate::format::datatype::Datatype;
use crate::format::filter_list::FilterList;
use crate::format::schema::{ArrayType, CellValNum};
use crate::format::version::FormatVersion;
use crate::geometry::key::Native;

/// A coordinate of each kind of dimension.
#[derive(Debug, Clone)]
struct Cell {
    int: i64,
    byte: u8,
    float: f64,
    text: Vec<u8>,
}

fn dimension(
    datatype: Datatype,
    domain: Option<(Vec<u8>, Vec<u8>)>,
    extent: Option<Vec<u8>>,
) -> Dimension {
    Dimension {
        name: datatype.name().to_owned(),
        datatype,
        cell_val_num: match domain {
            Some(_) => CellValNum::Fixed(1),
            None => CellValNum::Var,
        },
        filters: FilterList::default(),
        domain,
        extent,
    }
}

fn schema(dimensions: Vec<Dimension>, tile_order: Layout, cell_order: Layout) -> ArraySchema {
    ArraySchema {
        version: FormatVersion::WRITTEN,
        array_type: ArrayType::Sparse,
        tile_order,
        cell_order,
        capacity: 10,
        allows_duplicates: false,
        coords_filters: FilterList::default(),
        offsets_filters: FilterList::default(),
        validity_filters: FilterList::default(),
        dimensions,
        attributes: Vec::new(),
        labels: Vec::new(),
        enumerations: Vec::new(),
        current_domain: None,
    }
}

fn layouts(hilbert: bool) -> impl Strategy<Value = Layout> {
    let plain = prop_oneof![Just(Layout::RowMajor), Just(Layout::ColMajor)];
    match hilbert {
        true => prop_oneof![plain, Just(Layout::Hilbert)].boxed(),
        false => plain.boxed(),
    }
}

fn cells() -> impl Strategy<Value = Vec<Cell>> {
    let int = prop_oneof![
        -20..20_i64,
        Just(i64::MIN),
        Just(i64::MAX - 100),
        any::<i64>()
    ];
    let float = prop_oneof![
        Just(0.0),
        Just(-0.0),
        (-8..8_i32).prop_map(|v| f64::from(v) / 4.0)
    ];
    let text = prop::collection::vec(prop_oneof![Just(0), Just(b'a'), Just(0xFF)], 0..3);
    let cell = (int, 0..50_u8, float, text);
    let cell = cell.prop_map(|(int, byte, float, text)| Cell {
        int: int.min(i64::MAX - 100),
        byte,
        float,
        text,
    });
    prop::collection::vec(cell, 2..12)
}

/// Every choice of dimensions, at least one.
fn dimensions() -> impl Strategy<Value = Vec<usize>> {
    Just(vec![0, 1, 2, 3])
        .prop_shuffle()
        .prop_flat_map(|all| (1..=4_usize).prop_map(move |n| all[..n].to_vec()))
}

proptest! {
    #[test]
    fn numbers_sort_cells_into_global_order(
        cells in cells(),
        chosen in dimensions(),
        wide: bool,
        extents in (prop_oneof![Just(1_i64), 2..9_i64, Just(1 << 40)], 1..60_u8, prop_oneof![Just(0.5), Just(100.0)]),
        orders in (layouts(false), layouts(true)),
    ) {
        let int_domain = if wide { (i64::MIN, i64::MAX - 100) } else { (-20, i64::MAX - 100 - (1 << 41)) };
        let kinds = [
            dimension(
                Datatype::Int64,
                Some((int_domain.0.to_le_bytes().to_vec(), int_domain.1.to_le_bytes().to_vec())),
                Some(extents.0.to_le_bytes().to_vec()),
            ),
            dimension(Datatype::UInt8, Some((vec![0], vec![49])), Some(vec![extents.1.min(50)])),
            dimension(
                Datatype::Float64,
                Some(((-2.0_f64).to_le_bytes().to_vec(), 2.0_f64.to_le_bytes().to_vec())),
                Some(f64::to_le_bytes(extents.2).to_vec()),
            ),
            dimension(Datatype::StringAscii, None, None),
        ];
        let schema = schema(chosen.iter().map(|d| kinds[*d].clone()).collect(), orders.0, orders.1);
        let cells = cells.into_iter().map(|cell| Cell { int: cell.int.clamp(int_domain.0, int_domain.1), ..cell });
        let cells = cells.collect::<Vec<_>>();
        let at = |dim: usize, cell: usize| {
            let cell: &Cell = &cells[cell];
            match chosen[dim] {
                0 => Coordinate::Key(cell.int.to_key()),
                1 => Coordinate::Key(u64::from(cell.byte)),
                2 => Coordinate::Key(cell.float.to_key()),
                _ => Coordinate::Bytes(&cell.text),
            }
        };
        let keys = OrderKeys::new(&schema).unwrap();
        let order = GlobalOrder::new(&schema).unwrap();
        let numbers = keys.columns().iter().map(|column| match column {
            KeyColumn::Numbers(parts) => keys.numbers(parts, cells.len(), at),
            KeyColumn::Strings(_) => Vec::new(),
        });
        let numbers = numbers.collect::<Vec<_>>();
        for a in 0..cells.len() {
            for b in 0..cells.len() {
                let by_keys = keys.columns().iter().zip(&numbers).map(|(column, numbers)| match column {
                    KeyColumn::Numbers(_) => numbers[a].cmp(&numbers[b]),
                    KeyColumn::Strings(dim) => at(*dim, a).compare(&at(*dim, b)),
                });
                let by_keys = by_keys.fold(Ordering::Equal, Ordering::then);
                prop_assert_eq!(by_keys, order.compare(|dim| (at(dim, a), at(dim, b))), "{} {}", a, b);
            }
        }
    }
}

#[test]
fn a_cell_of_a_usual_array_has_one_number() {
    let day = |hi: i64, extent: i64| {
        let bytes = |v: i64| v.to_le_bytes().to_vec();
        dimension(
            Datatype::DateTimeDay,
            Some((bytes(0), bytes(hi))),
            Some(bytes(extent)),
        )
    };
    let two = schema(
        vec![day(1 << 30, 365), day(1 << 30, 1000)],
        Layout::RowMajor,
        Layout::ColMajor,
    );
    let keys = OrderKeys::new(&two).unwrap();
    assert!(matches!(keys.columns(), [KeyColumn::Numbers(parts)] if parts.len() == 4));
    let far = schema(
        vec![day(1 << 60, 365), day(1 << 60, 1000)],
        Layout::RowMajor,
        Layout::RowMajor,
    );
    assert!(OrderKeys::new(&far).unwrap().columns().len() > 1);
    // The edge of the domain stands for what lies outside.
    let [KeyColumn::Numbers(parts)] = keys.columns() else {
        panic!("one number")
    };
    let number = |key: i64| keys.numbers(parts, 1, |_, _| Coordinate::Key(key.to_key()));
    assert_eq!(number(-5), number(0));
    assert_eq!(number(i64::MAX), number(1 << 30));
}
