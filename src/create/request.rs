//! The description of an array in `CREATE EXTERNAL TABLE`: to create the array, or to compare it with an existing one.
//!
//! The subtle thing: an array's columns are its dimensions, in the order of the key, and then its attributes. A statement that
//! declares another order is refused: `INSERT` without a list of columns depends on the order, so columns aren't moved
//! silently. Only the columns of `PARTITIONED BY`, which usually come last, are moved to the front.

use std::collections::HashMap;

use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::catalog::Session;
use datafusion::common::Constraint;
use datafusion::logical_expr::CreateExternalTable;
use tiledb_engine::array::snapshot::Snapshot;
use tiledb_engine::storage::Storage;
use tiledb_engine::write::create::{ArrayBuilder, ArrayDefinition, LiteralValue, same_kind};
use tiledb_engine::{Error, Result, ResultExt};

use super::default;
use crate::options::TableOptions;
use crate::options::names::column_name;

/// The contents of a statement.
#[derive(Debug)]
pub(crate) struct CreateRequest {
    /// The columns, dimensions first if the statement names them.
    columns: Vec<FieldRef>,
    /// The names of the dimensions, if the statement has any.
    dimensions: Option<Vec<String>>,
    /// The options that describe an array, without prefix, sorted by key.
    creation: Vec<(String, String)>,
    /// The fill values of attributes; `None` for NULL.
    defaults: Vec<(String, Option<LiteralValue>)>,
    /// The options to read it with.
    pub options: TableOptions,
    /// A part of the statement that is not allowed if it creates an array.
    unfit: Option<&'static str>,
}

impl CreateRequest {
    pub(crate) fn of(session: &dyn Session, statement: &CreateExternalTable) -> Result<Self> {
        let (options, creation) = TableOptions::split_statement(&statement.options)?;
        let declared: Vec<FieldRef> = statement.schema.fields().iter().cloned().collect();
        let dimensions = dimension_names(session, statement, &declared)?;
        let columns = match &dimensions {
            Some(names) if !statement.table_partition_cols.is_empty() => to_front(declared, names),
            _ => declared,
        };
        let has_unique = |c: &Constraint| matches!(c, Constraint::Unique(_));
        let unfit = if statement.constraints.iter().any(has_unique) {
            Some("UNIQUE: only the dimensions, which the primary key names, tell cells apart")
        } else if !statement.order_exprs.is_empty() {
            Some("WITH ORDER: cells are ordered by the dimensions, in tiledb.cell_order")
        } else {
            None
        };
        Ok(Self {
            defaults: defaults(session, &statement.column_defaults, &columns)?,
            columns,
            dimensions,
            creation,
            options,
            unfit,
        })
    }

