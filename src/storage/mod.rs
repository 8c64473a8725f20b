//! The only door to the object store: where an array lies, what is in its folders, and its bytes.
//!
//! Everything above names files relative to the array's folder, and byte ranges in them; this layer
//! turns these into few, large requests, checks that it got what it asked for, and counts. Files are
//! found by listing as in the format specification's "Array format hierarchy".
//!
//! The subtle thing: a length found in a file is never trusted with memory. Buffers are sized by what the
//! store says is there, so that a range beyond the end of a file is an error and not an allocation.

mod buffers;
mod cache;
mod coalesce;
mod failures;
mod file_read;
mod listing;
mod location;
mod request_log;
mod store;
#[cfg(test)]
mod tests;

pub use buffers::release_buffers;
pub use cache::{CacheKey, CacheStats, MetadataCache};
pub use listing::{FileInfo, Keep, Listing};
pub use location::Location;
pub use request_log::{IoCounters, IoCounts, Request, RequestKind, RequestLog};
pub use store::{IoOptions, Storage, Suffix};
