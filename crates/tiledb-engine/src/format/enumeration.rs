//! Enumerations (specification: "Enumerations"): the members that an attribute's integers index.
//!
//! The tile holds the name, the file's own name, the type and the members' bytes; start offsets follow **only** if
//! members differ in size. The subtle thing: an index beyond the members is legal on storage and means "no value".

use super::cursor::Cursor;
use super::datatype::Datatype;
use super::encoder::Encoder;
use super::schema::CellValNum;
use crate::error::{Error, Result};

/// An enumeration with all its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enumeration {
    /// The name by which attributes refer to it.
    pub name: String,
    /// The name of the file itself.
    pub file: String,
    /// The type of a member's elements.
    pub datatype: Datatype,
    /// Elements per member.
    pub cell_val_num: CellValNum,
    /// Whether the order of members is meaningful.
    pub ordered: bool,
    /// The members, concatenated.
    pub data: Vec<u8>,
    /// The start of each member; only if they differ in size.
    pub offsets: Option<Vec<u64>>,
}

impl Enumeration {
    /// Reads an enumeration and checks that its members lie inside its data.
    pub fn decode(tile: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(tile, "enumeration");
        let version = cursor.u32("version")?;
        if version != 0 {
            return Err(Error::unsupported(format!(
                "the enumeration has version {version}, expected 0: use a newer release"
            )));
        }
        let name = cursor.string_u32("name")?;
        let decoded = Self::decode_body(&mut cursor, &name);
        decoded.map_err(|e| e.with("enumeration", &name))
    }

    fn decode_body(cursor: &mut Cursor<'_>, name: &str) -> Result<Self> {
        let file = cursor.string_u32("file name")?;
        let datatype = Datatype::from_code(cursor.u8("datatype")?)?;
        let cell_val_num = CellValNum::decode(cursor)?;
        let ordered = cursor.bool("ordered")?;
        let data_bytes = cursor.u64("data bytes")?;
        let data = cursor.bytes_u64(data_bytes, "data")?.to_vec();
        let offsets = match cell_val_num.cell_size(datatype)? {
            Some(size) => {
                check_whole(cursor, data.len(), size)?;
                None
            }
            None => Some(decode_offsets(cursor, &data, datatype.size())?),
        };
        if cursor.remaining() != 0 {
            return Err(cursor.invalid("bytes after the end", cursor.remaining(), "none"));
        }
        Ok(Self {
            name: name.to_owned(),
            file,
            datatype,
            cell_val_num,
            ordered,
            data,
            offsets,
        })
    }

    /// Writes the enumeration.
    ///
    /// # Errors
    /// A name is too long.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut to = Encoder::new();
        to.u32(0);
        to.bytes_u32(self.name.as_bytes(), "name")?;
        to.bytes_u32(self.file.as_bytes(), "file name")?;
        to.u8(self.datatype.code());
        to.u32(self.cell_val_num.count());
        to.bool(self.ordered);
        to.bytes_u64(&self.data);
        if let Some(offsets) = &self.offsets {
            to.count_u64(offsets.len().saturating_mul(8));
            offsets.iter().for_each(|offset| to.u64(*offset));
        }
        Ok(to.finish())
    }

    /// Whether another enumeration has the same name, type and members, in whatever file.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let nowhere = |enumeration: &Self| Self {
            file: String::new(),
            ..enumeration.clone()
        };
        nowhere(self) == nowhere(other)
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        match (&self.offsets, self.member_size()) {
            (Some(offsets), _) => offsets.len(),
            (None, Some(size)) => self.data.len() / size.max(1),
            (None, None) => 0,
        }
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether its first members are those of `known`, so that stored codes keep their meaning.
    pub fn extends(&self, known: &Self) -> bool {
        let same_type = known.datatype == self.datatype
            && known.cell_val_num == self.cell_val_num
            && known.ordered == self.ordered;
        same_type
            && known.len() <= self.len()
            && (0..known.len()).all(|index| known.member(index) == self.member(index))
    }

    /// The bytes of a member; `None` beyond the last one.
    pub fn member(&self, index: usize) -> Option<&[u8]> {
        let (start, end) = match &self.offsets {
            Some(offsets) => {
                let start = usize::try_from(*offsets.get(index)?).ok()?;
                let end = match offsets.get(index.checked_add(1)?) {
                    Some(next) => usize::try_from(*next).ok()?,
                    None => self.data.len(),
                };
                (start, end)
            }
            None => {
                let size = self.member_size()?;
                let start = index.checked_mul(size)?;
                (start, start.checked_add(size)?)
            }
        };
        self.data.get(start..end)
    }

    fn member_size(&self) -> Option<usize> {
        self.cell_val_num.cell_size(self.datatype).ok().flatten()
    }
}

