//! Whether a statement has one answer only: what SQL leaves open must not look like a bug.
//!
//! The generator makes such statements, and the shrinker asks before it believes in a smaller one. An answer is a
//! multiset of rows. What could leave it open: a limit whose order has ties between rows that differ, a window function
//! that tells equals apart, an aggregate that keeps the order of rows.

use std::collections::{BTreeMap, BTreeSet};

use super::ast::{Body, Distinct, Expr, From, GroupForm, Node, Query, Select, SortKey, Statement};
use super::print;

/// Tables of which no two rows agree in these columns.
pub type Keys = BTreeMap<String, Vec<String>>;

/// Whether the rows that a statement gives are always the same.
pub fn is_determined(statement: &Statement, keys: &Keys) -> bool {
    let views = statement.views.iter();
    views.clone().all(|(_, view)| determined(view, keys, false))
        && determined(&statement.query, keys, false)
}

/// Whether the order of a query's rows leaves nothing open but the order of rows that are equal.
pub fn is_ordered(query: &Query, keys: &Keys) -> bool {
    let by: BTreeSet<String> = query.order.iter().map(|k| print::expr(&k.expr)).collect();
    let shown = |alias: &str, expr: &Expr| {
        expr.is_literal() || by.contains(alias) || by.contains(&print::expr(expr))
    };
    if query
        .output()
        .iter()
        .all(|(alias, expr)| shown(alias, expr))
    {
        return !by.is_empty();
    }
    let Body::Select(select) = &query.body else {
        return false;
    };
    match (&select.group, &select.distinct) {
        (Some(group), Distinct::No) if group.form == GroupForm::Plain => {
            let alias_of = |key: &Expr| select.items.iter().find(|item| item.expr == *key);
            let ordered = |key: &Expr| {
                let alias = alias_of(key).map_or("", |item| &item.alias);
                shown(alias, key)
            };
            group.keys.iter().all(ordered)
        }
        (None, Distinct::No | Distinct::On(_)) if !aggregates(select) => key_of(&select.from, keys)
            .is_some_and(|(alias, key)| {
                key.iter()
                    .all(|name| by.contains(&format!("{alias}.{}", print::quoted(name))))
            }),
        _ => false,
    }
}

/// The columns that tell the rows of a lone table apart.
fn key_of<'a>(from: &'a From, keys: &'a Keys) -> Option<(&'a str, &'a [String])> {
    match from {
        From::Table { name, alias } => Some((alias, keys.get(name)?)),
        _ => None,
    }
}

fn aggregates(select: &Select) -> bool {
    let is = |expr: &Expr| matches!(expr.node, Node::Aggregate { .. });
    let over = |expr: &Expr| matches!(expr.node, Node::Window { .. });
    let items = select.items.iter();
    items.clone().any(|i| i.expr.any(&is) && !i.expr.any(&over))
}

fn determined(query: &Query, keys: &Keys, counted: bool) -> bool {
    let cut = query.limit.is_some() || query.offset > 0;
    if cut && !counted && !is_ordered(query, keys) {
        return false;
    }
    let ctes = query.ctes.iter();
    let mut good = ctes.clone().all(|cte| {
        determined(&cte.query, keys, false)
            && cte.step.iter().all(|step| determined(step, keys, false))
    });
    good &= query
        .order
        .iter()
        .all(|key| expr_determined(&key.expr, keys));
    good && match &query.body {
        Body::Set { left, right, .. } => {
            determined(left, keys, false) && determined(right, keys, false)
        }
        Body::Select(select) => {
            let on = matches!(select.distinct, Distinct::On(_));
            (!on || is_ordered(query, keys))
                && tables_determined(&select.from, keys, counts_only(select))
                && select.exprs().iter().all(|e| expr_determined(e, keys))
                && windows_determined(select, &query.order, keys)
        }
    }
}

/// Whether a `SELECT` asks only how many rows there are.
fn counts_only(select: &Select) -> bool {
    let counts = |expr: &Expr| match &expr.node {
        Node::Aggregate { args, filter, .. } => args.is_empty() && filter.is_none(),
        _ => false,
    };
    matches!(select.from, From::Query { .. })
        && select.filter.is_none()
        && select.group.is_none()
        && select.having.is_none()
        && select.items.iter().all(|item| counts(&item.expr))
}

fn tables_determined(from: &From, keys: &Keys, counted: bool) -> bool {
    from.parts().into_iter().all(|part| match part {
        From::Query { query, .. } => determined(query, keys, counted),
        _ => true,
    })
}

fn expr_determined(expr: &Expr, keys: &Keys) -> bool {
    let own = match &expr.node {
        Node::Aggregate {
            function: "array_agg" | "string_agg" | "first_value" | "last_value",
            args,
            order,
            ..
        } => args
            .first()
            .is_some_and(|arg| order.iter().any(|key| key.expr == *arg)),
        Node::Exists(query) => determined(query, keys, true),
        Node::Scalar(query) | Node::In { query, .. } => determined(query, keys, false),
        Node::Window { function, .. } => {
            // The function's own order is that of the window.
            return function.children().iter().all(|e| expr_determined(e, keys));
        }
        _ => true,
    };
    own && expr.children().iter().all(|e| expr_determined(e, keys))
}

fn windows_determined(select: &Select, order: &[SortKey], keys: &Keys) -> bool {
    let shown: Vec<&Expr> = select
        .items
        .iter()
        .map(|item| &item.expr)
        .chain(order.iter().map(|key| &key.expr))
        .collect();
    let named: BTreeSet<_> = shown
        .iter()
        .flat_map(|expr| expr.columns())
        .filter(|(table, _)| !table.is_empty())
        .collect();
    let mut windows = Vec::new();
    for expr in shown {
        expr.visit(&mut |e| {
            if let Node::Window { .. } = e.node {
                windows.push(e);
            }
        });
    }
    // Two windows may put rows that agree in what they name in different orders, and so pair their values differently.
    let mut tied = 0;
    windows.into_iter().all(|window| {
        let Node::Window {
            function,
            partition,
            order,
            frame,
        } = &window.node
        else {
            return true;
        };
        if !tells_equals_apart(function, frame.as_deref()) {
            return true;
        }
        let by: BTreeSet<_> = partition
            .iter()
            .chain(order.iter().map(|key| &key.expr))
            .filter_map(|expr| match &expr.node {
                Node::Column { table, name } => Some((table.as_str(), name.as_str())),
                _ => None,
            })
            .collect();
        if key_of(&select.from, keys)
            .is_some_and(|(alias, key)| key.iter().all(|name| by.contains(&(alias, name))))
        {
            return true;
        }
        tied += 1;
        tied == 1 && by.is_superset(&named)
    })
}

/// Whether a window function may give rows that are equal in its order different values.
fn tells_equals_apart(function: &Expr, frame: Option<&str>) -> bool {
    match &function.node {
        Node::Aggregate { .. } => frame.is_some_and(|frame| frame.starts_with("ROWS")),
        Node::Op { text, .. } => {
            let calm = ["rank(", "dense_rank(", "percent_rank(", "cume_dist("];
            !calm.iter().any(|name| text.starts_with(name))
        }
        _ => true,
    }
}
