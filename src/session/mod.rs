//! Sessions with arrays: [`register`] equips one, and [`execute`] is the door for its statements.

mod depth;
mod execute;
mod factory;
mod insert;
mod locations;
mod plan;
mod register;
mod secrets;
#[cfg(test)]
mod tests;
mod time_travel;

pub use self::depth::StatementDepth;
pub use self::execute::{StartedStatement, check_syntax, execute, start};
pub use self::factory::TileDbTableFactory;
pub use self::register::{equip, register};
