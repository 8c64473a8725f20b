//! Azure Blob Storage.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::{ClientConfigKey, Result};

use super::{check_endpoint, client_options, retry_config};
use crate::cloud_store::{OpenedStore, StorePlan};
use crate::environment::StoreEnvironment;
use crate::error::StoreError;
use crate::limits::NetworkLimits;
use crate::options::{KnownOptions, StoreOptions, switch};
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
pub(crate) struct AzurePlan {
    url: StoreUrl,
    settings: Vec<(AzureConfigKey, String)>,
    credentials: &'static str,
    limits: NetworkLimits,
}

impl std::fmt::Debug for AzurePlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AzurePlan")
            .field("url", &self.url)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The key of an option or variable.
fn key_of(name: &str) -> Option<AzureConfigKey> {
    let key: AzureConfigKey = name.parse().ok()?;
    (key != AzureConfigKey::ContainerName).then_some(key)
}

/// Whether a setting says who asks.
fn is_credential(key: &AzureConfigKey) -> bool {
    use AzureConfigKey as Key;

    matches!(
        key,
        Key::AccessKey
            | Key::SasKey
            | Key::Token
            | Key::ClientId
            | Key::ClientSecret
            | Key::AuthorityId
            | Key::FederatedTokenFile
            | Key::UseAzureCli
            | Key::SkipSignature
    )
}

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
        let mut chosen: Vec<_> = given
            .iter()
            .filter_map(|(name, value)| Some((key_of(name)?, (*value).to_owned())))
            .collect();
        check_application(&chosen)?;
        let of_options = chosen.iter().any(|(key, _)| is_credential(key));
        let of_environment = environment
            .starting_with("AZURE_")
            .filter_map(|(name, value)| {
                Some((key_of(&name.to_ascii_lowercase())?, value.to_owned()))
            })
            .filter(|(key, _)| !(of_options && is_credential(key)));
        let mut settings: Vec<_> = of_environment.collect();
        let has_variables = settings.iter().any(|(key, _)| is_credential(key));
        settings.append(&mut chosen);

        let value_of = |wanted: Key| {
            let mut found = settings.iter().rev().filter(|(key, _)| *key == wanted);
            found.next().map(|(_, value)| value.as_str())
        };
        let is_on = |key| value_of(key).and_then(switch) == Some(true);
        if let Some(endpoint) = value_of(Key::Endpoint) {
            let allows_http = is_on(Key::Client(ClientConfigKey::AllowHttp));
            check_endpoint(
                endpoint,
                "the endpoint (azure.endpoint, AZURE_ENDPOINT)",
                allows_http,
                "azure.allow_http",
            )?;
        }
        let is_in_url = url.root().contains('@');
        if !is_in_url && value_of(Key::AccountName).is_none() && !is_on(Key::UseEmulator) {
            return Err(StoreError::option(
                "the storage account is missing: set azure.account_name or AZURE_STORAGE_ACCOUNT_NAME, or name it in the URL, as in \
                 abfss://container@account.dfs.core.windows.net/path",
            ));
        }
        let credentials = if is_on(Key::SkipSignature) {
            "not signed, because of skip_signature"
        } else if of_options {
            "signed with the credentials of the options"
        } else if has_variables {
            "signed with the credentials of the environment (AZURE_…)"
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
        for (key, value) in &self.settings {
            builder = builder.with_config(*key, value);
        }
        Ok(OpenedStore {
            store: Arc::new(builder.build()?),
            credentials: self.credentials.into(),
        })
    }
}

impl StorePlan for AzurePlan {
    fn open<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Result<OpenedStore>> {
        async { self.build() }.boxed()
    }
}

/// Fails if some but not all parts of an application's credentials are among the options.
fn check_application(options: &[(AzureConfigKey, String)]) -> Result<(), StoreError> {
    use AzureConfigKey as Key;

    let has = |wanted: Key| options.iter().any(|(key, _)| *key == wanted);
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
