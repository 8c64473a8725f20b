//! SQL on TileDB arrays, in pure Rust.
//!
//! A TileDB array, dense or sparse, is a table: its dimensions, then its attributes, are the columns. This crate is
//! an [Apache DataFusion](https://datafusion.apache.org) table provider with a scan engine of its own: filters on
//! dimensions become ranges of coordinates, tiles are pruned by their bounding boxes, fetched by byte ranges, and
//! decoded straight into Arrow. No libtiledb is needed.
//!
//! ```
//! use datafusion::prelude::SessionContext;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let ctx = SessionContext::new();
//! datafusion_tiledb::register(&ctx)?;
//! let cold = ctx
//!     .sql("SELECT station, min(temperature) AS coldest
//!           FROM './examples/data/weather_stations'
//!           WHERE time < '2024-02-01' GROUP BY station ORDER BY coldest")
//!     .await?;
//! cold.show().await?;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! # Ways in
//!
//! - [`register`] adds `CREATE EXTERNAL TABLE … STORED AS TILEDB` to a session, and paths or URLs of arrays as table
//!   names. [`equip`] does the same for a session that is still being built, and [`TileDbTableFactory`] is the part of
//!   it behind `STORED AS`.
//! - Both also add table [functions] that describe arrays: `SELECT * FROM tiledb_schema('…')`, and
//!   `tiledb_fragments`, `tiledb_tiles`, `tiledb_metadata`, `tiledb_commits`, `tiledb_enumerations`, `tiledb_array`, and
//!   `tiledb_check`, which lists what is wrong with one.
//! - [`TileDbSessionExt`] gives a session `read_tiledb` and `register_tiledb`, as it has `read_parquet` and
//!   `register_parquet`.
//! - [`TileDbTable::open`] gives a provider to register under any name; [`TileDbTable::builder`] opens it as of a
//!   time or with other options.
//! - [`register_group`] makes a group, for example a SOMA experiment, a catalog of the session; see [`catalog`].
//! - [`Array::check`] reads everything of an array and reports what is wrong with it and what is left over.
//! - [`ArrayBuilder`] creates arrays, as `CREATE EXTERNAL TABLE` with columns does.
//! - [`SchemaEvolution`] adds and drops columns of an array, extends enumerations, and grows the current domain.
//! - [`MetadataEdit`] sets and deletes metadata of an array or a group; [`create_group`] and [`GroupEdit`] make groups.
//! - [`execute`] takes every statement, also those that DataFusion's planner refuses: `ALTER TABLE`, `ATTACH` and `DETACH`.
//!   It plans `SELECT *` from arrays of thousands of attributes in a fraction of the time.
//! - [`session::start`] is the same for programs that show plans or progress, or run physical plans themselves.
//! - [`StoreRegistry`] makes the object stores that URLs name, for arrays and files; [`StatementStores`] are those that a program makes.
//! - [`Array::open`] needs neither SQL nor a session: it describes the array, reads cells as record batches, and inserts rows.
//! - [`TileDbTable::insert_rows`] writes the rows of a `DataFrame` or of a stream that is larger than memory.
//!
//! A table as of a time, by method calls on a session:
//!
//! ```
//! # use datafusion::prelude::SessionContext;
//! # use std::sync::Arc;
//! use datafusion_tiledb::TileDbTable;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let before_the_correction = TileDbTable::builder("./examples/data/weather_stations")
//!     .timestamp_end(1000)
//!     .open()
//!     .await?;
//! let ctx = SessionContext::new();
//! ctx.register_table("weather", Arc::new(before_the_correction))?;
//! # assert!(ctx.table("weather").await?.count().await? > 0);
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! A session that is built from parts:
//!
//! ```
//! use datafusion::execution::SessionStateBuilder;
//! # use datafusion::prelude::SessionContext;
//!
//! # fn example() -> datafusion_tiledb::Result<()> {
//! let state = datafusion_tiledb::equip(SessionStateBuilder::new_with_default_features())?.build();
//! let ctx = SessionContext::new_with_state(state);
//! # Ok(())
//! # }
//! # example().unwrap();
//! ```
//!
//! A group as a catalog:
//!
//! ```
//! # use datafusion::prelude::SessionContext;
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let ctx = SessionContext::new();
//! datafusion_tiledb::register_group(&ctx, "exp", "./examples/data/experiment").await?;
//! let observations = ctx.sql("SELECT * FROM exp.obs").await?;
//! # assert!(observations.count().await? > 0);
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! Cells without SQL:
//!
//! ```
//! use datafusion_tiledb::Array;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let weather = Array::open("./examples/data/weather_stations").await?;
//! let january = weather
//!     .scan()
//!     .columns(["time", "temperature"])
//!     .range("station", "Bergen"..="Bergen")
//!     .range("time", "2024-01-01".."2024-02-01")
//!     .collect()
//!     .await?;
//! # assert!(!january.is_empty());
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! # Log
//!
//! Openings, plans, slow requests and unreadable columns are logged with the [`log`] crate, under targets that begin
//! with `datafusion_tiledb` or `tiledb_engine`: unreadable columns as warnings, openings and plans at level `debug`, each
//! request and each cache lookup at level `trace`. Keys, credentials and values of cells are never logged.
//!
//! # Layers
//!
//! Below this crate is [`tiledb_engine`], which reads and writes arrays and doesn't know SQL. Each module depends only on
//! those below it.
//!
//! | Module | Holds |
//! |---|---|
//! | [`session`] | sessions with arrays, and the one door for statements |
//! | [`evolve`] | `ALTER TABLE`, and the functions that change schemas, metadata and groups |
//! | [`functions`] | table functions that describe and maintain arrays |
//! | [`catalog`] | groups as catalogs; `ATTACH` and `DETACH` |
//! | [`optimizer`] | rules for plans over arrays |
//! | `statements` | INSERT, UPDATE, DELETE and MERGE, from their text to a plan |
//! | [`table`] | arrays as tables: the provider, how it is opened, how paths name it |
//! | `dml` | the plans that write |
//! | [`scan`] | the scan of an array: its planning, its source, its form as bytes |
//! | `labels` | dimension labels |
//! | `create` | definitions of arrays from the columns of a statement |
//! | `expressions` | conditions as ranges of coordinates, pruners of tiles, and predicates on rows |
//! | `upstream` | whatever only works around DataFusion |
//! | `stores` | locations, with the object stores, the memory and the engine of a session |
//! | [`options`] | options of tables, settings of sessions, secrets |
//! | [`tiledb_engine`] | everything else: the format, filters, storage, scans, writes, maintenance |

