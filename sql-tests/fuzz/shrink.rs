//! Makes a failing case smaller for as long as it fails: the statement, the session's shape, the arrays.
//!
//! A statement is cut by a [`Knife`]: a walk that offers every cut there is and makes the one whose number it was given.
//! The cuts are tried one after the other, until none of them leaves a statement that fails.

use std::collections::BTreeSet;

use super::ast::{
    Body, Distinct, Expr, From, GroupForm, Item, Kind, Node, On, Query, Select, SortKey, Statement,
};
use crate::support::array_files::Files;

/// Counts the cuts of a statement, and makes one.
#[derive(Debug)]
pub struct Knife {
    left: usize,
    done: bool,
}

impl Knife {
    fn new(number: usize) -> Self {
        Self {
            left: number,
            done: false,
        }
    }

    /// Offers a cut; true if it is the one to make.
    fn cuts(&mut self) -> bool {
        if self.done {
            return false;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                false
            }
            None => {
                self.done = true;
                true
            }
        }
    }
}

/// A statement with cut number `number` made, if there are so many.
pub fn cut(statement: &Statement, number: usize) -> Option<Statement> {
    let mut statement = statement.clone();
    let mut knife = Knife::new(number);
    cut_statement(&mut statement, &mut knife);
    knife.done.then_some(statement)
}

/// The smallest statement that `fails` and that cuts lead to.
pub fn smallest(statement: Statement, fails: &mut dyn FnMut(&Statement) -> bool) -> Statement {
    let mut smallest = statement;
    loop {
        let (mut number, mut progress) = (0, false);
        while let Some(smaller) = cut(&smallest, number) {
            if smaller != smallest && fails(&smaller) {
                (smallest, progress) = (smaller, true);
            } else {
                number += 1;
            }
        }
        if !progress {
            return smallest;
        }
    }
}

/// What one write, delete or consolidation left on storage has one name, which all its files bear: `__<time>_<time>_…`.
pub fn writes(files: &Files) -> Vec<String> {
    let mut names = BTreeSet::new();
    for path in files.0.keys() {
        for part in path.split('/') {
            let stem = part.split('.').next().unwrap_or(part);
            let time = stem
                .strip_prefix("__")
                .and_then(|rest| rest.split('_').next());
            let dated =
                time.is_some_and(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()));
            if dated && !path.starts_with("__schema/") && !path.starts_with("__meta/") {
                names.insert(stem.to_owned());
            }
        }
    }
    names.into_iter().collect()
}

/// The files without those of one write.
pub fn without_writes(files: &Files, write: &str) -> Files {
    let mut left = files.clone();
    left.0.retain(|path, _| {
        !path
            .split('/')
            .any(|part| part.split('.').next() == Some(write))
    });
    left
}

/// Offers every cut of an expression.
fn cut_expr(expr: &mut Expr, knife: &mut Knife) {
    let kind = expr.kind;
    if kind == Kind::Bool && !expr.is_literal() {
        for truth in ["TRUE", "FALSE"] {
            if knife.cuts() {
                *expr = Expr::literal(Kind::Bool, truth);
                return;
            }
        }
    }
    let whole = !matches!(expr.node, Node::Aggregate { .. } | Node::Window { .. });
    let parts: Vec<Expr> = expr.children().into_iter().cloned().collect();
    for part in parts {
        if whole && part.kind == kind && knife.cuts() {
            *expr = part;
            return;
        }
    }
    match &mut expr.node {
        Node::Op { text, args } => {
            // A list of values.
            if args.len() > 2 && text.contains("IN (") && knife.cuts() {
                args.pop();
                *text = text.replacen(", {}", "", 1);
                return;
            }
        }
        Node::Aggregate {
            distinct,
            order,
            filter,
            ..
        } => {
            if *distinct && knife.cuts() {
                *distinct = false;
            }
            if filter.is_some() && knife.cuts() {
                *filter = None;
            }
            cut_keys(order, knife, false);
        }
        Node::Window {
            partition,
            order,
            frame,
            ..
        } => {
            if frame.is_some() && knife.cuts() {
                *frame = None;
            }
            for i in 0..partition.len() {
                if knife.cuts() {
                    partition.remove(i);
                    return;
                }
            }
            cut_keys(order, knife, true);
        }
        Node::In { not, .. } => {
            if *not && knife.cuts() {
                *not = false;
            }
        }
        Node::Literal(text) => {
            for simple in ["0", "1"] {
                if kind == Kind::Int && text.len() > 2 && knife.cuts() {
                    simple.clone_into(text);
                    return;
                }
            }
        }
        Node::Column { .. } | Node::Parameter(_) | Node::Scalar(_) | Node::Exists(_) => {}
    }
    for child in expr.children_mut() {
        cut_expr(child, knife);
    }
    if let Some(query) = expr.query_mut() {
        cut_query(query, knife);
    }
}

