//! Makes stores, each by the plan of its service.

use std::sync::Arc;

use object_store::ObjectStore;

#[cfg(feature = "transport")]
use crate::cloud_store::CloudStore;
use crate::environment::StoreEnvironment;
use crate::error::StoreError;
use crate::limits::NetworkLimits;
use crate::options::StoreOptions;
#[cfg(feature = "transport")]
use crate::services;
use crate::store_address::StoreAddress;
use crate::store_url::{StoreService, StoreUrl};

/// A store, and where it sends its requests.
pub(crate) struct MadeStore {
    pub store: Arc<dyn ObjectStore>,
    pub address: StoreAddress,
}

#[cfg(feature = "transport")]
impl From<CloudStore> for MadeStore {
    fn from(store: CloudStore) -> Self {
        Self {
            address: store.address().clone(),
            store: Arc::new(store),
        }
    }
}

/// Makes the store of a URL.
#[cfg_attr(
    not(feature = "transport"),
    expect(unused_variables, reason = "there are no services")
)]
pub(crate) fn make_store(
    url: &StoreUrl,
    options: &StoreOptions,
    environment: &StoreEnvironment,
    limits: NetworkLimits,
) -> Result<MadeStore, StoreError> {
    use StoreService as Service;

    match url.service() {
        #[cfg(feature = "aws")]
        Service::AmazonS3 | Service::Alibaba | Service::Tencent => {
            let plan = services::aws::AwsPlan::new(url, options, environment, limits)?;
            Ok(CloudStore::new(url.clone(), plan).into())
        }
        #[cfg(feature = "gcp")]
        Service::GoogleCloud => {
            let plan = services::gcp::GcpPlan::new(url, options, environment, limits)?;
            Ok(CloudStore::new(url.clone(), plan).into())
        }
        #[cfg(feature = "azure")]
        Service::Azure => {
            let plan = services::azure::AzurePlan::new(url, options, environment, limits)?;
            Ok(CloudStore::new(url.clone(), plan).into())
        }
        #[cfg(feature = "http")]
        Service::Web => {
            let plan = services::web::WebPlan::new(url, options, limits)?;
            Ok(CloudStore::new(url.clone(), plan).into())
        }
        #[cfg(not(all(feature = "aws", feature = "gcp", feature = "azure", feature = "http")))]
        service => Err(StoreError::new(
            crate::error::StoreErrorKind::MissingFeature,
            format!(
                "this program was built without stores for {}: build it with the feature {}, or register a store of its own",
                url.root(),
                service.feature()
            ),
        )),
    }
}
