//! The cells of one space tile of a box, in their places.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;

use super::given::GivenCells;
use crate::arrow::{CellWriter, StoredCells, check_memory};
use crate::error::{Error, Result};
use crate::format::schema::ArraySchema;
use crate::geometry::box_runs::BoxRuns;
use crate::geometry::domain::KeyBox;
use crate::geometry::key;
use crate::geometry::tile_grid::TileGrid;
use crate::write::encode::RawTile;

/// Makes tiles of given cells and of existing ones.
#[derive(Debug)]
pub(super) struct DenseTiler {
    pub(super) grid: TileGrid,
    schema: Arc<ArraySchema>,
    tile_cells: usize,
}

/// Existing cells of the array.
#[derive(Debug)]
pub(super) struct FoundCells {
    fields: Vec<StoredCells>,
    /// The cell in each place of the tile, if it is there.
    by_place: Vec<Option<usize>>,
}

impl DenseTiler {
    pub(super) fn new(schema: &Arc<ArraySchema>) -> Result<Self> {
        let grid = TileGrid::new(schema)?;
        let tile_cells = usize::try_from(grid.cells_per_tile())?;
        let sizes = schema.attributes.iter().map(|a| a.cell_size().unwrap_or(1));
        let largest = sizes.max().unwrap_or(1).max(1);
        if tile_cells > isize::MAX.unsigned_abs() / largest {
            return Err(Error::unsupported(format!(
                "a tile of the array has {} cells or more, which no machine can hold",
                grid.cells_per_tile()
            )));
        }
        Ok(Self {
            tile_cells,
            grid,
            schema: Arc::clone(schema),
        })
    }

    /// The places in `tile` of the cells from `first` on, up to the first cell of another tile; `keys` holds the keys of all
    /// cells, one list for each dimension.
    pub(super) fn places(
        &self,
        tile: &[u64],
        keys: &[Vec<u64>],
        first: usize,
        places: &mut Vec<usize>,
    ) -> Result<()> {
        let (cells, strides) = (self.grid.tile_box(tile), self.grid.strides());
        let lo = self.grid.tile_lo(tile);
        let dimensions = keys
            .iter()
            .zip(cells.ranges())
            .zip(lo.iter().zip(&strides))
            .map(|((keys, range), (lo, stride))| {
                let keys = keys.get(first..).unwrap_or_default();
                (keys, range, *lo, *stride)
            })
            .collect::<Vec<_>>();
        let rows = dimensions.first().map_or(0, |(keys, ..)| keys.len());
        for row in 0..rows {
            let mut place = 0_u64;
            for (keys, (least, most), lo, stride) in &dimensions {
                let key = keys.get(row).copied().unwrap_or(0);
                if key < *least || key > *most {
                    return Ok(());
                }
                place = place.saturating_add(key.saturating_sub(*lo).saturating_mul(*stride));
            }
            places.push(usize::try_from(place)?);
        }
        Ok(())
    }

