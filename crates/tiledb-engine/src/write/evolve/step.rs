//! Changes of a schema, one subject each: applied, found between two schemas, and put together.
//!
//! The subtle thing: the order in which a schema lists enumerations means nothing, and neither do the names of their files, so
//! only the attributes' order distinguishes two schemas that are otherwise equal.

use std::cmp::Ordering;
use std::fmt;

use crate::error::{Error, Result};
use crate::format::domain_range::compare_values;
use crate::format::enumeration::Enumeration;
use crate::format::schema::current_domain::CurrentDomain;
use crate::format::schema::{ArraySchema, Attribute, Dimension, EnumerationRef};
use crate::write::create::{ArrayDefinition, show_element};

/// A change of a schema.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum EvolutionStep {
    DropAttribute(String),
    DropEnumeration(String),
    AddEnumeration(Enumeration),
    /// The enumeration with its old values and the new ones behind them.
    ExtendEnumeration(Enumeration),
    AddAttribute(Attribute),
    CurrentDomain(CurrentDomain),
}

/// Changes, and the array after them.
pub(super) type ChangedSchema = (Vec<EvolutionStep>, ArrayDefinition);

/// The subject of a change; two changes of different subjects can both be made.
#[derive(Debug, PartialEq, Eq)]
enum Subject<'a> {
    Attribute(&'a str),
    Enumeration(&'a str),
    CurrentDomain,
}

impl EvolutionStep {
    fn subject(&self) -> Subject<'_> {
        match self {
            Self::DropAttribute(name) => Subject::Attribute(name),
            Self::AddAttribute(attribute) => Subject::Attribute(&attribute.name),
            Self::DropEnumeration(name) => Subject::Enumeration(name),
            Self::AddEnumeration(added) | Self::ExtendEnumeration(added) => {
                Subject::Enumeration(&added.name)
            }
            Self::CurrentDomain(_) => Subject::CurrentDomain,
        }
    }
}

impl fmt::Display for EvolutionStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DropAttribute(name) => write!(f, "drop column {name:?}"),
            Self::DropEnumeration(name) => write!(f, "drop enumeration {name:?}"),
            Self::AddEnumeration(added) => {
                let (name, values) = (&added.name, added.len());
                write!(f, "add enumeration {name:?} of {values} values")
            }
            Self::ExtendEnumeration(extended) => {
                let (name, values) = (&extended.name, extended.len());
                write!(f, "extend enumeration {name:?} to {values} values")
            }
            Self::AddAttribute(attribute) => write!(f, "add column {:?}", attribute.name),
            Self::CurrentDomain(_) => f.write_str("set current domain"),
        }
    }
}

/// The array after these changes.
///
/// # Errors
/// A change does not fit the array; the error says which and why.
pub(super) fn apply(array: &ArrayDefinition, steps: &[EvolutionStep]) -> Result<ArrayDefinition> {
    let mut evolved = array.clone();
    // Attributes are dropped before their enumerations, and added after them.
    for wanted in 0..6 {
        for step in steps.iter().filter(|step| rank(step) == wanted) {
            apply_one(&mut evolved, step)?;
        }
    }
    for attribute in &evolved.schema.attributes {
        if let Some(name) = &attribute.enumeration
            && evolved.schema.enumeration(name).is_none()
        {
            return Err(Error::invalid(format!(
                "the column \"{}\" shows values of enumeration \"{name}\", which is dropped",
                attribute.name
            )));
        }
    }
    Ok(evolved)
}

fn rank(step: &EvolutionStep) -> u8 {
    match step {
        EvolutionStep::DropAttribute(_) => 0,
        EvolutionStep::DropEnumeration(_) => 1,
        EvolutionStep::AddEnumeration(_) => 2,
        EvolutionStep::ExtendEnumeration(_) => 3,
        EvolutionStep::AddAttribute(_) => 4,
        EvolutionStep::CurrentDomain(_) => 5,
    }
}

