//! Where the arrays of the `.slt` files are: in folders of this machine, or in an object store.
//!
//! `SLT_STORE` is the URL of an empty place in a store, such as `s3://bucket/slt`, to which the arrays are uploaded once. The
//! credentials are those of the environment, as in the shell. With `SLT_STORE_READONLY=1`, the arrays are there already, as
//! `--place-slt <folder>` writes them, and `$SCRATCH` is a folder of this machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::error::Result as SessionResult;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::{Engine, EngineOptions};
use futures::{StreamExt, TryStreamExt, stream};
use libtest_mimic::Failed;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use tempfile::TempDir;
use tiledb_stores::{NetworkLimits, ObjectStores, StoreOptions, StoreUrl};
use tokio::sync::OnceCell;

use crate::block_on;
use crate::support::fixtures;
use crate::support::session_shapes::Shape;

/// Files that are uploaded at once.
const UPLOADS: usize = 32;

/// Each placeholder, with its folder below the fixtures.
const FIXTURES: [(&str, &str); 4] = [
    ("$GROUPS", "groups"),
    ("$ARRAYS", "arrays"),
    ("$LARGE", "large"),
    ("$FUZZ", "fuzz/arrays"),
];

/// The places of one run of a file.
#[derive(Debug)]
pub struct SltPlaces {
    /// Each folder or URL, with the placeholder that stands for it.
    names: Vec<(String, &'static str)>,
    /// The folder of `$SCRATCH`, if it is one.
    _scratch: Option<TempDir>,
    store: Option<SltStore>,
}

/// The store that the environment names.
#[derive(Debug, Clone)]
struct SltStore {
    url: String,
    is_readonly: bool,
}

impl SltStore {
    fn of_environment() -> Option<Self> {
        let url = std::env::var("SLT_STORE").ok()?;
        Some(Self {
            url: url.trim_end_matches('/').to_owned(),
            is_readonly: std::env::var_os("SLT_STORE_READONLY").is_some(),
        })
    }

    async fn upload(&self) -> Result<(), Failed> {
        if self.is_readonly {
            return Ok(());
        }
        let url = StoreUrl::parse(&self.url)?;
        let (options, limits) = (StoreOptions::default(), NetworkLimits::default());
        let store = ObjectStores::default().store(&url, &options, &limits)?;
        copy_to(store.as_ref(), url.path()).await
    }
}

/// `--place-slt <folder>` writes the arrays of the `.slt` files into a folder that a server shows.
pub fn command(arguments: &[String]) -> Option<Result<String, String>> {
    let [word, folder] = arguments else {
        return None;
    };
    let place = || {
        std::fs::create_dir_all(folder)?;
        let store = LocalFileSystem::new_with_prefix(folder)?;
        block_on(copy_to(&store, &ObjectPath::default()))
    };
    (word == "--place-slt").then(|| {
        let placed = place().map(|()| format!("the arrays are in {folder}"));
        placed.map_err(|e: Failed| e.message().unwrap_or_default().to_owned())
    })
}

impl SltPlaces {
    /// Folders of this machine.
    pub fn local() -> Result<Self, Failed> {
        let scratch = tempfile::tempdir()?;
        let root = fixtures::root().display().to_string();
        let mut names = Self::fixtures(&root);
        names.push((scratch.path().display().to_string(), "$SCRATCH"));
        Ok(Self {
            names,
            _scratch: Some(scratch),
            store: None,
        })
    }

    /// The store of the environment, or else folders of this machine. On a server that only reads, `$SCRATCH` is a folder of this
    /// machine.
    pub async fn of_environment(topic: &str) -> Result<Self, Failed> {
        let Some(store) = SltStore::of_environment() else {
            return Self::local();
        };
        static UPLOADED: OnceCell<()> = OnceCell::const_new();
        UPLOADED.get_or_try_init(|| store.upload()).await?;
        let mut names = Self::fixtures(&store.url);
        let scratch = store.is_readonly.then(tempfile::tempdir).transpose()?;
        let scratch_place = match &scratch {
            Some(folder) => folder.path().display().to_string(),
            None => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
                format!("{}/scratch/{topic}-{now}", store.url)
            }
        };
        names.push((scratch_place, "$SCRATCH"));
        Ok(Self {
            names,
            _scratch: scratch,
            store: Some(store),
        })
    }

