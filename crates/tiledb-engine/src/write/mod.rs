//! Changes of arrays: the files that they put, in which order, and the step that makes them visible.
//!
//! A change becomes visible in one last step. Until then, every reader sees the array as it was. What a crash leaves behind is
//! never read; `check` lists it, and `vacuum` removes it. No file is ever overwritten by one with another meaning.
//!
//! | Change | Puts, in order | Visible with |
//! |---|---|---|
//! | create | files of enumerations, the schema | `__schema/<name>`; of two at once, the first name stays |
//! | evolve | files of enumerations, the schema | `__schema/<name>`; evolutions that met are merged |
//! | metadata of arrays and groups | | `__meta/<name>` |
//! | create a group | | `__tiledb_group.tdb` |
//! | members of a group | | `__group/<name>` |
//! | insert | data files, fragment metadata | `__commits/<name>.wrt` |
//! | delete by a condition | `__commits/<name>.del.staged` | `__commits/<name>.del`; then the staged file goes |
//! | delete or move cells | data files, fragment metadata, a `.del` that deletes nothing | `__commits/<name>.wrt` |
//! | replace all cells | data files, fragment metadata, the delete as `.del.staged` | `__commits/<name>.con`, which holds the delete and names the fragment |
//! | remove all fragments | `__commits/<name>.vac.staged` | `__commits/<name>.vac`, which names them; then the staged file goes |
//! | write deletes in another form | | their files in place, each by itself ([`delete`]) |
//! | replace fragments by one | its files, `__commits/<name>.vac.staged` | `__commits/<name>.wrt`; then `<name>.vac`, and the staged file goes |
//!
//! A change that depends on cells of others lists the array once more when its own fragments are complete. It gives way to
//! changes that were committed since it read the cells, and to complete changes that are older than itself ([`requirement`]). A
//! change that has no fragment, or does more than its fragments show, first announces itself by a staged file
//! ([`announcement`]).
//!
//! On a local disk every step has survived a power cut before the next begins: files are synced, then their folder, then the
//! commit is put, whole, and its folder is synced before success is reported. Stores behind a network are taken to be
//! durable when they answer. Names hold the time and a UUID that nobody else can have chosen, so writers need no locks.

pub mod announcement;
pub mod array_metadata;
mod change_options;
pub mod checks;
pub mod clock;
pub mod commit;
pub mod create;
pub mod delete;
pub mod dense;
pub mod encode;
pub mod evolve;
pub mod fields;
pub mod fragment;
pub mod group;
pub mod insert;
mod metadata;
pub mod order_numbers;
pub mod pipeline;
pub mod requirement;
pub mod sparse;
pub mod staged_change;
pub mod staged_rows;
mod staging;
pub mod statistics;
pub mod trial;
