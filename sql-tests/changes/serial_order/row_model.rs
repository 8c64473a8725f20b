//! Random statements, and what they do to rows in memory.

use std::collections::BTreeMap;

use super::{ArrayKind, CELLS, FILL, ROWS};
use crate::support::rng::Rng;

/// A statement.
#[derive(Debug, Clone)]
pub enum RandomStatement {
    Insert(Vec<(i64, i64)>),
    /// Copies rows to other coordinates.
    Copy {
        from: i64,
        until: i64,
        by: i64,
    },
    Overwrite(Vec<(i64, i64)>),
    /// Adds to the values of rows.
    Raise {
        rows: RowCondition,
        by: i64,
    },
    /// Sets the values of rows.
    Set {
        rows: RowCondition,
        to: i64,
    },
    Move {
        rows: RowCondition,
        by: i64,
    },
    Delete {
        rows: RowCondition,
        by_coordinates: bool,
    },
    /// Adds to the values of existing rows, and inserts missing ones. With `deletes`, it deletes existing rows with an odd
    /// value instead.
    Merge {
        rows: Vec<(i64, i64)>,
        deletes: bool,
    },
    /// Sets rows to the sum of the values of others.
    SetToSum {
        rows: RowCondition,
        from: i64,
        until: i64,
    },
    DeleteGreatest,
    /// Inserts a row behind the last one.
    InsertNext,
    /// Inserts copies of rows as they were before the race.
    CopyPast {
        from: i64,
        until: i64,
        by: i64,
    },
    /// Adds the values of rows to those of rows elsewhere, which are inserted if they're missing.
    MergeOwn {
        from: i64,
        until: i64,
        by: i64,
    },
    Truncate,
    /// Counts the rows, counts the pairs of rows of a self-join, and sums up the values.
    Read,
}

/// The rows that satisfy a condition.
#[derive(Debug, Clone, Copy)]
pub enum RowCondition {
    At(i64),
    Between(i64, i64),
    AtWithValue(i64, i64),
    WithValue(i64),
    All,
}

impl RowCondition {
    fn has(self, k: i64, v: i64) -> bool {
        match self {
            Self::At(at) => k == at,
            Self::Between(lo, hi) => lo <= k && k <= hi,
            Self::AtWithValue(at, value) => k == at && v == value,
            Self::WithValue(value) => v == value,
            Self::All => true,
        }
    }

    /// The condition in SQL. With `plus`, it can't be stored in the array.
    fn sql(self, plus: &str) -> String {
        match self {
            Self::At(at) => format!("k{plus} = {at}"),
            Self::Between(lo, hi) => format!("k{plus} BETWEEN {lo} AND {hi}"),
            Self::AtWithValue(at, value) => format!("k = {at} AND v{plus} = {value}"),
            Self::WithValue(value) => format!("v{plus} = {value}"),
            Self::All => format!("k{plus} >= 0"),
        }
    }

    fn random(rng: &mut Rng) -> Self {
        let at = rng.below(4) as i64;
        match rng.below(10) {
            0..4 => Self::At(at),
            4 | 5 => Self::Between(at, at + 2),
            6 | 7 => Self::AtWithValue(at, rng.below(2) as i64),
            8 => Self::WithValue(rng.below(2) as i64),
            _ => Self::All,
        }
    }
}

/// The rows before a race.
pub fn first_rows() -> Vec<(i64, i64)> {
    (0..ROWS).map(|k| (k, k % 2)).collect()
}

/// Rows in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowModel {
    pub kind: ArrayKind,
    pub rows: Vec<(i64, i64)>,
}

/// A statement was refused regardless of other statements, and changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementRefused;

/// The numbers of rows and of pairs with the same key, and the sum of the values.
fn read(rows: &[(i64, i64)]) -> Vec<i64> {
    let (mut pairs, mut sum) = (0, 0_i64);
    for (k, v) in rows {
        sum = sum.wrapping_add(*v);
        pairs += rows.iter().filter(|(other, _)| other == k).count() as i64;
    }
    vec![rows.len() as i64, pairs, sum]
}

impl RowModel {
    /// The rows in order. A dense array shows all cells between the first and the last row.
    pub fn shown(&self) -> Vec<(i64, i64)> {
        let mut rows = self.rows.clone();
        rows.sort_unstable();
        if let (ArrayKind::Dense, [(first, _), .., (last, _)]) = (self.kind, rows.as_slice()) {
            let there = rows.iter().copied().collect::<BTreeMap<_, _>>();
            let cells = *first..=*last;
            return cells
                .map(|k| (k, *there.get(&k).unwrap_or(&FILL)))
                .collect();
        }
        rows
    }

    fn put(&mut self, k: i64, v: i64) {
        if self.kind != ArrayKind::Duplicates {
            self.rows.retain(|(other, _)| *other != k);
        }
        self.rows.push((k, v));
    }

