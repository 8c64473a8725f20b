//! The addresses of workers.

use std::str::FromStr;

use datafusion::error::DataFusionError;
use datafusion_distributed::WorkerResolver;
use url::{Host, Url};

use crate::{Error, Result};

/// The addresses of a cluster's workers: at least one, and each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerUrls(Vec<Url>);

impl WorkerUrls {
    /// The addresses.
    pub fn urls(&self) -> &[Url] {
        &self.0
    }

    /// Whether all workers run on this machine, so that rows take no network.
    pub(super) fn are_local(&self) -> bool {
        self.0.iter().all(|url| match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        })
    }
}

impl FromStr for WorkerUrls {
    type Err = Error;

    /// Parses URLs with commas between them, such as `http://10.0.0.1:7071,https://worker.example:7071`.
    fn from_str(text: &str) -> Result<Self> {
        let mut urls = Vec::new();
        for part in text.split(',').map(str::trim) {
            if part.is_empty() {
                return Err(Error::invalid(
                    "the list of workers has an empty entry, expected URLs with commas between them",
                ));
            }
            let url = worker_url(part)?;
            if urls.contains(&url) {
                return Err(Error::invalid(format!(
                    "the worker {url} is listed twice, and each can be listed once"
                )));
            }
            urls.push(url);
        }
        Ok(Self(urls))
    }
}

fn worker_url(text: &str) -> Result<Url> {
    let expected = "expected http://host:port, or https://host:port with TLS";
    let url = Url::parse(text)
        .map_err(|e| Error::invalid(format!("a worker's URL is wrong: {e}; {expected}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        // The text isn't repeated, because it holds a secret.
        return Err(Error::invalid(format!(
            "a worker's URL can't hold a user or a password: use --token-file; {expected}"
        )));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Error::invalid(format!(
            "the worker {url} has the scheme \"{}\", {expected}",
            url.scheme()
        )));
    }
    let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    if !url.has_host() || !bare {
        return Err(Error::invalid(format!(
            "the worker {url} is more than an address, {expected}"
        )));
    }
    Ok(url)
}

impl WorkerResolver for WorkerUrls {
    fn get_urls(&self) -> std::result::Result<Vec<Url>, DataFusionError> {
        Ok(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_urls_with_commas_between_them() {
        let urls: WorkerUrls = "http://127.0.0.1:7071, https://b.example:7072/"
            .parse()
            .unwrap();
        let urls: Vec<_> = urls.urls().iter().map(Url::as_str).collect();
        assert_eq!(urls, ["http://127.0.0.1:7071/", "https://b.example:7072/"]);
    }

    #[test]
    fn local_workers_have_addresses_of_the_loopback() {
        for (text, local) in [
            ("http://127.0.0.1:1,http://[::1]:2,http://localhost:3", true),
            ("http://127.0.0.1:1,http://10.0.0.1:2", false),
            ("https://localhost.example:1", false),
        ] {
            let urls: WorkerUrls = text.parse().unwrap();
            assert_eq!(urls.are_local(), local, "{text}");
        }
    }

    #[test]
    fn wrong_addresses_are_refused() {
        for (text, expected) in [
            ("", "empty entry"),
            ("http://a:1,,http://b:1", "empty entry"),
            ("http://a:1,http://a:1/", "listed twice"),
            ("ftp://a:1", "scheme \"ftp\""),
            ("a:7071", "scheme \"a\""),
            ("127.0.0.1:7071", "URL is wrong"),
            ("http://a:1/path", "more than an address"),
            ("http://a:1?x=1", "more than an address"),
            ("http://bob:secret@a:1", "can't hold a user"),
        ] {
            let error = text.parse::<WorkerUrls>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
