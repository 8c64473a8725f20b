//! From stored bytes to the bytes of cells, and back (specification: "Filter Pipeline" and the page of each filter).
//!
//! A [`Pipeline`] decodes tiles, a [`TileEncoder`] encodes them; what each filter does is in its own file, in both
//! directions. A [`Pipeline`] is compiled once per kind of tile, because a filter depends on the output datatype of the filter
//! before it, on versions, and on whether the tile holds strings with their offsets. [`FilterScratch`] keeps buffers and
//! decompression contexts from tile to tile; nothing is allocated per chunk. This layer knows only bytes. Every length
//! in a tile is untrusted: an intermediate buffer grows as bytes are decompressed, never by what a header claims, and never beyond
//! what a writer can have made of the tile (`bounds.rs`).

mod aes_256_gcm;
mod bit_width_reduction;
mod bitshuffle;
mod bitsort;
mod bounds;
mod buffer;
mod byteshuffle;
mod bzip2;
mod checksum;
mod chunk;
mod compression;
mod delta;
mod dictionary;
mod double_delta;
mod encoded_strings;
mod encoder;
mod encryption_key;
mod float_scale;
pub mod generic_tile;
mod gzip;
mod lz4;
mod parts;
mod pipeline;
mod planes;
mod positive_delta;
mod rle;
mod scratch;
mod stage;
mod streaming;
mod strings;
mod webp;
mod word;
mod xor;
mod zstd;

#[cfg(test)]
mod tests;

pub use bitsort::restore_order;
pub use buffer::DecodeWork;
pub use chunk::{ChunkChoice, expect_unfiltered_bytes, is_empty_tile};
pub use encoded_strings::EncodedStrings;
pub use encoder::{TileEncoder, without_chunks};
pub use encryption_key::{EncryptionKey, KEY_BYTES, KeyFingerprint};
pub use float_scale::FloatScale;
pub use generic_tile::GenericTile;
pub use pipeline::{Pipeline, SkippedContents};
pub use scratch::{EncodeWorkspace, FilterScratch};
pub use stage::TileContext;
