//! The names of cached entries, in memory and on disk.
//!
//! An entry on disk begins with the identity of its folder, which is random. Bytes of a cached object can look like an
//! entry, and foyer may find such bytes when it searches its files. Nobody else knows the identity, so these forgeries
//! never equal the key of a real entry.

use std::hash::{Hash, Hasher};
use std::io::{Read, Write};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use foyer::{Code, Error, ErrorKind};

/// The object, and the part of its bytes, that a cached entry holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CachedRange {
    store: Arc<str>,
    path: Arc<str>,
    part: CachedPart,
}

/// The part of an object that an entry holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum CachedPart {
    /// Exactly these bytes.
    Range(Range<u64>),
    /// The size of the object and some of its last bytes, or all of them.
    End,
}

impl CachedPart {
    /// Both ends of the range. Those of [`CachedPart::End`] are the wrong way round, so no range has them.
    fn ends(&self) -> [u64; 2] {
        match self {
            Self::Range(range) => [range.start, range.end],
            Self::End => [u64::MAX, 0],
        }
    }

    fn of_ends(ends: [u64; 2]) -> Self {
        let [start, end] = ends;
        if Self::End.ends() == ends {
            Self::End
        } else {
            Self::Range(start..end)
        }
    }
}

impl CachedRange {
    /// Names a range of the object at `path` of `store`, which is the endpoint and bucket of an object store.
    pub fn new(store: impl Into<Arc<str>>, path: impl Into<Arc<str>>, range: Range<u64>) -> Self {
        Self {
            store: store.into(),
            path: path.into(),
            part: CachedPart::of_ends([range.start, range.end]),
        }
    }

    /// Names the size and the last bytes of the object at `path` of `store`. An object has one such entry, whatever the number of
    /// its bytes, so that it serves everybody who needs as many or fewer.
    pub fn end(store: impl Into<Arc<str>>, path: impl Into<Arc<str>>) -> Self {
        Self {
            store: store.into(),
            path: path.into(),
            part: CachedPart::End,
        }
    }

    /// The endpoint and bucket of the object.
    pub fn store(&self) -> &str {
        &self.store
    }

    /// The path of the object in its store.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The range of bytes; `None` for an [end](Self::end).
    pub fn range(&self) -> Option<&Range<u64>> {
        match &self.part {
            CachedPart::Range(range) => Some(range),
            CachedPart::End => None,
        }
    }

    /// Whether an entry of `length_bytes` can be this part. An empty range has no valid length.
    pub(super) fn has_length(&self, length_bytes: usize) -> bool {
        match &self.part {
            CachedPart::Range(range) => {
                let expected = range.end.saturating_sub(range.start);
                expected > 0 && u64::try_from(length_bytes) == Ok(expected)
            }
            CachedPart::End => length_bytes >= SIZE_BYTES,
        }
    }
}

/// The size of an object, with its last bytes or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedEnd {
    /// The last bytes.
    pub bytes: Bytes,
    /// The size of the whole object.
    pub object_bytes: u64,
}

/// What the size of an object takes in an entry. It follows the bytes.
const SIZE_BYTES: usize = 8;

impl CachedEnd {
    pub(super) fn encode(&self) -> Bytes {
        let mut encoded = Vec::with_capacity(self.bytes.len().saturating_add(SIZE_BYTES));
        encoded.extend_from_slice(&self.bytes);
        encoded.extend_from_slice(&self.object_bytes.to_le_bytes());
        encoded.into()
    }

    pub(super) fn decode(encoded: &Bytes) -> Option<Self> {
        let (bytes, size) = encoded.split_last_chunk::<SIZE_BYTES>()?;
        let object_bytes = u64::from_le_bytes(*size);
        let is_possible = u64::try_from(bytes.len()).is_ok_and(|length| length <= object_bytes);
        is_possible.then(|| Self {
            bytes: encoded.slice(..bytes.len()),
            object_bytes,
        })
    }
}

/// The random number of a cache folder.
pub(super) type FolderIdentity = [u8; 16];

/// The key of an entry on disk: a range, in the cache of one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntryKey {
    identity: FolderIdentity,
    cached: CachedRange,
}

/// The identity, both ends of the range, and the length of the store's name.
const FIXED_KEY_BYTES: usize = size_of::<FolderIdentity>() + 8 + 8 + 4;

impl EntryKey {
    pub(super) fn new(identity: FolderIdentity, cached: CachedRange) -> Self {
        Self { identity, cached }
    }

    pub(super) fn cached(&self) -> &CachedRange {
        &self.cached
    }

