//! Object stores with the options of a statement.

use std::sync::Arc;

use datafusion::config::ExtensionOptions;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion_cli::object_storage::{
    AwsOptions, GcpOptions, get_gcs_object_store_builder, get_s3_object_store_builder,
};
use object_store::ObjectStore;
use url::Url;

use crate::report;

/// Registers the object store of `uri` with the options that a statement gives for it (`aws.region`, …). Without any,
/// the store is registered when its first URL is looked up.
pub async fn register_store(
    ctx: &SessionContext,
    uri: &str,
    options: &[(String, String)],
) -> Result<()> {
    if options.is_empty() {
        return Ok(());
    }
    let url = Url::parse(uri).map_err(|e| {
        report::message(format!(
            "'{uri}' takes no options of an object store, as it is not a URL: {e}"
        ))
    })?;
    let store: Arc<dyn ObjectStore> = match url.scheme() {
        "s3" => {
            let mut aws = AwsOptions::default();
            for (key, value) in options {
                aws.set(key, value)?;
            }
            let builder = get_s3_object_store_builder(&url, &aws, false).await?;
            Arc::new(builder.build()?)
        }
        "gs" | "gcs" => {
            let mut gcp = GcpOptions::default();
            for (key, value) in options {
                gcp.set(key, value)?;
            }
            Arc::new(get_gcs_object_store_builder(&url, &gcp)?.build()?)
        }
        scheme => {
            return Err(report::message(format!(
                "options of object stores are for s3:// and gs://, not for {scheme}://"
            )));
        }
    };
    ctx.register_object_store(&url, store);
    Ok(())
}
