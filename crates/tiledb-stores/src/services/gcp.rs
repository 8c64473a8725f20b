//! Google Cloud Storage.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ClientConfigKey, Result};

use super::settings::StoreSettings;
use super::{UNSIGNED, check_endpoint, client_options, retry_config};
use crate::cloud_store::{OpenedStore, StorePlan};
use crate::environment::StoreEnvironment;
use crate::error::StoreError;
use crate::limits::NetworkLimits;
use crate::options::{KnownOptions, StoreOptions};
use crate::store_url::StoreUrl;
use crate::transport::SteadyConnector;

const SKIP_SIGNATURE: &str = "skip_signature";
const BASE_URL: &str = "base_url";
const ALLOW_HTTP: &str = "allow_http";
/// Credentials, of which one is enough, with their options.
const CREDENTIALS: [(GoogleConfigKey, &str); 3] = [
    (GoogleConfigKey::ServiceAccount, "service_account_path"),
    (GoogleConfigKey::ServiceAccountKey, "service_account_key"),
    (
        GoogleConfigKey::ApplicationCredentials,
        "application_credentials_path",
    ),
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
#[derive(Debug)]
pub(crate) struct GcpPlan {
    url: StoreUrl,
    settings: StoreSettings<GoogleConfigKey>,
    credentials: &'static str,
    limits: NetworkLimits,
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
        let mut settings = StoreSettings::new(environment, "GOOGLE_", &given, key_of);
        let mut chosen = CREDENTIALS
            .iter()
            .filter(|(key, _)| settings.option(&[*key]).is_some());
        let has_credentials = chosen.next();
        if let (Some((_, one)), Some((_, other))) = (has_credentials, chosen.next()) {
            return Err(StoreError::option(format!(
                "the options gcp.{one} and gcp.{other} exclude each other"
            )));
        }
        let replaces =
            has_credentials.is_some() || settings.option(&[Key::SkipSignature]).is_some();
        let is_credential = |key: Key| {
            key == Key::SkipSignature || CREDENTIALS.iter().any(|(known, _)| *known == key)
        };
        settings.keep_variables(|key| !(replaces && is_credential(key)));
        let of_environment = CREDENTIALS.map(|(key, _)| key);
        let has_variables = settings.variable(&of_environment).is_some();

        if let Some(endpoint) = settings.value(&[Key::BaseUrl]) {
            let allows_http = settings.is_on(Key::Client(ClientConfigKey::AllowHttp));
            check_endpoint(
                endpoint,
                "the endpoint (gcp.base_url, GOOGLE_BASE_URL)",
                allows_http,
                "gcp.allow_http",
            )?;
        }
        let credentials = if settings.is_on(Key::SkipSignature) {
            "not signed, because of skip_signature"
        } else if has_credentials.is_some() {
            "signed with the credentials of the options"
        } else if has_variables {
            "signed with the credentials of the environment (GOOGLE_…)"
        } else if !environment.is_of_process() {
            settings.add(Key::SkipSignature, "true");
            UNSIGNED
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
        for (key, value) in self.settings.iter() {
            builder = builder.with_config(key, value);
        }
        let value = |key| builder.get_config_value(&key).unwrap_or_default();
        // The file of a service account may name an endpoint, too.
        let endpoint = format!(
            "{} {}",
            value(GoogleConfigKey::BaseUrl).trim_end_matches('/'),
            value(GoogleConfigKey::ServiceAccount),
        );
        Ok(OpenedStore {
            store: Arc::new(builder.build()?),
            credentials: self.credentials.into(),
            endpoint,
        })
    }
}

impl StorePlan for GcpPlan {
    fn open<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Result<OpenedStore>> {
        async { self.build() }.boxed()
    }
}
