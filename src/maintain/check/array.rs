//! The way through an array or a group, part by part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};

use super::directory::commits::{self, Lists};
use super::directory::folders::{self, Folders, Kind, LABELS_FOLDER, about_stored};
use super::directory::schemas::{self, Schemas};
use super::directory::{deletes, fragments, metadata};
use super::report::Reporter;
use super::rule::Rule;
use super::{CheckOptions, cells, fragment};
use crate::array::directory::{ArrayDirectory, CommittedFragment};
use crate::array::fragment::Fragment;
use crate::array::snapshot::open_alone;
use crate::error::{ErrorKind, Result};
use crate::storage::Storage;

/// Checks whatever is at `storage`.
pub fn check(
    storage: Storage,
    options: CheckOptions,
    report: Reporter,
) -> BoxFuture<'static, Result<()>> {
    async move {
        let folders = Folders::list(&storage).await?;
        match folders.kind()? {
            Kind::Array => check_array(storage, &folders, &options, &report).await,
            Kind::Group => {
                folders::check_names(&folders, &report);
                metadata::check(&storage, &folders, &report).await?;
                metadata::check_group(&storage, &folders, &report).await
            }
        }
    }
    .boxed()
}

async fn check_array(
    storage: Storage,
    folders: &Folders,
    options: &CheckOptions,
    report: &Reporter,
) -> Result<()> {
    folders::check_names(folders, report);
    let schemas = schemas::check(&storage, folders, report).await?;
    let storage = schemas.storage.clone();
    let lists = Lists::read(&storage, folders, report).await?;
    let folders_of_fragments = fragments::folders_by_name(folders);
    let is_there = |name: &str| folders_of_fragments.contains_key(name);
    commits::check(&lists, is_there, report);
    deletes::check(&storage, &lists.deletes, &schemas, report).await?;
    metadata::check(&storage, folders, report).await?;
    let committed = fragments::check(&storage, folders, &lists, report).await?;
    let opened = open(&storage, committed, &schemas, report).await?;
    metadata::check_copies(&storage, folders, &opened, is_there, report).await?;
    for fragment in opened.into_values() {
        let folder = fragment.folder.clone();
        let checked = check_fragment(&storage, fragment, &schemas, options, report).await;
        if let Err(e) = checked {
            let found = about_stored(e)?.to_string();
            let expected = "metadata that agree with each other";
            report.tell(Rule::UnreadableFragment, folder, found, expected);
        }
    }
    check_labels(&storage, folders, options, report).await
}

async fn check_fragment(
    storage: &Storage,
    fragment: Fragment,
    schemas: &Schemas,
    options: &CheckOptions,
    report: &Reporter,
) -> Result<()> {
    let sound = fragment::check(storage, Arc::new(fragment), report).await?;
    match sound.filter(|_| !options.metadata_only) {
        Some(sound) => cells::check(storage, sound, schemas, options, report).await,
        None => Ok(()),
    }
}

/// Opens the fragments, each by itself; those that cannot be opened are told.
async fn open(
    storage: &Storage,
    committed: Vec<CommittedFragment>,
    schemas: &Schemas,
    report: &Reporter,
) -> Result<BTreeMap<String, Fragment>> {
    let mut opened = BTreeMap::new();
    if committed.is_empty() {
        return Ok(opened);
    }
    let directory = match ArrayDirectory::list(storage).await {
        Ok(directory) => directory,
        Err(e) => {
            // Without a schema no fragment can be read; that there is none was told if there are files of schemas.
            let problem = match e.kind() {
                ErrorKind::NotAnArray => e,
                _ => about_stored(e)?,
            };
            let expected = "at least one schema";
            report.tell(Rule::UnreadableSchema, "", problem.message(), expected);
            return Ok(opened);
        }
    };
    for fragment in committed {
        let (name, folder) = (fragment.name.name.clone(), fragment.folder.clone());
        match open_alone(storage, &directory, fragment).await {
            Ok(fragment) => {
                kind(&fragment, schemas, report);
                opened.insert(name, fragment);
            }
            Err(e) => {
                let found = about_stored(e)?.to_string();
                let expected = "a footer that decodes, with its schema";
                report.tell(Rule::UnreadableFragment, folder, found, expected);
            }
        }
    }
    Ok(opened)
}

/// The fragment is of the kind of the array, and has its dimensions.
fn kind(fragment: &Fragment, schemas: &Schemas, report: &Reporter) {
    let Some(newest) = schemas.newest() else {
        return;
    };
    let path = fragment.metadata_path();
    if fragment.footer.dense && !newest.is_dense() {
        let found = "a dense fragment";
        report.tell(
            Rule::FragmentKind,
            &path,
            found,
            "sparse ones, as the array is sparse",
        );
    }
    let types = |schema: &crate::format::schema::ArraySchema| {
        let dimensions = schema.dimensions.iter();
        dimensions
            .map(|d| (d.datatype, d.cell_val_num.is_var()))
            .collect::<Vec<_>>()
    };
    if types(&fragment.schema) != types(newest) {
        let found = "other dimensions than the array's newest schema has";
        report.tell(
            Rule::FragmentKind,
            &path,
            found,
            "the same dimensions in all schemas",
        );
    }
}

/// The arrays that hold dimension labels.
async fn check_labels(
    storage: &Storage,
    folders: &Folders,
    options: &CheckOptions,
    report: &Reporter,
) -> Result<()> {
    let labels: BTreeSet<&String> = folders.labels.folders.iter().collect();
    for label in labels {
        let place = storage.location().join(&format!("{LABELS_FOLDER}/{label}"));
        let report = report.of(place.uri());
        let label = storage.at(place);
        match check(label, options.clone(), report.clone()).await {
            // A folder without an array is of nobody's concern.
            Err(e) if matches!(e.kind(), ErrorKind::NotAnArray | ErrorKind::NotFound) => {}
            done => done?,
        }
    }
    Ok(())
}
