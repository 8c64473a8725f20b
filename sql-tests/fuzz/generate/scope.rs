//! What the expressions of a `SELECT` may name.

use super::super::ast::{Expr, Kind};
use super::super::columns::Column;
use super::super::rng::Rng;

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
