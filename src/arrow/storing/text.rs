//! Text and bytes as stored cells.

use crate::arrow::text::Encoding;
use crate::error::{Error, Result};

/// Appends one value; `None` stores bytes as they are.
pub(super) fn append(encoding: Option<Encoding>, value: &[u8], to: &mut Vec<u8>) -> Result<()> {
    let text = || {
        str::from_utf8(value)
            .map_err(|error| Error::invalid("the text is not valid").with_source(error))
    };
    match encoding {
        None | Some(Encoding::Utf8) => to.extend_from_slice(value),
        Some(Encoding::Utf16) => {
            to.extend(text()?.encode_utf16().flat_map(u16::to_le_bytes));
        }
        Some(Encoding::Utf32) => {
            to.extend(text()?.chars().flat_map(|c| u32::from(c).to_le_bytes()));
        }
    }
    Ok(())
}
