//! Tests on headers of generic tiles: sizes, filters and encryption.

use super::*;
use crate::filter::generic_tile;

/// A generic tile around `filtered` with the pipeline `filters`.
pub(super) fn boxed(filters: &str, tile_bytes: u64, encryption: u8, filtered: &[u8]) -> Vec<u8> {
    let pipeline = hex(filters);
    let mut bytes = 22_u32.to_le_bytes().to_vec();
    bytes.extend_from_slice(&(filtered.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&tile_bytes.to_le_bytes());
    bytes.push(4);
    bytes.extend_from_slice(&1_u64.to_le_bytes());
    bytes.push(encryption);
    bytes.extend_from_slice(&(pipeline.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&pipeline);
    bytes.extend_from_slice(filtered);
    bytes
}

pub(super) const NO_FILTERS: &str = "00000100 00000000";
pub(super) const ONE_GZIP: &str = "00000100 01000000 01 05000000 01 01000000";

#[test]
fn a_generic_tile_ends_where_its_header_says() {
    let filtered = tile(&[(3, vec![], b"abc".to_vec()), (1, vec![], b"d".to_vec())]);
    let mut bytes = boxed(NO_FILTERS, 4, 0, &filtered);
    let len = bytes.len();
    bytes.extend_from_slice(b"the next tile");
    let decoded = generic_tile::decode(&bytes, "test", None).unwrap();
    assert_eq!(decoded.data, b"abcd");
    assert_eq!(decoded.consumed, len);
    assert_eq!(decoded.version, 22);
    assert_eq!(generic_tile::encoded_len(&bytes).unwrap(), len as u64);
    for len in 0..len {
        assert!(generic_tile::decode(&bytes[..len], "test", None).is_err());
    }
    for wrong in [3, 5, u64::MAX] {
        let bytes = boxed(NO_FILTERS, wrong, 0, &filtered);
        assert!(generic_tile::decode(&bytes, "test", None).is_err());
    }
}

#[test]
fn an_empty_generic_tile_has_no_chunks() {
    let decoded = generic_tile::decode(&boxed(ONE_GZIP, 0, 0, &[0; 8]), "test", None).unwrap();
    assert!(decoded.data.is_empty());
}

#[test]
fn an_encrypted_generic_tile_says_so() {
    let error = generic_tile::decode(&boxed(ONE_GZIP, 0, 1, &[0; 8]), "test", None).unwrap_err();
    assert_eq!(error.kind(), crate::error::ErrorKind::Encryption);
    assert!(
        error.to_string().contains("the array is encrypted"),
        "{error}"
    );
}
