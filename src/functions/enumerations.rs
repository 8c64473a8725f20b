//! `tiledb_enumerations('location')`: the values of an array's enumerations.
//!
//! | Column | |
//! |---|---|
//! | `enumeration` | the name |
//! | `ordered` | whether the order of the values is meaningful; NULL if the enumeration cannot be read |
//! | `type` | the TileDB type of a value's elements; NULL if the enumeration cannot be read |
//! | `index` | the code that cells store for the value; NULL, like `value`, in the only row of an enumeration that has no values or cannot be read |
//! | `value` | the value as text |
//! | `attributes` | the attributes that use the enumeration |
//! | `problem` | the reason why the enumeration cannot be read, if there is one |

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use futures::stream::BoxStream;
use tiledb_engine::Result;
use tiledb_engine::array::inspect::ArrayInspection;
use tiledb_engine::arrow::{ArrayEnumerations, column_names};
use tiledb_engine::format::enumeration::Enumeration;
use tiledb_engine::format::schema::ArraySchema;

use super::arguments::FunctionTarget;
use super::columns::{self, TEXT, optional, required};
use super::description::{DescribeArray, DescriptionRequest, DescriptionRows, once};
use super::value;

/// The function.
pub(super) struct EnumerationsFunction;

impl DescribeArray for EnumerationsFunction {
    const NAME: &'static str = "tiledb_enumerations";

    fn schema() -> SchemaRef {
        columns::schema(vec![
            required("enumeration", TEXT),
            optional("ordered", DataType::Boolean),
            optional("type", TEXT),
            optional("index", DataType::UInt64),
            optional("value", TEXT),
            required("attributes", columns::text_list()),
            optional("problem", TEXT),
        ])
    }

    fn rows(
        target: FunctionTarget,
        _request: Arc<DescriptionRequest>,
    ) -> BoxStream<'static, Result<DescriptionRows>> {
        once(async move {
            let array = ArrayInspection::open(&target.storage, target.window()?).await?;
            let by_name = array.enumerations().await?;
            rows(&array.schema, &by_name)
        })
    }
}

/// A value of an enumeration, or an enumeration without values.
struct EnumerationRow<'a> {
    name: &'a str,
    /// The enumeration, or the reason why it cannot be read.
    read: Result<&'a Enumeration, String>,
    index: Option<usize>,
}

impl<'a> EnumerationRow<'a> {
    fn enumeration(&self) -> Option<&'a Enumeration> {
        self.read.as_ref().ok().copied()
    }

    fn value(&self) -> Option<String> {
        let enumeration = self.enumeration()?;
        let member = enumeration.member(self.index?)?;
        Some(value::cell(enumeration.datatype, member))
    }
}

fn rows(schema: &ArraySchema, by_name: &ArrayEnumerations) -> Result<DescriptionRows> {
    let mut enumerations: Vec<_> = by_name.iter().collect();
    enumerations.sort_by_key(|(name, _)| name.as_str());
    let mut rows: Vec<EnumerationRow<'_>> = Vec::new();
    for (name, read) in enumerations {
        let row = |index| EnumerationRow {
            name,
            read: read.as_deref().map_err(|why| why.to_string()),
            index,
        };
        match read.as_ref().map_or(0, |enumeration| enumeration.len()) {
            0 => rows.push(row(None)),
            len => rows.extend((0..len).map(|i| row(Some(i)))),
        }
    }
    let names = column_names(schema)?;
    let names = names.iter().skip(schema.dimensions.len());
    let attributes: Vec<_> = schema.attributes.iter().zip(names).collect();
    let users = |row: &EnumerationRow<'_>| {
        let uses = attributes
            .iter()
            .filter(|(a, _)| a.enumeration.as_deref() == Some(row.name));
        uses.map(|(_, name)| name.as_str()).collect::<Vec<_>>()
    };
    let users: Vec<Vec<&str>> = rows.iter().map(users).collect();
    let of = || rows.iter().map(EnumerationRow::enumeration);
    Ok(DescriptionRows {
        len: rows.len(),
        columns: vec![
            columns::text(rows.iter().map(|row| row.name)),
            columns::opt_bools(of().map(|e| e.map(|e| e.ordered))),
            columns::opt_text(of().map(|e| e.map(|e| e.datatype.name()))),
            columns::u64s(rows.iter().map(|row| row.index.map(|i| i as u64))),
            columns::opt_text(rows.iter().map(EnumerationRow::value)),
            columns::text_lists(&users)?,
            columns::opt_text(rows.iter().map(|row| row.read.as_ref().err())),
        ],
    })
}
