//! A TileDB group as a catalog and as a schema of a session.
//!
//! DataFusion's names have three parts, and groups nest deeper: in a SOMA experiment, `X/data` of a measurement is four
//! levels down. So a part may be a path. With a group attached as `exp`, the same array is
//!
//! | Name | Read as |
//! |---|---|
//! | `exp."ms/RNA/X/data"` | the group as a *schema* of the session's own catalog: tables are paths |
//! | `exp."ms/RNA/X".data` | the group as a *catalog*: nested groups, by their paths, are its schemas |
//! | `exp.ms."RNA/X/data"` | the same: from any schema, paths lead further down |
//!
//! Arrays directly in the group are `exp.obs`; in the catalog they are in the schema `public`: `exp.public.obs`.
//!
//! - If no member matches a part exactly, the only one that matches in another case is taken: `exp.ms."rna/var"`.
//! - A member without a name is named by the last part of its URI, with a number if that is taken (`data`, `data_2`).
//! - A nested group called `public` or `information_schema` is the schema `./public`; any path may begin with `./`.
//! - `information_schema` and SHOW TABLES list the arrays that existed when the group was attached, each once by
//!   catalog and once by schema. Names in queries are looked up each time, so a query is never stale.
//!
//! Attaching only reads group files. An array is opened when a query names it; the error of one that is missing or
//! damaged appears then, and affects nothing else. A group that contains itself is listed once. `timestamp` applies to
//! the group and to its members; `timestamp_start` only to the members.

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
#[doc(hidden)]
pub use self::statement::first_word;
pub use self::statement::{GroupStatement, StoreOptions, run_statement};
use crate::error::Result;

/// The schema of the arrays directly in a group that is a catalog.
pub const ROOT_SCHEMA: &str = "public";

/// Attaches the group at `uri` to a session as `name`, as a catalog and as a schema; see [the module](self).
///
/// [`TileDbGroup::builder`] takes options. The session needs no other preparation.
pub async fn register_group(
    ctx: &SessionContext,
    name: &str,
    uri: impl Into<String>,
) -> Result<()> {
    TileDbGroup::builder(uri).attach(ctx, name).await
}

/// Detaches the group attached as `name`; returns whether there was one.
pub fn detach_group(ctx: &SessionContext, name: &str) -> bool {
    attached::detach(ctx, name)
}
