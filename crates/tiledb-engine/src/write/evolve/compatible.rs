//! Whether the fragments on storage can be read with an evolved schema, by libtiledb too.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::Array;

use super::history::EvolutionBase;
use super::step::EvolutionStep;
use crate::array::fragment::Fragment;
use crate::arrow::{ArrayEnumerations, ColumnType, TypeOptions, fill_array};
use crate::error::{Error, Result};
use crate::format::delete_condition::DeleteCondition;
use crate::format::domain_range::compare_values;
use crate::format::enumeration::Enumeration;
use crate::format::filter_list::{Filter, FilterList};
use crate::format::fragment::footer::OLD_SCHEMA_NAME;
use crate::format::schema::current_domain::CurrentDomain;
use crate::format::schema::{ArraySchema, Attribute};
use crate::write::create::ArrayDefinition;
use crate::write::delete::{every_cell, rewritten};

/// Fragments of these versions name no schema, and libtiledb does not find one once there are several.
const WITHOUT_SCHEMA_NAME: RangeInclusive<u32> = 3..=9;
/// Since this version, libtiledb reads run lengths of text alike.
const STRINGS_IN_RUNS: u32 = 17;

/// Fails if fragments would be misread. Returns the names of the deletes that must be emptied before the columns that they test
/// are dropped.
pub(super) async fn check(
    base: &EvolutionBase,
    steps: &[EvolutionStep],
    evolved: &ArrayDefinition,
) -> Result<BTreeSet<String>> {
    check_versions(base).await?;
    let mut fragments = WrittenFragments { base, loaded: None };
    let mut idle = BTreeSet::new();
    for step in steps {
        match step {
            EvolutionStep::DropAttribute(name) => {
                idle.extend(idle_deletes(&mut fragments, name).await?)
            }
            EvolutionStep::AddAttribute(attribute) => {
                check_shown(&mut fragments, attribute, evolved).await?;
                check_again(&mut fragments, attribute, evolved).await?;
            }
            EvolutionStep::CurrentDomain(grown) if base.array.schema.current_domain.is_none() => {
                check_inside(fragments.load().await?, grown, evolved)?;
            }
            _ => {}
        }
    }
    Ok(idle)
}

/// Fails if existing cells would show NULL in a NOT NULL column, because its fill value isn't a valid time or isn't a code of
/// its enumeration.
async fn check_shown(
    fragments: &mut WrittenFragments<'_>,
    added: &Attribute,
    evolved: &ArrayDefinition,
) -> Result<()> {
    if added.nullable {
        return Ok(());
    }
    let name = added.enumeration.as_ref();
    let enumeration = name.and_then(|name| evolved.enumerations.iter().find(|e| e.name == *name));
    let ty = ColumnType::of_attribute(added, enumeration, &TypeOptions::default())?;
    let shows_null = ty.nullable() && fill_array(added, &ty, 1)?.logical_null_count() > 0;
    if !shows_null || fragments.load().await?.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(
        "the column is NOT NULL, and existing cells would show NULL in it: give it a DEFAULT, or leave NOT NULL out",
    )
    .with("column", &added.name))
}

/// The idle deletes that test the column. libtiledb looks for the columns of all deletes in the newest schema, even of deletes
/// that every fragment has processed. Fails if a fragment of any time hasn't processed one of them.
async fn idle_deletes(fragments: &mut WrittenFragments<'_>, column: &str) -> Result<Vec<String>> {
    let base = fragments.base;
    let mut deletes = base.inspection.deletes().await?;
    deletes.retain(|delete| delete.condition.fields().contains(&column));
    if deletes.is_empty() {
        return Ok(Vec::new());
    }
    for fragment in fragments.load().await? {
        let processed = if fragment.footer.has_delete_metadata {
            fragment.processed_conditions(base.storage()).await?
        } else {
            Arc::default()
        };
        let is_pending =
            |name: &str, time: u64| fragment.name.t1 <= time && !processed.contains(name);
        if let Some(delete) = deletes.iter().find(|d| is_pending(&d.name, d.time)) {
            return Err(Error::unsupported(format!(
                "the delete {} tests the column \"{column}\" in the fragment {}, and without the column its cells can't be found: \
                 consolidate the fragments, vacuum them with a min_age of 0, and drop the column then",
                delete.name, fragment.name.name
            ))
            .with("column", column));
        }
    }
    Ok(deletes.iter().map(|delete| delete.name.clone()).collect())
}

