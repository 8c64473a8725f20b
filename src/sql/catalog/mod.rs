//! A TileDB group as a catalog and as a schema of a session.
//!
//! DataFusion's names have three parts, and groups nest deeper: in a SOMA experiment, `X/data` of a measurement lies
//! four levels down. So a part may be a path. With a group attached as `exp`, the same array is
//!
//! | Name | Read as |
//! |---|---|
//! | `exp."ms/RNA/X/data"` | the group as a *schema* of the session's own catalog: tables are paths |
//! | `exp."ms/RNA/X".data` | the group as a *catalog*: nested groups, by their paths, are its schemas |
//! | `exp.ms."RNA/X/data"` | the same: from any schema, paths lead further down |
//!
//! Arrays directly in the group are `exp.obs`, and in the catalog stand in the schema `public`: `exp.public.obs`.
//!
//! - A part that matches no member exactly may match one in another case, if only one: `exp.ms."rna/var"`.
//! - A member without a name goes by the last part of its URI, numbered if taken (`data`, `data_2`).
//! - A nested group called `public` or `information_schema` is the schema `./public`; any path may begin with `./`.
//! - `information_schema` and SHOW TABLES list what was there when the group was attached, each array once by
//!   catalog and once by schema. Names in queries are looked up anew each time, so a query is never stale.
//!
//! Attaching reads group files only. An array is opened when a query names it; one that is missing or broken says so
//! then, and disturbs nothing else. A group that contains itself is listed once. `timestamp` applies to the group and
//! to its members alike; `timestamp_start` to the members alone.

mod attached;
mod builder;
mod explain;
pub(crate) mod explore;
mod group;
mod listing;
pub(crate) mod locate;
mod provider;
mod resolve;
mod statement;
#[cfg(test)]
mod tests;

use datafusion::prelude::SessionContext;

pub use self::builder::TileDbGroupBuilder;
pub(crate) use self::explain::explain_group;
pub use self::group::{AttachAs, TileDbGroup};
pub use self::statement::{GroupStatement, StoreOptions, run_statement};
use crate::error::Result;

/// The schema of the arrays directly in a group that is a catalog.
pub const ROOT_SCHEMA: &str = "public";

/// Attaches the group at `uri` to a session under a name, as a catalog and as a schema; see [the module](self).
///
/// [`TileDbGroup::builder`] does so with options. The session needs no other preparation.
pub async fn register_group(
    ctx: &SessionContext,
    name: &str,
    uri: impl Into<String>,
) -> Result<()> {
    TileDbGroup::builder(uri).attach(ctx, name).await
}

/// Detaches the group that was attached under `name`; says whether there was one.
pub fn detach_group(ctx: &SessionContext, name: &str) -> bool {
    attached::detach(ctx, name)
}
