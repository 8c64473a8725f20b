//! Filtering and unfiltering of generic tiles (specification: "Generic Tile"): header, pipeline, then one tile.
//!
//! The header may have any pipeline, also an empty one. The size it states is not trusted: memory grows as bytes are
//! decompressed, and a wrong size is an error. A few compressed bytes can make a thousand times as many, so what is large
//! is granted by the memory limit first. The subtle thing: the header, which anybody can write, says whether the
//! tile is encrypted, so with a key a plain tile is refused; otherwise who can write to the folder but does not know
//! the key could put tiles there that pass for those of the owner.

use std::sync::Arc;

use super::encoder::TileEncoder;
use super::encryption_key::EncryptionKey;
use super::pipeline::Pipeline;
use super::scratch::FilterScratch;
use super::stage::NO_KEY;
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::filter::stage::TileContext;
use crate::format::datatype::Datatype;
use crate::format::filter_list::{Filter, FilterList, FilterSetting};
use crate::format::generic_tile::GenericTileHeader;
use crate::format::version::FormatVersion;
use crate::memory::budget::{Grant, MemoryBudget};

/// The limit for chunks that headers state.
const CHUNK_BYTES: u32 = 64 << 10;
/// The number of bytes that a generic tile of any ratio may have.
const SMALL_BYTES: usize = 1 << 20;
/// The most bytes that gzip makes of one, rounded up.
const MOST_RATIO: usize = 1100;
/// What is parsed from a generic tile takes about as much memory as the tile.
const COPIES: usize = 2;

/// The contents of a generic tile.
#[derive(Debug)]
pub struct GenericTile {
    /// The unfiltered bytes.
    pub data: Vec<u8>,
    /// Size of the generic tile on storage, including the header: the next one starts there.
    pub consumed: usize,
    /// The version in the header; the contents have their own.
    pub version: u32,
    /// Whether it was encrypted.
    pub encrypted: bool,
    /// What was granted for the contents of a large tile, and for what is parsed from them.
    pub memory: Grant,
}

/// With what generic tiles are decoded.
#[derive(Debug, Clone, Copy, Default)]
pub struct GenericTileContext<'a> {
    /// The key of an encrypted array.
    pub key: Option<&'a Arc<EncryptionKey>>,
    /// Grants the memory of large tiles; without it, they take what they need.
    pub budget: Option<&'a Arc<dyn MemoryBudget>>,
}

/// Decodes the generic tile at the start of `bytes`; `what` names it in errors ("array schema").
///
/// With a key the tile must be encrypted, as libtiledb demands of every generic tile.
///
/// # Errors
/// The tile is damaged, or encrypted with another key, or encrypted without one being given, or plain although one is.
pub fn decode(
    bytes: &[u8],
    what: &'static str,
    key: Option<&Arc<EncryptionKey>>,
) -> Result<GenericTile> {
    decode_by(bytes, what, GenericTileContext { key, budget: None })
}

/// As [`decode`], within a memory limit.
///
/// # Errors
/// As for [`decode`], or the limit does not leave what the tile takes.
pub fn decode_by(
    bytes: &[u8],
    what: &'static str,
    means: GenericTileContext<'_>,
) -> Result<GenericTile> {
    let tile = decode_or_plain_by(bytes, what, means)?;
    match means.key {
        Some(_) if !tile.encrypted => Err(is_plain(what)),
        _ => Ok(tile),
    }
}

/// As [`decode`], but a plain tile passes although there is a key: only for what must be looked at to find out whether
/// anything is encrypted, and for schemas and enumerations, which libtiledb leaves plain when it evolves an encrypted
/// array. The caller has to look at [`GenericTile::encrypted`].
///
/// # Errors
/// As for [`decode`], but for plain tiles.
pub fn decode_or_plain(
    bytes: &[u8],
    what: &'static str,
    key: Option<&Arc<EncryptionKey>>,
) -> Result<GenericTile> {
    decode_or_plain_by(bytes, what, GenericTileContext { key, budget: None })
}

/// As [`decode_or_plain`], within a memory limit.
///
/// # Errors
/// As for [`decode_or_plain`], or the limit does not leave what the tile takes.
pub fn decode_or_plain_by(
    bytes: &[u8],
    what: &'static str,
    means: GenericTileContext<'_>,
) -> Result<GenericTile> {
    decode_tile(bytes, what, means).context("generic tile", || what)
}

