//! The door for statements: every statement that this crate supports, from its text to its rows.
//!
//! DataFusion's own `SessionContext::sql` plans most statements on arrays. It refuses ATTACH, DETACH and ALTER TABLE, needs help with
//! some others (`plan`), and takes no options of object stores (`locations`).

use std::sync::Arc;

use datafusion::common::{DFSchema, Result, not_impl_err, plan_datafusion_err, plan_err};
use datafusion::config::Dialect;
use datafusion::dataframe::DataFrame;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{DdlStatement, EmptyRelation, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::{Dialect as SqlDialect, dialect_from_str};
use futures::{StreamExt, stream};

use super::depth::StatementDepth;
use super::locations::{LocationReader, prepare, prepare_store};
use super::plan::plan_statement;
use super::secrets::without_secrets;
use super::suggestions::with_suggestion;
use super::summarize::{summarize, summarized};
use crate::catalog::{GroupStatement, attached_notice, first_word};
use crate::error::to_datafusion_error;
use crate::evolve::alter::AlterTable;
use crate::options::ReadOnly;
use crate::stores::ahead::OpenedTables;
use crate::table::url_table::looks_like_location;
use crate::upstream::generic_dialect::GenericWithTimes;

/// Executes a statement in a session with [`register`](crate::register). It takes everything that `SessionContext::sql` takes,
/// and `ATTACH` and `DETACH` of groups, `ALTER TABLE` of arrays, `SUMMARIZE`, `ORDER BY ALL`, `FOR SYSTEM_TIME AS OF`, DEFAULT as a value and `DEFAULT VALUES`, and quoted names in `COPY
/// … PARTITIONED BY`. A column that UPDATE sets twice is an error. For an outermost `SELECT *`, the planning time grows with the
/// number of columns, not with its square. A statement with an unknown column, and DESCRIBE, look at the array again, and so find
/// columns that others have added since the array was opened. A leading `~` in a location is the home folder.
///
/// CREATE, DROP, SET, ATTACH, DETACH and ALTER TABLE run at once and return an empty DataFrame. Queries run when you collect their
/// DataFrame. So do statements that change rows, which return the number of changed rows.
///
/// ```
/// use datafusion::prelude::SessionContext;
/// use datafusion_tiledb::execute;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("readings").display().to_string();
/// let ctx = SessionContext::new();
/// datafusion_tiledb::register(&ctx)?;
/// let create = format!(
///     "CREATE EXTERNAL TABLE readings (id BIGINT NOT NULL, PRIMARY KEY (id)) STORED AS TILEDB LOCATION '{path}'"
/// );
/// execute(&ctx, &create).await?;
/// execute(&ctx, "ALTER TABLE readings ADD COLUMN note VARCHAR DEFAULT 'none'").await?;
/// execute(&ctx, "INSERT INTO readings VALUES (1, DEFAULT), (2, 'new')").await?.collect().await?;
/// assert_eq!(execute(&ctx, "SELECT * FROM readings WHERE note = 'none'").await?.count().await?, 1);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
///
/// # Errors
///
/// Fails if the text isn't a single statement, if a chain of its operators is longer than the session's [`StatementDepth`], or if
/// the statement fails. Options of object stores, such as `aws.region`, work for arrays, and for files in a session with a
/// [`StoreRegistry`](crate::StoreRegistry). Errors never contain secrets of the statement.
pub async fn execute(ctx: &SessionContext, sql: &str) -> Result<DataFrame> {
    Ok(match start(ctx, sql).await? {
        StartedStatement::Rows { frame, .. } => *frame,
        StartedStatement::Done { .. } => {
            let nothing = EmptyRelation {
                produce_one_row: false,
                schema: Arc::new(DFSchema::empty()),
            };
            DataFrame::new(ctx.state(), LogicalPlan::EmptyRelation(nothing))
        }
    })
}

/// A statement that [`start`] has run or planned.
#[derive(Debug)]
pub enum StartedStatement {
    /// The statement has run, and has no rows: CREATE, DROP, SET, PREPARE, ATTACH, DETACH, ALTER TABLE.
    Done {
        /// A message for the user, for example that an attached group is empty.
        notice: Option<String>,
    },
    /// The statement runs when its rows are collected.
    Rows {
        /// The rows. `DataFrame::into_parts` returns the plan, with the state of the session in which to run it.
        frame: Box<DataFrame>,
        /// Whether the rows describe the session, a table or a plan: those of SHOW, DESCRIBE and EXPLAIN. They are few, and wanted as
        /// a whole.
        is_description: bool,
    },
}

/// Starts a statement: runs it if it has no rows, and plans it otherwise. [`execute`] is built on this function, which serves
/// programs that show plans or progress, or run physical plans themselves.
///
/// ```
/// use datafusion::prelude::SessionContext;
/// use datafusion_tiledb::TileDbSessionExt;
/// use datafusion_tiledb::session::{StartedStatement, start};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let ctx = SessionContext::new();
/// ctx.register_tiledb("weather", "./examples/data/weather_stations").await?;
/// match start(&ctx, "SELECT * FROM weather LIMIT 5").await? {
///     StartedStatement::Done { notice } => println!("{}", notice.unwrap_or_default()),
///     StartedStatement::Rows { frame, .. } => {
///         let (state, plan) = frame.into_parts();
///         let plan = state.create_physical_plan(&plan).await?;
///         println!("{} columns", plan.schema().fields().len());
///     }
/// }
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
///
/// # Errors
///
/// Fails like [`execute`].
pub async fn start(ctx: &SessionContext, sql: &str) -> Result<StartedStatement> {
    // The futures of planning are large.
    let started = Box::pin(started(ctx, sql)).await;
    started.map_err(|error| without_secrets(with_suggestion(ctx, error), sql))
}

/// Checks that a text is one statement. It looks at no table.
///
/// # Errors
///
/// Fails if the text can't be parsed in the dialect.
pub fn check_syntax(sql: &str, dialect: Dialect) -> Result<()> {
    let parsed = parse(sql, dialect, None).map(|_| ());
    parsed.map_err(|error| without_secrets(error, sql))
}

/// A statement after it was parsed.
pub(super) enum ParsedStatement {
    Group(GroupStatement),
    /// The query whose rows are summarized.
    Summary(Statement),
    Sql(Statement),
}

pub(super) fn parse(
    sql: &str,
    dialect: Dialect,
    most_nested: Option<usize>,
) -> Result<ParsedStatement> {
    if let Some(statement) = GroupStatement::parse(sql).map_err(to_datafusion_error)? {
        return Ok(ParsedStatement::Group(statement));
    }
    if let Some(query) = summarized(sql) {
        let query = parse_sql(&query, dialect, most_nested)?;
        return Ok(ParsedStatement::Summary(query));
    }
    parse_sql(sql, dialect, most_nested).map(ParsedStatement::Sql)
}

fn parse_sql(sql: &str, dialect: Dialect, most_nested: Option<usize>) -> Result<Statement> {
    let parser = dialect_from_str(dialect).ok_or_else(|| {
        plan_datafusion_err!(
            "Unsupported SQL dialect: {dialect}. Available dialects: {}.",
            Dialect::available()
        )
    })?;
    match parse_in(sql, parser.as_ref(), most_nested) {
        Err(_) if dialect == Dialect::Generic && GenericWithTimes::is_needed(sql) => {
            parse_in(sql, &GenericWithTimes, most_nested)
        }
        parsed => parsed,
    }
}

fn parse_in(sql: &str, dialect: &dyn SqlDialect, most_nested: Option<usize>) -> Result<Statement> {
    let mut parser = DFParserBuilder::new(sql).with_dialect(dialect);
    if let Some(most) = most_nested {
        parser = parser.with_recursion_limit(most);
    }
    let mut statements = parser.build()?.parse_statements()?;
    let found = statements.len();
    match statements.pop_front() {
        Some(statement) if found == 1 => Ok(statement),
        _ => not_impl_err!("found {found} statements, expected one: run each on its own"),
    }
}

/// Tables looked up at the same time.
const LOOKUPS: usize = 64;

async fn started(ctx: &SessionContext, sql: &str) -> Result<StartedStatement> {
    // The state of a session has hundreds of functions, so copying it costs a good part of a small statement.
    let state = ctx.state();
    let depth = state.config().get_extension::<StatementDepth>();
    depth
        .map_or_else(StatementDepth::default, |depth| *depth)
        .check(sql)?;
    let options = &state.config_options().sql_parser;
    match parse(sql, options.dialect, Some(options.recursion_limit.get()))? {
        ParsedStatement::Group(statement) => run_group_statement(ctx, &state, statement).await,
        ParsedStatement::Summary(query) => {
            let plan = plan_statement(&state, query).await?;
            let rows = DataFrame::new(state, plan);
            Ok(StartedStatement::Rows {
                frame: Box::new(summarize(ctx, rows).await?),
                is_description: true,
            })
        }
        ParsedStatement::Sql(statement) => {
            let is_description = first_word(sql).eq_ignore_ascii_case("show");
            start_parsed(ctx, state, statement, is_description).await
        }
    }
}

/// Attaches or detaches a group.
async fn run_group_statement(
    ctx: &SessionContext,
    state: &SessionState,
    mut statement: GroupStatement,
) -> Result<StartedStatement> {
    let mut attached = None;
    if let GroupStatement::Attach {
        uri,
        name,
        store_options,
        ..
    } = &mut statement
    {
        *uri = prepare_store(state, uri, store_options, LocationReader::Arrays).await?;
        attached = Some(name.clone());
    }
    statement.run(ctx).await.map_err(to_datafusion_error)?;
    let notice = attached.and_then(|name| attached_notice(ctx, &name));
    Ok(StartedStatement::Done { notice })
}

async fn start_parsed(
    ctx: &SessionContext,
    state: SessionState,
    statement: Statement,
    is_description: bool,
) -> Result<StartedStatement> {
    if let Some(alter) = AlterTable::of(&statement) {
        ReadOnly::check(state.config(), "ALTER TABLE")?;
        if alter.run(ctx).await.map_err(to_datafusion_error)? {
            return Ok(StartedStatement::Done { notice: None });
        }
    }
    look_up_tables(&state, &statement).await;
    let mut plan = plan_statement(&state, statement).await?;
    ReadOnly::check_plan(state.config(), &plan)?;
    check_dropped(ctx, &plan)?;
    prepare(&state, &mut plan).await?;
    // These change the session, or are replaced by another plan.
    let changes = matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Statement(_));
    let frame = if changes {
        ctx.execute_logical_plan(plan).await?
    } else {
        DataFrame::new(state, plan)
    };
    if changes {
        // EXECUTE has become the prepared statement.
        ReadOnly::check_plan(&ctx.copied_config(), frame.logical_plan())?;
    }
    if changes && is_nothing(frame.logical_plan()) {
        return Ok(StartedStatement::Done { notice: None });
    }
    let is_description = is_description
        || matches!(
            frame.logical_plan(),
            LogicalPlan::Explain(_) | LogicalPlan::DescribeTable(_) | LogicalPlan::Analyze(_)
        );
    Ok(StartedStatement::Rows {
        frame: Box::new(frame),
        is_description,
    })
}

