//! The memory a scan may use, granted by whoever runs it.

use std::fmt;

use crate::error::Result;

/// Grants memory before it is used. The SQL layer hands in DataFusion's pool.
pub trait MemoryBudget: fmt::Debug + Send + Sync {
    /// Reserves `bytes` until the grant is dropped, or says why not.
    fn reserve(&self, bytes: usize) -> Result<Grant>;
}

/// Reserved memory; dropping it gives the memory back.
pub struct Grant(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Grant {
    /// A grant that calls `release` when dropped.
    pub fn new(release: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(release)))
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grant")
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release();
        }
    }
}

/// Grants everything.
#[derive(Debug, Default)]
pub struct Unlimited;

impl MemoryBudget for Unlimited {
    fn reserve(&self, _bytes: usize) -> Result<Grant> {
        Ok(Grant(None))
    }
}
