//! Queries: `SELECT` in all its forms, and set operations.

use super::super::ast::{
    Body, Distinct, Expr, GroupForm, Grouping, Item, Kind, Node, Query, Select,
};
use super::super::columns::Column;
use super::{Generator, Made, Scope, Wanted};

const SET_OPERATORS: [(usize, &str); 6] = [
    (5, "UNION ALL"),
    (4, "UNION"),
    (3, "INTERSECT"),
    (3, "EXCEPT"),
    (1, "INTERSECT ALL"),
    (1, "EXCEPT ALL"),
];

impl Generator {
    /// A query that may hold others, so deep.
    pub fn query(&mut self, depth: usize, wanted: &Wanted) -> Made {
        if depth > 0 && self.chance(12) {
            return self.set(depth - 1, wanted);
        }
        self.select(depth, wanted)
    }

    fn set(&mut self, depth: usize, wanted: &Wanted) -> Made {
        let operator = self.rng.weighted(&SET_OPERATORS);
        let mut wanted = wanted.clone();
        wanted.sorting = true;
        let left = self.query(depth, &wanted);
        wanted.kinds = left.columns.iter().map(|column| column.kind).collect();
        let right = self.query(depth, &wanted);
        // The right side's values are of the same kinds, whatever they are.
        let mut columns = left.columns;
        for (column, other) in columns.iter_mut().zip(&right.columns) {
            column.tame &= other.tame;
            column.numbers = false;
        }
        let rows = left.rows + right.rows;
        let mut query = Query {
            ctes: Vec::new(),
            body: Body::Set {
                operator,
                left: Box::new(left.query),
                right: Box::new(right.query),
            },
            order: Vec::new(),
            limit: None,
            offset: 0,
        };
        self.order(&mut query, &columns, None);
        let rows = query.limit.map_or(rows, |limit| rows.min(limit));
        Made {
            query,
            columns,
            rows,
        }
    }

    fn select(&mut self, depth: usize, wanted: &Wanted) -> Made {
        let (from, scope) = self.from(depth);
        let filter = self.chance(55).then(|| self.filter(&scope, depth));
        let mut select = Select {
            distinct: Distinct::No,
            items: Vec::new(),
            from,
            filter,
            group: None,
            having: None,
        };
        let mut rows = scope.rows;
        if self.chance(33) {
            rows = self.aggregated(&mut select, &scope, wanted);
        } else {
            self.plain(&mut select, &scope, wanted, depth);
        }
        let columns: Vec<Column> = select
            .items
            .iter()
            .map(|item| described(item, &scope, rows))
            .collect();
        if wanted.kinds.is_empty()
            && columns.iter().all(|column| column.kind.sorts())
            && self.chance(9)
        {
            select.distinct = Distinct::All;
        }
        let shows_rows = super::order::shows_rows(&select);
        let mut query = Query {
            ctes: Vec::new(),
            body: Body::Select(Box::new(select)),
            order: Vec::new(),
            limit: None,
            offset: 0,
        };
        if shows_rows && wanted.kinds.is_empty() && self.chance(4) {
            self.distinct_on(&mut query, &columns);
        } else {
            self.order(&mut query, &columns, Some(&scope));
        }
        let rows = query.limit.map_or(rows, |limit| rows.min(limit));
        Made {
            query,
            columns,
            rows,
        }
    }

    /// The condition of a `WHERE`, with a query in it now and then, also below `OR`.
    fn filter(&mut self, scope: &Scope, depth: usize) -> Expr {
        let plain = self.condition(scope, depth.min(2));
        if depth == 0 || !self.chance(28) {
            return plain;
        }
        let Some(query) = self.query_condition(scope, depth) else {
            return plain;
        };
        match self.rng.below(6) {
            0..=2 => query,
            3 => Expr::test("({} OR {})", vec![plain, query]),
            _ => Expr::test("({} AND {})", vec![plain, query]),
        }
    }

    fn item(&mut self, expr: Expr) -> Item {
        let alias = self.name("o");
        Item { expr, alias }
    }

    fn plain(&mut self, select: &mut Select, scope: &Scope, wanted: &Wanted, depth: usize) {
        if !wanted.kinds.is_empty() {
            for kind in &wanted.kinds {
                let expr = self.expr(*kind, scope, 1);
                let item = self.item(expr);
                select.items.push(item);
            }
            return;
        }
        for _ in 0..self.rng.between(1, 4) {
            let list = scope.of_kind(&mut self.rng, Kind::List).map(|n| n.expr());
            let expr = match list {
                Some(list) if !wanted.sorting && self.chance(10) => list,
                _ => self.any(scope, 2),
            };
            let item = self.item(expr);
            select.items.push(item);
        }
        if depth > 0 && self.chance(6) {
            let kinds = scope.kinds();
            if let Some(kind) = self.rng.pick_any(&kinds).copied()
                && let Some(value) = self.scalar(kind, scope, 0)
            {
                let item = self.item(value);
                select.items.push(item);
            }
        }
        if self.chance(16) {
            for _ in 0..self.rng.between(1, 2) {
                // Several that tell equals apart must agree on what is shown.
                let window = self.window(&select.items, scope);
                let item = self.item(window);
                select.items.push(item);
            }
        }
    }

