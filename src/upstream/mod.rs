//! Whatever only works around DataFusion. Each module goes once DataFusion is mended; see `docs/upstream`.

pub(crate) mod boxed_methods;
pub(crate) mod chains;
pub(crate) mod from_first;
pub(crate) mod generic_dialect;
pub(crate) mod wide_lists;
