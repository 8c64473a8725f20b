//! Listings folder by folder.
//!
//! Web servers refuse to list a whole tree in one request (`Depth: infinity`) unless they are configured for it. All of them that
//! list anything list one folder.
//!
//! The subtle thing: a broken or hostile server may list folders without end, for example a folder in itself. So a folder counts
//! only if it lies below the one that was listed, and folders may not be nested too deeply.

use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, Result};

/// The most levels of folders below the one that is listed. Arrays have three.
const MOST_LEVELS: usize = 64;

fn too_deep(folder: &Path) -> object_store::Error {
    object_store::Error::Generic {
        store: "HTTP",
        source: format!("{folder} is nested more than {MOST_LEVELS} folders deep").into(),
    }
}

/// Lists all objects below a prefix with one request for each folder.
pub(crate) fn list_by_folders(
    store: Arc<dyn ObjectStore>,
    prefix: Option<Path>,
) -> BoxStream<'static, Result<ObjectMeta>> {
    let top = prefix.as_ref().map_or(0, |prefix| prefix.parts().count());
    let next = move |mut folders: Vec<Option<Path>>| {
        let store = Arc::clone(&store);
        async move {
            let Some(folder) = folders.pop() else {
                return Ok::<_, object_store::Error>(None);
            };
            let depth = folder.as_ref().map_or(0, |folder| folder.parts().count());
            let listed = store.list_with_delimiter(folder.as_ref()).await?;
            for child in listed.common_prefixes {
                let parts = child.parts().count();
                let is_below = folder.as_ref().is_none_or(|f| child.prefix_matches(f));
                if !is_below || parts <= depth {
                    continue;
                }
                if parts > top + MOST_LEVELS {
                    return Err(too_deep(&child));
                }
                folders.push(Some(child));
            }
            let objects = stream::iter(listed.objects.into_iter().map(Ok));
            Ok(Some((objects, folders)))
        }
    };
    stream::try_unfold(vec![prefix], next).try_flatten().boxed()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    async fn listed(prefix: Option<&str>) -> Vec<String> {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        for path in ["a", "b/c", "b/d/e", "b/d/f/g", "bb/h"] {
            store.put(&Path::from(path), path.into()).await.unwrap();
        }
        let listed = list_by_folders(store, prefix.map(Path::from));
        let listed: Vec<_> = listed.try_collect().await.unwrap();
        let mut paths: Vec<_> = listed.iter().map(|o| o.location.to_string()).collect();
        paths.sort();
        paths
    }

    #[test]
    fn every_object_below_the_prefix_is_listed_once() {
        for (prefix, expected) in [
            (None, &["a", "b/c", "b/d/e", "b/d/f/g", "bb/h"][..]),
            (Some("b"), &["b/c", "b/d/e", "b/d/f/g"]),
            (Some("b/d/f"), &["b/d/f/g"]),
            (Some("none"), &[]),
        ] {
            // A store in memory never waits.
            let found = listed(prefix).now_or_never().unwrap();
            assert_eq!(found, expected, "{prefix:?}");
        }
    }

    #[test]
    fn folders_without_end_are_an_error() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        for (levels, is_listed) in [(MOST_LEVELS, true), (MOST_LEVELS + 1, false)] {
            let path = Path::from(format!("top{levels}/{}x", "f/".repeat(levels)));
            let put = store.put(&path, "x".into());
            put.now_or_never().unwrap().unwrap();
            let top = Path::from(format!("top{levels}"));
            let listed = list_by_folders(Arc::clone(&store), Some(top));
            let listed = listed.try_collect::<Vec<_>>().now_or_never().unwrap();
            assert_eq!(listed.is_ok(), is_listed, "{levels}: {listed:?}");
        }
    }
}
