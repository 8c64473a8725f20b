//! The stores that have been made, by what they were made of.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use object_store::ObjectStore;
use url::Url;

use crate::environment::StoreEnvironment;
use crate::error::StoreError;
use crate::limits::NetworkLimits;
use crate::made_store::{MadeStore, make_store};
use crate::options::StoreOptions;
use crate::store_address::StoreAddress;
use crate::store_url::StoreUrl;

/// Makes object stores, and keeps them: who asks again for the same bucket with the same options gets the same store.
///
/// ```
/// use std::sync::Arc;
/// use tiledb_stores::{NetworkLimits, ObjectStores, StoreOptions, StoreUrl};
///
/// let stores = ObjectStores::default();
/// let url = StoreUrl::parse("s3://bucket/arrays/weather")?;
/// let public = StoreOptions::from_iter([("aws.skip_signature", "true")]);
/// # if cfg!(feature = "aws") {
/// let one = stores.store(&url, &public, &NetworkLimits::default())?;
/// let other = stores.store(&url, &public, &NetworkLimits::default())?;
/// assert!(Arc::ptr_eq(&one, &other));
/// # }
/// # Ok::<(), tiledb_stores::StoreError>(())
/// ```
#[derive(Default)]
pub struct ObjectStores {
    /// The environment of the process, unless it is replaced.
    environment: Option<StoreEnvironment>,
    made: Mutex<HashMap<StoreKey, MadeStore>>,
    handles: Mutex<StoreHandles>,
}

/// Options by the handles that stand for them in URLs.
#[derive(Default)]
struct StoreHandles {
    options: HashMap<String, StoreOptions>,
    /// Makes handles that nobody guesses.
    random: RandomState,
}

impl StoreHandles {
    /// The handle of these options.
    fn of(&mut self, options: &StoreOptions) -> String {
        let mut known = self.options.iter();
        if let Some((handle, _)) = known.find(|(_, known)| *known == options) {
            return handle.clone();
        }
        let number = self.options.len();
        let halves = [0_u8, 1].map(|half| self.random.hash_one((number, half)));
        let handle: String = halves.iter().map(|half| format!("{half:016x}")).collect();
        self.options.insert(handle.clone(), options.clone());
        handle
    }
}

/// What a store was made of.
#[derive(PartialEq, Eq, Hash)]
struct StoreKey {
    root: String,
    options: StoreOptions,
    limits: NetworkLimits,
}

impl ObjectStores {
    /// Stores that see these variables instead of those of the process.
    pub fn with_environment(environment: StoreEnvironment) -> Self {
        Self {
            environment: Some(environment),
            ..Self::default()
        }
    }

    /// The store of a URL. Making it sends no request: credentials are looked for when the first one is sent.
    ///
    /// # Errors
    ///
    /// Fails if an option is unknown or wrong, if only half of a pair of keys is there, or if this build makes no stores of the
    /// service.
    pub fn store(
        &self,
        url: &StoreUrl,
        options: &StoreOptions,
        limits: &NetworkLimits,
    ) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let key = StoreKey {
            root: url.root().to_owned(),
            options: options.clone(),
            limits: *limits,
        };
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(&key) {
            return Ok(Arc::clone(&known.store));
        }
        let known = match &self.environment {
            Some(environment) => make_store(url, options, environment, *limits),
            None => make_store(url, options, &StoreEnvironment::of_process(), *limits),
        }?;
        let store = Arc::clone(&known.store);
        made.insert(key, known);
        Ok(store)
    }

    /// The endpoint and the bucket of a store that was made here; `None` for another store, whose endpoint nobody knows.
    pub fn address(&self, store: &Arc<dyn ObjectStore>) -> Option<StoreAddress> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let mut made = made.values();
        let found = made.find(|known| Arc::ptr_eq(&known.store, store));
        found.map(|known| known.address.clone())
    }

    /// A URL that stands for `url` with options, where only a URL can be handed on. It has a handle in place of a password, by which
    /// [`Self::open`] finds the options. Nobody can guess the handle, and what shows URLs leaves passwords out.
    ///
    /// # Errors
    ///
    /// Fails like [`Self::open`].
    pub fn stand_in(
        &self,
        url: &str,
        options: &StoreOptions,
        limits: &NetworkLimits,
    ) -> Result<String, StoreError> {
        self.store(&StoreUrl::parse(url)?, options, limits)?;
        if options.is_empty() {
            return Ok(url.to_owned());
        }
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = handles.of(options);
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let authority = rest.split('/').next().unwrap_or_default();
        Ok(match authority.split_once('@') {
            // The container of a URL of Azure.
            Some((user, _)) => format!(
                "{scheme}://{user}:{handle}{}",
                &rest.get(user.len()..).unwrap_or_default()
            ),
            None => format!("{scheme}://:{handle}@{rest}"),
        })
    }

    /// The store of a URL, with the options that it [stands for](Self::stand_in), and the URL without the handle.
    ///
    /// # Errors
    ///
    /// Fails if the URL can't be used, or if its store can't be made.
    pub fn open(
        &self,
        url: &Url,
        limits: &NetworkLimits,
    ) -> Result<(Arc<dyn ObjectStore>, StoreUrl), StoreError> {
        let (url, options) = self.resolve(url)?;
        Ok((self.store(&url, &options, limits)?, url))
    }

    /// Takes a URL apart that may have a handle.
    fn resolve(&self, url: &Url) -> Result<(StoreUrl, StoreOptions), StoreError> {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let options = url
            .password()
            .and_then(|handle| handles.options.get(handle));
        let Some(options) = options.cloned() else {
            return Ok((StoreUrl::of(url)?, StoreOptions::default()));
        };
        let mut plain = url.clone();
        // The URL has a password, so its password can be set.
        let _ = plain.set_password(None);
        Ok((StoreUrl::of(&plain)?, options))
    }

    /// Whether a URL has a handle of [`Self::stand_in`].
    pub fn is_stand_in(&self, url: &Url) -> bool {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        url.password()
            .is_some_and(|handle| handles.options.contains_key(handle))
    }
}

