//! Power cuts: at every moment of every statement the disk may hold any of several images, and each of them is an array.
//!
//! The events of a statement on the disk are recorded, and replayed up to each moment. The replay distinguishes what was
//! written from what was synced, and builds images of both: only what was synced; all that was written; all names with the
//! synced bytes, or with half of the others, too; and what was synced with one other name. Each image opens, and shows
//! the state before the statement or the state after it; once the statement has reported success, only the state after it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{SessionConfig, SessionContext};
use tiledb_engine::storage::{FileEvent, recorder};

/// Statements, one after the other, on the arrays `s` (sparse) and `d` (dense).
const STATEMENTS: [&str; 15] = [
    "CREATE EXTERNAL TABLE s (k VARCHAR NOT NULL, n INT NOT NULL, a DOUBLE, c VARCHAR, PRIMARY KEY (k, n)) STORED AS TILEDB LOCATION '$S' \
     OPTIONS ('tiledb.capacity' '3', 'tiledb.attr.c.enumeration' '[\"x\", \"y\"]')",
    "INSERT INTO s VALUES ('a', 1, 0.5, 'x'), ('b', 2, NULL, 'y'), ('c', 3, 1.5, NULL), ('d', 4, 2.5, 'x'), ('e', 5, 3.5, 'x')",
    "INSERT INTO s VALUES ('b', 2, 9.5, 'x'), ('f', 6, 4.5, 'y')",
    "DELETE FROM s WHERE a > 3",
    "UPDATE s SET a = 7, n = n + 1 WHERE k = 'c'",
    "SELECT * FROM tiledb_set_metadata('$S', 'title', 'power')",
    "SELECT * FROM tiledb_extend_enumeration('$S', 'c', ['z'])",
    "SELECT * FROM tiledb_evolve('$S', add => 'more INT')",
    "SELECT * FROM tiledb_consolidate('$S')",
    "SELECT * FROM tiledb_vacuum('$S', min_age => '0')",
    "INSERT OVERWRITE s VALUES ('z', 26, 1, 'y', 8)",
    "TRUNCATE TABLE s",
    "COPY (SELECT value AS d, value * 2 AS a FROM range(0, 40)) TO '$D' STORED AS TILEDB PARTITIONED BY (d) \
     OPTIONS ('tiledb.array_type' 'dense', 'tiledb.dim.d.domain' '[0, 99]', 'tiledb.dim.d.tile' '10')",
    "INSERT INTO d VALUES (3, 33), (77, 7)",
    "SELECT * FROM tiledb_consolidate('$D', mode => 'commits')",
];

/// The bytes of a file that were written, and those of them that were synced.
#[derive(Debug, Clone, Default)]
struct SyncedBytes {
    written: Vec<u8>,
    synced: Vec<u8>,
}

/// The object at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskName {
    File(usize),
    Folder,
}

type DiskNames = BTreeMap<PathBuf, DiskName>;
/// Files with their bytes, and folders without.
type DiskImage = BTreeMap<PathBuf, Option<Vec<u8>>>;

#[derive(Debug, Default)]
struct SimulatedDisk {
    /// The folder of all paths, which existed before.
    root: PathBuf,
    files: Vec<SyncedBytes>,
    by_number: HashMap<u64, usize>,
    written: DiskNames,
    synced: DiskNames,
}

impl SimulatedDisk {
    /// A disk with the contents of a folder, all of it synced.
    fn of(folder: &Path) -> Self {
        let mut disk = Self {
            root: folder.to_owned(),
            ..Self::default()
        };
        disk.add(folder);
        disk.synced = disk.written.clone();
        disk
    }

