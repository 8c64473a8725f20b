//! Azure Blob Storage.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
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

/// The options that errors list. Others of `object_store` are taken, too.
const LISTED: [&str; 13] = [
    "account_name",
    "account_key",
    "sas_token",
    "bearer_token",
    "client_id",
    "client_secret",
    "tenant_id",
    "use_azure_cli",
    "skip_signature",
    "endpoint",
    "use_emulator",
    "allow_http",
    "proxy_url",
];
const SWITCHES: [&str; 4] = [
    "use_azure_cli",
    "skip_signature",
    "use_emulator",
    "allow_http",
];

/// How to make a store of Azure.
#[derive(Debug)]
pub(crate) struct AzurePlan {
    url: StoreUrl,
    settings: StoreSettings<AzureConfigKey>,
    credentials: &'static str,
    limits: NetworkLimits,
}

/// The key of an option or variable.
fn key_of(name: &str) -> Option<AzureConfigKey> {
    let key: AzureConfigKey = name.parse().ok()?;
    (key != AzureConfigKey::ContainerName).then_some(key)
}

/// The settings that say who asks.
const CREDENTIALS: [AzureConfigKey; 9] = [
    AzureConfigKey::AccessKey,
    AzureConfigKey::SasKey,
    AzureConfigKey::Token,
    AzureConfigKey::ClientId,
    AzureConfigKey::ClientSecret,
    AzureConfigKey::AuthorityId,
    AzureConfigKey::FederatedTokenFile,
    AzureConfigKey::UseAzureCli,
    AzureConfigKey::SkipSignature,
];

impl AzurePlan {
    /// The plan for a URL, with the options of a statement before the environment.
    pub fn new(
        url: &StoreUrl,
        options: &StoreOptions,
        environment: &StoreEnvironment,
        limits: NetworkLimits,
    ) -> Result<Self, StoreError> {
        use AzureConfigKey as Key;

        let known = KnownOptions {
            service: url.service(),
            listed: &LISTED,
            switches: &SWITCHES,
        };
        let given = known.check(options, |name| key_of(name).is_some())?;
        let mut settings = StoreSettings::new(environment, "AZURE_", &given, key_of);
        check_application(&settings)?;
        let of_options = settings.option(&CREDENTIALS).is_some();
        settings.keep_variables(|key| !(of_options && CREDENTIALS.contains(&key)));
        let has_variables = settings.variable(&CREDENTIALS).is_some();

        if let Some(endpoint) = settings.value(&[Key::Endpoint]) {
            let allows_http = settings.is_on(Key::Client(ClientConfigKey::AllowHttp));
            check_endpoint(
                endpoint,
                "the endpoint (azure.endpoint, AZURE_ENDPOINT)",
                allows_http,
                "azure.allow_http",
            )?;
        }
        let is_in_url = url.root().contains('@');
        if !is_in_url
            && settings.value(&[Key::AccountName]).is_none()
            && !settings.is_on(Key::UseEmulator)
        {
            return Err(StoreError::option(
                "the storage account is missing: set azure.account_name or AZURE_STORAGE_ACCOUNT_NAME, or name it in the URL, as in \
                 abfss://container@account.dfs.core.windows.net/path",
            ));
        }
        let credentials = if settings.is_on(Key::SkipSignature) {
            "not signed, because of skip_signature"
        } else if of_options {
            "signed with the credentials of the options"
        } else if has_variables {
            "signed with the credentials of the environment (AZURE_…)"
        } else if settings.is_on(Key::UseEmulator) {
            "signed with the key that every emulator has"
        } else if !environment.is_of_process() {
            settings.add(Key::SkipSignature, "true");
            UNSIGNED
        } else {
            "signed with the managed identity of the machine, because neither the options nor the environment has credentials"
        };
        Ok(Self {
            url: url.clone(),
            settings,
            credentials,
            limits,
        })
    }

    fn build(&self) -> Result<OpenedStore> {
        let mut builder = MicrosoftAzureBuilder::new()
            .with_url(self.url.root())
            .with_client_options(client_options())
            .with_retry(retry_config(&self.limits))
            .with_http_connector(SteadyConnector {
                silence: self.limits.request_timeout,
            });
        for (key, value) in self.settings.iter() {
            builder = builder.with_config(key, value);
        }
        let value = |key| builder.get_config_value(&key).unwrap_or_default();
        // The account is in the URL or in the settings, and the emulator has its own.
        let endpoint = format!(
            "{} {} {} {}",
            value(AzureConfigKey::Endpoint).trim_end_matches('/'),
            value(AzureConfigKey::UseEmulator),
            value(AzureConfigKey::AccountName),
            self.url.root()
        );
        Ok(OpenedStore {
            store: Arc::new(builder.build()?),
            credentials: self.credentials.into(),
            endpoint,
        })
    }
}

impl StorePlan for AzurePlan {
    fn open<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Result<OpenedStore>> {
        async { self.build() }.boxed()
    }
}

/// Fails if some but not all parts of an application's credentials are among the options.
fn check_application(settings: &StoreSettings<AzureConfigKey>) -> Result<(), StoreError> {
    use AzureConfigKey as Key;

    let has = |key: Key| settings.option(&[key]).is_some();
    let parts = [
        (Key::ClientId, "azure.client_id"),
        (Key::ClientSecret, "azure.client_secret"),
        (Key::AuthorityId, "azure.tenant_id"),
    ];
    if !has(Key::ClientSecret) {
        return Ok(());
    }
    match parts.iter().find(|(key, _)| !has(*key)) {
        Some((_, missing)) => Err(StoreError::option(format!(
            "the option azure.client_secret needs {missing}, which is missing"
        ))),
        None => Ok(()),
    }
}
