//! Golden arrays taken apart: their files as bytes, to be damaged, rebuilt and put into a folder or into memory.
//!
//! The subtle thing is the *plain form*: libtiledb compresses every schema and every section of fragment metadata
//! with gzip, whose checksum hides what lies behind it from damage. In the plain form each of these generic tiles
//! stands unfiltered, which the format allows, and the offsets in the footers are moved along.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use datafusion_tiledb::EncryptionKey;
use object_store::memory::InMemory;
use object_store::{ObjectStoreExt, path::Path as StorePath};
use tiledb_engine::filter::generic_tile;
use tiledb_engine::format::delete_condition::DeleteCondition;
use tiledb_engine::format::fragment::footer::Footer;
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::storage::Location;

use crate::support::aged_store::AgedStore;
use crate::support::golden;

/// The file of a fragment's metadata.
pub const METADATA_FILE: &str = "__fragment_metadata.tdb";

/// The files of an array by their path below it.
#[derive(Debug, Clone)]
pub struct Files(pub BTreeMap<String, Vec<u8>>);

impl Files {
    /// A golden array.
    pub fn golden(name: &str) -> Self {
        Self::of(&golden::folder().join(name))
    }

    /// What is in a folder.
    pub fn of(folder: &Path) -> Self {
        let mut files = BTreeMap::new();
        collect(folder, "", &mut files);
        assert!(!files.is_empty(), "nothing is in {}", folder.display());
        Self(files)
    }

    /// Writes them below `folder`, which need not exist.
    pub fn write(&self, folder: &Path) {
        for (path, bytes) in &self.0 {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("writable");
            fs::write(path, bytes).expect("writable");
        }
    }

    /// As [`write`](Self::write), with files that are old. An array that can't be decoded is damaged there at once.
    pub fn write_aged(&self, folder: &Path) {
        self.write(folder);
        let old = SystemTime::now() - Duration::from_secs(3600);
        for path in self.0.keys() {
            let file = fs::File::options().write(true).open(folder.join(path));
            file.and_then(|file| file.set_modified(old))
                .expect("a file of our own");
        }
    }

    /// Puts them into a store of their own.
    pub async fn in_memory(&self) -> Location {
        let store = Arc::new(self.store().await);
        Location::new(store, StorePath::from("array"), "memory:///array")
    }

    /// Puts them into a store of their own, in which they are old. An array that can't be decoded is damaged there at once.
    pub async fn aged_in_memory(&self) -> Location {
        let store = Arc::new(AgedStore(self.store().await));
        Location::new(store, StorePath::from("array"), "memory:///array")
    }

    async fn store(&self) -> InMemory {
        let store = InMemory::new();
        for (path, bytes) in &self.0 {
            let path = StorePath::parse(format!("array/{path}")).expect("a path of libtiledb");
            store
                .put(&path, bytes.clone().into())
                .await
                .expect("memory takes everything");
        }
        store
    }

    /// The first file whose path contains `part`.
    pub fn find(&self, part: &str) -> String {
        let found = self.0.keys().find(|path| path.contains(part));
        found.unwrap_or_else(|| panic!("no {part}")).clone()
    }

    /// Every file whose path contains `part`.
    pub fn find_all(&self, part: &str) -> Vec<String> {
        let paths = self.0.keys().filter(|path| path.contains(part));
        paths.cloned().collect()
    }

    /// Changes one file.
    pub fn edit(&mut self, path: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        edit(self.0.get_mut(path).unwrap_or_else(|| panic!("no {path}")));
    }

    /// Moves every file from one path to another.
    pub fn rename(&mut self, rename: impl Fn(&str) -> String) {
        let files = std::mem::take(&mut self.0);
        self.0 = files.into_iter().map(|(p, b)| (rename(&p), b)).collect();
    }

    /// The plain form.
    pub fn plain(&self) -> Self {
        let mut plain = self.clone();
        for (path, bytes) in &mut plain.0 {
            if path.ends_with(METADATA_FILE) {
                *bytes = self.plain_metadata(bytes, None);
            } else if path.starts_with("__schema/") || path.ends_with(".del") {
                *bytes = plain_tile(&contents(bytes));
            }
        }
        // The copies of footers would still speak of the old offsets.
        plain
            .0
            .retain(|path, _| !path.starts_with("__fragment_meta/"));
        plain
    }

