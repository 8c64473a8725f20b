//! `tiledb_enumerations('location')`: the values of an array's enumerations.
//!
//! | Column | |
//! |---|---|
//! | `enumeration` | the name |
//! | `ordered` | whether the order of the values means something |
//! | `type` | the TileDB type of a value's elements |
//! | `index` | what cells store for the value; NULL, as is `value`, in the one row of an enumeration without values |
//! | `value` | the value as text |
//! | `attributes` | the attributes that use the enumeration |

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use futures::stream::BoxStream;

use super::columns::{self, TEXT, optional, required};
use super::description::{Describe, Request, Rows, once};
use super::place::Place;
use super::value;
use crate::array::inspect::Inspection;
use crate::array::types::column_names;
use crate::error::Result;
use crate::format::enumeration::Enumeration;
use crate::format::schema::ArraySchema;

/// The function.
pub(super) struct EnumerationValues;

impl Describe for EnumerationValues {
    const NAME: &'static str = "tiledb_enumerations";

    fn schema() -> SchemaRef {
        columns::schema(vec![
            required("enumeration", TEXT),
            required("ordered", DataType::Boolean),
            required("type", TEXT),
            optional("index", DataType::UInt64),
            optional("value", TEXT),
            required("attributes", columns::text_list()),
        ])
    }

    fn rows(place: Place, _request: Arc<Request>) -> BoxStream<'static, Result<Rows>> {
        once(async move {
            let array = Inspection::open(&place.storage, place.window()?).await?;
            let by_name = array.enumerations().await?;
            let mut enumerations: Vec<_> = by_name.values().map(Arc::as_ref).collect();
            enumerations.sort_by(|a, b| a.name.cmp(&b.name));
            rows(&array.schema, &enumerations)
        })
    }
}

/// An enumeration and the position of one of its values.
type Row<'a> = (&'a Enumeration, Option<usize>);

fn rows(schema: &ArraySchema, enumerations: &[&Enumeration]) -> Result<Rows> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for enumeration in enumerations {
        match enumeration.len() {
            0 => rows.push((enumeration, None)),
            len => rows.extend((0..len).map(|i| (*enumeration, Some(i)))),
        }
    }
    let names = column_names(schema)?;
    let names = names.iter().skip(schema.dimensions.len());
    let attributes: Vec<_> = schema.attributes.iter().zip(names).collect();
    let users = |(enumeration, _): &Row<'_>| {
        let uses = attributes
            .iter()
            .filter(|(a, _)| a.enumeration.as_ref() == Some(&enumeration.name));
        uses.map(|(_, name)| name.as_str()).collect::<Vec<_>>()
    };
    let users: Vec<Vec<&str>> = rows.iter().map(users).collect();
    let texts = rows.iter().map(|(enumeration, index)| {
        let member = enumeration.member((*index)?)?;
        Some(value::cell(enumeration.datatype, member))
    });
    Ok(Rows {
        len: rows.len(),
        columns: vec![
            columns::text(rows.iter().map(|(e, _)| &e.name)),
            columns::bools(rows.iter().map(|(e, _)| e.ordered)),
            columns::text(rows.iter().map(|(e, _)| e.datatype.name())),
            columns::u64s(rows.iter().map(|(_, i)| i.map(|i| i as u64))),
            columns::opt_text(texts),
            columns::text_lists(&users)?,
        ],
    })
}
