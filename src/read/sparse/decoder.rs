//! The fields of one tile, decoded or found decoded by another unit.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};

use super::fragment;
use crate::array::types::Cells;
use crate::error::{Error, Result};
use crate::filter::ChunkChoice;
use crate::read::decode::Needed;
use crate::read::fetch::{Fetched, TileTicket};
use crate::read::fields::{ColumnRequest, FragmentScan, TileOf};
use crate::read::marks;
use crate::read::plan::sparse::TileRef;
use crate::read::scratch::Scratch;
use crate::read::shared::{Field, SharedTile, Value};
use crate::read::stream::ScanContext;

/// What it takes to decode the fields of a tile.
pub(super) struct TileDecoder<'a> {
    pub context: &'a ScanContext,
    pub scan: &'a FragmentScan,
    pub of: TileOf<'a>,
    fetched: &'a Fetched,
    shared: Option<&'a SharedTile>,
    /// Whether the tile counts as decoded.
    counted: bool,
}

impl<'a> TileDecoder<'a> {
    pub fn new(context: &'a ScanContext, tile: &TileRef, fetched: &'a Fetched) -> Result<Self> {
        Ok(Self {
            context,
            scan: fragment(&context.plan, tile)?,
            of: TileOf {
                table: &context.plan.spec.table,
                tile: tile.tile,
                cells: tile.cells,
            },
            fetched,
            shared: context.shared.get(tile),
            counted: false,
        })
    }

    /// The stored cells of a field. Of a tile that no other unit needs, those that are not marked may be zeros; no marks
    /// stand for all.
    pub fn cells(
        &mut self,
        request: &ColumnRequest,
        kept: &[bool],
        scratch: &mut Scratch,
    ) -> Result<Arc<Cells>> {
        let bytes = self.scan.decoded_bytes(request, self.of.cells)?;
        let (scan, fetched, of) = (self.scan, self.fetched, self.of);
        let any_kept = |cells: Range<usize>| kept.get(cells).is_none_or(marks::any);
        let whole = kept.is_empty() || self.shared.is_some();
        let decode = || {
            let needed = match whole {
                true => Needed::All,
                false => Needed::Where(&any_kept),
            };
            let cells = scan.decode_cells(request, fetched, of, needed, scratch)?;
            Ok(Value::Cells(Arc::new(cells)))
        };
        match self.get(Field::Stored(request.column), bytes, decode)? {
            Value::Cells(cells) => Ok(cells),
            _ => Err(Error::internal("stored cells became something else")),
        }
    }

    /// Whether the stored cells of a field can be searched: no other unit needs them.
    pub fn can_be_searched(&self, request: &ColumnRequest) -> bool {
        self.shared.is_none() && self.scan.can_be_searched(request)
    }

    /// The stored cells of a field that can be searched; those of chunks that were not chosen are zeros.
    pub fn search(
        &mut self,
        request: &ColumnRequest,
        choice: &mut dyn ChunkChoice,
        scratch: &mut Scratch,
    ) -> Result<Arc<Cells>> {
        let (scan, fetched, of) = (self.scan, self.fetched, self.of);
        let cells = scan.decode_cells(request, fetched, of, Needed::Chosen(choice), scratch)?;
        self.count_decoded();
        Ok(Arc::new(cells))
    }

    /// What [`Self::cells`] gave, as Arrow.
    pub fn to_array(&self, column: usize, cells: Arc<Cells>) -> Result<ArrayRef> {
        let cells = match Arc::try_unwrap(cells) {
            Ok(cells) => cells,
            Err(shared) => shared.try_clone()?,
        };
        let array = self.scan.to_array(column, cells, self.of)?;
        self.count_bytes(&array);
        Ok(array)
    }

    /// A column; what is said of [`Self::cells`] holds here, too.
    pub fn column(
        &mut self,
        request: &ColumnRequest,
        kept: &[bool],
        scratch: &mut Scratch,
    ) -> Result<ArrayRef> {
        if self.shared.is_none() && request.is_stored() {
            let cells = self.cells(request, kept, scratch)?;
            return self.to_array(request.column, cells);
        }
        let bytes = self.scan.decoded_bytes(request, self.of.cells)?;
        let (scan, fetched, of) = (self.scan, self.fetched, self.of);
        let decode = || Ok(Value::Array(scan.decode(request, fetched, of, scratch)?));
        match self.get(Field::Column(request.column), bytes, decode)? {
            Value::Array(array) => {
                self.count_bytes(&array);
                Ok(array)
            }
            _ => Err(Error::internal("a column became something else")),
        }
    }

    /// Times of cells, if the fragment has them.
    pub fn times(
        &mut self,
        field: Field,
        ticket: Option<TileTicket>,
        scratch: &mut Scratch,
    ) -> Result<Option<Arc<Vec<u64>>>> {
        let Some(ticket) = ticket else {
            return Ok(None);
        };
        let (scan, fetched, of) = (self.scan, self.fetched, self.of);
        let decode = || {
            let times = scan.decode_timestamps(ticket, fetched, of, scratch)?;
            Ok(Value::Times(Arc::new(times)))
        };
        match self.get(field, self.of.cells.saturating_mul(8), decode)? {
            Value::Times(times) => Ok(Some(times)),
            _ => Err(Error::internal("times became something else")),
        }
    }

    fn get(
        &mut self,
        field: Field,
        bytes: usize,
        decode: impl FnOnce() -> Result<Value>,
    ) -> Result<Value> {
        let mut decoded = false;
        let decode = || {
            decoded = true;
            decode()
        };
        let value = match self.shared {
            Some(shared) => {
                let memory = self.context.memory.as_ref();
                shared.get_or_decode(field, bytes, memory, decode)?
            }
            None => decode()?,
        };
        if decoded {
            self.count_decoded();
        }
        Ok(value)
    }

    fn count_decoded(&mut self) {
        if !self.counted {
            self.counted = true;
            self.context.metrics.tiles_decoded.add(1);
            self.context.metrics.cells_decoded.add(self.of.cells);
        }
    }

    fn count_bytes(&self, array: &ArrayRef) {
        let bytes = array.get_array_memory_size();
        self.context.metrics.bytes_decoded.add(bytes);
    }
}
