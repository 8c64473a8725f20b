//! Puts an evolved schema on storage, and merges it with evolutions that other writers put meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::compatible;
use super::history::{EvolutionBase, SchemaHistory};
use super::step::{ChangedSchema, EvolutionStep, apply, follow, meet, same};
use crate::array::directory::{ENUMERATIONS_FOLDER, SCHEMA_FOLDER};
use crate::array::window::TimestampMs;
use crate::error::{Error, Result};
use crate::filter::generic_tile;
use crate::format::enumeration::Enumeration;
use crate::format::fragment::footer::OLD_SCHEMA_NAME;
use crate::format::names::TimestampedName;
use crate::storage::Storage;
use crate::write::clock::Clock;
use crate::write::create::ArrayDefinition;

/// How often an evolution starts again, or is merged, before it gives up.
const ATTEMPTS: usize = 16;
/// How long to wait for the time of a schema that another machine's clock wrote.
const PATIENCE_MS: u64 = 1000;
/// The version that ends the name of an enumeration's file.
const ENUMERATION_VERSION: u32 = 0;

/// The result of an evolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evolved {
    /// The name of the schema that the array has now.
    pub schema: String,
    /// The changes, in words; empty if the array was already as wanted.
    pub changes: Vec<String>,
}

/// The evolution of an array.
pub(super) struct EvolutionExecution<'a> {
    /// Returns the changes of an array, and the array afterwards.
    pub wanted: &'a (dyn Fn(&ArrayDefinition) -> Result<ChangedSchema> + Sync),
    pub clock: &'a Clock,
    /// The time that was chosen for the change.
    pub chosen: Option<TimestampMs>,
}

impl EvolutionExecution<'_> {
    pub(super) async fn run(&self, storage: &Storage) -> Result<Evolved> {
        for _ in 0..ATTEMPTS {
            let base = EvolutionBase::open(storage).await?;
            let (steps, evolved) = (self.wanted)(&base.array)?;
            if steps.is_empty() {
                return Ok(Evolved {
                    schema: base.inspection.schema_name,
                    changes: Vec::new(),
                });
            }
            let idle_deletes = match compatible::check(&base, &steps, &evolved).await {
                Err(error) if base.inspection.is_outdated(&error).await => continue,
                checked => checked?,
            };
            let newest = base.inspection.schema_name.clone();
            let time = self.time_after(&newest).await?;
            let staged = self.stage(base.storage(), &evolved).await?;
            // Others may have evolved the array since it was opened; none of our changes is visible yet.
            let now = schema_names(base.storage()).await;
            match now {
                Ok(now) if now.iter().all(|name| base.names.contains(name)) => {}
                Ok(_) => {
                    staged.withdraw(base.storage()).await?;
                    continue;
                }
                Err(error) => {
                    let _ = staged.withdraw(base.storage()).await;
                    return Err(error);
                }
            }
            if let Err(error) = compatible::empty(&base, &idle_deletes).await {
                let _ = staged.withdraw(base.storage()).await;
                return Err(error);
            }
            let name = self.put(base.storage(), &staged, time).await?;
            let schema = self.settle(&base, &steps, name.clone()).await;
            // The error must name the schema: it was put, whatever failed afterwards.
            let schema = schema.map_err(|e| e.with("schema that was put", name))?;
            let changes = steps.iter().map(ToString::to_string).collect();
            return Ok(Evolved { schema, changes });
        }
        Err(Error::conflict(
            "other writers kept changing the schema while this statement ran: run it again later",
        ))
    }

    /// The time of a schema that comes after the one of this name.
    async fn time_after(&self, newest: &str) -> Result<TimestampMs> {
        let Some(latest) = time_of(newest)? else {
            // The schema of old releases is older than any other.
            return Ok(match self.chosen {
                Some(chosen) => chosen,
                None => self.clock.fresh_time().await,
            });
        };
        let time = match self.chosen {
            Some(chosen) if chosen > latest => chosen,
            Some(chosen) => {
                return Err(Error::invalid(format!(
                    "the schema of the array is of the time {latest}, and the evolution would be of {chosen}: expected a later tiledb.write_timestamp, because the later schema counts"
                )));
            }
            None => self.present_after(latest).await?,
        };
        if prefix(time).as_str() <= newest {
            return Err(Error::unsupported(format!(
                "readers take the last schema by its name, letter by letter, and {newest} would stay behind one of the time {time}: choose a tiledb.write_timestamp whose digits sort behind {latest}, or copy the array to a new one"
            )));
        }
        Ok(time)
    }

    /// The current time, after a wait if the clock of another machine is a little ahead.
    async fn present_after(&self, latest: TimestampMs) -> Result<TimestampMs> {
        let mut time = self.clock.fresh_time().await;
        if latest.0 > time.0.saturating_add(PATIENCE_MS) {
            return Err(Error::invalid(format!(
                "the schema of the array is of the time {latest}, and it is {time} now: an evolution of the present would not count; set tiledb.write_timestamp to a time after that of the schema"
            )));
        }
        while time <= latest {
            self.clock.wait(Duration::from_millis(1)).await;
            time = self.clock.fresh_time().await;
        }
        Ok(time)
    }

    /// Puts the files of enumerations that have none, and returns the schema that names them.
    async fn stage(&self, storage: &Storage, array: &ArrayDefinition) -> Result<StagedSchema> {
        let mut schema = array.schema.clone();
        let mut files = Vec::new();
        for enumeration in &array.enumerations {
            if !enumeration.file.is_empty() {
                continue;
            }
            let file = format!("__{}_{ENUMERATION_VERSION}", self.clock.fresh_uuid()?);
            let references = schema.enumerations.iter_mut();
            for reference in references.filter(|r| r.name == enumeration.name) {
                reference.file.clone_from(&file);
            }
            let named = Enumeration {
                file: file.clone(),
                ..enumeration.clone()
            };
            files.push((format!("{ENUMERATIONS_FOLDER}/{file}"), named.encode()?));
        }
        let schema = stored(storage, &schema.encode()?)?;
        let mut staged = StagedSchema {
            schema,
            enumerations: Vec::new(),
        };
        for (file, contents) in files {
            staged.enumerations.push(file.clone());
            let put = storage.create_file(&file, stored(storage, &contents)?);
            if let Err(error) = put.await {
                // Unfinished changes are undone as far as possible; the first error is returned.
                let _ = staged.withdraw(storage).await;
                return Err(error);
            }
        }
        Ok(staged)
    }

    /// Puts the schema, which makes the evolution visible.
    async fn put(
        &self,
        storage: &Storage,
        staged: &StagedSchema,
        time: TimestampMs,
    ) -> Result<String> {
        let name = self.clock.fresh_name(time, time)?;
        let file = format!("{SCHEMA_FOLDER}/{name}");
        let Err(error) = storage.create_file(&file, staged.schema.clone()).await else {
            return Ok(name);
        };
        // The schema may have been stored although the answer was lost, or may still arrive. So nothing that it names is
        // removed.
        match schema_names(storage).await {
            Ok(names) if names.contains(&name) => Ok(name),
            _ => Err(error),
        }
    }

    /// Looks for evolutions that did not know this one, and merges them. Returns the name of the schema that has all of them.
    async fn settle(
        &self,
        base: &EvolutionBase,
        mine: &[EvolutionStep],
        name: String,
    ) -> Result<String> {
        let storage = base.storage();
        let mut history = SchemaHistory::new(base);
        history.written.insert(name.clone());
        for _ in 0..ATTEMPTS {
            let names = schema_names(storage).await?;
            let mut wanted = apply(&base.array, mine)?;
            let mut met_others = false;
            for other in &names {
                if !history.is_new(other) {
                    continue;
                }
                met_others = true;
                let origin = history.origin(other, &names).await?;
                let theirs = history.read(other).await?;
                if let (false, Some(met)) = (origin.knows_mine, meet(mine, &origin.steps, &theirs))
                {
                    return Err(conflict(other, met, names.last() == Some(other)));
                }
                wanted = follow(wanted, origin.steps)?;
            }
            let Some(newest) = names.last().filter(|_| met_others) else {
                return Ok(name);
            };
            if same(&history.read(newest).await?, &wanted) {
                return Ok(newest.clone());
            }
            let after = time_of(newest)?.unwrap_or(TimestampMs(0));
            let time = match self.chosen {
                Some(_) => TimestampMs(after.0.saturating_add(1)),
                None => self.present_after(after).await?,
            };
            let staged = self.stage(storage, &wanted).await?;
            history
                .written
                .insert(self.put(storage, &staged, time).await?);
        }
        Err(Error::conflict(
            "other writers kept changing the schema: check with tiledb_schema whether this change is part of it",
        ))
    }
}

