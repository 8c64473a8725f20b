//! Modification of existing sessions in ways that DataFusion only allows for sessions that are being built.

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::session_state::SessionState;

/// Rebuilds a state from its parts, in place, so that all holders see the new one. Prepared statements are lost. If
/// building fails, the state is unchanged.
pub(super) fn rebuild<E>(
    state: &mut SessionState,
    change: impl FnOnce(&mut SessionStateBuilder) -> Result<(), E>,
) -> Result<(), E> {
    let options = state.config().options();
    let creates_catalog = options.catalog.create_default_catalog_and_schema;
    let mut builder = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(state.session_id().to_owned());
    change(&mut builder)?;
    let mut changed = builder.build();
    // This setting keeps the builder from replacing the existing catalog by an empty one.
    let options = changed.config_mut().options_mut();
    options.catalog.create_default_catalog_and_schema = creates_catalog;
    *state = changed;
    Ok(())
}
