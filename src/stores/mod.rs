//! Where arrays are: locations in statements, with the object store, the memory and the engine of a session.

pub(crate) mod ahead;
pub(crate) mod budget;
pub(crate) mod location;
pub(crate) mod place;
pub mod registry;
pub(crate) mod runtime;
pub mod statement;
