//! How the stores of each service are made.

#[cfg(feature = "aws")]
pub(crate) mod aws;
#[cfg(feature = "aws")]
mod aws_credentials;
#[cfg(feature = "azure")]
pub(crate) mod azure;
#[cfg(feature = "gcp")]
pub(crate) mod gcp;
mod settings;
#[cfg(feature = "http")]
pub(crate) mod web;

use object_store::{ClientOptions, RetryConfig};
use url::Url;

use crate::error::StoreError;
use crate::limits::NetworkLimits;

/// Where credentials come from if the environment isn't that of the process, and has none. The logins and roles of the machine are
/// for the process alone.
const UNSIGNED: &str = "not signed, because this program gives no credentials";
/// The time to make a connection.
const CONNECT_TIME: std::time::Duration = std::time::Duration::from_secs(5);

/// The options of the client of every store. Its own limit of time would also end answers that make progress.
fn client_options() -> ClientOptions {
    ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT_TIME)
}

fn retry_config(limits: &NetworkLimits) -> RetryConfig {
    RetryConfig {
        max_retries: limits.retries,
        retry_timeout: limits.retry_time,
        ..RetryConfig::default()
    }
}

/// Checks the endpoint that `named` gives, for example `the option aws.endpoint`. The error never repeats it.
fn check_endpoint(
    endpoint: &str,
    named: &str,
    allow_http: bool,
    allowing: &str,
) -> Result<(), StoreError> {
    let url = Url::parse(endpoint).map_err(|e| {
        StoreError::option(format!(
            "{named} isn't a URL ({e}): expected https://host or http://host:port"
        ))
    })?;
    if url.password().is_some() || !url.username().is_empty() {
        return Err(StoreError::option(format!(
            "{named} has a password or a user name, which no store takes from there: give credentials as options or in the environment"
        )));
    }
    match url.scheme() {
        "https" => Ok(()),
        "http" if allow_http => Ok(()),
        "http" => Err(StoreError::option(format!(
            "{named} begins with http://, over which everybody on the way can read what is sent: set {allowing} to true if that is right"
        ))),
        other => Err(StoreError::option(format!(
            "{named} begins with {other}://: expected https:// or http://"
        ))),
    }
}
