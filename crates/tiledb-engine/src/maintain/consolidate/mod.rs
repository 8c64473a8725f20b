//! Consolidation: many small things become one, and every reader sees what it saw before.
//!
//! A consolidation never removes anything. A list beside the commits hides what was replaced, which stays on storage for
//! readers that have opened it, and for those of earlier times, until it is [vacuumed](crate::maintain::vacuum).
//!
//! | Mode | Becomes one |
//! |---|---|
//! | [`ConsolidateMode::Fragments`] | the cells of fragments |
//! | [`ConsolidateMode::Commits`] | the commit files of fragments and deletes |
//! | [`ConsolidateMode::FragmentMetadata`] | the footers of fragments, which opening an array reads |
//! | [`ConsolidateMode::ArrayMetadata`] | the files of key-value metadata, of an array or a group |
//! | [`ConsolidateMode::Deletes`] | in the conditions of deletes, alternatives among alternatives, which libtiledb misreads; their files stay |
//!
//! A consolidation is a plan, its execution and a commit. The plan ([`crate::maintain::plan`]) is the same in a dry run. A new
//! fragment is complete, safe and verified before it is committed. The array is listed again before and after the commit, so
//! that nothing that others wrote meanwhile is hidden, and one of two consolidations of the same fragment withdraws. The
//! remains of a crash before the commit are never read, and after the commit the next run completes it.
//!
//! ```
//! use tiledb_engine::maintain::consolidate::{ConsolidateOptions, ConsolidateMode, consolidate};
//! use tiledb_engine::storage::{Location, Storage};
//!
//! # async fn example() -> tiledb_engine::Result<()> {
//! let storage = Storage::new(Location::local("../../examples/data/weather_stations")?);
//! let mut options = ConsolidateOptions::new(ConsolidateMode::Fragments);
//! options.dry_run = true;
//! for row in consolidate(storage, options).await? {
//!     println!("{}: {} fragments become one: {}", row.outcome, row.inputs, row.gain);
//! }
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```

mod cells;
mod choice;
mod commits;
mod fragments;
mod metadata;
mod options;
mod replace;
mod rounds;

pub use self::options::{ConsolidateMode, ConsolidateOptions, ConsolidateProgress};

use super::report::ReportRow;
use crate::error::Result;
use crate::storage::Storage;

/// Consolidates the array or the group at `storage`, or reports what that would do.
///
/// # Errors
/// There is no array, it is damaged, another writer changed it meanwhile, or the store fails. Finished steps stay.
pub async fn consolidate(storage: Storage, options: ConsolidateOptions) -> Result<Vec<ReportRow>> {
    options.check()?;
    let clock = options.clock.in_engine(storage.engine());
    let options = ConsolidateOptions { clock, ..options };
    let uri = storage.uri().to_owned();
    let done = match options.mode {
        ConsolidateMode::Fragments => fragments::consolidate(&storage, &options).await,
        ConsolidateMode::Commits => commits::consolidate(&storage, &options).await,
        ConsolidateMode::FragmentMetadata => {
            metadata::consolidate_footers(&storage, &options).await
        }
        ConsolidateMode::ArrayMetadata => metadata::consolidate(&storage, &options).await,
        ConsolidateMode::Deletes => commits::flatten_deletes(&storage, &options).await,
    };
    done.map_err(|e| e.with("array", uri))
}