    fn merge(&mut self, rows: &[(i64, i64)], deletes: bool, before: &[(i64, i64)]) {
        for (k, v) in rows {
            let there = before.iter().find(|row| row.0 == *k);
            match there {
                Some((_, old)) if deletes && old % 2 != 0 => {
                    self.rows.retain(|row| row.0 != *k);
                }
                Some((_, old)) => self.put(*k, old.wrapping_add(*v)),
                None => self.put(*k, *v),
            }
        }
    }

    /// Runs the statement and returns what it reports.
    pub fn run(&mut self, statement: &RandomStatement) -> Result<Vec<i64>, StatementRefused> {
        let before = self.shown();
        let all = |rows: &RowCondition| {
            let rows = before.iter().filter(|(k, v)| rows.has(*k, *v)).copied();
            rows.collect::<Vec<_>>()
        };
        let changed = match statement {
            RandomStatement::Insert(rows) => {
                rows.iter().for_each(|(k, v)| self.put(*k, *v));
                rows.len()
            }
            RandomStatement::Copy { from, until, by } => {
                let copied = all(&RowCondition::Between(*from, *until));
                copied.iter().for_each(|(k, v)| self.put(k + by, *v));
                copied.len()
            }
            RandomStatement::Overwrite(rows) => {
                let covered = before
                    .iter()
                    .all(|(k, _)| rows.iter().any(|row| row.0 == *k));
                if self.kind == ArrayKind::Dense && !covered {
                    return Err(StatementRefused);
                }
                self.rows.clone_from(rows);
                rows.len()
            }
            RandomStatement::Raise { rows, by } => {
                self.update(&all(rows), |k, v| (k, v.wrapping_add(*by)))?
            }
            RandomStatement::Set { rows, to } => self.update(&all(rows), |k, _| (k, *to))?,
            RandomStatement::Move { rows, by } => self.update(&all(rows), |k, v| (k + by, v))?,
            RandomStatement::Delete { rows, .. } => {
                self.rows.retain(|(k, v)| !rows.has(*k, *v));
                before.len() - self.rows.len()
            }
            RandomStatement::Merge { rows, deletes } => {
                self.merge(rows, *deletes, &before);
                rows.len()
            }
            RandomStatement::SetToSum { rows, from, until } => {
                let read = all(&RowCondition::Between(*from, *until));
                let sum = read.iter().fold(0_i64, |sum, (_, v)| sum.wrapping_add(*v));
                self.update(&all(rows), |k, _| (k, sum))?
            }
            RandomStatement::DeleteGreatest => {
                let greatest = before.iter().map(|(_, v)| *v).max();
                self.rows.retain(|(_, v)| Some(*v) != greatest);
                before.len() - self.rows.len()
            }
            RandomStatement::CopyPast { from, until, by } => {
                let copied = first_rows().into_iter();
                let copied = copied.filter(|(k, _)| (*from..=*until).contains(k));
                let copied = copied.collect::<Vec<_>>();
                copied.iter().for_each(|(k, v)| self.put(k + by, *v));
                copied.len()
            }
            RandomStatement::InsertNext => {
                let last = before.iter().map(|(k, _)| *k).max();
                self.put(last.unwrap_or(0) + 1, 5);
                1
            }
            RandomStatement::MergeOwn { from, until, by } => {
                let source = all(&RowCondition::Between(*from, *until));
                for (k, v) in &source {
                    let there = before.iter().find(|row| row.0 == k + by);
                    let old = there.map_or(0, |(_, old)| *old);
                    self.put(k + by, old.wrapping_add(*v));
                }
                source.len()
            }
            RandomStatement::Truncate => {
                self.rows.clear();
                before.len()
            }
            RandomStatement::Read => return Ok(read(&before)),
        };
        Ok(vec![changed as i64])
    }

    fn update(
        &mut self,
        old: &[(i64, i64)],
        new: impl Fn(i64, i64) -> (i64, i64),
    ) -> Result<usize, StatementRefused> {
        let mut left = self.rows.clone();
        left.retain(|row| !old.contains(row));
        let new = old.iter().map(|(k, v)| new(*k, *v)).collect::<Vec<_>>();
        let taken = |k: &i64| left.iter().any(|row| row.0 == *k);
        if self.kind != ArrayKind::Duplicates && new.iter().any(|(k, _)| taken(k)) {
            return Err(StatementRefused);
        }
        self.rows = left;
        self.rows.extend(new);
        Ok(old.len())
    }
}

