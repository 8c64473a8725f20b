//! Google Cloud Storage.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ClientConfigKey, Result};

use super::{check_endpoint, client_options, retry_config};
use crate::cloud_store::{OpenedStore, StorePlan};
use crate::environment::StoreEnvironment;
use crate::error::StoreError;
use crate::limits::NetworkLimits;
use crate::options::{KnownOptions, StoreOptions, switch};
use crate::store_url::StoreUrl;
use crate::transport::SteadyConnector;

const SKIP_SIGNATURE: &str = "skip_signature";
const BASE_URL: &str = "base_url";
const ALLOW_HTTP: &str = "allow_http";
/// Credentials, of which one is enough. The third is what datafusion-cli calls the fourth.
const CREDENTIALS: [&str; 4] = [
    "service_account_path",
    "service_account_key",
    "application_credentials_path",
    "application_credentials",
];

/// The options that errors list. Others of `object_store` are taken, too.
const LISTED: [&str; 7] = [
    "service_account_path",
    "service_account_key",
    "application_credentials_path",
    SKIP_SIGNATURE,
    BASE_URL,
    ALLOW_HTTP,
    "proxy_url",
];
const SWITCHES: [&str; 2] = [ALLOW_HTTP, SKIP_SIGNATURE];

/// How to make a store of Google Cloud Storage.
pub(crate) struct GcpPlan {
    url: StoreUrl,
    settings: Vec<(GoogleConfigKey, String)>,
    credentials: &'static str,
    limits: NetworkLimits,
}

impl std::fmt::Debug for GcpPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GcpPlan")
            .field("url", &self.url)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The key of an option or variable.
fn key_of(name: &str) -> Option<GoogleConfigKey> {
    let name = match name {
        "application_credentials_path" => "application_credentials",
        name => name,
    };
    let key: GoogleConfigKey = name.parse().ok()?;
    (key != GoogleConfigKey::Bucket).then_some(key)
}

impl GcpPlan {
    /// The plan for a URL, with the options of a statement before the environment.
    pub fn new(
        url: &StoreUrl,
        options: &StoreOptions,
        environment: &StoreEnvironment,
        limits: NetworkLimits,
    ) -> Result<Self, StoreError> {
        use GoogleConfigKey as Key;

        let known = KnownOptions {
            service: url.service(),
            listed: &LISTED,
            switches: &SWITCHES,
        };
        let given = known.check(options, |name| key_of(name).is_some())?;
        let get = |name: &str| {
            given
                .iter()
                .find_map(|(known, value)| (*known == name).then_some(*value))
        };
        let mut chosen = CREDENTIALS.iter().filter(|name| get(name).is_some());
        let has_credentials = chosen.next();
        if let (Some(one), Some(other)) = (has_credentials, chosen.next()) {
            return Err(StoreError::option(format!(
                "the options gcp.{one} and gcp.{other} exclude each other"
            )));
        }
        let is_credential = |key: &Key| {
            matches!(
                key,
                Key::ServiceAccount
                    | Key::ServiceAccountKey
                    | Key::ApplicationCredentials
                    | Key::SkipSignature
            )
        };
        let replaces = has_credentials.is_some() || get(SKIP_SIGNATURE).is_some();
        let of_environment = environment
            .starting_with("GOOGLE_")
            .filter_map(|(name, value)| {
                Some((key_of(&name.to_ascii_lowercase())?, value.to_owned()))
            })
            .filter(|(key, _)| !(replaces && is_credential(key)));
        let mut settings: Vec<_> = of_environment.collect();
        let has_variables = settings.iter().any(|(key, _)| is_credential(key));
        let of_options = given
            .iter()
            .filter_map(|(name, value)| Some((key_of(name)?, (*value).to_owned())));
        settings.extend(of_options);

        let value_of = |wanted: Key| {
            let mut found = settings.iter().rev().filter(|(key, _)| *key == wanted);
            found.next().map(|(_, value)| value.as_str())
        };
        let is_on = |key| value_of(key).and_then(switch) == Some(true);
        if let Some(endpoint) = value_of(Key::BaseUrl) {
            let allows_http = is_on(Key::Client(ClientConfigKey::AllowHttp));
            check_endpoint(
                endpoint,
                "the option gcp.base_url",
                allows_http,
                "gcp.allow_http",
            )?;
        }
        let credentials = if is_on(Key::SkipSignature) {
            "not signed, because of skip_signature"
        } else if has_credentials.is_some() {
            "signed with the credentials of the options"
        } else if has_variables {
            "signed with the credentials of the environment (GOOGLE_…)"
        } else {
            "signed with the login of gcloud, or the account of the instance; give gcp.service_account_path, or set \
             gcp.skip_signature to true for a public bucket"
        };
        Ok(Self {
            url: url.clone(),
            settings,
            credentials,
            limits,
        })
    }

    fn build(&self) -> Result<OpenedStore> {
        let mut builder = GoogleCloudStorageBuilder::new()
            .with_bucket_name(self.url.container())
            .with_client_options(client_options())
            .with_retry(retry_config(&self.limits))
            .with_http_connector(SteadyConnector {
                silence: self.limits.request_timeout,
            });
        for (key, value) in &self.settings {
            builder = builder.with_config(*key, value);
        }
        Ok(OpenedStore {
            store: Arc::new(builder.build()?),
            credentials: self.credentials.into(),
        })
    }
}

impl StorePlan for GcpPlan {
    fn open<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Result<OpenedStore>> {
        async { self.build() }.boxed()
    }
}
