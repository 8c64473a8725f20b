//! Groups whose files are damaged.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{TileDbGroup, register_group};
use libtest_mimic::Failed;

use crate::golden::groups::{copy, error, number, text};
use crate::support::array_files::{Files, contents, plain_tile};
use crate::support::turns;

/// A young file that can't be decoded is read again for a while.
fn make_old(file: &Path) -> std::io::Result<()> {
    let file = fs::File::options().write(true).open(file)?;
    file.set_modified(SystemTime::now() - Duration::from_secs(3600))
}

trial!(damage);
async fn damage() -> Result<(), Failed> {
    let (_scratch, group) = copy("experiment")?;
    let files = Files::of(&group);
    let root = files.find("__group/__1000");
    let ms = files.find("ms/RNA/__group/");
    let whole = files.0[&root].clone();
    for len in (0..whole.len()).step_by(7) {
        fs::write(group.join(&root), &whole[..len])?;
        make_old(&group.join(&root))?;
        let error = TileDbGroup::open(text(&group))
            .await
            .expect_err("cut short")
            .to_string();
        assert!(error.contains(&format!("file {root}")), "{error}");
        assert!(
            error.contains(&format!("group {}", group.display())),
            "{error}"
        );
    }
    // In the plain form damage reaches the details themselves.
    let plain = plain_tile(&contents(&whole));
    let step = if turns::wants_each() { 1 } else { 8 };
    for at in (0..plain.len()).step_by(step) {
        let mut damaged = plain.clone();
        damaged[at] ^= 0x41;
        fs::write(group.join(&root), &damaged)?;
        make_old(&group.join(&root))?;
        match TileDbGroup::open(text(&group)).await {
            Err(e) => assert!(e.to_string().contains(&root), "byte {at}: {e}"),
            // A name or URI that differs is another member, and no more.
            Ok(_) => {
                let ctx = SessionContext::new();
                register_group(&ctx, "exp", text(&group)).await?;
                let _ = ctx.sql("SELECT * FROM exp.obs").await;
                let _ = ctx.sql("SELECT * FROM exp.\"ms/RNA/var\"").await;
            }
        }
    }
    fs::write(group.join(&root), &whole)?;
    // Further down it is the trouble of those who ask for it.
    fs::write(group.join(&ms), b"rubbish")?;
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_information_schema(true));
    register_group(&ctx, "exp", text(&group)).await?;
    assert_eq!(number(&ctx, "SELECT count(*) FROM exp.obs").await?, 4);
    let broken = error(&ctx, "SELECT * FROM exp.ms.\"RNA/var\"").await?;
    for words in ["group details", "file __group/", "member ms/RNA"] {
        assert!(broken.contains(words), "{words}: {broken}");
    }
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_catalog = 'exp'";
    assert!(number(&ctx, tables).await? > 0);
    Ok(())
}
