//! Statements as text.

use super::ast::{
    Body, Cte, Distinct, Expr, From, GroupForm, Grouping, Item, Node, On, Query, Select, SortKey,
    Statement,
};

/// A name in quotes.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The statements to run before, and the one whose answer counts.
pub fn statement(statement: &Statement) -> (Vec<String>, String) {
    let mut before = Vec::new();
    for (name, view) in &statement.views {
        before.push(format!("CREATE VIEW {name} AS {}", query(view)));
    }
    let text = query(&statement.query);
    if statement.parameters.is_empty() {
        return (before, text);
    }
    let types = list(&statement.parameters, |(kind, _)| (*kind).to_owned());
    let values = list(&statement.parameters, |(_, value)| value.clone());
    before.push(format!("PREPARE p({types}) AS {text}"));
    (before, format!("EXECUTE p({values})"))
}

fn list<T>(parts: &[T], text: impl Fn(&T) -> String) -> String {
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// A query without parentheses around it.
pub fn query(query: &Query) -> String {
    let mut text = String::new();
    if !query.ctes.is_empty() {
        let recursive = query.ctes.iter().any(|cte| cte.step.is_some());
        text.push_str(if recursive {
            "WITH RECURSIVE "
        } else {
            "WITH "
        });
        text.push_str(&list(&query.ctes, cte));
        text.push(' ');
    }
    match &query.body {
        Body::Select(body) => text.push_str(&select(body)),
        Body::Set {
            operator,
            left,
            right,
        } => text.push_str(&format!("{} {operator} {}", side(left), side(right))),
    }
    if !query.order.is_empty() {
        text.push_str(&format!(" ORDER BY {}", list(&query.order, sort_key)));
    }
    if let Some(limit) = query.limit {
        text.push_str(&format!(" LIMIT {limit}"));
    }
    if query.offset > 0 {
        text.push_str(&format!(" OFFSET {}", query.offset));
    }
    text
}

fn side(side: &Query) -> String {
    format!("({})", query(side))
}

fn cte(cte: &Cte) -> String {
    match &cte.step {
        None => format!("{} AS ({})", cte.name, query(&cte.query)),
        Some(step) => format!(
            "{} AS ({} UNION ALL {})",
            cte.name,
            query(&cte.query),
            query(step)
        ),
    }
}

fn select(select: &Select) -> String {
    let mut text = "SELECT ".to_owned();
    match &select.distinct {
        Distinct::No => {}
        Distinct::All => text.push_str("DISTINCT "),
        Distinct::On(keys) => text.push_str(&format!("DISTINCT ON ({}) ", list(keys, expr))),
    }
    text.push_str(&list(&select.items, item));
    text.push_str(&format!(" FROM {}", from(&select.from)));
    if let Some(filter) = &select.filter {
        text.push_str(&format!(" WHERE {}", expr(filter)));
    }
    if let Some(group) = &select.group {
        text.push_str(&format!(" GROUP BY {}", grouping(group)));
    }
    if let Some(having) = &select.having {
        text.push_str(&format!(" HAVING {}", expr(having)));
    }
    text
}

fn item(item: &Item) -> String {
    format!("{} AS {}", expr(&item.expr), item.alias)
}

fn grouping(group: &Grouping) -> String {
    let keys = list(&group.keys, expr);
    match &group.form {
        GroupForm::Plain => keys,
        GroupForm::Rollup => format!("ROLLUP ({keys})"),
        GroupForm::Cube => format!("CUBE ({keys})"),
        GroupForm::Sets(sets) => {
            let set = |set: &Vec<usize>| format!("({})", list(set, |k| expr(&group.keys[*k])));
            format!("GROUPING SETS ({})", list(sets, set))
        }
    }
}

fn from(tables: &From) -> String {
    match tables {
        From::Table { name, alias } => format!("{name} AS {alias}"),
        From::Query { query, alias } => format!("{} AS {alias}", side(query)),
        From::Values {
            rows,
            alias,
            columns,
        } => {
            let rows = list(rows, |row| format!("({})", list(row, expr)));
            format!("(VALUES {rows}) AS {alias}({})", columns.join(", "))
        }
        From::Join {
            kind,
            left,
            right,
            on,
        } => {
            let right = match **right {
                From::Join { .. } => format!("({})", from(right)),
                _ => from(right),
            };
            let on = match on {
                On::Nothing => String::new(),
                On::Using(columns) => format!(" USING ({})", list(columns, |c| quoted(c))),
                On::Condition(condition) => format!(" ON {}", expr(condition)),
            };
            format!("{} {kind} {right}{on}", from(left))
        }
    }
}

fn sort_key(key: &SortKey) -> String {
    let mut text = expr(&key.expr);
    if key.descending {
        text.push_str(" DESC");
    }
    match key.nulls_first {
        None => {}
        Some(true) => text.push_str(" NULLS FIRST"),
        Some(false) => text.push_str(" NULLS LAST"),
    }
    text
}

/// An expression.
pub fn expr(tree: &Expr) -> String {
    match &tree.node {
        Node::Column { table, name } if table.is_empty() => name.clone(),
        Node::Column { table, name } => format!("{table}.{}", quoted(name)),
        Node::Literal(text) => text.clone(),
        Node::Parameter(number) => format!("${}", number + 1),
        Node::Op { text, args } => {
            let mut parts = text.split("{}");
            let mut whole = parts.next().unwrap_or_default().to_owned();
            for (arg, part) in args.iter().zip(parts) {
                whole.push_str(&expr(arg));
                whole.push_str(part);
            }
            whole
        }
        Node::Aggregate {
            function,
            distinct,
            args,
            order,
            filter,
        } => {
            let args = if args.is_empty() {
                "*".to_owned()
            } else {
                list(args, expr)
            };
            let distinct = if *distinct { "DISTINCT " } else { "" };
            let order = match order.as_slice() {
                [] => String::new(),
                order => format!(" ORDER BY {}", list(order, sort_key)),
            };
            let filter = match filter {
                None => String::new(),
                Some(filter) => format!(" FILTER (WHERE {})", expr(filter)),
            };
            format!("{function}({distinct}{args}{order}){filter}")
        }
        Node::Window {
            function,
            partition,
            order,
            frame,
        } => {
            let mut parts = Vec::new();
            if !partition.is_empty() {
                parts.push(format!("PARTITION BY {}", list(partition, expr)));
            }
            if !order.is_empty() {
                parts.push(format!("ORDER BY {}", list(order, sort_key)));
            }
            parts.extend(frame.clone());
            format!("{} OVER ({})", expr(function), parts.join(" "))
        }
        Node::Scalar(inner) => side(inner),
        Node::Exists(inner) => format!("EXISTS {}", side(inner)),
        Node::In { not, value, query } => {
            let not = if *not { "NOT " } else { "" };
            format!("({} {not}IN {})", expr(value), side(query))
        }
    }
}