    /// The runs of a box in a tile, in the order of its cells.
    pub(super) fn runs(&self, tile: &[u64], clip: &KeyBox) -> Result<Vec<Range<usize>>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let (lo, order) = (self.grid.tile_lo(tile), self.grid.cell_order());
        for run in BoxRuns::new(self.grid.extents(), order, &lo, clip)? {
            let end = run.start.saturating_add(run.len);
            match runs.last_mut() {
                Some(last) if last.end == run.start => last.end = end,
                _ => runs.push(run.start..end),
            }
        }
        Ok(runs)
    }

    /// Puts existing cells in their places.
    pub(super) fn found(
        &self,
        tile: &[u64],
        batches: &[Vec<ArrayRef>],
        writers: &[CellWriter],
    ) -> Result<FoundCells> {
        let dimensions = self.schema.dimensions.len();
        let (of_dimensions, of_attributes) = writers
            .split_at_checked(dimensions)
            .ok_or_else(|| Error::internal("every dimension has a writer"))?;
        let mut fields = of_attributes
            .iter()
            .map(CellWriter::no_cells)
            .collect::<Vec<_>>();
        check_memory(self.tile_cells.saturating_mul(size_of::<Option<usize>>()))?;
        let mut by_place = vec![None; self.tile_cells];
        let mut count = 0;
        for columns in batches {
            let mut keys = Vec::with_capacity(dimensions);
            for ((writer, column), dimension) in of_dimensions
                .iter()
                .zip(columns)
                .zip(&self.schema.dimensions)
            {
                let mut cells = writer.no_cells();
                writer
                    .append(column, &mut cells)
                    .map_err(|refused| refused.why)?;
                let mut of_dimension = Vec::new();
                key::keys(dimension.datatype, &cells.values, &mut of_dimension)?;
                keys.push(of_dimension);
            }
            let sources = of_attributes.iter().zip(columns.iter().skip(dimensions));
            for ((writer, column), cells) in sources.zip(&mut fields) {
                writer
                    .append(column, cells)
                    .map_err(|refused| refused.why)?;
            }
            let rows = columns.first().map_or(0, |column| column.len());
            let mut places = Vec::with_capacity(rows);
            self.places(tile, &keys, 0, &mut places)?;
            for (row, place) in places.iter().enumerate() {
                if let Some(slot) = by_place.get_mut(*place) {
                    *slot = Some(count + row);
                }
            }
            count += rows;
        }
        Ok(FoundCells { fields, by_place })
    }

    /// The whole tile: given cells, sorted by their place, existing ones in the other places of the box, and padding around it.
    pub(super) fn tile(
        &self,
        real: Vec<Range<usize>>,
        given: GivenCells,
        found: Option<&FoundCells>,
    ) -> Result<RawTile> {
        if let [run] = given.runs.as_slice()
            && usize::try_from(run.len).is_ok_and(|len| len == self.tile_cells)
        {
            // All cells of the tile are there, in their order.
            let fields = given.fields;
            return Ok(RawTile { fields, real });
        }
        let attributes = self.schema.attributes.iter();
        let bytes = attributes
            .map(|attribute| attribute.cell_size().unwrap_or(size_of::<u64>()))
            .fold(0, usize::saturating_add);
        check_memory(self.tile_cells.saturating_mul(bytes))?;
        let mut fields = Vec::with_capacity(given.fields.len());
        for (i, attribute) in self.schema.attributes.iter().enumerate() {
            let cells = given.fields.get(i);
            let cells = cells.ok_or_else(|| Error::internal("every attribute has cells"))?;
            let existing = found.and_then(|found| found.fields.get(i));
            let mut writer = FieldTile {
                out: StoredCells::none(attribute.is_var(), attribute.nullable),
                cell_bytes: attribute.cell_size().unwrap_or(0),
                element_bytes: attribute.datatype.size(),
                fill: &attribute.fill_value,
                fill_valid: attribute.fill_valid,
            };
            let mut runs = given.runs.iter().peekable();
            let mut place = 0;
            for run in &real {
                writer.pad(run.start - place)?;
                place = run.start;
                while place < run.end {
                    if let Some(given) = runs.next_if(|given| given.place == place as u64) {
                        let first = usize::try_from(given.cell)?;
                        let len = usize::try_from(given.len)?;
                        writer.copy(cells, first..first + len);
                        place += len;
                        continue;
                    }
                    let there =
                        found.and_then(|found| found.by_place.get(place).copied().flatten());
                    match (there, existing) {
                        (Some(cell), Some(existing)) => writer.copy_existing(existing, cell),
                        _ => writer.fill(),
                    }
                    place += 1;
                }
            }
            writer.pad(self.tile_cells.saturating_sub(place))?;
            if runs.next().is_some() {
                return Err(Error::internal("a given cell lies outside its box"));
            }
            fields.push(writer.out);
        }
        Ok(RawTile { fields, real })
    }
}

/// One field of a tile that is being put together.
struct FieldTile<'a> {
    out: StoredCells,
    /// 0 if cells differ in size.
    cell_bytes: usize,
    element_bytes: usize,
    fill: &'a [u8],
    fill_valid: bool,
}

impl FieldTile<'_> {
    fn begin(&mut self, cells: usize, valid: bool) {
        self.out.len = self.out.len.saturating_add(cells);
        if let Some(validity) = &mut self.out.validity {
            validity.resize(validity.len().saturating_add(cells), u8::from(valid));
        }
    }

    /// Cells that nobody reads: zeros, one element each if they differ in size, as libtiledb writes.
    fn pad(&mut self, cells: usize) -> Result<()> {
        self.begin(cells, false);
        let bytes = match &mut self.out.starts {
            None => self.cell_bytes,
            Some(starts) => {
                let first = self.out.values.len();
                let places = (0..cells).map(|cell| first + cell * self.element_bytes);
                starts.extend(places.map(|start| start as u64));
                self.element_bytes
            }
        };
        let end = self
            .out
            .values
            .len()
            .checked_add(cells.saturating_mul(bytes));
        let end =
            end.ok_or_else(|| Error::out_of_memory("a tile exceeds this machine's memory"))?;
        self.out.values.resize(end, 0);
        Ok(())
    }

    fn fill(&mut self) {
        let fill = self.fill;
        self.begin(1, self.fill_valid);
        self.append(fill);
    }

    fn append(&mut self, cell: &[u8]) {
        if let Some(starts) = &mut self.out.starts {
            starts.push(self.out.values.len() as u64);
        }
        self.out.values.extend_from_slice(cell);
    }

    fn copy(&mut self, from: &StoredCells, cells: Range<usize>) {
        self.out.len = self.out.len.saturating_add(cells.len());
        if let (Some(to), Some(from)) = (&mut self.out.validity, &from.validity) {
            to.extend_from_slice(from.get(cells.clone()).unwrap_or_default());
        }
        if self.out.starts.is_some() {
            for cell in cells {
                self.append(from.cell(cell, 0));
            }
            return;
        }
        let bytes = cells.start * self.cell_bytes..cells.end * self.cell_bytes;
        self.out
            .values
            .extend_from_slice(from.values.get(bytes).unwrap_or_default());
    }

    /// Copies an existing cell. If it shows as NULL although the field has no NULL, it was never written.
    fn copy_existing(&mut self, from: &StoredCells, cell: usize) {
        let validity = from
            .validity
            .as_ref()
            .and_then(|validity| validity.get(cell));
        let valid = validity.is_none_or(|valid| *valid != 0);
        if !valid && self.out.validity.is_none() {
            return self.fill();
        }
        self.begin(1, valid);
        let size = self.cell_bytes;
        self.append(from.cell(cell, size));
    }
}
