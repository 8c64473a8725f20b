//! The key of an encrypted array (specification: "Encryption").
//!
//! Only the cipher made from the key is kept, set up once and shared by all workers; it is wiped when dropped. The key
//! cannot be read back, and is never printed. Keys are compared by a digest, which is part of the identity of cached
//! metadata and is never shown either.

use std::fmt;
use std::hash::{Hash, Hasher};

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::KeyInit;
use aes_gcm::aead::generic_array::GenericArray;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// Size of a key.
pub const KEY_BYTES: usize = 32;

/// A prefix that is digested with the key, so that the digest cannot be used for anything else.
const FINGERPRINT_DOMAIN: &[u8] = b"datafusion-tiledb encryption key\0";

/// A key for AES-256-GCM.
///
/// Two keys are equal if they were made from the same bytes. The key itself cannot be read back.
pub struct EncryptionKey {
    pub(super) cipher: Aes256Gcm,
    fingerprint: KeyFingerprint,
}

/// A digest that identifies a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyFingerprint([u8; 32]);

impl EncryptionKey {
    /// The key of these bytes. The caller must wipe its own copy.
    pub fn new(bytes: &[u8; KEY_BYTES]) -> Self {
        let digest = Sha256::new()
            .chain_update(FINGERPRINT_DOMAIN)
            .chain_update(bytes)
            .finalize();
        Self {
            cipher: Aes256Gcm::new(GenericArray::from_slice(bytes)),
            fingerprint: KeyFingerprint(digest.into()),
        }
    }

    /// The key in `text`: 32 bytes are the key itself, 64 hexadecimal digits encode it.
    ///
    /// # Errors
    /// `text` is neither. The message does not repeat it.
    pub fn from_text(text: &[u8]) -> Result<Self> {
        if let Ok(bytes) = <&[u8; KEY_BYTES]>::try_from(text) {
            return Ok(Self::new(bytes));
        }
        match from_hex(text) {
            Some(bytes) => Ok(Self::new(&bytes)),
            None => Err(Error::invalid(format!(
                "an encryption key is 32 bytes, or 64 hexadecimal digits; found {} bytes",
                text.len()
            ))),
        }
    }

    /// The digest that identifies this key.
    pub fn fingerprint(&self) -> KeyFingerprint {
        self.fingerprint
    }
}

fn from_hex(text: &[u8]) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    if text.len() != 2 * KEY_BYTES {
        return None;
    }
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        for digit in digits {
            let value = char::from(*digit).to_digit(16)?;
            *byte = (*byte << 4) | u8::try_from(value).ok()?;
        }
    }
    Some(bytes)
}

impl PartialEq for EncryptionKey {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for EncryptionKey {}

impl Hash for EncryptionKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint.hash(state);
    }
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncryptionKey(not shown)")
    }
}

impl fmt::Debug for KeyFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyFingerprint(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const TEXT: &[u8; 32] = b"0123456789abcdeF0123456789abcdeF";
    const HEX: &[u8] = b"3031323334353637383961626364654630313233343536373839616263646546";

    #[test]
    fn bytes_and_hexadecimal_digits_are_the_same_key() {
        let key = EncryptionKey::new(TEXT);
        assert_eq!(EncryptionKey::from_text(TEXT).unwrap(), key);
        assert_eq!(EncryptionKey::from_text(HEX).unwrap(), key);
        let lower = HEX.to_ascii_uppercase();
        assert_eq!(EncryptionKey::from_text(&lower).unwrap(), key);
        assert_ne!(EncryptionKey::new(&[0; 32]), key);
        assert_ne!(
            EncryptionKey::new(&[0; 32]).fingerprint(),
            key.fingerprint()
        );
    }

    #[test]
    fn anything_else_is_refused_without_being_repeated() {
        let not_hex = [b'g'; 64];
        let secret: [&[u8]; 4] = [b"", b"hunter2", &not_hex, &HEX[..63]];
        for text in secret {
            let error = EncryptionKey::from_text(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let text = String::from_utf8_lossy(text);
            assert!(text.is_empty() || !error.to_string().contains(&*text));
        }
    }

    #[test]
    fn nothing_prints_a_key() {
        let key = EncryptionKey::new(TEXT);
        let shown = format!("{key:?} {:?} {:#?}", key.fingerprint(), Some(&key));
        assert!(!shown.contains("0123"));
        assert!(!shown.contains(|c: char| c.is_ascii_digit()), "{shown}");
    }
}