    /// The plain form of a fragment's metadata, which `key` opens.
    pub fn plain_metadata(&self, file: &[u8], key: Option<&Arc<EncryptionKey>>) -> Vec<u8> {
        let contents = |tile: &[u8]| contents_with(tile, key);
        let (body, footer) = split_footer(file);
        let (_, schema) = Footer::peek_schema_name(footer).expect("a footer of libtiledb");
        let schema = contents(&self.0[&format!("__schema/{schema}")]);
        let schema = ArraySchema::decode(&schema).expect("a schema of libtiledb");
        let slots = Footer::decode(footer, &schema)
            .expect("a footer of libtiledb")
            .file_sizes
            .len();
        // One offset of the R-tree, eight lists by slot, statistics and processed conditions of the fragment.
        let (head, offsets) = footer.split_at(footer.len() - 8 * (1 + 8 * slots + 2));
        let starts: Vec<u64> = offsets
            .as_chunks()
            .0
            .iter()
            .map(|b| u64::from_le_bytes(*b))
            .collect();
        let mut plain = Vec::new();
        let mut moved = BTreeMap::new();
        for start in starts.iter().copied().collect::<BTreeSet<_>>() {
            moved.insert(start, plain.len() as u64);
            let tile = &body[usize::try_from(start).expect("small")..];
            plain.extend(plain_tile(&contents(tile)));
        }
        let mut footer = head.to_vec();
        footer.extend(starts.iter().flat_map(|start| moved[start].to_le_bytes()));
        join_footer(&plain, &footer)
    }
}

fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{path}/"), files);
        } else {
            files.insert(path, fs::read(entry.path()).expect("readable"));
        }
    }
}

/// The sections and the footer of a metadata file.
pub fn split_footer(file: &[u8]) -> (&[u8], &[u8]) {
    let (rest, len) = file.split_last_chunk::<8>().expect("a footer's length");
    rest.split_at(rest.len() - usize::try_from(u64::from_le_bytes(*len)).expect("small"))
}

/// A metadata file of sections and a footer.
pub fn join_footer(body: &[u8], footer: &[u8]) -> Vec<u8> {
    let len = (footer.len() as u64).to_le_bytes();
    [body, footer, &len].concat()
}

/// What a generic tile holds.
pub fn contents(tile: &[u8]) -> Vec<u8> {
    contents_with(tile, None)
}

/// What a generic tile holds that `key` opens.
pub fn contents_with(tile: &[u8], key: Option<&Arc<EncryptionKey>>) -> Vec<u8> {
    let tile = generic_tile::decode(tile, "golden tile", key);
    tile.expect("a tile of libtiledb").data
}

/// A generic tile without filters, of one chunk.
pub fn plain_tile(contents: &[u8]) -> Vec<u8> {
    let len = u32::try_from(contents.len()).expect("small").to_le_bytes();
    let chunk = [&len[..], &len, &[0; 4], contents].concat();
    let mut tile = Vec::new();
    tile.extend(22_u32.to_le_bytes());
    tile.extend((8 + chunk.len() as u64).to_le_bytes());
    tile.extend((contents.len() as u64).to_le_bytes());
    tile.push(4);
    tile.extend(1_u64.to_le_bytes());
    tile.push(0);
    tile.extend(8_u32.to_le_bytes());
    tile.extend(65_536_u32.to_le_bytes());
    tile.extend(0_u32.to_le_bytes());
    tile.extend(1_u64.to_le_bytes());
    tile.extend(chunk);
    tile
}

/// A delete with the same meaning as `file`, stored in the form that libtiledb misreads: alternatives directly among
/// alternatives.
pub fn nested_delete(file: &[u8]) -> Vec<u8> {
    let condition = DeleteCondition::decode_delete(&contents(file)).expect("a delete");
    let pair = DeleteCondition::Any(vec![condition.clone(), condition.clone()]);
    let nested = DeleteCondition::Any(vec![condition, pair]);
    plain_tile(&nested.encode_delete().expect("a short name"))
}
