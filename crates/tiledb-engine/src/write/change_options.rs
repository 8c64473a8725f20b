//! The options of every change of an array or a group: the key, the time and the clock.

use std::sync::Arc;

use super::clock::Clock;
use crate::array::window::TimestampMs;
use crate::error::{Error, Result};
use crate::filter::EncryptionKey;
use crate::storage::Storage;

/// The key, the time and the clock of a change. Builders embed them, and forward the setters of `change_setters`.
#[derive(Debug, Clone)]
pub(super) struct ChangeOptions {
    /// The key of an encrypted array.
    pub encryption_key: Option<Arc<EncryptionKey>>,
    /// The time that was chosen for the change.
    pub time: Option<TimestampMs>,
    /// The source of times and names; see [`ChangeOptions::clock_of`].
    pub clock: Clock,
}

impl Default for ChangeOptions {
    fn default() -> Self {
        Self {
            encryption_key: None,
            time: None,
            clock: Clock::system(),
        }
    }
}

impl ChangeOptions {
    /// The storage of the array or group. A chosen key replaces the key of the storage.
    ///
    /// # Errors
    /// A path is not one of this machine.
    pub fn storage(&self, location: impl TryInto<Storage, Error: Into<Error>>) -> Result<Storage> {
        let storage = location.try_into().map_err(Into::into)?;
        Ok(match &self.encryption_key {
            Some(key) => storage.with_encryption_key(Some(Arc::clone(key))),
            None => storage,
        })
    }

    /// The clock of the engine of `storage`, or the chosen one.
    pub fn clock_of(&self, storage: &Storage) -> Clock {
        self.clock.in_engine(storage.engine())
    }

    /// The chosen time, or the current time of `clock`.
    pub async fn time(&self, clock: &Clock) -> TimestampMs {
        match self.time {
            Some(time) => time,
            None => clock.fresh_time().await,
        }
    }
}

/// The setters of a builder that embeds [`ChangeOptions`] as `change`. The documentation of the key and the time differs
/// between builders.
macro_rules! change_setters {
    (key: $key:literal, time: $time:literal) => {
        #[doc = $key]
        #[must_use]
        pub fn encryption_key(
            mut self,
            key: Option<std::sync::Arc<crate::filter::EncryptionKey>>,
        ) -> Self {
            self.change.encryption_key = key;
            self
        }

        #[doc = $time]
        #[must_use]
        pub fn timestamp(mut self, ms: u64) -> Self {
            self.change.time = Some(crate::array::window::TimestampMs(ms));
            self
        }

        /// Sets the time as [`Self::timestamp`] does, if there is one.
        #[must_use]
        pub fn timestamp_if_given(self, ms: Option<u64>) -> Self {
            match ms {
                Some(ms) => self.timestamp(ms),
                None => self,
            }
        }

        /// Takes the time of the change, and names, from this clock.
        #[doc(hidden)]
        #[must_use]
        pub fn clock(mut self, clock: crate::write::clock::Clock) -> Self {
            self.change.clock = clock;
            self
        }
    };
}

pub(super) use change_setters;
