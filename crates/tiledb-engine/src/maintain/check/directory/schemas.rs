//! The schemas of an array and their enumerations: all decode, and every named one exists.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::folders::{self, FolderListings};
use crate::array::directory::{ENUMERATIONS_FOLDER, SCHEMA_FOLDER};
use crate::error::{Error, Result};
use crate::format::enumeration::Enumeration;
use crate::format::fragment::footer::OLD_SCHEMA_NAME;
use crate::format::names::TimestampedName;
use crate::format::schema::{ArraySchema, EnumerationRef};
use crate::maintain::check::report::FindingReporter;
use crate::maintain::check::rule::Rule;
use crate::storage::Storage;

/// The schemas that decode, and their enumerations.
#[derive(Debug)]
pub struct CheckedSchemas {
    /// The schemas by the names of their files, oldest first as readers see it.
    pub by_name: BTreeMap<String, Arc<ArraySchema>>,
    /// The enumerations by the names of their files.
    pub enumerations: HashMap<String, Arc<Enumeration>>,
    /// The storage with the key only if the array is encrypted.
    pub storage: Storage,
}

impl CheckedSchemas {
    /// The schema that readers choose now.
    pub fn newest(&self) -> Option<&Arc<ArraySchema>> {
        let in_folder = self
            .by_name
            .iter()
            .rfind(|(name, _)| *name != OLD_SCHEMA_NAME);
        let old = || self.by_name.get(OLD_SCHEMA_NAME);
        in_folder.map(|(_, schema)| schema).or_else(old)
    }

    /// The newest enumeration of this name that a schema knows. It has the most values, because indexes never change.
    pub fn enumeration(&self, name: &str) -> Option<&Arc<Enumeration>> {
        let all = self
            .by_name
            .values()
            .flat_map(|schema| &schema.enumerations);
        let named = all.filter(|reference| reference.name == name);
        let known = named.filter_map(|reference| self.enumerations.get(&reference.file));
        known.max_by_key(|enumeration| enumeration.len())
    }
}

/// Reads and checks all schemas and enumerations.
pub async fn check(
    storage: &Storage,
    folders: &FolderListings,
    report: &FindingReporter,
) -> Result<CheckedSchemas> {
    let mut paths = Vec::new();
    if folders.root.files.iter().any(|f| f.name == OLD_SCHEMA_NAME) {
        paths.push((OLD_SCHEMA_NAME.to_owned(), OLD_SCHEMA_NAME.to_owned()));
    }
    for file in folders::schema_files(&folders.schemas, report) {
        paths.push((file.name.clone(), format!("{SCHEMA_FOLDER}/{}", file.name)));
    }
    order(&paths, report);
    let mut by_name = BTreeMap::new();
    let mut encrypted = false;
    for (name, path) in paths {
        let decoded = match folders::read_tile_or_plain(storage, &path, "array schema").await? {
            Ok(tile) => {
                encrypted |= tile.encrypted;
                ArraySchema::decode(&tile.data)
            }
            Err(e) => Err(e),
        };
        match decoded {
            Ok(schema) => {
                fields(&schema, &path, report);
                by_name.insert(name, Arc::new(schema));
            }
            Err(e) => report.tell(Rule::UnreadableSchema, path, e.to_string(), "a schema"),
        }
    }
    let storage = settle_key(storage, encrypted, by_name.is_empty())?;
    let enumerations = check_enumerations(&storage, folders, &by_name, report).await?;
    Ok(CheckedSchemas {
        by_name,
        enumerations,
        storage,
    })
}

/// The storage with the key only if a schema is encrypted.
fn settle_key(storage: &Storage, encrypted: bool, unknown: bool) -> Result<Storage> {
    let Some(key) = storage.encryption_key().cloned().filter(|_| !unknown) else {
        return Ok(storage.clone());
    };
    if encrypted {
        return Ok(storage.clone().with_encryption_key(Some(key)));
    }
    if storage.has_key_on_demand() {
        return Ok(storage.clone().with_encryption_key(None));
    }
    Err(Error::encryption(
        "an encryption key was given but the array is not encrypted",
    ))
}

