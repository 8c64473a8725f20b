//! Group details: the members of a group (specification: "Group").
//!
//! There is one tile per write: `u32 version, u64 number of members`, and per member `u32 version, u8 object type, u8
//! relative, u64 length, URI, u8 named, [u64 length, name]`, and `u8 deleted` in members of version 2. The subtle
//! thing: a file of version 1 is the complete list at its time, one of version 2 a list of changes to all files before
//! it. The count is 64 bits wide although the specification says 32, and members have their own version, which may
//! differ from that of the file.

use std::fmt;

use super::cursor::Cursor;
use super::encoder::Encoder;
use crate::error::{Error, Result};

/// The smallest size of a member: without URI and name, in version 1.
const MEMBER_BYTES: usize = 4 + 1 + 1 + 8 + 1;

/// The type of a group member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// Another group.
    Group,
    /// An array.
    Array,
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Group => "group",
            Self::Array => "array",
        })
    }
}

/// One file of group details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDetails {
    /// Whether the file replaces all older files (version 1) instead of changing their members.
    pub complete: bool,
    /// The members, or the changes to them, in the order of the file.
    pub members: Vec<MemberEntry>,
}

/// A member in a file of group details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberEntry {
    /// The version of its record, 1 or 2; that of the file may be another.
    pub version: u32,
    /// Its type.
    pub kind: ObjectKind,
    /// Whether [`Self::uri`] is relative to the group's own folder.
    pub relative: bool,
    /// Its URI.
    pub uri: String,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Whether the file removes the member.
    pub deleted: bool,
}

impl MemberEntry {
    /// The key that identifies a member in the group: its name, or its URI if it has none.
    pub fn key(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.uri)
    }
}

impl GroupDetails {
    /// Reads the unfiltered contents of a file of `__group`.
    pub fn decode(tile: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(tile, "group details");
        let complete = match cursor.u32("version")? {
            1 => true,
            2 => false,
            other => return Err(unknown_version("group details", other)),
        };
        let count = cursor.count_u64(MEMBER_BYTES, "number of members")?;
        let mut members = Vec::with_capacity(count);
        for index in 0..count {
            let member = decode_member(&mut cursor).map_err(|e| e.with("member", index))?;
            members.push(member);
        }
        if cursor.remaining() > 0 {
            return Err(Error::corrupt(format!(
                "group details: {} bytes follow the last of {count} members, expected none",
                cursor.remaining()
            )));
        }
        Ok(Self { complete, members })
    }

    /// Writes the details. A record of version 1 has no room for a deletion.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::new();
        to.u32(if self.complete { 1 } else { 2 });
        to.count_u64(self.members.len());
        for member in &self.members {
            to.u32(member.version);
            to.u8(match member.kind {
                ObjectKind::Group => 1,
                ObjectKind::Array => 2,
            });
            to.bool(member.relative);
            to.bytes_u64(member.uri.as_bytes());
            to.bool(member.name.is_some());
            if let Some(name) = &member.name {
                to.bytes_u64(name.as_bytes());
            }
            if member.version >= 2 {
                to.bool(member.deleted);
            }
        }
        to.finish()
    }
}

fn decode_member(cursor: &mut Cursor<'_>) -> Result<MemberEntry> {
    let version = cursor.u32("member version")?;
    if !(1..=2).contains(&version) {
        return Err(unknown_version("group member", version));
    }
    let kind = match cursor.u8("object type")? {
        1 => ObjectKind::Group,
        2 => ObjectKind::Array,
        other => return Err(cursor.invalid("object type", other, "1 (group) or 2 (array)")),
    };
    let relative = cursor.bool("relative")?;
    let uri = cursor.string_u64("URI")?;
    let name = if cursor.bool("named")? {
        Some(cursor.string_u64("name")?)
    } else {
        None
    };
    let deleted = version >= 2 && cursor.bool("deleted")?;
    Ok(MemberEntry {
        version,
        kind,
        relative,
        uri,
        name,
        deleted,
    })
}