fn apply_one(array: &mut ArrayDefinition, step: &EvolutionStep) -> Result<()> {
    let ArrayDefinition {
        schema,
        enumerations,
    } = array;
    match step {
        EvolutionStep::DropAttribute(name) => {
            let index = schema
                .attribute_index(name)
                .ok_or_else(|| missing("column", name))?;
            schema.attributes.remove(index);
        }
        EvolutionStep::DropEnumeration(name) => {
            let before = enumerations.len();
            enumerations.retain(|known| known.name != *name);
            schema.enumerations.retain(|known| known.name != *name);
            if enumerations.len() == before {
                return Err(missing("enumeration", name));
            }
        }
        EvolutionStep::AddEnumeration(added) => {
            if schema.enumeration(&added.name).is_some() {
                return Err(there_is("enumeration", &added.name));
            }
            enumerations.push(added.clone());
            schema.enumerations.push(EnumerationRef {
                name: added.name.clone(),
                file: added.file.clone(),
            });
        }
        EvolutionStep::ExtendEnumeration(extended) => extend(schema, enumerations, extended)?,
        EvolutionStep::AddAttribute(attribute) => {
            if schema.attribute_index(&attribute.name).is_some() {
                return Err(there_is("column", &attribute.name));
            }
            schema.attributes.push(attribute.clone());
        }
        EvolutionStep::CurrentDomain(grown) => {
            check_grows(&schema.dimensions, schema.current_domain.as_ref(), grown)?;
            schema.current_domain = Some(grown.clone());
        }
    }
    Ok(())
}

fn extend(
    schema: &mut ArraySchema,
    enumerations: &mut [Enumeration],
    extended: &Enumeration,
) -> Result<()> {
    let name = &extended.name;
    let known = enumerations.iter_mut().find(|known| known.name == *name);
    let reference = schema.enumerations.iter_mut().find(|r| r.name == *name);
    let (Some(known), Some(reference)) = (known, reference) else {
        return Err(missing("enumeration", name));
    };
    if !extended.extends(known) {
        return Err(Error::conflict(format!(
            "the values of enumeration \"{name}\" are no longer the first of those that it is to have"
        )));
    }
    reference.file.clone_from(&extended.file);
    known.clone_from(extended);
    Ok(())
}

/// Fails unless a current domain contains the one before it.
fn check_grows(
    dimensions: &[Dimension],
    known: Option<&CurrentDomain>,
    grown: &CurrentDomain,
) -> Result<()> {
    let Some(known) = known else {
        return Ok(());
    };
    let ranges = known.ranges.iter().zip(&grown.ranges);
    for (dimension, (old, new)) in dimensions.iter().zip(ranges) {
        let datatype = dimension.datatype;
        let at_most =
            |a: &[u8], b: &[u8]| compare_values(datatype, a, b).is_some_and(Ordering::is_le);
        if at_most(&new.lo, &old.lo) && at_most(&old.hi, &new.hi) {
            continue;
        }
        let show = |low: &[u8], high: &[u8]| {
            if dimension.is_var() {
                format!(
                    "[{:?}, {:?}]",
                    String::from_utf8_lossy(low),
                    String::from_utf8_lossy(high)
                )
            } else {
                format!(
                    "[{}, {}]",
                    show_element(datatype, low),
                    show_element(datatype, high)
                )
            }
        };
        return Err(Error::invalid(format!(
            "the current domain is {} and would be {}: a current domain can only grow",
            show(&old.lo, &old.hi),
            show(&new.lo, &new.hi)
        ))
        .with("column", &dimension.name));
    }
    Ok(())
}

