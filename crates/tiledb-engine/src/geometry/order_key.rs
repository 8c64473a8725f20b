//! Numbers by which cells can be sorted into global order.
//!
//! The index of a cell's space tile and its coordinates are packed into as few 64-bit numbers as they fit in; a cell of most
//! arrays has one. String dimensions are sorted by themselves, between these numbers. The subtle thing: within a space tile, a
//! coordinate is known by its distance from the tile's first one, which takes fewer bits.

use crate::error::Result;
use crate::format::schema::{ArraySchema, Dimension, Layout};
use crate::geometry::cell_order::GlobalOrder;
use crate::geometry::key;
use crate::geometry::key::Coordinate;

const NUMBER_BITS: u32 = u64::BITS;

/// What the cells of an array are sorted by: the first column decides, then the second, and so on.
#[derive(Debug, Clone)]
pub struct OrderKeys {
    order: GlobalOrder,
    /// The ends of each domain.
    domains: Vec<Option<(u64, u64)>>,
    /// Between which keys all coordinates lie.
    ranges: Vec<Option<(u64, u64)>>,
    columns: Vec<KeyColumn>,
}

/// A column to sort by, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyColumn {
    /// The strings of a dimension, by their bytes.
    Strings(usize),
    /// Numbers that [`OrderKeys::numbers`] computes.
    Numbers(Vec<KeyPart>),
}

/// A part of a number, in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPart {
    source: KeySource,
    bits: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeySource {
    /// The place on the Hilbert curve.
    Hilbert,
    /// The distance from the `first` space tile in a dimension.
    Tile { dimension: usize, first: u64 },
    /// The distance from the start of the space tile in a dimension.
    InTile { dimension: usize, extent: u64 },
    /// The distance from the least key in a dimension.
    InRange(usize),
}

/// Keys that are known to lie in one tile.
struct KnownTile {
    index: u64,
    least: u64,
    most: u64,
}

impl OrderKeys {
    /// The keys of the cells of `schema`.
    ///
    /// # Errors
    /// The domain is damaged.
    pub fn new(schema: &ArraySchema) -> Result<Self> {
        Self::within(schema, &[])
    }

    /// The keys of cells whose coordinates in each dimension are known to lie between two keys, if something is known of it;
    /// they may have fewer numbers.
    ///
    /// # Errors
    /// The domain is damaged.
    pub fn within(schema: &ArraySchema, known: &[Option<(u64, u64)>]) -> Result<Self> {
        let order = GlobalOrder::new(schema)?;
        let domains = schema
            .dimensions
            .iter()
            .map(domain_keys)
            .collect::<Result<Vec<_>>>()?;
        let ranges = domains
            .iter()
            .enumerate()
            .map(|(dim, domain)| {
                let (lo, hi) = (*domain)?;
                let (least, most) = known.get(dim).copied().flatten().unwrap_or((lo, hi));
                let (least, most) = (least.clamp(lo, hi), most.clamp(lo, hi));
                Some((least, most.max(least)))
            })
            .collect::<Vec<_>>();
        let all = || 0..schema.dimensions.len();
        let mut parts = Vec::new();
        match order.hilbert() {
            Some(_) => parts.push((KeySource::Hilbert, NUMBER_BITS)),
            None => {
                let tiles = all()
                    .map(|dimension| {
                        let range = ranges.get(dimension).copied().flatten();
                        let (lo, hi) = range.unwrap_or((0, 0));
                        let [first, last] = [lo, hi].map(|key| order.tile_index(dimension, key));
                        let source = KeySource::Tile { dimension, first };
                        (source, bits_of(last.saturating_sub(first)))
                    })
                    .filter(|(_, bits)| *bits > 0);
                extend_in(schema.tile_order, tiles, &mut parts);
            }
        }
        let hilbert = order.hilbert().is_some();
        let coordinates = all().map(|d| {
            let dimension = schema.dimensions.get(d);
            let extent = dimension
                .and_then(Dimension::extent_steps)
                .filter(|_| !hilbert);
            match (ranges.get(d).copied().flatten(), extent) {
                (None, _) => (KeySource::InRange(d), None),
                (Some((lo, hi)), Some(extent)) if extent > 0 && extent <= hi - lo => {
                    let dimension = d;
                    let source = KeySource::InTile { dimension, extent };
                    (source, Some(bits_of(extent - 1)))
                }
                (Some((lo, hi)), _) => (KeySource::InRange(d), Some(bits_of(hi - lo))),
            }
        });
        let mut columns = pack(parts.into_iter().map(|(source, bits)| (source, Some(bits))));
        let mut of_cells = Vec::new();
        extend_in(schema.cell_order, coordinates, &mut of_cells);
        append_packed(&mut columns, of_cells.into_iter());
        Ok(Self {
            order,
            domains,
            ranges,
            columns,
        })
    }

