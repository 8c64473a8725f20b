//! The paths and URLs of the command line: arrays, groups and files, which the session opens under names.
//!
//! An array, or a file that can be read as a table, becomes a table with its name; a group is attached under its name, and
//! its members are tables of it. Names are fit for SQL without quotes, whatever the folder is called.

use datafusion::common::TableReference;
use datafusion::error::Result;

use crate::describe::{FoundObject, as_path, nothing_at};
use crate::interrupt::Interruptible;
use crate::report;
use crate::shell::{OnError, Shell, ShellFlow};

impl Shell {
    /// Opens the array, group or file at a place, and prints its name.
    pub async fn open_place(&mut self, place: &str) -> ShellFlow {
        let running = Interruptible::begin();
        let opened = running
            .run(report::catch_panic(self.open(&as_path(place))))
            .await;
        match opened.unwrap_or_else(|| Err(report::interrupt())) {
            Ok(notice) => {
                self.notice(&notice);
                ShellFlow::GoOn
            }
            Err(e) => self.fail(&e, None, OnError::Stop),
        }
    }

    async fn open(&self, place: &str) -> Result<String> {
        let what = match self.look(place).await? {
            FoundObject::Group => return self.attach(place).await,
            FoundObject::Array => "array",
            FoundObject::Other => "file",
        };
        let table = self
            .ctx
            .table_provider(TableReference::bare(place))
            .await
            .map_err(|e| nothing_at(place, &e))?;
        let columns = table.schema().fields().len();
        let name = free(&name_of(place), |name| {
            self.ctx
                .table_exist(TableReference::bare(name))
                .unwrap_or(false)
        });
        self.ctx
            .register_table(TableReference::bare(name.as_str()), table)?;
        Ok(format!(
            "Table {name} is the {what} {place}, {columns} columns."
        ))
    }

    async fn attach(&self, place: &str) -> Result<String> {
        let name = free(&name_of(place), |name| self.ctx.catalog(name).is_some());
        let quoted = place.replace('\'', "''");
        self.run_silently(&format!("ATTACH '{quoted}' AS \"{name}\""))
            .await?;
        let catalog = self.ctx.catalog(&name);
        let schemas = catalog.iter().flat_map(|catalog| {
            let names = catalog.schema_names().into_iter();
            names.filter_map(|name| catalog.schema(&name))
        });
        let arrays: usize = schemas.map(|schema| schema.table_names().len()).sum();
        Ok(format!(
            "Schema {name} is the group {place}, {arrays} arrays; \\d lists them."
        ))
    }
}

/// The name of a place: the last part of its path without an extension, made valid for SQL without quotes.
fn name_of(place: &str) -> String {
    let path = place.split('?').next().unwrap_or(place);
    let last = path
        .trim_end_matches(['/', std::path::MAIN_SEPARATOR])
        .rsplit(['/', std::path::MAIN_SEPARATOR])
        .next()
        .unwrap_or_default();
    let stem = match last.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() && stem != "." => stem,
        _ => last,
    };
    let fit = |c: char| match c {
        c if c.is_alphanumeric() => c.to_lowercase().next().unwrap_or(c),
        _ => '_',
    };
    let name: String = stem.chars().map(fit).collect();
    match name.trim_matches('_').is_empty() {
        true => "here".to_owned(),
        false if name.starts_with(|c: char| c.is_numeric()) => format!("_{name}"),
        false => name,
    }
}

/// The name, with a number behind it if it is taken.
fn free(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(name) {
        return name.to_owned();
    }
    let mut numbered = (2_u64..).map(|number| format!("{name}_{number}"));
    numbered.find(|name| !is_taken(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_no_quotes() {
        for (place, name) in [
            ("./weather", "weather"),
            ("/data/My Weather.tdb/", "my_weather"),
            ("s3://bucket/a/weather?timestamp=5", "weather"),
            ("./stations.parquet", "stations"),
            ("2024", "_2024"),
            ("./größe", "größe"),
            (".", "here"),
            ("..", "here"),
            ("./.hidden", "_hidden"),
        ] {
            assert_eq!(name_of(place), name, "{place}");
        }
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        assert_eq!(free("a", |_| false), "a");
        assert_eq!(free("a", |name| name == "a" || name == "a_2"), "a_3");
    }
}
