//! Opening of fragments by their footers, which are read in few requests or taken from consolidated copies.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use futures::{StreamExt, TryStreamExt, stream};

use super::schemas::load_schema;
use crate::array::directory::{ArrayDirectory, ArrayFile, CommittedFragment};
use crate::array::fragment::{FOOTER, Fragment, METADATA_FILE, keep_end, load_monolithic};
use crate::error::{Error, Result, ResultExt};
use crate::format::fragment::consolidated;
use crate::format::fragment::footer::{Footer, OLD_SCHEMA_NAME};
use crate::format::schema::ArraySchema;
use crate::storage::{CacheKey, FileSuffix, Storage};

/// Footers are a few hundred bytes for a few fields; one suffix read of this size nearly always holds one.
const FOOTER_SUFFIX_BYTES: u64 = 8 * 1024;
/// Since this version, footers name their schema.
const SCHEMA_NAMED_SINCE: u32 = 10;
/// Footers read together.
const OPEN_CHUNK: usize = 32;
/// Chunks of footers read at the same time.
const OPEN_CONCURRENCY: usize = 2;
/// Chunks of footers read at the same time from a store behind a network.
const OPEN_CONCURRENCY_REMOTE: usize = 8;
/// The first version whose footers are copied correctly. Releases up to 2.18 store the offsets of the copies of older
/// ones some bytes too low, so that each copy is cut and the next one begins inside it.
const COPIED_SINCE: u32 = 12;

/// How many bytes of the end of each metadata file to read, if `files` of them are read at once. On this machine, the end nearly
/// always holds the footer. From a store behind a network, all ends together are as long as a round trip is worth, so that the
/// sections before the footers come with them.
pub(super) fn end_bytes(storage: &Storage, files: usize) -> u64 {
    if !storage.is_remote() {
        return FOOTER_SUFFIX_BYTES;
    }
    let worth = storage.round_trip_bytes() / (files.max(1) as u64);
    worth.max(FOOTER_SUFFIX_BYTES)
}

/// The metadata file of a fragment, if its footer isn't cached. Old ones are read whole.
pub(super) fn unread_end(storage: &Storage, fragment: &CommittedFragment) -> Option<String> {
    let cached = storage
        .cache()
        .get::<OpenedFooter>(fragment.footer_key(storage));
    (cached.is_none() && !fragment.name.uuid_first).then(|| fragment.metadata_path())
}

/// The files with copies of footers that aren't cached, with their bytes.
pub(super) fn unread_copies<'a>(
    storage: &'a Storage,
    directory: &'a ArrayDirectory,
) -> impl Iterator<Item = (String, u64)> + 'a {
    let files = directory.consolidated_footers.iter();
    let unread = files.filter(move |file| {
        let key = storage.cache_key(&file.path(), 0, &file.info);
        storage.cache().get::<CopiedFooters>(key).is_none()
    });
    unread.map(|file| (file.path(), file.info.bytes))
}

/// Copies of footers, by the names of their fragments.
type CopiedFooters = Vec<(String, Arc<[u8]>)>;

/// Reads the footers of committed fragments, in their order.
pub(in crate::array) async fn open_fragments(
    storage: &Storage,
    directory: &ArrayDirectory,
    committed: Vec<CommittedFragment>,
) -> Result<Vec<Arc<Fragment>>> {
    let footers = if committed.is_empty() {
        HashMap::new()
    } else {
        load_consolidated_footers(storage, &directory.consolidated_footers).await?
    };
    let of_all = committed.len();
    let mut chunks = Vec::new();
    let mut rest = committed.into_iter().peekable();
    while rest.peek().is_some() {
        let chunk = rest.by_ref().take(OPEN_CHUNK).collect::<Vec<_>>();
        // Each chunk's future is in a box, because the stream moves futures about the stack, and a thread's stack is small.
        chunks.push(Box::pin(open_chunk(
            storage, directory, chunk, &footers, of_all,
        )));
    }
    let opened: Vec<Vec<Arc<Fragment>>> = stream::iter(chunks)
        .buffered(if storage.is_remote() {
            OPEN_CONCURRENCY_REMOTE
        } else {
            OPEN_CONCURRENCY
        })
        .try_collect()
        .await?;
    Ok(opened.into_iter().flatten().collect())
}

