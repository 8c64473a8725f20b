//! Array and group metadata: key-value pairs (specification: "Metadata").
//!
//! There is one tile per write: `u32 length, key, u8 deleted`, and unless deleted `u8 type, u32 count, value`. The
//! subtle things: a value of count 0 exists and is empty, which differs from a deleted one; and keys are bytes that
//! need not be text.

use super::cursor::Cursor;
use super::datatype::Datatype;
use super::encoder::Encoder;
use crate::error::Result;

/// A key that was set or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataEntry {
    /// The key, usually text.
    pub key: Vec<u8>,
    /// The value; `None` = the key was deleted.
    pub value: Option<MetadataValue>,
}

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataValue {
    /// The type of an element.
    pub datatype: Datatype,
    /// The number of elements.
    pub count: u32,
    /// The elements, raw little-endian.
    pub bytes: Vec<u8>,
}

/// Reads the entries of one metadata file, in order; a later entry for a key replaces an earlier one.
pub fn decode_metadata(tile: &[u8]) -> Result<Vec<MetadataEntry>> {
    let mut cursor = Cursor::new(tile, "metadata");
    let mut entries = Vec::new();
    while cursor.remaining() > 0 {
        let length = cursor.u32("key bytes")?;
        let key = cursor.bytes_u64(u64::from(length), "key")?.to_vec();
        let value =
            decode_value(&mut cursor).map_err(|e| e.with("key", String::from_utf8_lossy(&key)))?;
        entries.push(MetadataEntry { key, value });
    }
    Ok(entries)
}

fn decode_value(cursor: &mut Cursor<'_>) -> Result<Option<MetadataValue>> {
    if cursor.bool("deleted")? {
        return Ok(None);
    }
    let datatype = Datatype::from_code(cursor.u8("datatype")?)?;
    let count = cursor.u32("number of elements")?;
    let bytes = u64::from(count) * datatype.size() as u64;
    Ok(Some(MetadataValue {
        datatype,
        count,
        bytes: cursor.bytes_u64(bytes, "value")?.to_vec(),
    }))
}

/// Writes the entries of one metadata file, in order.
///
/// # Errors
/// A key is too long.
pub fn encode_metadata(entries: &[MetadataEntry]) -> Result<Vec<u8>> {
    let mut to = Encoder::new();
    for MetadataEntry { key, value } in entries {
        to.bytes_u32(key, "key bytes")?;
        to.bool(value.is_none());
        if let Some(value) = value {
            to.u8(value.datatype.code());
            to.u32(value.count);
            to.bytes(&value.bytes);
        }
    }
    Ok(to.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fixtures::{bytes, survives_bit_flips};

    #[test]
    fn set_empty_and_deleted_keys() {
        let entries = decode_metadata(&bytes("keyed.0")).unwrap();
        let find = |key: &str| {
            entries
                .iter()
                .find(|e| e.key == key.as_bytes())
                .unwrap()
                .value
                .as_ref()
                .unwrap()
        };
        let answer = find("answer");
        assert_eq!((answer.datatype, answer.count), (Datatype::Int64, 1));
        assert_eq!(answer.bytes, 42i64.to_le_bytes());
        let text = find("text");
        assert_eq!(
            (text.datatype, text.bytes.as_slice()),
            (Datatype::StringUtf8, "hé".as_bytes())
        );
        assert_eq!(find("empty").bytes, b"");
        let deleted = decode_metadata(&bytes("keyed.1")).unwrap();
        let answer = deleted.iter().find(|e| e.key == b"answer").unwrap();
        assert_eq!(answer.value, None);
    }

    #[test]
    fn truncations_and_bit_flips() {
        let tile = bytes("keyed.0");
        let entries = decode_metadata(&tile).unwrap();
        for len in 0..tile.len() {
            // A truncation between two entries cannot be detected.
            if let Ok(fewer) = decode_metadata(&tile[..len]) {
                assert_eq!(fewer, entries[..fewer.len()]);
            }
        }
        survives_bit_flips(&tile, decode_metadata);
    }
}
