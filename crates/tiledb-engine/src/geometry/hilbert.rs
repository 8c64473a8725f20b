//! Hilbert values of cells of sparse arrays (specification: "Cell order", Hilbert).
//!
//! Each dimension's value becomes a bucket of `63 / D` bits by its position in the *domain*, in truncated `f64`
//! arithmetic; Skilling's transform ("Programming the Hilbert curve", 2004) combines the buckets into one number. The
//! subtle thing: distinct cells may have equal values (with 64-bit coordinates they do), and bytes of strings are
//! sign-extended, so bytes from 0x80 on set every higher bit.

use crate::error::Result;
use crate::format::schema::Dimension;

use crate::format::datatype::Datatype;
use crate::geometry::key::Coordinate;
use crate::geometry::key::{self, NativeKey, with_native};

/// The curve through the buckets of `D` dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Curve {
    bits: u32,
}

impl Curve {
    /// The curve libtiledb uses for `ndim` dimensions.
    pub fn new(ndim: usize) -> Self {
        let bits = u32::try_from(ndim)
            .ok()
            .and_then(|n| 63u32.checked_div(n))
            .unwrap_or(0);
        Self { bits }
    }

    /// Bits per dimension.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// The largest bucket.
    pub fn max_bucket(self) -> u64 {
        (1u64 << self.bits) - 1
    }

    /// The position of the buckets on the curve; the buckets are consumed as scratch space.
    pub fn value(self, buckets: &mut [u64]) -> u64 {
        match buckets {
            // In one dimension the curve is the axis itself. Its top bucket is 2^63, one bit too many, and must sort
            // last.
            [only] => *only,
            _ if self.bits == 0 => 0,
            _ => {
                self.transpose(buckets);
                self.interleave(buckets)
            }
        }
    }

    /// Skilling's axes-to-transpose.
    fn transpose(self, x: &mut [u64]) {
        for bit in (1..self.bits).rev() {
            let low = (1u64 << bit) - 1;
            let [first, rest @ ..] = &mut *x else { return };
            if *first >> bit & 1 == 1 {
                *first ^= low;
            }
            for other in rest {
                if *other >> bit & 1 == 1 {
                    *first ^= low;
                } else {
                    let differ = (*first ^ *other) & low;
                    *first ^= differ;
                    *other ^= differ;
                }
            }
        }
        let mut previous = 0;
        for value in x.iter_mut() {
            *value ^= previous;
            previous = *value;
        }
        if let [rest @ .., last] = x {
            let before = *last;
            let mut shift = 1;
            while shift < self.bits {
                *last ^= *last >> shift;
                shift *= 2;
            }
            let flip = before ^ *last;
            rest.iter_mut().for_each(|value| *value ^= flip);
        }
    }

    fn interleave(self, x: &[u64]) -> u64 {
        (0..self.bits)
            .rev()
            .flat_map(|bit| x.iter().map(move |value| value >> bit & 1))
            .fold(0, |all, bit| all << 1 | bit)
    }
}

/// Computes the Hilbert value of a schema's cells.
#[derive(Debug, Clone)]
pub struct Hilbert {
    curve: Curve,
    dims: Vec<HilbertAxis>,
}

#[derive(Debug, Clone, Copy)]
enum HilbertAxis {
    /// The low end and the width of the domain.
    Numeric {
        datatype: Datatype,
        lo: f64,
        width: f64,
    },
    Bytes,
}

impl Hilbert {
    /// For cells of an array with these dimensions.
    pub fn new(dimensions: &[Dimension]) -> Result<Self> {
        let axis = |dimension: &Dimension| -> Result<HilbertAxis> {
            let datatype = dimension.datatype;
            let Some((lo, hi)) = dimension.domain.as_ref().filter(|_| key::has_key(datatype))
            else {
                return Ok(HilbertAxis::Bytes);
            };
            let lo = to_f64(datatype, key::key(datatype, lo)?);
            let hi = to_f64(datatype, key::key(datatype, hi)?);
            Ok(HilbertAxis::Numeric {
                datatype,
                lo,
                width: hi - lo,
            })
        };
        Ok(Self {
            curve: Curve::new(dimensions.len()),
            dims: dimensions.iter().map(axis).collect::<Result<_>>()?,
        })
    }

    /// The Hilbert value of a cell; `buckets` is scratch space.
    pub fn value<'a>(
        &self,
        cell: impl IntoIterator<Item = Coordinate<'a>>,
        buckets: &mut Vec<u64>,
    ) -> u64 {
        buckets.clear();
        buckets.extend(
            self.dims
                .iter()
                .zip(cell)
                .map(|(axis, c)| self.bucket(*axis, c)),
        );
        self.curve.value(buckets)
    }

    /// Whether different cells always have different values: all coordinates are integers, and each has at least two
    /// buckets.
    pub fn tells_cells_apart(&self) -> bool {
        let buckets = self.curve.max_bucket() as f64;
        self.dims.iter().all(|axis| match axis {
            HilbertAxis::Numeric {
                datatype, width, ..
            } => !datatype.is_float() && *width <= buckets / 2.0,
            HilbertAxis::Bytes => false,
        })
    }

    fn bucket(&self, axis: HilbertAxis, coordinate: Coordinate<'_>) -> u64 {
        match (axis, coordinate) {
            (
                HilbertAxis::Numeric {
                    datatype,
                    lo,
                    width,
                },
                Coordinate::Key(key),
            ) => numeric_bucket(to_f64(datatype, key), lo, width, self.curve.max_bucket()),
            (_, Coordinate::Bytes(bytes)) => bytes_bucket(bytes, self.curve.bits),
            (HilbertAxis::Bytes, Coordinate::Key(_)) => 0,
        }
    }
}

