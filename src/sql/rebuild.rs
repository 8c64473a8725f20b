//! Changing a session that exists where DataFusion only lets one that is being built be changed.

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::session_state::SessionState;

/// Builds a state anew from its parts, in place, so that everybody who holds it sees the new one. Only prepared statements
/// do not come along. Without success the state stays as it was.
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
    // The builder takes the setting back so as not to put an empty catalog in place of the one that exists.
    let options = changed.config_mut().options_mut();
    options.catalog.create_default_catalog_and_schema = creates_catalog;
    *state = changed;
    Ok(())
}
