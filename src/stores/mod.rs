//! Where arrays are: locations in statements, with the object store and the memory of a session.

pub(crate) mod budget;
pub(crate) mod location;
