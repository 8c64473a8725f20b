//! The object stores of statements, with their options (`aws.region`, …), made by datafusion-cli's builders.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use datafusion::config::ExtensionOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion_cli::object_storage::{
    AwsOptions, GcpOptions, get_cos_object_store_builder, get_gcs_object_store_builder,
    get_oss_object_store_builder, get_s3_object_store_builder,
};
use datafusion_tiledb::{StatementStores, StoreOptions, StoreRequest};
use object_store::http::HttpBuilder;
use object_store::{ClientOptions, Error as StoreError, ObjectStore};

use crate::report;
use crate::stdin;

/// Makes the stores of the shell.
#[derive(Debug, Default)]
pub struct ShellStores {
    /// Whether the shell reads its statements from the standard input.
    reads_sql_from_stdin: bool,
    /// Whether the running statement has a new store of S3.
    is_s3: AtomicBool,
    /// Whether the next store of S3 asks for the region of its bucket.
    asks_for_region: AtomicBool,
}

impl ShellStores {
    pub fn new(reads_sql_from_stdin: bool) -> Self {
        Self {
            reads_sql_from_stdin,
            ..Self::default()
        }
    }

    /// Prepares for a new statement.
    pub fn begin_statement(&self) {
        self.is_s3.store(false, Ordering::Relaxed);
        self.asks_for_region.store(false, Ordering::Relaxed);
    }

    /// Whether a failed statement is worth a second attempt, which asks for the region of the bucket.
    pub fn tries_other_region(&self, error: &DataFusionError) -> bool {
        let is_of_s3 = matches!(error, DataFusionError::ObjectStore(e)
            if matches!(e.as_ref(), StoreError::Generic { store, .. } if store.eq_ignore_ascii_case("S3")));
        let tries = is_of_s3 && self.is_s3.swap(false, Ordering::Relaxed);
        self.asks_for_region.store(tries, Ordering::Relaxed);
        tries
    }
}

#[async_trait]
impl StatementStores for ShellStores {
    async fn store(&self, request: StoreRequest<'_>) -> Result<Option<Arc<dyn ObjectStore>>> {
        let StoreRequest {
            url,
            options,
            registered,
            ..
        } = request;
        let scheme = url.scheme();
        let takes_options = matches!(scheme, "s3" | "oss" | "cos" | "gs" | "gcs");
        if !takes_options && !options.is_empty() {
            return Err(report::message(format!(
                "options of object stores are for s3:// and gs://, not for {scheme}://"
            )));
        }
        Ok(match (scheme, registered) {
            (stdin::SCHEME, registered) => {
                stdin::store(url, registered, self.reads_sql_from_stdin).await?
            }
            // The session counts the requests of the stores that it gets, and it didn't get the store of files.
            ("file", Some(files)) => Some(files).filter(|files| !is_counted(files.as_ref())),
            // A bucket keeps its options until a statement sets others.
            (_, Some(_)) if options.is_empty() && !self.asks_for_region.load(Ordering::Relaxed) => {
                None
            }
            ("s3", _) => {
                self.is_s3.store(true, Ordering::Relaxed);
                let aws = aws_options(options)?;
                let asks = self.asks_for_region.load(Ordering::Relaxed);
                let builder = get_s3_object_store_builder(url, &aws, asks).await?;
                Some(Arc::new(builder.build()?))
            }
            ("oss", _) => {
                let builder = get_oss_object_store_builder(url, &aws_options(options)?)?;
                Some(Arc::new(builder.build()?))
            }
            ("cos", _) => {
                let builder = get_cos_object_store_builder(url, &aws_options(options)?)?;
                Some(Arc::new(builder.build()?))
            }
            ("gs" | "gcs", _) => {
                let mut gcp = GcpOptions::default();
                set_options(&mut gcp, "gcp", options)?;
                Some(Arc::new(get_gcs_object_store_builder(url, &gcp)?.build()?))
            }
            ("http" | "https", _) => {
                let client = ClientOptions::new().with_allow_http(true);
                let builder = HttpBuilder::new().with_client_options(client);
                let origin = url.origin().ascii_serialization();
                Some(Arc::new(builder.with_url(origin).build()?))
            }
            (_, Some(_)) => None,
            (_, None) => {
                return Err(report::message(format!(
                    "there are no object stores for {scheme}://"
                )));
            }
        })
    }

    fn replace(&self, location: &str, format: &str) -> Option<String> {
        stdin::url_of(location, format)
    }
}

/// Whether the session counts the requests of a store.
fn is_counted(store: &dyn ObjectStore) -> bool {
    store.to_string().starts_with("Instrumented")
}

fn aws_options(options: &StoreOptions) -> Result<AwsOptions> {
    let mut aws = AwsOptions::default();
    set_options(&mut aws, "aws", options)?;
    Ok(aws)
}

/// Sets options with a prefix.
fn set_options(
    store: &mut dyn ExtensionOptions,
    prefix: &str,
    options: &StoreOptions,
) -> Result<()> {
    for (key, value) in options.iter() {
        if !key.starts_with(&format!("{prefix}.")) {
            return Err(report::message(format!(
                "the option {key} is for other object stores, expected options that begin with {prefix}."
            )));
        }
        store.set(key, value)?;
    }
    Ok(())
}
