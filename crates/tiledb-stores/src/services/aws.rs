//! Amazon S3, and stores with its interface.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{ClientConfigKey, Result};

use super::aws_credentials::{AwsCredentialChain, FoundCredentials};
use super::{check_endpoint, client_options, retry_config};
use crate::cloud_store::{OpenedStore, StorePlan};
use crate::environment::StoreEnvironment;
use crate::error::StoreError;
use crate::limits::NetworkLimits;
use crate::options::{KnownOptions, StoreOptions, switch};
use crate::store_url::{StoreService, StoreUrl};
use crate::transport::SteadyConnector;

const ACCESS_KEY: &str = "access_key_id";
const SECRET_KEY: &str = "secret_access_key";
const TOKEN: &str = "session_token";
const PROFILE: &str = "profile";
const SKIP_SIGNATURE: &str = "skip_signature";
const ENDPOINT: &str = "endpoint";
const ALLOW_HTTP: &str = "allow_http";

/// The options that errors list. Others of `object_store` are taken, too.
const LISTED: [&str; 14] = [
    ACCESS_KEY,
    SECRET_KEY,
    TOKEN,
    "region",
    ENDPOINT,
    ALLOW_HTTP,
    SKIP_SIGNATURE,
    PROFILE,
    "virtual_hosted_style_request",
    "request_payer",
    "unsigned_payload",
    "server_side_encryption",
    "sse_kms_key_id",
    "proxy_url",
];
const SWITCHES: [&str; 5] = [
    ALLOW_HTTP,
    SKIP_SIGNATURE,
    "virtual_hosted_style_request",
    "request_payer",
    "unsigned_payload",
];

/// Where the credentials of a store come from.
#[derive(Debug)]
enum AwsKeys {
    /// The options have them.
    Options,
    /// The environment has them.
    Environment,
    /// A profile or a role.
    Chain(AwsCredentialChain),
    /// Nowhere: requests aren't signed.
    None,
}

impl AwsKeys {
    /// Where the options and the environment say that credentials are. The options come first.
    fn of<'a>(
        option: impl Fn(&str) -> Option<&'a str>,
        environment: &StoreEnvironment,
    ) -> Result<Self, StoreError> {
        check_pair(
            |name| option(name).is_some(),
            |name| format!("the option aws.{name}"),
        )?;
        let variable = |name: &str| format!("AWS_{}", name.to_ascii_uppercase());
        let is_on = |value: Option<&str>| value.and_then(switch) == Some(true);
        if is_on(option(SKIP_SIGNATURE)) {
            return Ok(Self::None);
        }
        if option(ACCESS_KEY).is_some() {
            return Ok(Self::Options);
        }
        if option(PROFILE).is_none() {
            check_pair(|name| environment.get(&variable(name)).is_some(), variable)?;
            if is_on(environment.get(&variable(SKIP_SIGNATURE))) {
                return Ok(Self::None);
            }
            if environment.get(&variable(ACCESS_KEY)).is_some() {
                return Ok(Self::Environment);
            }
        }
        Ok(Self::Chain(AwsCredentialChain::new(option(PROFILE))))
    }
}

/// How to make a store of S3.
pub(crate) struct AwsPlan {
    url: StoreUrl,
    /// The settings, those of the environment first.
    settings: Vec<(AmazonS3ConfigKey, String)>,
    has_region: bool,
    has_endpoint: bool,
    keys: AwsKeys,
    limits: NetworkLimits,
}

impl std::fmt::Debug for AwsPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AwsPlan")
            .field("url", &self.url)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The key of an option or variable, without what only this module sets.
fn key_of(name: &str) -> Option<AmazonS3ConfigKey> {
    use AmazonS3ConfigKey as Key;

    let key: Key = name.parse().ok()?;
    let is_ours = matches!(
        key,
        Key::Bucket
            | Key::WebIdentityTokenFile
            | Key::RoleArn
            | Key::RoleSessionName
            | Key::StsEndpoint
            | Key::ContainerCredentialsRelativeUri
            | Key::ContainerCredentialsFullUri
            | Key::ContainerAuthorizationTokenFile
            | Key::MetadataEndpoint
            | Key::ImdsV1Fallback
    );
    (!is_ours).then_some(key)
}

