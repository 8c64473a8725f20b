//! Web servers that list folders by WebDAV, which are only read.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::Result;
use object_store::http::HttpBuilder;

use super::{client_options, retry_config};
use crate::cloud_store::{OpenedStore, StorePlan};
use crate::error::StoreError;
use crate::limits::NetworkLimits;
use crate::options::{KnownOptions, StoreOptions};
use crate::store_url::StoreUrl;
use crate::transport::SteadyConnector;

/// How to make a store of a web server.
#[derive(Debug)]
pub(crate) struct WebPlan {
    url: StoreUrl,
    limits: NetworkLimits,
}

impl WebPlan {
    /// The plan for a URL.
    pub fn new(
        url: &StoreUrl,
        options: &StoreOptions,
        limits: NetworkLimits,
    ) -> Result<Self, StoreError> {
        let known = KnownOptions {
            service: url.service(),
            listed: &[],
            switches: &[],
        };
        known.check(options, |_| false)?;
        Ok(Self {
            url: url.clone(),
            limits,
        })
    }
}

impl StorePlan for WebPlan {
    fn open<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Result<OpenedStore>> {
        async {
            let builder = HttpBuilder::new()
                .with_url(self.url.root())
                .with_client_options(client_options().with_allow_http(true))
                .with_retry(retry_config(&self.limits))
                .with_http_connector(SteadyConnector {
                    silence: self.limits.request_timeout,
                });
            Ok(OpenedStore {
                store: Arc::new(builder.build()?),
                credentials: "sent without credentials".into(),
                endpoint: self.url.root().to_owned(),
            })
        }
        .boxed()
    }
}
