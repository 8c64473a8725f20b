//! The memory a scan may use, granted by whoever runs it.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;

/// Grants memory before it is used. The SQL layer hands in DataFusion's pool.
pub trait MemoryBudget: fmt::Debug + Send + Sync {
    /// Reserves `bytes` until the grant is dropped, or says why not.
    fn reserve(&self, bytes: usize) -> Result<Grant>;

    /// What one of the partitions that run at the same time should not exceed by reading ahead, in bytes.
    fn share(&self) -> usize {
        usize::MAX
    }

    /// At most so many bytes may be idle between queries.
    fn idle_limit(&self) -> usize {
        usize::MAX
    }
}

/// Reserved memory; dropping it gives the memory back.
#[derive(Default)]
pub struct Grant {
    bytes: usize,
    release: Option<Arc<dyn Fn(usize) + Send + Sync>>,
}

impl Grant {
    /// A grant of so many bytes, which calls `release` with how many it gives back.
    pub fn new(bytes: usize, release: impl Fn(usize) + Send + Sync + 'static) -> Self {
        Self {
            bytes,
            release: Some(Arc::new(release)),
        }
    }

    /// Takes at most `bytes` of it into a grant of their own.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self {
            bytes,
            release: self.release.clone(),
        }
    }

    /// The bytes that are reserved.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes another grant of the same budget in.
    pub fn absorb(&mut self, mut other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        other.bytes = 0;
        if let Some(release) = other.release.take() {
            self.release = Some(release);
        }
    }

    /// Gives back what is more than `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        if let Some(more) = self.bytes.checked_sub(bytes).filter(|more| *more > 0) {
            self.bytes = bytes;
            if let Some(release) = &self.release {
                release(more);
            }
        }
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grant({} bytes)", self.bytes)
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// Grants everything.
#[derive(Debug, Default)]
pub struct UnlimitedBudget;

impl MemoryBudget for UnlimitedBudget {
    fn reserve(&self, bytes: usize) -> Result<Grant> {
        let release = None;
        Ok(Grant { bytes, release })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_is_granted_is_given_back_once() {
        let back = Arc::new(AtomicUsize::new(0));
        let sum = Arc::clone(&back);
        let mut grant = Grant::new(100, move |bytes| {
            sum.fetch_add(bytes, Ordering::Relaxed);
        });
        for (to, given) in [(100, 0), (200, 0), (60, 40), (70, 40), (0, 100), (0, 100)] {
            grant.shrink_to(to);
            assert_eq!(back.load(Ordering::Relaxed), given, "to {to}");
        }
        drop(grant);
        assert_eq!(back.load(Ordering::Relaxed), 100);
    }

    #[test]
    fn a_part_of_a_grant_is_given_back_on_its_own() {
        let back = Arc::new(AtomicUsize::new(0));
        let sum = Arc::clone(&back);
        let mut grant = Grant::new(100, move |bytes| {
            sum.fetch_add(bytes, Ordering::Relaxed);
        });
        let part = grant.split(30);
        drop(grant);
        assert_eq!(back.load(Ordering::Relaxed), 70);
        let mut all = part;
        let more_than_all = all.split(40);
        drop(all);
        assert_eq!(back.load(Ordering::Relaxed), 70);
        drop(more_than_all);
        assert_eq!(back.load(Ordering::Relaxed), 100);
    }
}