/// Readers choose schemas by the order of their names as text, which should be the order of their times.
fn order(paths: &[(String, String)], report: &FindingReporter) {
    let mut latest: Option<(u64, &str)> = None;
    for (name, path) in paths {
        let Ok(parsed) = TimestampedName::parse(name) else {
            continue;
        };
        match latest {
            Some((time, other)) if parsed.t2 < time => {
                let found = format!("{other} comes before it by name, and is newer by time");
                report.tell(Rule::SchemaOrder, path, found, "one order by name and time");
            }
            _ => latest = Some((parsed.t2, name)),
        }
    }
}

/// Attributes and labels that cannot be read.
fn fields(schema: &ArraySchema, path: &str, report: &FindingReporter) {
    for attribute in &schema.attributes {
        if let Some(problem) = &attribute.problem {
            let object = format!("{path}, attribute {}", attribute.name);
            report.tell(
                Rule::UnreadableField,
                object,
                problem,
                "a readable attribute",
            );
        }
    }
    for attribute in &schema.attributes {
        let Some(name) = &attribute.enumeration else {
            continue;
        };
        if !schema.enumerations.iter().any(|e| e.name == *name) {
            let object = format!("{path}, attribute {}", attribute.name);
            let found = format!("it is enumerated by \"{name}\"");
            let expected = "an enumeration that the schema has";
            report.tell(Rule::MissingEnumeration, object, found, expected);
        }
    }
}

async fn check_enumerations(
    storage: &Storage,
    folders: &FolderListings,
    schemas: &BTreeMap<String, Arc<ArraySchema>>,
    report: &FindingReporter,
) -> Result<HashMap<String, Arc<Enumeration>>> {
    let references: Vec<(&String, &EnumerationRef)> = schemas
        .iter()
        .flat_map(|(name, schema)| schema.enumerations.iter().map(move |e| (name, e)))
        .collect();
    let mut known = HashMap::new();
    for file in folders.enumerations.named_files() {
        let path = format!("{ENUMERATIONS_FOLDER}/{}", file.name);
        if folders::is_staging(&file.name) {
            folders::report_staging(&path, file, report);
            continue;
        }
        let naming = references.iter().find(|(_, e)| e.file == file.name);
        let Some((_, reference)) = naming else {
            let found = format!("{} bytes that no schema names", file.bytes);
            let expected = "enumerations that a schema names";
            report.tell(Rule::UnusedEnumeration, path, found, expected);
            continue;
        };
        let decoded = match folders::read_tile_or_plain(storage, &path, "enumeration").await? {
            Ok(tile) => Enumeration::decode(&tile.data),
            Err(e) => Err(e),
        };
        match decoded {
            Ok(enumeration) => {
                values(&enumeration, reference, &path, report);
                known.insert(file.name.clone(), Arc::new(enumeration));
            }
            Err(e) => {
                let found = e.to_string();
                report.tell(Rule::UnreadableEnumeration, path, found, "an enumeration");
            }
        }
    }
    let there: HashSet<&str> = folders
        .enumerations
        .files
        .iter()
        .map(|f| f.name.as_str())
        .collect();
    for (schema, reference) in &references {
        if !there.contains(reference.file.as_str()) {
            let object = format!("{ENUMERATIONS_FOLDER}/{}", reference.file);
            let found = "no file".to_owned();
            let expected = format!(
                "the enumeration \"{}\" of the schema {schema}",
                reference.name
            );
            report.tell(Rule::MissingEnumeration, object, found, expected);
        }
    }
    Ok(known)
}

/// An enumeration has the name by which schemas know it, and each value once.
fn values(
    enumeration: &Enumeration,
    known_as: &EnumerationRef,
    path: &str,
    report: &FindingReporter,
) {
    if enumeration.name != known_as.name || enumeration.file != known_as.file {
        let found = format!("the name \"{}\" in {}", enumeration.name, enumeration.file);
        let expected = format!("the name \"{}\" in {}", known_as.name, known_as.file);
        report.tell(Rule::EnumerationValues, path, found, expected);
    }
    let mut seen = HashMap::new();
    for index in 0..enumeration.len() {
        let Some(value) = enumeration.member(index) else {
            continue;
        };
        if let Some(first) = seen.insert(value, index) {
            let found = format!("the values {first} and {index} are the same");
            report.tell(Rule::EnumerationValues, path, found, "each value once");
            return;
        }
    }
}
