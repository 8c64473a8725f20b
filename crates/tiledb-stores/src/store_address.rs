//! The endpoint and the bucket that a store sends its requests to.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::store_url::StoreService;

/// The endpoint and the bucket of a store, as a name that is the same in every process. Credentials aren't part of it.
///
/// Endpoints may come from a profile, so the name is known after the first request. Stores with different endpoints have different
/// names, although their buckets may have the same name.
#[derive(Clone)]
pub struct StoreAddress {
    service: StoreService,
    name: Arc<OnceLock<Arc<str>>>,
}

impl StoreAddress {
    #[cfg(feature = "transport")]
    pub(crate) fn new(service: StoreService) -> Self {
        Self {
            service,
            name: Arc::default(),
        }
    }

    /// Sets the name, if it isn't known yet. A bucket in another region has the same endpoint.
    #[cfg(feature = "transport")]
    pub(crate) fn learn(&self, endpoint: &str, bucket: &str) {
        self.name
            .get_or_init(|| format!("{} {endpoint} {bucket}", self.service.name()).into());
    }

    /// The name, once the store has been asked for something. Two stores with one name hold the same objects.
    pub fn name(&self) -> Option<&Arc<str>> {
        self.name.get()
    }

    /// Whether an object appears with all its bytes. A web server also shows files that are being written.
    pub fn has_whole_objects(&self) -> bool {
        self.service != StoreService::Web
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreAddress").field(&self.name()).finish()
    }
}
