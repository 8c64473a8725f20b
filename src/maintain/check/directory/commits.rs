//! Commits among themselves: what lists, ignores, replaces and repeats what.

use std::collections::BTreeMap;

use super::lists::{Commit, Lists};
use crate::maintain::check::report::Reporter;
use crate::maintain::check::rule::Rule;
use crate::maintain::truncation::truncates;

/// Checks the files about other commits. `is_there` says whether the folder of a fragment exists.
pub fn check(lists: &Lists, is_there: impl Fn(&str) -> bool, report: &Reporter) {
    let committed = lists.committed();
    ignored(lists, report);
    repeated(lists, report);
    replaced(lists, &committed, is_there, report);
}

/// Names that are ignored take effect only in lists.
fn ignored(lists: &Lists, report: &Reporter) {
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, file) in &lists.ignored {
        files.entry(file).or_default().push(name);
        if let Some(own) = lists.own.get(name) {
            let found = format!("{file} ignores {name}, which has a commit file of its own");
            let expected = "no commit file for what is ignored";
            report.tell(Rule::IgnoredAndCommitted, &own.path, found, expected);
        }
    }
    for (file, names) in files {
        if !names.iter().any(|name| lists.named.contains(*name)) {
            let found = format!("{} names, none of which is in a list", names.len());
            report.tell(
                Rule::IgnoreOfNothing,
                file,
                found,
                "names of listed commits",
            );
        }
    }
}

/// A commit is a file of its own or a line of a list.
fn repeated(lists: &Lists, report: &Reporter) {
    for (name, own) in &lists.own {
        if let Some(list) = lists.listed.get(name) {
            let found = format!("{} lists it, too", list.path);
            report.tell(Rule::CommittedTwice, &own.path, found, "one commit");
        }
    }
    for delete in lists.deletes.iter().filter(|d| d.inline.is_none()) {
        let same =
            |other: &&super::lists::DeleteFile| other.inline.is_some() && other.name == delete.name;
        if let Some(list) = lists.deletes.iter().find(same) {
            let found = format!("{} contains it, too", list.path);
            report.tell(Rule::CommittedTwice, &delete.path, found, "one commit");
        }
    }
}

/// Replaced fragments are hidden, so what replaces them must be committed.
fn replaced(
    lists: &Lists,
    committed: &BTreeMap<&str, &Commit>,
    is_there: impl Fn(&str) -> bool,
    report: &Reporter,
) {
    for vacuum in &lists.vacuums {
        let kept: Vec<&String> = vacuum
            .replaced
            .iter()
            .filter(|name| is_there(name))
            .collect();
        let replacement = vacuum.replacement.name.as_str();
        if kept.is_empty() {
            let found = format!("{} names, none of which exists", vacuum.replaced.len());
            let expected = "names of fragments that still exist";
            report.tell(Rule::VacuumOfNothing, &vacuum.path, found, expected);
        } else if !committed.contains_key(replacement)
            && !is_there(replacement)
            && !truncates(&vacuum.replacement, &vacuum.replaced)
        {
            let found = format!("it hides {} fragments", kept.len());
            let expected = format!("the fragment {replacement}, which replaces them");
            report.tell(
                Rule::VacuumWithoutReplacement,
                &vacuum.path,
                found,
                expected,
            );
        }
    }
}
