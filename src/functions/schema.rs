//! `tiledb_schema('location')`: the fields of an array, one per row.
//!
//! Dimensions come first, then attributes, in the order of the table's columns, then dimension labels.
//! [`tiledb_array`](super::array) has the properties of the array as a whole.
//!
//! | Column | |
//! |---|---|
//! | `position` | 1, 2, …; for dimensions and attributes that of the column |
//! | `name` | the name of the column; an attribute without a name is `attr` |
//! | `role` | `dimension`, `attribute` or `label` |
//! | `type` | the TileDB type |
//! | `arrow_type` | the Arrow type of the column; NULL for labels |
//! | `cell_val_num` | the number of elements in a cell; NULL if it varies |
//! | `nullable` | whether cells may be null by the schema |
//! | `domain_low`, `domain_high`, `extent` | for a dimension, as text; NULL for strings; the extent is a number of steps |
//! | `current_domain_low`, `current_domain_high` | the part of the domain in use; NULL if it is the whole domain |
//! | `fill_value` | the value of a cell that was never written, as text; NULL if it is null |
//! | `filters` | the filters of the values, as creation options spell them: `byteshuffle, zstd(5)`; for a dimension without its own filters, those of all coordinates |
//! | `enumeration`, `ordered` | the name of the attribute's enumeration, and whether its order is meaningful |
//! | `data_order` | `increasing` or `decreasing` if the values are promised to be |
//! | `label_dimension`, `label_uri`, `label_attribute` | for a label: the dimension it labels, and the array and attribute that store it |
//! | `problem` | the reason why the column cannot be read; NULL if only its cells could be one |

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use futures::stream::BoxStream;
use tiledb_engine::Result;
use tiledb_engine::array::inspect::ArrayInspection;
use tiledb_engine::arrow::{
    ArrayEnumerations, ColumnType, TypeOptions, attribute_type, column_names,
};
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::format::schema::{
    ArraySchema, Attribute, CellValNum, DataOrder, Dimension, DimensionLabel,
};

use super::arguments::FunctionTarget;
use super::columns::{self, TEXT, optional, required};
use super::description::{DescribeArray, DescriptionRequest, DescriptionRows, once};
use super::value;

/// The function.
pub(super) struct SchemaFunction;

impl DescribeArray for SchemaFunction {
    const NAME: &'static str = "tiledb_schema";

    fn schema() -> SchemaRef {
        columns::schema(vec![
            required("position", DataType::UInt32),
            required("name", TEXT),
            required("role", TEXT),
            required("type", TEXT),
            optional("arrow_type", TEXT),
            optional("cell_val_num", DataType::UInt32),
            required("nullable", DataType::Boolean),
            optional("domain_low", TEXT),
            optional("domain_high", TEXT),
            optional("extent", TEXT),
            optional("current_domain_low", TEXT),
            optional("current_domain_high", TEXT),
            optional("fill_value", TEXT),
            optional("filters", TEXT),
            optional("enumeration", TEXT),
            optional("ordered", DataType::Boolean),
            optional("data_order", TEXT),
            optional("label_dimension", TEXT),
            optional("label_uri", TEXT),
            optional("label_attribute", TEXT),
            optional("problem", TEXT),
        ])
    }

    fn rows(
        target: FunctionTarget,
        _request: Arc<DescriptionRequest>,
    ) -> BoxStream<'static, Result<DescriptionRows>> {
        once(async move {
            let array = ArrayInspection::open(&target.storage, target.window()?).await?;
            let enumerations = array.enumerations().await?;
            let types = target.options.types();
            rows(&fields(&array.schema, &enumerations, &types)?)
        })
    }
}

/// A row.
struct SchemaField {
    name: String,
    role: &'static str,
    datatype: Datatype,
    arrow_type: Option<String>,
    cell_val_num: CellValNum,
    nullable: bool,
    domain: Option<(String, String)>,
    extent: Option<String>,
    current_domain: Option<(String, String)>,
    fill_value: Option<String>,
    filters: Option<String>,
    enumeration: Option<String>,
    ordered: Option<bool>,
    order: DataOrder,
    label: Option<LabelRow>,
    problem: Option<String>,
}

struct LabelRow {
    dimension: Option<String>,
    uri: String,
    attribute: String,
}

fn fields(
    schema: &ArraySchema,
    enumerations: &ArrayEnumerations,
    types: &TypeOptions,
) -> Result<Vec<SchemaField>> {
    let names = column_names(schema)?;
    let (dimension_names, attribute_names) = names
        .split_at_checked(schema.dimensions.len())
        .unwrap_or((&names, &[]));
    let dimensions = schema.dimensions.iter().zip(dimension_names).enumerate();
    let mut fields = dimensions
        .map(|(i, (dimension, name))| of_dimension(schema, i, dimension, name, types))
        .collect::<Vec<_>>();
    let attributes = schema.attributes.iter().zip(attribute_names);
    fields.extend(attributes.map(|(a, name)| of_attribute(a, name, enumerations, types)));
    fields.extend(schema.labels.iter().map(|l| of_label(l, dimension_names)));
    Ok(fields)
}