impl RandomStatement {
    pub fn sql(&self, table: &str) -> String {
        let list = |rows: &[(i64, i64)]| {
            let rows = rows.iter().map(|(k, v)| format!("({k}, {v})"));
            rows.collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Insert(rows) => format!("INSERT INTO {table} VALUES {}", list(rows)),
            Self::Copy { from, until, by } => format!(
                "INSERT INTO {table} SELECT k + {by}, v FROM {table} WHERE k BETWEEN {from} AND {until}"
            ),
            Self::Overwrite(rows) => format!("INSERT OVERWRITE {table} VALUES {}", list(rows)),
            Self::Raise { rows, by } => {
                format!("UPDATE {table} SET v = v + {by} WHERE {}", rows.sql(""))
            }
            Self::Set { rows, to } => format!("UPDATE {table} SET v = {to} WHERE {}", rows.sql("")),
            Self::Move { rows, by } => {
                format!("UPDATE {table} SET k = k + {by} WHERE {}", rows.sql(""))
            }
            Self::Delete {
                rows,
                by_coordinates,
            } => {
                let plus = if *by_coordinates { " + 0" } else { "" };
                format!("DELETE FROM {table} WHERE {}", rows.sql(plus))
            }
            Self::Merge { rows, deletes } => {
                let delete = if *deletes {
                    format!("WHEN MATCHED AND {table}.v % 2 <> 0 THEN DELETE ")
                } else {
                    String::new()
                };
                format!(
                    "MERGE INTO {table} USING (VALUES {}) AS n(k, v) ON {table}.k = n.k {delete}\
                     WHEN MATCHED THEN UPDATE SET v = {table}.v + n.v \
                     WHEN NOT MATCHED THEN INSERT (k, v) VALUES (n.k, n.v)",
                    list(rows)
                )
            }
            Self::SetToSum { rows, from, until } => format!(
                "UPDATE {table} SET v = (SELECT coalesce(sum(v), 0) FROM {table} WHERE k BETWEEN {from} AND {until}) \
                 WHERE {}",
                rows.sql("")
            ),
            Self::DeleteGreatest => {
                format!("DELETE FROM {table} WHERE v = (SELECT max(v) FROM {table})")
            }
            Self::CopyPast { from, until, by } => format!(
                "INSERT INTO {table} SELECT k + {by}, v FROM past_{table} WHERE k BETWEEN {from} AND {until}"
            ),
            Self::InsertNext => format!(
                "INSERT INTO {table} SELECT (SELECT coalesce(max(k), 0) + 1 FROM {table}), 5"
            ),
            Self::MergeOwn { from, until, by } => format!(
                "MERGE INTO {table} USING (SELECT k + {by} AS k, v FROM {table} WHERE k BETWEEN {from} AND {until}) AS n \
                 ON {table}.k = n.k WHEN MATCHED THEN UPDATE SET v = {table}.v + n.v \
                 WHEN NOT MATCHED THEN INSERT (k, v) VALUES (n.k, n.v)"
            ),
            Self::Truncate => format!("TRUNCATE TABLE {table}"),
            Self::Read => format!(
                "SELECT (SELECT count(*) FROM {table}) AS n, (SELECT count(*) FROM {table} AS a JOIN {table} AS b ON a.k = b.k) AS pairs, \
                 (SELECT coalesce(sum(v), 0) FROM {table}) AS total"
            ),
        }
    }

    pub fn random(kind: ArrayKind, rng: &mut Rng) -> Self {
        let rows = RowCondition::random(rng);
        let first = rng.below(5) as i64;
        let some = |rng: &mut Rng| {
            let count = rng.between(1, 3) as i64;
            let rows = (first..first + count).map(|k| (k, 10 + rng.below(9) as i64));
            rows.collect::<Vec<_>>()
        };
        let dense = kind == ArrayKind::Dense;
        match rng.below(16) {
            0 | 1 => Self::Insert(some(rng)),
            2 if dense => Self::Overwrite((0..CELLS).map(|k| (k, 70 + k)).collect()),
            2 => Self::Overwrite(some(rng)),
            3 => Self::Raise { rows, by: 1 },
            4 => Self::Set {
                rows,
                to: rng.below(2) as i64,
            },
            5 if !dense => Self::Move {
                rows,
                by: rng.between(1, 4) as i64,
            },
            6 | 7 if !dense => Self::Delete {
                rows,
                by_coordinates: kind == ArrayKind::Sparse && rng.chance(40),
            },
            8 if kind != ArrayKind::Duplicates => Self::Merge {
                rows: some(rng),
                deletes: !dense && rng.chance(50),
            },
            9 => Self::Truncate,
            11 => Self::SetToSum {
                rows,
                from: first,
                until: first + 2,
            },
            12 if kind == ArrayKind::Sparse => Self::DeleteGreatest,
            15 => Self::CopyPast {
                from: first,
                until: first + 1,
                by: rng.between(0, 5) as i64,
            },
            14 if kind != ArrayKind::Dense => Self::InsertNext,
            13 if kind != ArrayKind::Duplicates => Self::MergeOwn {
                from: first,
                until: first + 1,
                by: rng.between(1, 5) as i64,
            },
            10 => Self::Copy {
                from: first,
                until: first + 1,
                by: rng.between(1, 5) as i64,
            },
            _ => Self::Read,
        }
    }
}