    fn parse(encoded: &[u8]) -> Option<Self> {
        let (identity, rest) = encoded.split_first_chunk::<16>()?;
        let (start, rest) = rest.split_first_chunk::<8>()?;
        let (end, rest) = rest.split_first_chunk::<8>()?;
        let (store_length, rest) = rest.split_first_chunk::<4>()?;
        let store_length = usize::try_from(u32::from_le_bytes(*store_length)).ok()?;
        let (store, path) = rest.split_at_checked(store_length)?;
        let cached = CachedRange {
            store: str::from_utf8(store).ok()?.into(),
            path: str::from_utf8(path).ok()?.into(),
            part: CachedPart::of_ends([start, end].map(|end| u64::from_le_bytes(*end))),
        };
        Some(Self::new(*identity, cached))
    }
}

/// Hashes are kept on disk. This one doesn't depend on how a release of Rust hashes strings and ranges.
impl Hash for EntryKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.identity);
        for end in self.cached.part.ends() {
            state.write(&end.to_le_bytes());
        }
        state.write(self.cached.store.as_bytes());
        state.write(&[0]);
        state.write(self.cached.path.as_bytes());
    }
}

impl Code for EntryKey {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        let store_length = u32::try_from(self.cached.store.len()).map_err(|_| {
            Error::new(
                ErrorKind::OutOfRange,
                "the name of a store has more than 4 GiB",
            )
        })?;
        writer.write_all(&self.identity)?;
        for end in self.cached.part.ends() {
            writer.write_all(&end.to_le_bytes())?;
        }
        writer.write_all(&store_length.to_le_bytes())?;
        writer.write_all(self.cached.store.as_bytes())?;
        writer.write_all(self.cached.path.as_bytes())?;
        Ok(())
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<Self> {
        let mut encoded = Vec::new();
        reader.read_to_end(&mut encoded)?;
        Self::parse(&encoded)
            .ok_or_else(|| Error::new(ErrorKind::Parse, "the key of a cached entry is damaged"))
    }

    fn estimated_size(&self) -> usize {
        FIXED_KEY_BYTES + self.cached.store.len() + self.cached.path.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded_key(key: &EntryKey) -> Vec<u8> {
        let mut encoded = Vec::new();
        key.encode(&mut encoded).unwrap();
        encoded
    }

    #[test]
    fn keys_survive_their_encoding() {
        let key = EntryKey::new(
            [7; 16],
            CachedRange::new("https://s3/bucket", "array/ä.tdb", 5..u64::MAX),
        );
        let encoded = encoded_key(&key);
        assert_eq!(encoded.len(), key.estimated_size());
        assert_eq!(EntryKey::decode(&mut &encoded[..]).unwrap(), key);
    }

    #[test]
    fn ends_are_no_ranges() {
        let end = EntryKey::new([7; 16], CachedRange::end("s", "p"));
        assert_eq!(EntryKey::decode(&mut &encoded_key(&end)[..]).unwrap(), end);
        for range in [0..0, 0..u64::MAX, u64::MAX..u64::MAX] {
            let range = EntryKey::new([7; 16], CachedRange::new("s", "p", range));
            assert_ne!(range, end);
            assert_ne!(encoded_key(&range), encoded_key(&end));
        }
        let whole = CachedEnd {
            bytes: Bytes::from_static(b"all of it"),
            object_bytes: 9,
        };
        assert!(end.cached().has_length(whole.encode().len()));
        assert_eq!(CachedEnd::decode(&whole.encode()), Some(whole.clone()));
        let empty = CachedEnd {
            bytes: Bytes::new(),
            object_bytes: 0,
        };
        assert_eq!(CachedEnd::decode(&empty.encode()), Some(empty));
        // More bytes than the object has, and fewer than a size takes.
        let object_bytes = 8;
        let forged = CachedEnd {
            object_bytes,
            ..whole
        };
        assert_eq!(CachedEnd::decode(&forged.encode()), None);
        assert_eq!(CachedEnd::decode(&Bytes::from_static(b"7 bytes")), None);
        assert!(!end.cached().has_length(7));
    }

    #[test]
    fn damaged_keys_are_errors_or_other_keys() {
        let key = EntryKey::new([7; 16], CachedRange::new("store", "path", 0..9));
        let encoded = encoded_key(&key);
        for length in 0..encoded.len() {
            assert!(EntryKey::decode(&mut &encoded[..length]).map_or(true, |other| other != key));
        }
        for (index, bit) in (0..encoded.len()).flat_map(|index| (0..8).map(move |bit| (index, bit)))
        {
            let mut damaged = encoded.clone();
            damaged[index] ^= 1 << bit;
            assert!(EntryKey::decode(&mut &damaged[..]).map_or(true, |other| other != key));
        }
    }

    #[test]
    fn lengths_belong_to_ranges() {
        assert!(CachedRange::new("s", "p", 4..9).has_length(5));
        assert!(!CachedRange::new("s", "p", 4..9).has_length(4));
        assert!(!CachedRange::new("s", "p", 4..4).has_length(0));
        #[expect(
            clippy::reversed_empty_ranges,
            reason = "the range that the test is about"
        )]
        let reversed = CachedRange::new("s", "p", 9..4);
        assert!(!reversed.has_length(0));
    }
}
