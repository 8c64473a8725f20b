//! The names of a fragment's data files (specification: "Fragment").
//!
//! Since version 9 fields are numbered by the schema that the footer names; before, a file is named after its field.
//! The subtle thing: version 8 encodes five characters by wrong codes, two of which also belong to other characters,
//! and readers must look for these file names.

use crate::format::version::FormatVersion;

/// The file of the coordinates of all dimensions, in fragments before version 5.
const COORDS_STEM: &str = "__coords";
/// Since this version, files are named by the numbers of fields.
const NUMBERED_SINCE: u32 = 9;
/// Since this version, names of fields in file names are percent-encoded.
const ENCODED_SINCE: u32 = 8;

/// The parts of a field, each stored in its own file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FilePart {
    /// The values of a fixed-size field, or the offsets of a variable-sized one.
    Fixed,
    /// The data of a variable-sized field.
    Var,
    /// The validity of a nullable field, one byte per cell.
    Validity,
}

/// The common start of the names of a field's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStem(String);

impl FileStem {
    /// Attribute number `index`, called `name`.
    pub fn attribute(version: FormatVersion, index: usize, name: &str) -> Self {
        Self::new(version, 'a', index, name)
    }

    /// Dimension number `index`, called `name`.
    pub fn dimension(version: FormatVersion, index: usize, name: &str) -> Self {
        Self::new(version, 'd', index, name)
    }

    /// All coordinates, in fragments before version 5.
    pub fn coords() -> Self {
        Self(COORDS_STEM.to_owned())
    }

    /// The write time of each cell.
    pub fn timestamps() -> Self {
        Self("t".to_owned())
    }

    /// The delete time of each cell.
    pub fn delete_timestamps() -> Self {
        Self("dt".to_owned())
    }

    /// The index of the condition that deleted each cell.
    pub fn delete_condition_index() -> Self {
        Self("dci".to_owned())
    }

    fn new(version: FormatVersion, kind: char, index: usize, name: &str) -> Self {
        Self(if version.since(NUMBERED_SINCE) {
            format!("{kind}{index}")
        } else if version.since(ENCODED_SINCE) {
            name.chars()
                .map(EncodedCharacter)
                .map(|c| c.to_string())
                .collect()
        } else {
            name.to_owned()
        })
    }

    /// The name of the file that holds `part` of the field.
    pub fn file(&self, part: FilePart) -> String {
        let suffix = match part {
            FilePart::Fixed => "",
            FilePart::Var => "_var",
            FilePart::Validity => "_validity",
        };
        format!("{}{suffix}.tdb", self.0)
    }
}

/// The file whose existence shows that a fragment before version 3 is sparse.
pub fn coords_file() -> String {
    FileStem::coords().file(FilePart::Fixed)
}

/// A character of a field's name, encoded as in the files of version 8.
struct EncodedCharacter(char);

impl std::fmt::Display for EncodedCharacter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = match self.0 {
            // These are mistakes of that release, which later releases repeat.
            '<' => 0x20,
            '>' => 0x2D,
            '\\' => 0x30,
            '|' => 0x3C,
            '!' | '"' | '#' | '$' | '%' | '&' | '\'' | '(' | ')' | '*' | '+' | ',' | '/' | ':'
            | ';' | '=' | '?' | '@' | '[' | ']' => u32::from(self.0),
            other => return write!(f, "{other}"),
        };
        write!(f, "%{code:02X}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u32, name: &str, part: FilePart) -> String {
        FileStem::attribute(FormatVersion::known(version), 3, name).file(part)
    }

    #[test]
    fn fields_are_named_then_encoded_then_numbered() {
        assert_eq!(file(7, "a b%", FilePart::Fixed), "a b%.tdb");
        assert_eq!(file(7, "", FilePart::Fixed), ".tdb");
        assert_eq!(file(7, "x", FilePart::Validity), "x_validity.tdb");
        assert_eq!(file(8, "a b%", FilePart::Var), "a b%25_var.tdb");
        assert_eq!(file(8, "", FilePart::Fixed), ".tdb");
        assert_eq!(file(9, "a b%", FilePart::Var), "a3_var.tdb");
        let dimension = FileStem::dimension(FormatVersion::known(22), 0, "x");
        assert_eq!(dimension.file(FilePart::Fixed), "d0.tdb");
        assert_eq!(coords_file(), "__coords.tdb");
    }

    #[test]
    fn version_8_has_codes_of_its_own() {
        let encoded = file(8, r#"!#$%&'()*+,/:;=?@[]""#, FilePart::Fixed);
        let right = "%21%23%24%25%26%27%28%29%2A%2B%2C%2F%3A%3B%3D%3F%40%5B%5D%22.tdb";
        assert_eq!(encoded, right);
        assert_eq!(
            file(8, r"<>\|é~_-.", FilePart::Fixed),
            "%20%2D%30%3Cé~_-..tdb"
        );
    }
}
