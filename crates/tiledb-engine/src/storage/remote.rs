//! Locations in the object stores that URLs name.

use tiledb_stores::{NetworkLimits, StoreError, StoreErrorKind};
use url::Url;

use super::engine::Engine;
use super::location::{Location, is_local, not_local, scheme};
use crate::error::{Error, ErrorKind, Result};

impl Location {
    /// The folder that a URL names, in the object store of its bucket, which the engine makes and keeps. Credentials come from the
    /// environment, a profile or a role, and are looked for at the first request.
    ///
    /// ```
    /// use tiledb_engine::storage::{Engine, Location};
    ///
    /// # if cfg!(feature = "aws") {
    /// let weather = Location::open("s3://bucket/weather", &Engine::shared())?;
    /// assert_eq!(weather.root().as_ref(), "weather");
    /// # }
    /// # Ok::<(), tiledb_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// The URL can't be used, or this build makes no stores of its service.
    pub fn open(url: &str, engine: &Engine) -> Result<Self> {
        Self::open_within(url, engine, &NetworkLimits::default())
    }

    /// As [`open`](Self::open), with limits of time and retries.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_within(url: &str, engine: &Engine, limits: &NetworkLimits) -> Result<Self> {
        if is_local(url) {
            return Self::local(url);
        }
        let shown = Self::without_secrets(url);
        let parsed = Url::parse(url)
            .map_err(|e| unusable(&shown, ErrorKind::InvalidInput, &e.to_string()))?;
        let opened = engine.stores().open(&parsed, limits);
        let (store, at) = opened.map_err(|error| of_store_error(&error, &shown))?;
        let address = engine.stores().address(&store);
        Ok(Self::new(store, at.path().clone(), shown).with_address(address))
    }
}

/// The error for a URL whose store can't be made.
fn of_store_error(error: &StoreError, shown: &str) -> Error {
    let kind = match error.kind() {
        StoreErrorKind::UnknownScheme => {
            return not_local(&scheme(shown).unwrap_or_default(), shown);
        }
        StoreErrorKind::MissingFeature => ErrorKind::Unsupported,
        _ => ErrorKind::InvalidInput,
    };
    unusable(shown, kind, &error.to_string())
}

fn unusable(shown: &str, kind: ErrorKind, why: &str) -> Error {
    Error::new(
        kind,
        format!("'{shown}' cannot be used as a location: {why}"),
    )
}
