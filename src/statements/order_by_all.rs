//! `ORDER BY ALL`, which DuckDB has, too: by each column of the result, from the first to the last. DataFusion doesn't plan it.

use datafusion::common::{Result, plan_err};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, SelectItem, SetExpr,
    Statement as SqlStatement, TableFactor, TableWithJoins, Value,
};

/// Replaces `ORDER BY ALL` by the numbers of the columns, in the queries of a statement: the outermost one, and those in WITH and
/// FROM.
pub(crate) async fn expand(state: &SessionState, statement: &mut Statement) -> Result<()> {
    let mut queries = Vec::new();
    match statement {
        Statement::Explain(explain) => {
            return Box::pin(expand(state, &mut explain.statement)).await;
        }
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                in_query(query, &mut queries)?;
            }
        }
        Statement::Statement(statement) => in_statement(statement, &mut queries)?,
        _ => {}
    }
    // Only the planner knows the columns of a star.
    for query in queries {
        let Some((order, options)) = query.order_by.take().and_then(all_of) else {
            continue;
        };
        let without = SqlStatement::Query(Box::new(query.clone()));
        let plan = state.statement_to_plan(Statement::Statement(Box::new(without)));
        let columns = plan.await?.schema().fields().len();
        query.order_by = Some(numbered(order, options, columns));
    }
    Ok(())
}

fn in_statement<'a>(statement: &'a mut SqlStatement, open: &mut Vec<&'a mut Query>) -> Result<()> {
    match statement {
        SqlStatement::Query(query) => in_query(query, open),
        SqlStatement::Prepare { statement, .. } => in_statement(statement, open),
        SqlStatement::CreateView(view) => in_query(&mut view.query, open),
        SqlStatement::CreateTable(table) => table
            .query
            .iter_mut()
            .try_for_each(|query| in_query(query, open)),
        SqlStatement::Insert(insert) => insert
            .source
            .iter_mut()
            .try_for_each(|query| in_query(query, open)),
        _ => Ok(()),
    }
}

/// Expands the queries inside of a query, then the query itself; if it has a star, it is added to `open`.
fn in_query<'a>(query: &'a mut Query, open: &mut Vec<&'a mut Query>) -> Result<()> {
    let with = query.with.iter_mut();
    for table in with.flat_map(|with| &mut with.cte_tables) {
        in_inner_query(&mut table.query)?;
    }
    in_body(&mut query.body)?;
    let Some(order) = query.order_by.take() else {
        return Ok(());
    };
    let columns = columns_of(&query.body);
    match (is_all(&order), columns) {
        (false, _) => query.order_by = Some(order),
        (true, Some(columns)) => {
            query.order_by =
                all_of(order).map(|(order, options)| numbered(order, options, columns));
        }
        (true, None) => {
            query.order_by = Some(order);
            open.push(query);
        }
    }
    Ok(())
}

fn in_inner_query(query: &mut Query) -> Result<()> {
    let mut open = Vec::new();
    in_query(query, &mut open)?;
    if open.is_empty() {
        return Ok(());
    }
    plan_err!("ORDER BY ALL of a query with * works in the outermost query only: name the columns")
}

fn in_body(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::Query(query) => in_inner_query(query),
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left)?;
            in_body(right)
        }
        SetExpr::Select(select) => select.from.iter_mut().try_for_each(in_tables),
        _ => Ok(()),
    }
}

fn in_tables(tables: &mut TableWithJoins) -> Result<()> {
    in_relation(&mut tables.relation)?;
    let mut joins = tables.joins.iter_mut();
    joins.try_for_each(|join| in_relation(&mut join.relation))
}

fn in_relation(relation: &mut TableFactor) -> Result<()> {
    match relation {
        TableFactor::Derived { subquery, .. } => in_inner_query(subquery),
        TableFactor::NestedJoin {
            table_with_joins, ..
        } => in_tables(table_with_joins),
        _ => Ok(()),
    }
}

/// The number of columns of a query; `None` if it has a star.
fn columns_of(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_plain = |item: &SelectItem| {
                matches!(
                    item,
                    SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
                )
            };
            let items = &select.projection;
            items.iter().all(is_plain).then_some(items.len())
        }
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        SetExpr::Query(query) => columns_of(&query.body),
        SetExpr::SetOperation { left, .. } => columns_of(left),
        _ => None,
    }
}

fn is_all(order: &OrderBy) -> bool {
    match &order.kind {
        OrderByKind::All(_) => true,
        // The parser takes it for a column in most dialects.
        OrderByKind::Expressions(expressions) => match expressions.as_slice() {
            [only] => matches!(&only.expr, Expr::Identifier(name)
                if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all")),
            _ => false,
        },
    }
}

/// The parts of `ORDER BY ALL`.
fn all_of(order: OrderBy) -> Option<(OrderBy, OrderByOptions)> {
    let options = match &order.kind {
        OrderByKind::All(options) => *options,
        OrderByKind::Expressions(expressions) => expressions.first()?.options,
    };
    Some((order, options))
}

/// The clause by numbers of columns.
fn numbered(order: OrderBy, options: OrderByOptions, columns: usize) -> OrderBy {
    let by = |number: usize| OrderByExpr {
        expr: Expr::value(Value::Number(number.to_string(), false)),
        options,
        with_fill: None,
    };
    OrderBy {
        kind: OrderByKind::Expressions((1..=columns).map(by).collect()),
        ..order
    }
}
