//! What plain DataFusion is known to get wrong in ways that have nothing to do with arrays (`docs/upstream/`).
//!
//! The session that tells what is expected would be wrong as well, or right by chance. Where a statement need not be made,
//! it is not; where it must be, a difference that looks like the defect is not told.

use super::ast::{Body, Expr, GroupForm, Node, Query, Statement};
use super::print;

/// Whether a statement skips rows of a query inside it: a sort for what stands around it moves below the OFFSET.
pub fn skips_inside(statement: &Statement) -> bool {
    let mut skipping = 0;
    let mut count = |query: &Query| skipping += usize::from(query.offset > 0);
    for (_, view) in &statement.views {
        view.visit(&mut count, &mut |_| {});
    }
    statement.query.visit(&mut count, &mut |_| {});
    skipping > usize::from(statement.query.offset > 0)
}

/// Whether a statement names a zero that is a float. What equals it is taken for one value throughout, and is not sorted by
/// any more, though 0.0 and -0.0 are told apart by sorts.
pub fn names_zero(statement: &Statement) -> bool {
    let mut found = false;
    let mut look = |expr: &Expr| {
        if let Node::Literal(text) = &expr.node {
            found |= float(text).is_some_and(|value| value == 0.0);
        }
    };
    for (_, view) in &statement.views {
        view.visit(&mut |_| {}, &mut look);
    }
    statement.query.visit(&mut |_| {}, &mut look);
    found
}

/// Whether a statement has windows. Where zero is taken for one value, the rows of both zeros are not brought together.
pub fn looks_through_windows(statement: &Statement) -> bool {
    let mut found = false;
    let mut look = |expr: &Expr| found |= matches!(expr.node, Node::Window { .. });
    for (_, view) in &statement.views {
        view.visit(&mut |_| {}, &mut look);
    }
    statement.query.visit(&mut |_| {}, &mut look);
    found
}

/// Whether a statement groups by sets. What is one value throughout their rows is taken for one in their groups too, and
/// not sorted by.
pub fn groups_by_sets(statement: &Statement) -> bool {
    let mut found = false;
    let mut look = |query: &Query| {
        if let Body::Select(select) = &query.body {
            let group = select.group.as_ref();
            found |= group.is_some_and(|group| group.form != GroupForm::Plain);
        }
    };
    for (_, view) in &statement.views {
        view.visit(&mut look, &mut |_| {});
    }
    statement.query.visit(&mut look, &mut |_| {});
    found
}

/// Whether a statement leaves rows out by their order.
pub fn cuts(statement: &Statement) -> bool {
    let mut found = false;
    let mut look = |query: &Query| found |= query.limit.is_some() || query.offset > 0;
    for (_, view) in &statement.views {
        view.visit(&mut look, &mut |_| {});
    }
    statement.query.visit(&mut look, &mut |_| {});
    found
}

/// Whether a statement has an outer join. A column that has one value on the side that may be missing is taken for one that
/// has no other, and not sorted by, though it is NULL where there is no match.
pub fn joins_outside(statement: &Statement) -> bool {
    let (before, last) = print::statement(statement);
    let outer = ["LEFT JOIN", "RIGHT JOIN", "FULL JOIN"];
    before
        .iter()
        .chain([&last])
        .any(|sql| outer.iter().any(|join| sql.contains(join)))
}

/// Whether an error says what DataFusion cannot do, whatever the tables.
pub fn is_known_error(error: &str) -> bool {
    error.contains("null_aware anti join only supports single column join key")
}

/// Whether a panic is one that DataFusion meets whatever the tables: of a key that comes twice in the order of an aggregate,
/// one half of it counts two, the other one.
pub fn is_known_panic(panics: &str) -> bool {
    let mut places = panics.lines().filter(|line| line.contains("panicked at"));
    panics.contains("assertion `left == right` failed")
        && places.all(|line| {
            line.contains("/datafusion-functions-aggregate-") && line.contains("/first_last.rs")
        })
}

/// The float that a literal is.
pub fn float(text: &str) -> Option<f64> {
    let digits = text
        .trim_start_matches("CAST(")
        .trim_end_matches(" AS DOUBLE)");
    digits.trim_matches('\'').parse().ok()
}
