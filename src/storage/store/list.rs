//! Listing of folders and lookup of files; listings of unchanged local folders are reused.

use std::sync::Arc;

use futures::future::try_join_all;
use object_store::ObjectStoreExt;

use super::Storage;
use crate::error::{Error, Result};
use crate::storage::failures;
use crate::storage::listing::{FileInfo, FolderStamp, Keep, KeptListing, Listing, Stamped};
use crate::storage::request_log::RequestKind;

impl Storage {
    /// The files and folders directly in `folder`, relative to the array (`""` is the array itself). A folder that does
    /// not exist is empty.
    ///
    /// # Errors
    /// The store fails.
    pub async fn list(&self, folder: &str) -> Result<Arc<Listing>> {
        let ticket = self.start(RequestKind::List, folder, None, None);
        if let Some(path) = self.location.local_path(folder) {
            let listed = Listing::of_local(path).await;
            let listed = listed.map_err(|error| self.list_failed(folder, error))?;
            ticket.finish(0);
            return Ok(Arc::new(listed));
        }
        let path = self.location.path_of(folder);
        let listed = match self.store().list_with_delimiter(Some(&path)).await {
            Ok(listed) => Listing::new(listed, &path),
            Err(error) if failures::is_missing(&error) => Listing::default(),
            Err(error) => return Err(self.failed("list", folder, error)),
        };
        ticket.finish(0);
        Ok(Arc::new(listed))
    }

    /// As [`list`](Self::list), for several folders at once. An earlier listing of a local folder is reused if the
    /// folder's state shows that nothing was added or removed.
    ///
    /// # Errors
    /// The store fails.
    pub async fn list_all<const N: usize>(
        &self,
        folders: [(&str, Keep); N],
    ) -> Result<[Arc<Listing>; N]> {
        let paths = folders.map(|(folder, _)| self.location.local_path(folder));
        let paths: Option<Vec<_>> = paths.into_iter().collect();
        let stamps = match paths {
            Some(paths) => FolderStamp::of_all(paths).await,
            None => Vec::new(),
        };
        let mut stamps = stamps.into_iter();
        let listings = folders.map(|(folder, keep)| {
            let stamp = stamps.next().unwrap_or(Stamped::Unknown);
            self.list_unless_kept(folder, keep, stamp)
        });
        let listings = try_join_all(listings).await?;
        let count = |listings: Vec<_>| {
            Error::internal(format!("{} listings of {N} folders", listings.len()))
        };
        listings.try_into().map_err(count)
    }

    async fn list_unless_kept(
        &self,
        folder: &str,
        keep: Keep,
        stamp: Stamped,
    ) -> Result<Arc<Listing>> {
        let stamp = match stamp {
            Stamped::Known(stamp) => stamp,
            Stamped::Unknown => return self.list(folder).await,
            Stamped::Missing => {
                self.start(RequestKind::List, folder, None, None).finish(0);
                return Ok(Arc::default());
            }
        };
        let key = self.cache_key_immutable(folder, u64::MAX);
        if let Some(kept) = self.cache.get::<KeptListing>(key.clone())
            && kept.holds(&stamp)
        {
            self.start(RequestKind::List, folder, None, None).finish(0);
            return Ok(Arc::clone(&kept.listing));
        }
        let listing = self.list(folder).await?;
        if stamp.is_settled() && (keep == Keep::Always || listing.files.is_empty()) {
            let bytes = listing.memory_bytes();
            let listing = Arc::clone(&listing);
            self.cache
                .insert(key, KeptListing { stamp, listing }, bytes);
        }
        Ok(listing)
    }

    /// When something was last added to a local folder or removed from it, in milliseconds since 1970, if the system tells.
    pub async fn folder_changed_ms(&self, folder: &str) -> Option<u64> {
        let path = self.location.local_path(folder)?;
        match FolderStamp::of_all(vec![path]).await.pop()? {
            Stamped::Known(stamp) => stamp.changed_ms(),
            Stamped::Missing | Stamped::Unknown => None,
        }
    }

    /// The store's information on a file, or `None` if there is no such file.
    ///
    /// # Errors
    /// The store fails.
    pub async fn head(&self, file: &str) -> Result<Option<FileInfo>> {
        let ticket = self.start(RequestKind::Head, file, None, None);
        let head = self.store().head(&self.location.path_of(file)).await;
        match head {
            Ok(meta) => {
                ticket.finish(0);
                Ok(Some(FileInfo::new(meta)))
            }
            Err(error) if failures::is_missing(&error) => {
                ticket.finish(0);
                Ok(None)
            }
            Err(error) => Err(self.failed("look up", file, error)),
        }
    }
}