/// The error for a plain tile where an encrypted one is expected.
pub fn is_plain(what: &'static str) -> Error {
    Error::new(
        ErrorKind::NotEncrypted,
        format!(
            "the {what} is not encrypted, and is read with a key: anybody who can write to the folder can have put it there, so it is \
         refused, as by libtiledb; remove the file if the owner of the key did not write it, or read without a key if nothing \
         here is encrypted"
        ),
    )
}

/// Writes a generic tile, through the filter that libtiledb uses for all of them.
///
/// # Errors
/// The contents are too large.
pub fn encode(data: &[u8]) -> Result<Vec<u8>> {
    encode_with(data, None)
}

/// As [`encode`]; with a key, the tile is encrypted.
///
/// # Errors
/// As for [`encode`].
pub fn encode_with(data: &[u8], key: Option<&Arc<EncryptionKey>>) -> Result<Vec<u8>> {
    let mut filters = FilterList {
        max_chunk_bytes: CHUNK_BYTES,
        filters: vec![Filter::Gzip],
        settings: vec![FilterSetting::Level(1)],
    };
    let context = TileContext {
        datatype: Datatype::Char,
        cell_bytes: 1,
        schema_version: FormatVersion::WRITTEN,
        fragment_version: FormatVersion::WRITTEN,
        var_data: false,
    };
    let tile = TileEncoder::with_key(&filters, &context, key)?.encode(data)?;
    if key.is_some() {
        filters.filters.push(Filter::Aes256Gcm);
        filters.settings.push(FilterSetting::None);
    }
    let header = GenericTileHeader {
        version: FormatVersion::WRITTEN,
        persisted_bytes: tile.len() as u64,
        tile_bytes: data.len() as u64,
        datatype: context.datatype,
        cell_bytes: 1,
        encrypted: key.is_some(),
        filters,
        header_bytes: 0,
    };
    let mut bytes = header.encode()?;
    bytes.extend(tile);
    Ok(bytes)
}

/// Size of the generic tile at the start of `bytes` on storage; its header suffices.
pub fn encoded_len(bytes: &[u8]) -> Result<u64> {
    GenericTileHeader::decode(bytes, "generic tile")?.encoded_bytes()
}

fn decode_tile(
    bytes: &[u8],
    what: &'static str,
    means: GenericTileContext<'_>,
) -> Result<GenericTile> {
    let GenericTileContext { key, budget } = means;
    let header = GenericTileHeader::decode(bytes, what)?;
    if header.encrypted && key.is_none() {
        return Err(Error::encryption(NO_KEY));
    }
    if header.encrypted != header.filters.contains(|f| *f == Filter::Aes256Gcm) {
        return Err(Error::corrupt(format!(
            "the header says {}encrypted but its filters are [{}]",
            if header.encrypted { "" } else { "not " },
            header.filters
        )));
    }
    let consumed = usize::try_from(header.encoded_bytes()?)?;
    let filtered = bytes.get(header.header_bytes..consumed).ok_or_else(|| {
        Error::corrupt(format!(
            "the tile takes {consumed} bytes but {} are there: the data is truncated",
            bytes.len()
        ))
    })?;
    let context = TileContext {
        datatype: header.datatype,
        cell_bytes: usize::try_from(header.cell_bytes)?,
        schema_version: header.version,
        fragment_version: header.version,
        var_data: false,
    };
    let pipeline = Pipeline::of_generic_tile(&header.filters, &context, key)?;
    let tile_bytes = usize::try_from(header.tile_bytes)?;
    let most = filtered.len().saturating_mul(MOST_RATIO).max(SMALL_BYTES);
    if tile_bytes > most {
        return Err(Error::corrupt(format!(
            "the header says {tile_bytes} bytes, but gzip, which is what writers use, makes {most} at most of {} stored ones",
            filtered.len()
        )));
    }
    let mut scratch = FilterScratch::default();
    let mut memory = Grant::default();
    if let Some(budget) = budget {
        scratch.account_in(Arc::clone(budget));
        if tile_bytes > SMALL_BYTES {
            memory = budget.reserve(tile_bytes.saturating_mul(COPIES))?;
        }
    }
    let data = pipeline.decode_growing(filtered, tile_bytes, &mut scratch)?;
    Ok(GenericTile {
        memory,
        data,
        consumed,
        version: header.version.get(),
        encrypted: header.encrypted,
    })
}