fn to_f64(datatype: Datatype, key: u64) -> f64 {
    with_native!(datatype, T => T::from_key(key).to_f64(), _ => 0.0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the format says: scaled in f64, truncated; 0/0 of a domain of one value gives bucket 0"
)]
fn numeric_bucket(value: f64, lo: f64, width: f64, max: u64) -> u64 {
    ((value - lo) / width * max as f64) as u64
}

/// The first 8 bytes as a big-endian number, each byte sign-extended, cut to `bits`.
fn bytes_bucket(bytes: &[u8], bits: u32) -> u64 {
    let padded = bytes.iter().copied().chain(std::iter::repeat(0)).take(8);
    let number = padded
        .zip((0..8u32).rev())
        .fold(0u64, |all, (byte, shift)| {
            all | i64::from(byte.cast_signed()).cast_unsigned() << (8 * shift)
        });
    number.checked_shr(64 - bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::filter_list::FilterList;
    use crate::format::schema::CellValNum;

    #[test]
    fn two_dimensions_of_four_bits_match_the_reference() {
        let curve = Curve { bits: 4 };
        for ((x, y), expected) in [
            ((0, 0), 0),
            ((1, 0), 1),
            ((1, 1), 2),
            ((0, 1), 3),
            ((2, 3), 9),
            ((15, 0), 255),
        ] {
            assert_eq!(curve.value(&mut [x, y]), expected, "({x}, {y})");
        }
    }

    #[test]
    fn bits_are_63_shared_among_the_dimensions() {
        assert_eq!(Curve::new(1).bits(), 63);
        assert_eq!(Curve::new(2).bits(), 31);
        assert_eq!(Curve::new(15).bits(), 4);
        assert_eq!(Curve::new(64).value(&mut [1; 64]), 0);
        assert_eq!(Curve::new(0).value(&mut []), 0);
    }

    #[test]
    fn buckets_scale_by_the_domain_and_truncate() {
        assert_eq!(numeric_bucket(0.0, 0.0, 100.0, 15), 0);
        assert_eq!(numeric_bucket(50.0, 0.0, 100.0, 15), 7);
        assert_eq!(numeric_bucket(100.0, 0.0, 100.0, 15), 15);
        assert_eq!(numeric_bucket(5.0, 5.0, 0.0, 15), 0);
        let curve = Curve::new(1);
        assert_eq!(numeric_bucket(1.0, 0.0, 1.0, curve.max_bucket()), 1 << 63);
    }

    #[test]
    fn string_buckets_are_the_first_bytes_sign_extended() {
        assert_eq!(bytes_bucket(b"a", 31), 0x61 << 55 >> 32);
        assert_eq!(bytes_bucket(b"", 31), 0);
        assert_eq!(bytes_bucket(b"abcdefgh", 63), 0x6162_6364_6566_6768 >> 1);
        assert_eq!(bytes_bucket(b"a\x80", 63), 0xFF80_0000_0000_0000 >> 1);
        assert_eq!(bytes_bucket(b"x", 0), 0);
    }

    proptest! {
        #[test]
        fn the_curve_visits_each_cell_once_and_never_jumps(ndim in 2usize..4, bits in 1u32..4) {
            let curve = Curve { bits };
            let side = 1u64 << bits;
            let total = usize::try_from(side.pow(ndim as u32)).unwrap();
            let mut cells: Vec<Option<Vec<u64>>> = vec![None; total];
            for n in 0..total as u64 {
                let cell: Vec<u64> = (0..ndim as u32).map(|d| n / side.pow(d) % side).collect();
                let at = curve.value(&mut cell.clone()) as usize;
                prop_assert!(cells[at].replace(cell).is_none());
            }
            for pair in cells.windows(2) {
                let (a, b) = (pair[0].as_ref().unwrap(), pair[1].as_ref().unwrap());
                prop_assert_eq!(a.iter().zip(b).map(|(x, y)| x.abs_diff(*y)).sum::<u64>(), 1);
            }
        }
    }

    #[test]
    fn cells_are_told_apart_where_buckets_are_finer_than_coordinates() {
        let dimension = |datatype, domain: Option<(Vec<u8>, Vec<u8>)>| Dimension {
            name: String::new(),
            datatype,
            cell_val_num: match domain {
                Some(_) => CellValNum::Fixed(1),
                None => CellValNum::Var,
            },
            domain,
            extent: None,
            filters: FilterList::default(),
        };
        let bytes = |lo: i64, hi: i64| Some((lo.to_le_bytes().to_vec(), hi.to_le_bytes().to_vec()));
        let int = |lo, hi| dimension(Datatype::Int64, bytes(lo, hi));
        let apart = |dims: &[Dimension]| Hilbert::new(dims).unwrap().tells_cells_apart();
        assert!(apart(&[int(-5, 1 << 29), int(0, 1_000_000)]));
        assert!(!apart(&[int(-5, 1 << 31), int(0, 1_000_000)]));
        assert!(!apart(&[int(i64::MIN, i64::MAX)]));
        assert!(apart(&[int(0, 0)]));
        assert!(!apart(&[dimension(Datatype::Float64, bytes(0, 1 << 62))]));
        assert!(!apart(&[dimension(Datatype::StringAscii, None)]));
    }
}
