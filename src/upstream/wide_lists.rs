//! Plans of statements that select thousands of columns.
//!
//! For each column of a SELECT list, DataFusion's planner looks among all columns before it for one of the same name, even where
//! nothing is unnested (`wide-projections` in docs/upstream): `SELECT *` from an array of 8,000 attributes takes half a minute.
//! The list of `SELECT DISTINCT ON (…)` is not looked through. So a SELECT of plain columns is planned as if it were distinct on a
//! constant that marks it, and what the planner made of the mark gives way to the projection, and to the sort above it, that
//! DataFusion would have made: the plan is the same.
//!
//! Each projection finds its columns in its input by their names, one after the other, whenever a rule looks at it. So the mark
//! stands for `*`, too, until it is planned; and where that is all columns of a wide input, there is no projection at all.
//!
//! Only the outermost SELECT is marked. A plan above it could lean on what is known of the rows, as that they are distinct by
//! their coordinates, and DataFusion knows nothing of the rows of DISTINCT ON.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr_fn::wildcard;
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, LogicalPlan, LogicalPlanBuilder, PlanType, ToStringifiedPlan,
};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Distinct as SqlDistinct, Expr as SqlExpr, GroupByExpr, Insert, OrderByExpr, OrderByKind,
    OrderByOptions, Query, Select, SelectItem, SetExpr, Statement as SqlStatement, Value,
    WildcardAdditionalOptions,
};

/// The constant that marks a SELECT. Nobody writes it.
const MARK: &str = "\0a list that is not looked through\0";

/// A list of so many columns is marked although it has no `*`, and all columns of so wide an input are not projected.
const WIDE: usize = 256;

/// The plan of a statement. For an outermost `SELECT *`, the planning time grows with the number of columns, not with its
/// square.
///
/// # Errors
///
/// Fails if DataFusion cannot plan the statement.
pub(crate) async fn plan(state: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    if wide_query(&mut statement).is_none() {
        return state.statement_to_plan(statement).await;
    }
    let mut marked = statement.clone();
    if let Some((query, rows)) = wide_query(&mut marked) {
        mark(query, rows);
    }
    if let Ok(plan) = state.statement_to_plan(marked).await
        && let Ok(plan) = without_mark(plan)
        && plan.transformed
    {
        return Ok(plan.data);
    }
    // The error is that of the statement as it was written.
    state.statement_to_plan(statement).await
}

/// The outermost query of a statement, and what becomes of its rows.
fn query_of(statement: &mut Statement) -> Option<(&mut Query, WideRows)> {
    let statement = match statement {
        Statement::Explain(explained) => return query_of(&mut explained.statement),
        Statement::Statement(statement) => statement.as_mut(),
        _ => return None,
    };
    match statement {
        SqlStatement::Query(query) => Some((query, WideRows::Shown)),
        SqlStatement::Insert(Insert { source, .. }) => {
            Some((source.as_deref_mut()?, WideRows::Kept))
        }
        SqlStatement::CreateTable(table) => Some((table.query.as_deref_mut()?, WideRows::Kept)),
        _ => None,
    }
}

/// What becomes of the rows of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WideRows {
    /// They are the statement's.
    Shown,
    /// They go into a table, whose columns the planner compares with those of the query.
    Kept,
}

/// The outermost query of a statement, if it selects columns as they are, all of a table or a list of many.
fn wide_query(statement: &mut Statement) -> Option<(&mut Query, WideRows)> {
    let (query, rows) = query_of(statement)?;
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let by_columns = match query.order_by.as_ref().map(|by| &by.kind) {
        None => true,
        Some(OrderByKind::Expressions(by)) => by.iter().all(|by| is_column(&by.expr)),
        Some(OrderByKind::All(_)) => false,
    };
    let suits = by_columns && query.pipe_operators.is_empty() && is_wide(select);
    suits.then_some((query, rows))
}

