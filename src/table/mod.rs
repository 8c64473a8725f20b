//! Arrays as tables of a session: the [provider](provider::TileDbTable), how it is opened, and how paths name it.

pub(crate) mod open;
pub mod provider;
pub(crate) mod session;
mod statements;
pub(crate) mod table_scan;
pub(crate) mod url_table;
