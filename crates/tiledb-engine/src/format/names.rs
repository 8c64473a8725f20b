//! Timestamped names of fragments, commits, schemas and metadata (specification: "Timestamped Name").
//!
//! The forms are `__t1_t2_uuid_v`, `__t1_t2_uuid`, and two of the 1.4 and 1.5 releases, `__uuid_t` and `__uuid_t1_t2`,
//! of whose times only the last number counts. The subtle thing: forms are distinguished by the number of underscores,
//! as the reference implementation does, so that both ignore the same unknown files.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Underscores in `__t1_t2_uuid_v`.
const UNDERSCORES_WITH_VERSION: usize = 5;
/// Hexadecimal digits of a UUID without dashes.
const UUID_DIGITS: usize = 32;
/// The end of a fragment's UUID if its rows depend on cells that its statement read, as with UPDATE. Other writers choose UUIDs
/// at random, so one in four billion of their fragments looks like this. A statement may then run again unnecessarily.
pub const CHANGE_MARK: u32 = 0xc4a9_e5ed;

/// The parts of a timestamped name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimestampedName {
    /// The last path component, without extension.
    pub name: String,
    /// The first timestamp, in ms.
    pub t1: u64,
    /// The last timestamp, in ms; not below `t1`.
    pub t2: u64,
    /// The format version in the name; `None` if the form has none.
    pub version: Option<u32>,
    /// Whether the UUID comes before the times, as in fragments of versions 1 and 2.
    pub uuid_first: bool,
}

impl TryFrom<String> for TimestampedName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        Self::parse(&name)
    }
}

impl From<TimestampedName> for String {
    fn from(name: TimestampedName) -> Self {
        name.name
    }
}

impl TimestampedName {
    /// Parses a name; folders before it and an extension after it are removed.
    pub fn parse(component: &str) -> Result<Self> {
        let name = stem(component);
        let invalid = |problem: &str| {
            Error::corrupt(format!(
                "\"{name}\" is not a timestamped name: {problem}, expected __<time>_<time>_<uuid>_<version>"
            ))
        };
        let rest = name
            .strip_prefix("__")
            .ok_or_else(|| invalid("it does not start with two underscores"))?;
        let parts: Vec<&str> = rest.split('_').collect();
        let number = |text: &str| {
            parse_number(text).ok_or_else(|| invalid(&format!("\"{text}\" is not a number")))
        };
        let underscores = name.bytes().filter(|b| *b == b'_').count();
        let mut uuid_first = false;
        let (t1, t2, version) = match parts.as_slice() {
            [t1, t2, _, version] if underscores == UNDERSCORES_WITH_VERSION => {
                let version = u32::try_from(number(version)?)
                    .map_err(|_| invalid("its version exceeds 32 bits"))?;
                (number(t1)?, number(t2)?, Some(version))
            }
            [t1, t2, uuid] if uuid.len() == UUID_DIGITS => (number(t1)?, number(t2)?, None),
            [_, t] | [_, _, t] => {
                uuid_first = true;
                (number(t)?, number(t)?, None)
            }
            _ => return Err(invalid("it has the wrong number of parts")),
        };
        if t1 > t2 {
            return Err(invalid(&format!(
                "its first time {t1} is after its last time {t2}"
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            t1,
            t2,
            version,
            uuid_first,
        })
    }

    /// Whether the fragment's rows depend on cells that its statement read; see [`CHANGE_MARK`].
    pub fn is_of_change(&self) -> bool {
        let uuid = self.name.rsplit_once('_').map(|(rest, _)| rest);
        self.version.is_some()
            && uuid.is_some_and(|rest| rest.ends_with(&format!("{CHANGE_MARK:08x}")))
    }

    /// The format versions that a fragment with this name may have.
    pub fn fragment_versions(&self) -> RangeInclusive<u32> {
        match self.version {
            Some(version) => version..=version,
            None if self.uuid_first => 1..=2,
            None => 3..=4,
        }
    }
}

/// The last component of a path or URI.
pub fn last_component(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit_once('/').map_or(path, |(_, last)| last)
}

/// The last component of a path or URI, without its extension.
pub fn stem(path: &str) -> &str {
    let component = last_component(path);
    component
        .rsplit_once('.')
        .map_or(component, |(stem, _)| stem)
}

/// Fails unless `name`, read from storage, names one object directly inside a folder.
pub(crate) fn check_component(name: &str, what: &str) -> Result<()> {
    let odd = name.is_empty() || name == "." || name == ".." || name.contains(['/', '\\', '\0']);
    if odd {
        return Err(Error::corrupt(format!(
            "{what} is {name:?}, expected the name of an object in its folder"
        )));
    }
    Ok(())
}

fn parse_number(text: &str) -> Option<u64> {
    text.bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn every_form() {
        let parse = |s: &str| TimestampedName::parse(s).unwrap();
        let full = parse(&format!("a://b/__commits/__3_7_{UUID}_22.wrt"));
        assert_eq!(full.name, format!("__3_7_{UUID}_22"));
        assert_eq!((full.t1, full.t2, full.version), (3, 7, Some(22)));
        let schema = parse(&format!("__3_7_{UUID}"));
        assert_eq!((schema.t1, schema.t2, schema.version), (3, 7, None));
        assert_eq!(schema.fragment_versions(), 3..=4);
        let first = parse(&format!("__{UUID}_9"));
        assert_eq!((first.t1, first.t2, first.version), (9, 9, None));
        assert_eq!(first.fragment_versions(), 1..=2);
        let consolidated = parse(&format!("__{UUID}_12_9/"));
        assert_eq!((consolidated.t1, consolidated.t2), (9, 9));
        assert!(consolidated.uuid_first && !full.uuid_first);
        assert_eq!(full.fragment_versions(), 22..=22);
        let enumeration = parse(&format!("__schema/__enumerations/__{UUID}_0"));
        assert_eq!((enumeration.t1, enumeration.version), (0, None));
    }

    #[test]
    fn strays_are_refused() {
        for stray in [
            "data.bin",
            "my_notes",
            "__array_schema.tdb",
            "",
            "__",
            ".",
            "/",
            "____",
            "_1_2_3",
            "__lock.tdb",
            "__1_2_u_x",
            "__1_2_u_4294967296",
            "__+1_2_u_5",
            "__1_2_u_5_6",
            "__99999999999999999999_1_u_5",
        ] {
            assert!(TimestampedName::parse(stray).is_err(), "{stray}");
        }
        let error = TimestampedName::parse(&format!("__8_7_{UUID}_22")).unwrap_err();
        assert!(
            error
                .message()
                .contains("first time 8 is after its last time 7"),
            "{error}"
        );
    }

    #[test]
    fn components_stay_in_their_folder() {
        assert!(check_component("__1_2_x", "schema name").is_ok());
        for bad in ["", ".", "..", "../x", "a/b", "a\\b", "a\0"] {
            assert!(check_component(bad, "schema name").is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn written_names_parse(a: u64, b: u64, version: u32, uuid in "[0-9a-f]{32}") {
            let (t1, t2) = (a.min(b), a.max(b));
            let parsed = TimestampedName::parse(&format!("__{t1}_{t2}_{uuid}_{version}.ok")).unwrap();
            prop_assert_eq!((parsed.t1, parsed.t2, parsed.version), (t1, t2, Some(version)));
        }

        #[test]
        fn anything_is_parsed_or_refused(text in "[_0-9a-f./]{0,40}") {
            let _ = TimestampedName::parse(&text);
        }
    }
}