/// Whether a SELECT has a `*` or a long list, and DataFusion plans it as a projection of columns and nothing besides.
fn is_wide(select: &Select) -> bool {
    let ungrouped = match &select.group_by {
        GroupByExpr::Expressions(by, modifiers) => by.is_empty() && modifiers.is_empty(),
        GroupByExpr::All(_) => false,
    };
    let list = &select.projection;
    let is_star = |item: &SelectItem| {
        matches!(
            item,
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)
        )
    };
    let plain = list.iter().all(|item| match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
            options.opt_replace.is_none()
        }
        SelectItem::UnnamedExpr(expr) => is_column(expr),
        _ => false,
    });
    ungrouped
        && select.distinct.is_none()
        && select.into.is_none()
        && !select.from.is_empty()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.named_window.is_empty()
        && select.distribute_by.is_empty()
        && plain
        && (list.len() >= WIDE || list.iter().any(is_star))
}

/// Whether an expression is the name of a column or, in ORDER BY, its number.
fn is_column(expr: &SqlExpr) -> bool {
    match expr {
        SqlExpr::Identifier(_) | SqlExpr::CompoundIdentifier(_) => true,
        SqlExpr::Value(value) => matches!(value.value, Value::Number(..)),
        _ => false,
    }
}

/// Makes the query distinct on the mark, which stands for `*` where nothing else refers to the columns of the list. Its order
/// then has to begin with the mark.
fn mark(query: &mut Query, rows: WideRows) {
    let mark = SqlExpr::value(Value::SingleQuotedString(MARK.to_owned()));
    let order = query.order_by.as_mut().map(|by| &mut by.kind);
    let mut by = match order {
        Some(OrderByKind::Expressions(by)) => Some(by),
        _ => None,
    };
    let is_number = |by: &OrderByExpr| matches!(by.expr, SqlExpr::Value(_));
    let by_number = by.as_ref().is_some_and(|by| by.iter().any(is_number));
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.distinct = Some(SqlDistinct::On(vec![mark.clone()]));
        if let [SelectItem::Wildcard(options)] = select.projection.as_slice()
            && *options == WildcardAdditionalOptions::default()
            && rows == WideRows::Shown
            && !by_number
        {
            select.projection = vec![SelectItem::UnnamedExpr(mark.clone())];
        }
    }
    if let Some(by) = by.as_mut() {
        let first = OrderByExpr {
            expr: mark,
            options: OrderByOptions::default(),
            with_fill: None,
        };
        by.insert(0, first);
    }
}

/// A plan with the projection and the sort in place of the marked node, if there is one.
fn without_mark(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Distinct(Distinct::On(marked)) if is_mark(&marked.on_expr) => {
            projection(marked).map(Transformed::yes)
        }
        // Above the marked node are a limit, and what explains or writes the rows.
        plan if plan.inputs().len() == 1 => plan.map_children(without_mark)?.map_data(above),
        plan => Ok(Transformed::no(plan)),
    }
}

/// A plan of the same kind over its new input.
fn above(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Explain(mut explain) => {
            let told = explain.plan.to_stringified(PlanType::InitialLogicalPlan);
            explain.stringified_plans = vec![told];
            Ok(LogicalPlan::Explain(explain))
        }
        plan => plan.recompute_schema(),
    }
}

/// Whether a list is the mark alone.
fn is_mark(on: &[Expr]) -> bool {
    let [Expr::Literal(value, _)] = on else {
        return false;
    };
    value.try_as_str() == Some(Some(MARK))
}

