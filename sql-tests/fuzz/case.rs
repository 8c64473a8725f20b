//! One case: tables, a statement and a session's shape, all of which follow from a seed and a number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::arrays::{Loaded, Shelf, Source};
use super::ast::{Kind, Statement};
use super::determined::Keys;
use super::generate::{Generator, Relation};
use super::judge::keeps_first_zero;
use super::run::Runner;
use super::session::Shape;
use crate::support::rng::Rng;

/// So many statements ask the same arrays, which are opened once.
pub const ROUND: u64 = 40;
const ARRAYS: usize = 4;
/// Arrays kept open.
const KEPT: usize = 300;

/// What is run and compared.
#[derive(Debug, Clone)]
pub struct Case {
    /// `t1`, `t2`, …
    pub tables: Vec<Arc<Loaded>>,
    pub statement: Statement,
    pub shape: Shape,
}

/// The arrays of a round of statements.
#[derive(Debug)]
pub struct Round {
    arrays: Vec<Arc<Loaded>>,
}

/// Arrays that were opened already.
#[derive(Debug, Default)]
pub struct Open(Mutex<HashMap<String, Arc<Loaded>>>);

impl Open {
    fn load(&self, source: Source, runner: &Runner) -> Result<Arc<Loaded>, String> {
        let name = format!("{source:?}");
        if let Some(loaded) = self.0.lock().expect("no panic while it is held").get(&name) {
            return Ok(Arc::clone(loaded));
        }
        let loaded = Arc::new(runner.wait(async move { source.load().await })?);
        let mut open = self.0.lock().expect("no panic while it is held");
        if open.len() >= KEPT {
            open.clear();
        }
        open.insert(name, Arc::clone(&loaded));
        Ok(loaded)
    }
}

impl Round {
    /// The arrays that statement `number` of a seed may ask. One that cannot be read, because at its time it was not
    /// yet there, gives way to another.
    pub fn of(seed: u64, number: u64, shelf: &Shelf, open: &Open, runner: &Runner) -> Self {
        let mut rng = Rng::new(seed, u64::MAX - number / ROUND);
        let mut arrays: Vec<Arc<Loaded>> = Vec::new();
        while arrays.len() < ARRAYS {
            if let Ok(array) = open.load(shelf.choose(&mut rng), runner) {
                arrays.push(array);
            }
        }
        Self { arrays }
    }

    /// The case of a number.
    pub fn case(&self, seed: u64, number: u64) -> Case {
        let mut rng = Rng::new(seed, number);
        let mut tables = Vec::new();
        for _ in 0..rng.between(1, 3) {
            tables.push(Arc::clone(rng.pick(&self.arrays)));
        }
        let rows = tables.iter().map(|table| table.rows.num_rows());
        let shape = Shape::random(&mut rng, rows.max().unwrap_or(0));
        let statement = Generator::new(rng, relations(&tables)).statement();
        Case {
            tables,
            statement,
            shape,
        }
    }
}

/// What the generator knows of tables.
pub fn relations(tables: &[Arc<Loaded>]) -> Vec<(Relation, Option<Vec<String>>)> {
    let relations = tables.iter().enumerate().map(|(number, table)| {
        let relation = Relation {
            name: format!("t{}", number + 1),
            columns: table.columns.clone(),
            rows: table.rows.num_rows(),
        };
        (relation, table.key.clone())
    });
    relations.collect()
}

impl Case {
    /// The keys of its tables.
    pub fn keys(&self) -> Keys {
        let keys = relations(&self.tables).into_iter();
        keys.filter_map(|(relation, key)| Some((relation.name, key?)))
            .collect()
    }

    /// Which columns of the answer need only be near.
    pub fn approximate(&self) -> Vec<bool> {
        let query = &self.statement.query;
        let either_zero = keeps_first_zero(query);
        let near = |kind| kind == Kind::Approximate || (either_zero && kind == Kind::Float);
        let output = query.output().into_iter();
        output.map(|(_, expr)| near(expr.kind)).collect()
    }
}
