//! Times in the FROM clause of a statement, and named arguments of the functions there.
//!
//! Both are planned by relation planners, which see what the parser made of FROM before DataFusion does. They come
//! before the planners of the session, and leave to these what is not about arrays.

mod as_of;
mod named_arguments;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;

/// Adds the planners to a session that is being built and does not have them.
pub(super) fn install(state: &mut SessionStateBuilder) {
    let planners = state.relation_planners().get_or_insert_default();
    planners.insert(0, Arc::new(as_of::AsOf));
    planners.insert(0, Arc::new(named_arguments::NamedArguments));
}
