//! An array as an evolution finds it, the schemas that were put at about the same time, and the origin of each.
//!
//! A schema doesn't record the schema that it was made from. An evolution makes few changes, so the origin is the earlier
//! schema from which the fewest changes lead to it; a drop of a new column counts as several. The subtle thing: an evolution
//! that knew only an older schema lacks what others have added since, but didn't drop it.

use std::collections::{BTreeMap, BTreeSet};

use super::step::{EvolutionStep, between};
use crate::array::inspect::ArrayInspection;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::arrow::ArrayEnumerations;
use crate::error::{Error, Result};
use crate::format::schema::ArraySchema;
use crate::storage::Storage;
use crate::write::create::{ArrayDefinition, upgraded};

/// How many of the schemas before an evolution others may have started from.
const RECENT: usize = 6;

/// The cost of a step that drops what was added during the evolution; others cost 1, because they are likelier.
const DROP_OF_NEW: usize = 8;

/// An array as an evolution finds it.
pub(super) struct EvolutionBase {
    pub inspection: ArrayInspection,
    pub array: ArrayDefinition,
    /// The names of the files of its schemas.
    pub names: BTreeSet<String>,
}

impl EvolutionBase {
    pub(super) async fn open(storage: &Storage) -> Result<Self> {
        let window = OpenWindow::new(TimestampMs(0), Some(TimestampMs(u64::MAX)))?;
        let inspection = ArrayInspection::open(storage, window).await?;
        let enumerations = inspection.enumerations().await?;
        let array = definition(&inspection.schema, &enumerations)?;
        let names = inspection.schema_names().map(str::to_owned).collect();
        Ok(Self {
            inspection,
            array,
            names,
        })
    }

    /// The storage, with the key only if the array is encrypted.
    pub(super) fn storage(&self) -> &Storage {
        self.inspection.storage()
    }
}

/// The array of a schema, in today's version of the format.
pub(super) fn definition(
    schema: &ArraySchema,
    known: &ArrayEnumerations,
) -> Result<ArrayDefinition> {
    for attribute in &schema.attributes {
        crate::arrow::check_problem(attribute)?;
    }
    let loaded = |name: &String| match known.get(name) {
        Some(Ok(enumeration)) => Ok(enumeration.as_ref().clone()),
        Some(Err(why)) => Err(why.again().with("enumeration", name)),
        None => Err(Error::internal("an enumeration was not loaded").with("enumeration", name)),
    };
    let enumerations = schema.enumerations.iter().map(|e| loaded(&e.name));
    Ok(ArrayDefinition {
        enumerations: enumerations.collect::<Result<_>>()?,
        schema: upgraded(schema),
    })
}

/// The schemas around an evolution.
pub(super) struct SchemaHistory<'a> {
    base: &'a EvolutionBase,
    read: BTreeMap<String, ArrayDefinition>,
    /// The names of the schemas that the evolution itself has put.
    pub written: BTreeSet<String>,
}

/// The origin of a schema.
pub(super) struct SchemaOrigin {
    /// The changes of its writer.
    pub steps: Vec<EvolutionStep>,
    /// Whether its writer must have known a schema that the evolution has put.
    pub knows_mine: bool,
}

impl<'a> SchemaHistory<'a> {
    pub(super) fn new(base: &'a EvolutionBase) -> Self {
        Self {
            base,
            read: BTreeMap::new(),
            written: BTreeSet::new(),
        }
    }

    /// Whether another writer has put a schema that the evolution doesn't know.
    pub(super) fn is_new(&self, name: &str) -> bool {
        !self.base.names.contains(name) && !self.written.contains(name)
    }

    /// The array of a schema.
    pub(super) async fn read(&mut self, name: &str) -> Result<ArrayDefinition> {
        if let Some(known) = self.read.get(name) {
            return Ok(known.clone());
        }
        let array = if name == self.base.inspection.schema_name {
            self.base.array.clone()
        } else {
            let (schema, enumerations) = self.base.inspection.read_schema(name).await?;
            definition(&schema, &enumerations)?
        };
        self.read.insert(name.to_owned(), array.clone());
        Ok(array)
    }

    /// The cost of a step. Nobody drops what others have just added, so a schema that lacks it was made from another one.
    fn cost(&self, step: &EvolutionStep) -> usize {
        let schema = &self.base.array.schema;
        let was_there = match step {
            EvolutionStep::DropAttribute(name) => {
                schema.attributes.iter().any(|old| old.name == *name)
            }
            EvolutionStep::DropEnumeration(name) => {
                schema.enumerations.iter().any(|old| old.name == *name)
            }
            _ => true,
        };
        if was_there { 1 } else { DROP_OF_NEW }
    }

    /// The schema from which another one was most likely made, as the changes since.
    pub(super) async fn origin(
        &mut self,
        name: &str,
        names: &BTreeSet<String>,
    ) -> Result<SchemaOrigin> {
        let array = self.read(name).await?;
        let newest = &self.base.inspection.schema_name;
        let known = self
            .base
            .names
            .iter()
            .rev()
            .filter(|known| *known != newest)
            .take(RECENT)
            .chain([newest]);
        let later = names
            .iter()
            .filter(|other| !self.base.names.contains(*other));
        let candidates = known.chain(later.filter(|other| other.as_str() < name));
        let mut nearest: Vec<(bool, Vec<EvolutionStep>)> = Vec::new();
        let mut best = usize::MAX;
        for candidate in candidates.cloned().collect::<Vec<_>>() {
            // Others don't start from a schema that cannot be read, such as that of an old release.
            let Ok(from) = self.read(&candidate).await else {
                continue;
            };
            let steps = between(&from, &array)?;
            let distance = steps.iter().map(|step| self.cost(step)).sum::<usize>();
            if steps.is_empty() || distance > best {
                continue;
            }
            if distance < best {
                nearest.clear();
                best = distance;
            }
            nearest.push((self.written.contains(&candidate), steps));
        }
        let knows_mine = nearest.iter().all(|(mine, _)| *mine);
        let steps = nearest.into_iter().filter(|(mine, _)| *mine == knows_mine);
        Ok(SchemaOrigin {
            steps: steps.flat_map(|(_, steps)| steps).collect(),
            knows_mine,
        })
    }
}
