//! The array that stores a dimension label: it has one dense dimension, like the labelled one, and an attribute of
//! labels.
//!
//! This array is written independently (specification: "Dimension labels"; it is a user's array if the label is
//! external), so everything that the labelled array's schema says about it is checked. The subtle thing: the order that
//! a label promises holds only within each write, so it is not relied on.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};

use super::snapshot::Snapshot;
use super::table::ArrayTable;
use super::window::OpenWindow;
use crate::arrow::{ColumnType, TypeOptions};
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::schema::{ArraySchema, DimensionLabel};
use crate::geometry::domain::KeyBox;
use crate::geometry::tile_grid::TileGrid;
use crate::storage::Storage;

/// The open array of a label.
#[derive(Debug, Clone)]
pub struct LabelArray {
    /// The table of the array; its first column is the index, and the labels' column has the label's name.
    pub table: Arc<ArrayTable>,
    /// The column of the labels.
    pub column: usize,
    /// The grid of its tiles.
    pub grid: TileGrid,
    /// The smallest and the largest index with a label; others have the fill value. `None` if no index has a label.
    pub written: Option<(u64, u64)>,
}

impl LabelArray {
    /// Opens the array of `label` at `storage`. `labelled` is the schema that names the label; `field` and `ty`
    /// describe the label's column in it.
    pub async fn open(
        storage: &Storage,
        window: OpenWindow,
        labelled: &ArraySchema,
        label: &DimensionLabel,
        (field, ty): (&Field, &ColumnType),
        options: &TypeOptions,
    ) -> Result<Self> {
        let opened = async {
            let snapshot = Snapshot::open(storage, window).await?;
            check_index(&snapshot.schema, labelled, label)?;
            let column = find_column(&snapshot.schema, label, (field, ty))?;
            let table = ArrayTable::new(snapshot, options)?;
            let grid = TileGrid::new(&table.snapshot.schema)?;
            Ok(Self {
                written: written(&table.snapshot, &grid)?,
                table: Arc::new(with_column(table, column, field, ty)),
                column,
                grid,
            })
        };
        opened
            .await
            .map_err(|e: Error| e.with("label", &label.name).with("array", storage.uri()))
    }

    /// The type of the index.
    pub fn index_type(&self) -> Datatype {
        let dimension = self.table.snapshot.schema.dimensions.first();
        dimension.map_or(Datatype::Any, |d| d.datatype)
    }
}

/// Checks that the array's dimension is that of the labelled array.
fn check_index(schema: &ArraySchema, labelled: &ArraySchema, label: &DimensionLabel) -> Result<()> {
    let dimension = usize::try_from(label.dimension)
        .ok()
        .and_then(|d| labelled.dimensions.get(d))
        .ok_or_else(|| Error::corrupt("the labelled dimension does not exist"))?;
    match schema.dimensions.as_slice() {
        _ if !schema.is_dense() => Err(Error::unsupported(
            "the labels lie in a sparse array, expected a dense one",
        )),
        [index] if index.datatype == dimension.datatype => Ok(()),
        [index] => Err(Error::corrupt(format!(
            "the labels are indexed by {}, but the labelled dimension \"{}\" is of type {}",
            index.datatype, dimension.name, dimension.datatype
        ))),
        many => Err(Error::corrupt(format!(
            "the array of labels has {} dimensions, expected 1",
            many.len()
        ))),
    }
}

/// The table column of the attribute that holds the labels, checked against the label's entry in the schema.
fn find_column(
    schema: &ArraySchema,
    label: &DimensionLabel,
    (field, ty): (&Field, &ColumnType),
) -> Result<usize> {
    let found = schema
        .attributes
        .iter()
        .position(|a| a.name == label.attribute);
    let Some((number, attribute)) = found.and_then(|i| schema.attributes.get(i).map(|a| (i, a)))
    else {
        return Err(Error::corrupt(format!(
            "the array of labels has no attribute \"{}\", which is said to hold them",
            label.attribute
        )));
    };
    if !ty.reads(attribute.datatype, attribute.cell_val_num) {
        return Err(Error::corrupt(format!(
            "the labels are said to be {:?} value(s) of type {}, but attribute \"{}\" has {:?} of type {}",
            label.cell_val_num,
            label.datatype,
            attribute.name,
            attribute.cell_val_num,
            attribute.datatype
        )));
    }
    if attribute.nullable && !field.is_nullable() {
        return Err(Error::corrupt(format!(
            "attribute \"{}\" of the array of labels may be NULL, which labels made with an array never are",
            attribute.name
        )));
    }
    Ok(schema.dimensions.len() + number)
}

/// The table with the labels' column as the labelled array shows it: plain codes if the attribute has an enumeration.
fn with_column(table: ArrayTable, column: usize, field: &Field, ty: &ColumnType) -> ArrayTable {
    let mut fields = table.schema.fields().to_vec();
    let mut types = table.types.as_ref().clone();
    if let (Some(f), Some(t)) = (fields.get_mut(column), types.get_mut(column)) {
        *f = Arc::new(field.clone());
        *t = ty.clone();
    }
    ArrayTable {
        schema: Arc::new(Schema::new(fields)),
        types: Arc::new(types),
        ..table
    }
}

/// The range of written indexes; as in any dense array, cells within it may have the fill value.
fn written(snapshot: &Snapshot, grid: &TileGrid) -> Result<Option<(u64, u64)>> {
    let mut bounds: Option<KeyBox> = None;
    for fragment in snapshot.fragments.iter() {
        let Some(ranges) = &fragment.footer.non_empty_domain else {
            continue;
        };
        let written = KeyBox::from_ranges(&fragment.dimension_datatypes(), ranges)
            .map_err(|e| e.with("fragment", &fragment.name.name))?;
        let Some(written) = written.intersect(grid.domain()) else {
            continue;
        };
        bounds = match bounds {
            Some(bounds) => bounds.union(&written),
            None => Some(written),
        };
    }
    Ok(bounds.and_then(|b| b.range(0)))
}
