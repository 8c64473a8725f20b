//! What is built: the programs and the tests share one build of every crate, so that `cargo test` after `cargo run` doesn't build
//! DataFusion again, and the commands of the documents that name a feature turn it on.

use std::collections::BTreeSet;
use std::process::Command;
use std::{env, fs};

use libtest_mimic::Failed;

use crate::repository;

/// The crates of the workspace, whose tests need more than their programs.
const OWN: [&str; 4] = [
    "datafusion-tiledb",
    "tiledb-engine",
    "tiledb-sql",
    "tiledb-stores",
];

/// Each crate that is built, with its version and its features; without what only tests need if `edges` is `no-dev`.
fn built_crates(edges: &str, options: &[&str]) -> Result<BTreeSet<String>, Failed> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Command::new(cargo)
        .args(["tree", "--locked", "--offline", "--prefix", "none"])
        .args(["--format", "{p} [{f}]", "--edges", edges])
        .args(options)
        .current_dir(repository())
        .output()?;
    if !tree.status.success() {
        return Err(String::from_utf8_lossy(&tree.stderr).into_owned().into());
    }
    let crates = String::from_utf8(tree.stdout)?;
    let crates = crates.lines().map(|line| line.trim_end_matches(" (*)"));
    Ok(crates.map(str::to_owned).collect())
}

trial!(tests_turn_on_no_features);
fn tests_turn_on_no_features() -> Result<(), Failed> {
    let tests = built_crates("normal,build,dev", &[])?;
    let programs = built_crates("no-dev", &[])?;
    assert!(programs.len() > 100, "{programs:?}");
    let twice = programs.difference(&tests).filter(|line| {
        let name = line.split(' ').next();
        !line.is_empty() && name.is_some_and(|name| !OWN.contains(&name))
    });
    let twice = twice.collect::<Vec<_>>();
    assert!(
        twice.is_empty(),
        "the tests build these crates again, with more features, and all crates above them: {twice:?}. \
         Name the features in crates/tiledb-sql/Cargo.toml, too"
    );
    Ok(())
}

/// Files with commands that build the shell with workers.
const WITH_WORKERS: [&str; 4] = ["README.md", "docs/cluster.md", ".ci/cluster", ".ci/dist"];

trial!(commands_turn_features_on);
/// A feature that is named like that of a dependency is turned on there, if at all, and cargo says nothing.
fn commands_turn_features_on() -> Result<(), Failed> {
    for file in WITH_WORKERS {
        let text = fs::read_to_string(repository().join(file))?;
        let commands = text.lines().filter_map(|line| {
            let (_, features) = line
                .split_once("cargo build")?
                .1
                .split_once("--features ")?;
            features.split_whitespace().next()
        });
        let commands = commands.collect::<Vec<_>>();
        assert!(!commands.is_empty(), "{file} builds no shell with workers");
        for features in commands {
            let built = built_crates("no-dev", &["--features", features])?;
            let mut shell = built.iter().filter(|line| line.starts_with("tiledb-sql "));
            assert!(
                shell.any(|line| line.contains("[cluster]")),
                "{file}: --features {features} builds a shell without workers"
            );
        }
    }
    Ok(())
}