impl AwsPlan {
    /// The plan for a URL, with the options of a statement before the environment.
    pub fn new(
        url: &StoreUrl,
        options: &StoreOptions,
        environment: &StoreEnvironment,
        limits: NetworkLimits,
    ) -> Result<Self, StoreError> {
        use AmazonS3ConfigKey as Key;

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
        let keys = AwsKeys::of(get, environment)?;
        let has_keys = matches!(keys, AwsKeys::Environment);
        let mut settings: Vec<_> = environment
            .starting_with("AWS_")
            .filter_map(|(name, value)| {
                Some((key_of(&name.to_ascii_lowercase())?, value.to_owned()))
            })
            .filter(|(key, _)| match key {
                Key::SkipSignature => false,
                Key::AccessKeyId | Key::SecretAccessKey | Key::Token => has_keys,
                Key::Endpoint | Key::S3Endpoint => get(ENDPOINT).is_none(),
                Key::Region | Key::DefaultRegion => get("region").is_none(),
                _ => true,
            })
            .collect();
        let options = given.iter().filter(|(name, _)| *name != PROFILE);
        settings
            .extend(options.filter_map(|(name, value)| Some((key_of(name)?, (*value).to_owned()))));

        let value_of = |wanted: &[Key]| {
            let mut found = settings
                .iter()
                .rev()
                .filter(|(key, _)| wanted.contains(key));
            found.next().map(|(_, value)| value.as_str())
        };
        let allows_http =
            value_of(&[Key::Client(ClientConfigKey::AllowHttp)]).and_then(switch) == Some(true);
        if let Some(endpoint) = get(ENDPOINT) {
            check_endpoint(
                endpoint,
                "the option aws.endpoint",
                allows_http,
                "aws.allow_http",
            )?;
        } else if let Some(endpoint) = value_of(&[Key::S3Endpoint, Key::Endpoint]) {
            check_endpoint(
                endpoint,
                "the endpoint in the environment (AWS_ENDPOINT, AWS_ENDPOINT_URL)",
                allows_http,
                "AWS_ALLOW_HTTP, or the option aws.allow_http,",
            )?;
        }
        Ok(Self {
            has_region: value_of(&[Key::Region, Key::DefaultRegion]).is_some(),
            has_endpoint: value_of(&[Key::Endpoint, Key::S3Endpoint]).is_some(),
            url: url.clone(),
            settings,
            keys,
            limits,
        })
    }

    async fn build(&self, region: Option<&str>) -> Result<OpenedStore> {
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(self.url.container())
            .with_client_options(client_options())
            .with_retry(retry_config(&self.limits))
            .with_http_connector(SteadyConnector {
                silence: self.limits.request_timeout,
            });
        if self.url.service() == StoreService::Alibaba {
            builder = builder.with_virtual_hosted_style_request(true);
        }
        for (key, value) in &self.settings {
            builder = builder.with_config(*key, value);
        }
        let credentials = match &self.keys {
            AwsKeys::Options => {
                "signed with the keys of the options aws.access_key_id and aws.secret_access_key"
                    .to_owned()
            }
            AwsKeys::Environment => {
                "signed with the keys of the environment (AWS_ACCESS_KEY_ID)".to_owned()
            }
            AwsKeys::None => {
                builder = builder.with_skip_signature(true);
                "not signed, because of skip_signature".to_owned()
            }
            AwsKeys::Chain(chain) => {
                let FoundCredentials {
                    provider,
                    origin,
                    profile,
                } = chain.find(&self.url).await?;
                if let Some(region) = profile.region.filter(|_| !self.has_region) {
                    builder = builder.with_region(region);
                }
                if let Some(endpoint) = profile.endpoint.filter(|_| !self.has_endpoint) {
                    builder = builder.with_endpoint(endpoint);
                }
                match provider {
                    Some(provider) => builder = builder.with_credentials(provider),
                    None => builder = builder.with_skip_signature(true),
                }
                origin
            }
        };
        if let Some(region) = region {
            builder = builder.with_region(region);
        }
        Ok(OpenedStore {
            store: Arc::new(builder.build()?),
            credentials: credentials.into(),
        })
    }
}

impl StorePlan for AwsPlan {
    fn open<'a>(&'a self, region: Option<&'a str>) -> BoxFuture<'a, Result<OpenedStore>> {
        self.build(region).boxed()
    }
}

/// Fails if only one of the two keys is there, or a session token without keys.
fn check_pair(
    has: impl Fn(&str) -> bool,
    shown: impl Fn(&str) -> String,
) -> Result<(), StoreError> {
    let missing = match (has(ACCESS_KEY), has(SECRET_KEY), has(TOKEN)) {
        (true, true, _) | (false, false, false) => return Ok(()),
        (true, false, _) => (ACCESS_KEY, SECRET_KEY),
        (false, true, _) => (SECRET_KEY, ACCESS_KEY),
        (false, false, true) => (TOKEN, ACCESS_KEY),
    };
    let (given, missing) = (shown(missing.0), shown(missing.1));
    Err(StoreError::option(format!(
        "{given} needs {missing}, which is missing"
    )))
}
