//! Facts about a statement's text that DataFusion's plan loses: which casts were written, which values are DEFAULT, whether a
//! column is set twice, and which names of COPY are quoted.
//!
//! Written casts are identified by their type. DataFusion's planner asks the session for the type of each written cast, and
//! gets a field from a list kept here. For casts that it adds, it creates the field itself. A clone of an expression shares its
//! fields. The other facts come from the parsed statement, so only [`execute`](crate::execute) knows them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Statement as PlanStatement, Volatility,
};
use datafusion::sql::parser::{CopyToSource, CopyToStatement, CreateExternalTable, Statement};
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, Assignment, AssignmentTarget, ColumnOption, DataType as SqlType,
    ExactNumberInfo, Expr as SqlExpr, FromTable, Ident, Insert, MergeAction, MergeInsertKind,
    ObjectName, Parens, Query, SetExpr, Statement as SqlStatement, TableFactor, TableObject,
    TimezoneInfo, Values,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use tiledb_engine::Error;

use crate::error::to_datafusion_error;
use crate::options::names::{column_name, normalizer};
use crate::statements::order_by_all;
use crate::table::provider::TileDbTable;
use crate::upstream::from_first;
use crate::upstream::wide_lists;

/// The function that takes the place of DEFAULT.
const DEFAULT: &str = "tiledb_default";

/// The fields of written types, which identify written casts. A cast has no session, so the process keeps the fields.
static WRITTEN: LazyLock<Mutex<HashMap<DataType, FieldRef>>> = LazyLock::new(Mutex::default);

/// The maximum number of types in the list: every length of a fixed-size list is another type.
const MOST_TYPES: usize = 10_000;

/// Adds the planner of written types and the function for DEFAULT to a session that is being built.
pub(crate) fn install(builder: &mut SessionStateBuilder) {
    let functions = builder.scalar_functions().get_or_insert_default();
    if functions.iter().any(|function| function.name() == DEFAULT) {
        return;
    }
    let function = DefaultValue {
        signature: Signature::nullary(Volatility::Volatile),
    };
    functions.push(Arc::new(ScalarUDF::from(function)));
    let others = builder.type_planner().take();
    *builder.type_planner() = Some(Arc::new(WrittenTypes { others }));
}

/// Whether a session has the planner and the function.
pub(crate) fn is_installed(state: &SessionState) -> bool {
    state.scalar_functions().contains_key(DEFAULT)
}

/// Whether a cast to this type was written.
pub(crate) fn is_written(field: &FieldRef) -> bool {
    let known = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get(field.data_type());
    known.is_some_and(|known| Arc::ptr_eq(known, field))
}

/// The field of a written type.
fn written(data_type: DataType) -> FieldRef {
    let field = |data_type| Arc::new(Field::new("", data_type, true));
    let mut known = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= MOST_TYPES && !known.contains_key(&data_type) {
        return field(data_type);
    }
    let known = known.entry(data_type.clone());
    Arc::clone(known.or_insert_with(|| field(data_type)))
}

/// Plans SQL types as DataFusion does, with fields that can be recognized later.
#[derive(Debug)]
struct WrittenTypes {
    /// The planner that the session had before.
    others: Option<Arc<dyn TypePlanner>>,
}

impl TypePlanner for WrittenTypes {
    fn plan_type_field(&self, sql_type: &SqlType) -> Result<Option<FieldRef>> {
        if let Some(others) = &self.others
            && let Some(field) = others.plan_type_field(sql_type)?
        {
            let plain = Field::new("", field.data_type().clone(), true);
            return Ok(Some(if *field == plain {
                written(plain.data_type().clone())
            } else {
                field
            }));
        }
        Ok(arrow_type(sql_type).map(written))
    }
}

