//! Text files with endings that DataFusion doesn't know: `.tsv`, `.ndjson` and `.jsonl`.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::GetExt;
use datafusion::datasource::file_format::csv::CsvFormatFactory;
use datafusion::datasource::file_format::json::JsonFormatFactory;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::error::Result;

/// The option of CSV that makes a file tab-separated.
const DELIMITER: &str = "format.delimiter";

/// The formats, for a session.
pub fn all() -> [Arc<dyn FileFormatFactory>; 3] {
    [
        Arc::new(NamedFormat {
            ending: "tsv",
            like: Arc::new(CsvFormatFactory::new()),
            option: Some((DELIMITER, "\t")),
        }),
        Arc::new(NamedFormat {
            ending: "ndjson",
            like: Arc::new(JsonFormatFactory::new()),
            option: None,
        }),
        Arc::new(NamedFormat {
            ending: "jsonl",
            like: Arc::new(JsonFormatFactory::new()),
            option: None,
        }),
    ]
}

/// A format for another file ending. It sets an option, unless the statement sets it.
#[derive(Debug)]
struct NamedFormat {
    ending: &'static str,
    like: Arc<dyn FileFormatFactory>,
    option: Option<(&'static str, &'static str)>,
}

impl FileFormatFactory for NamedFormat {
    fn create(
        &self,
        state: &dyn Session,
        options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        let mut options = options.clone();
        if let Some((key, value)) = self.option {
            options
                .entry(key.to_owned())
                .or_insert_with(|| value.to_owned());
        }
        self.like.create(state, &options)
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        self.like.default()
    }
}

impl GetExt for NamedFormat {
    fn get_ext(&self) -> String {
        self.ending.to_owned()
    }
}
