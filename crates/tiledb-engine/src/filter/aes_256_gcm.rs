//! AES-256-GCM (specification: "Encryption Filters").
//!
//! Chunk metadata: `u32 metadata parts, u32 data parts`, then per part, metadata parts first, `u32 plain bytes, u32
//! cipher bytes`, a nonce of 12 bytes and a tag of 16. Chunk data: the cipher texts in that order. As with a compressor,
//! the metadata of the filters before it (in the order of writing) are inside: what is decrypted replaces them.
//!
//! A cipher text is as long as its plain text, so the output is bounded by the input. The plain text is written to its
//! destination, and not used before the tag has been verified.

use aes_gcm::aead::AeadInPlace;
use aes_gcm::aead::generic_array::GenericArray;

use super::buffer::FilteredChunk;
use super::compression::DecompressTarget;
use super::encryption_key::EncryptionKey;
use super::parts;
use crate::error::{Error, Result};
use crate::filter::buffer::FilterBuffer;
use crate::format::cursor::Cursor;
use crate::format::encoder::Encoder;

const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
/// Size of the chunk metadata for one part.
const PART_BYTES: usize = 8 + NONCE_BYTES + TAG_BYTES;
const NAME: &str = "aes_256_gcm";

/// Reverses the filter: data go to `target`, restored metadata to `restored`.
pub(super) fn decode(
    key: &EncryptionKey,
    metadata: &mut Cursor<'_>,
    input: &[u8],
    target: DecompressTarget<'_>,
    restored: &mut FilterBuffer,
) -> Result<()> {
    let metadata_parts = metadata.count_u32(PART_BYTES, "number of encrypted metadata parts")?;
    let data_parts = metadata.count_u32(PART_BYTES, "number of encrypted data parts")?;
    let mut input = input;
    for _ in 0..metadata_parts {
        let part = SealedPart::next(metadata, &mut input)?;
        part.decrypt(key, restored.extend(part.cipher_text.len())?)?;
    }
    match target {
        DecompressTarget::Growing(buffer) => {
            for _ in 0..data_parts {
                let part = SealedPart::next(metadata, &mut input)?;
                part.decrypt(key, buffer.extend(part.cipher_text.len())?)?;
            }
        }
        DecompressTarget::Exact(mut out) => {
            for _ in 0..data_parts {
                let part = SealedPart::next(metadata, &mut input)?;
                part.decrypt(
                    key,
                    parts::take_front(&mut out, part.cipher_text.len(), NAME)?,
                )?;
            }
            parts::expect_full(out, NAME)?;
        }
    }
    if input.is_empty() {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{NAME}: {} bytes of the chunk belong to no encrypted part",
        input.len()
    )))
}

/// Encrypts a chunk with its metadata, each part with a nonce of its own.
pub(super) fn encode(
    key: &EncryptionKey,
    chunk: FilteredChunk<'_>,
) -> Result<FilteredChunk<'static>> {
    let mut own = Encoder::new();
    own.count_u32(chunk.metadata.len(), "number of encrypted metadata parts")?;
    own.count_u32(1, "number of encrypted data parts")?;
    let mut encrypted = Vec::new();
    for mut part in chunk.metadata.into_iter().chain([chunk.data.into_owned()]) {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::getrandom(&mut nonce).map_err(|error| {
            Error::encryption("the system has no random numbers to encrypt with").with_source(error)
        })?;
        let nonce_of_part = GenericArray::from_slice(&nonce);
        let tag = key
            .cipher
            .encrypt_in_place_detached(nonce_of_part, &[], &mut part)
            .map_err(|_| Error::encryption("a chunk is too large to be encrypted"))?;
        own.count_u32(part.len(), "plain bytes of an encrypted part")?;
        own.count_u32(part.len(), "cipher bytes of an encrypted part")?;
        own.bytes(&nonce);
        own.bytes(&tag);
        encrypted.extend(part);
    }
    Ok(FilteredChunk {
        metadata: vec![own.finish()],
        data: encrypted.into(),
    })
}

struct SealedPart<'a> {
    nonce: [u8; NONCE_BYTES],
    tag: [u8; TAG_BYTES],
    cipher_text: &'a [u8],
}

impl<'a> SealedPart<'a> {
    fn next(metadata: &mut Cursor<'_>, input: &mut &'a [u8]) -> Result<Self> {
        let plain_bytes = metadata.u32("plain bytes of an encrypted part")?;
        let cipher_bytes = metadata.u32("cipher bytes of an encrypted part")?;
        if plain_bytes != cipher_bytes {
            return Err(Error::corrupt(format!(
                "{NAME}: a part has {cipher_bytes} encrypted bytes for {plain_bytes}, expected the same number"
            )));
        }
        let nonce = metadata.array("nonce of an encrypted part")?;
        let tag = metadata.array("tag of an encrypted part")?;
        let (cipher_text, rest) = usize::try_from(cipher_bytes)
            .ok()
            .and_then(|len| input.split_at_checked(len))
            .ok_or_else(|| {
                Error::corrupt(format!(
                    "{NAME}: a part claims {cipher_bytes} bytes but {} remain in the chunk",
                    input.len()
                ))
            })?;
        *input = rest;
        Ok(Self {
            nonce,
            tag,
            cipher_text,
        })
    }

    /// Decrypts into `out`, which has the length of the cipher text.
    fn decrypt(&self, key: &EncryptionKey, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(self.cipher_text);
        let nonce = GenericArray::from_slice(&self.nonce);
        let tag = GenericArray::from_slice(&self.tag);
        let done = key.cipher.decrypt_in_place_detached(nonce, &[], out, tag);
        done.map_err(|_| {
            Error::encryption(
                "the encryption key does not fit, or the data were changed after they were written",
            )
        })
    }
}
