//! Conditions with queries in them: `IN`, `EXISTS` and comparisons with one value, also of the row outside.
//!
//! Queries of the outer row are those that DataFusion can turn into joins: of one table, tied to it by `=`.

use super::super::ast::{Body, Distinct, Expr, Item, Kind, Node, Query, Select};
use super::super::columns::Column;
use super::scope::{Named, Scope};
use super::{Generator, Wanted};

const COMPARISONS: [&str; 5] = [
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
                let op = *self.rng.pick(&COMPARISONS);
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
        let query = match self.chance(25) {
            true => {
                let (select, inner) = self.tied(scope)?;
                let item = inner.of_kind(&mut self.rng, kind)?.expr();
                one_item(select, item)
            }
            false => {
                let kinds = vec![kind];
                let wanted = Wanted {
                    kinds,
                    sorting: true,
                };
                self.query(depth.saturating_sub(1), &wanted).query
            }
        };
        let not = self.chance(30);
        let (value, query) = (Box::new(named.expr()), Box::new(query));
        Some(Expr::new(Kind::Bool, true, Node::In { not, value, query }))
    }

    fn exists(&mut self, scope: &Scope, depth: usize) -> Option<Expr> {
        let query = match self.chance(75) {
            true => {
                let (select, _) = self.tied(scope)?;
                one_item(select, Expr::literal(Kind::Int, "1"))
            }
            false => {
                self.query(depth.saturating_sub(1), &Wanted::default())
                    .query
            }
        };
        let exists = Expr::new(Kind::Bool, true, Node::Exists(Box::new(query)));
        Some(match self.chance(40) {
            true => Expr::test("(NOT {})", vec![exists]),
            false => exists,
        })
    }

    /// A query of one value.
    pub fn scalar(&mut self, kind: Kind, scope: &Scope, depth: usize) -> Option<Expr> {
        let query = match self.chance(45) {
            true => {
                let (select, inner) = self.tied(scope)?;
                let item = self.end_of(kind, &inner)?;
                one_item(select, item)
            }
            false => {
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
            }
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
