//! AES-256-GCM: tiles that libtiledb 2.30 wrote, and the effect of flipped bits.

use std::sync::Arc;

use super::*;
use crate::error::ErrorKind;
use crate::filter::{EncryptionKey, Pipeline, generic_tile};

/// `INT32` 1, 2, 3, -4 without filters.
const PLAIN: &str = "0100000000000000 100000001000 00002c000000 0000000001000000 1000000010000000
    1b705511664671a882527ee9 e91b9e26bf035c4076c45654969e8c6d f130d3e293ea8ab90b849254420c6880";
/// `INT32` 5, 6, 7, -8 through byte shuffle and gzip.
const STACKED: &str = "0100000000000000 100000003700 000050000000 0100000001000000
    1800000018000000 808d436542bb67ff78910fab 8421fcadc9fe4a73b80372e60b0dc8b0
    1f0000001f000000 861446e47f203604fb3deb70 102e6072b5ba5c3757021ffd10ebd38b
    13ce97a1b8821d9b443760f67b730f77adad9590b43fea64
    8675d06d4fa8b79b13b5377b697f6d5a206f732aa276ffdd0711bf3e2afe5d";

fn key() -> Arc<EncryptionKey> {
    Arc::new(EncryptionKey::new(b"0123456789abcdeF0123456789abcdeF"))
}

fn encrypted(filters: &[Filter], key: Option<&Arc<EncryptionKey>>) -> Pipeline {
    let list = FilterList {
        max_chunk_bytes: 65536,
        filters: filters.to_vec(),
        ..FilterList::default()
    };
    Pipeline::new(&list, &context(Datatype::Int32, false), key).unwrap()
}

fn decrypt(
    filters: &[Filter],
    key: &Arc<EncryptionKey>,
    filtered: &[u8],
    bytes: usize,
) -> Result<Vec<u8>> {
    let mut out = vec![0xAA; bytes];
    encrypted(filters, Some(key)).decode(filtered, &mut out, &mut FilterScratch::default())?;
    Ok(out)
}

fn ints(values: [i32; 4]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

const FILTERS: [Filter; 2] = [Filter::ByteShuffle, Filter::Gzip];

fn vectors() -> [(&'static [Filter], Vec<u8>, Vec<u8>); 2] {
    [
        (&[], hex(PLAIN), ints([1, 2, 3, -4])),
        (&FILTERS, hex(STACKED), ints([5, 6, 7, -8])),
    ]
}

#[test]
fn tiles_of_libtiledb_are_decrypted() {
    for (filters, filtered, expected) in vectors() {
        assert_eq!(decrypt(filters, &key(), &filtered, 16).unwrap(), expected);
    }
}

#[test]
fn a_wrong_key_and_no_key_are_told() {
    let wrong = Arc::new(EncryptionKey::new(&[7; 32]));
    for (filters, filtered, _) in vectors() {
        let error = decrypt(filters, &wrong, &filtered, 16).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Encryption);
        assert!(error.to_string().contains("key does not fit"), "{error}");
        let plain = encrypted(filters, None);
        let (mut out, mut scratch) = ([0; 16], FilterScratch::default());
        // Without filters the cipher text has the length of the cells, so only the array shows that it is encrypted.
        let undone = plain.decode(&filtered, &mut out, &mut scratch);
        assert_eq!(undone.is_ok(), filters.is_empty());
    }
}

#[test]
fn every_bit_of_an_encrypted_tile_counts() {
    for (filters, filtered, _) in vectors() {
        for bit in 0..filtered.len() * 8 {
            let mut flipped = filtered.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decrypt(filters, &key(), &flipped, 16).is_err(), "bit {bit}");
        }
        for len in 0..filtered.len() {
            assert!(decrypt(filters, &key(), &filtered[..len], 16).is_err());
        }
        for len in [0, 15, 17] {
            assert!(decrypt(filters, &key(), &filtered, len).is_err());
        }
    }
}

#[test]
fn lying_parts_are_refused() {
    let part = |plain: u32, cipher: u32| {
        [
            &plain.to_le_bytes()[..],
            &cipher.to_le_bytes(),
            &[0; 12 + 16],
        ]
        .concat()
    };
    let count = |metadata: u32, data: u32| [metadata.to_le_bytes(), data.to_le_bytes()].concat();
    for metadata in [
        count(u32::MAX, 1),
        count(0, u32::MAX),
        [count(0, 1), part(16, 17)].concat(),
        [count(0, 1), part(u32::MAX, u32::MAX)].concat(),
        [count(1, 0), part(u32::MAX, u32::MAX)].concat(),
        [count(0, 1), part(8, 8)].concat(),
        count(0, 0),
        vec![],
    ] {
        let filtered = tile(&[(16, metadata, vec![0; 16])]);
        for filters in [&[][..], &FILTERS] {
            let error = decrypt(filters, &key(), &filtered, 16).unwrap_err();
            assert!(!error.to_string().contains("internal"), "{error}");
        }
    }
}

#[test]
fn the_header_of_a_generic_tile_must_agree_with_its_filters() {
    const GZIP_AND_AES: &str = "00000100 02000000 01 05000000 01 01000000 0b 00000000";
    let key = key();
    for (filters, encrypted, fits) in [
        (GZIP_AND_AES, 1, true),
        (ONE_GZIP, 0, true),
        (NO_FILTERS, 0, true),
        (GZIP_AND_AES, 0, false),
        (ONE_GZIP, 1, false),
    ] {
        let bytes = boxed(filters, 0, encrypted, &[0; 8]);
        let decoded = generic_tile::decode_or_plain(&bytes, "test", Some(&key));
        assert_eq!(decoded.is_ok(), fits, "{decoded:?}");
        if let Ok(decoded) = decoded {
            assert_eq!(decoded.encrypted, encrypted == 1);
        }
        // Otherwise, anybody who can write to the folder could put plain tiles there.
        let decoded = generic_tile::decode(&bytes, "test", Some(&key));
        assert_eq!(decoded.is_ok(), fits && encrypted == 1);
        if let (Err(error), true) = (decoded, fits) {
            assert_eq!(error.kind(), ErrorKind::NotEncrypted);
        }
    }
    let bytes = boxed(GZIP_AND_AES, 0, 1, &[0; 8]);
    let error = generic_tile::decode(&bytes, "test", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Encryption);
}

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
