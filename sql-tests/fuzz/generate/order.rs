//! Orders and limits. A limit comes with an order in which rows that tie are equal.

use super::super::ast::{Body, Distinct, Expr, GroupForm, Query, Select, SortKey};
use super::super::columns::Column;
use super::{Generator, Scope};

impl Generator {
    /// A key to sort by, up or down, NULLs anywhere.
    pub fn sort_key(&mut self, expr: Expr) -> SortKey {
        SortKey {
            expr,
            descending: self.chance(40),
            nulls_first: match self.rng.below(4) {
                0 => Some(true),
                1 => Some(false),
                _ => None,
            },
        }
    }

    /// Orders a query, and cuts it, now and then.
    pub fn order(&mut self, query: &mut Query, columns: &[Column], scope: Option<&Scope>) {
        let cut = self.chance(35);
        if !cut && !self.chance(20) {
            return;
        }
        let mut order = self.some_keys(query, columns, scope);
        if cut {
            let total = match (&query.body, scope) {
                (Body::Select(select), Some(scope)) => self.total_order(select, scope, &mut order),
                _ => false,
            };
            if !total && !self.by_all(columns, &mut order) {
                query.order = order;
                return;
            }
            query.limit = match self.rng.below(12) {
                // OFFSET never comes alone: DataFusion moves sorts below one without a limit.
                0 => Some(1_000_000),
                1 => Some(0),
                2 => Some(1),
                3 => Some(100),
                _ => Some(self.rng.between(1, 20)),
            };
            if query.limit == Some(1_000_000) || self.chance(30) {
                query.offset = self.rng.between(1, 9);
            }
        }
        query.order = order;
    }

    fn some_keys(
        &mut self,
        query: &Query,
        columns: &[Column],
        scope: Option<&Scope>,
    ) -> Vec<SortKey> {
        let mut order = Vec::new();
        for _ in 0..self.rng.weighted(&[(25, 0), (50, 1), (25, 2)]) {
            let hidden = match (&query.body, scope) {
                (Body::Select(select), Some(scope)) if shows_rows(select) && self.chance(40) => {
                    scope
                        .pick(&mut self.rng, |c| c.kind.sorts())
                        .map(|n| n.expr())
                }
                _ => None,
            };
            let shown: Vec<&Column> = columns.iter().filter(|c| c.kind.sorts()).collect();
            let key = match hidden {
                Some(key) => key,
                None => match self.rng.pick_any(&shown) {
                    Some(column) => Expr::column(column.kind, column.tame, "", &column.name),
                    None => continue,
                },
            };
            order.push(self.sort_key(key));
        }
        order
    }

    /// Completes an order by the table's key, or by what rows are grouped by.
    fn total_order(&mut self, select: &Select, scope: &Scope, order: &mut Vec<SortKey>) -> bool {
        let keys = match &select.group {
            None if shows_rows(select) && !scope.key.is_empty() && self.chance(60) => {
                if self.chance(50) {
                    order.clear();
                }
                scope.key.clone()
            }
            Some(group)
                if group.form == GroupForm::Plain
                    && select.distinct == Distinct::No
                    && self.chance(60) =>
            {
                group.keys.clone()
            }
            _ => return false,
        };
        let (down, alike) = (self.chance(40), self.chance(60));
        for expr in keys {
            let mut key = self.sort_key(expr);
            if alike {
                (key.descending, key.nulls_first) = (down, None);
            }
            order.push(key);
        }
        true
    }

    /// Completes an order by all columns, if they can be ordered by.
    fn by_all(&mut self, columns: &[Column], order: &mut Vec<SortKey>) -> bool {
        if columns.iter().any(|column| !column.kind.sorts()) {
            return false;
        }
        for column in columns {
            let expr = Expr::column(column.kind, column.tame, "", &column.name);
            if order.iter().all(|key| key.expr != expr) {
                order.push(self.sort_key(expr));
            }
        }
        true
    }
}

/// Whether a `SELECT` gives a row for each row of its tables.
pub fn shows_rows(select: &Select) -> bool {
    use super::super::ast::Node;
    let special = |expr: &Expr| matches!(expr.node, Node::Aggregate { .. } | Node::Window { .. });
    select.group.is_none()
        && select.having.is_none()
        && select.distinct == Distinct::No
        && !select.items.iter().any(|item| item.expr.any(&special))
}
