//! The rules of an array, each with a name that never changes.
//!
//! `docs/check.md` explains them; a test holds the page and this list together.

use std::fmt;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something is wrong: queries fail or may answer wrongly, here or with another reader.
    Error,
    /// Something is odd, but no answer is wrong because of it.
    Warning,
    /// Something is no longer of use: it only takes space.
    Leftover,
}

impl Severity {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Leftover => "leftover",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The advice for a fragment that is damaged for good.
const RESTORE: &str = "restore the fragment from a copy; if there is none, remove its commit file to give up its cells and read the rest";
/// The advice for metadata that only some readers use.
const REWRITE: &str =
    "do not trust aggregates and conditions on it; read the cells and write them again";

macro_rules! rules {
    ($($variant:ident = $name:literal, $severity:ident, $advice:expr;)*) => {
        /// A rule that arrays follow.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name, which never changes.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// How bad it is to break it.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }

            /// The advice for a broken rule.
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$variant => $advice,)* }
            }
        }
    };
}

rules! {
    BadName = "bad-name", Error, "give the file its name back, or move it out of the array";
    UnknownFile = "unknown-file", Warning, "move it out of the array if nothing of yours needs it; nothing of TileDB does";
    ForeignFile = "foreign-file", Leftover, "remove it if nothing of yours needs it; nothing of TileDB does";
    StagingFile = "staging-file", Leftover, "remove it once no writer is at work";
    CommitWithoutFragment = "commit-without-fragment", Error, "restore the fragment's folder from a copy, or remove the commit to give up its cells";
    IdleCommit = "idle-commit", Warning, "remove the commit file; fragments of this version are found by their folders";
    FragmentWithoutCommit = "fragment-without-commit", Leftover, "remove the folder once no writer is at work: its write was interrupted before the commit";
    ReplacedFragment = "replaced-fragment", Leftover, "vacuum the array once its history is not needed";
    VacuumOfNothing = "vacuum-of-nothing", Leftover, "remove the file; what it names is gone";
    VacuumWithoutReplacement = "vacuum-without-replacement", Error, "remove the vacuum file: it hides fragments whose replacement is not committed";
    UnreadableList = "unreadable-list", Error, "restore the file from a copy";
    IgnoreOfNothing = "ignore-of-nothing", Leftover, "remove the file; no list names what it ignores";
    IgnoredAndCommitted = "ignored-and-committed", Warning, "remove the commit file if the fragment was meant to go; an ignore file does not hide it";
    CommittedTwice = "committed-twice", Leftover, "vacuum the commits: the list suffices";
    UnreadableSchema = "unreadable-schema", Error, "restore the schema from a copy, or move the file out of the folder if it isn't a schema";
    SchemaOrder = "schema-order", Warning, "name the time when you open the array: readers choose schemas by name, and the newest by name is not the newest by time";
    UnreadableField = "unreadable-field", Error, "restore the schema from a copy; the other fields can be read";
    MissingEnumeration = "missing-enumeration", Error, "restore the enumeration from a copy";
    UnreadableEnumeration = "unreadable-enumeration", Error, "restore the enumeration from a copy";
    EnumerationValues = "enumeration-values", Error, "restore the enumeration from a copy";
    UnusedEnumeration = "unused-enumeration", Leftover, "remove the file; no schema names it";
    UnreadableCopies = "unreadable-copies", Error, "remove the file: it only holds copies of footers";
    FooterCopy = "footer-copy", Error, "remove the file: it only holds copies of footers, and one is wrong";
    StaleCopy = "stale-copy", Leftover, "consolidate the fragment metadata again, then vacuum it";
    UnreadableDelete = "unreadable-delete", Error, "restore the file from a copy, or remove it to have the deleted cells back";
    DeleteField = "delete-field", Error, "add the field again, or remove the file to have the deleted cells back";
    DeleteNesting = "delete-nesting", Error, "rewrite the condition by `tiledb-sql check --repair` or tiledb_consolidate(…, mode => 'deletes')";
    DeleteInDense = "delete-in-dense", Warning, "remove the file; nobody applies deletes to dense arrays";
    UnreadableMetadata = "unreadable-metadata", Error, "restore the file from a copy, or remove it to give up what it sets";
    UnreadableGroup = "unreadable-group", Error, "restore the file from a copy, or remove it to give up the members it adds";
    UnreadableFragment = "unreadable-fragment", Error, RESTORE;
    FragmentKind = "fragment-kind", Error, RESTORE;
    MissingFile = "missing-file", Error, RESTORE;
    FileSize = "file-size", Error, RESTORE;
    LongFile = "long-file", Warning, "nothing: readers stop where the footer says; more bytes are of no use";
    UnreadableSection = "unreadable-section", Error, RESTORE;
    TileCount = "tile-count", Error, RESTORE;
    TileOffsets = "tile-offsets", Error, RESTORE;
    BoxTree = "box-tree", Error, RESTORE;
    NonEmptyDomain = "non-empty-domain", Error, RESTORE;
    OutsideDomain = "outside-domain", Error, "read the cells and write them again inside the domain, or into an array with a larger one";
    OutsideCurrentDomain = "outside-current-domain", Error, "expand the current domain, or write the cells again inside it";
    StatisticsShape = "statistics-shape", Error, "do not ask libtiledb for aggregates of the field; read the cells and write them again";
    UnreadableTile = "unreadable-tile", Error, RESTORE;
    ValidityBytes = "validity-bytes", Warning, "nothing: every byte but 0 means valid";
    InvalidText = "invalid-text", Warning, "read the field with the option tiledb.invalid_utf8";
    UnknownCode = "unknown-code", Warning, "extend the enumeration, or write the cells again with one of its values; until then they read as NULL here, and other readers may fail";
    TileBox = "tile-box", Error, "do not trust conditions on dimensions; read the cells and write them again";
    CellOrder = "cell-order", Error, "do not consolidate with libtiledb; read the cells and write them again";
    SignedStringOrder = "signed-string-order", Warning, "nothing: libtiledb up to 2.30 orders bytes from 0x80 on before all others, and readers expect it";
    DuplicateCells = "duplicate-cells", Error, "read the cells and write them again, each once";
    CellTimes = "cell-times", Error, RESTORE;
    DeleteTimes = "delete-times", Error, RESTORE;
    TileMin = "tile-min", Error, REWRITE;
    TileMax = "tile-max", Error, REWRITE;
    TileSum = "tile-sum", Error, REWRITE;
    TileNullCount = "tile-null-count", Error, REWRITE;
    FragmentMin = "fragment-min", Error, REWRITE;
    FragmentMax = "fragment-max", Error, REWRITE;
    FragmentSum = "fragment-sum", Error, REWRITE;
    FragmentNullCount = "fragment-null-count", Error, REWRITE;
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_words_with_hyphens_and_differ() {
        let names: HashSet<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
        assert_eq!(names.len(), Rule::ALL.len());
        for name in names {
            assert!(
                name.chars().all(|c| c == '-' || c.is_ascii_lowercase()),
                "{name}"
            );
        }
    }
}
