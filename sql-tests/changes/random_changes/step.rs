//! One random statement of a history, and what it must leave.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;

use super::{Kind, found, run};
use crate::support::rng::Rng;

/// A statement, and what it must do.
pub struct Step {
    pub statement: String,
    /// A query for its count.
    count: String,
    /// A query for the rows afterwards.
    pub rows: String,
    /// A query for the keys of rows that the statement would change twice, or make twice.
    twice: String,
}

impl Step {
    pub fn random(kind: &Kind, rng: &mut Rng) -> Self {
        let number = rng.below(12).to_string();
        let condition = rng.pick(kind.conditions).replace("{}", &number);
        let all = kind.columns.join(", ");
        let keys = kind.columns[..kind.dimensions].join(", ");
        let twice =
            |rows: &str| format!("SELECT {keys} FROM ({rows}) GROUP BY {keys} HAVING count(*) > 1");
        let hit = format!("SELECT {keys} FROM m AS t WHERE {condition}");
        let kept = match kind.name {
            "duplicates" => format!("SELECT {all} FROM m AS t WHERE ({condition}) IS NOT TRUE"),
            _ => format!(
                "SELECT m.* FROM m LEFT ANTI JOIN ({hit}) s ON {}",
                same(kind, "m")
            ),
        };
        let count = format!("SELECT count(*) FROM m AS t WHERE {condition}");
        match rng.below(20) {
            0 => Self {
                statement: "TRUNCATE TABLE t".to_owned(),
                count: "SELECT count(*) FROM m".to_owned(),
                rows: "SELECT * FROM m WHERE false".to_owned(),
                twice: twice("SELECT * FROM m WHERE false"),
            },
            1 => {
                let rows = format!(
                    "SELECT {all} FROM ({} FROM unnest(range({number}, 60)) AS u(i))",
                    kind.rows
                );
                Self {
                    statement: format!("INSERT OVERWRITE t {rows}"),
                    count: format!("SELECT count(*) FROM ({rows})"),
                    twice: twice(&rows),
                    rows,
                }
            }
            2..=8 => Self {
                statement: format!("DELETE FROM t WHERE {condition}"),
                count,
                twice: twice(&kept),
                rows: kept,
            },
            9..=11 => Self::merge(kind, rng),
            12 => Self::insert(kind, &number, &all, twice),
            _ => {
                let (column, value) = *rng.pick(kind.assignments);
                let set = kind.columns[column];
                let changed = kind
                    .columns
                    .iter()
                    .enumerate()
                    .map(|(i, name)| {
                        if i == column {
                            format!("{value} AS {name}")
                        } else {
                            format!("t.{name}")
                        }
                    })
                    .collect::<Vec<_>>()
                    .join(", ");
                let rows =
                    format!("{kept} UNION ALL SELECT {changed} FROM m AS t WHERE {condition}");
                Self {
                    statement: format!("UPDATE t SET {set} = {value} WHERE {condition}"),
                    count,
                    twice: twice(&rows),
                    rows,
                }
            }
        }
    }

    /// Rows that replace those with the same coordinates.
    fn insert(kind: &Kind, number: &str, all: &str, twice: impl Fn(&str) -> String) -> Self {
        let rows = format!(
            "SELECT {all} FROM ({} FROM unnest(range({number}, 30)) AS u(i))",
            kind.rows
        );
        let others = match kind.name {
            "duplicates" => "SELECT * FROM m".to_owned(),
            _ => format!(
                "SELECT m.* FROM m LEFT ANTI JOIN ({rows}) s ON {}",
                same(kind, "m")
            ),
        };
        Self {
            statement: format!("INSERT INTO t {rows}"),
            count: format!("SELECT count(*) FROM ({rows})"),
            twice: twice(&rows),
            rows: format!("{others} UNION ALL {rows}"),
        }
    }

