//! Makes random statements, well typed and of one answer.
//!
//! A [`Generator`] knows the tables, and the views and CTEs it has made; [`Scope`](scope::Scope) is what a `SELECT` may
//! name. Each file makes one part: `from` tables and joins, `exprs` and `conditions` expressions, `subqueries`,
//! `aggregates`, `windows`, `order` orders and limits, `select` puts them together, `statement` whole statements.

mod aggregates;
mod conditions;
mod exprs;
mod from;
mod order;
mod scope;
mod select;
mod statement;
mod subqueries;
mod tests;
mod values;
mod windows;

use super::ast::{Kind, Query};
use super::columns::Column;
use super::determined::Keys;
use super::rng::Rng;

pub use tests::trials;

/// A table, view or CTE.
#[derive(Debug, Clone)]
pub struct Relation {
    pub name: String,
    pub columns: Vec<Column>,
    /// About how many rows it has.
    pub rows: usize,
}

/// A query and what it gives.
#[derive(Debug, Clone)]
pub struct Made {
    pub query: Query,
    pub columns: Vec<Column>,
    pub rows: usize,
}

/// What a query is for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The kinds of its columns; any, if there are none.
    pub kinds: Vec<Kind>,
    /// Whether all of them must sort.
    pub sorting: bool,
}

/// Makes statements over tables.
#[derive(Debug)]
pub struct Generator {
    pub rng: Rng,
    relations: Vec<Relation>,
    keys: Keys,
    names: usize,
    /// Joins of more rows than this are not made.
    most_rows: usize,
    /// Whether the statement asks one table: what is rewritten best is simple.
    lone: bool,
}

/// So many pairs of rows a join may look at.
const MOST_ROWS: usize = 40_000;

impl Generator {
    /// Over these tables, of which some have keys.
    pub fn new(rng: Rng, tables: Vec<(Relation, Option<Vec<String>>)>) -> Self {
        let mut keys = Keys::new();
        let mut relations = Vec::new();
        let mut most_rows = MOST_ROWS;
        for (relation, key) in tables {
            most_rows = most_rows.max(2 * relation.rows);
            if let Some(key) = key {
                keys.insert(relation.name.clone(), key);
            }
            relations.push(relation);
        }
        Self {
            rng,
            relations,
            keys,
            names: 0,
            most_rows,
            lone: false,
        }
    }

    /// A name that nothing else has.
    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// The name of the aggregate of one end or the other.
    fn min_or_max(&mut self) -> &'static str {
        if self.chance(50) { "min" } else { "max" }
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.rng.chance(percent)
    }
}
