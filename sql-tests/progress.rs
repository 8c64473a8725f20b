//! How far plans say that they have come: from nothing to all, in every way that a scan can go.

use std::sync::Arc;

use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::sql::progress::{Progress, progress_of};
use libtest_mimic::{Failed, Trial};

use crate::{block_on, golden, trial};

pub fn trials() -> Vec<Trial> {
    vec![trial("progress::to_the_end", || block_on(to_the_end()))]
}

/// How far a query has come before it runs and when it has ended.
async fn before_and_after(
    sql: &str,
    partitions: usize,
) -> Result<(Option<Progress>, Option<Progress>), Failed> {
    let config = SessionConfig::new().with_target_partitions(partitions);
    let ctx = SessionContext::new_with_config(config);
    datafusion_tiledb::register(&ctx)?;
    let arrays = golden::folder().display().to_string();
    let frame = ctx.sql(&sql.replace("$ARRAYS", &arrays)).await?;
    let plan = frame.create_physical_plan().await?;
    let before = progress_of(&plan);
    collect(Arc::clone(&plan), ctx.task_ctx()).await?;
    Ok((before, progress_of(&plan)))
}

async fn to_the_end() -> Result<(), Failed> {
    for partitions in [1, 3] {
        for sql in [
            "SELECT * FROM '$ARRAYS/weather_stations'",
            "SELECT station, avg(temperature) FROM '$ARRAYS/weather_stations' GROUP BY station",
            "SELECT * FROM '$ARRAYS/weather_stations' ORDER BY station, time",
            "SELECT * FROM '$ARRAYS/elevation' WHERE height > 1000",
            "SELECT y, sum(height) FROM '$ARRAYS/elevation' GROUP BY y",
            "SELECT sum(height) FROM '$ARRAYS/elevation' WHERE y > 3",
            "SELECT * FROM '$ARRAYS/elevation' a JOIN '$ARRAYS/weather_stations' b ON a.height = b.wind",
        ] {
            let (before, after) = before_and_after(sql, partitions).await?;
            let (Some(before), Some(after)) = (before, after) else {
                return Err(format!("{sql}: a scan tells nothing").into());
            };
            if before.done != 0 || before.all == 0 || after.done != after.all {
                return Err(format!("{sql}: {before:?}, then {after:?}").into());
            }
        }
    }
    let nothing = before_and_after("SELECT 1", 1).await?;
    match nothing {
        (None, None) => Ok(()),
        some => Err(format!("no array, but {some:?}").into()),
    }
}
