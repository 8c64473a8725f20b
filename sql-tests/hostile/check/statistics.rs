//! Stored statistics, each changed alone and found; and which oddities pass when only true ones may.

use libtest_mimic::Failed;
use tiledb_engine::maintain::check::{CheckOptions, Rule};

use super::damages::Damage;
use super::findings;
use super::forge::{Metadata, edit};
use crate::support::array_files::Files;

/// The statistics of the fragment's first slots: temperature, wind, condition, note of the weather stations.
fn total(metadata: &mut Metadata, slot: usize, change: impl FnOnce(&mut Slot)) {
    metadata.totals(|statistics| change(&mut statistics.slots[slot]));
}

type Slot = tiledb_engine::format::fragment::statistics::SlotStatistics;

/// Changes the lowest byte of a tile's minimum or maximum.
fn nudge(metadata: &mut Metadata, start: u64, at: usize) {
    metadata.min_max(start, |values| {
        values.fixed[at] = values.fixed[at].wrapping_add(1);
    });
}

pub const DAMAGES: &[Damage] = &[
    Damage {
        rule: Rule::TileMin,
        array: "weather_stations",
        object: "a0.tdb, attribute temperature, tile 0",
        besides: &[],
        damage: |files| {
            edit(files, "__1000_", |metadata| {
                let start = metadata.footer.sections.mins[0];
                nudge(metadata, start, 0);
            });
        },
    },
    Damage {
        rule: Rule::TileMin,
        array: "weather_stations",
        object: "a1.tdb, attribute wind, tile 1",
        besides: &[],
        damage: |files| {
            edit(files, "__1000_", |metadata| {
                let start = metadata.footer.sections.mins[1];
                nudge(metadata, start, 4);
            });
        },
    },
    Damage {
        rule: Rule::TileMin,
        array: "delete_consolidated",
        object: "attribute s, tile 0",
        besides: &[],
        damage: |files| {
            edit(files, "", |metadata| {
                let start = metadata.footer.sections.mins[1];
                metadata.min_max(start, |values| values.var[0] ^= 1);
            });
        },
    },
    Damage {
        rule: Rule::TileMin,
        array: "delete_consolidated",
        object: "field __timestamps, tile 0",
        besides: &[],
        damage: |files| {
            edit(files, "", |metadata| {
                let slot = metadata.slot(super::forge::Of::Times);
                let start = metadata.footer.sections.mins[slot];
                nudge(metadata, start, 0);
            });
        },
    },
    Damage {
        rule: Rule::TileMin,
        array: "quickstart_dense",
        object: "attribute a, tile 0",
        besides: &[],
        damage: |files| {
            edit(files, "", |metadata| {
                let start = metadata.footer.sections.mins[0];
                nudge(metadata, start, 0);
            });
        },
    },
    Damage {
        rule: Rule::TileMax,
        array: "weather_stations",
        object: "attribute condition, tile 0",
        besides: &[],
        damage: |files| {
            edit(files, "__1000_", |metadata| {
                let start = metadata.footer.sections.maxes[2];
                nudge(metadata, start, 0);
            });
        },
    },
    Damage {
        rule: Rule::TileMax,
        array: "sparse_nullable",
        object: "attribute c, tile 0",
        besides: &[],
        damage: |files| {
            edit(files, "", |metadata| {
                let start = metadata.footer.sections.maxes[9];
                nudge(metadata, start, 1);
            });
        },
    },
    Damage {
        rule: Rule::TileSum,
        array: "weather_stations",
        object: "dimension time, tile 0",
        besides: &[],
        damage: |files| {
            edit(files, "__1000_", |metadata| {
                let slot = metadata.slot(super::forge::Of::Dimension(1));
                let start = metadata.footer.sections.sums[slot];
                metadata.numbers(start, |sums| sums[0] += 1);
            });
        },
    },
    Damage {
        rule: Rule::TileSum,
        array: "weather_stations",
        object: "attribute temperature, tile 0",
        besides: &[],
        damage: |files| {
            edit(files, "__1000_", |metadata| {
                let start = metadata.footer.sections.sums[0];
                metadata.numbers(start, |sums| {
                    sums[0] = (f64::from_bits(sums[0]) + 1e-6).to_bits();
                });
            });
        },
    },
    Damage {
        rule: Rule::TileSum,
        array: "quickstart_dense",
        object: "attribute a, tile 0",
        besides: &[],
        damage: |files| {
            edit(files, "", |metadata| {
                let start = metadata.footer.sections.sums[0];
                metadata.numbers(start, |sums| sums[0] += 1);
            });
        },
    },
    Damage {
        rule: Rule::TileNullCount,
        array: "weather_stations",
        object: "attribute wind, tile 0",
        besides: &[],
        damage: |files| {
            edit(files, "__1000_", |metadata| {
                let start = metadata.footer.sections.null_counts[1];
                metadata.numbers(start, |counts| counts[0] += 1);
            });
        },
    },
    Damage {
        rule: Rule::TileNullCount,
        array: "dense_nullable_fixed",
        object: "attribute i, tile 0",
        besides: &[],
        damage: |files| {
            edit(files, "", |metadata| {
                let start = metadata.footer.sections.null_counts[0];
                metadata.numbers(start, |counts| counts[0] += 1);
            });
        },
    },
    Damage {
        rule: Rule::FragmentMin,
        array: "weather_stations",
        object: "fragment minimum of attribute wind",
        besides: &[],
        damage: |files| {
            edit(files, "__1000_", |metadata| {
                total(metadata, 1, |slot| slot.min[0] ^= 1);
            });
        },
    },
    Damage {
        rule: Rule::FragmentMax,
        array: "delete_consolidated",
        object: "fragment maximum of attribute s",
        besides: &[],
        damage: |files| {
            edit(files, "", |metadata| {
                total(metadata, 1, |slot| slot.max.push(b'z'));
            });
        },
    },
    Damage {
        rule: Rule::FragmentSum,
        array: "weather_stations",
        object: "fragment sum of attribute condition",
        besides: &[],
        damage: |files| {
            edit(files, "__1000_", |metadata| {
                total(metadata, 2, |slot| slot.sum[0] ^= 1);
            });
        },
    },
    Damage {
        rule: Rule::FragmentNullCount,
        array: "weather_stations",
        object: "fragment null count of attribute wind",
        besides: &[],
        damage: |files| {
            edit(files, "__1000_", |metadata| {
                total(metadata, 1, |slot| slot.null_count += 1);
            });
        },
    },
];

trial!(exact_statistics);
/// What libtiledb stores otherwise is told on demand, and what it stores rightly is not.
async fn exact_statistics() -> Result<(), Failed> {
    let exact = || CheckOptions::default().with_exact_statistics(true);
    for (array, expected) in [
        // Of nullable text beyond ASCII libtiledb counts no NULLs.
        ("weather_stations", Some(Rule::TileNullCount)),
        ("rtree_three_levels", None),
        ("delete_consolidated", None),
        ("quickstart_dense", None),
        ("sparse_nan_statistics", Some(Rule::TileMin)),
    ] {
        let files = Files::golden(array);
        let found = findings(files.in_memory().await, exact()).await?;
        let wrong = found.iter().filter(|f| f.rule.name().starts_with("tile-"));
        let rules: Vec<Rule> = wrong.map(|f| f.rule).collect();
        let fits = match expected {
            None => rules.is_empty(),
            Some(rule) => rules.contains(&rule),
        };
        if !fits {
            return Err(format!("{array}: {found:?}").into());
        }
    }
    Ok(())
}
