//! The locations that statements name: the home folder for `~`, and the object stores with the options of the statement.
//!
//! This is the only place that asks the [`StatementStores`](crate::StatementStores) of a session for stores. The options of stores
//! leave the plan here, because no format takes them and because a plan is shown.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, PlanType, ToStringifiedPlan};
use tiledb_engine::Error;
use tiledb_engine::storage::Location;
use url::Url;

use crate::error::to_datafusion_error;
use crate::stores::location::expand_home;
use crate::stores::statement::{SessionStores, StoreOptions, StoreRequest, unused_option};

/// The URL of each path.
const FILES: &str = "file:///";

/// Prepares the locations of a `CREATE EXTERNAL TABLE` or `COPY`, which may be explained. Other plans stay unchanged.
pub(super) async fn prepare(state: &SessionState, plan: &mut LogicalPlan) -> Result<()> {
    if let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(table)) = plan {
        let options = StoreOptions::taken_from(&mut table.options);
        let stores = state.config().get_extension::<SessionStores>();
        for location in &mut table.locations {
            let replaced = stores
                .as_ref()
                .and_then(|stores| stores.0.replace(location, &table.file_type));
            *location = replaced.unwrap_or_else(|| expand_home(location).into_owned());
            prepare_store(state, location, &options).await?;
        }
        return Ok(());
    }
    let Some(copy) = copy_in(plan) else {
        return Ok(());
    };
    copy.output_url = expand_home(&copy.output_url).into_owned();
    let options = StoreOptions::taken_from(&mut copy.options);
    prepare_store(state, &copy.output_url, &options).await?;
    if let LogicalPlan::Explain(explain) = plan {
        // EXPLAIN VERBOSE shows the plan as it was first.
        let first = explain.plan.to_stringified(PlanType::InitialLogicalPlan);
        explain.stringified_plans = vec![first];
    }
    Ok(())
}

/// The COPY that a plan is or explains.
fn copy_in(plan: &mut LogicalPlan) -> Option<&mut CopyTo> {
    let explained = match plan {
        LogicalPlan::Copy(copy) => return Some(copy),
        LogicalPlan::Explain(explain) => &mut explain.plan,
        LogicalPlan::Analyze(analyze) => &mut analyze.input,
        _ => return None,
    };
    match explained.as_ref() {
        LogicalPlan::Copy(_) => copy_in(Arc::make_mut(explained)),
        _ => None,
    }
}

/// Has the store of a location made with the options of a statement, and registers the store.
///
/// # Errors
///
/// Fails if there are options that nobody takes.
pub(super) async fn prepare_store(
    state: &SessionState,
    location: &str,
    options: &StoreOptions,
) -> Result<()> {
    let refused = |error| Err(to_datafusion_error(error));
    let first = options.iter().next().map(|(key, _)| key);
    let is_url = location.contains("://");
    if let Some(key) = first
        && !is_url
    {
        return refused(Error::invalid(format!(
            "'{location}' takes no options of an object store, as it is not a URL: remove the option {key}"
        )));
    }
    let Some(stores) = state.config().get_extension::<SessionStores>() else {
        return match first {
            Some(key) => refused(unused_option(key, location)),
            None => Ok(()),
        };
    };
    let url = Url::parse(if is_url { location } else { FILES }).map_err(|e| {
        let shown = Location::without_secrets(location);
        DataFusionError::Plan(format!("'{shown}' cannot be used as a location: {e}"))
    })?;
    let request = StoreRequest {
        url: &url,
        options,
        registered: state
            .runtime_env()
            .object_store_registry
            .get_store(&url)
            .ok(),
    };
    if let Some(store) = stores.0.store(request).await? {
        state.runtime_env().register_object_store(&url, store);
    }
    Ok(())
}
