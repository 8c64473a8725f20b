//! Object stores from URLs and options, and a cache of their bytes.
//!
//! [`ObjectStores`] makes the store that a URL such as `s3://bucket/path` names, with options such as `aws.region`. A store looks for
//! credentials at its first request. It sends a request again where that helps. An error says what was refused, where the credentials
//! came from and what to do.
//!
//! With the feature `cache`, a [`disk_cache::DiskCache`](disk_cache) keeps bytes that stores returned, on disk. A [`StoreAddress`] names
//! their store.
//!
//! What isn't an option comes from the environment, then from the profile and the role of the machine. The features `aws`, `azure`,
//! `gcp` and `http` choose the services.

#![cfg_attr(
    not(all(feature = "aws", feature = "azure", feature = "gcp", feature = "http")),
    allow(
        dead_code,
        unused_imports,
        unused_variables,
        reason = "each service needs some of it"
    )
)]

#[cfg(feature = "transport")]
mod by_folders;
mod cache_options;
#[cfg(feature = "transport")]
mod cloud_store;
#[cfg(feature = "cache")]
pub mod disk_cache;
mod environment;
mod error;
#[cfg(feature = "transport")]
mod explain;
mod failure;
mod limits;
mod made_store;
mod options;
#[cfg(feature = "transport")]
mod refusal;
#[cfg(feature = "transport")]
mod services;
mod similar;
mod store_address;
mod store_url;
mod stores;
#[cfg(feature = "transport")]
mod transport;

pub use cache_options::{DiskCacheOptions, SMALLEST_CACHE_BYTES};
pub use environment::StoreEnvironment;
pub use error::{StoreError, StoreErrorKind};
pub use failure::{StoreFailure, StoreFailureKind};
pub use limits::NetworkLimits;
pub use options::StoreOptions;
pub use similar::most_similar;
pub use store_address::StoreAddress;
pub use store_url::{StoreService, StoreUrl};
pub use stores::ObjectStores;
