//! The rows of a query with columns and conditions that another library chooses.

use arrow::datatypes::TimeUnit;
use datafusion::common::Column;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, cast};
use datafusion_tiledb::session::in_one_statement;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::capsules::schema_capsule;
use crate::conditions::{ConditionColumn, ConditionScope, FloatOrder, TranslatedFilter, translate};
use crate::errors::{exception, invalid};
use crate::exact_times::{in_unit, with_unit};
use crate::expression::unpickled;
use crate::module_runtime::{OwnerProcess, wait};
use crate::polars_expression;
use crate::query::{EngineQuery, QueryOrigin, QueryRows, plain_type};

/// A query that takes conditions of pyarrow. It has no views, which turn off the conditions of DuckDB.
#[pyclass(frozen, module = "tiledb_sql._engine")]
pub struct EngineDataset {
    frame: DataFrame,
    columns: Vec<ConditionColumn>,
    /// The columns as they are shown, in the same order.
    shown: Vec<Expr>,
    statement: String,
    owner: OwnerProcess,
}

/// A filter of another library.
#[derive(FromPyObject)]
pub enum GivenFilter {
    /// The JSON of an expression of Polars.
    Polars(String),
    /// The pickled bytes of an expression of pyarrow.
    Pickled(Vec<u8>),
}

impl EngineDataset {
    fn translated(&self, filter: &GivenFilter) -> TranslatedFilter {
        let scope = ConditionScope {
            columns: &self.columns,
            starts_with: self.frame.registry().udf("starts_with").ok(),
            floats: match filter {
                GivenFilter::Pickled(_) => FloatOrder::Ieee,
                GivenFilter::Polars(_) => FloatOrder::NanIsGreatest,
            },
        };
        let steps = match filter {
            GivenFilter::Pickled(bytes) => unpickled(bytes),
            GivenFilter::Polars(json) => polars_expression::steps(json),
        };
        let unknown = || TranslatedFilter {
            fields: self.columns.iter().map(|c| c.name.clone()).collect(),
            ..TranslatedFilter::default()
        };
        steps
            .and_then(|steps| translate(steps, &scope))
            .unwrap_or_else(unknown)
    }

    fn filtered(&self, filter: Option<TranslatedFilter>) -> Result<DataFrame> {
        let conditions = filter.into_iter().flat_map(|filter| filter.conditions);
        conditions.reduce(Expr::and).map_or_else(
            || Ok(self.frame.clone()),
            |condition| self.frame.clone().filter(condition),
        )
    }

    /// The shown columns of these names, in this order.
    fn chosen(&self, py: Python<'_>, names: &[String]) -> PyResult<Vec<Expr>> {
        let find = |name: &String| {
            let place = self.columns.iter().position(|column| column.name == *name);
            let shown = place.and_then(|place| self.shown.get(place));
            shown.cloned().ok_or_else(|| {
                let known = self.columns.iter().map(|column| column.name.as_str());
                let known = known.collect::<Vec<_>>().join(", ");
                invalid(
                    py,
                    &format!("there is no column '{name}'; there are {known}"),
                )
            })
        };
        names.iter().map(find).collect()
    }
}

#[pymethods]
impl EngineDataset {
    /// The rows of a query, with all times in one unit if one is given. None if the statement has run.
    #[staticmethod]
    #[pyo3(signature = (query, time_unit=None))]
    fn of(py: Python<'_>, query: &EngineQuery, time_unit: Option<&str>) -> PyResult<Option<Self>> {
        let QueryRows::Planned(frame) = query.rows().clone() else {
            return Ok(None);
        };
        let unit = time_unit.map(|unit| unit_called(py, unit)).transpose()?;
        let mut columns: Vec<ConditionColumn> = Vec::new();
        let mut shown = Vec::new();
        for (qualifier, field) in frame.schema().iter() {
            if columns.iter().any(|column| column.name == *field.name()) {
                let text = format!(
                    "two columns are called '{}': give one another name with AS",
                    field.name()
                );
                return Err(invalid(py, &text));
            }
            let column = ConditionColumn {
                name: field.name().clone(),
                source: Column::new(qualifier.cloned(), field.name()),
                stored: field.data_type().clone(),
            };
            shown.push(shown_as(&column, unit));
            columns.push(column);
        }
        Ok(Some(Self {
            frame,
            columns,
            shown,
            statement: query.statement().to_owned(),
            owner: query.owner(),
        }))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let shown = self.frame.clone().select(self.shown.clone());
        let shown = shown.map_err(|error| exception(py, &error, &self.statement))?;
        schema_capsule(py, shown.schema().as_arrow())
    }

    /// The columns that a filter names, and whether its whole meaning is known.
    fn understood(&self, filter: GivenFilter) -> (Vec<String>, bool) {
        let filter = self.translated(&filter);
        (filter.fields.into_iter().collect(), filter.is_complete)
    }

    /// The rows that meet the known conditions of a filter.
    #[pyo3(signature = (columns, filter=None, limit=None))]
    fn scan(
        &self,
        py: Python<'_>,
        columns: Vec<String>,
        filter: Option<GivenFilter>,
        limit: Option<usize>,
    ) -> PyResult<EngineQuery> {
        self.owner.check("the dataset")?;
        let filter = filter.map(|filter| self.translated(&filter));
        let columns = self.chosen(py, &columns)?;
        let frame = self
            .filtered(filter)
            .and_then(|frame| frame.select(columns))
            .and_then(|frame| match limit {
                Some(rows) => frame.limit(0, Some(rows)),
                None => Ok(frame),
            });
        let frame = frame.map_err(|error| exception(py, &error, &self.statement))?;
        let rows = QueryRows::Planned(frame);
        let origin = QueryOrigin {
            statement: self.statement.clone(),
            maintenance: None,
            owner: self.owner,
            progress: None,
        };
        Ok(EngineQuery::new(rows, origin))
    }

    /// The number of rows that meet a filter, if its whole meaning is known.
    #[pyo3(signature = (filter=None))]
    fn count(&self, py: Python<'_>, filter: Option<GivenFilter>) -> PyResult<Option<usize>> {
        self.owner.check("the dataset")?;
        let filter = filter.map(|filter| self.translated(&filter));
        if filter.as_ref().is_some_and(|filter| !filter.is_complete) {
            return Ok(None);
        }
        let frame = self.filtered(filter);
        let counted = async move { frame?.count().await };
        let count = wait(py, in_one_statement(counted))?;
        let count = count.map_err(|error| exception(py, &error, &self.statement))?;
        Ok(Some(count))
    }
}

/// A column as other libraries take it: without views, and with times in the unit.
fn shown_as(column: &ConditionColumn, unit: Option<TimeUnit>) -> Expr {
    let source = Expr::Column(column.source.clone());
    let in_other_unit = unit.and_then(|unit| with_unit(&column.stored, unit));
    let shown = match in_other_unit {
        Some(wanted) if wanted != column.stored => in_unit(source, &column.name, wanted),
        _ => {
            let plain = plain_type(&column.stored);
            match plain == column.stored {
                true => return source,
                false => cast(source, plain),
            }
        }
    };
    shown.alias(&column.name)
}

fn unit_called(py: Python<'_>, unit: &str) -> PyResult<TimeUnit> {
    Ok(match unit {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        _ => {
            let text = format!("the time unit '{unit}' isn't one of 's', 'ms', 'us' and 'ns'");
            return Err(invalid(py, &text));
        }
    })
}