    /// Whether the statement could create an array: it declares columns.
    pub(crate) fn declares_columns(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Whether the statement has a part that only matters for a new array.
    pub(crate) fn describes_array(&self) -> bool {
        !self.creation.is_empty()
    }

    /// Creates the array.
    pub(crate) async fn create(&self, storage: &Storage) -> Result<()> {
        let builder = self.builder().and_then(|builder| {
            // The options of the table may show the columns differently.
            builder.check_columns(&builder.definition()?, &self.options.types())?;
            Ok(builder)
        });
        let builder = builder.map_err(|e| e.with("array", storage.uri()))?;
        builder
            .encryption_key(self.options.encryption_key.clone())
            .timestamp_if_given(self.options.write_timestamp)
            .create(storage)
            .await
    }

    fn builder(&self) -> Result<ArrayBuilder> {
        if let Some(unfit) = self.unfit {
            return Err(Error::unsupported(format!(
                "an array cannot be created with {unfit}"
            )));
        }
        if self.options.timestamp_start.is_some() || self.options.timestamp_end.is_some() {
            return Err(Error::invalid(
                "there is no array yet, so it has no past: leave tiledb.timestamp, tiledb.timestamp_start and tiledb.timestamp_end out",
            ));
        }
        let dimensions = self.dimensions.as_ref().ok_or_else(|| {
            Error::invalid(
                "there is no array yet, and the statement does not say which columns are the dimensions of a new one: add PRIMARY KEY (…) behind the columns",
            )
        })?;
        self.check_order(dimensions)?;
        let schema = Schema::new(self.columns.clone());
        let mut builder = ArrayBuilder::new(&schema, dimensions)?;
        for (name, default) in &self.defaults {
            builder = add_default(builder, name, default.as_ref())?;
        }
        for (key, value) in &self.creation {
            builder = builder.option_in_lower_case(key, value)?;
        }
        Ok(builder)
    }

    /// Fails unless the columns are declared in the order in which the table will have them.
    fn check_order(&self, dimensions: &[String]) -> Result<()> {
        let declared: Vec<_> = self.columns.iter().map(|c| c.name().as_str()).collect();
        if declared
            .iter()
            .zip(dimensions)
            .all(|(column, name)| column == name)
        {
            return Ok(());
        }
        let rest = declared
            .iter()
            .copied()
            .filter(|name| !dimensions.iter().any(|d| d == name));
        let expected = dimensions.iter().map(String::as_str).chain(rest);
        Err(Error::invalid(format!(
            "the columns of an array are its dimensions, in the order of the key, and then the others: declare them in the order {}",
            expected.collect::<Vec<_>>().join(", ")
        )))
    }

    /// Fails unless the array is as the statement describes it.
    pub(crate) fn verify(&self, array: &Snapshot, shown: &Schema) -> Result<()> {
        if self.declares_columns() {
            self.check_columns(shown)?;
        }
        let schema = &array.schema;
        if let Some(names) = &self.dimensions {
            let count = schema.dimensions.len();
            let found: Vec<_> = shown
                .fields()
                .iter()
                .take(count)
                .map(|f| f.name())
                .collect();
            if !names.iter().eq(found.iter().copied()) {
                let found: Vec<_> = found.into_iter().map(String::as_str).collect();
                return Err(Error::invalid(format!(
                    "the statement says that the dimensions are {} and those of the array are {}",
                    names.join(", "),
                    found.join(", ")
                )));
            }
        }
        if self.creation.is_empty() && self.defaults.is_empty() {
            return Ok(());
        }
        let (found, _) = ArrayDefinition::of(schema, &array.enumerations)?;
        let mut builder = ArrayBuilder::of(&found)?;
        for (name, default) in &self.defaults {
            builder = add_default(builder, name, default.as_ref())?;
        }
        for (key, value) in &self.creation {
            builder = builder.option_in_lower_case(key, value)?;
        }
        let disagreements = builder.disagreements(&found)?;
        if disagreements.is_empty() {
            return Ok(());
        }
        let disagreements: Vec<_> = disagreements.iter().map(ToString::to_string).collect();
        Err(Error::invalid(format!(
            "the array exists, and is not what the statement says: {}; leave these options out, or choose another location",
            disagreements.join("; ")
        )))
    }

    /// Checks that the declared columns are the array's, by name, kind of type and order.
    fn check_columns(&self, shown: &Schema) -> Result<()> {
        let names = |fields: &[FieldRef]| {
            let names = fields.iter().map(|f| f.name().as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let same_names = self.columns.len() == shown.fields().len()
            && self
                .columns
                .iter()
                .zip(shown.fields())
                .all(|(a, b)| a.name() == b.name());
        if !same_names {
            return Err(Error::invalid(format!(
                "the statement declares the columns {} but the array has {}: leave the list out, or name them all in order",
                names(&self.columns),
                names(shown.fields())
            )));
        }
        let mut columns = self.columns.iter().zip(shown.fields());
        match columns.find(|(declared, found)| !same_kind(declared.data_type(), found.data_type()))
        {
            None => Ok(()),
            Some((declared, found)) => Err(Error::invalid(format!(
                "the statement declares the column {} as {} but in the array it is {}: leave the list out, or declare what is there",
                found.name(),
                declared.data_type(),
                found.data_type()
            ))),
        }
    }
}

/// The names of the dimensions: the primary key, or the columns of PARTITIONED BY.
fn dimension_names(
    session: &dyn Session,
    statement: &CreateExternalTable,
    columns: &[FieldRef],
) -> Result<Option<Vec<String>>> {
    let keys: Vec<_> = statement
        .constraints
        .iter()
        .filter_map(|constraint| match constraint {
            Constraint::PrimaryKey(indices) => Some(indices),
            Constraint::Unique(_) => None,
        })
        .collect();
    let partitions = &statement.table_partition_cols;
    let names = |indices: &[usize]| {
        let columns = indices.iter().filter_map(|index| columns.get(*index));
        columns.map(|column| column.name().clone()).collect()
    };
    match (keys.as_slice(), partitions.is_empty()) {
        ([], true) => Ok(None),
        ([key], true) => Ok(Some(names(key))),
        ([], false) => {
            let has = |name: &str| columns.iter().any(|column| column.name() == name);
            let names = partitions.iter().map(|name| {
                let meant = column_name(session.config_options(), name);
                if !has(&meant) && has(name) {
                    name.clone()
                } else {
                    meant
                }
            });
            Ok(Some(names.collect()))
        }
        ([_], false) => Err(Error::invalid(
            "both PRIMARY KEY and PARTITIONED BY say which columns are the dimensions: leave one of them out",
        )),
        _ => Err(Error::invalid(
            "there are several primary keys: name all dimensions in one, PRIMARY KEY (…)",
        )),
    }
}

/// The columns, with the named ones first, unless one of them is missing.
fn to_front(mut columns: Vec<FieldRef>, names: &[String]) -> Vec<FieldRef> {
    let at_end = columns.len().checked_sub(names.len()).filter(|start| {
        let last = columns.iter().skip(*start).map(|column| column.name());
        last.eq(names.iter())
    });
    if let Some(start) = at_end {
        columns.rotate_left(start);
    }
    columns
}

fn defaults(
    session: &dyn Session,
    given: &HashMap<String, datafusion::logical_expr::Expr>,
    columns: &[FieldRef],
) -> Result<Vec<(String, Option<LiteralValue>)>> {
    let mut defaults = Vec::new();
    for column in columns {
        if let Some(expr) = given.get(column.name()) {
            let value = default::value(session, expr, column.data_type())
                .context("column", || column.name())?;
            if value.is_none() && !column.is_nullable() {
                return Err(Error::invalid("DEFAULT NULL, and the column is NOT NULL")
                    .with("column", column.name()));
            }
            defaults.push((column.name().clone(), value));
        }
    }
    Ok(defaults)
}

fn add_default(
    builder: ArrayBuilder,
    name: &str,
    value: Option<&LiteralValue>,
) -> Result<ArrayBuilder> {
    let added = match value {
        Some(value) => builder.default_value(name, value.clone()),
        None => builder.default_null(name),
    };
    added.context("column", || name)
}
