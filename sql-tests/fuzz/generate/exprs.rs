//! Expressions of one row: columns, arithmetic, functions, `CASE`, casts.
//!
//! Nothing is made that fails on some rows: no division by what may be zero, no cast that may overflow.

use super::super::ast::{Expr, Kind, Node};
use super::Generator;
use super::scope::Scope;

impl Generator {
    /// An expression of a kind.
    pub fn expr(&mut self, kind: Kind, scope: &Scope, depth: usize) -> Expr {
        let column = scope.of_kind(&mut self.rng, kind).map(|named| named.expr());
        if depth == 0 || !kind.sorts() || kind == Kind::Other || self.chance(45) {
            return match column {
                Some(column) => column,
                None => self.value(kind),
            };
        }
        if self.chance(20) {
            return self.general(kind, scope, depth - 1);
        }
        match kind {
            Kind::Int => self.integer(scope, depth - 1),
            Kind::Float => self.float(scope, depth - 1),
            Kind::Text => self.text(scope, depth - 1),
            Kind::Date | Kind::Stamp => self.time(kind, scope, depth - 1),
            _ => self.condition(scope, depth - 1),
        }
    }

    /// A column, as it is or computed with.
    pub fn any(&mut self, scope: &Scope, depth: usize) -> Expr {
        let kinds = scope.kinds();
        match self.rng.pick_any(&kinds).copied() {
            Some(kind) if self.chance(35) => self.expr(kind, scope, depth),
            _ => match scope.pick(&mut self.rng, |c| c.kind.sorts()) {
                Some(column) => column.expr(),
                None => self.value(Kind::Int),
            },
        }
    }

    /// What there is for every kind.
    fn general(&mut self, kind: Kind, scope: &Scope, depth: usize) -> Expr {
        let (one, other) = (self.expr(kind, scope, depth), self.expr(kind, scope, depth));
        match self.rng.below(3) {
            0 => Expr::op(kind, "coalesce({}, {})", vec![one, other]),
            1 => Expr::op(kind, "nullif({}, {})", vec![one, other]),
            _ => {
                let when = self.condition(scope, depth);
                let args = vec![when, one, other];
                match self.chance(70) {
                    true => Expr::op(kind, "CASE WHEN {} THEN {} ELSE {} END", args),
                    false => {
                        let when = self.condition(scope, 0);
                        let (second, more) = (self.expr(kind, scope, 0), args);
                        let args = [more[..2].to_vec(), vec![when, second]].concat();
                        Expr::op(kind, "CASE WHEN {} THEN {} WHEN {} THEN {} END", args)
                    }
                }
            }
        }
    }

