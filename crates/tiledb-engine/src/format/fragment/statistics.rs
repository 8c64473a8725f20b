//! Minima and maxima, per tile and per fragment (specification: "Fragment Metadata File", Tile Mins/Maxes, Fragment
//! Min/Max/Sum/Null Count).
//!
//! Per tile: `u64 fixed bytes, u64 var bytes`, then both buffers; for variable-sized fields the fixed one holds `u64`
//! starts into the other. The subtle thing: missing statistics are empty buffers, and whether existing ones can be
//! trusted depends on type and version, which is not decided here.

use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::encoder::Encoder;

/// The minimum or the maximum of each tile of one field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TileMinMax {
    /// Values of a fixed-size field, or starts of the values of a variable-sized one.
    pub fixed: Vec<u8>,
    /// Values of a variable-sized field.
    pub var: Vec<u8>,
}

impl TileMinMax {
    /// Reads a section of minima or maxima; `what` names it in errors ("tile mins").
    pub fn decode(tile: &[u8], what: &'static str) -> Result<Self> {
        let mut cursor = Cursor::new(tile, what);
        let fixed_bytes = cursor.u64("fixed bytes")?;
        let var_bytes = cursor.u64("var bytes")?;
        let fixed = cursor.bytes_u64(fixed_bytes, "fixed values")?.to_vec();
        let var = cursor.bytes_u64(var_bytes, "var values")?.to_vec();
        expect_end(&cursor)?;
        Ok(Self { fixed, var })
    }

    /// Writes a section of minima or maxima.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::new();
        to.count_u64(self.fixed.len());
        to.count_u64(self.var.len());
        to.bytes(&self.fixed);
        to.bytes(&self.var);
        to.finish()
    }

    /// Whether the field has no such statistics.
    pub fn is_empty(&self) -> bool {
        self.fixed.is_empty()
    }

    /// Checks them against the fragment's tiles and the field's cell size (`None` if variable), after which
    /// [`Self::value`] works for every tile. Missing statistics pass.
    pub fn check(&self, tiles: u64, cell_size: Option<usize>) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let width = cell_size.unwrap_or(size_of::<u64>());
        let expected = usize::try_from(tiles)
            .ok()
            .and_then(|tiles| tiles.checked_mul(width));
        if expected != Some(self.fixed.len()) {
            return Err(Error::corrupt(format!(
                "tile statistics have {} bytes, expected {tiles} values of {width}",
                self.fixed.len()
            )));
        }
        if cell_size.is_some() {
            return Ok(());
        }
        let mut previous = 0;
        for start in self.starts() {
            if start < previous || start > self.var.len() as u64 {
                return Err(Error::corrupt(format!(
                    "a tile's statistics start at {start}, expected {previous} to {}",
                    self.var.len()
                )));
            }
            previous = start;
        }
        Ok(())
    }

    /// The value of a tile; `cell_size` is `None` for variable-sized fields. `None` if missing.
    pub fn value(&self, tile: usize, cell_size: Option<usize>) -> Option<&[u8]> {
        match cell_size {
            Some(size) => {
                let start = tile.checked_mul(size)?;
                self.fixed.get(start..start.checked_add(size)?)
            }
            None => {
                let (starts, _) = self.fixed.as_chunks::<8>();
                let start = usize::try_from(u64::from_le_bytes(*starts.get(tile)?)).ok()?;
                let end = match starts.get(tile.checked_add(1)?) {
                    Some(next) => usize::try_from(u64::from_le_bytes(*next)).ok()?,
                    None => self.var.len(),
                };
                self.var.get(start..end)
            }
        }
    }

    fn starts(&self) -> impl Iterator<Item = u64> {
        let (starts, _) = self.fixed.as_chunks::<8>();
        starts.iter().map(|start| u64::from_le_bytes(*start))
    }
}

/// Statistics of one field over a whole fragment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlotStatistics {
    /// The minimum; empty if missing.
    pub min: Vec<u8>,
    /// The maximum; empty if missing.
    pub max: Vec<u8>,
    /// The sum: `i64`, `u64` or `f64` by the field's type; zero if missing.
    pub sum: [u8; 8],
    /// The number of nulls.
    pub null_count: u64,
}

/// Statistics of every slot over a whole fragment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FragmentStatistics {
    /// One per slot.
    pub slots: Vec<SlotStatistics>,
}

impl FragmentStatistics {
    /// Reads the statistics of `slots` slots.
    pub fn decode(tile: &[u8], slots: usize) -> Result<Self> {
        let mut cursor = Cursor::new(tile, "fragment statistics");
        let slots = (0..slots)
            .map(|_| SlotStatistics::decode(&mut cursor))
            .collect::<Result<_>>()?;
        expect_end(&cursor)?;
        Ok(Self { slots })
    }

    /// Writes the statistics of all slots.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::new();
        for slot in &self.slots {
            to.bytes_u64(&slot.min);
            to.bytes_u64(&slot.max);
            to.bytes(&slot.sum);
            to.u64(slot.null_count);
        }
        to.finish()
    }
}

impl SlotStatistics {
    fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let min_bytes = cursor.u64("min bytes")?;
        let min = cursor.bytes_u64(min_bytes, "min")?.to_vec();
        let max_bytes = cursor.u64("max bytes")?;
        let max = cursor.bytes_u64(max_bytes, "max")?.to_vec();
        Ok(Self {
            min,
            max,
            sum: cursor.array("sum")?,
            null_count: cursor.u64("null count")?,
        })
    }
}

fn expect_end(cursor: &Cursor<'_>) -> Result<()> {
    match cursor.remaining() {
        0 => Ok(()),
        bytes => Err(cursor.invalid("bytes after the end", bytes, "none")),
    }
}
