//! The minimum bounding rectangles of a sparse fragment's tiles (specification: "Fragment Metadata File", R-Tree).
//!
//! `u32 fanout, u32 levels` (before version 5 `u32 dimensions, u32 fanout, u8 datatype, u32 levels`), then each level,
//! root first: `u64 count` and the rectangles. Only the leaves are kept, one per tile, dimension by dimension, because
//! scanning the few bytes per tile is faster than walking the tree. The subtle thing: levels are checked against the
//! fanout although they are dropped, because all writers agree on them. An invalid rectangle, such as one with its low
//! end above its high end, is accepted: some writers stored it for valid cells.

use std::cmp::Ordering;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::datatype::Datatype;
use crate::format::domain_range::{DomainRange, compare_values, high_end, read_var_pair};
use crate::format::encoder::Encoder;
use crate::format::schema::{ArraySchema, CellValNum};
use crate::format::version::FormatVersion;

/// The number of rectangles below one of the next level.
const FANOUT: usize = 10;

/// The rectangles of all tiles of a sparse fragment, in tile order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mbrs {
    len: usize,
    columns: Vec<MbrColumn>,
}

/// The inclusive ranges of all tiles in one dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MbrColumn {
    /// Numbers: `lo, hi` per tile, little-endian values of `width` bytes.
    Fixed {
        /// Size of a value.
        width: usize,
        /// All pairs, concatenated.
        pairs: Vec<u8>,
    },
    /// Strings: `lo, hi` per tile, concatenated.
    Var {
        /// The end of each string, two per tile.
        ends: Vec<usize>,
        /// All strings.
        bytes: Vec<u8>,
    },
}

impl Mbrs {
    /// Reads the leaves of a fragment of this version; `tiles` is the number of tiles in the footer.
    pub fn decode(
        tile: &[u8],
        schema: &ArraySchema,
        version: FormatVersion,
        tiles: u64,
    ) -> Result<Self> {
        let (_, mut levels) = Self::decode_tree(tile, schema, version, false)?;
        let reader = MbrReader::new(schema);
        let mbrs = levels.pop().unwrap_or_else(|| Self {
            len: 0,
            columns: reader.columns(),
        });
        if mbrs.len as u64 != tiles {
            return Err(Error::corrupt(format!(
                "the R-tree has {} leaves, but the fragment footer counts {tiles} tiles",
                mbrs.len
            )));
        }
        Ok(mbrs)
    }

    /// Reads the fanout and all levels of the tree, root first; `None` of them if the fragment is dense.
    pub fn decode_levels(
        tile: &[u8],
        schema: &ArraySchema,
        version: FormatVersion,
    ) -> Result<(usize, Vec<Self>)> {
        Self::decode_tree(tile, schema, version, true)
    }

    /// Reads the levels of the tree, or only the leaves.
    fn decode_tree(
        tile: &[u8],
        schema: &ArraySchema,
        version: FormatVersion,
        keep_all: bool,
    ) -> Result<(usize, Vec<Self>)> {
        let mut cursor = Cursor::new(tile, "R-tree");
        let cursor = &mut cursor;
        let fanout = decode_fanout(cursor, schema, version)?;
        // A level has at least its count.
        let levels = cursor.count_u32(8, "number of levels")?;
        let reader = MbrReader::new(schema);
        let mut kept = Vec::new();
        let mut previous = None;
        for level in 0..levels {
            let count = cursor.count_u64(reader.min_bytes, "number of rectangles")?;
            check_level(count as u64, previous, u64::from(fanout))?;
            if keep_all || level + 1 == levels {
                let mut columns = reader.columns();
                reader.read(cursor, count, version, &mut columns)?;
                kept.push(Self {
                    len: count,
                    columns,
                });
            } else {
                reader.skip(cursor, count)?;
            }
            previous = Some(count as u64);
        }
        if cursor.remaining() != 0 {
            return Err(cursor.invalid("bytes after the last level", cursor.remaining(), "none"));
        }
        Ok((usize::try_from(fanout)?, kept))
    }

