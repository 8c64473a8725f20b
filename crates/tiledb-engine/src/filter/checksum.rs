//! Checksums (specification: "Checksum Filters").
//!
//! Metadata: `u32 metadata parts, u32 data parts`, then per part, metadata parts first, `u64 bytes` and the digest (16
//! bytes of MD5 or 32 of SHA-256). The metadata of the earlier filters (in the order of writing) follow unchanged; the
//! metadata digests cover them in sequence. Data are unchanged.

use md5::Md5;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::encoder::Encoder;

/// The digest of a checksum filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Digest {
    Md5,
    Sha256,
}

impl Digest {
    fn bytes(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha256 => 32,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Md5 => "checksum_md5",
            Self::Sha256 => "checksum_sha256",
        }
    }

    fn matches(self, part: &[u8], digest: &[u8]) -> bool {
        match self {
            Self::Md5 => Md5::digest(part).as_slice() == digest,
            Self::Sha256 => Sha256::digest(part).as_slice() == digest,
        }
    }

    /// Verifies the data and the metadata after the filter's own.
    pub(super) fn verify(self, metadata: &mut Cursor<'_>, data: &[u8]) -> Result<()> {
        let part_bytes = 8 + self.bytes();
        let metadata_parts = metadata.count_u32(part_bytes, "number of metadata checksums")?;
        let data_parts = metadata.count_u32(part_bytes, "number of data checksums")?;
        let metadata_digests = metadata.bytes(metadata_parts * part_bytes, "metadata checksums")?;
        let data_digests =
            metadata.bytes(data_parts.saturating_mul(part_bytes), "data checksums")?;
        self.verify_parts(metadata_digests, metadata.rest(), "metadata")?;
        self.verify_parts(data_digests, data, "data")
    }

    fn verify_parts(self, digests: &[u8], bytes: &[u8], what: &'static str) -> Result<()> {
        let mut digests = Cursor::new(digests, self.name());
        let mut bytes = Cursor::new(bytes, self.name());
        while digests.remaining() > 0 {
            let len = digests.u64("checksummed bytes")?;
            let digest = digests.bytes(self.bytes(), "checksum")?;
            let part = bytes.bytes_u64(len, "checksummed part")?;
            if !self.matches(part, digest) {
                return Err(Error::corrupt(format!(
                    "{}: the checksum over {len} bytes of {what} does not match: the tile was damaged after it was written",
                    self.name()
                )));
            }
        }
        Ok(())
    }
}

impl Digest {
    /// The filter's metadata: digests of the metadata parts so far and of the data, and then these metadata.
    pub(super) fn encode(self, metadata: &[Vec<u8>], data: &[u8]) -> Result<Vec<u8>> {
        let mut own = Encoder::new();
        own.count_u32(metadata.len(), "number of metadata checksums")?;
        own.u32(1);
        for part in metadata.iter().map(Vec::as_slice).chain([data]) {
            own.count_u64(part.len());
            match self {
                Self::Md5 => own.bytes(&Md5::digest(part)),
                Self::Sha256 => own.bytes(&Sha256::digest(part)),
            }
        }
        metadata.iter().for_each(|part| own.bytes(part));
        Ok(own.finish())
    }
}
