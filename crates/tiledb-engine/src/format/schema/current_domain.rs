//! The current domain (specification: "Array Schema File", Current Domain): the part of the domain in use.
//!
//! `u32 version = 0, u8 empty`, and unless empty `u8 type = 0` and one range per dimension. The subtle thing, contrary
//! to the specification's text: the flag is **1 for empty** (no restriction), and the version is 0.

use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::domain_range::DomainRange;
use crate::format::encoder::Encoder;
use crate::format::schema::Dimension;

/// The ranges that cells may use, inclusive, one per dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentDomain {
    /// One range per dimension.
    pub ranges: Vec<DomainRange>,
}

impl CurrentDomain {
    /// Reads a current domain; `None` if it is empty, which means no restriction.
    pub fn decode(cursor: &mut Cursor<'_>, dimensions: &[Dimension]) -> Result<Option<Self>> {
        let version = cursor.u32("current domain version")?;
        if version != 0 {
            return Err(Error::unsupported(format!(
                "the current domain has version {version}, expected 0: use a newer release"
            )));
        }
        if cursor.bool("current domain is empty")? {
            return Ok(None);
        }
        let kind = cursor.u8("current domain type")?;
        if kind != 0 {
            return Err(cursor.invalid("current domain type", kind, "0 (a rectangle)"));
        }
        let ranges = dimensions
            .iter()
            .map(|dimension| match dimension.cell_size() {
                Some(size) => DomainRange::decode_fixed(cursor, size),
                None => DomainRange::decode_var(cursor),
            })
            .collect::<Result<_>>()?;
        Ok(Some(Self { ranges }))
    }

    /// Writes a current domain, or that there is none.
    pub fn encode(domain: Option<&Self>, dimensions: &[Dimension], to: &mut Encoder) {
        to.u32(0);
        to.bool(domain.is_none());
        let Some(Self { ranges }) = domain else {
            return;
        };
        to.u8(0);
        for (range, dimension) in ranges.iter().zip(dimensions) {
            if dimension.is_var() {
                range.encode_var(to)
            } else {
                range.encode_fixed(to)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_means_empty_and_the_version_is_zero() {
        let decode = |bytes: &[u8]| CurrentDomain::decode(&mut Cursor::new(bytes, "t"), &[]);
        assert_eq!(decode(&[0, 0, 0, 0, 1]).unwrap(), None);
        let nothing = CurrentDomain { ranges: Vec::new() };
        assert_eq!(decode(&[0, 0, 0, 0, 0, 0]).unwrap(), Some(nothing));
        assert!(
            decode(&[1, 0, 0, 0, 1])
                .unwrap_err()
                .message()
                .contains("version 1")
        );
        assert!(decode(&[0, 0, 0, 0, 2]).is_err());
        assert!(
            decode(&[0, 0, 0, 0, 0, 1])
                .unwrap_err()
                .message()
                .contains("rectangle")
        );
    }
}
