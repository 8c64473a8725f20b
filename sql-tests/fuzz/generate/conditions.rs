//! Conditions on a row.

use super::super::ast::{Expr, Kind, Node};
use super::super::known::float;
use super::Generator;
use super::scope::Scope;

const COMPARISONS: [&str; 8] = [
    "({} = {})",
    "({} = {})",
    "({} <> {})",
    "({} < {})",
    "({} <= {})",
    "({} > {})",
    "({} >= {})",
    "({} IS NOT DISTINCT FROM {})",
];

impl Generator {
    /// A condition, of several parts if it may be deep.
    pub fn condition(&mut self, scope: &Scope, depth: usize) -> Expr {
        if depth > 0 && self.chance(45) {
            let one = self.condition(scope, depth - 1);
            if self.chance(15) {
                return Expr::test("(NOT {})", vec![one]);
            }
            let other = self.condition(scope, depth - 1);
            let op = match self.chance(55) {
                true => "({} AND {})",
                false => "({} OR {})",
            };
            return Expr::test(op, vec![one, other]);
        }
        self.atom(scope, depth)
    }

    fn atom(&mut self, scope: &Scope, depth: usize) -> Expr {
        let Some(named) = scope.pick(&mut self.rng, |_| true).cloned() else {
            return self.value(Kind::Bool);
        };
        let (column, kind) = (named.expr(), named.column.kind);
        if !kind.sorts() || kind == Kind::Other || self.chance(8) {
            let op = *self.rng.pick(&["({} IS NULL)", "({} IS NOT NULL)"]);
            return Expr::test(op, vec![column]);
        }
        if kind == Kind::Bool && self.chance(50) {
            let op = *self
                .rng
                .pick(&["{}", "(NOT {})", "({} IS TRUE)", "({} IS NOT FALSE)"]);
            return Expr::test(op, vec![column]);
        }
        let comparison = *self.rng.pick(&COMPARISONS);
        let value = self.value_for(&named.column);
        match self.rng.below(12) {
            0 => {
                let other = self.value_for(&named.column);
                let op = *self
                    .rng
                    .pick(&["({} BETWEEN {} AND {})", "({} NOT BETWEEN {} AND {})"]);
                Expr::test(op, vec![column, value, other])
            }
            1 | 2 => {
                let more = self.rng.below(5);
                let mut args = vec![column, value];
                args.extend((0..more).map(|_| self.value_for(&named.column)));
                if kind == Kind::Float {
                    args.iter_mut().skip(1).for_each(leave_zero);
                }
                let not = if self.chance(25) { "NOT " } else { "" };
                // DataFusion forgets NULL where such a list meets another one: nulls-in-lists.md.
                if !not.is_empty() && args.iter().skip(1).any(is_null) {
                    return Expr::test("({} IS NULL)", args.into_iter().take(1).collect());
                }
                let gaps = vec!["{}"; more + 1].join(", ");
                Expr::test(format!("({{}} {not}IN ({gaps}))"), args)
            }
            3 if kind == Kind::Text => self.pattern(column, value),
            3 => Expr::test("({} IS DISTINCT FROM {})", vec![column, value]),
            4 => match scope.of_kind(&mut self.rng, kind) {
                Some(other) => Expr::test(comparison, vec![column, other.expr()]),
                None => Expr::test(comparison, vec![column, value]),
            },
            5 | 6 if depth > 0 => {
                let one = self.expr(kind, scope, depth);
                Expr::test(comparison, vec![one, value])
            }
            // In the ON of an outer join, DataFusion takes `9 = k` and `k = 9` for two conditions that exclude each other.
            7 if depth > 0 => Expr::test(comparison, vec![value, column]),
            8 if kind == Kind::Int => self.mixed(column, value),
            _ => Expr::test(comparison, vec![column, value]),
        }
    }

    /// Numbers compared as numbers of another type, or as text.
    fn mixed(&mut self, column: Expr, value: Expr) -> Expr {
        match self.rng.below(4) {
            0 => Expr::test("(CAST({} AS DOUBLE) <= {})", vec![column, value]),
            1 => Expr::test(
                "(CAST({} AS VARCHAR) = CAST({} AS VARCHAR))",
                vec![column, value],
            ),
            2 => Expr::test("(TRY_CAST({} AS SMALLINT) = {})", vec![column, value]),
            _ => Expr::test("({} < {} + 0.5)", vec![column, value]),
        }
    }

    fn pattern(&mut self, column: Expr, value: Expr) -> Expr {
        match self.rng.below(6) {
            0 => Expr::test("({} LIKE '%')", vec![column]),
            1 => Expr::test("({} NOT LIKE '%b%')", vec![column]),
            2 => Expr::test("starts_with({}, {})", vec![column, value]),
            3 => Expr::test("({} LIKE 'a_%')", vec![column]),
            4 => Expr::test("({} ILIKE 'Z%')", vec![column]),
            _ => {
                let text = super::super::print::expr(&value);
                match text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')) {
                    Some(inner) => {
                        let prefix: String = inner.chars().take(2).collect();
                        match prefix.contains(['\'', '{']) {
                            true => Expr::test("({} LIKE {})", vec![column, value]),
                            false => Expr::test(format!("({{}} LIKE '{prefix}%')"), vec![column]),
                        }
                    }
                    None => Expr::test("({} > {})", vec![column, value]),
                }
            }
        }
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(&expr.node, Node::Literal(text) if text.contains("NULL"))
}

/// Replaces what may be a zero by another number: in a list DataFusion tells 0.0 and -0.0 apart or not, depending
/// on whether it makes comparisons of the list.
fn leave_zero(value: &mut Expr) {
    if let Node::Literal(text) = &mut value.node {
        let zero = float(text).is_none_or(|number| number == 0.0);
        if zero && !text.contains("NULL") {
            *text = "0.5".to_owned();
        }
    }
}
