//! Object stores from URLs and options.
//!
//! [`ObjectStores`] makes the store that a URL such as `s3://bucket/path` names, with options such as `aws.region`. A store looks for
//! credentials at its first request. It sends a request again where that helps. An error says what was refused, where the credentials
//! came from and what to do.
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
#[cfg(feature = "transport")]
mod cloud_store;
mod environment;
mod error;
#[cfg(feature = "transport")]
mod explain;
mod failure;
mod limits;
mod options;
#[cfg(feature = "transport")]
mod refusal;
#[cfg(feature = "transport")]
mod services;
mod similar;
mod store_url;
mod stores;
#[cfg(feature = "transport")]
mod transport;

pub use environment::StoreEnvironment;
pub use error::{StoreError, StoreErrorKind};
pub use failure::{StoreFailure, StoreFailureKind};
pub use limits::NetworkLimits;
pub use options::StoreOptions;
pub use similar::most_similar;
pub use store_url::{StoreService, StoreUrl};
pub use stores::ObjectStores;