    fn add(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.written.insert(path.clone(), DiskName::Folder);
                self.add(&path);
            } else {
                let bytes = fs::read(&path).unwrap();
                self.written.insert(path, DiskName::File(self.files.len()));
                self.files.push(SyncedBytes {
                    written: bytes.clone(),
                    synced: bytes,
                });
            }
        }
    }

    fn happen(&mut self, event: &FileEvent) {
        match event {
            FileEvent::Create(path, number) => {
                self.by_number.insert(*number, self.files.len());
                self.written
                    .insert(path.clone(), DiskName::File(self.files.len()));
                self.files.push(SyncedBytes::default());
            }
            FileEvent::Write(number, bytes) => {
                self.files[self.by_number[number]].written.extend(bytes);
            }
            FileEvent::SyncFile(number) => {
                let file = &mut self.files[self.by_number[number]];
                file.synced = file.written.clone();
            }
            FileEvent::Link(from, to) => {
                let name = self.written[from];
                self.written.insert(to.clone(), name);
            }
            FileEvent::Rename(from, to) => {
                let name = self.written.remove(from).expect("a file is renamed");
                self.written.insert(to.clone(), name);
            }
            FileEvent::Remove(path) => {
                self.written.remove(path);
            }
            FileEvent::CreateFolder(folder) => {
                let missing = folder.ancestors();
                for folder in missing.take_while(|folder| *folder != self.root) {
                    self.written.insert(folder.to_owned(), DiskName::Folder);
                }
            }
            FileEvent::RemoveFolder(folder) => {
                self.written.retain(|path, _| !path.starts_with(folder))
            }
            FileEvent::SyncFolder(folder) => {
                let inside = |path: &Path| path.parent() == Some(folder);
                let gone = |path: &PathBuf| inside(path) && !self.written.contains_key(path);
                let gone = self.synced.keys().filter(|path| gone(path)).cloned();
                for gone in gone.collect::<Vec<_>>() {
                    self.synced.retain(|path, _| !path.starts_with(&gone));
                }
                let there = self.written.iter().filter(|(path, _)| inside(path));
                self.synced
                    .extend(there.map(|(path, name)| (path.clone(), *name)));
            }
        }
    }

    /// The images that a power cut may leave now.
    fn images(&self) -> Vec<DiskImage> {
        let synced = |file: &SyncedBytes| file.synced.clone();
        let half = |file: &SyncedBytes| {
            let more = (file.written.len() - file.synced.len()).div_ceil(2);
            file.written[..file.synced.len() + more].to_vec()
        };
        let mut images = vec![
            self.image(&self.synced, synced),
            self.image(&self.written, |file| file.written.clone()),
            self.image(&self.written, synced),
            self.image(&self.written, half),
        ];
        let more = self
            .written
            .iter()
            .filter(|(path, _)| !self.synced.contains_key(*path));
        for (path, name) in more {
            let mut names = self.synced.clone();
            names.insert(path.clone(), *name);
            images.push(self.image(&names, synced));
        }
        let less = self
            .synced
            .keys()
            .filter(|path| !self.written.contains_key(*path));
        for path in less {
            let mut names = self.synced.clone();
            names.retain(|name, _| !name.starts_with(path));
            images.push(self.image(&names, synced));
        }
        images
    }

    fn image(&self, names: &DiskNames, bytes: impl Fn(&SyncedBytes) -> Vec<u8>) -> DiskImage {
        let content = |name: &DiskName| match name {
            DiskName::File(file) => Some(bytes(&self.files[*file])),
            DiskName::Folder => None,
        };
        let names = names
            .iter()
            .map(|(path, name)| (path.clone(), content(name)));
        names.collect()
    }
}

/// Writes an image to a folder, in the place of `origin`. Files in a folder without a name are lost.
fn lay_out(image: &DiskImage, origin: &Path, folder: &Path) {
    for (path, content) in image {
        let path = folder.join(path.strip_prefix(origin).unwrap());
        if !path.parent().unwrap().is_dir() {
            continue;
        }
        match content {
            Some(bytes) => fs::write(path, bytes).unwrap(),
            None => fs::create_dir(path).unwrap(),
        }
    }
}

fn session() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2);
    let ctx = SessionContext::new_with_config(config);
    crate::register(&ctx).unwrap();
    ctx
}

