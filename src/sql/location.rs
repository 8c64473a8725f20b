//! Where a path or URL of a statement lies.

use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use object_store::path::Path;
use url::Url;

use crate::error::{Error, Result};
use crate::storage::Location;

/// Where `path` lies: on this machine, or in an object store that the runtime knows.
pub(super) fn locate(path: &str, runtime: &RuntimeEnv) -> Result<Location> {
    let Some((scheme, _)) = path.split_once("://") else {
        return Location::local(path);
    };
    if scheme.eq_ignore_ascii_case("file") {
        return Location::local(path);
    }
    let bad = |why: String| Error::invalid(format!("'{path}' cannot be used as a location: {why}"));
    let url = Url::parse(path).map_err(|e| bad(e.to_string()))?;
    let root = format!("{}://{}", url.scheme(), url.authority());
    let store_url = ObjectStoreUrl::parse(&root).map_err(|e| bad(e.to_string()))?;
    let store = runtime.object_store(&store_url).map_err(|e| {
        Error::unsupported(format!(
            "no object store is registered for '{root}': register one with the session's runtime first"
        ))
        .with_source(e)
    })?;
    let path_in_store = Path::from_url_path(url.path()).map_err(|e| bad(e.to_string()))?;
    Ok(Location::new(store, path_in_store, path))
}
