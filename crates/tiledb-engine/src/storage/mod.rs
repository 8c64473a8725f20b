//! The only access to the object store: the location of an array, the contents of its folders, and the bytes of its
//! files.
//!
//! All layers above name files relative to the array's folder, and byte ranges in them; this layer turns these into
//! few, large requests, checks the answers, and counts requests and bytes. Files are found by listing as in the format
//! specification's "Array format hierarchy".
//!
//! The subtle thing: memory is never allocated by a length found in a file. Buffers are sized by what the store says
//! exists, so that a range beyond the end of a file is an error and not an allocation.

mod buffers;
mod cache;
mod coalesce;
mod decode_threads;
mod disk_cache;
mod engine;
mod external;
mod failures;
mod file_read;
mod file_write;
mod link;
mod listing;
mod location;
mod remote;
mod request_log;
mod request_timer;
mod store;
mod store_id;
#[cfg(test)]
mod tests;
mod unfinished;

#[cfg(any(test, feature = "testing"))]
pub use file_write::{FileEvent, recorder};
#[cfg(any(test, feature = "testing"))]
pub use listing::believed;

pub use cache::{CacheKey, CacheStats, MetadataCache};
pub use coalesce::IoOptions;
pub use engine::{ClockTicks, Engine, EngineOptions, WeakEngine};
pub use external::{ExternalMembers, FollowedLink, LocationPrefix, MemberLink};
pub use listing::{DatedListing, FileInfo, Listing, ListingReuse};
pub use location::Location;
pub use request_log::{CacheReads, IoCounters, IoCounts, LoggedRequest, RequestKind, RequestLog};
pub use store::{ExpectedFiles, FileSuffix, STAGED_SUFFIX, Storage, Upload, Uploaded};
pub use unfinished::once_finished;
