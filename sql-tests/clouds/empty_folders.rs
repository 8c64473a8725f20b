//! Stores that list folders without objects, as SeaweedFS does for a while after their objects were removed.

use std::sync::Arc;

use libtest_mimic::Failed;
use object_store::local::LocalFileSystem;
use object_store::prefix::PrefixStore;

use crate::support::cloud::{rows, session};

/// A folder that looks like that of a fragment.
const FRAGMENT: &str = "t/__fragments/__1_1_0123456789abcdef0123456789abcdef_22";

trial!(empty_folder_of_a_fragment);
/// In a store, the empty folder of a fragment isn't a finding, because nobody can remove it. A file in it is one.
async fn empty_folder_of_a_fragment() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let ctx = session(Vec::new());
    // The wrapper hides that the store is a folder of this machine.
    let store = LocalFileSystem::new_with_prefix(folder.path())?;
    let store = PrefixStore::new(store, "store");
    let fragment = folder.path().join("store").join(FRAGMENT);
    ctx.register_object_store(&url::Url::parse("s3://data")?, Arc::new(store));
    let create =
        "CREATE EXTERNAL TABLE t (x INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/t'";
    rows(&ctx, create).await?;
    rows(&ctx, "INSERT INTO t VALUES (1)").await?;
    let check = "SELECT count(*) AS n FROM tiledb_check('s3://data/t')";
    std::fs::create_dir(&fragment)?;
    for (findings, file) in [("| 0 |", "a0.tdb"), ("| 1 |", "a1.tdb")] {
        let found = rows(&ctx, check).await?;
        if !found.contains(findings) {
            return Err(format!("{found}\ndoes not contain {findings}").into());
        }
        std::fs::write(fragment.join(file), "x")?;
    }
    Ok(())
}
