//! For each rule an array that breaks it, and what is found then: the rule, at the object that is broken, and no error
//! besides those that follow from it.

mod fragments;
mod names;
mod objects;
mod tiles;

use std::collections::BTreeSet;

use libtest_mimic::Failed;
use tiledb_engine::filter::generic_tile;
use tiledb_engine::format::delete_condition::{Comparison, ConditionTest, DeleteCondition};
use tiledb_engine::format::enumeration::Enumeration;
use tiledb_engine::maintain::check::{Finding, Rule, Severity};

use super::forge::{Metadata, Of, edit_tiles};
use super::{of_files, statistics};
use crate::support::array_files::{Files, METADATA_FILE, contents, plain_tile};
use crate::support::fixtures;
use crate::support::trials::SqlTrial;
use crate::{block_on, trial};

const UUID: &str = "0123456789abcdef0123456789abcdef";

/// An array that breaks a rule.
pub struct Damage {
    pub rule: Rule,
    pub array: &'static str,
    /// A part of the object that is broken.
    pub object: &'static str,
    /// The other rules that are broken with it.
    pub besides: &'static [Rule],
    pub damage: fn(&mut Files),
}

/// All damages.
fn all_damages() -> impl Iterator<Item = &'static Damage> {
    let tables = [
        names::NAMES,
        objects::OBJECTS,
        fragments::FRAGMENTS,
        tiles::TILES,
        statistics::DAMAGES,
    ];
    tables.into_iter().flatten()
}

trials!(each_damage());

fn each_damage() -> Vec<SqlTrial> {
    let damages = all_damages().enumerate();
    let trials = damages.map(|(number, damage)| {
        let name = format!("{}_{number}", damage.rule);
        trial(name, move || block_on(is_found(damage)))
    });
    trials.collect()
}

async fn is_found(damage: &Damage) -> Result<(), Failed> {
    let mut files = files(damage.array);
    let before = rules(&of_files(&files).await);
    (damage.damage)(&mut files);
    let found = of_files(&files).await;
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    let shown = shown.join("\n");
    let mut at = found.iter().filter(|f| f.rule == damage.rule);
    if !at.any(|f| f.object.contains(damage.object)) {
        return Err(format!("{} was not found\n{shown}", damage.rule).into());
    }
    let known: BTreeSet<Rule> = damage
        .besides
        .iter()
        .copied()
        .chain([damage.rule])
        .collect();
    let others: Vec<_> = rules(&found)
        .into_iter()
        .filter(|r| r.severity() != Severity::Leftover && !known.contains(r) && !before.contains(r))
        .collect();
    if others.is_empty() {
        Ok(())
    } else {
        Err(format!("{others:?} were found, too\n{shown}").into())
    }
}

fn rules(found: &[Finding]) -> BTreeSet<Rule> {
    found.iter().map(|finding| finding.rule).collect()
}

/// An array, or a group if its name says so.
fn files(name: &str) -> Files {
    match name.strip_prefix("group:") {
        Some(group) => Files::of(&fixtures::root().join("groups").join(group)),
        None => Files::golden(name),
    }
}

trial!(every_rule_is_broken_once);
fn every_rule_is_broken_once() -> Result<(), Failed> {
    let all = all_damages();
    let broken: BTreeSet<Rule> = all.map(|damage| damage.rule).collect();
    let unbroken: Vec<_> = Rule::ALL.iter().filter(|r| !broken.contains(r)).collect();
    if unbroken.is_empty() {
        Ok(())
    } else {
        Err(format!("no array breaks {unbroken:?}").into())
    }
}

/// The name of the only fragment, or of the first.
fn fragment(files: &Files) -> String {
    let path = files.find(METADATA_FILE);
    let folder = path.rsplit('/').nth(1);
    folder.expect("a folder").to_owned()
}

fn add(files: &mut Files, path: &str, bytes: impl Into<Vec<u8>>) {
    files.0.insert(path.replace("UUID", UUID), bytes.into());
}

fn cut(files: &mut Files, part: &str) {
    let path = files.find(part);
    files.edit(&path, |bytes| bytes.truncate(bytes.len() / 2));
}

fn remove(files: &mut Files, part: &str) {
    files.0.retain(|path, _| !path.contains(part));
}

fn condition(field: &str) -> Vec<u8> {
    let condition = DeleteCondition::Test {
        field: field.to_owned(),
        test: ConditionTest::Compare(Comparison::Lt, 7_i32.to_le_bytes().to_vec()),
    };
    generic_tile::encode(&condition.encode_delete().expect("short")).expect("short")
}

fn enumeration(files: &mut Files, change: impl FnOnce(&mut Enumeration)) {
    let path = files.find("__enumerations/");
    files.edit(&path, |file| {
        let mut enumeration = Enumeration::decode(&contents(file)).expect("an enumeration");
        change(&mut enumeration);
        *file = plain_tile(&enumeration.encode().expect("short"));
    });
}

/// Swaps the first two cells of a tile in both dimensions.
fn swap_cells(files: &mut Files) {
    for dimension in 0..2 {
        edit_tiles(files, "", Of::Dimension(dimension), |tile, bytes| {
            if tile == 0 {
                let (first, second) = bytes.split_at_mut(4);
                first.swap_with_slice(&mut second[..4]);
            }
        });
    }
}

/// Lowers the low end of the first leaf in the first dimension.
fn leaf_low_end(files: &mut Files, by: u32) {
    let mut metadata = Metadata::of(files, "");
    let start = metadata.footer.sections.rtree;
    let tiles = metadata.footer.sparse_tile_count as usize;
    let section = metadata.section(start);
    // The leaves are the last level: four numbers of four bytes each.
    let at = section.len() - tiles * 16;
    let low = u32::from_le_bytes(section[at..at + 4].try_into().expect("four bytes"));
    section[at..at + 4].copy_from_slice(&low.saturating_sub(by).to_le_bytes());
    metadata.put(files);
}
