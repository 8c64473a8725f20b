//! Files of delete conditions (specification: "Delete commit file").
//!
//! A stored condition is what a cell must satisfy to survive. It applies to every cell that was written at its time or
//! before. The cells that a fragment marks as deleted name a delete file, too: without it, libtiledb cannot consolidate
//! them. Such a file deletes nothing by itself, so it is put before the fragment is committed.

use std::sync::Arc;

use bytes::Bytes;

use super::clock::Clock;
use crate::array::window::TimestampMs;
use crate::error::{Error, Result};
use crate::filter::{EncryptionKey, generic_tile};
use crate::format::delete_condition::{Comparison, Condition, Test};
use crate::format::schema::ArraySchema;

/// A delete file that is to be written.
#[derive(Debug, Clone)]
pub struct DeleteFile {
    /// The path, relative to the array.
    pub path: String,
    /// The condition that cells must satisfy to survive.
    pub survivors: Condition,
}

impl DeleteFile {
    /// A delete at a time, of the cells that do not satisfy `survivors`.
    ///
    /// # Errors
    /// There are no random numbers for a name.
    pub fn new(survivors: Condition, clock: &Clock, time: TimestampMs) -> Result<Self> {
        let name = clock.fresh_fragment_name(time, time)?;
        Ok(Self {
            path: format!("__commits/{name}.del"),
            survivors,
        })
    }

    /// A delete that deletes nothing.
    ///
    /// # Errors
    /// There are no random numbers for a name.
    pub fn of_nothing(schema: &ArraySchema, clock: &Clock, time: TimestampMs) -> Result<Self> {
        Self::new(every_cell(schema, true)?, clock, time)
    }

    /// The contents of the file: a generic tile, encrypted if there is a key.
    ///
    /// # Errors
    /// The condition cannot be stored.
    pub fn encode(&self, key: Option<&Arc<EncryptionKey>>) -> Result<Bytes> {
        let condition = self.survivors.encode_delete()?;
        generic_tile::encode_with(&condition, key).map(Bytes::from)
    }
}

/// Whether a stored condition is one that all cells satisfy, as [`DeleteFile::of_nothing`] has it.
pub fn deletes_nothing(schema: &ArraySchema, survivors: &Condition) -> bool {
    every_cell(schema, true).is_ok_and(|all| all == *survivors)
}

/// A condition that no cell satisfies.
///
/// # Errors
/// The schema has no dimensions.
pub fn no_cell(schema: &ArraySchema) -> Result<Condition> {
    every_cell(schema, false)
}

/// A condition that all cells satisfy, or none. Coordinates are never NULL, so a comparison of one with the start of its
/// domain has the same result for all. String dimensions have no domain, and libtiledb takes no empty value, so strings are
/// compared with one that comes after all others.
fn every_cell(schema: &ArraySchema, satisfied: bool) -> Result<Condition> {
    let mut dimensions = schema.dimensions.iter();
    let bounded = dimensions.find_map(|d| Some((d, d.domain.as_ref()?)));
    if let (Some((dimension, (lo, _))), true) = (bounded, satisfied)
        && dimension.datatype.is_float()
    {
        // No other comparison of a NaN holds.
        let tests = [Comparison::Ge, Comparison::Ne].map(|comparison| Condition::Test {
            field: dimension.name.clone(),
            test: Test::Compare(comparison, lo.clone()),
        });
        return Ok(Condition::Any(tests.into()));
    }
    let (dimension, comparison, value) = match (bounded, schema.dimensions.first()) {
        (Some((dimension, (lo, _))), _) if satisfied => (dimension, Comparison::Ge, lo.clone()),
        (Some((dimension, (lo, _))), _) => (dimension, Comparison::Lt, lo.clone()),
        (None, Some(dimension)) => {
            // No byte of a string dimension is greater than 0x7f (ASCII), so all strings come before this one.
            let comparison = if satisfied {
                Comparison::Lt
            } else {
                Comparison::Ge
            };
            (dimension, comparison, vec![0xff])
        }
        (None, None) => return Err(Error::internal("an array has dimensions")),
    };
    Ok(Condition::Test {
        field: dimension.name.clone(),
        test: Test::Compare(comparison, value),
    })
}