fn of_dimension(
    schema: &ArraySchema,
    index: usize,
    dimension: &Dimension,
    name: &str,
    types: &TypeOptions,
) -> SchemaField {
    let datatype = dimension.datatype;
    let show = |low: &[u8], high: &[u8]| (value::cell(datatype, low), value::cell(datatype, high));
    let current = schema
        .current_domain
        .as_ref()
        .and_then(|current| current.ranges.get(index));
    let extent = dimension.extent.as_ref().map(|extent| {
        let steps = dimension.extent_steps().map(|steps| steps.to_string());
        steps.unwrap_or_else(|| value::cell(datatype, extent))
    });
    let column = ColumnType::of_dimension(dimension, types).ok();
    SchemaField {
        name: name.to_owned(),
        role: "dimension",
        datatype,
        arrow_type: column.map(|c| c.data_type().to_string()),
        cell_val_num: dimension.cell_val_num,
        nullable: false,
        domain: dimension.domain.as_ref().map(|(l, h)| show(l, h)),
        extent,
        current_domain: current.map(|range| show(&range.lo, &range.hi)),
        fill_value: None,
        filters: Some(schema.dimension_filters(index, schema.version).to_string()),
        enumeration: None,
        ordered: None,
        order: DataOrder::Unordered,
        label: None,
        problem: None,
    }
}

fn of_attribute(
    attribute: &Attribute,
    name: &str,
    enumerations: &ArrayEnumerations,
    types: &TypeOptions,
) -> SchemaField {
    let enumeration = attribute
        .enumeration
        .as_ref()
        .and_then(|name| enumerations.get(name)?.as_ref().ok());
    let (column, problem) = match attribute_type(attribute, enumerations, types) {
        Ok(column) => (column, None),
        Err(why) => {
            let problem = why.to_string();
            (
                ColumnType::unreadable(attribute.datatype, why),
                Some(problem),
            )
        }
    };
    let filled = !attribute.nullable || attribute.fill_valid;
    SchemaField {
        name: name.to_owned(),
        role: "attribute",
        datatype: attribute.datatype,
        arrow_type: Some(column.data_type().to_string()),
        cell_val_num: attribute.cell_val_num,
        nullable: attribute.nullable,
        domain: None,
        extent: None,
        current_domain: None,
        fill_value: filled.then(|| value::cell(attribute.datatype, &attribute.fill_value)),
        filters: Some(attribute.filters.to_string()),
        enumeration: attribute.enumeration.clone(),
        ordered: enumeration.map(|e| e.ordered),
        order: attribute.order,
        label: None,
        problem,
    }
}

fn of_label(label: &DimensionLabel, dimensions: &[String]) -> SchemaField {
    let dimension = usize::try_from(label.dimension).ok();
    SchemaField {
        name: label.name.clone(),
        role: "label",
        datatype: label.datatype,
        arrow_type: None,
        cell_val_num: label.cell_val_num,
        nullable: false,
        domain: None,
        extent: None,
        current_domain: None,
        fill_value: None,
        filters: None,
        enumeration: None,
        ordered: None,
        order: label.order,
        label: Some(LabelRow {
            dimension: dimension.and_then(|i| dimensions.get(i)).cloned(),
            uri: label.uri.clone(),
            attribute: label.attribute.clone(),
        }),
        problem: label.problem.clone(),
    }
}

fn rows(fields: &[SchemaField]) -> Result<DescriptionRows> {
    let all = || fields.iter();
    let text = |of: fn(&SchemaField) -> Option<&String>| columns::opt_text(all().map(of));
    let cell_val_num = |field: &SchemaField| match field.cell_val_num {
        CellValNum::Fixed(count) => Some(count),
        CellValNum::Var => None,
    };
    let order = |field: &SchemaField| match field.order {
        DataOrder::Unordered => None,
        DataOrder::Increasing => Some("increasing"),
        DataOrder::Decreasing => Some("decreasing"),
    };
    Ok(DescriptionRows {
        len: fields.len(),
        columns: vec![
            columns::u32s((1..).take(fields.len()).map(Some)),
            columns::text(all().map(|f| &f.name)),
            columns::text(all().map(|f| f.role)),
            columns::text(all().map(|f| f.datatype.name())),
            text(|f| f.arrow_type.as_ref()),
            columns::u32s(all().map(cell_val_num)),
            columns::bools(all().map(|f| f.nullable)),
            text(|f| f.domain.as_ref().map(|d| &d.0)),
            text(|f| f.domain.as_ref().map(|d| &d.1)),
            text(|f| f.extent.as_ref()),
            text(|f| f.current_domain.as_ref().map(|d| &d.0)),
            text(|f| f.current_domain.as_ref().map(|d| &d.1)),
            text(|f| f.fill_value.as_ref()),
            text(|f| f.filters.as_ref()),
            text(|f| f.enumeration.as_ref()),
            columns::opt_bools(all().map(|f| f.ordered)),
            columns::opt_text(all().map(order)),
            text(|f| f.label.as_ref()?.dimension.as_ref()),
            text(|f| f.label.as_ref().map(|l| &l.uri)),
            text(|f| f.label.as_ref().map(|l| &l.attribute)),
            text(|f| f.problem.as_ref()),
        ],
    })
}
