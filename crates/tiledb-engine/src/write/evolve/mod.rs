//! Evolution of schemas: attributes come and go, enumerations get more values, the current domain grows.
//!
//! [`SchemaEvolution`] describes the wanted changes in the words of a table. `step` turns them into changes of a schema, which can be
//! applied, compared with those of others, and found between two schemas. `execute` puts the evolved schema on storage.
//!
//! | What was put | What a reader sees | What a crash leaves |
//! |---|---|---|
//! | files of enumerations | the schema as it was | files that no schema names; `check` lists them |
//! | the schema, in one put | the evolved schema, whole | nothing |
//!
//! Cells are never touched: an attribute that a fragment does not have reads as its fill value, and a snapshot of an earlier
//! time has the schema of its time. The subtle thing: names differ, so two evolutions of one schema never collide, and the
//! later file would silently undo the earlier one. So an evolution lists the schemas before its put, and starts again if there
//! is a new one. It lists them again after the put, and merges the evolutions that it then finds.

mod columns;
mod compatible;
mod evolution;
mod execute;
mod history;
mod step;
#[cfg(test)]
mod tests;

pub use self::evolution::SchemaEvolution;
pub use self::execute::Evolved;
