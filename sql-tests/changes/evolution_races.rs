//! Two evolutions of one array that meet at every point of the way: both are in effect afterwards, or the error says which one
//! is not.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;
use object_store::memory::InMemory;

use crate::support::faulty_store::{Faulty, copy_of, execute, session, state};
use crate::support::folders::copy_folder;
use crate::support::trials::SqlTrial;
use crate::support::{golden, neutral_rows};
use crate::{block_on, trial};

const CREATE: &str = "CREATE EXTERNAL TABLE t (x INT NOT NULL, s VARCHAR, c VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB LOCATION \
     'crash://store/array' OPTIONS ('tiledb.attr.c.enumeration' '[\"a\", \"b\"]')";
const OPEN: &str = "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 'crash://store/array'";

/// Evolutions of different subjects.
const APART: [(&str, &str, &str); 6] = [
    (
        "columns",
        "ALTER TABLE t ADD COLUMN mine INT DEFAULT 1",
        "ALTER TABLE t ADD COLUMN theirs INT DEFAULT 2",
    ),
    (
        "column_and_drop",
        "ALTER TABLE t ADD COLUMN mine INT",
        "ALTER TABLE t DROP COLUMN s",
    ),
    (
        "drop_and_column",
        "ALTER TABLE t DROP COLUMN s",
        "ALTER TABLE t ADD COLUMN theirs VARCHAR DEFAULT 'q' OPTIONS (enumeration = '[\"p\", \"q\"]')",
    ),
    (
        "enumeration_and_column",
        "SELECT * FROM tiledb_extend_enumeration('t', 'c', ['c'])",
        "ALTER TABLE t ADD COLUMN theirs INT",
    ),
    (
        "enumeration_and_domain",
        "ALTER TABLE t ADD COLUMN mine VARCHAR OPTIONS (enumeration = '[\"p\"]')",
        "ALTER TABLE t SET TBLPROPERTIES ('tiledb.current_domain' = '[0, 9]')",
    ),
    (
        "alike",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS both INT",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS both INT",
    ),
];

/// Evolutions of one subject, of which only one can be in effect.
const TOGETHER: [(&str, &str, &str); 3] = [
    (
        "one_name",
        "ALTER TABLE t ADD COLUMN both INT",
        "ALTER TABLE t ADD COLUMN both DOUBLE",
    ),
    (
        "one_enumeration",
        "SELECT * FROM tiledb_extend_enumeration('t', 'c', ['mine'])",
        "SELECT * FROM tiledb_evolve('t', drop => 'c')",
    ),
    (
        "one_domain",
        "ALTER TABLE t SET TBLPROPERTIES ('tiledb.current_domain' = '[0, 9]')",
        "ALTER TABLE t SET TBLPROPERTIES ('tiledb.current_domain' = '[-5, 5]')",
    ),
];

trials!(each_meeting());

fn each_meeting() -> Vec<SqlTrial> {
    let apart = APART.iter().map(|(name, mine, theirs)| {
        let name = format!("both_{name}");
        trial(name, move || block_on(both(mine, theirs)))
    });
    let together = TOGETHER.iter().map(|(name, mine, theirs)| {
        let name = format!("either_{name}");
        trial(name, move || block_on(either(mine, theirs)))
    });
    apart.chain(together).collect()
}

trial!(arrays_of_old_releases);
/// What old releases wrote is read as before, and shows the default of a new column; or the evolution says why libtiledb could
/// not read it any more.
async fn arrays_of_old_releases() -> Result<(), Failed> {
    let (mut evolved, mut refused) = (0, 0);
    // A third of them meets every version and most filters.
    for (folder, entry) in golden::arrays().into_iter().step_by(3) {
        let name = entry["name"].as_str().unwrap_or_default();
        let plain = golden::is_read(&entry) && golden::options(&entry).is_empty();
        if !plain || !folder.ends_with("old") {
            continue;
        }
        let place = tempfile::tempdir()?;
        copy_folder(&folder.join(name), place.path())?;
        let array = place.path().display();
        let ctx = SessionContext::new();
        datafusion_tiledb::register(&ctx)?;
        let rows = async |columns: &str| -> Result<Vec<String>, Failed> {
            let all = format!("SELECT {columns} FROM '{array}?timestamp=99999999999999'");
            let mut rows = neutral_rows::rows(&ctx.sql(&all).await?.collect().await?);
            rows.sort_unstable();
            Ok(rows)
        };
        let before = rows("*").await?;
        let evolve = format!(
            "SELECT * FROM tiledb_evolve('{array}', add => 'added INT NOT NULL DEFAULT 7', write_timestamp => 9999999999999)"
        );
        match ctx.sql(&evolve).await?.collect().await {
            Ok(_) => {}
            Err(e)
                if e.to_string()
                    .contains("libtiledb cannot read such fragments") =>
            {
                refused += 1;
                continue;
            }
            Err(e) => return Err(format!("{name}: {e}").into()),
        }
        evolved += 1;
        if rows("* EXCLUDE (added)").await? != before {
            return Err(format!("{name} reads otherwise").into());
        }
        let added = rows("added").await?;
        if added.len() != before.len() || added.iter().any(|row| row != "[7]") {
            return Err(format!("{name} shows {:?}", added.first()).into());
        }
    }
    if evolved > 40 && refused > 40 {
        Ok(())
    } else {
        Err(format!("{evolved} evolved, {refused} refused").into())
    }
}

