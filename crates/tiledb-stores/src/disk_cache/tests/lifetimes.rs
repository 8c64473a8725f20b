//! Caches, runtimes, processes and their ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::disk_cache::ProblemCause;

fn single_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_cache_outlives_the_runtime_that_opened_it() {
    let folder = tempfile::tempdir().unwrap();
    let first = single_thread();
    let cache = first.block_on(small_cache(folder.path()));
    first.block_on(async { insert(&cache, &cached(1, 1000)) });
    drop(first);

    insert(&cache, &cached(2, 1000));
    let second = Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    second.block_on(async {
        assert!(holds(&cache, &cached(1, 1000)).await);
        assert!(holds(&cache, &cached(2, 1000)).await);
    });
    second.shutdown_background();
    single_thread().block_on(cache.close());
    drop(cache);

    let cache = single_thread().block_on(small_cache(folder.path()));
    assert!(single_thread().block_on(holds(&cache, &cached(2, 1000))));
}

#[test]
fn runtimes_may_end_during_reads() {
    let (folder, ranges) = single_thread().block_on(filled_folder(100, 100_000));
    for round in 0..20 {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let cache = std::sync::Arc::new(runtime.block_on(small_cache(folder.path())));
        for cached in ranges.clone() {
            let cache = std::sync::Arc::clone(&cache);
            runtime.spawn(async move { holds(&cache, &cached).await });
        }
        std::thread::sleep(Duration::from_micros(200 * round));
        runtime.shutdown_timeout(Duration::from_secs(5));
    }
}

#[tokio::test]
async fn a_dropped_cache_can_be_opened_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..30 {
        let cache = small_cache(folder.path()).await;
        for index in 0..40 {
            insert(&cache, &cached(round * 100 + index, 100_000));
        }
        if round % 3 == 0 {
            tokio::time::sleep(Duration::from_millis(round)).await;
        }
        count_held(
            &cache,
            &[cached(round * 100, 100_000), cached(round, 100_000)],
        )
        .await;
    }
    let cache = small_cache(folder.path()).await;
    for index in 0..3000 {
        holds(&cache, &cached(index, 100_000)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cache_may_be_closed_during_reads_and_writes() {
    let (folder, ranges) = filled_folder(100, 50_000).await;
    let cache = std::sync::Arc::new(small_cache(folder.path()).await);
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (cache, ranges) = (std::sync::Arc::clone(&cache), ranges.clone());
            tokio::spawn(async move {
                for (index, cached_range) in ranges.iter().enumerate() {
                    holds(&cache, cached_range).await;
                    insert(&cache, &cached(1000 + task * 100 + index as u64, 1000));
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(3)).await;
    tokio::join!(cache.close(), cache.close());
    cache.close().await;
    assert!(!holds(&cache, &ranges[0]).await);
    insert(&cache, &ranges[0]);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(
        count_held(&small_cache(folder.path()).await, &ranges).await,
        100
    );
}

#[tokio::test]
async fn an_opening_may_be_given_up() {
    let folder = tempfile::tempdir().unwrap();
    for delay in 0..10 {
        let opening = try_small_cache(folder.path());
        let _ = tokio::time::timeout(Duration::from_micros(delay * 300), opening).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(small_cache(folder.path()).await);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn closed_caches_leave_no_files_open() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().to_path_buf();
    let open_files = || {
        let links = fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        links.filter(|path| path.starts_with(&inside)).count()
    };
    let cache = small_cache(folder.path()).await;
    assert_eq!(open_files(), 9);
    cache.close().await;
    drop(cache);
    assert_eq!(open_files(), 0);
    drop(small_cache(folder.path()).await);
    let started = Instant::now();
    while open_files() > 0 {
        assert!(started.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

const CHILD_FOLDER: &str = "DISK_CACHE_TEST_FOLDER";
const CHILD_ACTION: &str = "DISK_CACHE_TEST_ACTION";

/// Runs only as another process of the tests below.
#[test]
fn child_process() {
    let (Some(folder), Ok(action)) = (std::env::var_os(CHILD_FOLDER), std::env::var(CHILD_ACTION))
    else {
        return;
    };
    let folder = PathBuf::from(folder);
    let runtime = single_thread();
    let cache = runtime.block_on(small_cache(&folder));
    for index in 0..50 {
        insert(&cache, &cached(index, 60_000));
    }
    match action.as_str() {
        "close" => runtime.block_on(cache.close()),
        "end" => drop(runtime),
        "exit" => std::process::exit(0),
        _ => {
            println!("ready");
            for index in 50.. {
                insert(&cache, &cached(index, 60_000));
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }
}

fn child(folder: &std::path::Path, action: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "disk_cache::tests::lifetimes::child_process",
        "--nocapture",
    ]);
    command
        .env(CHILD_FOLDER, folder)
        .env(CHILD_ACTION, action)
        .stdout(Stdio::piped());
    command
}

#[tokio::test]
async fn another_process_finds_what_was_closed() {
    let folder = tempfile::tempdir().unwrap();
    assert!(child(folder.path(), "close").status().unwrap().success());
    let ranges: Vec<_> = (0..50).map(|index| cached(index, 60_000)).collect();
    assert_eq!(
        count_held(&small_cache(folder.path()).await, &ranges).await,
        50
    );
}

#[tokio::test]
async fn a_cache_never_keeps_its_process_alive() {
    let folder = tempfile::tempdir().unwrap();
    for action in ["end", "exit"] {
        let started = Instant::now();
        let output = child(folder.path(), action)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert!(output.status.success());
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(
            output.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        drop(small_cache(folder.path()).await);
    }
}

#[tokio::test]
async fn killed_processes_release_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    for delay in [0, 5, 20, 60, 150, 300] {
        let mut process = child(folder.path(), "wait").spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("ready")));
        let problem = try_small_cache(folder.path()).await.unwrap_err();
        assert!(matches!(problem.cause(), ProblemCause::InUse), "{problem}");
        tokio::time::sleep(Duration::from_millis(delay)).await;
        process.kill().unwrap();
        process.wait().unwrap();

        let cache = small_cache(folder.path()).await;
        for index in 0..5000 {
            holds(&cache, &cached(index, 60_000)).await;
        }
        let fresh: Vec<_> = (0..40)
            .map(|index| cached(100_000 + delay * 100 + index, 60_000))
            .collect();
        fresh.iter().for_each(|cached| insert(&cache, cached));
        tokio::time::timeout(Duration::from_secs(20), cache.close())
            .await
            .unwrap();
        // Old entries that were read are stored once more.
        assert!(cache.stats().stored >= 40 && cache.stats().dropped == 0);
    }
}
