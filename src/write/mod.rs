//! Changes of arrays: what is put where, in which order, and what makes it visible.
//!
//! A change becomes visible in one last step. Before it, the array is as it was for every reader; what a crash leaves behind
//! is never read, `check` lists it, and `vacuum` removes it. No file is ever overwritten.
//!
//! | Change | Puts, in order | Visible with |
//! |---|---|---|
//! | create | files of enumerations, the schema | `__schema/<name>`; of two at once, the first name stays |
//! | insert | data files, fragment metadata | `__commits/<name>.wrt` |
//!
//! On a local disk every step has survived a power cut before the next begins: files are synced, then their folder, then the
//! commit is put, whole, and its folder is synced before success is reported. Stores behind a network are taken to be
//! durable when they answer. Names hold the time and a UUID that nobody else can have chosen, so writers need no locks.

pub mod checks;
pub mod clock;
pub mod commit;
pub mod create;
pub mod dense;
pub mod encode;
pub mod fields;
pub mod fragment;
pub mod insert;
mod metadata;
pub mod pipeline;
pub mod sparse;
pub mod statistics;
