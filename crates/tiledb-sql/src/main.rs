//! `tiledb-sql`: see the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    tiledb_sql::main()
}
