//! The locations that statements name: the home folder for `~`, and the object stores with the options of the statement.
//!
//! This is the only place that asks the [`StatementStores`](crate::StatementStores) of a session for stores. The options of stores
//! leave the plan here, because no format takes them and because a plan is shown. In their place, the location becomes a URL that
//! stands for itself with the options.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, PlanType, ToStringifiedPlan};
use tiledb_engine::Error;
use tiledb_engine::storage::Location;
use tiledb_stores::{StoreErrorKind, StoreOptions};
use url::Url;

use crate::error::to_datafusion_error;
use crate::session::register::STORED_AS;
use crate::stores::location::{check_no_secret, expand_home};
use crate::stores::runtime::ArrayRuntime;
use crate::stores::statement::{SessionStores, StoreRequest, taken_store_options, unused_option};

/// The URL of each path.
const FILES: &str = "file:///";

/// Who reads or writes at a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LocationReader {
    /// This crate, which finds the store of a location with options in every session.
    Arrays,
    /// A format of DataFusion, which asks the registry of the session.
    Files,
}

impl LocationReader {
    /// The reader of `STORED AS` a format.
    fn of(format: &str) -> Self {
        if format.eq_ignore_ascii_case(STORED_AS) {
            Self::Arrays
        } else {
            Self::Files
        }
    }
}

/// Prepares the locations of a `CREATE EXTERNAL TABLE` or `COPY`, which may be explained. Other plans stay unchanged.
pub(super) async fn prepare(state: &SessionState, plan: &mut LogicalPlan) -> Result<()> {
    if let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(table)) = plan {
        let options = taken_store_options(&mut table.options);
        let reader = LocationReader::of(&table.file_type);
        let stores = state.config().get_extension::<SessionStores>();
        for location in &mut table.locations {
            let replaced = stores
                .as_ref()
                .and_then(|stores| stores.0.replace(location, &table.file_type));
            let expanded = replaced.unwrap_or_else(|| expand_home(location).into_owned());
            *location = prepare_store(state, &expanded, &options, reader).await?;
        }
        return Ok(());
    }
    let is_shown = matches!(plan, LogicalPlan::Explain(_));
    let Some(copy) = copy_in(plan) else {
        return Ok(());
    };
    let options = taken_store_options(&mut copy.options);
    let reader = LocationReader::of(&copy.file_type.get_ext());
    let expanded = expand_home(&copy.output_url);
    let prepared = prepare_store(state, &expanded, &options, reader).await?;
    // A plan that is only shown needs no store.
    copy.output_url = if is_shown {
        expanded.into_owned()
    } else {
        prepared
    };
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

/// Has the store of a location made with the options of a statement, and returns the location to use in its place.
///
/// # Errors
///
/// Fails if the location holds a secret, or if there are options that can't be used.
pub(super) async fn prepare_store(
    state: &SessionState,
    location: &str,
    options: &StoreOptions,
    reader: LocationReader,
) -> Result<String> {
    check_no_secret(location).map_err(to_datafusion_error)?;
    let first = options.iter().next().map(|(key, _)| key);
    let is_url = location.contains("://");
    let is_local = !is_url
        || location
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case("file:"));
    if let Some(key) = first
        && is_local
    {
        return Err(to_datafusion_error(Error::invalid(format!(
            "'{location}' takes no options of an object store, as it is on this machine: remove the option {key}"
        ))));
    }
    let is_made = register_made(state, if is_url { location } else { FILES }, options).await?;
    match first {
        Some(key) if !is_made => {
            stand_in(state, location, options, key, reader).map_err(to_datafusion_error)
        }
        _ => Ok(location.to_owned()),
    }
}

/// Registers the store that the session's [`StatementStores`](crate::StatementStores) make. Returns whether they made one.
async fn register_made(
    state: &SessionState,
    location: &str,
    options: &StoreOptions,
) -> Result<bool> {
    let Some(stores) = state.config().get_extension::<SessionStores>() else {
        return Ok(false);
    };
    let url = Url::parse(location).map_err(|e| {
        let shown = Location::without_secrets(location);
        DataFusionError::Plan(format!("'{shown}' cannot be used as a location: {e}"))
    })?;
    let registry = &state.runtime_env().object_store_registry;
    let request = StoreRequest {
        url: &url,
        options,
        registered: registry.get_store(&url).ok(),
    };
    let Some(store) = stores.0.store(request).await? else {
        return Ok(false);
    };
    registry.register_store(&url, store);
    Ok(true)
}

/// A URL that stands for a location with options; `first` is one of them.
fn stand_in(
    state: &SessionState,
    location: &str,
    options: &StoreOptions,
    first: &str,
    reader: LocationReader,
) -> tiledb_engine::Result<String> {
    let runtime = ArrayRuntime::of_session(state);
    if reader == LocationReader::Files && !runtime.serves_files() {
        return Err(unused_option(first, location));
    }
    let url = runtime
        .engine()
        .stores()
        .stand_in(location, options, &runtime.limits());
    url.map_err(|error| match error.kind() {
        StoreErrorKind::UnknownScheme | StoreErrorKind::MissingFeature => {
            unused_option(first, location)
        }
        _ => Error::invalid(format!(
            "'{}' cannot be used as a location: {error}",
            Location::without_secrets(location)
        )),
    })
}
