//! The object store that a URL names, and the path in it.

use object_store::path::Path;
use url::Url;

use crate::error::{StoreError, StoreErrorKind};

/// The kinds of object stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreService {
    /// Amazon S3, and stores with its interface: `s3://bucket/path`, `s3a://bucket/path`.
    AmazonS3,
    /// Alibaba's Object Storage Service, by the interface of S3: `oss://bucket/path`.
    Alibaba,
    /// Tencent's Cloud Object Storage, by the interface of S3: `cos://bucket/path`.
    Tencent,
    /// Google Cloud Storage: `gs://bucket/path`, `gcs://bucket/path`.
    GoogleCloud,
    /// Azure Blob Storage: `az://container/path`, `abfss://container@account.dfs.core.windows.net/path`.
    Azure,
    /// A web server that lists folders by WebDAV, which is only read: `http://host/path`, `https://host/path`.
    Web,
}

impl StoreService {
    /// Every scheme, with its service.
    const SCHEMES: [(&str, Self); 13] = [
        ("s3", Self::AmazonS3),
        ("s3a", Self::AmazonS3),
        ("gs", Self::GoogleCloud),
        ("gcs", Self::GoogleCloud),
        ("az", Self::Azure),
        ("azure", Self::Azure),
        ("abfs", Self::Azure),
        ("abfss", Self::Azure),
        ("adl", Self::Azure),
        ("http", Self::Web),
        ("https", Self::Web),
        ("oss", Self::Alibaba),
        ("cos", Self::Tencent),
    ];

    fn of_scheme(scheme: &str) -> Option<Self> {
        let known = Self::SCHEMES.iter().find(|(known, _)| *known == scheme);
        known.map(|(_, service)| *service)
    }

    /// The prefix of the service's options, with its dot; `None` if it takes none.
    pub(crate) fn prefix(self) -> Option<&'static str> {
        match self {
            Self::AmazonS3 | Self::Alibaba | Self::Tencent => Some("aws."),
            Self::GoogleCloud => Some("gcp."),
            Self::Azure => Some("azure."),
            Self::Web => None,
        }
    }

    /// What the service calls that which holds objects.
    pub(crate) fn container(self) -> &'static str {
        match self {
            Self::Azure => "container",
            Self::Web => "host",
            _ => "bucket",
        }
    }

    /// The name of the service in errors of `object_store`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AmazonS3 => "S3",
            Self::Alibaba => "OSS",
            Self::Tencent => "COS",
            Self::GoogleCloud => "GCS",
            Self::Azure => "Azure",
            Self::Web => "HTTP",
        }
    }

    /// The feature of this crate that makes stores of the service.
    #[cfg(not(all(feature = "aws", feature = "azure", feature = "gcp", feature = "http")))]
    pub(crate) fn feature(self) -> &'static str {
        match self {
            Self::AmazonS3 | Self::Alibaba | Self::Tencent => "aws",
            Self::GoogleCloud => "gcp",
            Self::Azure => "azure",
            Self::Web => "http",
        }
    }
}

/// A URL, taken apart: the store, and the path in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoreUrl {
    service: StoreService,
    root: Url,
    path: Path,
}

