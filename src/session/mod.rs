//! Sessions with arrays: [`register`] equips one, and [`execute`] is the door for its statements.

mod depth;
mod effects;
mod execute;
mod factory;
mod insert;
mod locations;
mod plan;
#[cfg(test)]
mod read_only_tests;
mod references;
mod register;
mod secrets;
mod suggestions;
mod summarize;
#[cfg(test)]
mod tests;
mod time_travel;

pub use self::depth::StatementDepth;
pub use self::effects::changes_something;
pub use self::execute::{StartedStatement, check_syntax, execute, start};
pub use self::factory::TileDbTableFactory;
pub use self::references::unknown_tables;
pub use self::register::{equip, register};
pub use crate::options::ReadOnly;
pub use crate::stores::ahead::in_one_statement;
