//! What cannot be written is an error that says why.

use super::*;
use crate::error::{Error, ErrorKind};

fn list(filters: &[Filter]) -> FilterList {
    FilterList {
        max_chunk_bytes: 65536,
        filters: filters.to_vec(),
        ..FilterList::default()
    }
}

fn refused(filters: &[Filter], datatype: Datatype, tile: &[u8]) -> Error {
    let context = context(datatype, false);
    let encoder = TileEncoder::new(&list(filters), &context);
    encoder
        .and_then(|mut encoder| encoder.encode(tile))
        .unwrap_err()
}

fn doubles(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

const SCALE: Filter = Filter::ScaleFloat {
    scale: 0.5,
    offset: 1.0,
    byte_width: 1,
};

#[test]
fn values_that_a_filter_cannot_hold() {
    let ints: Vec<u8> = [3_i32, 2].iter().flat_map(|v| v.to_le_bytes()).collect();
    let error = refused(&[Filter::PositiveDelta], Datatype::Int32, &ints);
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.message().contains("decrease"), "{error}");
    // The integers -128 and 127 fit, those beside them do not.
    for value in [64.75, -63.25, f64::NAN, f64::INFINITY] {
        let error = refused(&[SCALE], Datatype::Float64, &doubles(&[1.0, value]));
        assert!(error.message().contains("integers of 8 bits"), "{error}");
    }
    let values = doubles(&[64.5, -63.0]);
    let context = context(Datatype::Float64, false);
    let mut encoder = TileEncoder::new(&list(&[SCALE]), &context).unwrap();
    let written = encoder.encode(&values).unwrap();
    assert_eq!(decode(&[SCALE], &context, &written, 16).unwrap(), values);
}

#[test]
fn filters_that_cannot_be_written() {
    for (filter, name) in [
        (Filter::Bitsort, "bitsort"),
        (Filter::WebP(None), "webp"),
        (Filter::Unknown(42), "unknown (42)"),
    ] {
        let error = refused(&[filter], Datatype::UInt8, &[1]);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(name), "{error}");
    }
    // Behind a compressor the cells are no longer whole.
    for filter in [Filter::Rle, Filter::Delta(None)] {
        let error = refused(&[Filter::Gzip, filter], Datatype::UInt64, &[7; 64]);
        assert!(error.message().contains("first"), "{error}");
    }
}

#[test]
fn nothing_is_stored_of_a_tile_without_bytes() {
    for filters in [
        vec![],
        vec![Filter::DoubleDelta(None)],
        vec![Filter::BitWidthReduction],
        vec![Filter::Zstd],
    ] {
        let context = context(Datatype::UInt64, true);
        let mut encoder = TileEncoder::new(&list(&filters), &context).unwrap();
        assert_eq!(encoder.encode(&[]).unwrap(), [0; 8]);
        assert_eq!(encoder.encode_var(&[], &[0, 0, 0]).unwrap(), [0; 8]);
    }
}