    fn fixtures(root: &str) -> Vec<(String, &'static str)> {
        let places = FIXTURES.iter();
        let places = places.map(|(name, folder)| (format!("{root}/{folder}"), *name));
        places.collect()
    }

    /// What `skipif` and `onlyif` can name: `local` or `remote`. A store is `writable` or `readonly`, and that of a web server is
    /// `web`.
    pub fn labels(&self) -> Vec<&'static str> {
        let Some(store) = &self.store else {
            return vec!["local"];
        };
        let mut labels = vec!["remote"];
        labels.push(if store.is_readonly {
            "readonly"
        } else {
            "writable"
        });
        if store.url.starts_with("http") {
            labels.push("web");
        }
        labels
    }

    /// Whether arrays are in a store.
    pub fn are_remote(&self) -> bool {
        self.store.is_some()
    }

    /// A session that finds the arrays. With a store, it is made as the shell makes one.
    pub fn session(&self, shape: &Shape) -> SessionResult<SessionContext> {
        if !self.are_remote() {
            return shape.context();
        }
        // The connections of a store end with the runtime that made them, and each test has its own.
        let engine = Engine::with_stores(EngineOptions::default(), ObjectStores::default());
        shape.context_in(&engine)
    }

    /// SQL with the places that its placeholders stand for.
    pub fn filled_in(&self, sql: &str) -> String {
        let places = self.names.iter();
        places.fold(sql.to_owned(), |sql, (place, name)| {
            sql.replace(name, place)
        })
    }

    /// Text with placeholders for places.
    pub fn neutral(&self, text: String) -> String {
        let places = self.names.iter();
        places.fold(text, |text, (place, name)| text.replace(place, name))
    }
}

/// Copies the arrays that the files name, and all groups, to a place in a store.
async fn copy_to(target: &dyn ObjectStore, prefix: &ObjectPath) -> Result<(), Failed> {
    let mut paths = BTreeSet::new();
    for folder in wanted()? {
        files_below(&fixtures::root().join(folder), &mut paths)?;
    }
    let copies = paths.into_iter().map(|path| async move {
        let relative = path.strip_prefix(fixtures::root())?;
        // The names of files are taken literally.
        let place = ObjectPath::parse(format!("{prefix}/{}", relative.display()))?;
        let bytes = std::fs::read(&path)?;
        target.put(&place, PutPayload::from(bytes)).await?;
        Ok::<_, Failed>(())
    });
    let copied = stream::iter(copies).buffer_unordered(UPLOADS);
    copied.try_collect::<()>().await
}

/// The folders below the fixtures that the files need: the arrays that they name, and all groups.
fn wanted() -> Result<BTreeSet<String>, Failed> {
    let mut wanted = BTreeSet::from(["groups".to_owned()]);
    for file in super::files() {
        let text = std::fs::read_to_string(file)?;
        for (name, folder) in FIXTURES {
            for rest in text.split(&format!("{name}/")).skip(1) {
                let is_name = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
                let path: String = rest.chars().take_while(|c| is_name(*c)).collect();
                let mut parts = path.split('/').filter(|part| !part.starts_with('.'));
                let array = match (parts.next(), parts.next()) {
                    (Some("old"), Some(array)) => format!("old/{array}"),
                    (Some("old") | None, _) => continue,
                    (Some(array), _) => array.to_owned(),
                };
                wanted.insert(format!("{folder}/{array}"));
            }
        }
    }
    Ok(wanted)
}

/// The files in a folder, if it is one.
fn files_below(folder: &Path, files: &mut BTreeSet<PathBuf>) -> Result<(), Failed> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files_below(&path, files)?;
        } else {
            files.insert(path);
        }
    }
    Ok(())
}