/// Looks up the tables that a statement names side by side, if it [runs at once](crate::session::in_one_statement) and names
/// several. A table that can't be opened is reported when the statement is planned.
async fn look_up_tables(state: &SessionState, statement: &Statement) {
    let Some(tables) = OpenedTables::current() else {
        return;
    };
    let Ok(mut names) = state.resolve_table_references(statement) else {
        return;
    };
    names.sort_unstable();
    names.dedup();
    if names.len() < 2 {
        return;
    }
    let lookups = names.into_iter().map(|name| async move {
        let table = name.table().to_owned();
        if let Ok(schema) = state.schema_for_ref(name) {
            // Whether there is such a table is seen later.
            let _ = schema.table(&table).await;
        }
    });
    let lookups = stream::iter(lookups).buffer_unordered(LOOKUPS);
    tables.ahead(lookups.collect::<()>()).await;
}

/// Fails if a plan drops a table at a path. `DROP TABLE` forgets a name, and a path is a name that can't be forgotten.
fn check_dropped(ctx: &SessionContext, plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Ddl(DdlStatement::DropTable(drop)) = plan else {
        return Ok(());
    };
    let name = drop.name.table();
    let is_known = ctx.catalog_names().iter().any(|catalog| {
        let catalog = ctx.catalog(catalog);
        let schemas = catalog.iter().flat_map(|c| {
            let names = c.schema_names().into_iter();
            names.filter_map(|schema| c.schema(&schema))
        });
        schemas
            .into_iter()
            .any(|schema| schema.table_names().iter().any(|known| known == name))
    });
    if is_known || !looks_like_location(name) {
        return Ok(());
    }
    plan_err!(
        "DROP TABLE forgets the name of a table, and '{name}' is a path: nothing was removed. To delete an array or a file, remove \
         its folder or file"
    )
}

