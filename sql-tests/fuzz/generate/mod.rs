//! Makes random statements, well typed and of one answer.
//!
//! A [`Generator`] knows the tables, and the views and CTEs it has made; [`Scope`] is what a `SELECT` may
//! name. Each file makes one part: `from` tables and joins, `exprs` and `conditions` expressions, `aggregates`,
//! `windows`, `order` orders and limits, `select` puts them together, `statement` whole statements.

mod aggregates;
mod conditions;
mod exprs;
mod from;
mod order;
mod select;
mod statement;
mod tests;
mod windows;

use super::ast::{Expr, Kind, Query};
use super::columns::Column;
use super::determined::Keys;
use crate::support::rng::Rng;

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

/// A column of a table of the `FROM` clause.
#[derive(Debug, Clone)]
pub struct Named {
    pub alias: String,
    pub column: Column,
}

impl Named {
    pub fn expr(&self) -> Expr {
        Expr::column(
            self.column.kind,
            self.column.tame,
            &self.alias,
            &self.column.name,
        )
    }
}

/// The columns of a `FROM` clause.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    pub columns: Vec<Named>,
    /// About how many rows there are.
    pub rows: usize,
    /// Of a lone table the columns that tell its rows apart.
    pub key: Vec<Expr>,
}

impl Scope {
    /// The columns of one table.
    pub fn of(alias: &str, columns: &[Column], rows: usize) -> Self {
        let named = |column: &Column| Named {
            alias: alias.to_owned(),
            column: column.clone(),
        };
        Self {
            columns: columns.iter().map(named).collect(),
            rows,
            key: Vec::new(),
        }
    }

    /// A column of which something holds.
    pub fn pick(&self, rng: &mut Rng, is: impl Fn(&Column) -> bool) -> Option<&Named> {
        let fitting: Vec<&Named> = self.columns.iter().filter(|n| is(&n.column)).collect();
        rng.pick_any(&fitting).copied()
    }

    /// A column of a kind.
    pub fn of_kind(&self, rng: &mut Rng, kind: Kind) -> Option<&Named> {
        self.pick(rng, |column| column.kind == kind)
    }

    /// Kinds that occur and can be computed with.
    pub fn kinds(&self) -> Vec<Kind> {
        let kinds = self.columns.iter().map(|named| named.column.kind);
        let computed = |kind: &Kind| kind.sorts() && *kind != Kind::Other;
        let mut kinds: Vec<Kind> = kinds.filter(computed).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}
