//! From fetched bytes to visible cells.
//!
//! A [`fields::FragmentScan`] requests the tiles of a fragment's fields ([`fetch`]) and unfilters them ([`decode`]);
//! [`visibility`] finds the newest version of each cell where fragments overlap, and [`deletes`] the cells that delete
//! conditions remove. This layer knows no plans, partitions or streams.

pub mod coordinates;
pub mod decode;
pub mod deletes;
pub mod fetch;
pub mod fields;
pub mod joint_fetch;
pub mod needles;
pub mod selection;
pub mod tile_memory;
pub mod visibility;