/// The types to which a cast may lose something, as DataFusion plans them from SQL.
fn arrow_type(sql_type: &SqlType) -> Option<DataType> {
    Some(match sql_type {
        SqlType::Boolean | SqlType::Bool => DataType::Boolean,
        SqlType::TinyInt(_) => DataType::Int8,
        SqlType::SmallInt(_) | SqlType::Int2(_) => DataType::Int16,
        SqlType::Int(_) | SqlType::Integer(_) | SqlType::Int4(_) => DataType::Int32,
        SqlType::BigInt(_) | SqlType::Int8(_) => DataType::Int64,
        SqlType::TinyIntUnsigned(_) => DataType::UInt8,
        SqlType::SmallIntUnsigned(_) | SqlType::Int2Unsigned(_) => DataType::UInt16,
        SqlType::IntUnsigned(_) | SqlType::IntegerUnsigned(_) | SqlType::Int4Unsigned(_) => {
            DataType::UInt32
        }
        SqlType::BigIntUnsigned(_) | SqlType::Int8Unsigned(_) => DataType::UInt64,
        SqlType::Float(_) | SqlType::Real | SqlType::Float4 => DataType::Float32,
        SqlType::Double(ExactNumberInfo::None) | SqlType::DoublePrecision | SqlType::Float8 => {
            DataType::Float64
        }
        SqlType::Timestamp(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            let unit = match precision {
                Some(0) => TimeUnit::Second,
                Some(3) => TimeUnit::Millisecond,
                Some(6) => TimeUnit::Microsecond,
                None | Some(9) => TimeUnit::Nanosecond,
                Some(_) => return None,
            };
            DataType::Timestamp(unit, None)
        }
        SqlType::Date => DataType::Date32,
        SqlType::Time(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            DataType::Time64(TimeUnit::Nanosecond)
        }
        SqlType::Array(ArrayElemTypeDef::AngleBracket(of)) => list_of(arrow_type(of)?, None)?,
        SqlType::Array(ArrayElemTypeDef::SquareBracket(of, length)) => {
            list_of(arrow_type(of)?, *length)?
        }
        _ => return None,
    })
}

fn list_of(items: DataType, length: Option<u64>) -> Option<DataType> {
    let item = Arc::new(Field::new(Field::LIST_FIELD_DEFAULT_NAME, items, true));
    Some(match length {
        None => DataType::List(item),
        Some(length) => DataType::FixedSizeList(item, i32::try_from(length).ok()?),
    })
}

/// Represents the default of a column until the statement is rewritten.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DefaultValue {
    signature: Signature,
}

impl ScalarUDFImpl for DefaultValue {
    fn name(&self) -> &'static str {
        DEFAULT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Null)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!(
            "DEFAULT stands for the default of a column, as a whole value of INSERT INTO … VALUES, UPDATE … SET or MERGE INTO of an array"
        )
    }
}

/// Whether a value, possibly in a cast, is DEFAULT.
pub(crate) fn is_default(value: &Expr) -> bool {
    match value {
        Expr::Alias(alias) => is_default(&alias.expr),
        Expr::Cast(cast) => is_default(&cast.expr),
        Expr::ScalarFunction(call) => call.func.name() == DEFAULT,
        _ => false,
    }
}

/// Plans a statement like [`SessionState::statement_to_plan`], with three additions: DEFAULT as a value and `DEFAULT VALUES` of
/// arrays, and quoted names in `COPY … PARTITIONED BY`. A column that UPDATE sets twice is an error.
///
/// # Errors
///
/// Fails if DataFusion cannot plan the statement.
pub(crate) async fn plan(state: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    from_first::select_all(&mut statement);
    order_by_all::expand(state, &mut statement).await?;
    let mut inner = &mut statement;
    while let Statement::Explain(explained) = inner {
        inner = &mut explained.statement;
    }
    let dimensions = match inner {
        Statement::CopyTo(copy) => copied(state, copy)?,
        Statement::CreateExternalTable(table) => {
            check_columns(table)?;
            None
        }
        Statement::Statement(statement) => {
            values(state, statement).await?;
            None
        }
        _ => None,
    };
    let infers = infers_parameters(&statement);
    let mut plan = wide_lists::plan(state, statement).await?;
    if infers && let LogicalPlan::Statement(PlanStatement::Prepare(prepare)) = &mut plan {
        // EXECUTE would silently cast its values to the types of their columns.
        prepare.fields.clear();
    }
    match dimensions {
        Some(dimensions) => partitioned(plan, &dimensions),
        None => Ok(plan),
    }
}

