//! Listings folder by folder.
//!
//! Web servers refuse to list a whole tree in one request (`Depth: infinity`) unless they are configured for it. All of them that
//! list anything list one folder.

use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, Result};

/// Lists all objects below a prefix with one request for each folder.
pub(crate) fn list_by_folders(
    store: Arc<dyn ObjectStore>,
    prefix: Option<Path>,
) -> BoxStream<'static, Result<ObjectMeta>> {
    let next = move |mut folders: Vec<Option<Path>>| {
        let store = Arc::clone(&store);
        async move {
            let Some(folder) = folders.pop() else {
                return Ok::<_, object_store::Error>(None);
            };
            let listed = store.list_with_delimiter(folder.as_ref()).await?;
            folders.extend(listed.common_prefixes.into_iter().map(Some));
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
}