    /// Items that aggregate; gives about how many groups there are.
    fn aggregated(&mut self, select: &mut Select, scope: &Scope, wanted: &Wanted) -> usize {
        let group = self.grouping(scope);
        let mut rows = 1;
        if !wanted.kinds.is_empty() {
            for kind in &wanted.kinds {
                let mut keys = group.iter().flat_map(|group| &group.keys);
                let key = keys.rfind(|key| key.kind == *kind).cloned();
                let expr = match key {
                    Some(key) if self.chance(60) => key,
                    _ => self.aggregate_of(*kind, scope),
                };
                let item = self.item(expr);
                select.items.push(item);
            }
        } else {
            for key in group.iter().flat_map(|group| &group.keys) {
                if self.chance(85) {
                    let item = self.item(key.clone());
                    select.items.push(item);
                }
            }
            let keys = select.items.len();
            for _ in 0..self.rng.between(usize::from(keys == 0), 3) {
                let expr = self.aggregate(scope, wanted.sorting);
                let item = self.item(expr);
                select.items.push(item);
            }
            self.grouping_item(select, group.as_ref());
        }
        if let Some(group) = group {
            rows = (scope.rows / 2).clamp(1, 4 * scope.rows.max(1));
            if self.chance(20) {
                select.having = Some(self.having(scope));
            }
            select.group = Some(group);
        } else if self.chance(5) {
            select.having = Some(self.having(scope));
        }
        // Without any aggregate, rows without groups would be shown one by one.
        let is = |expr: &Expr| matches!(expr.node, Node::Aggregate { .. });
        if select.group.is_none() && !select.items.iter().any(|item| item.expr.any(&is)) {
            let count = self.aggregate_of(Kind::Int, scope);
            select.items[0].expr = count;
        }
        rows
    }

    fn grouping_item(&mut self, select: &mut Select, group: Option<&Grouping>) {
        if let Some(group) = group
            && group.form != GroupForm::Plain
            && self.chance(40)
        {
            let key = self.rng.pick(&group.keys).clone();
            let expr = Expr::op(Kind::Int, "CAST(grouping({}) AS BIGINT)", vec![key]);
            let item = self.item(expr);
            select.items.push(item);
        }
    }

    fn having(&mut self, scope: &Scope) -> Expr {
        let made = self.aggregate_of(Kind::Int, scope);
        let number = Expr::literal(Kind::Int, self.rng.below(6).to_string());
        let op = *self
            .rng
            .pick(&["({} > {})", "({} <= {})", "({} <> {})", "({} = {})"]);
        Expr::test(op, vec![made, number])
    }

    fn distinct_on(&mut self, query: &mut Query, columns: &[Column]) {
        let Body::Select(select) = &mut query.body else {
            return;
        };
        if columns.iter().any(|column| !column.kind.sorts()) {
            return;
        }
        let first = select.items[0].expr.clone();
        // Nor may a query of the outer row be in the order.
        let queries = |item: &Item| item.expr.any(&|e| e.query().is_some());
        if first.is_literal() || select.items.iter().any(queries) {
            return;
        }
        let key = self.sort_key(first.clone());
        query.order.push(key);
        for column in &columns[1..] {
            let expr = Expr::column(column.kind, column.tame, "", &column.name);
            let key = self.sort_key(expr);
            query.order.push(key);
        }
        // An order by names of items is not possible beside DISTINCT ON.
        for (key, item) in query.order.iter_mut().zip(&select.items) {
            key.expr = item.expr.clone();
        }
        // No key comes twice, see `Generator::first`.
        let mut seen: Vec<Expr> = Vec::new();
        query.order.retain(|key| {
            let new = !seen.contains(&key.expr);
            if new {
                seen.push(key.expr.clone());
            }
            new
        });
        select.distinct = Distinct::On(vec![first]);
    }
}

/// What an item gives.
fn described(item: &Item, scope: &Scope, rows: usize) -> Column {
    let same = scope.columns.iter().find(|named| named.expr() == item.expr);
    let like = same.or_else(|| {
        let columns = scope.columns.iter();
        columns
            .clone()
            .find(|named| named.column.kind == item.expr.kind)
    });
    Column {
        name: item.alias.clone(),
        kind: item.expr.kind,
        tame: item.expr.tame,
        values: like.map(|l| l.column.values.clone()).unwrap_or_default(),
        distinct: match same {
            Some(same) => same.column.distinct.min(rows).max(1),
            None => (rows / 4).max(1),
        },
        numbers: same.is_some_and(|same| same.column.numbers),
    }
}
