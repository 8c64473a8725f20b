//! `\d`: the arrays and tables of the session, or one of them, or the object at a path or URL.
//!
//! An array is shown with its special properties: which columns are dimensions, their domains and extents, the filters, and how
//! much was written. A group is shown by its members, and anything else that can be read as a table by its columns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::TableReference;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::TableType;
use datafusion_tiledb::{Error, ErrorKind, TileDbTable};

use crate::interrupt::Interruptible;
use crate::names::sql_name;
use crate::printing::PrintedRows;
use crate::report;
use crate::shell::Shell;

/// The schema of tables that describe the session.
const INFORMATION_SCHEMA: &str = "information_schema";

/// The kind of object at a path or URL.
pub enum FoundObject {
    Array,
    Group,
    /// No object of the library; perhaps a file.
    Other,
}

impl Shell {
    /// Lists the arrays and tables of the session.
    pub async fn list_tables(&self) -> Result<()> {
        let began = Instant::now();
        let mut tables = BTreeMap::new();
        let state = self.ctx.state();
        let options = &state.config_options().catalog;
        let default = self.ctx.catalog(&options.default_catalog);
        let schemas_of_default = default
            .map(|catalog| catalog.schema_names())
            .unwrap_or_default();
        for catalog_name in self.ctx.catalog_names() {
            let is_default = catalog_name == options.default_catalog;
            // An attached group is a catalog and a schema, and listed as a schema.
            if !is_default && schemas_of_default.contains(&catalog_name) {
                continue;
            }
            let Some(catalog) = self.ctx.catalog(&catalog_name) else {
                continue;
            };
            for schema_name in catalog.schema_names() {
                if schema_name == INFORMATION_SCHEMA {
                    continue;
                }
                let Some(schema) = catalog.schema(&schema_name) else {
                    continue;
                };
                for table in schema.table_names() {
                    let name = match (is_default, schema_name == options.default_schema) {
                        (true, true) => vec![&table],
                        (true, false) => vec![&schema_name, &table],
                        (false, _) => vec![&catalog_name, &schema_name, &table],
                    };
                    let name = name.into_iter().map(|part| sql_name(part));
                    let name = name.collect::<Vec<_>>().join(".");
                    // Opening the arrays of groups would take long.
                    let is_in_memory = is_default && schema_name == options.default_schema;
                    let kind = if is_in_memory {
                        self.kind_of_table(&table).await
                    } else {
                        ("array", String::new())
                    };
                    tables.insert(name, kind);
                }
            }
        }
        let kinds = tables.values().map(|(kind, _)| (*kind).to_owned());
        let locations = tables.values().map(|(_, location)| location.clone());
        let columns = [
            ("name", tables.keys().cloned().collect()),
            ("kind", kinds.collect()),
            ("location", locations.collect()),
        ];
        self.print_columns(&columns, began)
    }

    /// The kind of a table of the default schema, and where its array is.
    async fn kind_of_table(&self, name: &str) -> (&'static str, String) {
        let table = self.ctx.table_provider(TableReference::bare(name)).await;
        match table {
            Ok(table) => match table.downcast_ref::<TileDbTable>() {
                Some(array) => ("array", report::masked(array.uri())),
                None if table.table_type() == TableType::View => ("view", String::new()),
                None => ("table", String::new()),
            },
            Err(_) => ("table", String::new()),
        }
    }

    /// Describes a table or an attached group by its name, or the object at a path.
    pub async fn describe(&self, thing: &str) -> Result<()> {
        let place = match unquoted(thing) {
            Some(path) => Some(path),
            None if is_path(thing) && !thing.contains('"') => Some(thing.to_owned()),
            None => None,
        };
        if let Some(place) = place {
            return self.describe_place(&as_path(&place)).await;
        }
        let reference = TableReference::parse_str(thing);
        let named = self.ctx.table_provider(reference.clone()).await;
        match named {
            Ok(table) if table.downcast_ref::<TileDbTable>().is_some() => {
                self.describe_array(thing, thing).await
            }
            Ok(_) => self.statement(format!("DESCRIBE {thing}")).await,
            Err(_) if self.is_attached(&reference) => self.list_members(reference.table()),
            Err(_) if std::path::Path::new(thing).exists() => {
                self.describe_place(&as_path(thing)).await
            }
            Err(e) => Err(e),
        }
    }

    /// Lists the arrays of an attached group.
    fn list_members(&self, group: &str) -> Result<()> {
        let began = Instant::now();
        let state = self.ctx.state();
        let default = &state.config_options().catalog.default_catalog;
        let catalog = self.ctx.catalog(default);
        let schema = catalog.and_then(|catalog| catalog.schema(group));
        let mut members = schema
            .map(|schema| schema.table_names())
            .unwrap_or_default();
        members.sort();
        let names = members
            .iter()
            .map(|member| format!("{group}.{}", sql_name(member)));
        let names = names.collect::<Vec<_>>();
        self.print_columns(&[("member", members), ("name", names)], began)
    }

