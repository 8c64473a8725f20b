//! Fetches that share their requests: what several units want at the same moment is read together.
//!
//! Behind a network a request costs a round trip, so neighbouring ranges of different units come in one. Everybody who wants
//! something leaves a list. When all have had their turn, the first to go on reads for the others, up to a limit, and hands each its
//! part.
//!
//! The subtle thing: the one that reads may be dropped, or fail. Then everybody else reads alone.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::fetch::{FetchList, FetchedBytes};
use crate::error::{Error, Result};
use crate::storage::Storage;

/// The lists of those who wait.
#[derive(Debug, Default)]
pub struct JointFetch {
    waiting: Mutex<Vec<WaitingFetch>>,
}

/// A list that somebody may read.
#[derive(Debug)]
struct WaitingFetch {
    list: Arc<FetchList>,
    fetched: oneshot::Sender<FetchedBytes>,
}

/// How much a call has read from the store itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchVolume {
    /// The number of files.
    pub files: usize,
    /// The bytes that were asked for.
    pub bytes: u64,
}

/// Lists as one.
#[derive(Debug, Default)]
struct JoinedList {
    files: Vec<(String, Vec<Range<u64>>)>,
    by_path: HashMap<String, usize>,
    /// For each list, and each of its files: the file here, and the numbers of its ranges.
    places: Vec<Vec<(usize, Range<usize>)>>,
}

impl JointFetch {
    /// Reads a list, together with others up to so many bytes. Returns how much was read here, and not by another call.
    ///
    /// # Errors
    /// As [`Storage::read_files`].
    pub async fn fetch(
        &self,
        list: FetchList,
        most_bytes: u64,
        storage: &Storage,
    ) -> Result<(FetchedBytes, FetchVolume)> {
        let list = Arc::new(list);
        let alone = async || Ok((list.fetch(storage).await?, FetchVolume::of(&list)));
        let (fetched, mut fetching) = oneshot::channel();
        self.waiting().push(WaitingFetch {
            list: Arc::clone(&list),
            fetched,
        });
        // The others have their turn.
        tokio::task::yield_now().await;
        match fetching.try_recv() {
            Ok(fetched) => return Ok((fetched, FetchVolume::default())),
            Err(TryRecvError::Closed) => return alone().await,
            Err(TryRecvError::Empty) => {}
        }
        let Some(others) = self.take_with(&list, most_bytes) else {
            // Somebody is reading it.
            return match fetching.await {
                Ok(fetched) => Ok((fetched, FetchVolume::default())),
                Err(_) => alone().await,
            };
        };
        if others.is_empty() {
            return alone().await;
        }
        let mut joined = JoinedList::default();
        for list in [&list]
            .into_iter()
            .chain(others.iter().map(|other| &other.list))
        {
            joined.add(list);
        }
        let read = storage.read_files(&joined.files).await?;
        let mut parts = joined.parts(&read).into_iter();
        let own = parts.next();
        let own = own.ok_or_else(|| Error::internal("a joined read lacks its first list"))?;
        for (other, part) in others.into_iter().zip(parts) {
            // One who was dropped needs nothing.
            let _ = other.fetched.send(part);
        }
        Ok((own, joined.volume()))
    }

    /// Removes a list from those that wait, with the others that fit into so many bytes; `None` if it doesn't wait.
    fn take_with(&self, list: &Arc<FetchList>, most_bytes: u64) -> Option<Vec<WaitingFetch>> {
        let mut waiting = self.waiting();
        let own = waiting
            .iter()
            .position(|other| Arc::ptr_eq(&other.list, list))?;
        waiting.remove(own);
        waiting.retain(|other| !other.fetched.is_closed());
        let mut bytes = list.bytes();
        let others = waiting.extract_if(.., |other| {
            let sum = bytes.saturating_add(other.list.bytes());
            let fits = sum <= most_bytes;
            if fits {
                bytes = sum;
            }
            fits
        });
        Some(others.collect())
    }

    /// A panic of another thread leaves the lists consistent.
    fn waiting(&self) -> MutexGuard<'_, Vec<WaitingFetch>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FetchVolume {
    /// The volume of a list.
    pub fn of(list: &FetchList) -> Self {
        Self {
            files: list.files(),
            bytes: list.bytes(),
        }
    }
}

impl JoinedList {
    fn add(&mut self, list: &FetchList) {
        let mut places = Vec::with_capacity(list.files());
        for (path, ranges) in list.ranges() {
            let file = match self.by_path.get(path) {
                Some(file) => *file,
                None => {
                    self.files.push((path.to_owned(), Vec::new()));
                    self.by_path.insert(path.to_owned(), self.files.len() - 1);
                    self.files.len() - 1
                }
            };
            if let Some((_, joined)) = self.files.get_mut(file) {
                places.push((file, joined.len()..joined.len() + ranges.len()));
                joined.extend_from_slice(ranges);
            }
        }
        self.places.push(places);
    }

    fn volume(&self) -> FetchVolume {
        let ranges = self.files.iter().flat_map(|(_, ranges)| ranges);
        FetchVolume {
            files: self.files.len(),
            bytes: ranges.fold(0, |sum: u64, r| sum.saturating_add(r.end - r.start)),
        }
    }