/// Opens one fragment by its own footer, whatever copies of it say.
pub async fn open_alone(
    storage: &Storage,
    directory: &ArrayDirectory,
    committed: CommittedFragment,
) -> Result<Fragment> {
    open_fragment(storage, directory, committed, None, None).await
}

/// Reads a chunk of the footers, in their order.
async fn open_chunk(
    storage: &Storage,
    directory: &ArrayDirectory,
    committed: Vec<CommittedFragment>,
    footers: &HashMap<String, Arc<[u8]>>,
    of_all: usize,
) -> Result<Vec<Arc<Fragment>>> {
    let unread = committed
        .iter()
        .filter(|fragment| {
            let known = storage
                .cache()
                .get::<OpenedFooter>(fragment.footer_key(storage));
            let copied = fragment.copied_footer(footers).is_some();
            known.is_none() && !copied && !fragment.name.uuid_first
        })
        .map(CommittedFragment::metadata_path)
        .collect::<Vec<_>>();
    let ends = storage
        .read_suffixes(&unread, end_bytes(storage, of_all))
        .await;
    let mut ends: HashMap<_, _> = unread.into_iter().zip(ends).collect();
    let mut fragments = Vec::with_capacity(committed.len());
    for fragment in committed {
        let name = fragment.name.name.clone();
        let end = ends.remove(&fragment.metadata_path());
        let copy = fragment.copied_footer(footers).cloned();
        let opened = open_fragment(storage, directory, fragment, copy, end).await;
        fragments.push(Arc::new(opened.context("fragment", || name)?));
    }
    Ok(fragments)
}

impl CommittedFragment {
    fn metadata_path(&self) -> String {
        format!("{}/{METADATA_FILE}", self.folder)
    }

    fn footer_key(&self, storage: &Storage) -> CacheKey {
        storage.cache_key(&self.metadata_path(), FOOTER, &self.commit)
    }

    /// The copy of its footer, if it can be used.
    fn copied_footer<'a>(&self, footers: &'a HashMap<String, Arc<[u8]>>) -> Option<&'a Arc<[u8]>> {
        let faithful = *self.name.fragment_versions().start() >= COPIED_SINCE;
        footers.get(&self.name.name).filter(|_| faithful)
    }
}

/// Loads the footers of many fragments from the few files that hold copies of them.
async fn load_consolidated_footers(
    storage: &Storage,
    files: &[ArrayFile],
) -> Result<HashMap<String, Arc<[u8]>>> {
    let mut footers = HashMap::new();
    for file in files {
        let path = file.path();
        let load = async {
            let bytes = storage.read(&path).await?;
            let tile = storage.decode_generic_tile(&bytes, "consolidated fragment metadata")?;
            let copies: CopiedFooters = consolidated::decode(&tile.data)?
                .into_iter()
                .map(|(name, range)| (name, Arc::from(tile.data.get(range).unwrap_or_default())))
                .collect();
            Ok((copies, tile.data.len().saturating_mul(2)))
        };
        let key = storage.cache_key(&path, 0, &file.info);
        let copies = storage
            .cache()
            .get_or_load(key, load)
            .await
            .context("file", || path)?;
        for (name, footer) in copies.iter() {
            let copy = || Arc::clone(footer);
            footers.entry(name.clone()).or_insert_with(copy);
        }
    }
    Ok(footers)
}

/// A fragment's footer, its schema, and the footer's offset in the metadata file, if it was read from there.
#[derive(Debug, Clone)]
struct OpenedFooter {
    footer: Arc<Footer>,
    schema: Arc<ArraySchema>,
    start: Option<u64>,
}

