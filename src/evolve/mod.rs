//! Statements and functions that change the structure of an array or a group, and no cells.
//!
//! | Statement or function | |
//! |---|---|
//! | `ALTER TABLE` | adds and drops columns, sets the current domain |
//! | [`tiledb_evolve`](functions) | the same, for locations and with all options |
//! | [`tiledb_extend_enumeration`](functions) | adds values to the enumeration of a column |
//! | [`tiledb_set_metadata`, `tiledb_delete_metadata`](metadata) | the key-value metadata of an array or a group |
//! | [`tiledb_create_group`, `tiledb_add_member`, `tiledb_remove_member`](groups) | groups |
//!
//! The functions change something when the statement that calls them runs, and exactly once; see `once`. Each gives one row:
//!
//! | Column | |
//! |---|---|
//! | `uri` | the array or the group |
//! | `changes` | what was changed; empty if it was as wanted |
//! | `file` | the file that makes the change visible; NULL if nothing was written |

pub(crate) mod alter;
pub mod functions;
pub mod groups;
pub mod metadata;
mod once;

use datafusion::catalog::TableFunction;

/// All functions that change something, with their names.
pub(crate) fn all() -> [TableFunction; 7] {
    [
        once::function::<functions::Evolve>(),
        once::function::<functions::ExtendEnumeration>(),
        once::function::<metadata::SetMetadata>(),
        once::function::<metadata::DeleteMetadata>(),
        once::function::<groups::CreateGroup>(),
        once::function::<groups::AddMember>(),
        once::function::<groups::RemoveMember>(),
    ]
}