/// A store with the array, and what readers find after the statements, one after the other.
async fn after(statements: &[&str]) -> Result<(Arc<InMemory>, Option<Vec<String>>), Failed> {
    let store = Faulty::meeting(Arc::default(), usize::MAX, Box::new(|| Box::pin(async {})));
    let ctx = session(&store)?;
    for statement in [CREATE, "INSERT INTO t VALUES (1, 'a', 'b')"] {
        execute(&ctx, statement).await?;
    }
    let before = Arc::new(copy_of(&store.inner).await?);
    for statement in statements {
        execute(&session_with_table(&store).await?, statement).await?;
    }
    Ok((before, state(&store.inner).await?))
}

async fn session_with_table(store: &Arc<Faulty>) -> Result<SessionContext, Failed> {
    let ctx = session(store)?;
    execute(&ctx, OPEN).await?;
    Ok(ctx)
}

/// How the statements ended that met before the n-th request of the first, and what readers find then.
struct Met {
    mine: Result<(), String>,
    theirs: Result<(), String>,
    found: Option<Vec<String>>,
    requests: usize,
}

async fn meet(
    before: &InMemory,
    mine: &str,
    theirs: &'static str,
    n: usize,
) -> Result<Met, Failed> {
    let inner = Arc::new(copy_of(before).await?);
    let ended = Arc::new(std::sync::Mutex::new(Ok(())));
    let (others, outcome) = (Arc::clone(&inner), Arc::clone(&ended));
    let store = Faulty::meeting(
        inner,
        n,
        Box::new(move || {
            let (others, outcome) = (Arc::clone(&others), Arc::clone(&outcome));
            Box::pin(async move {
                let quiet = Faulty::meeting(others, usize::MAX, Box::new(|| Box::pin(async {})));
                let ran = async { execute(&session_with_table(&quiet).await?, theirs).await };
                *outcome.lock().unwrap() = ran.await.map_err(|e| format!("{e:?}"));
            })
        }),
    );
    let ran = async { execute(&session_with_table(&store).await?, mine).await };
    let ran = ran.await.map_err(|e| format!("{e:?}"));
    let theirs = ended.lock().unwrap().clone();
    Ok(Met {
        mine: ran,
        theirs,
        found: state(&store.inner).await?,
        requests: store.requests.count.load(Ordering::SeqCst),
    })
}

/// Columns may come in either order.
fn sorted(found: &Option<Vec<String>>) -> Vec<Vec<char>> {
    let mut lines: Vec<Vec<char>> = found
        .iter()
        .flatten()
        .map(|line| {
            let mut letters: Vec<char> = line.chars().collect();
            letters.sort_unstable();
            letters
        })
        .collect();
    lines.sort_unstable();
    lines
}

async fn both(mine: &str, theirs: &'static str) -> Result<(), Failed> {
    let (before, expected) = after(&[mine, theirs]).await?;
    let alone = meet(&before, mine, theirs, usize::MAX).await?;
    for n in 0..alone.requests {
        let met = meet(&before, mine, theirs, n).await?;
        if met.mine.is_err() && is_conflict_of_columns(&met.mine) {
            // The table was planned before the other evolution, and says so.
            continue;
        }
        if met.mine.is_err() || met.theirs.is_err() || sorted(&met.found) != sorted(&expected) {
            let (mine, theirs) = (met.mine, met.theirs);
            return Err(format!("{n}: {mine:?}, {theirs:?}: {:?}", met.found).into());
        }
    }
    if alone.requests > 5 {
        Ok(())
    } else {
        Err("there is no way to meet on".into())
    }
}

fn is_conflict_of_columns(ended: &Result<(), String>) -> bool {
    ended
        .as_ref()
        .is_err_and(|e| e.contains("run the statement again"))
}

async fn either(mine: &str, theirs: &'static str) -> Result<(), Failed> {
    let (before, only_mine) = after(&[mine]).await?;
    let (_, only_theirs) = after(&[theirs]).await?;
    let alone = meet(&before, mine, theirs, usize::MAX).await?;
    let mut conflicts = 0;
    for n in 0..alone.requests {
        let met = meet(&before, mine, theirs, n).await?;
        let (is_mine, is_theirs) = (met.found == only_mine, met.found == only_theirs);
        let told = match (&met.mine, &met.theirs) {
            (Ok(()), Err(_)) => is_mine,
            (Err(e), Ok(())) if e.contains("started from the same schema at the same time") => {
                conflicts += 1;
                let theirs_count = e.contains("theirs took effect");
                (is_theirs && theirs_count) || (is_mine && !theirs_count)
            }
            (Err(_), Ok(())) => is_theirs,
            // The other one came after this one and undid it knowingly.
            (Ok(()), Ok(())) => is_theirs,
            (Err(_), Err(_)) => false,
        };
        if !told {
            let (mine, theirs) = (met.mine, met.theirs);
            return Err(format!("{n}: {mine:?}, {theirs:?}: {:?}", met.found).into());
        }
    }
    if conflicts > 0 {
        Ok(())
    } else {
        Err("they never met".into())
    }
}