    /// The columns to sort by.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// The numbers of one column for each cell. `keys` gives the keys of all cells in a fixed-size dimension, and `at` any
    /// coordinate of a cell. Cells outside the ranges get numbers of their edge.
    pub fn numbers<'a>(
        &self,
        parts: &[KeyPart],
        cells: usize,
        keys: impl Fn(usize) -> Option<&'a [u64]>,
        at: impl Fn(usize, usize) -> Coordinate<'a>,
    ) -> Vec<u64> {
        let mut numbers = Vec::with_capacity(cells);
        let mut scratch = Vec::new();
        // The keys of a dimension; those outside its range are those of its edge.
        let clamped = |dim: usize| {
            let (lo, hi) = self.ranges.get(dim).copied().flatten().unwrap_or((0, 0));
            let keys = keys(dim).unwrap_or_default().iter();
            keys.take(cells).map(move |key| (*key).clamp(lo, hi))
        };
        for KeyPart { source, bits } in parts {
            match *source {
                KeySource::Hilbert => {
                    let places = (0..cells).map(|cell| {
                        self.order.hilbert().map_or(0, |hilbert| {
                            let cell = (0..self.ranges.len()).map(|dim| at(dim, cell));
                            hilbert.value(cell, &mut scratch)
                        })
                    });
                    append(&mut numbers, *bits, places);
                }
                KeySource::Tile { dimension, first } => {
                    let mut last = None;
                    let indices = clamped(dimension).map(|key| {
                        let index = self.tile_index(dimension, key, &mut last);
                        index.saturating_sub(first)
                    });
                    append(&mut numbers, *bits, indices);
                }
                KeySource::InTile { dimension, extent } => {
                    // Neighbours mostly lie in one tile, and a subtraction is faster than a division.
                    let mut tile_start = 0;
                    let domain = self.domains.get(dimension).copied().flatten();
                    let (origin, _) = domain.unwrap_or((0, 0));
                    let distances = clamped(dimension).map(|key| {
                        let distance = key.saturating_sub(origin);
                        if distance.wrapping_sub(tile_start) >= extent {
                            tile_start = distance - distance % extent;
                        }
                        distance - tile_start
                    });
                    append(&mut numbers, *bits, distances);
                }
                KeySource::InRange(dim) => {
                    let range = self.ranges.get(dim).copied().flatten();
                    let (least, _) = range.unwrap_or((0, 0));
                    let distances = clamped(dim).map(|key| key.saturating_sub(least));
                    append(&mut numbers, *bits, distances);
                }
            }
        }
        numbers.resize(cells, 0);
        numbers
    }

    /// The index of the tile of a key. It never decreases with the key, so what lies between two keys of `last` is in their
    /// tile.
    fn tile_index(&self, dim: usize, key: u64, last: &mut Option<KnownTile>) -> u64 {
        if let Some(last) = last
            && (last.least..=last.most).contains(&key)
        {
            return last.index;
        }
        let index = self.order.tile_index(dim, key);
        let known = last.take().filter(|last| last.index == index);
        let known = known
            .map(|known| (known.least, known.most))
            .or_else(|| self.order.keys_of_tile(dim, index));
        let (least, most) = known.unwrap_or((key, key));
        *last = Some(KnownTile {
            index,
            least: least.min(key),
            most: most.max(key),
        });
        index
    }
}

/// Appends a part of `bits` bits to the number of each cell; the first part is where the numbers begin. They do not begin as
/// zeros, because memory that the system has zeroed costs two page faults if it is read before it is written.
fn append(numbers: &mut Vec<u64>, bits: u32, part: impl Iterator<Item = u64>) {
    if numbers.is_empty() {
        numbers.extend(part);
        return;
    }
    for (number, part) in numbers.iter_mut().zip(part) {
        *number = number.checked_shl(bits).unwrap_or(0) | part;
    }
}

/// The keys of the ends of a domain; `None` for strings, which have none.
fn domain_keys(dimension: &Dimension) -> Result<Option<(u64, u64)>> {
    let Some((lo, hi)) = &dimension.domain else {
        return Ok(None);
    };
    let datatype = dimension.datatype;
    let (lo, hi) = (key::key(datatype, lo)?, key::key(datatype, hi)?);
    Ok(Some((lo.min(hi), hi)))
}

