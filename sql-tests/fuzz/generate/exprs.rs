//! Expressions of one row: columns, arithmetic, functions, `CASE`, casts, and literals.
//!
//! Nothing is made that fails on some rows: no division by what may be zero, no cast that may overflow.

use super::super::ast::{Expr, Kind, Node};
use super::super::columns::{self, Column};
use super::{Generator, Scope};

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
                if self.chance(70) {
                    Expr::op(kind, "CASE WHEN {} THEN {} ELSE {} END", args)
                } else {
                    let when = self.condition(scope, 0);
                    let (second, more) = (self.expr(kind, scope, 0), args);
                    let args = [more[..2].to_vec(), vec![when, second]].concat();
                    Expr::op(kind, "CASE WHEN {} THEN {} WHEN {} THEN {} END", args)
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
            return if self.chance(50) {
                Expr::op(Kind::Int, "TRY_CAST({} AS BIGINT)", vec![one])
            } else {
                one
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
                if other.tame {
                    Expr::op(Kind::Int, "({} - {})", vec![one, other])
                } else {
                    Expr::op(Kind::Int, "abs({})", vec![one])
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

const LIMITS: [&str; 12] = [
    "127",
    "-128",
    "255",
    "32767",
    "65535",
    "2147483647",
    "-2147483648",
    "4294967295",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "0",
];
const FLOATS: [&str; 8] = [
    "0.0",
    "CAST('-0.0' AS DOUBLE)",
    "CAST('NaN' AS DOUBLE)",
    "CAST('inf' AS DOUBLE)",
    "CAST('-inf' AS DOUBLE)",
    "1e300",
    "0.1",
    "-1",
];
const TEXTS: [&str; 7] = ["''", "'a'", "'ab'", "'zzzz'", "'%'", "'Ü'", "' '"];

impl Generator {
    /// A value to compare a column with.
    pub fn value_for(&mut self, column: &Column) -> Expr {
        let kind = column.kind;
        if self.chance(2) {
            return self.null(kind);
        }
        let Some(value) = self.rng.pick_any(&column.values).cloned() else {
            return self.value(kind);
        };
        if self.chance(60) {
            return Expr::literal(kind, value);
        }
        if self.chance(20) {
            return self.value(kind);
        }
        self.beside(kind, &value)
    }

    fn beside(&mut self, kind: Kind, value: &str) -> Expr {
        let up = self.chance(50);
        let sign = if up { "+" } else { "-" };
        let text = match kind {
            Kind::Int => match value.parse::<i128>() {
                Ok(number) if self.chance(80) => (number + if up { 1 } else { -1 }).to_string(),
                // A literal of another type, just beside the number or equal to it.
                Ok(number) if up => format!("{number}.5"),
                _ => format!("CAST({value} AS DOUBLE)"),
            },
            Kind::Float => format!("({value} {sign} 0.125)"),
            Kind::Text => {
                let inner = &value[1..value.len() - 1];
                let cut = inner.chars().count().saturating_sub(1);
                let prefix: String = inner.chars().take(cut).collect();
                if up || prefix.contains('\'') || inner.contains('\'') {
                    format!("'{inner}!'")
                } else {
                    columns::text(&prefix)
                }
            }
            Kind::Date if self.chance(40) => {
                format!("(CAST({value} AS TIMESTAMP) {sign} INTERVAL '12 hours')")
            }
            Kind::Date => format!("({value} {sign} INTERVAL '1 day')"),
            Kind::Stamp => match self.rng.below(10) {
                0 | 1 => value.replacen("TIMESTAMP ", "", 1),
                // The literal is finer than most columns.
                2 | 3 => format!("({value} {sign} INTERVAL '0.5 seconds')"),
                4 => format!("({value} {sign} INTERVAL '1 nanosecond')"),
                5 => value.replacen("TIMESTAMP ", "TIMESTAMPTZ ", 1),
                _ => format!("({value} {sign} INTERVAL '1 hour')"),
            },
            _ => value.to_owned(),
        };
        Expr::literal(kind, text)
    }

    /// A value of a kind, of no column.
    pub fn value(&mut self, kind: Kind) -> Expr {
        let text = match kind {
            Kind::Bool => (*self.rng.pick(&["TRUE", "FALSE"])).to_owned(),
            Kind::Int if self.chance(25) => {
                let text = (*self.rng.pick(&LIMITS)).to_owned();
                return Expr::new(kind, false, Node::Literal(text));
            }
            Kind::Int => (self.rng.below(14) as i64 - 3).to_string(),
            Kind::Float => {
                let text = (*self.rng.pick(&FLOATS)).to_owned();
                return Expr::new(kind, false, Node::Literal(text));
            }
            Kind::Text => (*self.rng.pick(&TEXTS)).to_owned(),
            Kind::Date => format!("DATE '2024-01-{:02}'", 1 + self.rng.below(31)),
            Kind::Stamp => format!(
                "TIMESTAMP '2024-01-{:02}T{:02}:00:00'",
                1 + self.rng.below(31),
                self.rng.below(24)
            ),
            Kind::Other | Kind::List | Kind::Approximate => "NULL".to_owned(),
        };
        Expr::literal(kind, text)
    }

    /// NULL of a kind.
    pub fn null(&mut self, kind: Kind) -> Expr {
        let text = match kind {
            Kind::Bool => "CAST(NULL AS BOOLEAN)",
            Kind::Int => "CAST(NULL AS BIGINT)",
            Kind::Float => "CAST(NULL AS DOUBLE)",
            Kind::Text => "CAST(NULL AS VARCHAR)",
            Kind::Date => "CAST(NULL AS DATE)",
            Kind::Stamp => "CAST(NULL AS TIMESTAMP)",
            Kind::Other | Kind::List | Kind::Approximate => "NULL",
        };
        Expr::literal(kind, text)
    }
}
