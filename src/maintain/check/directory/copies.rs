//! Copies of footers in `.meta` files: they decode, and equal the footers of their fragments.
//!
//! Copies only save requests. Releases up to 2.18 cut the copies of footers before version 12, so these are not compared.

use std::collections::BTreeMap;

use super::folders::{COPIES_FOLDER, Folders};
use super::tile;
use crate::array::fragment::Fragment;
use crate::error::Result;
use crate::format::fragment::consolidated;
use crate::format::fragment::footer::Footer;
use crate::maintain::check::report::Reporter;
use crate::maintain::check::rule::Rule;
use crate::storage::Storage;

/// Copies of footers before this version are cut.
const COPIED_SINCE: u32 = 12;

/// Checks all files of copies. `fragments` are those that could be opened, and `is_there` says whether a fragment exists.
pub async fn check(
    storage: &Storage,
    folders: &Folders,
    fragments: &BTreeMap<String, Fragment>,
    is_there: impl Fn(&str) -> bool,
    report: &Reporter,
) -> Result<()> {
    for (path, file) in folders.in_root_and(COPIES_FOLDER, &folders.copies) {
        if !file.name.ends_with(".meta") {
            continue;
        }
        let tile = match tile::read(storage, &path, "consolidated fragment metadata").await? {
            Ok(tile) => tile,
            Err(e) => {
                report.tell(
                    Rule::UnreadableCopies,
                    path,
                    e.to_string(),
                    "copies of footers",
                );
                continue;
            }
        };
        let copies = match consolidated::decode(&tile.data) {
            Ok(copies) => copies,
            Err(e) => {
                report.tell(
                    Rule::UnreadableCopies,
                    path,
                    e.to_string(),
                    "copies of footers",
                );
                continue;
            }
        };
        let count = copies.len();
        let mut gone = 0_usize;
        for (name, range) in copies {
            let copy = tile.data.get(range).unwrap_or_default();
            match fragments.get(&name) {
                Some(fragment) => compare(fragment, copy, &path, report),
                None if is_there(&name) => {}
                None => gone = gone.saturating_add(1),
            }
        }
        if gone > 0 {
            let found = format!("{gone} of {count} copies are of fragments that are gone");
            report.tell(
                Rule::StaleCopy,
                path,
                found,
                "copies of fragments that exist",
            );
        }
    }
    Ok(())
}

fn compare(fragment: &Fragment, copy: &[u8], path: &str, report: &Reporter) {
    if !fragment.footer.version.since(COPIED_SINCE) {
        return;
    }
    let named = Footer::peek_schema_name(copy);
    let same_schema = named.map(|(_, name)| name == fragment.footer.schema_name);
    let copied = match same_schema {
        Ok(true) => Footer::decode(copy, &fragment.schema),
        Ok(false) => {
            let found = format!("the copy of {} names another schema", fragment.name.name);
            report.tell(
                Rule::FooterCopy,
                path,
                found,
                "the schema of the fragment's own footer",
            );
            return;
        }
        Err(e) => Err(e),
    };
    match copied {
        Ok(copied) if copied == *fragment.footer => {}
        Ok(_) => {
            let found = format!("the copy of {} is another", fragment.name.name);
            report.tell(Rule::FooterCopy, path, found, "the fragment's own footer");
        }
        Err(e) => {
            let found = format!("the copy of {}: {e}", fragment.name.name);
            report.tell(Rule::FooterCopy, path, found, "the fragment's own footer");
        }
    }
}
