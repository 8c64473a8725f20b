//! How an array is opened: at which time, with which key, in which engine, and as which columns.

use std::sync::Arc;

use super::Array;
use crate::array::snapshot::Snapshot;
use crate::array::table::ArrayTable;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::arrow::{FixedText, FloatBits, InvalidUtf8, TimeAs, TypeOptions};
use crate::error::{Error, Result};
use crate::filter::EncryptionKey;
use crate::scan::EmptyCells;
use crate::scan::shown::ShownColumns;
use crate::storage::{Engine, RequestLog, Storage};

/// Opens an [`Array`] with options.
///
/// ```
/// use tiledb_engine::OpenOptions;
///
/// # async fn example() -> tiledb_engine::Result<()> {
/// let before_the_correction = OpenOptions::new()
///     .timestamp_end(1000)
///     .open("../../examples/data/weather_stations")
///     .await?;
/// assert_eq!(before_the_correction.fragments()?.len(), 1);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "options do nothing before `open`"]
pub struct OpenOptions {
    pub(super) timestamp_start: Option<u64>,
    pub(super) timestamp_end: Option<u64>,
    pub(super) write_timestamp: Option<u64>,
    pub(super) shown: ShownColumns,
    encryption_key: Option<Arc<EncryptionKey>>,
    engine: Option<Engine>,
    request_log: Option<Arc<RequestLog>>,
}

impl OpenOptions {
    /// The present array, without a key, in the engine of its storage.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ignores what was written before this time (milliseconds since 1970).
    pub fn timestamp_start(mut self, ms: u64) -> Self {
        self.timestamp_start = Some(ms);
        self
    }

    /// Ignores what was written after this time (milliseconds since 1970).
    pub fn timestamp_end(mut self, ms: u64) -> Self {
        self.timestamp_end = Some(ms);
        self
    }

    /// Writes rows as of this time (milliseconds since 1970) instead of now.
    pub fn write_timestamp(mut self, ms: u64) -> Self {
        self.write_timestamp = Some(ms);
        self
    }

    /// Opens an encrypted array with this key.
    pub fn encryption_key(mut self, key: impl Into<Arc<EncryptionKey>>) -> Self {
        self.encryption_key = Some(key.into());
        self
    }

    /// Opens the array in this engine instead of that of its storage.
    pub fn engine(mut self, engine: &Engine) -> Self {
        self.engine = Some(engine.clone());
        self
    }

    /// Logs every storage request.
    pub fn request_log(mut self, log: Arc<RequestLog>) -> Self {
        self.request_log = Some(log);
        self
    }

    /// Sets what happens to text that isn't UTF-8.
    pub fn invalid_utf8(mut self, choice: InvalidUtf8) -> Self {
        self.shown.types.invalid_utf8 = choice;
        self
    }

    /// Sets the Arrow type of times of day.
    pub fn time_as(mut self, choice: TimeAs) -> Self {
        self.shown.types.time_as = choice;
        self
    }

    /// Sets how text of a fixed size shows its padding.
    pub fn fixed_text(mut self, choice: FixedText) -> Self {
        self.shown.types.fixed_text = choice;
        self
    }

    /// Shows dates, times and enumerated values as their stored numbers, and each NaN and zero with its own bits.
    pub fn stored_values(mut self) -> Self {
        self.shown.types.as_stored = true;
        self.shown.types.float_bits = FloatBits::Stored;
        self
    }

    /// Sets what a dense array shows for cells that were never written.
    pub fn empty_cells(mut self, choice: EmptyCells) -> Self {
        self.shown.empty_cells = choice;
        self
    }

    /// Shows every version of a cell of a sparse array as a row, instead of the newest one.
    pub fn all_versions(mut self) -> Self {
        self.shown.all_versions = true;
        self
    }

    /// Adds the columns `__timestamp` and `__fragment`, which say when and in which fragment a cell was written.
    pub fn system_columns(mut self) -> Self {
        self.shown.system_columns = true;
        self
    }

    /// Opens the array at a local path, a `file://` URL, a [`Location`](crate::Location) in an object store, or a [`Storage`].
    ///
    /// # Errors
    /// There is no array, it can't be read, the key doesn't fit, or options contradict each other.
    pub async fn open(self, location: impl TryInto<Storage, Error: Into<Error>>) -> Result<Array> {
        let storage = self.storage(location)?;
        let snapshot = Snapshot::open(&storage, self.window()?).await?;
        Array::of_snapshot(snapshot, self)
    }

    /// The storage of an array or a group, with the key, the engine and the request log of these options.
    ///
    /// # Errors
    /// A path isn't one of this machine.
    pub fn storage(&self, location: impl TryInto<Storage, Error: Into<Error>>) -> Result<Storage> {
        let mut storage = location.try_into().map_err(Into::into)?;
        if let Some(engine) = &self.engine {
            storage = storage.with_engine(engine);
        }
        if let Some(key) = &self.encryption_key {
            storage = storage.with_encryption_key(Some(Arc::clone(key)));
        }
        Ok(match &self.request_log {
            Some(log) => storage.with_request_log(Arc::clone(log)),
            None => storage,
        })
    }

    pub(super) fn window(&self) -> Result<OpenWindow> {
        let start = TimestampMs(self.timestamp_start.unwrap_or(0));
        OpenWindow::new(start, self.timestamp_end.map(TimestampMs))
    }

    pub(super) fn types(&self) -> &TypeOptions {
        &self.shown.types
    }
}

impl Array {
    pub(super) fn of_snapshot(snapshot: Snapshot, options: OpenOptions) -> Result<Self> {
        let table = ArrayTable::shown(snapshot, &options.shown)?;
        Ok(Self {
            table: Arc::new(table),
            options,
        })
    }

    /// Opens the array again, as of another time.
    pub(super) async fn reopened(&self, end: u64) -> Result<Self> {
        let options = self.options.clone().timestamp_end(end);
        let storage = &self.snapshot().storage;
        let snapshot = self.snapshot().reopen(storage, options.window()?).await?;
        Self::of_snapshot(snapshot, options)
    }
}