/// The changes that turn one array into the other.
///
/// # Errors
/// They differ in something that no evolution changes.
pub(super) fn between(old: &ArrayDefinition, new: &ArrayDefinition) -> Result<Vec<EvolutionStep>> {
    if fixed(&old.schema) != fixed(&new.schema) {
        return Err(Error::conflict(
            "the schemas differ in something that no evolution changes",
        ));
    }
    let mut steps = Vec::new();
    for attribute in &old.schema.attributes {
        if !new.schema.attributes.contains(attribute) {
            steps.push(EvolutionStep::DropAttribute(attribute.name.clone()));
        }
    }
    for attribute in &new.schema.attributes {
        if !old.schema.attributes.contains(attribute) {
            steps.push(EvolutionStep::AddAttribute(attribute.clone()));
        }
    }
    for known in &old.enumerations {
        if !new.enumerations.iter().any(|e| e.name == known.name) {
            steps.push(EvolutionStep::DropEnumeration(known.name.clone()));
        }
    }
    for enumeration in &new.enumerations {
        let nowhere = Enumeration {
            file: String::new(),
            ..enumeration.clone()
        };
        let known = old
            .enumerations
            .iter()
            .find(|known| known.name == enumeration.name);
        match known {
            None => steps.push(EvolutionStep::AddEnumeration(nowhere)),
            Some(known) if known.says_the_same(enumeration) => {}
            Some(known) if enumeration.extends(known) => {
                steps.push(EvolutionStep::ExtendEnumeration(nowhere));
            }
            Some(known) => steps.extend([
                EvolutionStep::DropEnumeration(known.name.clone()),
                EvolutionStep::AddEnumeration(nowhere),
            ]),
        }
    }
    if let Some(grown) = &new.schema.current_domain
        && new.schema.current_domain != old.schema.current_domain
    {
        steps.push(EvolutionStep::CurrentDomain(grown.clone()));
    }
    Ok(steps)
}

/// The part of a schema that no evolution changes.
fn fixed(schema: &ArraySchema) -> ArraySchema {
    ArraySchema {
        attributes: Vec::new(),
        enumerations: Vec::new(),
        current_domain: None,
        ..schema.clone()
    }
}

/// Whether two arrays are the same, except for the files of enumerations and the order of additions.
pub(super) fn same(a: &ArrayDefinition, b: &ArrayDefinition) -> bool {
    between(a, b).is_ok_and(|steps| steps.is_empty())
        && a.schema.current_domain == b.schema.current_domain
}

/// Finds a pair of changes with the same subject, one of each list. The first one is not in effect in the array that the others
/// made.
pub(super) fn meet<'a>(
    mine: &'a [EvolutionStep],
    theirs: &'a [EvolutionStep],
    array: &ArrayDefinition,
) -> Option<(&'a EvolutionStep, &'a EvolutionStep)> {
    let lost = mine.iter().filter(|step| !in_effect(array, step));
    lost.into_iter().find_map(|step| {
        let met = theirs
            .iter()
            .find(|their| their.subject() == step.subject());
        met.map(|met| (step, met))
    })
}

/// The array after changes that others have made, as far as they are not in effect already.
pub(super) fn follow(
    mut array: ArrayDefinition,
    mut steps: Vec<EvolutionStep>,
) -> Result<ArrayDefinition> {
    steps.sort_by_key(rank);
    for step in steps {
        if !in_effect(&array, &step) {
            array = apply(&array, &[step])?;
        }
    }
    Ok(array)
}

fn in_effect(array: &ArrayDefinition, step: &EvolutionStep) -> bool {
    let enumeration = |name: &str| array.enumerations.iter().find(|known| known.name == *name);
    match step {
        EvolutionStep::DropAttribute(name) => array.schema.attribute_index(name).is_none(),
        EvolutionStep::AddAttribute(attribute) => array.schema.attributes.contains(attribute),
        EvolutionStep::DropEnumeration(name) => enumeration(name).is_none(),
        EvolutionStep::AddEnumeration(added) | EvolutionStep::ExtendEnumeration(added) => {
            enumeration(&added.name).is_some_and(|known| known.extends(added))
        }
        EvolutionStep::CurrentDomain(grown) => {
            let known = array.schema.current_domain.as_ref();
            known.is_some_and(|known| {
                check_grows(&array.schema.dimensions, Some(grown), known).is_ok()
            })
        }
    }
}

fn missing(what: &str, name: &str) -> Error {
    Error::invalid(format!("there is no {what} \"{name}\""))
}

fn there_is(what: &str, name: &str) -> Error {
    Error::invalid(format!("there is a {what} \"{name}\" already"))
}