/// Fails if a column of a new array has an option that DataFusion would silently leave out, such as GENERATED or CHECK.
fn check_columns(table: &CreateExternalTable) -> Result<()> {
    if !table.file_type.eq_ignore_ascii_case("TILEDB") {
        return Ok(());
    }
    for column in &table.columns {
        let unknown = column.options.iter().find(|option| {
            !matches!(
                option.option,
                ColumnOption::Null
                    | ColumnOption::NotNull
                    | ColumnOption::Default(_)
                    | ColumnOption::PrimaryKey(_)
                    | ColumnOption::Unique(_)
            )
        });
        if let Some(unknown) = unknown {
            let error = Error::unsupported(format!(
                "{} of the column \"{}\": an array's column has a type, NOT NULL and DEFAULT",
                unknown.option, column.name.value
            ));
            return Err(to_datafusion_error(error));
        }
    }
    Ok(())
}

/// Whether a statement prepares another one and leaves the types of its parameters open.
fn infers_parameters(statement: &Statement) -> bool {
    let Statement::Statement(statement) = statement else {
        return false;
    };
    matches!(statement.as_ref(), SqlStatement::Prepare { data_types, .. } if data_types.is_empty())
}

/// Prepares the values of a statement that changes rows.
async fn values(state: &SessionState, statement: &mut SqlStatement) -> Result<()> {
    let mut statement = statement;
    while let SqlStatement::Prepare {
        statement: inner, ..
    } = statement
    {
        statement = inner;
    }
    match statement {
        SqlStatement::Insert(insert) => {
            if insert.source.is_none() && insert.assignments.is_empty() {
                insert.source = defaults_only(state, insert).await?;
            }
            let body = insert.source.as_deref_mut().map(|q| q.body.as_mut());
            if let Some(SetExpr::Values(values)) = body {
                in_rows(values)?;
            }
        }
        SqlStatement::Delete(delete) => {
            let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) =
                &delete.from;
            // DataFusion looks at the name alone.
            let versioned = tables.iter().any(|table| {
                matches!(
                    &table.relation,
                    TableFactor::Table {
                        version: Some(_),
                        ..
                    }
                )
            });
            if versioned {
                let error = Error::unsupported(
                    "DELETE on a table that shows the past: leave out the time, and set tiledb.write_timestamp to delete at \
                     another time than the present",
                );
                return Err(to_datafusion_error(error));
            }
        }
        SqlStatement::Update(update) => {
            check_once(state, &update.assignments)?;
            in_assignments(&mut update.assignments)?;
        }
        SqlStatement::Merge(merge) => {
            for clause in &mut merge.clauses {
                match &mut clause.action {
                    MergeAction::Update(update) => in_assignments(&mut update.assignments)?,
                    MergeAction::Insert(insert) => match &mut insert.kind {
                        MergeInsertKind::Values(values) => in_rows(values)?,
                        MergeInsertKind::Row => {}
                    },
                    MergeAction::Delete { .. } => {}
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Fails if a column is set twice.
pub(crate) fn check_once(state: &SessionState, assignments: &[Assignment]) -> Result<()> {
    let mut known = HashSet::new();
    for assignment in assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            continue;
        };
        let column = name.0.last().and_then(|part| part.as_ident());
        let column =
            column.map(|column| normalizer(state.config_options()).normalize(column.clone()));
        if let Some(column) = column.filter(|column| !known.insert(column.clone())) {
            let error = Error::invalid(format!(
                "UPDATE sets the column \"{column}\" twice, expected one value for each column"
            ));
            return Err(to_datafusion_error(error));
        }
    }
    Ok(())
}

fn in_rows(values: &mut Values) -> Result<()> {
    let rows = values.rows.iter_mut();
    rows.flat_map(|row| &mut row.content).try_for_each(in_value)
}

fn in_assignments(assignments: &mut [Assignment]) -> Result<()> {
    let mut values = assignments.iter_mut().map(|a| &mut a.value);
    values.try_for_each(in_value)
}

/// Replaces DEFAULT by the function that represents it.
fn in_value(value: &mut SqlExpr) -> Result<()> {
    let SqlExpr::Identifier(name) = &*value else {
        return Ok(());
    };
    if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default") {
        *value = default_call()?;
    }
    Ok(())
}

fn default_call() -> Result<SqlExpr> {
    let call = format!("{DEFAULT}()");
    let parsed = Parser::new(&GenericDialect {})
        .try_with_sql(&call)
        .and_then(|mut parser| parser.parse_expr());
    parsed.map_err(unparsed)
}

fn unparsed(error: ParserError) -> datafusion::error::DataFusionError {
    to_datafusion_error(Error::internal("a name of SQL is parsed").with_source(error))
}

/// The row of `DEFAULT VALUES` for an array.
async fn defaults_only(state: &SessionState, insert: &Insert) -> Result<Option<Box<Query>>> {
    let TableObject::TableName(name) = &insert.table else {
        return Ok(None);
    };
    let Some(table) = array_of(state, name).await? else {
        return Ok(None);
    };
    let row = (0..table).map(|_| default_call());
    let values = Values {
        explicit_row: false,
        value_keyword: false,
        rows: vec![Parens::with_empty_span(row.collect::<Result<_>>()?)],
    };
    let query = Parser::new(&GenericDialect {})
        .try_with_sql("VALUES (1)")
        .and_then(|mut parser| parser.parse_query());
    let mut query = query.map_err(unparsed)?;
    *query.body = SetExpr::Values(values);
    Ok(Some(query))
}

/// The number of columns of an array; `None` if the table isn't an array.
async fn array_of(state: &SessionState, name: &ObjectName) -> Result<Option<usize>> {
    let parser = &state.config_options().sql_parser;
    let fold = parser.enable_ident_normalization;
    let name: TableReference = object_name_to_table_reference(name.clone(), fold)?;
    let schema = state.schema_for_ref(name.clone())?;
    let table = schema.table(name.table()).await?;
    let array = table.as_ref();
    let array = array.and_then(|table| table.downcast_ref::<TileDbTable>());
    let schema = array.map(datafusion::catalog::TableProvider::schema);
    Ok(schema.map(|schema| schema.fields().len()))
}

/// Removes the names of PARTITIONED BY from a COPY if DataFusion would misread them because of quotes or capitals. Also turns a
/// path into a query, because DataFusion would take its dots as separators between schema and table.
fn copied(state: &SessionState, copy: &mut CopyToStatement) -> Result<Option<Vec<String>>> {
    if let CopyToSource::Relation(name) = &copy.source
        && name.0.iter().all(|part| is_path(part.as_ident()))
    {
        let query = Parser::new(&GenericDialect {})
            .try_with_sql(&format!("SELECT * FROM {name}"))
            .and_then(|mut parser| parser.parse_query());
        copy.source = CopyToSource::Query(query.map_err(unparsed)?);
    }
    let names = copy.partitioned_by.iter();
    let names = names.map(|name| column_name(state.config_options(), name));
    let names = names.collect::<Vec<_>>();
    Ok((names != copy.partitioned_by).then(|| {
        copy.partitioned_by.clear();
        names
    }))
}

/// Whether a table's name is a path.
fn is_path(name: Option<&Ident>) -> bool {
    name.is_some_and(|name| name.quote_style == Some('\''))
}

/// The plan of a COPY with these names in PARTITIONED BY.
fn partitioned(plan: LogicalPlan, names: &[String]) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Copy(mut copy) => {
            let columns = copy.input.schema();
            let found = names.iter().map(|name| {
                let field = columns.field_with_unqualified_name(name)?;
                Ok(field.name().clone())
            });
            copy.partition_by = found.collect::<Result<_>>()?;
            LogicalPlan::Copy(copy)
        }
        LogicalPlan::Explain(mut explain) => {
            explain.plan = Arc::new(partitioned(explain.plan.as_ref().clone(), names)?);
            LogicalPlan::Explain(explain)
        }
        LogicalPlan::Analyze(mut analyze) => {
            analyze.input = Arc::new(partitioned(analyze.input.as_ref().clone(), names)?);
            LogicalPlan::Analyze(analyze)
        }
        other => other,
    })
}
