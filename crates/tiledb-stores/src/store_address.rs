//! The endpoint and the bucket that a store sends its requests to.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::store_url::StoreService;

/// The end of the names of directory buckets.
const DIRECTORY_BUCKET: &str = "--x-s3";

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

    /// Whether listings are in the order of the names' bytes, and can begin behind any name. Those of S3's directory buckets, whose
    /// names end in `--x-s3`, aren't.
    pub fn lists_in_order(&self) -> bool {
        let ordered = match self.service {
            StoreService::AmazonS3
            | StoreService::Alibaba
            | StoreService::Tencent
            | StoreService::GoogleCloud => true,
            StoreService::Azure | StoreService::Web => false,
        };
        let name = self.name();
        ordered && name.is_some_and(|name| !name.ends_with(DIRECTORY_BUCKET))
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

#[cfg(all(test, feature = "transport"))]
mod tests {
    use super::*;

    #[test]
    fn only_stores_that_are_known_to_list_in_order_do() {
        let lists = |service, bucket: &str| {
            let address = StoreAddress::new(service);
            assert!(!address.lists_in_order());
            address.learn("https://example", bucket);
            address.lists_in_order()
        };
        assert!(lists(StoreService::AmazonS3, "data"));
        assert!(lists(StoreService::GoogleCloud, "data"));
        assert!(!lists(StoreService::AmazonS3, "data--use1-az4--x-s3"));
        assert!(!lists(StoreService::Azure, "data"));
        assert!(!lists(StoreService::Web, "data"));
    }
}
