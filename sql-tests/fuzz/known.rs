//! What plain DataFusion is known to get wrong in ways that have nothing to do with arrays (`docs/upstream/README.md`).
//!
//! The session that tells what is expected would be wrong as well, or right by chance. Where a statement need not be made,
//! it is not; where it must be, a difference that looks like the defect is not told.

use super::ast::{Body, Distinct, Query, Statement};

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

/// Whether a limit cuts groups: a top-k over groups shows the zero that came first, whatever else groups shows 0.0.
pub fn keeps_first_zero(query: &Query) -> bool {
    let Body::Select(select) = &query.body else {
        return false;
    };
    let groups = select.group.is_some() || select.distinct == Distinct::All;
    groups && query.limit.is_some()
}

/// Whether an error says what DataFusion cannot do, whatever the tables.
pub fn is_known_error(error: &str) -> bool {
    error.contains("null_aware anti join only supports single column join key")
}

/// Whether a panic is one that DataFusion meets whatever the tables: of a key that comes twice in the order of an aggregate,
/// one half of it counts two, the other one.
pub fn is_known_panic(panics: &str) -> bool {
    let locations = panics.lines().filter(|line| line.contains("panicked at"));
    let mut locations = locations.peekable();
    panics.contains("assertion `left == right` failed")
        && locations.peek().is_some()
        && locations.all(|line| {
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