async fn open_fragment(
    storage: &Storage,
    directory: &ArrayDirectory,
    fragment: CommittedFragment,
    copy: Option<Arc<[u8]>>,
    end: Option<Result<FileSuffix>>,
) -> Result<Fragment> {
    let path = fragment.metadata_path();
    let key = fragment.footer_key(storage);
    let load = async {
        let opened = load_footer(storage, directory, &fragment, &path, copy, end).await?;
        // The lists of the footer, on storage and in memory.
        let size = opened.footer.file_sizes.len().saturating_mul(256);
        Ok((opened, size))
    };
    let opened = storage
        .cache()
        .get_or_load(key, load)
        .await
        .context("file", || path)?;
    let OpenedFooter {
        footer,
        schema,
        start,
    } = (*opened).clone();
    let versions = fragment.name.fragment_versions();
    if !versions.contains(&footer.version.get()) {
        return Err(Error::corrupt(format!(
            "the footer says format version {}, the fragment's name says {}",
            footer.version,
            show_versions(&versions)
        )));
    }
    let slots = footer.slots(&schema);
    Ok(Fragment {
        name: fragment.name,
        folder: fragment.folder,
        visibility: fragment.visibility,
        schema,
        footer,
        slots,
        footer_start: start,
        commit: fragment.commit,
        section_starts: OnceLock::new(),
    })
}

/// Loads a fragment's footer, or the metadata of old versions, and its schema.
async fn load_footer(
    storage: &Storage,
    directory: &ArrayDirectory,
    fragment: &CommittedFragment,
    path: &str,
    copy: Option<Arc<[u8]>>,
    end: Option<Result<FileSuffix>>,
) -> Result<OpenedFooter> {
    let versions = fragment.name.fragment_versions();
    let old_schema = if *versions.end() < SCHEMA_NAMED_SINCE {
        let file = directory.schema_named(OLD_SCHEMA_NAME)?;
        Some(load_schema(storage, directory, file).await?)
    } else {
        None
    };
    if let Some(schema) = old_schema.as_ref().filter(|_| fragment.name.uuid_first) {
        let dense = !fragment.has_coords_file;
        let metadata = load_monolithic(storage, path, &fragment.commit, schema, dense).await?;
        return Ok(OpenedFooter {
            footer: Arc::clone(&metadata.footer),
            schema: Arc::clone(schema),
            start: None,
        });
    }
    // Copies only save requests; if one is damaged, the fragment's own footer is read.
    if let Some(copy) = copy
        && let Ok(opened) = decode_footer(storage, directory, &copy, None).await
        && versions.contains(&opened.footer.version.get())
    {
        return Ok(opened);
    }
    let end = match end {
        Some(end) => end?,
        None => storage.read_suffix(path, end_bytes(storage, 1)).await?,
    };
    keep_end(storage, fragment.footer_key(storage), &end);
    let (bytes, start) = read_footer(storage, path, &versions, old_schema.as_deref(), end).await?;
    decode_footer(storage, directory, &bytes, Some(start)).await
}

async fn decode_footer(
    storage: &Storage,
    directory: &ArrayDirectory,
    bytes: &[u8],
    start: Option<u64>,
) -> Result<OpenedFooter> {
    let (_, schema_name) = Footer::peek_schema_name(bytes)?;
    let file = directory.schema_named(&schema_name)?;
    let schema = load_schema(storage, directory, file).await?;
    Ok(OpenedFooter {
        footer: Arc::new(Footer::decode(bytes, &schema)?),
        schema,
        start,
    })
}

fn show_versions(versions: &RangeInclusive<u32>) -> String {
    if versions.start() == versions.end() {
        return versions.start().to_string();
    }
    format!("{} or {}", versions.start(), versions.end())
}

/// The bytes of a footer and their offset in the metadata file; `old_schema` is that of fragments whose footer does not
/// name one.
async fn read_footer(
    storage: &Storage,
    path: &str,
    versions: &RangeInclusive<u32>,
    old_schema: Option<&ArraySchema>,
    suffix: FileSuffix,
) -> Result<(Vec<u8>, u64)> {
    let without_length = match old_schema {
        Some(schema) => Footer::range_without_length(versions, schema, suffix.file_bytes)?,
        None => None,
    };
    let range = match without_length {
        Some(range) => range,
        None => Footer::footer_range(&suffix.bytes, suffix.file_bytes)?,
    };
    let suffix_start = suffix.file_bytes.saturating_sub(suffix.bytes.len() as u64);
    if range.start >= suffix_start {
        let from = usize::try_from(range.start - suffix_start)?;
        let to = usize::try_from(range.end - suffix_start)?;
        let footer = suffix.bytes.get(from..to).unwrap_or_default();
        return Ok((footer.to_vec(), range.start));
    }
    let start = range.start;
    Ok((storage.read_range(path, range).await?.to_vec(), start))
}
