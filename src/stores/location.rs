//! The location of a path or URL in a statement, and the key to read it with.

use std::sync::Arc;

use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::path::Path;
use tiledb_engine::error::has_password;
use tiledb_engine::storage::{Location, Storage};
use tiledb_engine::{Error, Result};
use url::Url;

use crate::options::TableOptions;
use crate::options::encryption::key_of_environment;
pub(crate) use crate::options::expand_home;
use crate::stores::budget::PoolBudget;
use crate::stores::runtime::ArrayRuntime;

/// The parameters of signed URLs.
const SIGNATURES: [&str; 8] = [
    "sig",
    "signature",
    "token",
    "access_token",
    "X-Amz-Signature",
    "X-Amz-Credential",
    "X-Amz-Security-Token",
    "X-Goog-Signature",
];

/// The location of a user's `path`: on this machine, in a store that the program registered, or in one that the engine makes.
pub(crate) fn locate(path: &str, runtime: &ArrayRuntime) -> Result<Location> {
    let Some((scheme, _)) = path.split_once("://") else {
        return local(&expand_home(path), runtime);
    };
    if scheme.eq_ignore_ascii_case("file") {
        return local(path, runtime);
    }
    let shown = Location::without_secrets(path);
    let bad =
        |why: String| Error::invalid(format!("'{shown}' cannot be used as a location: {why}"));
    let url = Url::parse(path);
    if !url
        .as_ref()
        .is_ok_and(|url| runtime.engine().stores().is_stand_in(url))
    {
        check_no_secret(path)?;
    }
    let url = url.map_err(|e| bad(e.to_string()))?;
    match runtime.session_store(&url) {
        Some(found) => {
            let path_in_store = Path::from_url_path(url.path()).map_err(|e| bad(e.to_string()))?;
            Ok(Location::new(found.store, path_in_store, path).with_address(found.address))
        }
        None => Location::open_within(path, runtime.engine(), &runtime.limits()),
    }
}

/// Whether there is an object store for a location. Paths always have one.
pub(crate) fn has_store(path: &str, runtime: &ArrayRuntime) -> bool {
    !path.contains("://") || locate(path, runtime).is_ok()
}

/// Fails if a URL holds a password or a signature: no store takes them from there, and names of tables and locations are
/// shown in plans, errors and listings.
pub(crate) fn check_no_secret(path: &str) -> Result<()> {
    let is_signed = path.contains("://")
        && path.split_once('?').is_some_and(|(_, query)| {
            let mut keys = query.split('&').filter_map(|pair| pair.split_once('='));
            keys.any(|(key, _)| {
                SIGNATURES
                    .iter()
                    .any(|known| key.eq_ignore_ascii_case(known))
            })
        });
    if !is_signed && !has_password(path) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the URL {} was given with a password or a signature, and no store takes them from there, but plans and messages show it: \
         give credentials as options of the statement (aws.secret_access_key, \u{2026}), in the environment, or with the object store \
         that a program registers",
        Location::without_secrets(path)
    )))
}

/// A folder of this machine. If DataFusion's own store of files has been replaced by another, requests go through that
/// one.
pub(crate) fn local(path: &str, runtime: &ArrayRuntime) -> Result<Location> {
    let location = Location::local(path)?;
    let files = runtime.object_store(ObjectStoreUrl::local_filesystem());
    Ok(match files {
        Ok(files) if !is_plain(&files.to_string()) => location.through(files),
        // DataFusion's own store is bypassed, because files are read in fewer steps without it.
        Ok(_) | Err(_) => location,
    })
}

/// Whether a store of files is DataFusion's own, by its name. The shell wraps it in another store, and datafusion-cli in one more
/// for each created table. These only pass requests on until profiling is enabled.
fn is_plain(mut name: &str) -> bool {
    const IDLE: &str = "Instrumented Object Store: instrument_mode: Disabled, inner: ";
    while let Some(inner) = name.strip_prefix(IDLE) {
        name = inner;
    }
    name.starts_with("LocalFileSystem")
}

/// The storage at `path`.
pub(crate) fn storage(
    path: &str,
    options: &TableOptions,
    runtime: &ArrayRuntime,
) -> Result<Storage> {
    let storage = of_runtime(locate(path, runtime)?, runtime);
    with_key(storage, options)
}

/// The storage in the engine of `runtime`, whose large metadata take their memory from its pool.
pub(crate) fn of_runtime(location: Location, runtime: &ArrayRuntime) -> Storage {
    let storage = Storage::in_engine(location, runtime.engine());
    let budget = PoolBudget::named("TileDbMetadata", &runtime.memory_pool, storage.engine());
    storage.with_memory(Arc::new(budget))
}

/// The storage with the key in the options, or else in the environment.
pub(crate) fn with_key(storage: Storage, options: &TableOptions) -> Result<Storage> {
    if options.encryption_key.is_some() {
        return Ok(storage.with_encryption_key(options.encryption_key.clone()));
    }
    Ok(match key_of_environment()? {
        Some(key) => storage.with_encryption_key_on_demand(Some(key)),
        None => storage,
    })
}

/// The storage of a group, whose arrays are read with `options`. Some of them may be unencrypted.
pub(crate) fn group_storage(
    location: Location,
    options: &TableOptions,
    runtime: &ArrayRuntime,
) -> Result<Storage> {
    let storage = of_runtime(location, runtime);
    let storage = with_key(storage, options)?;
    let key = storage.encryption_key().cloned();
    Ok(storage.with_encryption_key_on_demand(key))
}

#[cfg(test)]
mod tests {
    use datafusion::execution::object_store::ObjectStoreRegistry;
    use datafusion_cli::object_storage::instrumented::{
        InstrumentedObjectStoreMode, InstrumentedObjectStoreRegistry,
    };

    use super::*;

    #[test]
    fn urls_with_secrets_are_refused_without_being_repeated() {
        for url in [
            "az://u:hunter2@host/a",
            "s3://AKIA:hun/ter2@bucket/a",
            "s3://bucket/a?sig=hunter2",
            "https://h/a?x=1&X-Amz-Signature=hunter2",
        ] {
            let error = check_no_secret(url).unwrap_err().to_string();
            assert!(
                !error.contains("hunter2") && !error.contains("ter2"),
                "{error}"
            );
        }
        for url in [
            "s3://b/a@b:c",
            "abfss://c@host/a",
            "http://h:80/a?timestamp=1",
            "/a:b@c?sig=1",
        ] {
            check_no_secret(url).unwrap();
        }
    }

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
