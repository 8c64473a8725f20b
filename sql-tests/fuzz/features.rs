//! Which kinds of SQL a statement has: to count what was tested, and to be sure that all of it is.

use super::ast::{Expr, Node, Query, Statement};

/// What is seen in the text.
const TEXTS: [(&str, &str); 61] = [
    ("a limit", " LIMIT "),
    ("an offset", " OFFSET "),
    ("NULLS FIRST", " NULLS FIRST"),
    ("NULLS LAST", " NULLS LAST"),
    ("inner join", " INNER JOIN "),
    ("left join", " LEFT JOIN "),
    ("right join", " RIGHT JOIN "),
    ("full join", " FULL JOIN "),
    ("cross join", " CROSS JOIN "),
    ("semi join", " SEMI JOIN "),
    ("anti join", " ANTI JOIN "),
    ("USING", " USING ("),
    ("EXISTS", "EXISTS (SELECT"),
    ("NOT EXISTS", "(NOT EXISTS "),
    ("IN a query", " IN (SELECT"),
    ("NOT IN a query", " NOT IN (SELECT"),
    ("a CTE", "WITH "),
    ("a recursive CTE", "WITH RECURSIVE "),
    ("GROUP BY", " GROUP BY "),
    ("GROUPING SETS", " GROUPING SETS "),
    ("ROLLUP", " ROLLUP "),
    ("CUBE", " CUBE "),
    ("HAVING", " HAVING "),
    ("a window", " OVER ("),
    ("a frame of rows", "ROWS BETWEEN "),
    ("a frame of values", "RANGE BETWEEN "),
    ("a frame of groups", "GROUPS BETWEEN "),
    ("row_number", "row_number("),
    ("UNION ALL", ") UNION ALL ("),
    ("UNION", ") UNION ("),
    ("INTERSECT", ") INTERSECT "),
    ("EXCEPT", ") EXCEPT "),
    ("DISTINCT", "SELECT DISTINCT "),
    ("DISTINCT ON", "SELECT DISTINCT ON "),
    ("count of distinct", "count(DISTINCT "),
    ("FILTER", " FILTER (WHERE "),
    ("first_value", "first_value("),
    ("array_agg", "array_agg("),
    ("string_agg", "string_agg("),
    ("count(*)", "count(*)"),
    ("min", "min("),
    ("max", "max("),
    ("sum", "sum("),
    ("avg", "avg("),
    ("CASE", "CASE WHEN "),
    ("TRY_CAST", "TRY_CAST("),
    ("CAST", "CAST("),
    ("IS DISTINCT FROM", " IS DISTINCT FROM "),
    ("IS NOT DISTINCT FROM", " IS NOT DISTINCT FROM "),
    ("BETWEEN", " BETWEEN "),
    ("an IN list", " IN ("),
    ("LIKE", " LIKE "),
    ("date_trunc", "date_trunc("),
    ("date_part", "date_part("),
    ("VALUES", "(VALUES "),
    ("a view", "CREATE VIEW "),
    ("a prepared statement", "PREPARE p("),
    ("a limit of a type", "9223372036854775807"),
    ("half a second", " INTERVAL '0.5 seconds'"),
    ("a nanosecond", " INTERVAL '1 nanosecond'"),
    ("a time with a zone", "TIMESTAMPTZ '"),
];

/// The names of all features.
pub fn all() -> Vec<&'static str> {
    let structural = [
        "nested limits",
        "limits in three levels",
        "a query for one value",
        "a query of the outer row",
        "a query below OR",
        "an order in an aggregate",
        "an ordered answer",
    ];
    let texts = TEXTS.iter().map(|(name, _)| *name);
    texts.chain(structural).collect()
}

/// The features of a statement and its text.
pub fn of(statement: &Statement, text: &str) -> Vec<&'static str> {
    let found = TEXTS.iter().filter(|(_, part)| text.contains(part));
    let mut names: Vec<&'static str> = found.map(|(name, _)| *name).collect();
    let limits = text.matches(" LIMIT ").count();
    let mut add = |is: bool, name| {
        if is {
            names.push(name);
        }
    };
    add(limits > 1, "nested limits");
    add(limits > 2, "limits in three levels");
    add(!statement.query.order.is_empty(), "an ordered answer");
    let (mut scalar, mut outer, mut below_or, mut ordered) = (false, false, false, false);
    statement.query.visit(&mut |_| {}, &mut |expr| {
        scalar |= matches!(expr.node, Node::Scalar(_));
        outer |= expr.query().is_some_and(sees_outer);
        ordered |= matches!(&expr.node, Node::Aggregate { order, .. } if !order.is_empty());
        below_or |= match &expr.node {
            Node::Op { text, args } => {
                text == "({} OR {})" && args.iter().any(|arg| arg.any(&|e| e.query().is_some()))
            }
            _ => false,
        };
    });
    add(scalar, "a query for one value");
    add(outer, "a query of the outer row");
    add(below_or, "a query below OR");
    add(ordered, "an order in an aggregate");
    names
}

/// Whether a query names columns of tables that are not its own.
fn sees_outer(query: &Query) -> bool {
    let (mut own, mut named) = (Vec::new(), Vec::new());
    query.visit(
        &mut |query| {
            if let super::ast::Body::Select(select) = &query.body {
                own.extend(select.from.aliases());
            }
        },
        &mut |expr: &Expr| {
            if let Node::Column { table, .. } = &expr.node {
                named.push(table.as_str());
            }
        },
    );
    named
        .iter()
        .any(|table| !table.is_empty() && !own.contains(table))
}
