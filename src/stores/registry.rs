//! The object stores of a session for every kind of table.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use object_store::ObjectStore;
use tiledb_engine::{Engine, Location};
use tiledb_stores::StoreAddress;
use url::Url;

use crate::error::to_datafusion_error;
use crate::options::SharedLimits;

/// Makes the object stores that URLs name, for tables of arrays and of files alike.
///
/// Stores that a program registers come first. For other URLs, such as `s3://bucket/path`, the [`Engine`] makes a store when it is
/// first needed, with the options of the statement, or with what the environment says. Unlike DataFusion's own registry, this one
/// distinguishes `abfss://one@account` from `abfss://other@account`, and the credentials of one table serve no other.
///
/// The session needs the registry twice: in its runtime, and as an extension of its configuration.
///
/// ```
/// use std::sync::Arc;
/// use datafusion::execution::runtime_env::RuntimeEnvBuilder;
/// use datafusion::prelude::{SessionConfig, SessionContext};
/// use datafusion_tiledb::{Engine, StoreRegistry};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let registry = Arc::new(StoreRegistry::new(&Engine::shared()));
/// let runtime = RuntimeEnvBuilder::new().with_object_store_registry(Arc::clone(&registry) as _);
/// let config = SessionConfig::new().with_extension(registry);
/// let ctx = SessionContext::new_with_config_rt(config, runtime.build_arc()?);
/// datafusion_tiledb::register(&ctx)?;
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
pub struct StoreRegistry {
    /// Holds the registered stores, and wraps all stores if it wants to.
    inner: Arc<dyn ObjectStoreRegistry>,
    engine: Engine,
    limits: SharedLimits,
    /// Stores that `inner` knows by a URL of ours: with the URL that they were registered for, if they were.
    kept: Mutex<Vec<KeptStore>>,
}

struct KeptStore {
    registered: Option<String>,
    store: Arc<dyn ObjectStore>,
    alias: Url,
}

impl StoreRegistry {
    /// A registry in which nothing but the files of this machine is registered.
    pub fn new(engine: &Engine) -> Self {
        Self::around(Arc::new(DefaultObjectStoreRegistry::new()), engine)
    }

    /// A registry that keeps its stores in another one, which may wrap them.
    pub fn around(inner: Arc<dyn ObjectStoreRegistry>, engine: &Engine) -> Self {
        Self {
            inner,
            engine: engine.clone(),
            limits: SharedLimits::default(),
            kept: Mutex::default(),
        }
    }

    /// The limits of requests, which are those of the session.
    pub(crate) fn limits(&self) -> &SharedLimits {
        &self.limits
    }

    /// The alias under which `inner` has the first kept store that `is_it`.
    fn alias(&self, is_it: impl Fn(&KeptStore) -> bool) -> Option<Url> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter()
            .find(|kept| is_it(kept))
            .map(|kept| kept.alias.clone())
    }

    /// Keeps a store in `inner` under a URL of its own.
    fn keep(&self, registered: Option<String>, store: Arc<dyn ObjectStore>) -> Result<Url> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let alias = format!("tiledb-store://store-{}", kept.len());
        let alias = Url::parse(&alias).map_err(|e| DataFusionError::External(Box::new(e)))?;
        self.inner.register_store(&alias, Arc::clone(&store));
        kept.push(KeptStore {
            registered,
            store,
            alias: alias.clone(),
        });
        Ok(alias)
    }
}

/// The store of a URL, if DataFusion's registry can't keep it apart from others: it has a user.
fn root_with_user(url: &Url) -> Option<String> {
    let has_user = !url.username().is_empty() || url.password().is_some();
    has_user.then(|| url[..url::Position::BeforePath].to_owned())
}

impl fmt::Debug for StoreRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreRegistry").field(&self.inner).finish()
    }
}

impl ObjectStoreRegistry for StoreRegistry {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        let Some(root) = root_with_user(url) else {
            return self.inner.register_store(url, store);
        };
        let before = self.deregister_store(url).ok();
        self.keep(Some(root), store).ok()?;
        before
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let Some(root) = root_with_user(url) else {
            return self.inner.deregister_store(url);
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept
            .iter_mut()
            .find(|kept| kept.registered.as_deref() == Some(&root));
        match known {
            Some(known) => {
                known.registered = None;
                Ok(Arc::clone(&known.store))
            }
            None => self.inner.deregister_store(url),
        }
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.find(url).map(|found| found.store)
    }
}

/// A store of a registry.
pub(crate) struct FoundStore {
    pub store: Arc<dyn ObjectStore>,
    /// The endpoint and the bucket, if the engine made the store.
    pub address: Option<StoreAddress>,
}

impl StoreRegistry {
    /// The store of a URL, with its address if the engine made it.
    pub(crate) fn find(&self, url: &Url) -> Result<FoundStore> {
        let registered = match root_with_user(url) {
            None => Some(url.clone()),
            Some(root) => self.alias(|kept| kept.registered.as_deref() == Some(&root)),
        };
        if let Some(registered) = registered
            && let Ok(store) = self.inner.get_store(&registered)
        {
            return Ok(FoundStore {
                store,
                address: None,
            });
        }
        let location = Location::open_within(url.as_str(), &self.engine, &self.limits.get());
        let location = location.map_err(to_datafusion_error)?;
        let store = location.store();
        let alias =
            match self.alias(|kept| kept.registered.is_none() && Arc::ptr_eq(&kept.store, store)) {
                Some(alias) => alias,
                None => self.keep(None, Arc::clone(store))?,
            };
        let address = self.engine.stores().address(store);
        let store = self.inner.get_store(&alias)?;
        Ok(FoundStore { store, address })
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn registered_stores_come_first_and_containers_count() {
        let registry = StoreRegistry::new(&Engine::shared());
        let stores = [0; 3].map(|_| Arc::new(InMemory::new()) as Arc<dyn ObjectStore>);
        let [bucket, one, other] = &stores;
        let places = [
            ("s3://registry-bucket/x", bucket),
            ("abfss://one@a.dfs.core.windows.net/x", one),
            ("abfss://other@a.dfs.core.windows.net", other),
        ];
        for (place, store) in places {
            assert!(
                registry
                    .register_store(&url(place), Arc::clone(store))
                    .is_none()
            );
        }
        for (place, store) in places {
            let found = registry.get_store(&url(place)).unwrap();
            assert!(Arc::ptr_eq(&found, store), "{place}");
        }
        let before = registry
            .register_store(&url(places[1].0), Arc::clone(bucket))
            .unwrap();
        assert!(Arc::ptr_eq(&before, one));
        let found = registry.get_store(&url(places[1].0)).unwrap();
        assert!(Arc::ptr_eq(&found, bucket));
        assert!(registry.get_store(&url("file:///")).is_ok());
        assert!(registry.get_store(&url("hdfs://h/x")).is_err());
    }

    #[cfg(feature = "aws")]
    #[test]
    fn a_store_is_made_once() {
        let registry = StoreRegistry::new(&Engine::shared());
        let made = |place: &str| registry.get_store(&url(place)).unwrap();
        let first = made("s3://made-once/a");
        assert!(Arc::ptr_eq(&first, &made("s3://made-once/b/c")));
        assert!(!Arc::ptr_eq(&first, &made("s3://made-twice/a")));
        let guessed = registry.get_store(&url("s3://:guessed@made-once/a"));
        let error = guessed.unwrap_err().to_string();
        assert!(
            error.contains("password") && !error.contains("guessed"),
            "{error}"
        );
    }
}