fn check_whole(cursor: &Cursor<'_>, bytes: usize, size: usize) -> Result<()> {
    if bytes.checked_rem(size) == Some(0) {
        return Ok(());
    }
    Err(cursor.invalid(
        "data bytes",
        bytes,
        format_args!("a multiple of the {size} bytes of a member"),
    ))
}

fn decode_offsets(cursor: &mut Cursor<'_>, data: &[u8], element_size: usize) -> Result<Vec<u64>> {
    let bytes = cursor.u64("offsets bytes")?;
    let (chunks, rest) = cursor.bytes_u64(bytes, "offsets")?.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(cursor.invalid("offsets bytes", bytes, "a multiple of 8"));
    }
    let offsets: Vec<u64> = chunks
        .iter()
        .map(|chunk| u64::from_le_bytes(*chunk))
        .collect();
    let len = data.len() as u64;
    let element_size = element_size as u64;
    let mut previous = 0;
    for (index, &offset) in offsets.iter().enumerate() {
        let first_is_not_zero = index == 0 && offset != 0;
        let splits_element = offset.checked_rem(element_size) != Some(0);
        if first_is_not_zero || splits_element || offset < previous || offset > len {
            return Err(cursor.invalid(
                "offset of a member",
                format_args!("{offset} (member {index})"),
                format_args!(
                    "ascending whole elements from 0 to the data's {len} bytes, the one before is {previous}"
                ),
            ));
        }
        previous = offset;
    }
    if offsets.is_empty() && len != 0 {
        return Err(cursor.invalid(
            "offsets bytes",
            0,
            format_args!("offsets into the {len} bytes of data"),
        ));
    }
    if len.checked_rem(element_size) != Some(0) {
        return Err(cursor.invalid(
            "data bytes",
            len,
            format_args!("whole elements of {element_size} bytes"),
        ));
    }
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fixtures::{bytes, refuses_every_prefix, survives_bit_flips};

    #[test]
    fn members_of_two_sizes() {
        let colours = Enumeration::decode(&bytes("enumeration.colours")).unwrap();
        assert_eq!((colours.name.as_str(), colours.ordered), ("colours", true));
        assert_eq!((colours.len(), colours.is_empty()), (3, false));
        let members: Vec<_> = (0..4).map(|i| colours.member(i)).collect();
        assert_eq!(members, [Some(&b"red"[..]), Some(b""), Some(b"blue"), None]);
        assert!(colours.file.starts_with("__") && colours.file.ends_with("_0"));

        let sizes = Enumeration::decode(&bytes("enumeration.sizes")).unwrap();
        assert_eq!(
            (sizes.datatype, sizes.ordered, sizes.len()),
            (Datatype::Int64, false, 3)
        );
        assert_eq!(sizes.member(1), Some(&1i64.to_le_bytes()[..]));
        assert_eq!((sizes.member(3), &sizes.offsets), (None, &None));
    }

    #[test]
    fn broken_ones_are_refused() {
        for name in ["enumeration.colours", "enumeration.sizes"] {
            refuses_every_prefix(&bytes(name), Enumeration::decode);
            survives_bit_flips(&bytes(name), Enumeration::decode);
        }
        let good = bytes("enumeration.colours");
        let refused = |from_end: usize, value: u64| {
            let mut changed = good.clone();
            let at = changed.len() - from_end;
            changed[at..at + 8].copy_from_slice(&value.to_le_bytes());
            Enumeration::decode(&changed).unwrap_err()
        };
        // The offsets are 0, 3, 3.
        assert!(refused(24, 1).message().contains("offset of a member"));
        assert!(refused(16, 4).message().contains("3 (member 2)"));
        assert!(refused(8, 8).message().contains("the data's 7 bytes"));
        assert!(
            refused(8, u64::MAX)
                .with("x", 1)
                .to_string()
                .contains("enumeration colours")
        );
        let mut newer = good.clone();
        newer[0] = 1;
        assert!(
            Enumeration::decode(&newer)
                .unwrap_err()
                .message()
                .contains("version 1")
        );
    }
}
