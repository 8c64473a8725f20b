//! Tables, subqueries, `VALUES`, and joins of them.

use super::super::ast::{Body, Distinct, Expr, From, Item, Kind, On, Query, Select, SortKey};
use super::super::columns::Column;
use super::{Generator, Made, Named, Scope, Wanted};

const EQUAL_JOINS: [(usize, &str); 8] = [
    (8, "INNER JOIN"),
    (7, "LEFT JOIN"),
    (5, "RIGHT JOIN"),
    (5, "FULL JOIN"),
    (3, "LEFT SEMI JOIN"),
    (3, "LEFT ANTI JOIN"),
    (2, "RIGHT SEMI JOIN"),
    (2, "RIGHT ANTI JOIN"),
];

impl Generator {
    /// A `FROM` clause and what it brings into scope.
    pub fn from(&mut self, depth: usize) -> (From, Scope) {
        let (mut from, mut scope) = self.part(depth);
        let joins = if self.lone {
            0
        } else {
            self.rng.weighted(&[(55, 0), (32, 1), (13, 2)])
        };
        for _ in 0..joins {
            let (right, other) = self.part(depth.min(1));
            if let Some((joined, all)) = self.join(&from, &scope, right, &other) {
                (from, scope) = (joined, all);
            }
        }
        (from, scope)
    }

    /// A table, view, CTE, subquery or list of values.
    fn part(&mut self, depth: usize) -> (From, Scope) {
        let alias = self.name("a");
        if self.chance(8)
            && let Some(made) = self.top()
        {
            let scope = Scope::of(&alias, &made.columns, made.rows);
            let query = Box::new(made.query);
            return (From::Query { query, alias }, scope);
        }
        if depth > 0 && !self.lone && self.chance(20) {
            let made = self.query(depth - 1, &Wanted::default());
            let scope = Scope::of(&alias, &made.columns, made.rows);
            let query = Box::new(made.query);
            return (From::Query { query, alias }, scope);
        }
        if self.chance(5) {
            return self.values(alias);
        }
        self.table(alias)
    }

    /// A table, view or CTE.
    pub fn table(&mut self, alias: String) -> (From, Scope) {
        let relation = self.rng.pick(&self.relations).clone();
        let mut scope = Scope::of(&alias, &relation.columns, relation.rows);
        if let Some(key) = self.keys.get(&relation.name) {
            let columns = scope
                .columns
                .iter()
                .filter(|named| key.contains(&named.column.name));
            scope.key = columns.map(Named::expr).collect();
        }
        let name = relation.name;
        (From::Table { name, alias }, scope)
    }

    /// The first rows of a table in the order of its key, which a scan can give without a sort.
    fn top(&mut self) -> Option<Made> {
        let alias = self.name("a");
        let (from, scope) = self.table(alias);
        if scope.key.is_empty() {
            return None;
        }
        let (mut items, mut columns) = (Vec::new(), Vec::new());
        for named in &scope.columns {
            if named.column.kind.sorts() && (items.is_empty() || self.chance(70)) {
                let alias = self.name("o");
                let mut column = named.column.clone();
                column.name.clone_from(&alias);
                columns.push(column);
                items.push(Item {
                    expr: named.expr(),
                    alias,
                });
            }
        }
        let down = self.chance(30);
        let key = |expr: &Expr| SortKey {
            expr: expr.clone(),
            descending: down,
            nulls_first: None,
        };
        let order = scope.key.iter().map(key).collect();
        let limit = self.rng.between(1, 60);
        let select = Select {
            distinct: Distinct::No,
            items,
            from,
            filter: self.chance(30).then(|| self.condition(&scope, 1)),
            group: None,
            having: None,
        };
        let query = Query {
            ctes: Vec::new(),
            body: Body::Select(Box::new(select)),
            order,
            limit: Some(limit),
            offset: if self.chance(25) {
                self.rng.below(30)
            } else {
                0
            },
        };
        Some(Made {
            query,
            columns,
            rows: limit.min(scope.rows),
        })
    }