/// The contents of both arrays; an array that doesn't exist has none.
async fn state(folder: &Path) -> String {
    let mut state = String::new();
    for (array, order) in [("s", "k, n"), ("d", "d")] {
        let uri = folder.join(array);
        let schemas = fs::read_dir(uri.join("__schema"));
        if schemas.is_ok_and(|mut schemas| schemas.any(|entry| entry.unwrap().path().is_file())) {
            let uri = uri.display();
            for query in [
                format!("SELECT * FROM tiledb_scan('{uri}') ORDER BY {order}"),
                format!("SELECT * FROM tiledb_metadata('{uri}')"),
                format!("SELECT * FROM tiledb_enumerations('{uri}')"),
            ] {
                let rows = session().sql(&query).await;
                let rows = match rows {
                    Ok(rows) => rows.collect().await,
                    Err(error) => Err(error),
                };
                state += &match rows {
                    Ok(rows) => pretty_format_batches(&rows).unwrap().to_string(),
                    Err(error) => format!("{query}: {error}"),
                };
                state.push('\n');
            }
        }
    }
    state
}

/// Runs all statements, and reports the first image that shows a third state; otherwise it counts the images. Images don't see
/// the `forgotten` events, as if the statement had left them out.
async fn run(forgotten: impl Fn(&FileEvent) -> bool) -> Result<usize, String> {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().canonicalize().unwrap().join("arrays");
    fs::create_dir(&folder).unwrap();
    let image_folder = scratch.path().join("image");
    let mut tried = 0;
    for statement in STATEMENTS {
        let before = state(&folder).await;
        let mut disk = SimulatedDisk::of(&folder);
        let events = execute(statement, &folder).await;
        let behind = state(&folder).await;
        let mut known = HashSet::new();
        for moment in 0..=events.len() {
            let last = moment == events.len();
            for image in disk.images() {
                if !known.insert(image.clone()) && !last {
                    continue;
                }
                tried += 1;
                fs::create_dir(&image_folder).unwrap();
                lay_out(&image, &folder, &image_folder);
                let shown = state(&image_folder).await;
                if shown != behind && (last || shown != before) {
                    let names = image.keys().collect::<Vec<_>>();
                    let events = &events[..moment];
                    return Err(format!(
                        "{statement}\nafter {events:#?}\nof {names:#?}\n{shown}\nbefore\n{before}\nbehind\n{behind}"
                    ));
                }
                fs::remove_dir_all(&image_folder).unwrap();
            }
            if let Some(event) = events.get(moment).filter(|event| !forgotten(event)) {
                disk.happen(event);
            }
        }
    }
    Ok(tried)
}

/// Runs a statement, and returns its events on the disk.
async fn execute(statement: &str, folder: &Path) -> Vec<FileEvent> {
    let place = |array: &str| folder.join(array).display().to_string();
    let ctx = session();
    for array in ["s", "d"] {
        if folder.join(array).join("__schema").is_dir() {
            let place = place(array);
            let table =
                format!("CREATE EXTERNAL TABLE {array} STORED AS TILEDB LOCATION '{place}'");
            ctx.sql(&table).await.unwrap().collect().await.unwrap();
        }
    }
    let sql = statement
        .replace("$S", &place("s"))
        .replace("$D", &place("d"));
    let recording = recorder::watch(folder);
    ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    recording.take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_image_is_the_state_before_or_behind() {
    match run(|_| false).await {
        Ok(tried) => assert!(tried > 200, "{tried} images were tried"),
        Err(wrong) => panic!("{wrong}"),
    }
}

/// Without the syncs an image shows neither state, which proves that images are checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn syncs_are_needed() {
    let files = run(|event| matches!(event, FileEvent::SyncFile(_))).await;
    assert!(files.is_err(), "{files:?}");
    let folders = run(|event| matches!(event, FileEvent::SyncFolder(_))).await;
    assert!(folders.is_err(), "{folders:?}");
}
