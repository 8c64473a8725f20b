//! Who may use a folder, and what is found in place of one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::folder::{CacheFolder, RESERVED_DISK_BYTES};
use super::*;
use crate::disk_cache::ProblemCause;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[tokio::test]
async fn folders_are_created_for_their_owner_alone() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/b");
    let cache = small_cache(&folder).await;
    assert_eq!(mode(&folder), 0o700);
    drop(cache);
}

#[tokio::test]
async fn loose_permissions_are_tightened() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    drop(small_cache(folder.path()).await);
    assert_eq!(mode(folder.path()), 0o700);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    drop(small_cache(folder.path()).await);
    assert_eq!(mode(folder.path()), 0o700);
}

#[tokio::test]
async fn shared_folders_with_other_files_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("letter.txt"), "hello").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let problem = try_small_cache(folder.path()).await.unwrap_err();
    assert!(
        matches!(problem.cause(), ProblemCause::SharedFolder),
        "{problem}"
    );
    assert_eq!(mode(folder.path()), 0o755);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    drop(small_cache(folder.path()).await);
    assert_eq!(
        fs::read_to_string(folder.path().join("letter.txt")).unwrap(),
        "hello"
    );
}

#[tokio::test]
async fn folders_of_other_users_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    if is_root() {
        std::os::unix::fs::chown(folder.path(), Some(12345), None).unwrap();
        let problem = try_small_cache(folder.path()).await.unwrap_err();
        assert!(
            matches!(problem.cause(), ProblemCause::OtherOwner),
            "{problem}"
        );
    }
}

#[tokio::test]
async fn folders_that_cannot_be_written_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "text").unwrap();
    let problem = try_small_cache(&file).await.unwrap_err();
    assert!(
        matches!(problem.cause(), ProblemCause::NotAFolder),
        "{problem}"
    );
    let problem = try_small_cache(&file.join("below")).await.unwrap_err();
    assert!(
        matches!(problem.cause(), ProblemCause::Unusable(_)),
        "{problem}"
    );

    let locked = parent.path().join("locked");
    fs::create_dir_all(locked.join("lock")).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
    let problem = try_small_cache(&locked).await.unwrap_err();
    assert!(
        matches!(problem.cause(), ProblemCause::Unusable(_)),
        "{problem}"
    );

    let read_only = parent.path().join("read-only");
    fs::create_dir(&read_only).unwrap();
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o500)).unwrap();
    if !is_root() {
        let problem = try_small_cache(&read_only).await.unwrap_err();
        assert!(
            matches!(problem.cause(), ProblemCause::Unusable(_)),
            "{problem}"
        );
    }
}

#[tokio::test]
async fn small_capacities_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let problem = DiskCache::open(&options(folder.path(), 16 * MIB - 1))
        .await
        .unwrap_err();
    assert!(
        matches!(
            problem.cause(),
            ProblemCause::CapacityTooSmall {
                minimum_bytes: 16_777_216,
                ..
            }
        ),
        "{problem}"
    );
}

#[tokio::test]
async fn one_cache_at_a_time_uses_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small_cache(folder.path()).await;
    let problem = try_small_cache(folder.path()).await.unwrap_err();
    assert!(matches!(problem.cause(), ProblemCause::InUse), "{problem}");
    cache.close().await;
    let next = small_cache(folder.path()).await;
    drop(cache);
    assert!(try_small_cache(folder.path()).await.is_err());
    drop(next);
    drop(small_cache(folder.path()).await);
}

#[test]
fn problems_name_the_folder_and_a_remedy() {
    let causes = [
        ProblemCause::InUse,
        ProblemCause::CapacityTooSmall {
            capacity_bytes: 1,
            minimum_bytes: 2,
        },
        ProblemCause::NotAFolder,
        ProblemCause::OtherOwner,
        ProblemCause::SharedFolder,
        ProblemCause::DiskFull {
            free_bytes: 1,
            needed_bytes: 2,
        },
        ProblemCause::Unusable(std::io::Error::from(std::io::ErrorKind::PermissionDenied)),
        ProblemCause::Engine("reason".to_string()),
    ];
    for cause in causes {
        let text = DiskCacheProblem::new(Path::new("/the/folder"), cause).to_string();
        assert!(
            text.contains("/the/folder") && text.contains(": "),
            "{text}"
        );
        assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
    }
}

/// A small file system in memory, which only root can mount.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` if this user may not mount anything.
    fn mount(size_bytes: u64) -> Option<Self> {
        let disk = Self(tempfile::tempdir().unwrap());
        let size = format!("size={size_bytes},mode=700");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(disk.0.path())
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(disk)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.0.path())
            .stderr(Stdio::null())
            .status();
    }
}

#[tokio::test]
async fn a_full_disk_stops_storing_and_nothing_else() {
    let Some(disk) = SmallDisk::mount(RESERVED_DISK_BYTES + 24 * MIB) else {
        return;
    };
    let path = disk.0.path().join("cache");
    let ranges: Vec<_> = (0..60).map(|index| cached(index, MIB)).collect();
    let cache = DiskCache::open(&options(&path, 256 * MIB)).await.unwrap();
    ranges.iter().for_each(|cached| insert(&cache, cached));
    cache.close().await;
    let stats = cache.stats();
    assert!(stats.stored > 10 && stats.dropped > 20, "{stats:?}");
    drop(cache);

    let cache = DiskCache::open(&options(&path, 256 * MIB)).await.unwrap();
    assert_eq!(count_held(&cache, &ranges).await as u64, stats.stored);
    drop(cache);

    fs::write(disk.0.path().join("filler"), vec![1; 8 << 20]).unwrap();
    let cache = DiskCache::open(&options(&path, 256 * MIB)).await.unwrap();
    assert_eq!(count_held(&cache, &ranges).await as u64, stats.stored);
    let problem = DiskCache::open(&options(&disk.0.path().join("other"), 256 * MIB))
        .await
        .unwrap_err();
    assert!(
        matches!(problem.cause(), ProblemCause::DiskFull { .. }),
        "{problem}"
    );
}

#[test]
fn a_folder_of_another_version_is_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let identity = CacheFolder::open(path).unwrap().identity();
    fs::write(path.join("blocks/foyer-storage-direct-fs-00000000"), "text").unwrap();
    assert_eq!(CacheFolder::open(path).unwrap().identity(), identity);
    assert!(fs::exists(path.join("blocks/foyer-storage-direct-fs-00000000")).unwrap());

    fs::write(
        path.join("identity"),
        b"rangecv0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    )
    .unwrap();
    assert_ne!(CacheFolder::open(path).unwrap().identity(), identity);
    assert!(!fs::exists(path.join("blocks/foyer-storage-direct-fs-00000000")).unwrap());
}
