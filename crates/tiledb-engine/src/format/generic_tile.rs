//! The header of a generic tile, which wraps every serialized structure of an array (specification: "Generic Tile").
//!
//! `u32 version, u64 persisted bytes, u64 tile bytes, u8 datatype, u64 cell bytes, u8 encryption, u32 pipeline bytes`,
//! the filter pipeline, then `persisted bytes` of filtered tile. The version is that of the library that wrote the
//! tile; it only affects how the pipeline is read, not the contents. Fragment metadata contain several generic tiles in
//! sequence, so the header also gives the start of the next one.

use super::cursor::Cursor;
use super::datatype::Datatype;
use super::encoder::Encoder;
use super::filter_list::FilterList;
use super::version::FormatVersion;
use crate::error::{Error, Result};

/// Size of the header before the filter pipeline.
pub const FIXED_HEADER_BYTES: usize = 34;

/// The header of a generic tile, including its pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct GenericTileHeader {
    /// The version that decides how the pipeline is read.
    pub version: FormatVersion,
    /// Size of the filtered tile after the header.
    pub persisted_bytes: u64,
    /// Size of the unfiltered tile.
    pub tile_bytes: u64,
    /// The datatype of the first filter's input; libtiledb writes `CHAR`.
    pub datatype: Datatype,
    /// Size of a cell; libtiledb writes 1.
    pub cell_bytes: u64,
    /// Whether the tile is encrypted (AES-256-GCM).
    pub encrypted: bool,
    /// The filters of the tile.
    pub filters: FilterList,
    /// Size of this header: the fixed part and the pipeline.
    pub header_bytes: usize,
}

impl GenericTileHeader {
    /// Reads the header at the start of `bytes`; `what` names the structure in errors ("array schema").
    pub fn decode(bytes: &[u8], what: &'static str) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, what);
        let version = cursor.u32("generic tile version")?;
        let persisted_bytes = cursor.u64("persisted size")?;
        if is_unversioned(version, persisted_bytes) {
            return Err(Error::unsupported(
                "it was written by a release of libtiledb before 1.4, whose format is not supported",
            ));
        }
        let version = FormatVersion::new(version)?;
        let tile_bytes = cursor.u64("tile size")?;
        let datatype = Datatype::from_code(cursor.u8("tile datatype")?)?;
        let cell_bytes = cursor.u64("tile cell size")?;
        let encrypted = match cursor.u8("encryption type")? {
            0 => false,
            1 => true,
            other => return Err(cursor.invalid("encryption type", other, "0 or 1")),
        };
        let pipeline_bytes = cursor.u32("pipeline size")?;
        let pipeline = cursor.bytes_u64(u64::from(pipeline_bytes), "filter pipeline")?;
        let filters = FilterList::decode(&mut Cursor::new(pipeline, what), version)?;
        Ok(Self {
            version,
            persisted_bytes,
            tile_bytes,
            datatype,
            cell_bytes,
            encrypted,
            filters,
            header_bytes: cursor.position(),
        })
    }

    /// Writes the header, without its own size; the version is [`FormatVersion::WRITTEN`].
    ///
    /// # Errors
    /// The pipeline is too long.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut pipeline = Encoder::new();
        self.filters.encode(&mut pipeline)?;
        let mut to = Encoder::new();
        to.u32(FormatVersion::WRITTEN.get());
        to.u64(self.persisted_bytes);
        to.u64(self.tile_bytes);
        to.u8(self.datatype.code());
        to.u64(self.cell_bytes);
        to.bool(self.encrypted);
        to.bytes_u32(&pipeline.finish(), "pipeline size")?;
        Ok(to.finish())
    }

    /// Size of the whole generic tile, header and filtered tile.
    pub fn encoded_bytes(&self) -> Result<u64> {
        u64::try_from(self.header_bytes)?
            .checked_add(self.persisted_bytes)
            .ok_or_else(|| {
                Error::corrupt(format!(
                    "generic tile claims {} persisted bytes",
                    self.persisted_bytes
                ))
            })
    }
}

/// Whether the header is that of a release before 1.4, which begins with the persisted size, eight bytes.
fn is_unversioned(version: u32, persisted_bytes: u64) -> bool {
    version > FormatVersion::NEWEST.get() && persisted_bytes.trailing_zeros() >= u32::BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::filter_list::Filter;

    /// The header libtiledb 2.30 writes: version 22, CHAR, cell size 1, one gzip filter.
    fn written_by_libtiledb() -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&22_u32.to_le_bytes());
        bytes.extend_from_slice(&100_u64.to_le_bytes());
        bytes.extend_from_slice(&165_u64.to_le_bytes());
        bytes.push(4);
        bytes.extend_from_slice(&1_u64.to_le_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&18_u32.to_le_bytes());
        bytes.extend_from_slice(&[0, 0, 1, 0, 1, 0, 0, 0, 1, 5, 0, 0, 0, 1, 1, 0, 0, 0]);
        bytes
    }

    #[test]
    fn reads_the_header_libtiledb_writes() {
        let header = GenericTileHeader::decode(&written_by_libtiledb(), "test").unwrap();
        assert_eq!(header.version.get(), 22);
        assert_eq!(header.persisted_bytes, 100);
        assert_eq!(header.tile_bytes, 165);
        assert_eq!(header.datatype, Datatype::Char);
        assert_eq!(header.cell_bytes, 1);
        assert!(!header.encrypted);
        assert_eq!(header.filters.filters, [Filter::Gzip]);
        assert_eq!(header.header_bytes, 52);
        assert_eq!(header.encoded_bytes().unwrap(), 152);
    }

    #[test]
    fn a_header_without_a_version_is_told_from_a_newer_one() {
        // Release 1.3: u64 persisted size, u64 tile size, u8 datatype, u64 cell size, …
        let mut bytes = vec![0; 60];
        (bytes[0], bytes[8], bytes[16], bytes[17]) = (81, 99, 4, 1);
        let error = GenericTileHeader::decode(&bytes, "test").unwrap_err();
        assert!(error.message().contains("before 1.4"), "{error}");
        let mut newer = written_by_libtiledb();
        newer[0] = 81;
        let error = GenericTileHeader::decode(&newer, "test").unwrap_err();
        assert!(error.message().contains("version 81 is newer"), "{error}");
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = written_by_libtiledb();
        for len in 0..bytes.len() {
            assert!(GenericTileHeader::decode(&bytes[..len], "test").is_err());
        }
    }

    #[test]
    fn a_persisted_size_that_overflows_is_an_error() {
        let mut bytes = written_by_libtiledb();
        bytes[4..12].copy_from_slice(&u64::MAX.to_le_bytes());
        let header = GenericTileHeader::decode(&bytes, "test").unwrap();
        assert!(header.encoded_bytes().is_err());
    }
}
