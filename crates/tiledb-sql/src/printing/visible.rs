//! Control characters in tables. A tab moves the borders of a table, and an escape sequence may do anything to a terminal, so
//! both are shown as they are written in SQL and most languages: `\t`, `\u{1b}`. Lines of a value stay lines.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringArray};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions as ArrowOptions};
use datafusion::config::FormatOptions;
use datafusion::error::Result;

/// The text with escapes in place of control characters.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            shown.extend(c.escape_debug())
        } else {
            shown.push(c)
        }
    }
    Cow::Owned(shown)
}

fn is_hidden(c: char) -> bool {
    c.is_control() && c != '\n'
}

/// The batch with escapes in place of control characters.
pub fn visible_batch(batch: &RecordBatch, options: &FormatOptions) -> Result<RecordBatch> {
    let options: ArrowOptions<'_> = options.try_into()?;
    let schema = batch.schema();
    let (mut fields, mut columns) = (schema.fields().to_vec(), batch.columns().to_vec());
    for (field, column) in fields.iter_mut().zip(&mut columns) {
        if let Some(shown) = visible_column(column, &options)? {
            *field = Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8));
            *column = shown;
        }
    }
    let schema = Arc::new(Schema::new(fields));
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &rows)?)
}

/// The column as text with escapes; `None` if it needs none.
fn visible_column(column: &ArrayRef, options: &ArrowOptions<'_>) -> Result<Option<ArrayRef>> {
    if !may_hide(column.data_type()) {
        return Ok(None);
    }
    let formatter = ArrayFormatter::try_new(column.as_ref(), options)?;
    let nulls = column.logical_nulls();
    let mut texts = Vec::with_capacity(column.len());
    for row in 0..column.len() {
        let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let text = (!is_null).then(|| formatter.value(row).try_to_string());
        texts.push(text.transpose()?);
    }
    let hides = texts.iter().flatten().any(|text| text.contains(is_hidden));
    let shown = texts.iter().map(|text| text.as_deref().map(visible));
    Ok(hides.then(|| Arc::new(shown.collect::<StringArray>()) as _))
}

/// Whether a value of a type may have a control character.
fn may_hide(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => may_hide(values),
        other => other.is_string() || other.is_nested(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, ListBuilder, StringBuilder};

    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(visible("two\nlines, é"), "two\nlines, é");
        assert_eq!(
            visible("a\tb\r\n\u{1b}[31m\0\u{9b}\\"),
            "a\\tb\\r\n\\u{1b}[31m\\0\\u{9b}\\"
        );
    }

    #[test]
    fn columns_without_them_stay() {
        let mut lists = ListBuilder::new(StringBuilder::new());
        lists.append_value([Some("x\ty")]);
        lists.append_null();
        let columns: [(&str, ArrayRef); 4] = [
            ("n", Arc::new(Int64Array::from(vec![1, 2]))),
            (
                "plain",
                Arc::new(StringArray::from(vec!["é", "two\nlines"])),
            ),
            ("tabs", Arc::new(StringArray::from(vec![Some("\t"), None]))),
            ("lists", Arc::new(lists.finish())),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let shown = visible_batch(&batch, &FormatOptions::default()).unwrap();
        for kept in ["n", "plain"] {
            assert_eq!(shown[kept].as_ref(), batch[kept].as_ref());
        }
        let expected = [("tabs", "\\t"), ("lists", "[x\\ty]")];
        for (name, text) in expected {
            let texts = StringArray::from(vec![Some(text), None]);
            assert_eq!(shown[name].as_ref(), &texts as &dyn Array);
        }
    }
}
