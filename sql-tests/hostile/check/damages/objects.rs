//! Schemas, enumerations, delete conditions, metadata and groups.

use tiledb_engine::maintain::check::Rule;

use super::super::forge::edit;
use super::{Damage, add, condition, cut, enumeration, remove};
use crate::support::array_files::nested_delete;
use crate::support::refusals::edit_schema;

pub const OBJECTS: &[Damage] = &[
    Damage {
        rule: Rule::UnreadableSchema,
        array: "quickstart_sparse",
        object: "__schema/__5000_5000_",
        besides: &[],
        damage: |files| add(files, "__schema/__5000_5000_UUID", "no schema"),
    },
    Damage {
        rule: Rule::SchemaOrder,
        array: "quickstart_sparse",
        object: "__schema/__10_10_",
        besides: &[],
        damage: |files| {
            // By name it comes behind __1000_1000.
            let schema = files.0[&files.find("__schema/")].clone();
            add(files, "__schema/__10_10_UUID", schema);
        },
    },
    Damage {
        rule: Rule::UnreadableField,
        array: "quickstart_sparse",
        object: "attribute a",
        besides: &[],
        damage: |files| {
            edit_schema(files, |schema| {
                let name = [1, 0, 0, 0, b'a'];
                let at = schema.windows(5).position(|w| w == name).expect("a");
                schema[at + 5] = 99;
            });
        },
    },
    Damage {
        rule: Rule::MissingEnumeration,
        array: "weather_stations",
        object: "__schema/__enumerations/",
        besides: &[],
        damage: |files| remove(files, "__enumerations/"),
    },
    Damage {
        rule: Rule::UnreadableEnumeration,
        array: "weather_stations",
        object: "__schema/__enumerations/",
        besides: &[],
        damage: |files| cut(files, "__enumerations/"),
    },
    Damage {
        rule: Rule::EnumerationValues,
        array: "weather_stations",
        object: "__schema/__enumerations/",
        besides: &[],
        damage: |files| {
            enumeration(files, |enumeration| {
                let first = enumeration.member(0).expect("a value").to_vec();
                let offset = enumeration.data.len() as u64;
                enumeration.data.extend(first);
                enumeration.offsets.as_mut().expect("text").push(offset);
            });
        },
    },
    Damage {
        rule: Rule::UnusedEnumeration,
        array: "weather_stations",
        object: "__enumerations/__0123456789abcdef",
        besides: &[],
        damage: |files| {
            let enumeration = files.0[&files.find("__enumerations/")].clone();
            add(files, "__schema/__enumerations/__UUID_0", enumeration);
        },
    },
    Damage {
        rule: Rule::UnreadableCopies,
        array: "fragment_metadata_consolidated",
        object: "__fragment_meta/",
        besides: &[],
        damage: |files| cut(files, ".meta"),
    },
    Damage {
        rule: Rule::FooterCopy,
        array: "fragment_metadata_consolidated",
        object: "__fragment_meta/",
        besides: &[],
        // A footer whose sections lie elsewhere.
        damage: |files| edit(files, "__2000_2000_", |_| {}),
    },
    Damage {
        rule: Rule::StaleCopy,
        array: "fragment_metadata_consolidated",
        object: "__fragment_meta/",
        besides: &[],
        damage: |files| remove(files, "__2000_2000_"),
    },
    Damage {
        rule: Rule::UnreadableDelete,
        array: "delete_simple",
        object: ".del",
        besides: &[],
        damage: |files| cut(files, ".del"),
    },
    Damage {
        rule: Rule::DeleteNesting,
        array: "delete_simple",
        object: ".del",
        besides: &[],
        damage: |files| {
            let path = files.find(".del");
            files.edit(&path, |bytes| *bytes = nested_delete(bytes));
        },
    },
    Damage {
        rule: Rule::DeleteField,
        array: "quickstart_sparse",
        object: "__commits/__2000_2000_",
        besides: &[],
        damage: |files| {
            add(
                files,
                "__commits/__2000_2000_UUID_22.del",
                condition("nobody"),
            )
        },
    },
    Damage {
        rule: Rule::DeleteInDense,
        array: "quickstart_dense",
        object: "__commits/__2000_2000_",
        besides: &[],
        damage: |files| add(files, "__commits/__2000_2000_UUID_22.del", condition("a")),
    },
    Damage {
        rule: Rule::UnreadableMetadata,
        array: "metadata",
        object: "__meta/",
        besides: &[],
        damage: |files| cut(files, "__meta/"),
    },
    Damage {
        rule: Rule::UnreadableGroup,
        array: "group:changes",
        object: "__group/",
        besides: &[],
        damage: |files| cut(files, "__group/"),
    },
];