/// Changes deletes that every fragment has processed so that they delete nothing, and test no attribute.
pub(super) async fn empty(base: &EvolutionBase, idle: &BTreeSet<String>) -> Result<()> {
    if idle.is_empty() {
        return Ok(());
    }
    let nothing = every_cell(&base.array.schema)?;
    let commits = base.inspection.commits().await?;
    let change = |name: &str, _: DeleteCondition| idle.contains(name).then(|| nothing.clone());
    for file in rewritten(base.storage(), &commits, &change).await? {
        file.put(base.storage()).await?;
    }
    Ok(())
}

/// The fragments of the array, which are opened only if that is needed.
struct WrittenFragments<'a> {
    base: &'a EvolutionBase,
    loaded: Option<Vec<Arc<Fragment>>>,
}

impl WrittenFragments<'_> {
    async fn load(&mut self) -> Result<&[Arc<Fragment>]> {
        if self.loaded.is_none() {
            let found = self.base.inspection.fragments().await?;
            self.loaded = Some(found.into_iter().map(|f| f.fragment).collect());
        }
        Ok(self.loaded.as_deref().unwrap_or_default())
    }
}

/// Fails if libtiledb could not read the fragments any more. It reads fragments of old releases with the filters and the
/// version of the newest schema, and an evolution raises this version to today's.
async fn check_versions(base: &EvolutionBase) -> Result<()> {
    let schema = &base.inspection.schema;
    for fragment in base.inspection.committed().await? {
        let versions = fragment.name.fragment_versions();
        let version = *versions.end();
        let problem = if WITHOUT_SCHEMA_NAME.contains(&version) {
            Some("it names no schema".to_owned())
        } else if WITHOUT_SCHEMA_NAME.contains(&schema.version.get()) {
            Some(format!("its schema is of version {}", schema.version))
        } else if !schema.version.since(5) {
            shared_filters(schema, version)
        } else if version < STRINGS_IN_RUNS {
            strings_in_runs(schema)
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(Error::unsupported(format!(
                "the fragment {} is of format version {version}, and {problem}: libtiledb cannot read such fragments once the schema of their array has evolved; copy the array to a new one, and evolve that",
                fragment.name.name
            )));
        }
    }
    Ok(())
}

/// The problem, if any, of the filters that all dimensions share in schemas before version 5.
fn shared_filters(schema: &ArraySchema, fragment: u32) -> Option<String> {
    let filters = &schema.coords_filters.filters;
    if !schema.is_dense() && fragment >= *WITHOUT_SCHEMA_NAME.start() && !filters.is_empty() {
        return Some(
            "its schema, which is older, has filters for all coordinates at once".to_owned(),
        );
    }
    // Only compressors treat coordinates as plain bytes, whatever the number of dimensions.
    let compressor = |f: &Filter| {
        matches!(
            f,
            Filter::None | Filter::Gzip | Filter::Zstd | Filter::Lz4 | Filter::Bzip2
        )
    };
    match filters.iter().find(|filter| !compressor(filter)) {
        Some(other) => Some(format!("its coordinates have the filter {}", other.name())),
        None => strings_in_runs(schema),
    }
}

