//! `FROM t` without SELECT, which DuckDB has, too: all columns. DataFusion plans a row without columns.

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Query, SelectFlavor, SelectItem, SetExpr, Statement as SqlStatement, TableFactor,
    TableWithJoins, WildcardAdditionalOptions,
};

/// Writes the missing `SELECT *` into the queries of a statement: the outermost one, and those in WITH and FROM.
pub(crate) fn select_all(statement: &mut Statement) {
    match statement {
        Statement::Explain(explain) => select_all(&mut explain.statement),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                in_query(query);
            }
        }
        Statement::Statement(statement) => in_statement(statement),
        _ => {}
    }
}

fn in_statement(statement: &mut SqlStatement) {
    match statement {
        SqlStatement::Query(query) => in_query(query),
        SqlStatement::Prepare { statement, .. } => in_statement(statement),
        SqlStatement::CreateView(view) => in_query(&mut view.query),
        SqlStatement::CreateTable(table) => table.query.iter_mut().for_each(|q| in_query(q)),
        SqlStatement::Insert(insert) => insert.source.iter_mut().for_each(|q| in_query(q)),
        SqlStatement::Merge(merge) => in_relation(&mut merge.source),
        _ => {}
    }
}

fn in_query(query: &mut Query) {
    let with = query.with.iter_mut();
    let with = with.flat_map(|with| &mut with.cte_tables);
    with.for_each(|table| in_query(&mut table.query));
    in_body(&mut query.body);
}

fn in_body(body: &mut SetExpr) {
    match body {
        SetExpr::Query(query) => in_query(query),
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left);
            in_body(right);
        }
        SetExpr::Select(select) => {
            if select.flavor == SelectFlavor::FromFirstNoSelect && select.projection.is_empty() {
                let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
                select.projection.push(all);
                select.flavor = SelectFlavor::Standard;
            }
            select.from.iter_mut().for_each(in_tables);
        }
        _ => {}
    }
}

fn in_tables(tables: &mut TableWithJoins) {
    in_relation(&mut tables.relation);
    let joins = tables.joins.iter_mut();
    joins.for_each(|join| in_relation(&mut join.relation));
}

fn in_relation(relation: &mut TableFactor) {
    match relation {
        TableFactor::Derived { subquery, .. } => in_query(subquery),
        TableFactor::NestedJoin {
            table_with_joins, ..
        } => in_tables(table_with_joins),
        _ => {}
    }
}
