//! What workers say about themselves.

use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnv;
use serde::{Deserialize, Serialize};
use url::Url;

use super::RELEASE;
use crate::Result;

/// What a worker says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerFacts {
    /// Its release, such as `datafusion-tiledb 0.1.0`.
    pub release: String,
    /// The number of its processors.
    pub cores: usize,
    /// The size of its memory pool, if it is limited, in bytes.
    pub memory_bytes: Option<u64>,
}

impl WorkerFacts {
    pub(super) fn of(runtime: &RuntimeEnv) -> Self {
        let memory_bytes = match runtime.memory_pool.memory_limit() {
            MemoryLimit::Finite(bytes) => Some(bytes as u64),
            _ => None,
        };
        Self {
            release: RELEASE.to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes,
        }
    }

    pub(super) fn parse(text: &str, url: &Url) -> Result<Self, DataFusionError> {
        postcard::from_bytes(&bytes_of(text).unwrap_or_default()).map_err(|_| {
            DataFusionError::Execution(format!(
                "worker {url}: it is no worker of {RELEASE}: run the same release on all machines"
            ))
        })
    }

    /// The facts as a text, because the engine sends texts.
    pub(super) fn text(&self) -> String {
        let bytes = postcard::to_stdvec(self).unwrap_or_default();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn check_release(&self, url: &Url) -> Result<(), DataFusionError> {
        if self.release == RELEASE {
            return Ok(());
        }
        Err(DataFusionError::Execution(format!(
            "worker {url}: it is {:?} and the coordinator {RELEASE:?}: run the same release on all machines",
            self.release
        )))
    }
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_texts() {
        let url = Url::parse("http://a:1").unwrap();
        let facts = WorkerFacts {
            release: "datafusion-tiledb 9.9.9".to_owned(),
            cores: 3,
            memory_bytes: Some(1 << 40),
        };
        assert_eq!(WorkerFacts::parse(&facts.text(), &url).unwrap(), facts);
        let error = facts.check_release(&url).unwrap_err().to_string();
        assert!(
            error.contains("9.9.9") && error.contains(RELEASE),
            "{error}"
        );
        for wrong in ["", "1.0", "zz", "0", "ff"] {
            let error = WorkerFacts::parse(wrong, &url).unwrap_err().to_string();
            assert!(error.contains("no worker of"), "{error}");
        }
    }
}
