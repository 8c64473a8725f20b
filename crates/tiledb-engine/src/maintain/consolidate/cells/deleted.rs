//! When each cell was deleted, and by which delete (specification: "Fragment Metadata File", Processed Conditions).
//!
//! Deletes are evaluated on the input's own fields, once and for all: a consolidated fragment records the time of the first
//! delete that hits a cell, and that all these deletes are processed. Readers evaluate later deletes as always.

use std::collections::HashMap;
use std::sync::Arc;

use crate::array::deletes::PendingDelete;
use crate::array::fragment::{Fragment, FragmentField};
use crate::error::{Error, Result};
use crate::format::schema::ArraySchema;
use crate::maintain::column::DecodedColumn;
use crate::tile::deletes::{CellTimes, DeleteTrees, FragmentDeletes};

/// A cell that is not deleted has this time, and this index.
pub(in crate::maintain::consolidate) const NEVER: u64 = u64::MAX;

/// The deletes that hit the cells of an input.
#[derive(Debug, Default)]
pub(in crate::maintain::consolidate) struct InputDeletes {
    conditions: Vec<DeletedBy>,
    /// The index in the output's list for each delete that the input has processed.
    recorded: Option<Vec<u64>>,
}

#[derive(Debug)]
struct DeletedBy {
    test: FragmentDeletes,
    time: u64,
    index: u64,
}

/// The time at which each cell was deleted, and the index of the delete.
#[derive(Debug)]
pub(super) struct DeletedCells {
    pub times: Vec<u64>,
    pub indices: Vec<u64>,
}

impl InputDeletes {
    /// Prepares the deletes `pending` for an input, which itself has `processed` others, for an output that lists `all`;
    /// `trees` are those that other inputs have met.
    pub(in crate::maintain::consolidate) fn new(
        array: &ArraySchema,
        fragment: &Fragment,
        pending: &[PendingDelete],
        trees: &mut DeleteTrees,
        processed: Option<&[String]>,
        all: &[String],
    ) -> Result<Self> {
        let indices = all.iter().zip(0_u64..).collect::<HashMap<&String, u64>>();
        let index_of = |marker: &String| {
            let index = indices.get(marker).copied();
            index.ok_or_else(|| Error::internal("a delete is missing in the list of deletes"))
        };
        let conditions = pending.iter().map(|delete| {
            Ok(DeletedBy {
                test: FragmentDeletes::new(array, fragment, std::slice::from_ref(delete), trees)?,
                time: delete.delete.time,
                index: index_of(&delete.delete.marker)?,
            })
        });
        let recorded = processed.map(|markers| markers.iter().map(index_of).collect());
        Ok(Self {
            conditions: conditions.collect::<Result<_>>()?,
            recorded: recorded.transpose()?,
        })
    }

    /// Whether no cell is deleted.
    pub(super) fn is_none(&self) -> bool {
        self.conditions.is_empty() && self.recorded.is_none()
    }

    /// The fields that are needed, each perhaps several times.
    pub(super) fn fields(&self) -> impl Iterator<Item = FragmentField> {
        let fields = self.conditions.iter().flat_map(|c| c.test.fields());
        fields.copied()
    }

    /// When each of `cells` cells was deleted. `column` gives the cells of a field; `written` are their times, and
    /// `recorded` what the input records of deletes.
    pub(super) fn find(
        &self,
        cells: usize,
        column: impl Fn(FragmentField) -> Option<Arc<DecodedColumn>>,
        written: &[u64],
        recorded: Option<(&[u64], &[u64])>,
    ) -> Result<DeletedCells> {
        let mut found = DeletedCells {
            times: vec![NEVER; cells],
            indices: vec![NEVER; cells],
        };
        if let (Some((times, indices)), Some(known)) = (recorded, &self.recorded) {
            let slots = found.times.iter_mut().zip(&mut found.indices);
            for ((time, index), (was, by)) in slots.zip(times.iter().zip(indices)) {
                if *was == NEVER {
                    continue;
                }
                *time = *was;
                let by = usize::try_from(*by).ok().and_then(|by| known.get(by));
                *index = *by.ok_or_else(|| {
                    Error::corrupt(format!(
                        "a cell is deleted by delete number {by:?} of its fragment, which lists {}",
                        known.len()
                    ))
                })?;
            }
        }
        for condition in &self.conditions {
            let needed = condition
                .test
                .fields()
                .iter()
                .map(|field| column(*field))
                .collect::<Option<Vec<_>>>();
            let needed =
                needed.ok_or_else(|| Error::internal("a field of a delete was not read"))?;
            let fields = needed.iter().map(|c| c.cells()).collect::<Vec<_>>();
            let times = CellTimes {
                written: Some(written),
                deleted: recorded.map(|(times, _)| times),
            };
            // What was deleted before is known already: at the time 0 nothing was.
            let survivors = condition.test.survivors(&fields, times, 0, cells)?;
            let slots = found.times.iter_mut().zip(&mut found.indices);
            for ((time, index), survives) in slots.zip(survivors) {
                if !survives && condition.time < *time {
                    (*time, *index) = (condition.time, condition.index);
                }
            }
        }
        Ok(found)
    }
}