    /// Some rows are new, others replace what is there, and others remove it.
    fn merge(kind: &Kind, rng: &mut Rng) -> Self {
        let (from, every) = (rng.below(80), rng.between(1, 4));
        let source = format!(
            "SELECT *, i FROM ({}, i FROM unnest(range({from}, 150, {every})) AS u(i))",
            kind.rows
        );
        let last = kind.columns.len() - 1;
        let (last, source) = (
            kind.columns[last],
            source.replace("SELECT *, i", "SELECT *"),
        );
        let on = same(kind, "t");
        let all = kind.columns.join(", ");
        let values = kind
            .columns
            .iter()
            .map(|name| format!("s.{name}"))
            .collect::<Vec<_>>()
            .join(", ");
        let updated = kind
            .columns
            .iter()
            .map(|name| {
                if *name == last {
                    format!("s.{name}")
                } else {
                    format!("t.{name}")
                }
            })
            .collect::<Vec<_>>()
            .join(", ");
        let keys = kind.columns[..kind.dimensions]
            .iter()
            .map(|name| format!("t.{name}"))
            .collect::<Vec<_>>()
            .join(", ");
        let joined = format!("m AS t JOIN ({source}) s ON {on} WHERE s.i % 3");
        let new = format!("SELECT {values} FROM ({source}) s LEFT ANTI JOIN m AS t ON {on}");
        let others = format!(
            "SELECT m.* FROM m LEFT ANTI JOIN (SELECT {keys} FROM {joined} < 2) s ON {}",
            same(kind, "m")
        );
        let plain = kind.columns[..kind.dimensions].join(", ");
        let changes =
            format!("SELECT {keys} FROM {joined} < 2 UNION ALL SELECT {plain} FROM ({new})");
        Self {
            statement: format!(
                "MERGE INTO t USING ({source}) s ON {on} WHEN MATCHED AND s.i % 3 = 0 THEN DELETE \
                 WHEN MATCHED AND s.i % 3 = 1 THEN UPDATE SET {last} = s.{last} \
                 WHEN NOT MATCHED THEN INSERT ({all}) VALUES ({values})"
            ),
            count: format!("SELECT count(*) FROM ({changes})"),
            rows: format!("{others} UNION ALL SELECT {updated} FROM {joined} = 1 UNION ALL {new}"),
            twice: format!("SELECT {plain} FROM ({changes}) GROUP BY {plain} HAVING count(*) > 1"),
        }
    }

    pub async fn check(&self, ctx: &SessionContext, kind: &Kind) -> Result<(), Failed> {
        let expected_count = found(ctx, &self.count).await?;
        let twice = !found(ctx, &self.twice).await?.is_empty();
        let before = found(ctx, "SELECT * FROM t").await?;
        let done = ctx.sql(&self.statement).await;
        let done = match done {
            Ok(plan) => plan.collect().await,
            Err(error) => Err(error),
        };
        let count = match done {
            Ok(_) if twice && kind.name != "duplicates" => {
                return Err("a row is changed or made twice, and nobody says so".into());
            }
            Ok(batches) => batches[0].column(0).as_primitive::<UInt64Type>().value(0),
            Err(error) => {
                let rightly = self.is_refused(ctx, kind, &error.to_string()).await?;
                let unchanged = found(ctx, "SELECT * FROM t").await? == before;
                return if rightly && unchanged {
                    Ok(())
                } else {
                    Err(format!("{error} (unchanged: {unchanged})").into())
                };
            }
        };
        run(ctx, &format!("CREATE OR REPLACE TABLE m AS {}", self.rows)).await?;
        let (expected, rows) = (
            found(ctx, "SELECT * FROM m").await?,
            found(ctx, "SELECT * FROM t").await?,
        );
        if rows != expected {
            let differing = rows.iter().zip(&expected).find(|(a, b)| a != b);
            return Err(format!(
                "{} rows, expected {}: {differing:?}",
                rows.len(),
                expected.len()
            )
            .into());
        }
        if expected_count == [format!("[{count}]")] {
            Ok(())
        } else {
            Err(format!("{count} rows changed, expected {expected_count:?}").into())
        }
    }

    /// Whether the statement has to be refused: for the kind of the array, or because a row is changed twice or two rows would
    /// have one key.
    async fn is_refused(
        &self,
        ctx: &SessionContext,
        kind: &Kind,
        error: &str,
    ) -> Result<bool, Failed> {
        let told = [
            "would take the coordinates",
            "more than once",
            "allows no duplicates",
        ];
        Ok(kind.refused.iter().any(|why| error.contains(why))
            || told.iter().any(|why| error.contains(why))
                && !found(ctx, &self.twice).await?.is_empty())
    }
}

fn same(kind: &Kind, table: &str) -> String {
    let keys = kind.columns[..kind.dimensions]
        .iter()
        .map(|name| format!("{table}.{name} = s.{name}"));
    keys.collect::<Vec<_>>().join(" AND ")
}