/// Whether a plan is that of a statement without rows.
fn is_nothing(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(relation) if !relation.produce_one_row && relation.schema.fields().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session, and a folder for new arrays.
    fn session() -> (SessionContext, tempfile::TempDir) {
        let ctx = SessionContext::new();
        crate::register(&ctx).unwrap();
        (ctx, tempfile::tempdir().unwrap())
    }

    async fn rows(ctx: &SessionContext, sql: &str) -> Result<usize> {
        let frame = execute(ctx, sql).await?;
        let batches = frame.collect().await?;
        Ok(batches.iter().map(|batch| batch.num_rows()).sum())
    }

    #[tokio::test]
    async fn statements_of_all_kinds_go_through_one_door() {
        let (ctx, folder) = session();
        let array = folder.path().join("a b").display().to_string();
        let files = folder.path().join("files").display().to_string();
        let run = async |sql: &str, expected: usize| {
            let sql = sql.replace("$A", &array).replace("$F", &files);
            let found = rows(&ctx, &sql).await;
            assert_eq!(
                found.unwrap_or_else(|e| panic!("{sql}: {e}")),
                expected,
                "{sql}"
            );
        };
        run("CREATE EXTERNAL TABLE t (x INT, v INT DEFAULT 7, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$A'", 0).await;
        run("INSERT INTO t VALUES (1, DEFAULT), (2, 5)", 1).await;
        run(
            "ALTER TABLE t ADD COLUMN \"a note\" VARCHAR DEFAULT 'none'",
            0,
        )
        .await;
        run("SELECT * FROM t WHERE v = 7 AND \"a note\" = 'none'", 1).await;
        run("UPDATE t SET v = DEFAULT WHERE x = 2", 1).await;
        run("SELECT * FROM '$A' WHERE v = 7", 2).await;
        run(
            "COPY (SELECT * FROM t) TO '$F/' STORED AS CSV PARTITIONED BY (\"a note\")",
            1,
        )
        .await;
        run("ATTACH './examples/data/experiment' AS exp", 0).await;
        run("SELECT 1 FROM exp.obs LIMIT 1", 1).await;
        run("DETACH exp", 0).await;
        run("DROP TABLE t", 0).await;
        run("SET datafusion.execution.batch_size = 10", 0).await;
    }

    #[tokio::test]
    async fn statements_without_rows_are_done() {
        let (ctx, folder) = session();
        let array = folder.path().join("array").display().to_string();
        let create = format!(
            "CREATE EXTERNAL TABLE t (x INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{array}'"
        );
        for sql in [
            create.as_str(),
            "ALTER TABLE t ADD COLUMN v INT",
            "ATTACH './examples/data/experiment' AS exp",
            "DETACH exp",
            "SET datafusion.execution.batch_size = 10",
            "PREPARE p AS SELECT $1",
            "DEALLOCATE p",
            "CREATE VIEW w AS SELECT * FROM t",
        ] {
            let started = start(&ctx, sql).await.unwrap();
            assert!(
                matches!(started, StartedStatement::Done { notice: None }),
                "{sql}: {started:?}"
            );
        }
        execute(&ctx, "PREPARE q AS SELECT 1 WHERE 1 = 2")
            .await
            .unwrap();
        for (sql, expected) in [
            ("SELECT 1", false),
            ("SELECT x FROM t WHERE 1 = 2", false),
            ("INSERT INTO t VALUES (1, 2)", false),
            ("EXECUTE q", false),
            ("EXPLAIN SELECT 1", true),
            ("EXPLAIN ANALYZE SELECT 1", true),
            ("DESCRIBE t", true),
            ("/* why */ show tables", true),
        ] {
            let config = "SET datafusion.catalog.information_schema = true";
            execute(&ctx, config).await.unwrap();
            match start(&ctx, sql).await.unwrap() {
                StartedStatement::Rows { is_description, .. } => {
                    assert_eq!(is_description, expected, "{sql}");
                }
                done @ StartedStatement::Done { .. } => panic!("{sql}: {done:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_text_is_one_statement() {
        let (ctx, _folder) = session();
        for (sql, expected) in [
            ("SELECT 1; SELECT 2", "found 2 statements"),
            ("ALTER TABLE t ADD COLUMN v INT; SELECT 2", "found 2"),
            ("ATTACH 'g' AS g; SELECT 2", "the end of the statement"),
            ("-- nothing", "found 0 statements"),
            ("", "found 0 statements"),
            (";", "found 0 statements"),
        ] {
            let error = execute(&ctx, sql).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{sql}: {error}");
            assert!(check_syntax(sql, Dialect::Generic).is_err(), "{sql}");
        }
        for sql in ["SELECT 1;", "DETACH g;", "ALTER TABLE t ADD COLUMN v INT"] {
            check_syntax(sql, Dialect::Generic).unwrap();
        }
        assert_eq!(rows(&ctx, "SELECT 1;").await.unwrap(), 1);
    }

    /// A test has a thread with a stack of 2 MiB.
    #[tokio::test]
    async fn deep_statements_are_errors() {
        let (ctx, _folder) = session();
        let sum = |operators| format!("SELECT 1{}", " + 1".repeat(operators));
        assert_eq!(rows(&ctx, &sum(200)).await.unwrap(), 1);
        let attach = format!("ATTACH 'g' AS g (timestamp {})", "- ".repeat(1001));
        let nested = format!("SELECT {}1{}", "(".repeat(900), ")".repeat(900));
        for (sql, expected) in [
            (sum(1001), "1001 operators in one chain"),
            (format!("EXPLAIN {}", sum(100_000)), "100000 operators"),
            (attach, "1001 operators"),
            (nested, "recursion"),
        ] {
            let error = execute(&ctx, &sql).await.unwrap_err().to_string();
            let matches = error.to_lowercase().contains(expected);
            assert!(matches, "{}: {error}", &sql[..40]);
        }
    }

    #[tokio::test]
    async fn errors_show_no_secret() {
        let (ctx, _folder) = session();
        for sql in [
            "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 'x' OPTIONS ('tiledb.encryption_key' 0123$)",
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'https://u:$@h/t.csv'",
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'x' OPTIONS ('format.$' '1', 'aws.secret_access_key' '$')",
            "ALTER TABLE t SET TBLPROPERTIES ('tiledb.encryption_key' = 12$)",
            "ATTACH 'https://h/g?sig=$' AS g",
            "ATTACH 'g' AS g (encryption_key 12$)",
            "SELECT * FROM 's3://u:$@h/t'",
            "SELECT * FROM tiledb_scan('./t', encryption_key => $ + 1)",
            "COPY (SELECT 1 AS x) TO 'c' STORED AS TILEDB OPTIONS ('tiledb.encryption_key' 'ab' $)",
        ] {
            let sql = sql.replace('$', "abcd4567hush");
            let error = execute(&ctx, &sql).await.unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("abcd4567"), "{sql}: {shown}");
        }
    }
}
