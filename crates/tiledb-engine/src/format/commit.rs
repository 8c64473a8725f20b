//! Commits, and the text files that consolidate, ignore and vacuum them (specification: "Array", "Consolidated Commits
//! File", "Ignore File", "Vacuum File").
//!
//! A `.con` lists commits, one per line, relative to the array. The subtle thing: the line of a delete is followed by
//! the delete file itself, `u64 size` and bytes, which may contain newlines.
//!
//! libtiledb names the file of consolidated commits after the first and the last commit that it finds, and fails if the first
//! is later. It finds the commits of `.con` files first, sorted by name, and then the commits with their own files. So it fails
//! if a `.con` file of a late commit lies beside an early commit file. The lists that we write begin with [`LIST_START`], which
//! sorts before every other commit.

use std::ops::Range;

use super::cursor::Cursor;
use super::encoder::Encoder;
use super::names::{TimestampedName, check_component, last_component, stem};
use crate::error::{Error, Result};

/// The kind of a commit file, from its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommitKind {
    /// `.wrt`: the fragment is committed (version 12 and later).
    Write,
    /// `.ok`: the fragment is committed (versions 5 to 11).
    Ok,
    /// `.del`: cells are deleted by a condition.
    Delete,
    /// `.upd`: cells are updated by a condition.
    Update,
    /// `.con`: several commits in one file.
    Consolidated,
    /// `.ign`: commits in `.con` files that are no longer valid.
    Ignore,
    /// `.vac`: fragments that another one replaces.
    Vacuum,
}

impl CommitKind {
    /// The kind of a file; `None` if it has another extension or none.
    pub fn of(file: &str) -> Option<Self> {
        let (_, extension) = last_component(file).rsplit_once('.')?;
        Some(match extension {
            "wrt" => Self::Write,
            "ok" => Self::Ok,
            "del" => Self::Delete,
            "upd" => Self::Update,
            "con" => Self::Consolidated,
            "ign" => Self::Ignore,
            "vac" => Self::Vacuum,
            _ => return None,
        })
    }

    /// The word for a file of this kind in messages; both kinds of commits of fragments are writes.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Write | Self::Ok => "write",
            Self::Delete => "delete",
            Self::Update => "update",
            Self::Consolidated => "consolidated",
            Self::Ignore => "ignore",
            Self::Vacuum => "vacuum",
        }
    }
}

/// The first line of the lists that we write: the commit of a fragment that does not exist, at time 0.
///
/// The commit of a fragment of this format version counts only if its folder exists, so the line commits nothing. libtiledb
/// always finds this commit first, whatever is committed or removed later, and keeps it in its own lists.
pub const LIST_START: &str = "__0_0_00000000000000000000000000000000_5.ok";

/// What the name of a `.vac` file ends in until the fragment that it belongs to is committed, and all is done.
pub const STAGED_VACUUM: &str = ".vac.staged";

/// The suffix of an announced `.del` file, with which a running statement shows others what it is about to delete.
pub const STAGED_DELETE: &str = ".del.staged";

/// The name of the delete that a file announces, if it announces one.
pub fn staged_delete(file: &str) -> Option<&str> {
    last_component(file).strip_suffix(STAGED_DELETE)
}

/// The name of the fragment to which a staged `.vac` file belongs.
///
/// A consolidation commits its fragment, and then hides its inputs: two steps, between which cells would be there twice in
/// an array with duplicates. So the list of inputs is put beside the commits first. From the moment of the commit on,
/// readers that know this name take it for the `.vac` file; others see the inputs until that is there.
pub fn staged_vacuum(file: &str) -> Option<&str> {
    last_component(file).strip_suffix(STAGED_VACUUM)
}

/// The suffix of a file that announces a commit in an array without a schema, and lists the commit file.
pub const STAGED_ARRAY: &str = ".new.staged";

/// The name of the commit that a file announces, if it announces one.
pub fn staged_array(file: &str) -> Option<&str> {
    last_component(file).strip_suffix(STAGED_ARRAY)
}

/// One commit of a `.con` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitEntry {
    /// The kind of commit.
    pub kind: CommitEntryKind,
    /// The name without folder and extension; for a write that of the fragment.
    pub name: String,
    /// The path relative to the array, as in `.ign` files and processed conditions.
    pub path: String,
}