    fn integer(&mut self, scope: &Scope, depth: usize) -> Expr {
        let choice = self.rng.below(10);
        if choice == 0
            && let Some(list) = scope.pick(&mut self.rng, |c| c.numbers)
        {
            return Expr::new(
                Kind::Int,
                false,
                Node::Op {
                    text: "{}[1]".to_owned(),
                    args: vec![list.expr()],
                },
            );
        }
        if choice == 1
            && let Some(list) = scope.of_kind(&mut self.rng, Kind::List)
        {
            return Expr::op(
                Kind::Int,
                "CAST(array_length({}) AS BIGINT)",
                vec![list.expr()],
            );
        }
        if choice <= 3 && scope.of_kind(&mut self.rng, Kind::Text).is_some() {
            let text = self.expr(Kind::Text, scope, depth);
            let op = *self
                .rng
                .pick(&["length({})", "CAST(strpos({}, 'a') AS BIGINT)"]);
            return Expr::op(Kind::Int, op, vec![text]);
        }
        if choice <= 5 {
            for kind in [Kind::Stamp, Kind::Date] {
                if let Some(column) = scope.pick(&mut self.rng, |c| c.kind == kind && c.tame) {
                    let part = *self
                        .rng
                        .pick(&["year", "month", "day", "dow", "hour", "week"]);
                    let part = if kind == Kind::Date && part == "hour" {
                        "doy"
                    } else {
                        part
                    };
                    let text = format!("CAST(date_part('{part}', {{}}) AS BIGINT)");
                    return Expr::op(Kind::Int, text, vec![column.expr()]);
                }
            }
        }
        let one = self.expr(Kind::Int, scope, depth);
        if !one.tame {
            return match self.chance(50) {
                true => Expr::op(Kind::Int, "TRY_CAST({} AS BIGINT)", vec![one]),
                false => one,
            };
        }
        let constant = 1 + self.rng.below(5);
        match self.rng.below(7) {
            0 => Expr::op(Kind::Int, format!("({{}} + {constant})"), vec![one]),
            1 => Expr::op(Kind::Int, format!("({{}} % {constant})"), vec![one]),
            2 => Expr::op(Kind::Int, format!("({{}} / {constant})"), vec![one]),
            3 => Expr::op(Kind::Int, "(0 - {})", vec![one]),
            4 => Expr::op(Kind::Int, "CAST({} AS BIGINT)", vec![one]),
            5 => {
                let other = self.expr(Kind::Int, scope, 0);
                match other.tame {
                    true => Expr::op(Kind::Int, "({} - {})", vec![one, other]),
                    false => Expr::op(Kind::Int, "abs({})", vec![one]),
                }
            }
            _ => Expr::op(Kind::Int, "({} * 2)", vec![one]),
        }
    }

    fn float(&mut self, scope: &Scope, depth: usize) -> Expr {
        let one = self.expr(Kind::Float, scope, depth);
        let whole = self.expr(Kind::Int, scope, depth);
        match self.rng.below(5) {
            0 => Expr::op(Kind::Float, "CAST({} AS DOUBLE)", vec![whole]),
            1 => Expr::op(Kind::Float, "({} + 0.5)", vec![one]),
            2 => Expr::op(Kind::Float, "abs({})", vec![one]),
            3 => Expr::op(Kind::Float, "({} * 2)", vec![one]),
            _ => Expr::op(Kind::Float, "(0.0 - {})", vec![one]),
        }
    }

    fn text(&mut self, scope: &Scope, depth: usize) -> Expr {
        let one = self.expr(Kind::Text, scope, depth);
        match self.rng.below(6) {
            0 => Expr::op(Kind::Text, "upper({})", vec![one]),
            1 => Expr::op(Kind::Text, "substr({}, 2)", vec![one]),
            2 => Expr::op(Kind::Text, "substr({}, 1, 1)", vec![one]),
            3 => {
                let whole = self.expr(Kind::Int, scope, depth);
                Expr::op(Kind::Text, "CAST({} AS VARCHAR)", vec![whole])
            }
            4 => {
                let other = self.expr(Kind::Text, scope, 0);
                Expr::op(Kind::Text, "({} || {})", vec![one, other])
            }
            _ => Expr::op(Kind::Text, "concat({}, '-')", vec![one]),
        }
    }

    fn time(&mut self, kind: Kind, scope: &Scope, _depth: usize) -> Expr {
        let Some(column) = scope.pick(&mut self.rng, |c| c.kind == kind && c.tame) else {
            return match scope.of_kind(&mut self.rng, kind) {
                Some(column) => column.expr(),
                None => self.value(kind),
            };
        };
        let column = column.expr();
        if self.chance(60) {
            let unit = match kind {
                Kind::Date => *self.rng.pick(&["day", "week", "month", "year"]),
                _ => *self.rng.pick(&["hour", "day", "week", "month", "year"]),
            };
            let text = match kind {
                Kind::Date => format!("CAST(date_trunc('{unit}', {{}}) AS DATE)"),
                _ => format!("date_trunc('{unit}', {{}})"),
            };
            return Expr::op(kind, text, vec![column]);
        }
        match kind {
            Kind::Date => Expr::op(kind, "({} + INTERVAL '1 day')", vec![column]),
            _ => Expr::op(kind, "({} - INTERVAL '90 minutes')", vec![column]),
        }
    }
}
