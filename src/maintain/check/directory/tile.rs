//! Reading of files that hold one generic tile.

use crate::error::{Error, ErrorKind, Result};
use crate::filter::GenericTile;
use crate::filter::generic_tile;
use crate::storage::Storage;

/// Reads a file of one generic tile: `Err` if the storage failed or a key is missing, and `Ok(Err(…))` if what is stored
/// is at fault.
pub async fn read(
    storage: &Storage,
    path: &str,
    what: &'static str,
) -> Result<Result<GenericTile, Error>> {
    let bytes = match storage.read(path).await {
        Ok(bytes) => bytes,
        Err(e) => return stored(e).map(Err),
    };
    match generic_tile::decode(&bytes, what, storage.encryption_key()) {
        Ok(tile) if tile.consumed < bytes.len() => {
            let more = bytes.len() - tile.consumed;
            let message = format!("{more} bytes follow the tile, expected none");
            Ok(Err(Error::corrupt(message)))
        }
        Ok(tile) => Ok(Ok(tile)),
        Err(e) => stored(e).map(Err),
    }
}

/// An error about what is stored; `Err` for any other.
pub fn stored(error: Error) -> Result<Error> {
    match error.kind() {
        ErrorKind::Corrupt | ErrorKind::Unsupported | ErrorKind::NotFound => Ok(error),
        _ => Err(error),
    }
}