impl StoreUrl {
    /// Takes a URL apart.
    ///
    /// ```
    /// use tiledb_stores::{StoreService, StoreUrl};
    ///
    /// let url = StoreUrl::parse("s3://bucket/arrays/weather")?;
    /// assert_eq!(url.service(), StoreService::AmazonS3);
    /// assert_eq!(url.root(), "s3://bucket");
    /// assert_eq!(url.path().as_ref(), "arrays/weather");
    /// assert_eq!(StoreUrl::parse("abfss://lake@account.dfs.core.windows.net/a")?.container(), "lake");
    /// # Ok::<(), tiledb_stores::StoreError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the URL can't be parsed, has a password, has a scheme that no store has, or names no bucket.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let invalid = |why: String| StoreError::new(StoreErrorKind::InvalidUrl, why);
        let parsed =
            Url::parse(url).map_err(|e| invalid(format!("the URL can't be parsed: {e}")))?;
        Self::of(&parsed)
    }

    /// Takes a parsed URL apart.
    ///
    /// # Errors
    ///
    /// Fails like [`Self::parse`].
    pub fn of(url: &Url) -> Result<Self, StoreError> {
        let invalid = |why: String| StoreError::new(StoreErrorKind::InvalidUrl, why);
        let scheme = url.scheme();
        let Some(service) = StoreService::of_scheme(scheme) else {
            let known = StoreService::SCHEMES.map(|(scheme, _)| format!("{scheme}://"));
            return Err(StoreError::new(
                StoreErrorKind::UnknownScheme,
                format!(
                    "there are no object stores for {scheme}://; known are {}",
                    known.join(", ")
                ),
            ));
        };
        if url.password().is_some() {
            return Err(invalid(
                "the URL was given with a password, which no store takes from there: give credentials as options or in the \
                 environment"
                    .to_owned(),
            ));
        }
        if url.host_str().is_none_or(str::is_empty) {
            let container = service.container();
            return Err(invalid(format!(
                "the URL names no {container}: expected {scheme}://{container}/path"
            )));
        }
        let path = Path::from_url_path(url.path())
            .map_err(|e| invalid(format!("the path of the URL can't be used: {e}")))?;
        let mut root = url.clone();
        root.set_path("");
        root.set_query(None);
        root.set_fragment(None);
        Ok(Self {
            service,
            root,
            path,
        })
    }

    /// The service.
    pub fn service(&self) -> StoreService {
        self.service
    }

    /// The URL of the whole store: scheme, user and host.
    pub fn root(&self) -> &str {
        self.root.as_str().trim_end_matches('/')
    }

    /// The path in the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bucket, the container or the host.
    pub fn container(&self) -> &str {
        match self.root.username() {
            "" => self.root.host_str().unwrap_or_default(),
            container => container,
        }
    }

    /// The URL of an object of the same store.
    pub(crate) fn url_of(&self, path: &Path) -> String {
        match path.as_ref() {
            "" => self.root().to_owned(),
            path => format!("{}/{path}", self.root()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scheme_has_a_service_and_each_container_counts() {
        for (url, root, container, path) in [
            ("s3://b/x/y", "s3://b", "b", "x/y"),
            ("s3a://b", "s3a://b", "b", ""),
            ("gs://my_bucket/ä b", "gs://my_bucket", "my_bucket", "ä b"),
            ("az://c/x", "az://c", "c", "x"),
            (
                "abfss://c@a.dfs.core.windows.net/x",
                "abfss://c@a.dfs.core.windows.net",
                "c",
                "x",
            ),
            (
                "abfss://d@a.dfs.core.windows.net/x",
                "abfss://d@a.dfs.core.windows.net",
                "d",
                "x",
            ),
            (
                "https://host:8443/x?y=1#z",
                "https://host:8443",
                "host",
                "x",
            ),
            ("HTTP://Host/x", "http://host", "host", "x"),
            ("s3://B.with.dots/x", "s3://B.with.dots", "B.with.dots", "x"),
        ] {
            let parsed = StoreUrl::parse(url).unwrap();
            let found = (parsed.root(), parsed.container(), parsed.path().as_ref());
            assert_eq!(found, (root, container, path), "{url}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_its_secrets() {
        for (url, expected) in [
            ("ftp://h/x", "known are s3://, s3a://"),
            ("s3:///x", "names no bucket: expected s3://bucket/path"),
            ("az:///x", "names no container"),
            ("s3://k:hush@b/x", "with a password"),
            ("https://k:hush@b/x", "with a password"),
            ("no url", "can't be parsed"),
        ] {
            let error = StoreUrl::parse(url).unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