/// The schema of an evolution before it is put, and the files that it names, which are there.
struct StagedSchema {
    schema: Bytes,
    enumerations: Vec<String>,
}

impl StagedSchema {
    /// Removes files that no schema names.
    async fn withdraw(&self, storage: &Storage) -> Result<()> {
        for file in &self.enumerations {
            storage.remove_file(file).await?;
        }
        Ok(())
    }
}

/// The bytes of a file: a generic tile, encrypted if the array is.
fn stored(storage: &Storage, contents: &[u8]) -> Result<Bytes> {
    let key: Option<&Arc<_>> = storage.encryption_key();
    generic_tile::encode_with(contents, key).map(Bytes::from)
}

/// The names of the files of schemas, as they are now.
async fn schema_names(storage: &Storage) -> Result<BTreeSet<String>> {
    let listing = storage.list(SCHEMA_FOLDER).await?;
    Ok(listing
        .named_files()
        .map(|file| file.name.clone())
        .collect())
}

/// The time of a schema; `None` for the one of old releases.
fn time_of(name: &str) -> Result<Option<TimestampMs>> {
    if name == OLD_SCHEMA_NAME {
        return Ok(None);
    }
    let parsed = TimestampedName::parse(name)?;
    Ok(Some(TimestampMs(parsed.t1.max(parsed.t2))))
}

/// How the names of schemas of a time begin.
fn prefix(time: TimestampMs) -> String {
    format!("__{time}_")
}

/// Two evolutions that change the same thing at the same time.
fn conflict(
    other: &str,
    (mine, theirs): (&EvolutionStep, &EvolutionStep),
    they_count: bool,
) -> Error {
    let outcome = if they_count {
        "theirs took effect, and this one did not"
    } else {
        "this one took effect, and theirs did not"
    };
    Error::conflict(format!(
        "another evolution, of which the schema is {other}, started from the same schema at the same time: it is to {theirs}, and this one to {mine}; {outcome}. Look at the columns, and run again what is missing"
    ))
}
