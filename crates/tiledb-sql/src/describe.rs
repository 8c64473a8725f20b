//! `\d` of a table, or of the object at a path or URL.
//!
//! An array is shown with its special properties: which columns are dimensions, their domains and extents, the filters. A group
//! is shown by its members, and anything else that can be read as a table by its columns.

use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::TableReference;
use datafusion::error::{DataFusionError, Result};
use datafusion_tiledb::{Error, ErrorKind};

use crate::report;
use crate::shell::Shell;

/// The kind of object at a path or URL.
pub enum FoundObject {
    /// An array, in a few words.
    Array(String),
    Group,
    /// No object of the library; perhaps a file.
    Other,
}

impl Shell {
    /// Describes a table by its name, or the object at a path.
    pub async fn describe(&self, thing: &str) -> Result<()> {
        let place = match unquoted(thing) {
            Some(path) => Some(path),
            None if is_path(thing) => Some(thing.to_owned()),
            None => {
                let known = self.ctx.table_exist(TableReference::from(thing));
                let is_here = !known.unwrap_or(false) && std::path::Path::new(thing).exists();
                is_here.then(|| thing.to_owned())
            }
        };
        match place {
            Some(place) => self.describe_place(&as_path(&place)).await,
            None => self.statement(format!("SHOW COLUMNS FROM {thing}")).await,
        }
    }

    async fn describe_place(&self, place: &str) -> Result<()> {
        let quoted = place.replace('\'', "''");
        match self.look(place).await? {
            FoundObject::Array(what) => {
                self.notice(&format!("{what} {place}"));
                self.statement(format!(
                    "SELECT name AS column, role, type, arrow_type, nullable, domain_low, domain_high, extent, enumeration, filters \
                     FROM tiledb_schema('{quoted}')"
                ))
                .await
            }
            FoundObject::Group => {
                self.notice(&format!("Group {place}"));
                let members = format!("SELECT path, type, uri FROM tiledb_members('{quoted}')");
                self.statement(members).await
            }
            FoundObject::Other => {
                let table = self.ctx.table_provider(TableReference::bare(place)).await;
                table.map_err(|e| nothing_at(place, &e))?;
                self.notice(&format!("Table {place}"));
                self.statement(format!("DESCRIBE '{quoted}'")).await
            }
        }
    }

    /// Finds out which object lies at a place.
    pub async fn look(&self, place: &str) -> Result<FoundObject> {
        let quoted = place.replace('\'', "''");
        let facts =
            format!("SELECT array_type, format_version, cell_order FROM tiledb_array('{quoted}')");
        let facts = async { self.ctx.sql(&facts).await?.collect().await };
        let batches = match facts.await {
            Ok(batches) => batches,
            Err(e) => match kind_of(&e) {
                Some(ErrorKind::IsAGroup) => return Ok(FoundObject::Group),
                Some(ErrorKind::NotFound | ErrorKind::NotAnArray) => return Ok(FoundObject::Other),
                _ => return Err(e),
            },
        };
        let facts = batches.iter().find(|batch| batch.num_rows() > 0);
        let columns = facts.map_or(&[][..], |batch| batch.columns());
        let texts = columns
            .iter()
            .map(|column| array_value_to_string(column, 0))
            .collect::<Result<Vec<_>, _>>()?;
        let [array_type, version, order] = &texts[..] else {
            return Err(report::message(format!(
                "'{place}' tells nothing of itself"
            )));
        };
        let mut what = format!("{array_type} array of format {version}, cells {order}:");
        if let Some(first) = what.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        Ok(FoundObject::Array(what))
    }
}

/// The kind of the library's error inside an error.
pub fn kind_of(error: &DataFusionError) -> Option<ErrorKind> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<Error>() {
            return Some(error.kind());
        }
        next = error.source();
    }
    None
}

/// The error for a place where nothing can be read.
pub fn nothing_at(place: &str, why: &DataFusionError) -> DataFusionError {
    match why {
        DataFusionError::Plan(_) => report::message(format!(
            "'{place}' isn't a TileDB array or group, nor a file or folder of files that can be read as a table"
        )),
        why => report::message(format!(
            "'{place}' cannot be read: {}",
            report::describe(why)
        )),
    }
}

/// Whether a word can only be a path or URL.
pub fn is_path(word: &str) -> bool {
    word.contains(['/', std::path::MAIN_SEPARATOR]) || word == "~" || word == "."
}

/// A place in a form that SQL takes for a path, too: a name in the current folder gets a `./` in front.
pub fn as_path(place: &str) -> String {
    if is_path(place) {
        place.to_owned()
    } else {
        format!("./{place}")
    }
}

/// The text between single quotes, if they enclose all of it.
fn unquoted(text: &str) -> Option<String> {
    let inside = text.strip_prefix('\'')?.strip_suffix('\'')?;
    Some(inside.replace("''", "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_names() {
        assert!(is_path("./weather") && is_path("s3://b/c") && is_path("~"));
        assert!(!is_path("weather") && !is_path("exp.obs"));
        assert_eq!(as_path("weather"), "./weather");
        assert_eq!(as_path("/data/weather"), "/data/weather");
        assert_eq!(unquoted("'it''s'").as_deref(), Some("it's"));
        assert_eq!(unquoted("weather"), None);
    }
}
