//! The cells of a consolidation: from the tiles of its inputs to the tiles of its output.
//!
//! A [`source`] decodes the tiles of one input and computes what else a cell needs ([`order`], [`deleted`]); the [`feed`]
//! fetches them before they are needed. The [`merge`] decides which cell comes next, and writes down runs of cells to
//! copy; the tiles of the output are put together from these ([`tile`]) on the threads that filter them. [`sparse`] and
//! [`dense`] drive this.

pub(super) mod deleted;
pub(super) mod dense;
pub(super) mod feed;
pub(super) mod merge;
pub(super) mod order;
pub(super) mod source;
pub(super) mod sparse;
pub(super) mod tile;
