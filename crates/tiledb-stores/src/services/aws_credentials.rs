//! Credentials for Amazon S3 from the environment, a profile, a web identity, a container or an instance, in the order of AWS.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_credential_types::credential_feature::AwsCredentialFeature;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use object_store::aws::AwsCredential;
use object_store::{CredentialProvider, Result};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::failure::StoreFailure;
use crate::store_url::StoreUrl;

/// Credentials are renewed so long before they expire.
const RENEWED_BEFORE: Duration = Duration::from_secs(120);
/// The longest time to look for credentials: a metadata service that isn't there is noticed after a second, and a login can't be
/// answered.
const SEARCH_TIME: Duration = Duration::from_secs(15);
/// What errors of the metadata service of an instance contain.
const INSTANCE_METADATA: &str = "IMDS";
/// Where credentials are looked for.
const PLACES: &str = "the environment, the profile, a web identity, the container and the instance";

/// Finds credentials as AWS's own programs do.
#[derive(Debug)]
pub(super) struct AwsCredentialChain {
    profile: Option<String>,
}

/// What the chain has found.
pub(super) struct FoundCredentials {
    /// `None` if there are no credentials.
    pub provider: Option<Arc<RenewedCredentials>>,
    /// The source of the credentials, as the end of the sentence "the request was …".
    pub origin: String,
    pub profile: ProfileSettings,
}

/// What else a profile says.
#[derive(Default)]
pub(super) struct ProfileSettings {
    pub region: Option<String>,
    pub endpoint: Option<String>,
}

impl AwsCredentialChain {
    pub fn new(profile: Option<&str>) -> Self {
        Self {
            profile: profile.map(str::to_owned),
        }
    }

    /// Looks for credentials. The URL is for errors.
    pub async fn find(&self, url: &StoreUrl) -> Result<FoundCredentials> {
        let found = timeout(SEARCH_TIME, Box::pin(self.search())).await;
        let found =
            found.unwrap_or_else(|_| Err(format!("there was no answer within {SEARCH_TIME:?}")));
        found.map_err(|why| {
            StoreFailure::of_credentials(
                url,
                format!(
                    "looking for credentials in {PLACES} failed: {why}; check the profile (for single sign-on, run aws sso login), give \
                     the options aws.access_key_id and aws.secret_access_key, or set aws.skip_signature to true for a public bucket"
                ),
            )
        })
    }

    async fn search(&self) -> Result<FoundCredentials, String> {
        let mut region = ProfileFileRegionProvider::builder();
        let mut loader = aws_config::defaults(BehaviorVersion::latest());
        if let Some(profile) = &self.profile {
            region = region.profile_name(profile);
            loader = loader.profile_name(profile);
        }
        let region = aws_config::meta::region::ProvideRegion::region(&region.build()).await;
        // With a region, the loader asks no metadata service for one.
        let loader = loader.region(region.clone().unwrap_or(Region::from_static("us-east-1")));
        let config = loader.load().await;
        let profile = ProfileSettings {
            region: region.map(|region| region.to_string()),
            endpoint: config.endpoint_url().map(str::to_owned),
        };
        let Some(provider) = config.credentials_provider() else {
            return Err("there is no provider".to_owned());
        };
        match provider.provide_credentials().await {
            Ok(credentials) => Ok(FoundCredentials {
                origin: format!("signed with {}", self.origin(&credentials)),
                provider: Some(Arc::new(RenewedCredentials::new(provider, credentials))),
                profile,
            }),
            Err(CredentialsError::CredentialsNotLoaded(_)) => Ok(FoundCredentials {
                provider: None,
                origin: format!("not signed, because there are no credentials in {PLACES}"),
                profile,
            }),
            // A machine that isn't an instance, or may not ask, has no role. The bucket may still be public.
            Err(error) if causes(&error).contains(INSTANCE_METADATA) => Ok(FoundCredentials {
                provider: None,
                origin: format!(
                    "not signed, because there are no credentials in {PLACES}, whose metadata service doesn't answer"
                ),
                profile,
            }),
            Err(error) => Err(causes(&error)),
        }
    }

    /// Where credentials came from.
    fn origin(&self, credentials: &Credentials) -> String {
        use AwsCredentialFeature as Feature;

        let features = credentials.get_property::<Vec<Feature>>();
        let has = |wanted: &[Feature]| {
            features.is_some_and(|found| found.iter().any(|f| wanted.contains(f)))
        };
        let profile = match &self.profile {
            Some(name) => format!("the profile '{name}'"),
            None => match std::env::var("AWS_PROFILE") {
                Ok(name) if !name.is_empty() => format!("the profile '{name}' (AWS_PROFILE)"),
                _ => "the profile 'default'".to_owned(),
            },
        };
        if has(&[Feature::CredentialsEnvVars]) {
            "the keys of the environment (AWS_ACCESS_KEY_ID)".to_owned()
        } else if has(&[Feature::CredentialsEnvVarsStsWebIdToken]) {
            "the web identity of the environment (AWS_WEB_IDENTITY_TOKEN_FILE)".to_owned()
        } else if has(&[Feature::CredentialsImds]) {
            "the role of the instance".to_owned()
        } else if has(&[Feature::CredentialsHttp]) {
            "the role of the container".to_owned()
        } else {
            format!("the credentials of {profile}")
        }
    }
}

/// An error with all its causes.
fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Credentials that are asked for again before they expire.
#[derive(Debug)]
pub(super) struct RenewedCredentials {
    provider: SharedCredentialsProvider,
    current: Mutex<CurrentCredentials>,
}

#[derive(Debug)]
struct CurrentCredentials {
    credential: Arc<AwsCredential>,
    expiry: Option<SystemTime>,
}

impl CurrentCredentials {
    fn new(credentials: &Credentials) -> Self {
        Self {
            credential: Arc::new(AwsCredential {
                key_id: credentials.access_key_id().to_owned(),
                secret_key: credentials.secret_access_key().to_owned(),
                token: credentials.session_token().map(str::to_owned),
            }),
            expiry: credentials.expiry(),
        }
    }

    fn is_fresh(&self) -> bool {
        self.expiry.is_none_or(|expiry| {
            let left = expiry.duration_since(SystemTime::now());
            left.is_ok_and(|left| left > RENEWED_BEFORE)
        })
    }
}

impl RenewedCredentials {
    fn new(provider: SharedCredentialsProvider, credentials: Credentials) -> Self {
        Self {
            provider,
            current: Mutex::new(CurrentCredentials::new(&credentials)),
        }
    }
}

#[async_trait]
impl CredentialProvider for RenewedCredentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> Result<Arc<AwsCredential>> {
        let mut current = self.current.lock().await;
        if !current.is_fresh() {
            let renewed = timeout(SEARCH_TIME, self.provider.provide_credentials()).await;
            let why = match renewed {
                Ok(Ok(credentials)) => {
                    *current = CurrentCredentials::new(&credentials);
                    return Ok(Arc::clone(&current.credential));
                }
                Ok(Err(error)) => causes(&error),
                Err(_) => format!("there was no answer within {SEARCH_TIME:?}"),
            };
            return Err(object_store::Error::Generic {
                store: "S3",
                source: format!("credentials that expire can't be renewed: {why}").into(),
            });
        }
        Ok(Arc::clone(&current.credential))
    }
}
