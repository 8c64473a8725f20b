//! The generator makes every kind of SQL that it is meant to make, and nearly all of it runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use libtest_mimic::Failed;

use super::super::arrays::{Loaded, Source};
use super::super::case::relations;
use super::super::features;
use super::super::print;
use super::super::run::Runner;
use super::super::session::Parts;
use super::Generator;
use crate::support::rng::Rng;

/// Statements in which every feature must occur.
const MADE: u64 = 4_000;
/// Statements that are run.
const RUN: u64 = 150;
const SHARE_PERCENT: u64 = 85;

fn tables(runner: &Runner) -> Result<Vec<Arc<Loaded>>, String> {
    let arrays = ["plane", "hours", "events", "evolved"].into_iter();
    let load = arrays.map(|name| {
        let source = Source {
            path: format!("fuzz/arrays/{name}"),
            options: Vec::new(),
        };
        runner
            .wait(async move { source.load().await })
            .map(Arc::new)
    });
    load.collect()
}

fn statements(
    tables: &[Arc<Loaded>],
    count: u64,
) -> impl Iterator<Item = super::super::ast::Statement> {
    (0..count).map(|number| {
        let rng = Rng::new(7, number);
        Generator::new(rng, relations(tables)).statement()
    })
}

fn text(statement: &super::super::ast::Statement) -> String {
    let (before, last) = print::statement(statement);
    [before, vec![last]].concat().join(";\n")
}

trial!(every_feature_is_generated);
fn every_feature_is_generated() -> Result<(), Failed> {
    let runner = Runner::new("features");
    let tables = tables(&runner)?;
    let mut missing: BTreeSet<&str> = features::all().into_iter().collect();
    for statement in statements(&tables, MADE) {
        for feature in features::of(&statement, &text(&statement)) {
            missing.remove(feature);
        }
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("never made: {missing:?}").into())
    }
}

trial!(most_statements_run);
fn most_statements_run() -> Result<(), Failed> {
    let mut runner = Runner::new("share");
    let tables = tables(&runner)?;
    let parts = Parts::new()?;
    let (mut good, mut errors) = (0, Vec::new());
    for statement in statements(&tables, RUN) {
        let memory = tables.iter().map(|table| table.memory()).collect();
        match runner.answers(
            parts.reference()?,
            memory,
            print::statement(&statement),
            false,
        ) {
            Ok(_) => good += 1,
            Err(e) => errors.push(format!("{e:?}: {}", text(&statement))),
        }
    }
    if good * 100 >= RUN * SHARE_PERCENT {
        Ok(())
    } else {
        Err(format!("{good} of {RUN} run\n{}", errors.join("\n")).into())
    }
}

trial!(a_seed_gives_the_same_statements);
fn a_seed_gives_the_same_statements() -> Result<(), Failed> {
    let runner = Runner::new("again");
    let tables = tables(&runner)?;
    let texts = || {
        statements(&tables, 200)
            .map(|s| text(&s))
            .collect::<Vec<_>>()
    };
    if texts() == texts() {
        Ok(())
    } else {
        Err("statements differ from run to run".into())
    }
}
