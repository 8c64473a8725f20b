//! Sessions with arrays: [`register`] equips one, and [`execute`] is the door for its statements.

mod execute;
mod factory;
mod plan;
mod register;
mod time_travel;

pub use self::execute::execute;
pub use self::factory::TileDbTableFactory;
pub use self::plan::{plan_statement, with_home_expanded};
pub use self::register::{equip, register};