    /// No rectangles yet, of cells of `schema`.
    pub fn none(schema: &ArraySchema) -> Self {
        let columns = schema.dimensions.iter().map(|dimension| {
            if dimension.is_var() {
                MbrColumn::Var {
                    ends: Vec::new(),
                    bytes: Vec::new(),
                }
            } else {
                MbrColumn::Fixed {
                    width: dimension.datatype.size(),
                    pairs: Vec::new(),
                }
            }
        });
        Self {
            len: 0,
            columns: columns.collect(),
        }
    }

    /// Adds the rectangle of the next tile, one range for each dimension.
    pub fn push(&mut self, rectangle: &[DomainRange]) {
        self.len += 1;
        for (column, DomainRange { lo, hi }) in self.columns.iter_mut().zip(rectangle) {
            column.push(lo, hi);
        }
    }

    /// The box around all rectangles; nothing if there are none.
    pub fn union(&self, schema: &ArraySchema) -> Vec<DomainRange> {
        let columns = self.columns.iter().zip(&schema.dimensions);
        let around = columns.filter_map(|(column, dimension)| {
            let (lo, hi) = column.around(0..self.len, dimension.datatype)?;
            Some(DomainRange {
                lo: lo.to_vec(),
                hi: hi.to_vec(),
            })
        });
        around.collect()
    }

    /// Writes the tree above the rectangles. A tree of none, as that of a dense fragment, has no levels.
    ///
    /// # Errors
    /// There are too many levels to count.
    pub fn encode(&self, schema: &ArraySchema) -> Result<Vec<u8>> {
        let mut above: Vec<Self> = Vec::new();
        while let Some(top) = above.last().or(Some(self)).filter(|top| top.len > 1) {
            above.push(top.level_above(schema));
        }
        let levels = above
            .iter()
            .rev()
            .chain([self])
            .filter(|level| !level.is_empty());
        let mut to = Encoder::new();
        to.count_u32(FANOUT, "fanout")?;
        to.count_u32(levels.clone().count(), "number of levels")?;
        for level in levels {
            to.count_u64(level.len);
            for tile in 0..level.len {
                for (column, dimension) in level.columns.iter().zip(&schema.dimensions) {
                    let (lo, hi) = column.range(tile).unwrap_or_default();
                    if dimension.is_var() {
                        to.count_u64(lo.len().saturating_add(hi.len()));
                        to.count_u64(lo.len());
                    }
                    to.bytes(lo);
                    to.bytes(hi);
                }
            }
        }
        Ok(to.finish())
    }

    /// The boxes around each [`FANOUT`] rectangles.
    fn level_above(&self, schema: &ArraySchema) -> Self {
        let dimensions = schema.dimensions.iter();
        let columns = self.columns.iter().zip(dimensions);
        Self {
            len: self.len.div_ceil(FANOUT),
            columns: columns
                .map(|(column, dimension)| column.level_above(self.len, dimension.datatype))
                .collect(),
        }
    }

    /// The rectangle of the only tile of a fragment, which is the fragment's non-empty domain; `None` if that does not
    /// match the schema.
    pub fn of_only_tile(domain: &[DomainRange], schema: &ArraySchema) -> Option<Self> {
        let ranges = schema.dimensions.iter().zip(domain);
        let columns = ranges
            .map(|(dimension, DomainRange { lo, hi })| {
                if dimension.cell_val_num == CellValNum::Var {
                    return Some(MbrColumn::Var {
                        ends: vec![lo.len(), lo.len() + hi.len()],
                        bytes: [lo.as_slice(), hi].concat(),
                    });
                }
                let width = dimension.datatype.size();
                let fits = lo.len() == width && hi.len() == width;
                fits.then(|| MbrColumn::Fixed {
                    width,
                    pairs: [lo.as_slice(), hi].concat(),
                })
            })
            .collect::<Option<Vec<_>>>()?;
        let complete = columns.len() == schema.dimensions.len();
        complete.then_some(Self { len: 1, columns })
    }

