//! Makes a failing case smaller for as long as it fails: the statement, the session's shape, the arrays.
//!
//! A statement is cut by a [`Knife`]: a walk that offers every cut there is and makes the one whose number it was given.
//! The cuts are tried one after the other, until none of them leaves a statement that fails.

pub mod arrays;
mod exprs;
mod queries;

use super::ast::Statement;

/// Counts the cuts of a statement, and makes one.
#[derive(Debug)]
pub struct Knife {
    left: usize,
    done: bool,
}

impl Knife {
    fn new(number: usize) -> Self {
        Self {
            left: number,
            done: false,
        }
    }

    /// Offers a cut; true if it is the one to make.
    fn cuts(&mut self) -> bool {
        if self.done {
            return false;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                false
            }
            None => {
                self.done = true;
                true
            }
        }
    }
}

/// A statement with cut number `number` made, if there are so many.
pub fn cut(statement: &Statement, number: usize) -> Option<Statement> {
    let mut statement = statement.clone();
    let mut knife = Knife::new(number);
    queries::cut_statement(&mut statement, &mut knife);
    knife.done.then_some(statement)
}

/// The smallest statement that `fails` and that cuts lead to.
pub fn smallest(statement: Statement, fails: &mut dyn FnMut(&Statement) -> bool) -> Statement {
    let mut smallest = statement;
    loop {
        let (mut number, mut progress) = (0, false);
        while let Some(smaller) = cut(&smallest, number) {
            if smaller != smallest && fails(&smaller) {
                (smallest, progress) = (smaller, true);
            } else {
                number += 1;
            }
        }
        if !progress {
            return smallest;
        }
    }
}
