//! Lists, structs and maps in CSV and TSV: because cells are plain text, each value becomes JSON in a cell.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatchOptions, StringBuilder};
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::writer::{EncoderOptions, make_encoder};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;

/// The batch with nested columns as text. Other columns stay unchanged.
pub fn as_text(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    if !schema.fields().iter().any(is_nested) {
        return Ok(batch.clone());
    }
    let columns = schema
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| {
            if is_nested(field) {
                text_of(field, column.as_ref())
            } else {
                Ok(Arc::clone(column))
            }
        })
        .collect::<Result<Vec<_>, ArrowError>>()?;
    let fields = schema.fields().iter().map(|field| {
        if is_nested(field) {
            Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8))
        } else {
            Arc::clone(field)
        }
    });
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &rows)?)
}

fn is_nested(field: &FieldRef) -> bool {
    field.data_type().is_nested()
}

/// The values as JSON. If JSON can't represent their type, they are formatted as in a table.
fn text_of(field: &FieldRef, column: &dyn Array) -> Result<ArrayRef, ArrowError> {
    let options = EncoderOptions::default().with_explicit_nulls(true);
    let nulls = column.logical_nulls();
    let is_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    let mut texts = StringBuilder::new();
    if let Ok(mut encoder) = make_encoder(field, column, &options) {
        let mut json = Vec::new();
        for row in 0..column.len() {
            json.clear();
            if is_null(row) {
                texts.append_null();
                continue;
            }
            encoder.encode(row, &mut json);
            texts.append_value(String::from_utf8_lossy(&json));
        }
        return Ok(Arc::new(texts.finish()));
    }
    let options = FormatOptions::new().with_display_error(true);
    let shown = ArrayFormatter::try_new(column, &options)?;
    for row in 0..column.len() {
        texts.append_option((!is_null(row)).then(|| shown.value(row).to_string()));
    }
    Ok(Arc::new(texts.finish()))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{AsArray, Int32Array, ListArray, StructArray, UnionArray};
    use datafusion::arrow::buffer::ScalarBuffer;
    use datafusion::arrow::datatypes::{Field, Int32Type, UnionFields};

    use super::*;

    fn texts(column: ArrayRef) -> Vec<Option<String>> {
        let field = Field::new("c", column.data_type().clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let batch = as_text(&RecordBatch::try_new(schema, vec![column]).unwrap()).unwrap();
        let column = batch.column(0).as_string::<i32>().iter();
        column.map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn nested_values_are_json() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
        ]);
        let found = texts(Arc::new(list));
        assert_eq!(found, [Some("[1,null]".into()), None, Some("[]".into())]);
        let field = Arc::new(Field::new("n", DataType::Int32, true));
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None]));
        let found = texts(Arc::new(StructArray::from(vec![(field, numbers)])));
        let expected = ["{\"n\":7}", "{\"n\":null}"];
        assert_eq!(found, expected.map(|text| Some(text.to_owned())));
    }

    #[test]
    fn types_without_json_are_text_all_the_same() {
        let fields = UnionFields::try_new([0], [Field::new("n", DataType::Int32, true)]).unwrap();
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![7]));
        let types = ScalarBuffer::from(vec![0_i8]);
        let union = UnionArray::try_new(fields, types, None, vec![numbers]).unwrap();
        assert_eq!(texts(Arc::new(union)), [Some("{n=7}".to_owned())]);
    }
}