/// Offers every cut of a statement.
pub fn cut_statement(statement: &mut Statement, knife: &mut Knife) {
    if !statement.parameters.is_empty() && knife.cuts() {
        let values = std::mem::take(&mut statement.parameters);
        statement.query.visit_mut(&mut |expr| {
            if let Node::Parameter(number) = expr.node {
                expr.node = Node::Literal(values[number].1.clone());
            }
        });
    }
    for i in 0..statement.views.len() {
        if knife.cuts() {
            statement.views.remove(i);
            return;
        }
    }
    cut_query(&mut statement.query, knife);
    for (_, view) in &mut statement.views {
        cut_query(view, knife);
    }
}

/// Offers every cut of a query.
fn cut_query(query: &mut Query, knife: &mut Knife) {
    for i in 0..query.ctes.len() {
        if knife.cuts() {
            query.ctes.remove(i);
            return;
        }
    }
    // A query that is nothing but a subquery, or a side of a set operation.
    if let Some(inner) = inner_queries(query) {
        for mut one in inner {
            if knife.cuts() {
                one.ctes = [std::mem::take(&mut query.ctes), one.ctes].concat();
                *query = one;
                return;
            }
        }
    }
    if query.limit.is_some() && knife.cuts() {
        query.limit = None;
    }
    if query.offset > 0 && knife.cuts() {
        query.offset = 0;
    }
    if let Some(limit) = query.limit.filter(|limit| *limit > 1)
        && knife.cuts()
    {
        query.limit = Some(limit / 2);
    }
    if !query.order.is_empty() && knife.cuts() {
        query.order.clear();
    }
    cut_keys(&mut query.order, knife, true);
    match &mut query.body {
        Body::Select(select) => cut_select(select, &mut query.order, knife),
        Body::Set { left, right, .. } => {
            let (l, r) = (width(left), width(right));
            for i in 0..l.min(r) {
                if l > 1 && knife.cuts() {
                    remove_item(left, i);
                    remove_item(right, i);
                    return;
                }
            }
            cut_query(left, knife);
            cut_query(right, knife);
        }
    }
    for key in &mut query.order {
        cut_expr(&mut key.expr, knife);
    }
    for cte in &mut query.ctes {
        if cte.step.is_some() && knife.cuts() {
            cte.step = None;
        }
        cut_query(&mut cte.query, knife);
        if let Some(step) = &mut cte.step {
            cut_query(step, knife);
        }
    }
}

/// Queries that a query could be replaced by.
fn inner_queries(query: &Query) -> Option<Vec<Query>> {
    match &query.body {
        Body::Set { left, right, .. } => Some(vec![(**left).clone(), (**right).clone()]),
        Body::Select(select) => {
            let inner = select
                .from
                .parts()
                .into_iter()
                .filter_map(|part| match part {
                    From::Query { query, .. } => Some((**query).clone()),
                    _ => None,
                });
            Some(inner.collect())
        }
    }
}

fn width(query: &Query) -> usize {
    query.output().len()
}

fn remove_item(query: &mut Query, index: usize) {
    match &mut query.body {
        Body::Select(select) => {
            let item = select.items.remove(index);
            query.order.retain(|key| !names(&key.expr, &item.alias));
        }
        Body::Set { left, right, .. } => {
            let alias = left.output()[index].0.to_owned();
            remove_item(left, index);
            remove_item(right, index);
            query.order.retain(|key| !names(&key.expr, &alias));
        }
    }
}

/// Whether an expression is an output column of this name.
fn names(expr: &Expr, alias: &str) -> bool {
    matches!(&expr.node, Node::Column { table, name } if table.is_empty() && name == alias)
}

/// Offers to leave out sort keys, or how they sort.
fn cut_keys(order: &mut Vec<SortKey>, knife: &mut Knife, all: bool) {
    for i in 0..order.len() {
        if (all || order.len() > 1) && knife.cuts() {
            order.remove(i);
            return;
        }
    }
    for key in order {
        if key.descending && knife.cuts() {
            key.descending = false;
        }
        if key.nulls_first.is_some() && knife.cuts() {
            key.nulls_first = None;
        }
    }
}

