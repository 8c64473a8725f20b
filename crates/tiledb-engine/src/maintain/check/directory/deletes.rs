//! Delete and update commits: they decode, they compare existing fields of the array, and libtiledb evaluates them to the same
//! cells.

use std::collections::BTreeSet;

use super::commits::CheckedDelete;
use super::folders;
use super::schemas::CheckedSchemas;
use crate::error::Result;
use crate::format::delete_condition::{Comparison, ConditionTest, DeleteCondition};
use crate::format::schema::{ArraySchema, CellValNum};
use crate::maintain::check::report::FindingReporter;
use crate::maintain::check::rule::Rule;
use crate::storage::Storage;

/// Decodes the contents of a file.
type DecodeFile = fn(&[u8]) -> Result<DeleteCondition>;

/// Checks all deletes and updates.
pub async fn check(
    storage: &Storage,
    deletes: &[CheckedDelete],
    schemas: &CheckedSchemas,
    report: &FindingReporter,
) -> Result<()> {
    for delete in deletes {
        let object = match delete.inline {
            Some(_) => format!("{}, {}", delete.path, delete.name.name),
            None => delete.path.clone(),
        };
        let (what, decode): (_, DecodeFile) = if delete.update {
            ("update condition", DeleteCondition::decode_update)
        } else {
            ("delete condition", DeleteCondition::decode_delete)
        };
        let tile = match &delete.inline {
            Some(bytes) => match storage.decode_generic_tile(bytes, what) {
                Ok(tile) => Ok(tile),
                Err(e) => Err(folders::about_stored(e)?),
            },
            None => folders::read_tile(storage, &delete.path, what).await?,
        };
        let condition = match tile.and_then(|tile| decode(&tile.data)) {
            Ok(condition) => condition,
            Err(e) => {
                report.tell(Rule::UnreadableDelete, object, e.to_string(), "a condition");
                continue;
            }
        };
        if condition.is_misread() {
            report.tell(
                Rule::DeleteNesting,
                &object,
                "an OR directly in an OR, which libtiledb misreads: it hides cells that are not deleted",
                "one OR of all alternatives",
            );
        }
        let Some(schema) = schemas.newest() else {
            continue;
        };
        if schema.is_dense() {
            let found = "a delete in a dense array";
            report.tell(
                Rule::DeleteInDense,
                &object,
                found,
                "deletes in sparse arrays only",
            );
        }
        fields(&condition, schema, &object, report);
    }
    Ok(())
}

/// Every field of a condition is one of the array, and is compared with values of its size.
fn fields(
    condition: &DeleteCondition,
    schema: &ArraySchema,
    object: &str,
    report: &FindingReporter,
) {
    let mut missing = BTreeSet::new();
    let mut odd = BTreeSet::new();
    each_test(
        condition,
        &mut |field, test| match cell_size(schema, field) {
            None => {
                missing.insert(field.to_owned());
            }
            Some(Some(size)) if !fits(test, size) => {
                odd.insert(field.to_owned());
            }
            Some(_) => {}
        },
    );
    for field in missing {
        let found = format!("a condition on \"{field}\"");
        let expected = "a dimension or an attribute of the newest schema";
        report.tell(Rule::DeleteField, object, found, expected);
    }
    for field in odd {
        let found = format!("\"{field}\" is compared with values of another size than its cells");
        report.tell(
            Rule::DeleteField,
            object,
            found,
            "values as large as the cells",
        );
    }
}

fn each_test<'a>(
    condition: &'a DeleteCondition,
    visit: &mut impl FnMut(&'a str, &'a ConditionTest),
) {
    match condition {
        DeleteCondition::Test { field, test } => visit(field, test),
        DeleteCondition::All(nodes) | DeleteCondition::Any(nodes) => {
            nodes.iter().for_each(|node| each_test(node, visit));
        }
    }
}

/// The size of a field's cells (`None` inside if variable); `None` if the field doesn't exist.
fn cell_size(schema: &ArraySchema, field: &str) -> Option<Option<usize>> {
    if let Some(index) = schema.dimension_index(field) {
        return Some(schema.dimensions.get(index)?.cell_size());
    }
    let attribute = schema.attributes.get(schema.attribute_index(field)?)?;
    // Any number of values is compared with text.
    let text = attribute.datatype.is_string() && attribute.cell_val_num != CellValNum::Fixed(1);
    Some(attribute.cell_size().filter(|_| !text))
}

fn fits(test: &ConditionTest, size: usize) -> bool {
    match test {
        // A test for NULL has no value.
        ConditionTest::Compare(Comparison::Eq | Comparison::Ne, value) if value.is_empty() => true,
        ConditionTest::Compare(_, value) => value.len() == size,
        ConditionTest::Member { members, .. } => members.iter().all(|member| member.len() == size),
        ConditionTest::Always(_) => true,
    }
}