/// The kind of a line in a `.con` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitEntryKind {
    /// A fragment, by a `.wrt` line.
    Write,
    /// A fragment of versions 5 to 11, by a `.ok` line.
    Ok,
    /// A delete; `range` locates the generic tile of the delete file in the `.con` file.
    Delete {
        /// Bytes of the generic tile.
        range: Range<usize>,
    },
}

/// Reads a `.con` file, without [`LIST_START`].
pub fn parse_consolidated_commits(bytes: &[u8]) -> Result<Vec<CommitEntry>> {
    const WHAT: &str = "consolidated commits";
    let mut entries = Vec::new();
    let mut cursor = Cursor::new(bytes, WHAT);
    while cursor.remaining() > 0 {
        let line = take_line(&mut cursor, WHAT)?;
        if line.is_empty() {
            continue;
        }
        let path = normalise(line, &["__commits"]);
        if path == LIST_START {
            continue;
        }
        let kind = match CommitKind::of(path) {
            Some(CommitKind::Write) => CommitEntryKind::Write,
            Some(CommitKind::Ok) => CommitEntryKind::Ok,
            Some(CommitKind::Delete) => {
                let size = cursor.u64("delete file bytes")?;
                let start = cursor.position();
                cursor.bytes_u64(size, "delete file")?;
                CommitEntryKind::Delete {
                    range: start..cursor.position(),
                }
            }
            _ => {
                return Err(Error::corrupt(format!(
                    "{WHAT}: line {line:?}, expected a path that ends in .wrt, .ok or .del"
                )));
            }
        };
        let name = TimestampedName::parse(path)?.name;
        entries.push(CommitEntry {
            kind,
            name,
            path: path.to_owned(),
        });
    }
    Ok(entries)
}

/// Reads an `.ign` file: paths relative to the array, equal to [`CommitEntry::path`] of the commits that are no longer
/// valid.
pub fn parse_ignore(bytes: &[u8]) -> Result<Vec<String>> {
    parse_paths(bytes, "ignore file", &["__commits"])
}

/// Reads a `.vac` file: paths relative to the array, as `__fragments/<name>`, `__meta/<name>` or `<name>`.
pub fn parse_vacuum(bytes: &[u8]) -> Result<Vec<String>> {
    parse_paths(bytes, "vacuum file", &["__fragments", "__meta"])
}

/// Writes a `.con` file: the path of each commit relative to the array, and the file of a delete.
pub fn encode_consolidated_commits<'a>(
    commits: impl IntoIterator<Item = (&'a str, Option<&'a [u8]>)>,
) -> Vec<u8> {
    let mut to = Encoder::new();
    for (path, delete) in commits {
        to.bytes(path.as_bytes());
        to.bytes(b"\n");
        if let Some(file) = delete {
            to.bytes_u64(file);
        }
    }
    to.finish()
}

/// Writes a `.con` file that begins with [`LIST_START`].
pub fn encode_commit_list<'a>(
    commits: impl IntoIterator<Item = (&'a str, Option<&'a [u8]>)>,
) -> Vec<u8> {
    encode_consolidated_commits(std::iter::once((LIST_START, None)).chain(commits))
}

/// Writes an `.ign` file: paths relative to the array, as [`parse_ignore`] gives them.
pub fn encode_ignore<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    encode_consolidated_commits(paths.into_iter().map(|path| (path, None)))
}

/// Writes a `.vac` file: paths relative to the array, as [`parse_vacuum`] gives them, each behind a slash.
pub fn encode_vacuum<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut to = Encoder::new();
    for path in paths {
        to.bytes(b"/");
        to.bytes(path.as_bytes());
        to.bytes(b"\n");
    }
    to.finish()
}

/// The name in a path from [`parse_ignore`] or [`parse_vacuum`].
pub fn path_name(path: &str) -> &str {
    stem(path)
}