fn cut_select(select: &mut Select, order: &mut Vec<SortKey>, knife: &mut Knife) {
    if select.distinct != Distinct::No && knife.cuts() {
        select.distinct = Distinct::No;
    }
    if select.filter.is_some() && knife.cuts() {
        select.filter = None;
    }
    if select.having.is_some() && knife.cuts() {
        select.having = None;
    }
    if select.group.is_some() && knife.cuts() {
        select.group = None;
        let is = |expr: &Expr| matches!(expr.node, Node::Aggregate { .. });
        let some = select.items.iter().any(|item| item.expr.any(&is));
        select.items.retain(|item| !some || item.expr.any(&is));
        return;
    }
    cut_group(select, knife);
    for i in 0..select.items.len() {
        if select.items.len() > 1 && knife.cuts() {
            let item = select.items.remove(i);
            order.retain(|key| !names(&key.expr, &item.alias));
            return;
        }
    }
    cut_joins(select, order, knife);
    cut_from(&mut select.from, knife);
    for expr in select.exprs_mut() {
        cut_expr(expr, knife);
    }
}

fn cut_group(select: &mut Select, knife: &mut Knife) {
    let Some(group) = &mut select.group else {
        return;
    };
    if group.form != GroupForm::Plain && knife.cuts() {
        group.form = GroupForm::Plain;
        return;
    }
    for i in 0..group.keys.len() {
        if group.keys.len() > 1 && knife.cuts() {
            let key = group.keys.remove(i);
            if let GroupForm::Sets(_) = group.form {
                group.form = GroupForm::Plain;
            }
            if select.items.iter().any(|item| item.expr != key) {
                select.items.retain(|item| item.expr != key);
            }
            return;
        }
    }
    if let GroupForm::Sets(sets) = &mut group.form {
        for i in 0..sets.len() {
            if sets.len() > 1 && knife.cuts() {
                sets.remove(i);
                return;
            }
        }
    }
}

/// Offers to replace each join by one of its sides, without what speaks of the other.
fn cut_joins(select: &mut Select, order: &mut Vec<SortKey>, knife: &mut Knife) {
    let before = select.from.aliases().into_iter().map(str::to_owned);
    let before: Vec<String> = before.collect();
    if !cut_join(&mut select.from, knife) {
        return;
    }
    let after: Vec<String> = select
        .from
        .aliases()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let gone: Vec<&String> = before.iter().filter(|a| !after.contains(a)).collect();
    let lost = |expr: &Expr| {
        let columns = expr.columns();
        columns
            .iter()
            .any(|(table, _)| gone.iter().any(|g| g == table))
    };
    let kept: Vec<Item> = select
        .items
        .iter()
        .filter(|i| !lost(&i.expr))
        .cloned()
        .collect();
    if kept.is_empty() {
        for item in &mut select.items {
            item.expr = Expr::literal(Kind::Int, "1");
        }
    } else {
        select.items = kept;
    }
    order.retain(|key| !lost(&key.expr));
    if let Some(filter) = select.filter.take() {
        select.filter = without(filter, &lost);
    }
    select.having = select.having.take().filter(|having| !lost(having));
    if let Some(group) = &mut select.group {
        group.keys.retain(|key| !lost(key));
        group.form = GroupForm::Plain;
        if group.keys.is_empty() {
            select.group = None;
        }
    }
}

/// The parts of a conjunction that are not lost.
fn without(expr: Expr, lost: &dyn Fn(&Expr) -> bool) -> Option<Expr> {
    if !lost(&expr) {
        return Some(expr);
    }
    match expr.node {
        Node::Op { args, .. } => {
            let mut kept = args.into_iter().filter(|a| a.kind == Kind::Bool);
            kept.find_map(|arg| without(arg, lost))
        }
        _ => None,
    }
}

fn cut_join(from: &mut From, knife: &mut Knife) -> bool {
    let From::Join { left, right, .. } = &*from else {
        return false;
    };
    for side in [left.clone(), right.clone()] {
        if knife.cuts() {
            *from = *side;
            return true;
        }
    }
    let From::Join {
        kind,
        left,
        right,
        on,
    } = from
    else {
        return false;
    };
    if *kind != "INNER JOIN" && *kind != "CROSS JOIN" && knife.cuts() {
        *kind = "INNER JOIN";
        return false;
    }
    if let On::Condition(condition) = on {
        cut_expr(condition, knife);
    }
    cut_join(left, knife) || cut_join(right, knife)
}

fn cut_from(from: &mut From, knife: &mut Knife) {
    match from {
        From::Table { .. } => {}
        From::Query { query, .. } => cut_query(query, knife),
        From::Values { rows, .. } => {
            for i in 0..rows.len() {
                if rows.len() > 1 && knife.cuts() {
                    rows.remove(i);
                    return;
                }
            }
        }
        From::Join { left, right, .. } => {
            cut_from(left, knife);
            cut_from(right, knife);
        }
    }
}