/// The problem, if any, of text under run lengths: these count bytes in old fragments, and strings in new ones.
fn strings_in_runs(schema: &ArraySchema) -> Option<String> {
    let dimensions = schema
        .dimensions
        .iter()
        .map(|d| (&d.name, d.datatype, &d.filters));
    let attributes = schema
        .attributes
        .iter()
        .map(|a| (&a.name, a.datatype, &a.filters));
    let in_runs = |filters: &FilterList| filters.filters.iter().any(|f| matches!(f, Filter::Rle));
    let mut fields = dimensions.chain(attributes);
    let (name, ..) =
        fields.find(|(_, datatype, filters)| datatype.is_string() && in_runs(filters))?;
    Some(format!("it has text of \"{name}\" under run lengths"))
}

/// Fails if the cells of a dropped attribute would reappear as values of another type: libtiledb reads stored cells with the
/// type of the new attribute.
async fn check_again(
    fragments: &mut WrittenFragments<'_>,
    added: &Attribute,
    evolved: &ArrayDefinition,
) -> Result<()> {
    let base = fragments.base;
    let mut other = None;
    for name in base.inspection.schema_names() {
        if name == OLD_SCHEMA_NAME {
            continue;
        }
        let (schema, enumerations) = base.inspection.read_schema(name).await?;
        let reads = reads_alike(&schema, &enumerations, added, evolved);
        if !reads {
            other = Some(name.to_owned());
        }
    }
    let Some(schema) = other else {
        return Ok(());
    };
    let has_it = |fragment: &&Arc<Fragment>| {
        let attributes = &fragment.schema.attributes;
        attributes.iter().any(|a| a.name == added.name)
    };
    match fragments.load().await?.iter().find(has_it) {
        None => Ok(()),
        Some(fragment) => Err(Error::unsupported(format!(
            "the array had a column \"{0}\" of another type, filters or enumeration (schema {schema}), and the fragment {1} still holds its cells, which libtiledb would read as cells of the new one: choose another name",
            added.name, fragment.name.name
        ))
        .with("column", &added.name)),
    }
}

/// Whether cells that were written by a schema mean the same to an attribute of the same name.
fn reads_alike(
    schema: &ArraySchema,
    enumerations: &ArrayEnumerations,
    added: &Attribute,
    evolved: &ArrayDefinition,
) -> bool {
    let Some(index) = schema.attribute_index(&added.name) else {
        return true;
    };
    let Some(known) = schema.attributes.get(index) else {
        return true;
    };
    let alike = (known.datatype, known.cell_val_num, known.nullable)
        == (added.datatype, added.cell_val_num, added.nullable)
        && known.filters == added.filters;
    let values = |name: &Option<String>| -> Option<&Enumeration> {
        let name = name.as_ref()?;
        enumerations.get(name)?.as_ref().ok().map(Arc::as_ref)
    };
    let new = added
        .enumeration
        .as_ref()
        .and_then(|name| evolved.enumerations.iter().find(|e| e.name == *name));
    let same_values = match (values(&known.enumeration), new) {
        (Some(old), Some(new)) => new.extends(old),
        (old, new) => old.is_none() && new.is_none() && known.enumeration.is_none(),
    };
    alike && same_values
}

/// Fails if a first current domain leaves out existing cells.
fn check_inside(
    fragments: &[Arc<Fragment>],
    grown: &CurrentDomain,
    evolved: &ArrayDefinition,
) -> Result<()> {
    let dimensions = &evolved.schema.dimensions;
    for fragment in fragments {
        let Some(domain) = &fragment.footer.non_empty_domain else {
            continue;
        };
        for ((range, written), dimension) in grown.ranges.iter().zip(domain).zip(dimensions) {
            let at_most = |a: &[u8], b: &[u8]| {
                compare_values(dimension.datatype, a, b).is_some_and(Ordering::is_le)
            };
            if !at_most(&range.lo, &written.lo) || !at_most(&written.hi, &range.hi) {
                return Err(Error::invalid(format!(
                    "the current domain leaves out cells of the fragment {}: expected one around all cells that are there",
                    fragment.name.name
                ))
                .with("column", &dimension.name));
            }
        }
    }
    Ok(())
}