impl fmt::Debug for ObjectStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_set()
            .entries(made.keys().map(|key| &key.root))
            .finish()
    }
}

#[cfg(test)]
#[cfg(all(feature = "aws", feature = "azure", feature = "gcp", feature = "http"))]
mod tests {
    use super::*;

    fn stores() -> ObjectStores {
        ObjectStores::with_environment(StoreEnvironment::default())
    }

    fn made(
        stores: &ObjectStores,
        url: &str,
        options: &[(&str, &str)],
    ) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let options = StoreOptions::from_iter(options.iter().copied());
        stores.store(&StoreUrl::parse(url)?, &options, &NetworkLimits::default())
    }

    const KEYS: [(&str, &str); 2] = [
        ("aws.access_key_id", "AK"),
        ("aws.secret_access_key", "hush"),
    ];

    #[test]
    fn a_store_is_made_once_for_a_bucket_and_options() {
        let stores = stores();
        let first = made(&stores, "s3://bucket/a", &KEYS).unwrap();
        assert!(Arc::ptr_eq(
            &first,
            &made(&stores, "s3://bucket/b/c", &KEYS).unwrap()
        ));
        for (url, options) in [
            ("s3://bucket/a", &[][..]),
            ("s3://bucket/a", &[("aws.region", "x"), KEYS[0], KEYS[1]]),
            ("s3://other/a", &KEYS),
            ("s3a://bucket/a", &KEYS),
        ] {
            let other = made(&stores, url, options).unwrap();
            assert!(!Arc::ptr_eq(&first, &other), "{url}");
        }
        let account = [("azure.account_key", "aGk=")];
        let [one, other] = ["c", "d"].map(|container| {
            let url = format!("abfss://{container}@a.dfs.core.windows.net/x");
            made(&stores, &url, &account).unwrap()
        });
        assert!(!Arc::ptr_eq(&one, &other));
    }

    #[test]
    fn a_url_stands_for_options() {
        let stores = stores();
        let options = StoreOptions::from_iter(KEYS);
        let limits = NetworkLimits::default();
        for (url, root) in [
            ("s3://bucket/a/b c", "s3://bucket"),
            ("s3://bucket", "s3://bucket"),
        ] {
            let stand_in = stores.stand_in(url, &options, &limits).unwrap();
            assert_ne!(stand_in, url);
            assert_eq!(stand_in, stores.stand_in(url, &options, &limits).unwrap());
            let parsed = Url::parse(&stand_in).unwrap();
            assert!(stores.is_stand_in(&parsed));
            let (store, plain) = stores.open(&parsed, &limits).unwrap();
            assert_eq!(plain, StoreUrl::parse(url).unwrap());
            assert_eq!(plain.root(), root);
            assert!(Arc::ptr_eq(&store, &made(&stores, url, &KEYS).unwrap()));
            assert!(!format!("{stores:?} {store:?} {plain:?}").contains("hush"));
        }
        let azure = StoreOptions::from_iter([("azure.account_key", "aGk=")]);
        let url = "abfss://lake@a.dfs.core.windows.net/x";
        let stand_in = stores.stand_in(url, &azure, &limits).unwrap();
        let (_, plain) = stores
            .open(&Url::parse(&stand_in).unwrap(), &limits)
            .unwrap();
        assert_eq!(plain, StoreUrl::parse(url).unwrap());

        let guessed = Url::parse("s3://:0123456789abcdef0123456789abcdef@bucket/x").unwrap();
        assert!(!stores.is_stand_in(&guessed));
        assert!(stores.open(&guessed, &limits).is_err());
    }

    /// A URL, the options of its store, and a part of the error.
    type RefusedStore<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

    fn refuse(cases: &[RefusedStore<'_>]) {
        for (url, options, expected) in cases {
            let error = made(&stores(), url, options).unwrap_err().to_string();
            assert!(error.contains(expected), "{url} {options:?}: {error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn mistakes_with_s3_are_found_before_any_request() {
        let http = ("aws.endpoint", "http://localhost:9000");
        refuse(&[
            (
                "s3://b/a",
                &[KEYS[0]],
                "aws.access_key_id needs the option aws.secret_access_key",
            ),
            ("s3://b/a", &[KEYS[1]], "needs the option aws.access_key_id"),
            (
                "s3://b/a",
                &[("aws.session_token", "hush")],
                "needs the option aws.access_key_id",
            ),
            (
                "s3://b/a",
                &[("aws.acces_key_id", "AK")],
                "did you mean aws.access_key_id? (the options are aws.access_key_id, ",
            ),
            (
                "s3://b/a",
                &[("aws.bucket", "x")],
                "unknown option \"aws.bucket\"",
            ),
            (
                "s3://b/a",
                &[("gcp.service_account_path", "x")],
                "begin with aws.",
            ),
            // Other names of the same options.
            (
                "s3://b/a",
                &[("aws.aws_access_key_id", "AK")],
                "needs the option aws.secret_access_key",
            ),
            (
                "s3://b/a",
                &[("aws.token", "hush")],
                "needs the option aws.access_key_id",
            ),
            (
                "s3://b/a",
                &[("aws.endpoint_url", "http://u:hush@h")],
                "the option aws.endpoint has a password",
            ),
            (
                "s3://b/a",
                &[("aws.profile", "work")],
                "needs the environment of the process",
            ),
            ("s3://b/a", &[http], "set aws.allow_http to true"),
            (
                "s3://b/a",
                &[http, ("aws.allow_http", "false")],
                "set aws.allow_http to true",
            ),
            (
                "s3://b/a",
                &[("aws.allow_http", "much")],
                "true or false, found 'much'",
            ),
            (
                "s3://b/a",
                &[("aws.endpoint", "https://u:hush@h")],
                "has a password",
            ),
            (
                "s3://b/a",
                &[("aws.endpoint", "hush")],
                "aws.endpoint isn't a URL",
            ),
        ]);
        made(&stores(), "s3://b/a", &[http, ("aws.allow_http", "true")]).unwrap();
    }

    #[test]
    fn mistakes_with_others_are_found_before_any_request() {
        refuse(&[
            (
                "gs://b/a",
                &[("gcp.service_acount_path", "x")],
                "did you mean gcp.service_account_path?",
            ),
            (
                "gs://b/a",
                &[
                    ("gcp.service_account_path", "x"),
                    ("gcp.service_account_key", "y"),
                ],
                "exclude each other",
            ),
            ("az://c/a", &[], "set azure.account_name"),
            (
                "az://c/a",
                &[("azure.client_secret", "hush")],
                "azure.client_secret needs azure.client_id",
            ),
            (
                "az://c/a",
                &[("azure.account_name", "a"), ("azure.endpoint", "http://h")],
                "azure.allow_http",
            ),
            (
                "http://h/a",
                &[("aws.region", "x")],
                "web servers take no options",
            ),
        ]);
        made(&stores(), "az://c/a", &[("azure.use_emulator", "true")]).unwrap();
    }

    #[test]
    fn the_environment_comes_after_options() {
        let environment = |variables: &[(&str, &str)]| {
            ObjectStores::with_environment(variables.iter().copied().collect())
        };
        let url = "s3://b/a";
        for (variables, options, expected) in [
            (
                &[("AWS_ACCESS_KEY_ID", "AK")][..],
                &[][..],
                "AWS_ACCESS_KEY_ID needs AWS_SECRET_ACCESS_KEY",
            ),
            (
                &[("AWS_ENDPOINT", "http://u:hush@h")],
                &[],
                "has a password",
            ),
            (&[("AWS_ENDPOINT_URL", "http://h")], &[], "AWS_ALLOW_HTTP"),
        ] {
            let error = made(&environment(variables), url, options)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{variables:?}: {error}");
            assert!(!error.contains("hush"), "{error}");
        }
        for (variables, options) in [
            (&[("AWS_ACCESS_KEY_ID", "AK")][..], &KEYS[..]),
            (
                &[("AWS_ENDPOINT", "http://h")],
                &[("aws.endpoint", "https://other")],
            ),
            (
                &[("AWS_ENDPOINT", "http://h"), ("AWS_ALLOW_HTTP", "true")],
                &[],
            ),
            (&[("AWS_SECRET_ACCESS_KEY", "")], &[]),
            (&[("AWS_NOT_KNOWN", "x")], &[]),
        ] {
            made(&environment(variables), url, options).unwrap();
        }
    }
}
