//! Which columns a snapshot shows as a table.

use super::spec::EmptyCells;
use crate::array::snapshot::Snapshot;
use crate::array::table::ArrayTable;
use crate::arrow::TypeOptions;
use crate::error::{Error, Result};

/// Options that decide which columns and rows a table of an array has.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShownColumns {
    /// The types of the columns.
    pub types: TypeOptions,
    /// What a dense array shows for cells that were never written.
    pub empty_cells: EmptyCells,
    /// Whether every version of a cell of a sparse array is a row, instead of the newest one.
    pub all_versions: bool,
    /// Whether the system columns are added.
    pub system_columns: bool,
    /// Whether each column of floats has a second one, which shows it bit by bit as stored.
    pub stored_floats: bool,
}

impl ArrayTable {
    /// The table that options make of a snapshot.
    ///
    /// # Errors
    /// The options don't suit the array: all versions of a dense one, or system columns where a field has such a name.
    pub fn shown(snapshot: Snapshot, options: &ShownColumns) -> Result<Self> {
        let dense = snapshot.schema.is_dense();
        if dense && options.all_versions {
            return Err(Error::invalid(
                "option \"tiledb.all_versions\" is for sparse arrays, and this array is dense: read it as of several times \
                 instead, or through windows of time",
            )
            .with("array", snapshot.storage.uri()));
        }
        let mut table = Self::new(snapshot, &options.types)?;
        if dense && options.empty_cells == EmptyCells::Null {
            table = table.with_nullable_attributes();
        }
        if options.system_columns {
            table = table.with_system_columns()?;
        }
        if options.stored_floats {
            table = table.with_stored_floats()?;
        }
        Ok(table)
    }
}
