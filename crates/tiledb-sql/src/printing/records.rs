//! Rows for programs: CSV, TSV and JSON.
//!
//! datafusion-cli prints nothing for an empty result, and leaves NULL out of JSON. Programs need the names of the columns even
//! then, so CSV has its header, and JSON has each key or, without rows, an empty list.

use std::io::Write;

use datafusion::arrow::csv;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::json;
use datafusion::arrow::json::writer::{JsonArray, LineDelimited};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;

use super::nested;

/// A format that programs read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordFormat {
    Csv,
    Tsv,
    Json,
    NdJson,
}

impl RecordFormat {
    /// Prints rows, with a header if they are the first. A statement that has no columns prints nothing.
    pub fn print(
        self,
        mut out: &mut dyn Write,
        schema: &SchemaRef,
        batches: &[RecordBatch],
        is_first: bool,
    ) -> Result<()> {
        if schema.fields().is_empty() {
            return Ok(());
        }
        match self {
            Self::Csv => separated(out, b',', schema, batches, is_first),
            Self::Tsv => separated(out, b'\t', schema, batches, is_first),
            Self::Json => {
                let builder = json::WriterBuilder::new().with_explicit_nulls(true);
                let mut writer = builder.build::<_, JsonArray>(&mut out);
                writer.write_batches(&batches.iter().collect::<Vec<_>>())?;
                writer.finish()?;
                Ok(writeln!(out)?)
            }
            Self::NdJson => {
                let builder = json::WriterBuilder::new().with_explicit_nulls(true);
                let mut writer = builder.build::<_, LineDelimited>(&mut out);
                writer.write_batches(&batches.iter().collect::<Vec<_>>())?;
                Ok(writer.finish()?)
            }
        }
    }
}

fn separated(
    out: &mut dyn Write,
    delimiter: u8,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    has_header: bool,
) -> Result<()> {
    let builder = csv::WriterBuilder::new()
        .with_header(has_header)
        .with_delimiter(delimiter);
    let mut writer = builder.build(out);
    // The header comes with the first batch.
    writer.write(&nested::as_text(&RecordBatch::new_empty(schema.clone()))?)?;
    for batch in batches {
        writer.write(&nested::as_text(batch)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, StringArray};
    use datafusion::arrow::datatypes::Schema;

    use super::*;

    fn printed(format: RecordFormat, batch: &RecordBatch) -> String {
        let mut out = Vec::new();
        let batches = std::slice::from_ref(batch);
        let schema = batch.schema();
        format.print(&mut out, &schema, batches, true).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_named_without_rows_and_without_values() {
        let texts = StringArray::from(vec![Some("a,b"), None]);
        let numbers = Int64Array::from(vec![None, Some(7)]);
        let columns = [
            ("text", Arc::new(texts) as _),
            ("n", Arc::new(numbers) as _),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let none = rows.slice(0, 0);
        let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
        for (format, of_rows, of_none) in [
            (RecordFormat::Csv, "text,n\n\"a,b\",\n,7\n", "text,n\n"),
            (RecordFormat::Tsv, "text\tn\na,b\t\n\t7\n", "text\tn\n"),
            (
                RecordFormat::Json,
                "[{\"text\":\"a,b\",\"n\":null},{\"text\":null,\"n\":7}]\n",
                "[]\n",
            ),
            (
                RecordFormat::NdJson,
                "{\"text\":\"a,b\",\"n\":null}\n{\"text\":null,\"n\":7}\n",
                "",
            ),
        ] {
            assert_eq!(printed(format, &rows), of_rows, "{format:?}");
            assert_eq!(printed(format, &none), of_none, "{format:?}");
            assert_eq!(printed(format, &nothing), "", "{format:?}");
        }
    }
}