fn bits_of(largest: u64) -> u32 {
    NUMBER_BITS - largest.leading_zeros()
}

fn extend_in<T>(layout: Layout, items: impl DoubleEndedIterator<Item = T>, out: &mut Vec<T>) {
    match layout {
        Layout::ColMajor => out.extend(items.rev()),
        _ => out.extend(items),
    }
}

fn pack(parts: impl Iterator<Item = (KeySource, Option<u32>)>) -> Vec<KeyColumn> {
    let mut columns = Vec::new();
    append_packed(&mut columns, parts);
    columns
}

/// Appends parts, of which those without bits are strings.
fn append_packed(
    columns: &mut Vec<KeyColumn>,
    parts: impl Iterator<Item = (KeySource, Option<u32>)>,
) {
    for (source, bits) in parts {
        let Some(bits) = bits else {
            if let KeySource::InRange(dim) = source {
                columns.push(KeyColumn::Strings(dim));
            }
            continue;
        };
        let part = KeyPart { source, bits };
        match columns.last_mut() {
            Some(KeyColumn::Numbers(packed))
                if packed.iter().map(|part| part.bits).sum::<u32>() + bits <= NUMBER_BITS =>
            {
                packed.push(part);
            }
            _ => columns.push(KeyColumn::Numbers(vec![part])),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;
    use crate::format::datatype::Datatype;
    use crate::format::filter_list::FilterList;
    use crate::format::schema::{ArrayType, CellValNum};
    use crate::format::version::FormatVersion;
    use crate::geometry::key::NativeKey;

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
        if hilbert {
            prop_oneof![plain, Just(Layout::Hilbert)].boxed()
        } else {
            plain.boxed()
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
        let cell = (int, 0..50_u8, float, text).prop_map(|(int, byte, float, text)| Cell {
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
                is_known: bool,
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
                let cells = cells.into_iter().map(|cell| Cell { int: cell.int.clamp(int_domain.0, int_domain.1), ..cell }).collect::<Vec<_>>();
                let at = |dim: usize, cell: usize| {
                    let cell: &Cell = &cells[cell];
                    match chosen[dim] {
                        0 => Coordinate::Key(cell.int.to_key()),
                        1 => Coordinate::Key(u64::from(cell.byte)),
                        2 => Coordinate::Key(cell.float.to_key()),
                        _ => Coordinate::Bytes(&cell.text),
                    }
                };
                let known = (0..chosen.len()).map(|dim| {
                    let keys = (0..cells.len()).filter_map(|cell| match at(dim, cell) {
                        Coordinate::Key(key) => Some(key),
                        Coordinate::Bytes(_) => None,
                    });
                    keys.clone().min().zip(keys.max())
                }).collect::<Vec<_>>();
                let keys = if is_known {
    OrderKeys::within(&schema, &known).unwrap()
    } else {
    OrderKeys::new(&schema).unwrap()
    };
                let order = GlobalOrder::new(&schema).unwrap();
                let axes = (0..chosen.len()).map(|dim| {
                    let keys = (0..cells.len()).filter_map(|cell| match at(dim, cell) {
                        Coordinate::Key(key) => Some(key),
                        Coordinate::Bytes(_) => None,
                    });
                    keys.collect::<Vec<_>>()
                }).collect::<Vec<_>>();
                let axis = |dim: usize| axes.get(dim).map(Vec::as_slice);
                let numbers = keys.columns().iter().map(|column| match column {
                    KeyColumn::Numbers(parts) => keys.numbers(parts, cells.len(), axis, at),
                    KeyColumn::Strings(_) => Vec::new(),
                }).collect::<Vec<_>>();
                for a in 0..cells.len() {
                    for b in 0..cells.len() {
                        let by_keys = keys.columns().iter().zip(&numbers).map(|(column, numbers)| match column {
                            KeyColumn::Numbers(_) => numbers[a].cmp(&numbers[b]),
                            KeyColumn::Strings(dim) => at(*dim, a).compare(&at(*dim, b)),
                        }).fold(Ordering::Equal, Ordering::then);
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
        let number = |key: i64| {
            let keys_of = [key.to_key()];
            let at = |_, _| Coordinate::Key(key.to_key());
            keys.numbers(parts, 1, |_| Some(keys_of.as_slice()), at)
        };
        assert_eq!(number(-5), number(0));
        assert_eq!(number(i64::MAX), number(1 << 30));
    }
}
