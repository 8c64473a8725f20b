//! Listing of folders and lookup of files; listings of unchanged local folders are reused.

use std::sync::Arc;

use futures::TryStreamExt;
use futures::future::try_join_all;
use object_store::ObjectStoreExt;

use super::Storage;
use crate::error::{Error, Result};
use crate::storage::cache::CacheKey;
use crate::storage::failures;
use crate::storage::listing::{
    DatedListing, FileInfo, FolderState, KeptListing, Listing, ListingReuse,
};
use crate::storage::request_log::RequestKind;

impl Storage {
    /// The files and folders directly in `folder`, relative to the array (`""` is the array itself). A folder that does
    /// not exist is empty.
    ///
    /// # Errors
    /// The store fails.
    pub async fn list(&self, folder: &str) -> Result<Arc<Listing>> {
        let listed = of_files!(self, files => files.list(folder, None).await)?;
        Ok(listed.listing)
    }

    /// As [`list`](Self::list), for several folders at once. An earlier listing of a local folder is reused if the
    /// folder's state shows that nothing was added or removed.
    ///
    /// # Errors
    /// The store fails.
    pub async fn list_all<const N: usize>(
        &self,
        folders: [(&str, ListingReuse); N],
    ) -> Result<[DatedListing; N]> {
        let names = folders.map(|(folder, _)| folder);
        let mut stamps = of_files!(self, files => files.stamps(names).await).into_iter();
        let listings = folders.map(|(folder, keep)| {
            let stamp = stamps.next().unwrap_or(FolderState::Unknown);
            self.list_unless_kept(folder, keep, stamp)
        });
        let listings = try_join_all(listings).await?;
        let count = |listings: Vec<_>| {
            Error::internal(format!("{} listings of {N} folders", listings.len()))
        };
        listings.try_into().map_err(count)
    }

    /// As [`list`](Self::list), for several folders at once that were listed `before`.
    ///
    /// # Errors
    /// The store fails.
    pub async fn list_all_again<const N: usize>(
        &self,
        folders: [&str; N],
        before: &[DatedListing; N],
    ) -> Result<[DatedListing; N]> {
        let listings = folders.iter().zip(before).map(|(folder, before)| async {
            of_files!(self, files => files.list_again(folder, &before.listing).await)
        });
        let listings = try_join_all(listings).await?;
        let count = |listings: Vec<_>| {
            Error::internal(format!("{} listings of {N} folders", listings.len()))
        };
        listings.try_into().map_err(count)
    }

    /// The files in `folder` and in all folders below it. The names of the latter begin with their folders.
    ///
    /// # Errors
    /// The store fails.
    pub async fn list_tree(&self, folder: &str) -> Result<Arc<Listing>> {
        let ticket = self.start(RequestKind::List, folder, None, None);
        let path = self.location.path_of(folder);
        let listed = self.store().list(Some(&path)).try_collect::<Vec<_>>().await;
        let listing = match listed {
            Ok(objects) => Listing::of_tree(objects, &path),
            Err(error) if failures::is_missing(&error) => Listing::default(),
            Err(error) => return Err(self.failed("list", folder, error)),
        };
        ticket.finish(0);
        Ok(Arc::new(listing))
    }

    async fn list_unless_kept(
        &self,
        folder: &str,
        keep: ListingReuse,
        stamp: FolderState,
    ) -> Result<DatedListing> {
        let known = match stamp {
            FolderState::Unknown => None,
            FolderState::Missing => Some(Arc::default()),
            FolderState::Known(stamp) => {
                let kept = self.cache.get::<KeptListing>(self.listing_key(folder));
                let kept = kept.filter(|kept| kept.holds(&stamp));
                kept.map(|kept| Arc::clone(&kept.listing))
            }
        };
        let Some(listing) = known else {
            return of_files!(self, files => files.list(folder, Some(keep)).await);
        };
        self.start(RequestKind::List, folder, None, None).finish(0);
        Ok(DatedListing {
            listing,
            at_once: true,
        })
    }

    /// Keeps the listing of a folder.
    pub(super) fn keep_listing(&self, folder: &str, kept: KeptListing) {
        let bytes = kept.listing.memory_bytes();
        self.cache.insert(self.listing_key(folder), kept, bytes);
    }

    /// The cache key of the listing of a folder.
    fn listing_key(&self, folder: &str) -> CacheKey {
        self.cache_key_immutable(folder, u64::MAX)
    }

    /// When something was last added to a local folder or removed from it, in milliseconds since 1970, if the system tells.
    pub async fn folder_changed_ms(&self, folder: &str) -> Option<u64> {
        let stamps = of_files!(self, files => files.stamps([folder]).await);
        match stamps.into_iter().next()? {
            FolderState::Known(stamp) => stamp.changed_ms(),
            FolderState::Missing | FolderState::Unknown => None,
        }
    }

    /// The size of a file whose bytes never change, or `None` if there is no such file.
    ///
    /// # Errors
    /// The store fails.
    pub async fn file_bytes(&self, file: &str) -> Result<Option<u64>> {
        let cached = self.cached_file(file).await;
        if let Some(cached) = &cached
            && let Some(bytes) = cached.size().await
        {
            return Ok(Some(bytes));
        }
        let bytes = self.head(file).await?.map(|file| file.bytes);
        if let (Some(cached), Some(bytes)) = (cached, bytes) {
            cached.insert_size(bytes);
        }
        Ok(bytes)
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