    /// Some rows of literals, which look like those of a table.
    fn values(&mut self, alias: String) -> (From, Scope) {
        let relation = self.rng.pick(&self.relations).clone();
        let literal = |c: &&Column| c.kind.sorts() && c.kind != Kind::Other && !c.values.is_empty();
        let like: Vec<Column> = relation.columns.iter().filter(literal).cloned().collect();
        let Some(like) = self.rng.pick_any(&like).cloned() else {
            return self.table(alias);
        };
        let mut rows = Vec::new();
        for number in 0..self.rng.between(1, 6) {
            let value = match self.rng.pick_any(&like.values).cloned() {
                Some(value) if number == 0 || self.chance(80) => Expr::literal(like.kind, value),
                _ => self.null(like.kind),
            };
            rows.push(vec![value, Expr::literal(Kind::Int, number.to_string())]);
        }
        let columns = vec![self.name("v"), self.name("v")];
        let mut first = like;
        first.name.clone_from(&columns[0]);
        let second = Column {
            name: columns[1].clone(),
            kind: Kind::Int,
            tame: true,
            values: vec!["0".to_owned(), "2".to_owned()],
            distinct: rows.len(),
            numbers: false,
        };
        let scope = Scope::of(&alias, &[first, second], rows.len());
        let from = From::Values {
            rows,
            alias,
            columns,
        };
        (from, scope)
    }

    /// Joins two, unless too many rows would come of it.
    fn join(
        &mut self,
        left: &From,
        scope: &Scope,
        right: From,
        other: &Scope,
    ) -> Option<(From, Scope)> {
        let pairs = scope.rows.saturating_mul(other.rows);
        let (kind, on, rows) = if pairs <= self.most_rows && self.chance(15) {
            if self.chance(50) {
                ("CROSS JOIN", On::Nothing, pairs)
            } else {
                let kind = *self.rng.pick(&["INNER JOIN", "LEFT JOIN", "FULL JOIN"]);
                let (l, r) = self.pair(scope, other, false)?;
                let op = *self.rng.pick(&["({} < {})", "({} >= {})", "({} <> {})"]);
                (
                    kind,
                    On::Condition(Expr::test(op, vec![l.expr(), r.expr()])),
                    pairs,
                )
            }
        } else {
            let (l, r) = self.pair(scope, other, true)?;
            let distinct = l.column.distinct.max(r.column.distinct).max(1);
            let rows = (pairs / distinct).max(scope.rows).max(other.rows);
            if rows > self.most_rows {
                return None;
            }
            let kind = self.rng.weighted(&EQUAL_JOINS);
            let single =
                left.aliases().len() == 1 && !kind.contains("SEMI") && !kind.contains("ANTI");
            if l.column.name == r.column.name && single && self.chance(40) {
                (kind, On::Using(vec![l.column.name.clone()]), rows)
            } else {
                (kind, On::Condition(self.equal(&l, &r, scope, other)), rows)
            }
        };
        let columns = match kind {
            "LEFT SEMI JOIN" | "LEFT ANTI JOIN" => scope.columns.clone(),
            "RIGHT SEMI JOIN" | "RIGHT ANTI JOIN" => other.columns.clone(),
            _ => [scope.columns.clone(), other.columns.clone()].concat(),
        };
        let (left, right) = (Box::new(left.clone()), Box::new(right));
        let from = From::Join {
            kind,
            left,
            right,
            on,
        };
        let all = Scope {
            columns,
            rows,
            key: Vec::new(),
        };
        Some((from, all))
    }

    /// A column of each that can be compared, and of the same name if possible.
    fn pair(&mut self, left: &Scope, right: &Scope, equal: bool) -> Option<(Named, Named)> {
        let mut pairs = Vec::new();
        for l in left.columns.iter().filter(|n| n.column.kind.sorts()) {
            for r in &right.columns {
                let (one, other) = (&l.column, &r.column);
                if one.kind != other.kind || one.kind == Kind::Other || one.kind == Kind::Bool {
                    continue;
                }
                let weight = match (one.name == other.name, one.kind) {
                    (_, Kind::Float) if equal => 1,
                    (true, _) => 6,
                    (false, _) => 2,
                };
                pairs.push((weight, (l, r)));
            }
        }
        if pairs.is_empty() {
            return None;
        }
        let (l, r) = self.rng.weighted(&pairs);
        Some((l.clone(), r.clone()))
    }

    fn equal(&mut self, l: &Named, r: &Named, scope: &Scope, other: &Scope) -> Expr {
        let mut condition = Expr::test("({} = {})", vec![l.expr(), r.expr()]);
        if self.chance(15)
            && let Some((l, r)) = self.pair(scope, other, true)
        {
            let more = Expr::test("({} = {})", vec![l.expr(), r.expr()]);
            condition = Expr::test("({} AND {})", vec![condition, more]);
        }
        if self.chance(15) {
            let side = if self.chance(50) { scope } else { other };
            let more = self.condition(side, 0);
            condition = Expr::test("({} AND {})", vec![condition, more]);
        }
        condition
    }
}
