//! Conditions on a row, also with queries in them: `IN`, `EXISTS` and comparisons with one value, also of the row
//! outside.

use super::super::ast::{Body, Distinct, Expr, Item, Kind, Node, Query, Select};
use super::super::columns::Column;
use super::super::judge::float;
use super::{Generator, Named, Scope, Wanted};

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
            let op = if self.chance(55) {
                "({} AND {})"
            } else {
                "({} OR {})"
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
                        if prefix.contains(['\'', '{']) {
                            Expr::test("({} LIKE {})", vec![column, value])
                        } else {
                            Expr::test(format!("({{}} LIKE '{prefix}%')"), vec![column])
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

const VALUE_COMPARISONS: [&str; 5] = [
    "({} = {})",
    "({} < {})",
    "({} >= {})",
    "({} <> {})",
    "({} > {})",
];

impl Generator {
    /// A condition with a query in it.
    pub fn query_condition(&mut self, scope: &Scope, depth: usize) -> Option<Expr> {
        match self.rng.below(10) {
            0..=3 => self.in_query(scope, depth),
            4..=6 => self.exists(scope, depth),
            _ => {
                let named = self.outer(scope)?;
                let value = self.scalar(named.column.kind, scope, depth)?;
                let op = *self.rng.pick(&VALUE_COMPARISONS);
                Some(Expr::test(op, vec![named.expr(), value]))
            }
        }
    }

    /// A column of a kind that can be compared.
    fn outer(&mut self, scope: &Scope) -> Option<Named> {
        let comparable = |kind: Kind| kind.sorts() && !matches!(kind, Kind::Other | Kind::Bool);
        scope.pick(&mut self.rng, |c| comparable(c.kind)).cloned()
    }

    fn in_query(&mut self, scope: &Scope, depth: usize) -> Option<Expr> {
        let named = self.outer(scope)?;
        let kind = named.column.kind;
        let query = if self.chance(25) {
            let (select, inner) = self.tied(scope)?;
            let item = inner.of_kind(&mut self.rng, kind)?.expr();
            one_item(select, item)
        } else {
            let kinds = vec![kind];
            let wanted = Wanted {
                kinds,
                sorting: true,
            };
            self.query(depth.saturating_sub(1), &wanted).query
        };
        let not = self.chance(30);
        let (value, query) = (Box::new(named.expr()), Box::new(query));
        Some(Expr::new(Kind::Bool, true, Node::In { not, value, query }))
    }

    fn exists(&mut self, scope: &Scope, depth: usize) -> Option<Expr> {
        let query = if self.chance(75) {
            let (select, _) = self.tied(scope)?;
            one_item(select, Expr::literal(Kind::Int, "1"))
        } else {
            self.query(depth.saturating_sub(1), &Wanted::default())
                .query
        };
        let exists = Expr::new(Kind::Bool, true, Node::Exists(Box::new(query)));
        Some(if self.chance(40) {
            Expr::test("(NOT {})", vec![exists])
        } else {
            exists
        })
    }

    /// A query of one value.
    pub fn scalar(&mut self, kind: Kind, scope: &Scope, depth: usize) -> Option<Expr> {
        let query = if self.chance(45) {
            let (select, inner) = self.tied(scope)?;
            let item = self.end_of(kind, &inner)?;
            one_item(select, item)
        } else {
            let (from, inner) = self.from(depth.min(1));
            let item = self.end_of(kind, &inner)?;
            let filter = self.chance(50).then(|| self.condition(&inner, 1));
            let select = Select {
                distinct: Distinct::No,
                items: Vec::new(),
                from,
                filter,
                group: None,
                having: None,
            };
            one_item(select, item)
        };
        Some(Expr::new(kind, false, Node::Scalar(Box::new(query))))
    }

    /// The least or greatest value of a kind, or how many there are.
    fn end_of(&mut self, kind: Kind, scope: &Scope) -> Option<Expr> {
        let closed = |column: &Column| column.kind == kind && (kind != Kind::Float || column.tame);
        let argument = scope.pick(&mut self.rng, closed)?.expr();
        let function = match (kind, self.chance(25)) {
            (Kind::Int, true) => "count",
            _ => *self.rng.pick(&["min", "max"]),
        };
        Some(aggregate(kind, function, vec![argument]))
    }

    /// A `SELECT` without items of a table's rows that agree with the outer row in a column.
    fn tied(&mut self, scope: &Scope) -> Option<(Select, Scope)> {
        let outer = self.outer(scope)?;
        let alias = self.name("a");
        let (from, inner) = self.table(alias);
        let own = inner.of_kind(&mut self.rng, outer.column.kind)?.clone();
        let pairs = scope.rows.saturating_mul(inner.rows);
        if pairs / own.column.distinct.max(1) > self.most_rows * 4 {
            return None;
        }
        let mut filter = Expr::test("({} = {})", vec![own.expr(), outer.expr()]);
        if self.chance(40) {
            let more = self.condition(&inner, 1);
            filter = Expr::test("({} AND {})", vec![filter, more]);
        }
        let select = Select {
            distinct: Distinct::No,
            items: Vec::new(),
            from,
            filter: Some(filter),
            group: None,
            having: None,
        };
        Some((select, inner))
    }
}

/// An aggregate function without any extras.
///
/// Queries of the outer row are those that DataFusion can turn into joins: of one table, tied to it by `=`.
pub fn aggregate(kind: Kind, function: &'static str, args: Vec<Expr>) -> Expr {
    let tame = function.starts_with("count") || args.iter().all(|a| a.tame);
    let node = Node::Aggregate {
        function,
        distinct: false,
        args,
        order: Vec::new(),
        filter: None,
    };
    Expr::new(kind, tame, node)
}

fn one_item(mut select: Select, expr: Expr) -> Query {
    let alias = "o".to_owned();
    select.items = vec![Item { expr, alias }];
    Query {
        ctes: Vec::new(),
        body: Body::Select(Box::new(select)),
        order: Vec::new(),
        limit: None,
        offset: 0,
    }
}
