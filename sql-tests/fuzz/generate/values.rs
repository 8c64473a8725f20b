//! Literals: values that occur in a column, those just beside them, the limits of types, and now and then NULL.

use super::super::ast::{Expr, Kind, Node};
use super::super::columns::{self, Column};
use super::Generator;

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
            Kind::Date => format!("({value} {sign} INTERVAL '1 day')"),
            Kind::Stamp if self.chance(30) => value.replacen("TIMESTAMP ", "", 1),
            Kind::Stamp => format!("({value} {sign} INTERVAL '1 hour')"),
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
