//! The location of a path or URL in a statement, and the key to read it with.

use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use object_store::path::Path;
use url::Url;

use super::encryption::key_of_environment;
use super::options::TableOptions;
use crate::error::{Error, Result};
use crate::storage::{Location, Storage};

/// The location of `path`: on this machine, or in an object store that the runtime knows.
pub(super) fn locate(path: &str, runtime: &RuntimeEnv) -> Result<Location> {
    let Some((scheme, _)) = path.split_once("://") else {
        return local(path, runtime);
    };
    if scheme.eq_ignore_ascii_case("file") {
        return local(path, runtime);
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

/// A folder of this machine. If DataFusion's own store of files has been replaced by another, requests go through that
/// one.
pub(super) fn local(path: &str, runtime: &RuntimeEnv) -> Result<Location> {
    let location = Location::local(path)?;
    let files = runtime.object_store(ObjectStoreUrl::local_filesystem());
    Ok(match files {
        Ok(files) if !is_plain(&files.to_string()) => location.through(files),
        // DataFusion's own store is bypassed, because files are read in fewer steps without it.
        Ok(_) | Err(_) => location,
    })
}

/// Whether a store of files is DataFusion's own, by its name. The shell wraps it in others, one more for each created
/// table, which only pass requests on until profiling is enabled.
fn is_plain(mut name: &str) -> bool {
    const IDLE: &str = "Instrumented Object Store: instrument_mode: Disabled, inner: ";
    while let Some(inner) = name.strip_prefix(IDLE) {
        name = inner;
    }
    name.starts_with("LocalFileSystem")
}

/// The storage at `path`.
pub(super) fn storage(path: &str, options: &TableOptions, runtime: &RuntimeEnv) -> Result<Storage> {
    with_key(Storage::new(locate(path, runtime)?), options)
}

/// The storage with the key in the options, or else in the environment.
pub(super) fn with_key(storage: Storage, options: &TableOptions) -> Result<Storage> {
    if options.encryption_key.is_some() {
        return Ok(storage.with_encryption_key(options.encryption_key.clone()));
    }
    Ok(match key_of_environment()? {
        Some(key) => storage.with_encryption_key_on_demand(Some(key)),
        None => storage,
    })
}

/// The storage of a group, whose arrays are read with `options`. Some of them may be unencrypted.
pub(super) fn group_storage(location: Location, options: &TableOptions) -> Result<Storage> {
    let storage = with_key(Storage::new(location), options)?;
    let key = storage.encryption_key().cloned();
    Ok(storage.with_encryption_key_on_demand(key))
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use datafusion::execution::object_store::ObjectStoreRegistry;
    use datafusion_cli::object_storage::instrumented::{
        InstrumentedObjectStoreMode, InstrumentedObjectStoreRegistry,
    };

    use super::*;

    /// Otherwise, local folders would be listed again for each query.
    #[test]
    fn stores_that_only_pass_requests_on_are_passed_by() {
        let files = Url::parse("file:///").unwrap();
        let name = |mode| {
            let stores = InstrumentedObjectStoreRegistry::new().with_profile_mode(mode);
            for _ in 0..2 {
                let store = stores.get_store(&files).unwrap();
                stores.register_store(&files, store);
            }
            stores.get_store(&files).unwrap().to_string()
        };
        assert!(is_plain(&name(InstrumentedObjectStoreMode::Disabled)));
        assert!(!is_plain(&name(InstrumentedObjectStoreMode::Trace)));
    }
}
