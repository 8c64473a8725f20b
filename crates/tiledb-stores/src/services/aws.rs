//! Amazon S3, and stores with its interface.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{ClientConfigKey, Result};

use super::aws_credentials::{AwsCredentialChain, FoundCredentials};
use super::settings::StoreSettings;
use super::{UNSIGNED, check_endpoint, client_options, retry_config};
use crate::cloud_store::{OpenedStore, StorePlan};
use crate::environment::StoreEnvironment;
use crate::error::StoreError;
use crate::limits::NetworkLimits;
use crate::options::{KnownOptions, StoreOptions, switch};
use crate::store_url::{StoreService, StoreUrl};
use crate::transport::SteadyConnector;

/// The option that names a profile, which no key of `object_store` is for.
const PROFILE: &str = "profile";
const ALLOW_HTTP: &str = "allow_http";

/// The keys of the region, and of the endpoint. The last ones are the most specific.
const REGION: [AmazonS3ConfigKey; 2] =
    [AmazonS3ConfigKey::DefaultRegion, AmazonS3ConfigKey::Region];
const ENDPOINT: [AmazonS3ConfigKey; 2] =
    [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint];

/// The beginnings of the regions of each partition but the usual one.
const PARTITIONS: [&str; 5] = ["cn-", "us-gov-", "us-iso-", "us-isob-", "eusc-"];

/// The options that errors list. Others of `object_store` are taken, too.
const LISTED: [&str; 14] = [
    "access_key_id",
    "secret_access_key",
    "session_token",
    "region",
    "endpoint",
    ALLOW_HTTP,
    "skip_signature",
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
    "skip_signature",
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
    /// Nowhere, because the settings say so: requests aren't signed.
    None,
    /// Nowhere, because the environment isn't that of the process, and has none.
    Missing,
}

impl AwsKeys {
    /// Where the options and the environment say that credentials are. The options come first.
    fn of(
        settings: &StoreSettings<AmazonS3ConfigKey>,
        profile: Option<&str>,
        environment: &StoreEnvironment,
    ) -> Result<Self, StoreError> {
        use AmazonS3ConfigKey as Key;

        let is_on = |value: Option<&str>| value.and_then(switch) == Some(true);
        check_pair(
            |key| settings.option(&[key]).is_some(),
            |name| format!("the option aws.{name}"),
        )?;
        if is_on(settings.option(&[Key::SkipSignature])) {
            return Ok(Self::None);
        }
        if settings.option(&[Key::AccessKeyId]).is_some() {
            return Ok(Self::Options);
        }
        if profile.is_none() {
            check_pair(
                |key| settings.variable(&[key]).is_some(),
                |name| format!("AWS_{}", name.to_ascii_uppercase()),
            )?;
            if is_on(settings.variable(&[Key::SkipSignature])) {
                return Ok(Self::None);
            }
            if settings.variable(&[Key::AccessKeyId]).is_some() {
                return Ok(Self::Environment);
            }
        }
        if !environment.is_of_process() {
            return match profile {
                None => Ok(Self::Missing),
                Some(_) => Err(StoreError::option(
                    "the option aws.profile needs the environment of the process, which this program doesn't use",
                )),
            };
        }
        Ok(Self::Chain(AwsCredentialChain::new(profile)))
    }
}

/// How to make a store of S3.
#[derive(Debug)]
pub(crate) struct AwsPlan {
    url: StoreUrl,
    settings: StoreSettings<AmazonS3ConfigKey>,
    keys: AwsKeys,
    limits: NetworkLimits,
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
        let profile = given.iter().find(|(name, _)| *name == PROFILE);
        let profile = profile.map(|(_, name)| *name);
        let mut settings = StoreSettings::new(environment, "AWS_", &given, key_of);
        let keys = AwsKeys::of(&settings, profile, environment)?;
        let [has_region, has_endpoint] =
            [REGION, ENDPOINT].map(|keys| settings.option(&keys).is_some());
        settings.keep_variables(|key| match key {
            Key::SkipSignature => false,
            Key::AccessKeyId | Key::SecretAccessKey | Key::Token => {
                matches!(keys, AwsKeys::Environment)
            }
            key if REGION.contains(&key) => !has_region,
            key if ENDPOINT.contains(&key) => !has_endpoint,
            _ => true,
        });
        let (named, allowing) = match settings.option(&ENDPOINT) {
            Some(_) => ("the option aws.endpoint", "aws.allow_http"),
            None => (
                "the endpoint in the environment (AWS_ENDPOINT, AWS_ENDPOINT_URL)",
                "AWS_ALLOW_HTTP, or the option aws.allow_http,",
            ),
        };
        if let Some(endpoint) = settings.value(&ENDPOINT) {
            let allows_http = settings.is_on(Key::Client(ClientConfigKey::AllowHttp));
            check_endpoint(endpoint, named, allows_http, allowing)?;
        }
        Ok(Self {
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
        for (key, value) in self.settings.iter() {
            builder = builder.with_config(key, value);
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
            AwsKeys::Missing => {
                builder = builder.with_skip_signature(true);
                UNSIGNED.to_owned()
            }
            AwsKeys::Chain(chain) => {
                let FoundCredentials {
                    provider,
                    origin,
                    profile,
                } = chain.find(&self.url).await?;
                if let Some(region) = profile
                    .region
                    .filter(|_| self.settings.value(&REGION).is_none())
                {
                    builder = builder.with_region(region);
                }
                if let Some(endpoint) = profile
                    .endpoint
                    .filter(|_| self.settings.value(&ENDPOINT).is_none())
                {
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
        let endpoint = endpoint_of(&builder);
        Ok(OpenedStore {
            store: Arc::new(builder.build()?),
            credentials: credentials.into(),
            endpoint,
        })
    }
}

impl StorePlan for AwsPlan {
    fn open<'a>(&'a self, region: Option<&'a str>) -> BoxFuture<'a, Result<OpenedStore>> {
        self.build(region).boxed()
    }
}

/// The endpoint that a store of these settings has. The names of Amazon's own buckets are unique in a partition of its regions.
fn endpoint_of(builder: &AmazonS3Builder) -> String {
    let mut endpoints = ENDPOINT.iter().rev();
    if let Some(endpoint) = endpoints.find_map(|key| builder.get_config_value(key)) {
        return endpoint.trim_end_matches('/').to_ascii_lowercase();
    }
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
    let region = region.unwrap_or_default();
    let partition = PARTITIONS.iter().find(|part| region.starts_with(**part));
    partition.map_or("aws".to_owned(), |part| format!("aws-{part}"))
}

/// Fails if only one of the two keys is there, or a session token without keys.
fn check_pair(
    has: impl Fn(AmazonS3ConfigKey) -> bool,
    shown: impl Fn(&str) -> String,
) -> Result<(), StoreError> {
    use AmazonS3ConfigKey as Key;

    const ACCESS_KEY: &str = "access_key_id";
    const SECRET_KEY: &str = "secret_access_key";
    let found = [Key::AccessKeyId, Key::SecretAccessKey, Key::Token].map(has);
    let (given, missing) = match found {
        [true, true, _] | [false, false, false] => return Ok(()),
        [true, false, _] => (ACCESS_KEY, SECRET_KEY),
        [false, true, _] => (SECRET_KEY, ACCESS_KEY),
        [false, false, true] => ("session_token", ACCESS_KEY),
    };
    let (given, missing) = (shown(given), shown(missing));
    Err(StoreError::option(format!(
        "{given} needs {missing}, which is missing"
    )))
}