    /// Reads the rectangles of a fragment of versions 1 and 2: a count and the leaves, without a tree.
    pub(super) fn decode_leaves(
        cursor: &mut Cursor<'_>,
        schema: &ArraySchema,
        version: FormatVersion,
    ) -> Result<Self> {
        let reader = MbrReader::new(schema);
        let len = cursor.count_u64(reader.min_bytes, "number of rectangles")?;
        let mut columns = reader.columns();
        reader.read(cursor, len, version, &mut columns)?;
        Ok(Self { len, columns })
    }

    /// The number of tiles.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no tiles.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The column of a dimension.
    pub fn dimension(&self, dimension: usize) -> Option<&MbrColumn> {
        self.columns.get(dimension)
    }

    /// Low and high end of a tile in a dimension, inclusive.
    ///
    /// Both are empty for a tile or dimension that does not exist.
    pub fn range(&self, tile: usize, dimension: usize) -> (&[u8], &[u8]) {
        debug_assert!(tile < self.len && dimension < self.columns.len());
        self.columns
            .get(dimension)
            .and_then(|column| column.range(tile))
            .unwrap_or_default()
    }

    /// Size in memory, for caches.
    pub fn memory_bytes(&self) -> usize {
        self.columns.iter().map(MbrColumn::memory_bytes).sum()
    }
}

impl MbrColumn {
    /// Low and high end of a tile, inclusive.
    pub fn range(&self, tile: usize) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Fixed { width, pairs } => {
                let pair = width.checked_mul(2)?;
                let start = tile.checked_mul(pair)?;
                pairs
                    .get(start..start.checked_add(pair)?)?
                    .split_at_checked(*width)
            }
            Self::Var { ends, bytes } => {
                let lo = tile.checked_mul(2)?;
                let start = match lo.checked_sub(1) {
                    Some(before) => *ends.get(before)?,
                    None => 0,
                };
                let middle = *ends.get(lo)?;
                let end = *ends.get(lo + 1)?;
                Some((bytes.get(start..middle)?, bytes.get(middle..end)?))
            }
        }
    }

    /// The ranges that hold those of each [`FANOUT`] of `tiles` tiles.
    fn level_above(&self, tiles: usize, datatype: Datatype) -> Self {
        let mut above = match self {
            Self::Fixed { width, .. } => Self::Fixed {
                width: *width,
                pairs: Vec::new(),
            },
            Self::Var { .. } => Self::Var {
                ends: Vec::new(),
                bytes: Vec::new(),
            },
        };
        for first in (0..tiles).step_by(FANOUT) {
            let children = first..tiles.min(first.saturating_add(FANOUT));
            let (lo, hi) = self.around(children, datatype).unwrap_or_default();
            above.push(lo, hi);
        }
        above
    }

    /// The range around those of some tiles; `None` if there are none.
    fn around(&self, tiles: Range<usize>, datatype: Datatype) -> Option<(&[u8], &[u8])> {
        let ranges = tiles.filter_map(|tile| self.range(tile));
        ranges.reduce(|(lo, hi), (other_lo, other_hi)| {
            let lower = compare_values(datatype, other_lo, lo).is_some_and(Ordering::is_lt);
            let higher = compare_values(datatype, other_hi, hi).is_some_and(Ordering::is_gt);
            (
                if lower { other_lo } else { lo },
                if higher { other_hi } else { hi },
            )
        })
    }

    fn push(&mut self, lo: &[u8], hi: &[u8]) {
        match self {
            Self::Fixed { pairs, .. } => {
                pairs.extend_from_slice(lo);
                pairs.extend_from_slice(hi);
            }
            Self::Var { ends, bytes } => {
                for end in [lo, hi] {
                    bytes.extend_from_slice(end);
                    ends.push(bytes.len());
                }
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Fixed { pairs, .. } => pairs.capacity(),
            Self::Var { ends, bytes } => size_of::<usize>() * ends.capacity() + bytes.capacity(),
        }
    }
}

