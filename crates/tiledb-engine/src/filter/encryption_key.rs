//! The key of an encrypted array (specification: "Encryption").
//!
//! Only the cipher made from the key is kept, set up once and shared by all workers; it is wiped when dropped. The key
//! cannot be read back, and is never printed. Keys are compared by a digest, which is part of the identity of cached
//! metadata and is never shown either. While there is a key, core dumps of the process hold no memory, on Linux; embedders
//! who want them must drop their keys first.

use std::fmt;
use std::fs;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};

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
    _no_dumps: NoDumps,
}

/// The mask of what core dumps of this process hold. The system has one mask for each process.
static CORE_DUMPS: CoreDumps = CoreDumps::new("/proc/self/coredump_filter");

/// A file with the mask of what core dumps hold, which is empty while there are keys.
struct CoreDumps {
    file: &'static str,
    held: Mutex<HeldKey>,
}

struct HeldKey {
    keys: usize,
    /// The mask before the first key; `None` if this system has no such file.
    before: Option<String>,
}

impl CoreDumps {
    const fn new(file: &'static str) -> Self {
        Self {
            file,
            held: Mutex::new(HeldKey {
                keys: 0,
                before: None,
            }),
        }
    }

    fn begin(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.keys = held.keys.saturating_add(1);
        if held.keys == 1 {
            held.before = fs::read_to_string(self.file).ok();
            if held.before.is_some() {
                self.write("0x0");
            }
        }
    }

    fn end(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.keys = held.keys.saturating_sub(1);
        if held.keys == 0
            && let Some(before) = held.before.take()
        {
            self.write(&format!("0x{}", before.trim()));
        }
    }

    fn write(&self, mask: &str) {
        if let Err(error) = fs::write(self.file, mask) {
            log::debug!("what core dumps hold could not be set to {mask}: {error}");
        }
    }
}

/// Keeps the memory of the process out of core dumps.
struct NoDumps;

impl NoDumps {
    fn begin() -> Self {
        CORE_DUMPS.begin();
        Self
    }
}

impl Drop for NoDumps {
    fn drop(&mut self) {
        CORE_DUMPS.end();
    }
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
            _no_dumps: NoDumps::begin(),
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
    fn core_dumps_hold_no_memory_while_there_are_keys() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display().to_string();
        fs::write(&path, "00000033\n").unwrap();
        let dumps = CoreDumps::new(path.leak());
        let mask = || fs::read_to_string(file.path()).unwrap();
        dumps.begin();
        dumps.begin();
        assert_eq!(mask(), "0x0");
        dumps.end();
        assert_eq!(mask(), "0x0");
        dumps.end();
        assert_eq!(mask(), "0x00000033");
        let _key = EncryptionKey::new(TEXT);
        if let Ok(mask) = fs::read_to_string("/proc/self/coredump_filter") {
            assert_eq!(mask.trim().trim_start_matches('0'), "");
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
