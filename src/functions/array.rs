//! `tiledb_array('location')`: the properties of an array as a whole, in one row.
//!
//! | Column | |
//! |---|---|
//! | `array_type` | `dense` or `sparse` |
//! | `cell_order`, `tile_order` | `row-major`, `col-major`, `hilbert` |
//! | `capacity` | cells in a tile of a sparse fragment |
//! | `allows_duplicates` | whether several cells may have the same coordinates |
//! | `format_version` | the format version of the schema; fragments have their own |
//! | `schema` | the schema in effect at the requested time |
//! | `schemas` | the number of schemas: one more with each evolution |
//! | `coords_filters`, `offsets_filters`, `validity_filters` | as creation options spell them |
//! | `dimensions`, `attributes` | the number of each |
//! | `create_statement` | the statement that creates such an array; comments in it say what it leaves out |

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use futures::stream::BoxStream;
use tiledb_engine::Result;
use tiledb_engine::array::inspect::ArrayInspection;

use super::arguments::FunctionTarget;
use super::columns::{self, TEXT, required};
use super::description::{DescribeArray, DescriptionRequest, DescriptionRows, once};
use crate::create::statement_of;

/// The index of the column whose value needs the enumerations to be read.
const CREATE_STATEMENT: usize = 13;

/// The function.
pub(super) struct ArrayFacts;

impl DescribeArray for ArrayFacts {
    const NAME: &'static str = "tiledb_array";

    fn schema() -> SchemaRef {
        columns::schema(vec![
            required("array_type", TEXT),
            required("cell_order", TEXT),
            required("tile_order", TEXT),
            required("capacity", DataType::UInt64),
            required("allows_duplicates", DataType::Boolean),
            required("format_version", DataType::UInt32),
            required("schema", TEXT),
            required("schemas", DataType::UInt64),
            required("coords_filters", TEXT),
            required("offsets_filters", TEXT),
            required("validity_filters", TEXT),
            required("dimensions", DataType::UInt64),
            required("attributes", DataType::UInt64),
            required("create_statement", TEXT),
        ])
    }

    fn rows(
        target: FunctionTarget,
        request: Arc<DescriptionRequest>,
    ) -> BoxStream<'static, Result<DescriptionRows>> {
        once(async move {
            let array = ArrayInspection::open(&target.storage, target.window()?).await?;
            let schema = &array.schema;
            let statement = if request.wants(&[CREATE_STATEMENT]) {
                let enumerations = array.enumerations().await?;
                statement_of(schema, &enumerations, array.storage(), None)
            } else {
                String::new()
            };
            let text = |value: String| columns::text([value]);
            let count = |count: usize| columns::u64s([Some(count as u64)]);
            Ok(DescriptionRows {
                len: 1,
                columns: vec![
                    text(schema.array_type.to_string()),
                    text(schema.cell_order.to_string()),
                    text(schema.tile_order.to_string()),
                    columns::u64s([Some(schema.capacity)]),
                    columns::bools([schema.allows_duplicates]),
                    columns::u32s([Some(schema.version.get())]),
                    text(array.schema_name.clone()),
                    count(array.schema_count()),
                    text(schema.coords_filters.to_string()),
                    text(schema.offsets_filters.to_string()),
                    text(schema.validity_filters.to_string()),
                    count(schema.dimensions.len()),
                    count(schema.attributes.len()),
                    text(statement),
                ],
            })
        })
    }
}
