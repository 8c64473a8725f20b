//! What the metadata of a fragment prove about the values of a column.
//!
//! [`trust`](super::trust) decides which statistics are true. The others count as unknown, and so do damaged ones:
//! statistics only save work, so nothing is lost without them.

use arrow::array::ArrayRef;

use super::trust::{FieldTrust, StoredTileStatistics};
use crate::array::fragment::statistics::{FieldStatistics, StatisticsWanted};
use crate::array::fragment::{Fragment, FragmentField, TileIdx};
use crate::array::table::ArrayTable;
use crate::array::table::{TableColumnSource, fill_column, supply};
use crate::error::{Error, ErrorKind, Result};

/// The known statistics of some columns of a fragment.
#[derive(Debug, Default)]
pub struct KnownStatistics {
    columns: Vec<(usize, KnownColumn)>,
}

/// What is known about one column.
#[derive(Debug)]
pub(super) enum KnownColumn {
    /// Nothing.
    Nothing,
    /// Every cell has this value, because the fragment does not store the column.
    Constant(ArrayRef),
    /// The statistics of its tiles, and how far to trust them.
    Stored(StoredStatistics),
}

/// Statistics of tiles as they are stored, and how far to trust them.
#[derive(Debug)]
pub(super) struct StoredStatistics {
    statistics: FieldStatistics,
    trust: FieldTrust,
}

impl KnownStatistics {
    /// Loads the statistics of `columns` in a fragment.
    pub async fn load(table: &ArrayTable, fragment: &Fragment, columns: &[usize]) -> Result<Self> {
        let mut known = Vec::with_capacity(columns.len());
        let (mut fields, mut trusts, mut indices) = (Vec::new(), Vec::new(), Vec::new());
        for column in columns {
            if *column < table.dimension_count() {
                continue;
            }
            let (field, of_column) = describe(table, fragment, *column)?;
            if let Some((field, trust)) = field {
                fields.push(field);
                trusts.push(trust);
                indices.push(known.len());
            }
            known.push((*column, of_column));
        }
        if fields.is_empty() {
            return Ok(Self { columns: known });
        }
        let storage = &table.snapshot.storage;
        let loaded = fragment.statistics(storage, &fields, StatisticsWanted::ALL);
        let loaded = match loaded.await {
            Ok(loaded) => loaded,
            Err(e) if e.kind() == ErrorKind::Corrupt => Vec::new(),
            Err(e) => return Err(e),
        };
        let mut loaded = trusts.into_iter().zip(loaded);
        for index in indices {
            let Some((_, of_column)) = known.get_mut(index) else {
                continue;
            };
            *of_column = match loaded.next() {
                Some((trust, statistics)) => {
                    KnownColumn::Stored(StoredStatistics { statistics, trust })
                }
                None => KnownColumn::Nothing,
            };
        }
        Ok(Self { columns: known })
    }

    /// The values of system columns among `columns` that follow from the name of a fragment.
    pub fn of_system_columns(
        table: &ArrayTable,
        fragment: &Fragment,
        columns: &[usize],
    ) -> Result<Self> {
        let mut known = Vec::new();
        for column in columns {
            if table.system_column(*column).is_some()
                && let TableColumnSource::Constant(value) = supply(table, fragment, *column)?
            {
                known.push((*column, KnownColumn::Constant(value)));
            }
        }
        Ok(Self { columns: known })
    }

    pub(super) fn column(&self, column: usize) -> &KnownColumn {
        let found = self.columns.iter().find(|(c, _)| *c == column);
        found.map_or(&KnownColumn::Nothing, |(_, known)| known)
    }
}

/// What is known about a column without statistics, and the field whose statistics add to it.
fn describe(
    table: &ArrayTable,
    fragment: &Fragment,
    column: usize,
) -> Result<(Option<(FragmentField, FieldTrust)>, KnownColumn)> {
    let Some(ty) = table.types.get(column) else {
        return Err(Error::internal(format!("the table has no column {column}")));
    };
    match supply(table, fragment, column)? {
        TableColumnSource::Fill => {
            // A fill value that cannot be read is an error when cells are read, not here.
            let fill = fill_column(table, column, 1);
            Ok((
                None,
                fill.map_or(KnownColumn::Nothing, KnownColumn::Constant),
            ))
        }
        TableColumnSource::Constant(value) => Ok((None, KnownColumn::Constant(value))),
        TableColumnSource::Field(field @ FragmentField::Timestamps) => Ok((
            Some((field, FieldTrust::of_write_times())),
            KnownColumn::Nothing,
        )),
        TableColumnSource::Field(field @ FragmentField::Attribute(number)) => {
            let attribute = fragment.schema.attributes.get(number);
            let trust = attribute
                .map(|a| FieldTrust::of_attribute(fragment, a, ty))
                .filter(FieldTrust::has_bounds);
            Ok((trust.map(|trust| (field, trust)), KnownColumn::Nothing))
        }
        TableColumnSource::Field(_) => Ok((None, KnownColumn::Nothing)),
    }
}

impl StoredStatistics {
    /// Whether bounds are strings, which are valid up to their first NUL byte.
    pub(super) fn is_text(&self) -> bool {
        self.trust.is_text()
    }

    /// The number of cells in a tile that are stored as NULL.
    pub(super) fn null_count(&self, tile: TileIdx) -> Option<u64> {
        self.trust
            .null_count(&StoredTileStatistics::of(&self.statistics, tile))
    }

    /// The smallest and the largest stored value of a tile of `cells` cells, if the statistics prove them.
    pub(super) fn min_max(&self, tile: TileIdx, cells: u64) -> Option<(&[u8], &[u8])> {
        let stored = StoredTileStatistics::of(&self.statistics, tile);
        self.trust.limits(cells, &stored)
    }
}