fn parse_paths(bytes: &[u8], what: &'static str, folders: &[&str]) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut cursor = Cursor::new(bytes, what);
    while cursor.remaining() > 0 {
        let line = take_line(&mut cursor, what)?;
        if line.is_empty() {
            continue;
        }
        let path = normalise(line, folders);
        check_component(
            last_component(path),
            "a path in a list of commits or fragments",
        )?;
        paths.push(path.to_owned());
    }
    Ok(paths)
}

/// Reads up to the next newline; a last line without one is truncated.
fn take_line<'a>(cursor: &mut Cursor<'a>, what: &str) -> Result<&'a str> {
    let rest = cursor.rest();
    let Some(len) = rest.iter().position(|b| *b == b'\n') else {
        return Err(Error::corrupt(format!(
            "{what}: the last {} bytes have no newline: the file is truncated",
            rest.len()
        )));
    };
    let line = cursor.bytes(len, "line")?;
    cursor.u8("newline")?;
    std::str::from_utf8(line)
        .map_err(|e| Error::corrupt(format!("{what}: a line is not UTF-8")).with_source(e))
}

/// Removes what precedes the array's own folders from a path or URI; a path without any of `folders` is reduced to its
/// last component.
fn normalise<'a>(line: &'a str, folders: &[&str]) -> &'a str {
    let line = line.trim_end_matches('/');
    let found = folders.iter().find_map(|folder| suffix_from(line, folder));
    found.unwrap_or_else(|| last_component(line))
}

/// The part of `line` that starts with `folder/name`, if its last but one component is `folder`.
fn suffix_from<'a>(line: &'a str, folder: &str) -> Option<&'a str> {
    let (parent, name) = line.rsplit_once('/')?;
    let before = parent.strip_suffix(folder)?;
    let whole_component = before.is_empty() || before.ends_with('/');
    let start = line.len().checked_sub(folder.len() + 1 + name.len())?;
    whole_component.then(|| line.get(start..)).flatten()
}