/// The projection and the sort that DataFusion makes of the list and the order without the mark. All columns of a wide input need
/// no projection.
fn projection(marked: DistinctOn) -> Result<LogicalPlan> {
    let input = Arc::unwrap_or_clone(marked.input);
    let is_wide = input.schema().fields().len() >= WIDE;
    let plan = LogicalPlanBuilder::from(input);
    let mut plan = match is_mark(&marked.select_expr) {
        // Columns that USING names come once.
        true if is_wide && plan.plan().using_columns()?.is_empty() => plan,
        true => plan.project([wildcard()])?,
        false => plan.project(marked.select_expr)?,
    };
    if let Some(order) = marked.sort_expr {
        plan = plan.sort(order.into_iter().skip(1))?;
    }
    plan.build()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::prelude::SessionContext;
    use object_store::memory::InMemory;
    use tiledb_engine::growth::grows_in_proportion;
    use url::Url;

    use super::*;

    async fn session() -> SessionContext {
        let ctx = SessionContext::new();
        for statement in [
            "CREATE TABLE t (a INT PRIMARY KEY, \"B\" VARCHAR, c DOUBLE) AS VALUES (1, 'x', 0.5), (2, NULL, 1.5)",
            "CREATE TABLE u AS SELECT 1 AS a, struct(1 AS n) AS s, [1, 2] AS l",
            "CREATE TABLE target (a INT, b VARCHAR, c DOUBLE)",
            "CREATE VIEW v AS SELECT a + 1 AS a, c FROM t",
        ] {
            let created = ctx.sql(statement).await;
            created.unwrap().collect().await.unwrap();
        }
        ctx
    }

    async fn parsed(ctx: &SessionContext, sql: &str) -> Statement {
        let state = ctx.state();
        let dialect = state.config_options().sql_parser.dialect;
        state.sql_to_statement(sql, &dialect).unwrap()
    }

    /// Statements that are planned with the mark.
    const MARKED: [&str; 30] = [
        "SELECT * FROM t",
        "SELECT t.* FROM t",
        "SELECT t.*, l, z FROM t, u, (SELECT 2 AS z)",
        "SELECT * EXCLUDE (c) FROM t",
        "SELECT * FROM t WHERE a > 1 AND c IS NOT NULL LIMIT 3 OFFSET 1",
        "SELECT * FROM t LIMIT 0",
        "SELECT * FROM t ORDER BY a",
        "SELECT * FROM t ORDER BY \"B\" DESC NULLS LAST, t.c ASC LIMIT 1",
        "SELECT * FROM t ORDER BY 3, 1 DESC",
        "SELECT * EXCLUDE (c) FROM t ORDER BY c",
        "SELECT * FROM t x ORDER BY x.a",
        "SELECT * FROM t JOIN u ON t.a = u.a ORDER BY t.a, s",
        "SELECT * FROM t JOIN u USING (a)",
        "SELECT * FROM t JOIN u USING (a) ORDER BY a",
        "SELECT * FROM t NATURAL JOIN u ORDER BY c",
        "SELECT * FROM t LEFT JOIN u ON t.a = u.a WHERE u.a IS NULL",
        "SELECT t.*, u.l FROM t CROSS JOIN u",
        "SELECT * FROM t WHERE a IN (SELECT a FROM u) ORDER BY a",
        "SELECT * FROM t WHERE EXISTS (SELECT * FROM u WHERE u.a = t.a)",
        "SELECT * FROM (SELECT a, count(*) AS n FROM t GROUP BY a) ORDER BY n",
        "SELECT * FROM (SELECT DISTINCT ON (a) a, c FROM t ORDER BY a, c)",
        "WITH w AS (SELECT * FROM t) SELECT * FROM w ORDER BY a",
        "SELECT * FROM v ORDER BY c",
        "SELECT * FROM (VALUES (1, 2)) AS x(p, q) ORDER BY q",
        "SELECT * FROM generate_series(1, 3) ORDER BY value",
        "EXPLAIN SELECT * FROM t ORDER BY a",
        "EXPLAIN ANALYZE SELECT * FROM t WHERE a = $1",
        "INSERT INTO target SELECT * FROM t",
        "INSERT INTO target (c, a) SELECT * EXCLUDE (\"B\") FROM t ORDER BY c",
        "CREATE TABLE made AS SELECT * FROM t ORDER BY c",
    ];

    /// Statements that are left to DataFusion.
    const UNMARKED: [&str; 14] = [
        "SELECT a, c FROM t",
        "SELECT *, a + 1 FROM t",
        "SELECT *, a AS x FROM t",
        "SELECT *, unnest(l) FROM u",
        "SELECT * REPLACE (a + 1 AS a) FROM t",
        "SELECT * FROM t ORDER BY a + 1",
        "SELECT *, count(*) OVER () FROM t",
        "SELECT * FROM t GROUP BY a, \"B\", c",
        "SELECT DISTINCT * FROM t",
        "SELECT DISTINCT ON (a) * FROM t",
        "SELECT * FROM t QUALIFY row_number() OVER (ORDER BY a) = 1",
        "SELECT * FROM t UNION ALL SELECT * FROM t ORDER BY a",
        "CREATE VIEW w AS SELECT * FROM t",
        "COPY (SELECT * FROM t) TO 'x.csv'",
    ];

    /// What a plan is, with its columns.
    fn shown(plan: Result<LogicalPlan>) -> std::result::Result<String, String> {
        let plan = plan.map_err(|e| e.to_string())?;
        Ok(format!("{}\n{plan:?}", plan.display_indent_schema()))
    }

    #[tokio::test]
    async fn plans_are_those_of_datafusion() {
        let ctx = session().await;
        let state = ctx.state();
        let mut others = Vec::new();
        for (statements, marked) in [(&MARKED[..], true), (&UNMARKED[..], false)] {
            for sql in statements {
                let mut statement = parsed(&ctx, sql).await;
                let expected = shown(state.statement_to_plan(statement.clone()).await);
                let mut plans = vec![plan(&state, statement.clone()).await];
                let is_marked = wide_query(&mut statement)
                    .map(|(query, rows)| mark(query, rows))
                    .is_some();
                if is_marked {
                    let planned = state.statement_to_plan(statement).await;
                    plans.push(planned.and_then(without_mark).map(|plan| plan.data));
                }
                let same = plans.into_iter().all(|plan| shown(plan) == expected);
                if !same || expected.is_err() || is_marked != marked {
                    others.push((sql, expected));
                }
            }
        }
        assert!(others.is_empty(), "{others:#?}");
    }

    #[tokio::test]
    async fn errors_are_those_of_datafusion() {
        let ctx = session().await;
        let state = ctx.state();
        for sql in [
            "SELECT * FROM missing",
            "SELECT * FROM t ORDER BY missing",
            "SELECT * FROM t ORDER BY 7",
            "SELECT * FROM t WHERE missing = 1",
            "SELECT *, a FROM t",
            "SELECT missing.* FROM t",
            "SELECT *",
            "SELECT * FROM t JOIN u ON t.a = u.a ORDER BY a",
            "INSERT INTO target SELECT * FROM u",
        ] {
            let statement = parsed(&ctx, sql).await;
            let expected = state.statement_to_plan(statement.clone()).await;
            let planned = plan(&state, statement).await;
            assert_eq!(shown(planned), shown(expected), "{sql}");
        }
    }

    /// A session with a table of `columns` columns `c0`, `c1`, ….
    async fn wide_session(columns: usize) -> SessionContext {
        let ctx = session().await;
        let columns = (0..columns)
            .map(|n| format!("c{n} INT"))
            .collect::<Vec<_>>();
        let create = format!("CREATE TABLE wide ({})", columns.join(", "));
        ctx.sql(&create).await.unwrap();
        ctx
    }

    #[tokio::test]
    async fn all_columns_of_a_wide_table_are_not_projected() {
        let ctx = wide_session(WIDE).await;
        let state = ctx.state();
        for (sql, projects) in [
            ("SELECT * FROM wide", false),
            ("SELECT * FROM wide WHERE c1 = 1 LIMIT 2", false),
            ("SELECT * FROM wide x ORDER BY c7 DESC, x.c0 LIMIT 4", false),
            ("SELECT * FROM wide JOIN t ON a = c0 ORDER BY t.a", false),
            (
                "SELECT * FROM wide JOIN (SELECT 1 AS c0) y USING (c0)",
                true,
            ),
            ("SELECT * EXCLUDE (c5) FROM wide", true),
            ("SELECT * FROM wide ORDER BY 2", true),
        ] {
            let statement = parsed(&ctx, sql).await;
            let expected = state.statement_to_plan(statement.clone()).await.unwrap();
            let plan = plan(&state, statement).await.unwrap();
            let lines = plan.display_indent().to_string();
            let mut lines = lines.lines().take(3);
            let projected = lines.any(|line| line.contains("Projection: wide.c0"));
            assert_eq!(projected, projects, "{sql}: {}", plan.display_indent());
            let fields = |plan: &LogicalPlan| plan.schema().columns();
            assert_eq!(fields(&plan), fields(&expected), "{sql}");
            let optimized = |plan: &LogicalPlan| shown(state.optimize(plan));
            assert_eq!(optimized(&plan), optimized(&expected), "{sql}");
        }
    }

    /// Rows as text, with the names of their columns.
    async fn rows(ctx: &SessionContext, plan: Result<LogicalPlan>) -> String {
        let frame = ctx.execute_logical_plan(plan.unwrap()).await.unwrap();
        let batches = frame.collect().await.unwrap();
        pretty_format_batches(&batches).unwrap().to_string()
    }

    /// A session in which the array `wide` and the table `same`, which is in memory, hold the same rows.
    async fn arrays() -> SessionContext {
        let ctx = SessionContext::new();
        let store = Url::parse("memory:///").unwrap();
        ctx.register_object_store(&store, Arc::new(InMemory::new()));
        crate::register(&ctx).unwrap();
        let columns = (0..WIDE)
            .map(|n| format!(", a{n} DOUBLE"))
            .collect::<String>();
        let rows = [7, 3, 5]
            .map(|x| {
                let product = format!("{x} * 1.5");
                let values = ["NULL", "CAST('NaN' AS DOUBLE)", "-0.0", &product];
                let values = (0..WIDE).map(|n| values[n % 4]).collect::<Vec<_>>();
                format!("({x}, {})", values.join(", "))
            })
            .join(", ");
        for sql in [
            format!(
                "CREATE EXTERNAL TABLE wide (x BIGINT NOT NULL{columns}, PRIMARY KEY (x)) STORED AS TILEDB \
                 LOCATION 'memory:///wide'"
            ),
            format!("INSERT INTO wide VALUES {rows}"),
            format!("CREATE TABLE same (x BIGINT NOT NULL{columns}) AS VALUES {rows}"),
        ] {
            ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        }
        ctx
    }

    #[tokio::test]
    async fn wide_arrays_have_the_rows_of_memory() {
        let ctx = arrays().await;
        let state = ctx.state();
        for (sql, count) in [
            ("SELECT * FROM wide ORDER BY x", 3),
            ("SELECT * FROM wide ORDER BY a3 DESC LIMIT 2", 2),
            ("SELECT * FROM wide ORDER BY 1 DESC LIMIT 1 OFFSET 1", 1),
            (
                "SELECT wide.* FROM wide WHERE x > 3 AND a1 > 1 ORDER BY a7",
                2,
            ),
            ("SELECT * FROM wide WHERE a0 IS NOT NULL", 0),
            (
                "SELECT * FROM wide w JOIN wide v ON w.x = v.x ORDER BY v.x",
                3,
            ),
            (
                "SELECT * EXCLUDE (a5) FROM wide NATURAL JOIN (SELECT 5 AS x) y",
                1,
            ),
            ("SELECT * FROM wide LIMIT 0", 0),
        ] {
            let plan = plan(&state, parsed(&ctx, sql).await).await;
            let found = rows(&ctx, plan).await;
            let in_memory = parsed(&ctx, &sql.replace("wide", "same")).await;
            let expected = rows(&ctx, state.statement_to_plan(in_memory).await).await;
            assert_eq!(found, expected, "{sql}");
            // A line for each row, besides those around them and that of the names.
            assert_eq!(found.lines().count().max(4) - 4, count, "{sql}");
        }
    }

    #[test]
    fn all_columns_take_time_in_proportion() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let wide = |columns: usize| runtime.block_on(wide_session(columns));
        grows_in_proportion(250, wide, |ctx| {
            runtime.block_on(async {
                let state = ctx.state();
                let all = "SELECT * FROM wide WHERE c0 = 1 ORDER BY c1 LIMIT 5";
                let statement = parsed(ctx, all).await;
                let plan = plan(&state, statement).await.unwrap();
                state.optimize(&plan).unwrap()
            });
        });
    }
}