fn unknown_version(what: &str, version: u32) -> Error {
    Error::unsupported(format!(
        "{what}: version {version} is not one this release reads, which are 1 and 2"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::format::fixtures::{refuses_every_prefix, survives_bit_flips, unhex};

    /// libtiledb 2.8: the group "sub" by the name "nested", and the group "y" without a name.
    const VERSION_1: &str = "01000000 0200000000000000
        01000000 01 01 0300000000000000 737562 01 0600000000000000 6e6573746564
        01000000 01 01 0100000000000000 79 00";
    /// libtiledb 2.15: "X" is removed, "nested" is added, "y" is not mentioned.
    const VERSION_2: &str = "02000000 0200000000000000
        02000000 01 01 0100000000000000 78 01 0100000000000000 58 01
        02000000 01 01 0300000000000000 737562 01 0600000000000000 6e6573746564 00";
    /// The start of what libtiledb 2.30 writes into a group of version 1: an absolute member of version 2.
    const MIXED: &str = "01000000 0200000000000000
        02000000 01 00 0800000000000000 66696c653a2f2f79 01 0200000000000000 5932 00
        01000000 01 01 0100000000000000 79 00";

    fn member(version: u32, uri: &str, name: Option<&str>) -> MemberEntry {
        MemberEntry {
            version,
            kind: ObjectKind::Group,
            relative: true,
            uri: uri.to_owned(),
            name: name.map(str::to_owned),
            deleted: false,
        }
    }

    fn with(mut bytes: Vec<u8>, at: usize, value: u8) -> Error {
        bytes[at] = value;
        GroupDetails::decode(&bytes).unwrap_err()
    }

    #[test]
    fn both_versions_and_the_mixture() {
        let details = GroupDetails::decode(&unhex(VERSION_1)).unwrap();
        assert!(details.complete);
        assert_eq!(
            details.members,
            [member(1, "sub", Some("nested")), member(1, "y", None)]
        );
        assert_eq!(details.members[1].key(), "y");

        let details = GroupDetails::decode(&unhex(VERSION_2)).unwrap();
        assert!(!details.complete);
        let gone = MemberEntry {
            deleted: true,
            ..member(2, "x", Some("X"))
        };
        assert_eq!(details.members, [gone, member(2, "sub", Some("nested"))]);

        let details = GroupDetails::decode(&unhex(MIXED)).unwrap();
        assert!(details.complete);
        let absolute = MemberEntry {
            relative: false,
            ..member(2, "file://y", Some("Y2"))
        };
        assert_eq!(details.members, [absolute, member(1, "y", None)]);
    }

    #[test]
    fn what_was_read_is_written_again() {
        for stored in [VERSION_1, VERSION_2, MIXED] {
            let stored = unhex(stored);
            assert_eq!(GroupDetails::decode(&stored).unwrap().encode(), stored);
        }
    }

    #[test]
    fn errors_say_what_was_found() {
        let bytes = unhex(VERSION_2);
        let error = with(bytes.clone(), 0, 3);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("version 3"), "{error}");
        let error = with(bytes.clone(), 12, 9);
        assert!(error.to_string().contains("(member 0)"), "{error}");
        let error = with(bytes.clone(), 16, 3);
        assert!(
            error.message().contains("is 3, expected 1 (group)"),
            "{error}"
        );
        let error = with(bytes.clone(), 26, 0xFF);
        assert!(error.message().contains("UTF-8"), "{error}");
        let error = with(bytes.clone(), 11, 0x7F);
        assert!(error.message().contains("\"number of members\""), "{error}");
        let longer = [bytes, vec![0]].concat();
        assert!(GroupDetails::decode(&longer).is_err());
    }

    #[test]
    fn truncations_and_bit_flips() {
        for hex in [VERSION_1, VERSION_2, MIXED] {
            refuses_every_prefix(&unhex(hex), GroupDetails::decode);
            survives_bit_flips(&unhex(hex), GroupDetails::decode);
        }
        let empty = unhex("02000000 0000000000000000");
        assert_eq!(GroupDetails::decode(&empty).unwrap().members, []);
    }
}
