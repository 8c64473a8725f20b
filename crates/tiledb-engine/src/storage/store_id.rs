//! The stores of this process, and what is known of the way to each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use object_store::ObjectStore;

use super::link::StoreLink;

/// Identifies a store of this process, also after other stores are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum StoreId {
    /// The file system of this machine, from its root.
    Local,
    /// A store that the user registered; numbers are never reused.
    Given(u64),
}

/// A store that somebody uses.
struct KnownStore {
    /// It keeps the address in use, so that a later store can't have the same one.
    store: Weak<dyn ObjectStore>,
    id: StoreId,
    link: Arc<StoreLink>,
}

impl StoreId {
    /// Returns the id and the link of a store. Both stay the same while the store exists.
    pub fn of(store: &Arc<dyn ObjectStore>) -> (Self, Arc<StoreLink>) {
        // Stores belong to the process: engines may share one, and locations are compared across engines.
        static KNOWN: Mutex<Vec<KnownStore>> = Mutex::new(Vec::new());
        static NEXT: AtomicU64 = AtomicU64::new(0);

        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.store.strong_count() > 0);
        let address = Arc::as_ptr(store).cast::<()>();
        let mut same = known.iter();
        if let Some(known) = same.find(|known| known.store.as_ptr().cast::<()>() == address) {
            return (known.id, Arc::clone(&known.link));
        }
        let new = KnownStore {
            store: Arc::downgrade(store),
            id: Self::Given(NEXT.fetch_add(1, Ordering::Relaxed)),
            link: Arc::default(),
        };
        let found = (new.id, Arc::clone(&new.link));
        known.push(new);
        found
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn a_store_keeps_its_id_and_link_and_no_other_gets_them() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let (first, link) = StoreId::of(&store);
        let (again, same) = StoreId::of(&store);
        assert!(again == first && Arc::ptr_eq(&link, &same));
        drop(store);
        for _ in 0..100 {
            let other: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            assert_ne!(StoreId::of(&other).0, first);
        }
    }
}
