//! Reads and writes TileDB arrays in pure Rust.
//!
//! A TileDB array, dense or sparse, is a folder of immutable fragments. This crate opens such folders on local disks and in
//! object stores, decodes their tiles straight into [Arrow](https://docs.rs/arrow) record batches, and creates, writes,
//! evolves and maintains arrays. It needs neither libtiledb nor a query engine. For SQL, see the crate `datafusion-tiledb`,
//! which is built on it.
//!
//! ```
//! use tiledb_engine::Array;
//!
//! # async fn example() -> tiledb_engine::Result<()> {
//! let weather = Array::open("../../examples/data/weather_stations").await?;
//! println!("{} {:?}", weather.schema(), weather.non_empty_domain());
//! let scan = weather.scan().columns(["time", "temperature"]).range("station", "Bergen"..="Cairo");
//! for batch in scan.collect().await? {
//!     println!("{} rows", batch.num_rows());
//! }
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! - [`Array`] describes an array, reads its cells as record batches, and inserts rows. [`OpenOptions`] opens it as of a time,
//!   with a key, or in an engine.
//! - [`Engine`] has the cache, the threads and the idle buffers that arrays share. A program that names none uses one of the process.
//! - [`ArrayBuilder`] creates arrays.
//! - [`SchemaEvolution`] adds and drops columns of an array, extends enumerations, and grows the current domain.
//! - [`MetadataEdit`] sets and deletes metadata of an array or a group; [`create_group`] and [`GroupEdit`] make groups.
//! - [`Array::check`], [`Array::consolidate`] and [`Array::vacuum`] take care of arrays: they find what is wrong with one, merge
//!   its fragments, and remove replaced files.
//!
//! An array is where a [`Location`] says: a folder of this machine, or one of an object store. A path or a `file://` URL is
//! enough for the former. A [`Storage`] is a location with a key and an engine.
//!
//! # Layers
//!
//! Each module depends only on those below it.
//!
//! | Module | Holds |
//! |---|---|
//! | [`handle`] | an array as one value: describe, scan, insert |
//! | [`maintain`] | the care of arrays: what is wrong with one, consolidation, vacuum |
//! | [`write`](mod@write) | changes of arrays, and the commits that make them visible |
//! | [`scan`] | from a request to batches: the plan, its units of work, the streams that read them |
//! | [`tile`] | from fetched bytes to visible cells: decoding, versions of cells, deletes |
//! | [`stats`] | statistics of tiles and fragments, and when they can be trusted |
//! | [`array`](mod@array) | opened arrays and groups: commits, snapshots, fragments, deletes, groups |
//! | [`arrow`] | how TileDB's types and cells become Arrow's |
//! | [`storage`] | the only access to the object store: listing, coalesced reads, durable writes; the engine with its cache |
//! | [`geometry`] | keys, domains, tile grids, cell orders, Hilbert curves, subarrays: pure |
//! | [`memory`] | the memory that scans may use, and the buffers that wait between queries |
//! | [`filter`] | the filter pipeline, one file a filter |
//! | [`format`](mod@format) | plain structs from bytes, for every supported format version |
//! | [`error`] | the one public error |

#![cfg_attr(
    test,
    allow(
        clippy::cast_possible_truncation,
        reason = "tests choose their numbers"
    )
)]

pub mod array;
pub mod arrow;
pub mod error;
pub mod filter;
pub mod format;
pub mod geometry;
pub mod handle;
pub mod maintain;
pub mod memory;
pub mod scan;
pub mod stats;
pub mod storage;
pub mod tile;
pub mod write;

/// Inputs for decoders, changed at random but by their structure.
#[cfg(any(test, feature = "testing"))]
pub mod fuzzed;

#[cfg(any(test, feature = "testing"))]
pub mod growth;

#[cfg(any(test, feature = "testing"))]
pub mod simulated;

pub use arrow::{FixedText, InvalidUtf8, TimeAs};
pub use error::{Error, ErrorKind, Result, ResultExt};
pub use filter::EncryptionKey;
pub use format::metadata::MetadataValue;
pub use handle::{
    Array, ArrayBatches, ArrayInsert, ArrayScan, ArrowValue, DenseBox, DenseBoxTile, DenseBoxTiles,
    DimensionRange, FragmentInfo, OpenOptions,
};
pub use maintain::check::{Check, CheckOptions, Finding, Severity};
pub use maintain::consolidate::{ConsolidateMode, ConsolidateOptions};
pub use maintain::report::ReportRow;
pub use maintain::vacuum::{VacuumMode, VacuumOptions};
pub use scan::EmptyCells;
pub use storage::{
    Engine, EngineOptions, ExternalMembers, Location, MetadataCache, RequestLog, Storage,
};
pub use write::array_metadata::MetadataEdit;
pub use write::create::{ArrayBuilder, ArrayDefinition, LiteralValue};
pub use write::evolve::{Evolved, SchemaEvolution};
pub use write::group::{GroupEdit, create_group};