    /// Prints columns of texts as a table.
    fn print_columns(&self, columns: &[(&str, Vec<String>)], began: Instant) -> Result<()> {
        let columns = columns.iter().map(|(name, values)| {
            let values = values.iter().map(String::as_str);
            (
                *name,
                Arc::new(StringArray::from_iter_values(values)) as ArrayRef,
            )
        });
        let batch = RecordBatch::try_from_iter(columns)?;
        let rows = PrintedRows {
            schema: batch.schema(),
            count: batch.num_rows(),
            head: &[batch],
            tail: &[],
            is_description: true,
        };
        self.print_rows(&rows, began, &Interruptible::begin())
    }

    /// Whether a name is that of an attached group.
    fn is_attached(&self, name: &TableReference) -> bool {
        matches!(name, TableReference::Bare { table } if self.ctx.catalog(table).is_some())
    }

    async fn describe_place(&self, place: &str) -> Result<()> {
        let quoted = place.replace('\'', "''");
        match self.look(place).await? {
            FoundObject::Array => self.describe_array(place, place).await,
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

    /// Describes the array that a table function finds by a name or a location.
    async fn describe_array(&self, target: &str, shown: &str) -> Result<()> {
        let quoted = target.replace('\'', "''");
        let facts = self.facts_of_array(target).await?;
        self.notice(&format!("{facts} {shown}"));
        let written = format!(
            "SELECT count(*), coalesce(sum(cells), 0), coalesce(sum(total_bytes), 0) \
             FROM tiledb_fragments('{quoted}') WHERE visible"
        );
        let written = self.texts_of(&written).await?;
        if let [fragments, cells, bytes] = &written[..] {
            let (cells, fragments) = (counted(cells, "cell"), counted(fragments, "fragment"));
            self.notice(&format!("{cells} in {fragments}, {bytes} bytes"));
        }
        if !self.printing.is_for_people() {
            return self
                .print_query(&format!(
                    "SELECT name AS column, role, type, arrow_type, nullable, domain_low, domain_high, extent, enumeration, \
                     filters FROM tiledb_schema('{quoted}')"
                ))
                .await;
        }
        self.print_query(&format!(
            "SELECT name AS dimension, type, domain_low, domain_high, extent, filters \
             FROM tiledb_schema('{quoted}') WHERE role = 'dimension'"
        ))
        .await?;
        self.print_query(&format!(
            "SELECT name AS attribute, type, arrow_type, nullable, enumeration, filters \
             FROM tiledb_schema('{quoted}') WHERE role <> 'dimension'"
        ))
        .await
    }

    /// Prints the rows of a query that describes something.
    async fn print_query(&self, sql: &str) -> Result<()> {
        let running = Interruptible::begin();
        let frame = self.ctx.sql(sql).await?;
        let schema = Arc::clone(frame.schema().inner());
        let collected = running.run(report::catch_panic(frame.collect())).await;
        let head = collected.unwrap_or_else(|| Err(report::interrupt()))?;
        let rows = PrintedRows {
            schema,
            count: head.iter().map(RecordBatch::num_rows).sum(),
            head: &head,
            tail: &[],
            is_description: true,
        };
        if rows.count == 0 {
            return Ok(());
        }
        let state = self.ctx.state();
        let options = &state.config_options().format;
        self.printing.print_only(&running, &rows, options).map(drop)
    }

    /// The first row of a query, as texts.
    async fn texts_of(&self, sql: &str) -> Result<Vec<String>> {
        let batches = self.ctx.sql(sql).await?.collect().await?;
        let facts = batches.iter().find(|batch| batch.num_rows() > 0);
        let columns = facts.map_or(&[][..], |batch| batch.columns());
        let texts = columns
            .iter()
            .map(|column| array_value_to_string(column, 0));
        Ok(texts.collect::<Result<Vec<_>, _>>()?)
    }

    async fn facts_of_array(&self, target: &str) -> Result<String> {
        let quoted = target.replace('\'', "''");
        let facts =
            format!("SELECT array_type, format_version, cell_order FROM tiledb_array('{quoted}')");
        let texts = self.texts_of(&facts).await?;
        let [array_type, version, order] = &texts[..] else {
            return Err(report::message(format!("'{target}' has no description")));
        };
        let mut what = format!("{array_type} array of format {version}, cells {order}:");
        if let Some(first) = what.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        Ok(what)
    }

    /// Finds out which object lies at a place.
    pub async fn look(&self, place: &str) -> Result<FoundObject> {
        match self.facts_of_array(place).await {
            Ok(_) => Ok(FoundObject::Array),
            Err(e) => match kind_of(&e) {
                Some(ErrorKind::IsAGroup) => Ok(FoundObject::Group),
                Some(ErrorKind::NotFound | ErrorKind::NotAnArray) => Ok(FoundObject::Other),
                _ => Err(e),
            },
        }
    }
}

/// A number of things.
fn counted(number: &str, thing: &str) -> String {
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {thing}{plural}")
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
