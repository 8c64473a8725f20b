//! Files that another program is still writing.
//!
//! We put files in one step, but libtiledb writes those of an array in place: whoever lists them at that moment finds a file that
//! is empty or cut short, and would report a damaged array. Its writer needs a moment, so a young file that can't be decoded is
//! read again a few times. An old one is damaged.

use std::thread;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;

use super::FileInfo;
use crate::error::{Error, ErrorKind, Result};

/// The waits before a file is read again, in milliseconds.
const WAITS_MS: [u64; 8] = [1, 2, 5, 10, 20, 50, 100, 200];
/// A file that was changed so recently may not be finished. A file server may have another clock.
const YOUNG: Duration = Duration::from_secs(5);

/// Loads a file, again and again while it is young and what it holds isn't a valid file.
///
/// # Errors
/// As for `load`, the last time.
pub async fn once_finished<'a, T>(
    info: &FileInfo,
    load: impl Fn() -> BoxFuture<'a, Result<T>> + Send,
) -> Result<T> {
    for wait in WAITS_MS {
        match load().await {
            Err(e) if is_unreadable(&e) && is_young(info) => {
                log::debug!("{} may not be finished, and is read again: {e}", info.name);
            }
            ended => return ended,
        }
        let slept = move || thread::sleep(Duration::from_millis(wait));
        let slept = tokio::task::spawn_blocking(slept).await;
        slept.map_err(|e| Error::internal("the runtime doesn't wait").with_source(e))?;
    }
    load().await
}

/// Whether an error may be that of half a file. The start of a file that is missing may also pass for a later version.
fn is_unreadable(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported)
}

fn is_young(info: &FileInfo) -> bool {
    let modified = u64::try_from(info.modified_us).unwrap_or(0);
    let modified = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(modified));
    let Some(modified) = modified else {
        return true;
    };
    match SystemTime::now().duration_since(modified) {
        Ok(age) => age < YOUNG,
        Err(ahead) => ahead.duration() < YOUNG,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;

    use super::*;

    fn modified_ago(age: Duration) -> FileInfo {
        let time = SystemTime::now() - age;
        let time = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        FileInfo {
            name: "a".to_owned(),
            bytes: 0,
            modified_us: i64::try_from(time.as_micros()).unwrap(),
            e_tag: None,
        }
    }

    /// Loads a file that is finished at the given attempt; returns the attempts made, and whether the last one succeeded.
    async fn attempts(info: &FileInfo, finished_at: usize, kind: ErrorKind) -> (usize, bool) {
        let made = AtomicUsize::new(0);
        let load = || {
            let attempt = made.fetch_add(1, Ordering::Relaxed) + 1;
            let loaded = if attempt < finished_at {
                Err(Error::new(kind, "cut short"))
            } else {
                Ok(())
            };
            async move { loaded }.boxed()
        };
        let ended = once_finished(info, load).await;
        (made.load(Ordering::Relaxed), ended.is_ok())
    }

    #[tokio::test]
    async fn young_files_are_read_again() {
        let young = modified_ago(Duration::from_millis(100));
        let old = modified_ago(Duration::from_secs(60));
        let (corrupt, missing) = (ErrorKind::Corrupt, ErrorKind::NotFound);
        assert_eq!(attempts(&young, 1, corrupt).await, (1, true));
        assert_eq!(attempts(&young, 4, corrupt).await, (4, true));
        assert_eq!(attempts(&young, 99, corrupt).await, (9, false));
        assert_eq!(attempts(&old, 4, corrupt).await, (1, false));
        assert_eq!(attempts(&young, 4, missing).await, (1, false));
    }
}