/// Reads rectangles in the layout given by the dimensions of a schema.
struct MbrReader {
    /// Size of a value in each dimension; `None` for strings.
    widths: Vec<Option<usize>>,
    /// The smallest size of a rectangle.
    min_bytes: usize,
    all_fixed: bool,
}

impl MbrReader {
    fn new(schema: &ArraySchema) -> Self {
        let widths: Vec<_> = schema.dimensions.iter().map(|d| d.cell_size()).collect();
        // A string range has at least its two lengths.
        let min_bytes = widths
            .iter()
            .map(|w| 2 * w.unwrap_or(size_of::<u64>()))
            .sum();
        let all_fixed = widths.iter().all(Option::is_some);
        Self {
            widths,
            min_bytes,
            all_fixed,
        }
    }

    fn columns(&self) -> Vec<MbrColumn> {
        self.widths
            .iter()
            .map(|width| match width {
                Some(width) => MbrColumn::Fixed {
                    width: *width,
                    pairs: Vec::new(),
                },
                None => MbrColumn::Var {
                    ends: Vec::new(),
                    bytes: Vec::new(),
                },
            })
            .collect()
    }

    fn read(
        &self,
        cursor: &mut Cursor<'_>,
        count: usize,
        version: FormatVersion,
        columns: &mut [MbrColumn],
    ) -> Result<()> {
        for column in columns.iter_mut() {
            // The count is bounded by the bytes that remain.
            match column {
                MbrColumn::Fixed { width, pairs } => pairs.reserve_exact(2 * *width * count),
                MbrColumn::Var { ends, .. } => ends.reserve_exact(2 * count),
            }
        }
        for _ in 0..count {
            for column in columns.iter_mut() {
                match column {
                    MbrColumn::Fixed { width, pairs } => {
                        pairs.extend_from_slice(cursor.bytes(2 * *width, "rectangle")?);
                    }
                    MbrColumn::Var { ends, bytes } => {
                        let (lo, hi) = read_var_pair(cursor)?;
                        bytes.extend_from_slice(lo);
                        ends.push(bytes.len());
                        bytes.extend_from_slice(high_end(version, lo, hi));
                        ends.push(bytes.len());
                    }
                }
            }
        }
        Ok(())
    }

    fn skip(&self, cursor: &mut Cursor<'_>, count: usize) -> Result<()> {
        if self.all_fixed {
            cursor.bytes(self.min_bytes.saturating_mul(count), "rectangles")?;
            return Ok(());
        }
        for _ in 0..count {
            for width in &self.widths {
                match width {
                    Some(width) => {
                        cursor.bytes(2 * width, "rectangle")?;
                    }
                    None => {
                        read_var_pair(cursor)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Reads the header up to the number of levels.
fn decode_fanout(
    cursor: &mut Cursor<'_>,
    schema: &ArraySchema,
    version: FormatVersion,
) -> Result<u32> {
    if version.since(5) {
        return cursor.u32("fanout");
    }
    let dimensions = cursor.u32("number of dimensions")?;
    if usize::try_from(dimensions)? != schema.dimensions.len() {
        return Err(cursor.invalid("number of dimensions", dimensions, schema.dimensions.len()));
    }
    let fanout = cursor.u32("fanout")?;
    let code = cursor.u8("datatype")?;
    let expected = schema.dimensions.first().map(|d| d.datatype);
    if Some(Datatype::from_code(code)?) != expected {
        return Err(cursor.invalid("datatype", code, "that of the dimensions"));
    }
    Ok(fanout)
}

/// Checks the count of a level: the root is one rectangle, and every other level has `fanout` children per parent, the
/// last parent possibly fewer.
fn check_level(count: u64, parents: Option<u64>, fanout: u64) -> Result<()> {
    match parents {
        None if count != 1 => Err(Error::corrupt(format!(
            "the root level of the R-tree has {count} rectangles, expected 1"
        ))),
        Some(parents) if fanout < 2 || count.div_ceil(fanout) != parents => {
            Err(Error::corrupt(format!(
                "the R-tree has {count} rectangles below {parents}, which contradicts its fanout {fanout}"
            )))
        }
        _ => Ok(()),
    }
}