/// Whether the vacuum file of this name hides the fragments `hidden` without a replacement, as TRUNCATE does.
///
/// The file of a consolidation has the name of the fragment that replaces others, and ends at the time of the last of these.
/// The file of a TRUNCATE has a single time, after all fragments that it hides, so their names distinguish the two.
pub fn truncates(name: &TimestampedName, hidden: &[impl AsRef<str>]) -> bool {
    let mut ends = hidden
        .iter()
        .map(|hidden| TimestampedName::parse(hidden.as_ref()).map(|hidden| hidden.t2));
    name.t1 == name.t2 && ends.all(|end| end.is_ok_and(|end| end < name.t1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fixtures::{bytes, survives_bit_flips};

    #[test]
    fn commits_with_a_delete_inside() {
        let con = bytes("deleted.con");
        let entries = parse_consolidated_commits(&con).unwrap();
        let [first, second, delete] = entries.as_slice() else {
            panic!()
        };
        assert_eq!(
            (&first.kind, &second.kind),
            (&CommitEntryKind::Write, &CommitEntryKind::Write)
        );
        assert!(first.name.starts_with("__10_10_") && first.name.ends_with("_22"));
        assert_eq!(first.path, format!("__commits/{}.wrt", first.name));
        assert_eq!(delete.path, format!("__commits/{}.del", delete.name));
        let CommitEntryKind::Delete { range } = &delete.kind else {
            panic!()
        };
        // The generic tile of the delete starts with its version, and ends the file here.
        assert_eq!(con[range.start..range.start + 4], [22, 0, 0, 0]);
        assert_eq!((range.end, range.len()), (con.len(), 109));
        survives_bit_flips(&con, parse_consolidated_commits);

        // Truncated anywhere but after a complete entry, the file is rejected.
        let line = con.iter().position(|b| *b == b'\n').unwrap() + 1;
        for len in 1..con.len() {
            let whole = [line, 2 * line].contains(&len);
            assert_eq!(
                parse_consolidated_commits(&con[..len]).is_ok(),
                whole,
                "{len}"
            );
        }
    }

    #[test]
    fn a_delete_may_hold_newlines_and_more_lines_may_follow() {
        let mut con = b"__1_1_u_11.ok\n/__commits/__2_2_u_22.del\n".to_vec();
        let start = con.len() + 8;
        con.extend(4u64.to_le_bytes());
        con.extend(b"\n\n\nx__commits/__3_3_u_22.wrt\n");
        let entries = parse_consolidated_commits(&con).unwrap();
        let kinds: Vec<_> = entries
            .iter()
            .map(|e| (e.kind.clone(), e.name.as_str()))
            .collect();
        let delete = CommitEntryKind::Delete {
            range: start..start + 4,
        };
        assert_eq!(
            kinds,
            [
                (CommitEntryKind::Ok, "__1_1_u_11"),
                (delete, "__2_2_u_22"),
                (CommitEntryKind::Write, "__3_3_u_22")
            ]
        );
        assert_eq!(entries[0].path, "__1_1_u_11.ok");
        assert_eq!(entries[1].path, "__commits/__2_2_u_22.del");
        con[start - 8..start].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(parse_consolidated_commits(&con).is_err());
    }

    #[test]
    fn lines_that_commit_nothing_are_refused() {
        for line in [
            "__commits/__2_2_u_22.upd\n",
            "data.bin\n",
            "__2_1_u_22.wrt\n",
            "\u{fffd}.wrt\n",
            "x.wrt",
        ] {
            assert!(
                parse_consolidated_commits(line.as_bytes()).is_err(),
                "{line}"
            );
        }
        assert!(parse_consolidated_commits(b"\xff\n").is_err());
        assert_eq!(parse_consolidated_commits(b"").unwrap(), []);
    }

    #[test]
    fn vacuum_files_of_every_version_give_relative_paths() {
        for version in 12..=21 {
            let paths = parse_vacuum(&bytes(&format!("v{version}.vac"))).unwrap();
            assert_eq!(paths.len(), 2);
            for path in &paths {
                let name = path.strip_prefix("__fragments/").unwrap();
                assert_eq!(path_name(path), name);
                assert_eq!(TimestampedName::parse(name).unwrap().version, Some(version));
            }
        }
        let paths = parse_vacuum(&bytes("deleted.vac")).unwrap();
        assert!(
            paths[0].starts_with("__fragments/__10_10_")
                && paths[1].starts_with("__fragments/__20_20_")
        );
        assert!(parse_vacuum(b"/__fragments/__1_1_u_22").is_err());
    }

    #[test]
    fn paths_are_cut_to_what_follows_the_array() {
        let text = b"file:///old/__fragments/a/__fragments/__1_1_u_22/\n\n/__meta/__1_1_u\ns3://b/my__meta/__4_4_u_5\n";
        let paths = parse_vacuum(text).unwrap();
        assert_eq!(
            paths,
            ["__fragments/__1_1_u_22", "__meta/__1_1_u", "__4_4_u_5"]
        );
        assert_eq!(
            parse_ignore(b"__commits/__1_1_u_22.wrt\n__1_1_u_9.ok\n").unwrap(),
            ["__commits/__1_1_u_22.wrt", "__1_1_u_9.ok"]
        );
        for bad in [&b"/__fragments/..\n"[..], b"/\n", b"a/.\n", b"\0\n"] {
            assert!(parse_vacuum(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn kinds_by_extension() {
        assert_eq!(CommitKind::of("x/__1_1_u_22.wrt"), Some(CommitKind::Write));
        assert_eq!(CommitKind::of("a.con/__1_1_u_22"), None);
        assert_eq!(CommitKind::of("__1_1_u_22.tmp"), None);
    }

    #[test]
    fn only_a_later_time_truncates() {
        const UUID: &str = "00000000000000000000000000000000";
        let name = |t1: u64, t2: u64| format!("__{t1}_{t2}_{UUID}_22");
        let parsed = |t1, t2| TimestampedName::parse(&name(t1, t2)).unwrap();
        assert!(truncates(&parsed(5, 5), &[name(1, 1), name(2, 4)]));
        // Consolidated with the times of its cells, and without.
        assert!(!truncates(&parsed(1, 4), &[name(1, 1), name(2, 4)]));
        assert!(!truncates(&parsed(4, 4), &[name(1, 1), name(2, 4)]));
        assert!(!truncates(&parsed(3, 3), &[name(1, 1), name(2, 4)]));
        assert!(!truncates(&parsed(5, 5), &["no name of a fragment"]));
    }
}