#![cfg_attr(
    test,
    allow(
        clippy::cast_possible_truncation,
        reason = "tests choose their numbers"
    )
)]

pub mod catalog;
#[cfg(feature = "cluster")]
pub mod cluster;
mod create;
mod diff;
mod dml;
mod error;
pub mod evolve;
mod expressions;
pub mod functions;
mod labels;
pub mod optimizer;
pub mod options;
pub mod scan;
#[cfg(feature = "cluster")]
mod sent_errors;
pub mod session;
mod statements;
mod stores;
pub mod table;
mod upstream;

/// The examples of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use catalog::{TileDbGroup, TileDbGroupBuilder, detach_group, register_group};
pub use dml::progress;
pub use error::to_datafusion_error;
pub use options::{AggregateFrom, NewValues, TableOptions};
pub use session::{TileDbTableFactory, equip, execute, register};
pub use stores::place::ArrayPlace;
pub use stores::registry::StoreRegistry;
pub use stores::statement::{SessionStores, StatementStores, StoreRequest};
pub use table::open::TileDbTableBuilder;
pub use table::provider::TileDbTable;
pub use table::session::TileDbSessionExt;
pub use tiledb_engine;
pub use tiledb_engine::{
    Array, ArrayBuilder, ArrayDefinition, Check, CheckOptions, ConsolidateMode, ConsolidateOptions,
    EmptyCells, EncryptionKey, Engine, EngineOptions, Error, ErrorKind, Evolved, ExternalMembers,
    Finding, FixedText, GroupEdit, InvalidUtf8, LiteralValue, Location, MetadataCache,
    MetadataEdit, MetadataValue, OpenOptions, ReportRow, RequestLog, Result, SchemaEvolution,
    Severity, TimeAs, VacuumMode, VacuumOptions, create_group,
};
