//! Aggregates, and what rows are grouped by.
//!
//! Integers are summed as they are, because sums that wrap do not depend on the order; floats only where they are small, and
//! the result is [`Kind::Approximate`].

use super::super::ast::{Expr, GroupForm, Grouping, Kind, Node, SortKey};
use super::conditions::aggregate;
use super::{Generator, Scope};

impl Generator {
    /// An aggregate of any kind.
    pub fn aggregate(&mut self, scope: &Scope, sorting: bool) -> Expr {
        let kind = match self.rng.pick_any(&scope.kinds()).copied() {
            Some(kind) if self.chance(65) => kind,
            _ => Kind::Int,
        };
        if !sorting && self.chance(15) {
            return self.shown_only(scope);
        }
        self.aggregate_of(kind, scope)
    }

    /// An aggregate whose value is of a kind.
    pub fn aggregate_of(&mut self, kind: Kind, scope: &Scope) -> Expr {
        let argument = match scope.of_kind(&mut self.rng, kind) {
            Some(column) if self.chance(80) => column.expr(),
            _ => self.expr(kind, scope, 1),
        };
        let mut whole = match kind {
            Kind::Int => self.integer_aggregate(argument, scope),
            Kind::Bool => {
                let function = *self.rng.pick(&["bool_and", "bool_or"]);
                aggregate(kind, function, vec![argument])
            }
            Kind::Float if !argument.tame => self.first(kind, argument, scope),
            _ => aggregate(kind, self.min_or_max(), vec![argument]),
        };
        if let Node::Aggregate { args, .. } = &whole.node
            && !args.is_empty()
            && self.chance(8)
        {
            whole = self.first(kind, args[0].clone(), scope);
        }
        if self.chance(12) {
            let condition = self.condition(scope, 1);
            if let Node::Aggregate { filter, .. } = &mut whole.node {
                *filter = Some(Box::new(condition));
            }
        }
        whole
    }

    fn integer_aggregate(&mut self, argument: Expr, scope: &Scope) -> Expr {
        let mut made = match self.rng.below(14) {
            0..=3 => aggregate(Kind::Int, "count", vec![]),
            4 | 5 => {
                let any = match scope.pick(&mut self.rng, |_| true) {
                    Some(column) => column.expr(),
                    None => argument,
                };
                let distinct = any.kind.sorts() && self.chance(50);
                let mut count = aggregate(Kind::Int, "count", vec![any]);
                set_distinct(&mut count, distinct);
                count
            }
            6..=8 => {
                let distinct = self.chance(20);
                let mut sum = aggregate(Kind::Int, "sum", vec![argument]);
                sum.tame = false;
                set_distinct(&mut sum, distinct);
                sum
            }
            9 if argument.tame => {
                let function = *self.rng.pick(&["bit_and", "bit_or", "bit_xor"]);
                aggregate(Kind::Int, function, vec![argument])
            }
            _ => aggregate(Kind::Int, self.min_or_max(), vec![argument]),
        };
        if made.tame && self.chance(8) {
            made = Expr::op(Kind::Int, "({} + 1)", vec![made]);
        }
        made
    }

    /// The first or last value in an order in which values that tie are the same. No key comes twice: DataFusion leaves out
    /// the second in one half of the aggregate and not in the other, and fails.
    fn first(&mut self, kind: Kind, argument: Expr, scope: &Scope) -> Expr {
        let mut order = Vec::new();
        if let Some(column) = scope.pick(&mut self.rng, |c| c.kind.sorts()) {
            let expr = column.expr();
            if expr != argument {
                order.push(self.sort_key(expr));
            }
        }
        let key = self.sort_key(argument.clone());
        order.push(key);
        let tame = argument.tame;
        let node = Node::Aggregate {
            function: self
                .rng
                .pick::<&'static str>(&["first_value", "last_value"]),
            distinct: false,
            args: vec![argument],
            order,
            filter: None,
        };
        Expr::new(kind, tame, node)
    }

    /// What is neither sorted nor grouped by: lists, and numbers that are only near.
    fn shown_only(&mut self, scope: &Scope) -> Expr {
        let small =
            |c: &super::super::columns::Column| c.tame && matches!(c.kind, Kind::Int | Kind::Float);
        if self.chance(60)
            && let Some(column) = scope.pick(&mut self.rng, small)
        {
            let function = match column.column.kind {
                Kind::Float => *self.rng.pick(&["avg", "sum"]),
                _ => "avg",
            };
            return aggregate(Kind::Approximate, function, vec![column.expr()]);
        }
        let Some(column) = scope.pick(&mut self.rng, |c| c.kind.sorts()) else {
            return aggregate(Kind::Int, "count", vec![]);
        };
        let (expr, order): (Expr, SortKey) = (column.expr(), {
            let key = column.expr();
            self.sort_key(key)
        });
        let (kind, function, args) = match expr.kind {
            Kind::Text => (
                Kind::Text,
                "string_agg",
                vec![expr, Expr::literal(Kind::Text, "';'")],
            ),
            _ => (Kind::List, "array_agg", vec![expr]),
        };
        let node = Node::Aggregate {
            function,
            distinct: false,
            args,
            order: vec![order],
            filter: None,
        };
        Expr::new(kind, true, node)
    }

    /// What to group by; `None` for everything together.
    pub fn grouping(&mut self, scope: &Scope) -> Option<Grouping> {
        let count = self.rng.weighted(&[(22, 0), (45, 1), (25, 2), (8, 3)]);
        let mut keys: Vec<Expr> = Vec::new();
        for _ in 0..count {
            let time = |c: &super::super::columns::Column| {
                c.tame && matches!(c.kind, Kind::Date | Kind::Stamp)
            };
            let key = match scope.pick(&mut self.rng, time).cloned() {
                Some(time) if self.chance(40) => self.expr(time.column.kind, scope, 1),
                _ => self.any(scope, 1),
            };
            if !key.is_literal() && !key.columns().is_empty() && !keys.contains(&key) {
                keys.push(key);
            }
        }
        let form = match (keys.len(), self.rng.below(20)) {
            (0, _) => return None,
            (_, 0 | 1) => GroupForm::Rollup,
            (2.., 2) => GroupForm::Cube,
            (2.., 3 | 4) => {
                let mut sets = vec![vec![0], vec![1]];
                if self.chance(50) {
                    sets.push(Vec::new());
                }
                if keys.len() > 2 || self.chance(50) {
                    sets.push((0..keys.len()).collect());
                }
                GroupForm::Sets(sets)
            }
            _ => GroupForm::Plain,
        };
        Some(Grouping { form, keys })
    }
}

fn set_distinct(expr: &mut Expr, value: bool) {
    if let Node::Aggregate { distinct, .. } = &mut expr.node {
        *distinct = value;
    }
}
