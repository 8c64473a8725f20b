//! Listing of a large folder, all pages at once.
//!
//! A store tells where its next page begins only with the page before it. An earlier listing of the folder shows where pages
//! begin, so the folder can be listed again in one round trip. Each page shows its own moment, in no order. In a store that lists in
//! another order than that of names, such pages could show anything, so only stores that are known to keep it are asked so.

use std::cmp::Ordering;

use futures::TryStreamExt;
use futures::future::try_join_all;
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta};
use tiledb_stores::StoreAddress;

use super::objects::ObjectFiles;
use crate::error::{Error, Result};
use crate::storage::failures;
use crate::storage::listing::{self, DatedListing, Listing};
use crate::storage::request_log::RequestKind;

/// The most pages of one listing. Each is a request of its own.
const MOST_PAGES: usize = 64;

/// The names after which the pages of a folder begin, except for the first; `None` if there is just one page, or if the folder
/// holds folders, whose contents such pages would show, too.
fn page_offsets(before: &Listing) -> Option<Vec<String>> {
    let page = listing::page().max(1);
    let pages = before.files.len().div_ceil(page);
    if !before.folders.is_empty() || !(2..=MOST_PAGES).contains(&pages) {
        return None;
    }
    let lasts = before.files.chunks_exact(page).filter_map(<[_]>::last);
    let offsets = lasts.take(pages - 1).map(|file| file.name.clone());
    Some(offsets.collect())
}

impl ObjectFiles<'_> {
    /// Lists a folder in the pages that an earlier listing shows; `None` if it isn't listed so.
    pub(super) async fn list_pages_of(
        &self,
        folder: &str,
        before: &Listing,
    ) -> Option<DatedListing> {
        if !self.lists_in_order() {
            return None;
        }
        let offsets = page_offsets(before)?;
        self.list_pages(folder, offsets).await.ok()
    }

    /// Whether the store lists in the order of names, and can begin behind any of them.
    fn lists_in_order(&self) -> bool {
        #[cfg(any(test, feature = "testing"))]
        if listing::believed::is_in_order() {
            return true;
        }
        let address = self.storage.location.address();
        address.is_some_and(StoreAddress::lists_in_order)
    }

    /// Lists a folder in pages that begin after `offsets`, which are in order.
    async fn list_pages(&self, folder: &str, offsets: Vec<String>) -> Result<DatedListing> {
        let path = self.storage.location.path_of(folder);
        let offsets = offsets.into_iter().map(|name| path.clone().join(name));
        let offsets = offsets.map(Some).collect::<Vec<_>>();
        let begins = std::iter::once(None).chain(offsets.iter().cloned());
        let ends = offsets.iter().cloned().chain(std::iter::once(None));
        let pages = begins
            .zip(ends)
            .map(|(after, last)| self.list_page(folder, &path, after, last));
        let mut all = ListResult {
            objects: Vec::new(),
            common_prefixes: Vec::new(),
        };
        for page in try_join_all(pages).await? {
            all.objects.extend(page);
        }
        let below = all
            .objects
            .iter()
            .filter_map(|object| folder_within(&object.location, &path));
        all.common_prefixes = below.collect();
        Ok(DatedListing {
            listing: Listing::new(all, &path).into(),
            at_once: false,
        })
    }

    /// The objects behind `after`, up to `last`.
    async fn list_page(
        &self,
        folder: &str,
        path: &Path,
        after: Option<Path>,
        last: Option<Path>,
    ) -> Result<Vec<ObjectMeta>> {
        let ticket = self.storage.start(RequestKind::List, folder, None, None);
        let store = self.storage.store();
        let mut listed = match &after {
            Some(after) => store.list_with_offset(Some(path), after),
            None => store.list(Some(path)),
        };
        let mut page: Vec<ObjectMeta> = Vec::new();
        loop {
            let object = match listed.try_next().await {
                Ok(Some(object)) => object,
                Ok(None) => break,
                Err(error) if failures::is_missing(&error) => break,
                Err(error) => return Err(self.storage.failed("list", folder, error)),
            };
            if page
                .last()
                .is_some_and(|last| last.location >= object.location)
            {
                return Err(Error::storage(format!(
                    "{} isn't listed in the order of names",
                    self.storage.uri()
                )));
            }
            let at_last = last.as_ref().map(|last| object.location.cmp(last));
            if at_last == Some(Ordering::Greater) {
                break;
            }
            page.push(object);
            // Looking for another object would ask for the next page.
            if at_last == Some(Ordering::Equal) {
                break;
            }
        }
        ticket.finish(0);
        Ok(page)
    }
}

/// The folder directly in `folder` that an object lies in, if it lies in one.
fn folder_within(object: &Path, folder: &Path) -> Option<Path> {
    let mut parts = object.prefix_match(folder)?;
    let first = parts.next()?;
    parts.next()?;
    Some(folder.clone().join(first))
}
