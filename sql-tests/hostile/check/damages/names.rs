//! Names of files, commits, and the lists that name them.

use tiledb_engine::format::commit::{encode_consolidated_commits, encode_ignore, encode_vacuum};
use tiledb_engine::maintain::check::Rule;

use super::{Damage, UUID, add, fragment, remove};

pub const NAMES: &[Damage] = &[
    Damage {
        rule: Rule::ForeignFile,
        array: "quickstart_sparse",
        object: "__schema/notes.txt",
        besides: &[],
        damage: |files| add(files, "__schema/notes.txt", "mine"),
    },
    Damage {
        rule: Rule::BadName,
        array: "quickstart_sparse",
        object: "__commits/__9_3_",
        besides: &[],
        damage: |files| add(files, "__commits/__9_3_UUID_22.wrt", ""),
    },
    Damage {
        rule: Rule::BadName,
        array: "metadata",
        object: "__meta/__notes",
        besides: &[],
        damage: |files| add(files, "__meta/__notes", "mine"),
    },
    Damage {
        rule: Rule::UnknownFile,
        array: "quickstart_sparse",
        object: "__commits/__notes.txt",
        besides: &[],
        damage: |files| add(files, "__commits/__notes.txt", "mine"),
    },
    Damage {
        rule: Rule::UnknownFile,
        array: "quickstart_sparse",
        object: "_22/a1.tdb",
        besides: &[],
        damage: |files| {
            let path = files.find("a0.tdb").replace("a0.tdb", "a1.tdb");
            add(files, &path, "mine");
        },
    },
    Damage {
        rule: Rule::StagingFile,
        array: "quickstart_sparse",
        object: "_22/a0.tdb#7",
        besides: &[],
        damage: |files| {
            let path = format!("{}#7", files.find("a0.tdb"));
            add(files, &path, "half");
        },
    },
    Damage {
        rule: Rule::StagingFile,
        array: "metadata",
        object: "__meta/__1_1_0123456789abcdef0123456789abcdef.tmp",
        besides: &[],
        damage: |files| add(files, "__meta/__1_1_UUID.tmp", "half"),
    },
    Damage {
        rule: Rule::CommitWithoutFragment,
        array: "quickstart_sparse",
        object: ".wrt",
        besides: &[],
        damage: |files| remove(files, "__fragments/"),
    },
    Damage {
        rule: Rule::IdleCommit,
        array: "old/v10_appended",
        object: "__1000_1000_",
        besides: &[],
        damage: |files| {
            let gone = |path: &String| path.contains("__1000_1000_") && path.contains("/");
            files
                .0
                .retain(|path, _| path.starts_with("__schema") || !gone(path));
        },
    },
    Damage {
        rule: Rule::FragmentWithoutCommit,
        array: "quickstart_sparse",
        object: "__fragments/__1000_1000_",
        besides: &[],
        damage: |files| remove(files, ".wrt"),
    },
    Damage {
        rule: Rule::ReplacedFragment,
        array: "weather_stations",
        object: "__fragments/__1000_1000_",
        besides: &[],
        damage: |files| {
            let replaced = fragment(files);
            let vacuum = files.find("__commits/__2000_").replace(".wrt", ".vac");
            let lines = encode_vacuum([format!("__fragments/{replaced}").as_str()]);
            add(files, &vacuum, lines);
        },
    },
    Damage {
        rule: Rule::VacuumOfNothing,
        array: "quickstart_sparse",
        object: ".vac",
        besides: &[],
        damage: |files| {
            let lines = format!("/__fragments/__5_5_{UUID}_22\n");
            add(files, "__commits/__5_6_UUID_22.vac", lines);
        },
    },
    Damage {
        rule: Rule::VacuumWithoutReplacement,
        array: "quickstart_sparse",
        object: "__commits/__1000_2000_",
        besides: &[],
        damage: |files| {
            let lines = format!("/__fragments/{}\n", fragment(files));
            add(files, "__commits/__1000_2000_UUID_22.vac", lines);
        },
    },
    Damage {
        rule: Rule::UnreadableList,
        array: "quickstart_sparse",
        object: "__commits/__1_2_",
        besides: &[],
        damage: |files| {
            add(
                files,
                "__commits/__1_2_UUID_22.con",
                "__commits/__1_2_x_22.wr",
            )
        },
    },
    Damage {
        rule: Rule::IgnoreOfNothing,
        array: "quickstart_sparse",
        object: "__commits/__1_2_",
        besides: &[],
        damage: |files| {
            let lines = encode_ignore([format!("__commits/__1_1_{UUID}_22.wrt").as_str()]);
            add(files, "__commits/__1_2_UUID_22.ign", lines);
        },
    },
    Damage {
        rule: Rule::IgnoredAndCommitted,
        array: "quickstart_sparse",
        object: "__commits/__1000_1000_",
        besides: &[],
        damage: |files| {
            let lines = encode_ignore([files.find(".wrt").as_str()]);
            add(files, "__commits/__1_2_UUID_22.ign", lines);
        },
    },
    Damage {
        rule: Rule::CommittedTwice,
        array: "quickstart_sparse",
        object: "__commits/__1000_1000_",
        besides: &[],
        damage: |files| {
            let lines = encode_consolidated_commits([(files.find(".wrt").as_str(), None)]);
            add(files, "__commits/__1_2_UUID_22.con", lines);
        },
    },
];