    /// The bytes of each list.
    fn parts(&self, read: &[Vec<Bytes>]) -> Vec<FetchedBytes> {
        let part = |(file, ranges): &(usize, Range<usize>)| {
            let file = read.get(*file).map_or(&[][..], Vec::as_slice);
            file.get(ranges.clone()).unwrap_or_default().to_vec()
        };
        let lists = self.places.iter();
        let lists = lists.map(|places| FetchedBytes::new(places.iter().map(part).collect()));
        lists.collect()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::join_all;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;
    use object_store::path::Path;

    use super::*;
    use crate::storage::{Location, RequestLog};

    const FILES: [&str; 2] = ["a", "b"];

    /// A store in memory with two files of 1,000 bytes, and the log of its requests.
    async fn storage() -> (Storage, Arc<RequestLog>) {
        let store = InMemory::new();
        for (file, byte) in FILES.into_iter().zip([0_u8, 100]) {
            let bytes: Vec<u8> = (0..1000).map(|i| byte + (i / 10) as u8).collect();
            let path = Path::from(format!("array/{file}"));
            store.put(&path, bytes.into()).await.unwrap();
        }
        let location = Location::new(Arc::new(store), Path::from("array"), "memory://array");
        let log = Arc::new(RequestLog::new());
        (
            Storage::new(location).with_request_log(Arc::clone(&log)),
            log,
        )
    }

    fn list(ranges: &[(&str, Range<u64>)]) -> FetchList {
        let mut list = FetchList::default();
        for (file, range) in ranges {
            list.add(file, range.clone()).unwrap();
        }
        list
    }

    /// The bytes that [`storage`] has there.
    fn expected(ranges: &[(&str, Range<u64>)]) -> Vec<u8> {
        let bytes = ranges.iter().flat_map(|(file, range)| {
            let first = if *file == "a" { 0 } else { 100 };
            range.clone().map(move |i| first + (i / 10) as u8)
        });
        bytes.collect()
    }

    fn lists() -> Vec<Vec<(&'static str, Range<u64>)>> {
        vec![
            vec![("a", 0..100), ("b", 0..10)],
            vec![("b", 10..20)],
            vec![("b", 20..30), ("a", 100..150), ("a", 150..160)],
            vec![],
            vec![("a", 5..15)],
        ]
    }

    #[tokio::test]
    async fn lists_of_one_moment_share_requests() {
        let (storage, log) = storage().await;
        let joint = JointFetch::default();
        let (storage, joint) = (&storage, &joint);
        let reads = lists().into_iter().map(|ranges| async move {
            let (fetched, volume) = joint.fetch(list(&ranges), 1 << 20, storage).await.unwrap();
            assert_eq!(fetched.concatenated(), expected(&ranges), "{ranges:?}");
            volume
        });
        let volumes = join_all(reads).await;
        let sum = |of: fn(&FetchVolume) -> u64| volumes.iter().map(of).sum::<u64>();
        assert_eq!(sum(|volume| volume.files as u64), 2);
        assert_eq!(sum(|volume| volume.bytes), 200);
        assert_eq!(log.len(), FILES.len());
        assert!(joint.waiting().is_empty());
    }

    #[tokio::test]
    async fn a_limit_parts_them() {
        let (storage, log) = storage().await;
        let joint = JointFetch::default();
        let (storage, joint) = (&storage, &joint);
        let reads = (0..6).map(|i| async move {
            let ranges = [("a", i * 100..i * 100 + 100)];
            let (fetched, _) = joint.fetch(list(&ranges), 250, storage).await.unwrap();
            assert_eq!(fetched.concatenated(), expected(&ranges));
        });
        join_all(reads).await;
        assert_eq!(log.len(), 3);
    }

    #[tokio::test]
    async fn those_who_fail_or_are_dropped_take_nobody_with_them() {
        let (storage, _) = storage().await;
        let joint = JointFetch::default();
        let (storage, joint) = (&storage, &joint);
        let bad = [("a", 900..1001)];
        let read = async |ranges: Vec<(&str, Range<u64>)>| {
            let fetched = joint.fetch(list(&ranges), 1 << 20, storage).await;
            fetched.map(|(fetched, _)| fetched.concatenated())
        };
        let reads = join_all(lists().into_iter().map(read));
        let (failed, others) = futures::join!(read(bad.to_vec()), reads);
        assert!(failed.unwrap_err().to_string().contains("truncated"));
        for (ranges, found) in lists().iter().zip(others) {
            assert_eq!(found.unwrap(), expected(ranges));
        }
        // One is dropped before it reads for the others, and one before anybody reads.
        let mut reads: Vec<_> = lists().into_iter().map(|l| Box::pin(read(l))).collect();
        for read in &mut reads {
            assert!(read.now_or_never().is_none());
        }
        drop(reads.remove(0));
        let left = lists().split_off(1);
        for (ranges, found) in left.iter().zip(join_all(reads).await) {
            assert_eq!(found.unwrap(), expected(ranges));
        }
        assert!(joint.waiting().is_empty());
    }
}
