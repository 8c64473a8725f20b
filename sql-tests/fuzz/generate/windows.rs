//! Window functions.
//!
//! One that tells equal rows apart is ordered by the table's key or by every column that the `SELECT` shows, so that what
//! it tells apart is the same.

use super::super::ast::{Expr, Item, Kind, Node, SortKey};
use super::conditions::aggregate;
use super::{Generator, Scope};

const ROW_FRAMES: [&str; 4] = [
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
];
const PEER_FRAMES: [&str; 3] = [
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
];

impl Generator {
    /// A window function beside the items there are.
    pub fn window(&mut self, items: &[Item], scope: &Scope) -> Expr {
        let mut partition = Vec::new();
        if self.chance(55)
            && let Some(column) = scope.pick(&mut self.rng, |c| c.kind.sorts())
        {
            partition.push(column.expr());
        }
        let mut order = Vec::new();
        if let Some(column) = scope.pick(&mut self.rng, |c| c.kind.sorts()) {
            let key = column.expr();
            order.push(self.sort_key(key));
        }
        let argument = scope.pick(&mut self.rng, |c| c.kind.sorts() && c.kind != Kind::Other);
        let argument = match argument {
            Some(column) => column.expr(),
            None => Expr::literal(Kind::Int, "1"),
        };
        let strict = self.chance(60);
        if strict && let Some(order) = self.total(items, &argument, scope) {
            let (function, frame) = self.strict_function(argument);
            return over(function, partition, order, frame);
        }
        let (function, frame) = self.calm_function(argument);
        if matches!(function.node, Node::Aggregate { .. }) && self.chance(25) {
            return over(function, partition, Vec::new(), None);
        }
        let frame = match frame {
            Some(frame) if !order.is_empty() => Some(frame),
            _ => None,
        };
        over(function, partition, order, frame)
    }

    /// An order that leaves no two rows of the items open.
    fn total(&mut self, items: &[Item], argument: &Expr, scope: &Scope) -> Option<Vec<SortKey>> {
        if !scope.key.is_empty() && self.chance(60) {
            let mut keys = scope.key.clone();
            if self.chance(30) {
                keys.reverse();
            }
            let down = self.chance(30);
            let key = |expr| SortKey {
                expr,
                descending: down,
                nulls_first: None,
            };
            return Some(keys.into_iter().map(key).collect());
        }
        let shown: Vec<(&str, &str)> = items
            .iter()
            .map(|item| &item.expr)
            .chain([argument])
            .flat_map(|expr| expr.columns())
            .collect();
        let mut keys = Vec::new();
        for named in &scope.columns {
            if shown.contains(&(named.alias.as_str(), named.column.name.as_str())) {
                if !named.column.kind.sorts() {
                    return None;
                }
                keys.push(named.expr());
            }
        }
        // A column of an outer query is in no order of this one.
        let outer = shown
            .iter()
            .any(|(alias, _)| scope.columns.iter().all(|n| n.alias != *alias));
        let mut order = Vec::new();
        for key in keys {
            order.push(self.sort_key(key));
        }
        if order.len() > 1 {
            let first = self.rng.below(order.len());
            order.swap(0, first);
        }
        (!outer && !order.is_empty()).then_some(order)
    }

    fn strict_function(&mut self, argument: Expr) -> (Expr, Option<String>) {
        let (kind, tame) = (argument.kind, argument.tame);
        let call = |text: &str| {
            let node = Node::Op {
                text: text.to_owned(),
                args: vec![argument.clone()],
            };
            Expr::new(kind, tame, node)
        };
        let frame = Some((*self.rng.pick(&ROW_FRAMES)).to_owned());
        match self.rng.below(8) {
            0..=2 => (Expr::op(Kind::Int, "row_number()", vec![]), None),
            3 => (call("lag({})"), None),
            4 => (call("lead({}, 2)"), None),
            5 => (call("first_value({})"), frame),
            6 => (Expr::op(Kind::Int, "ntile(3)", vec![]), None),
            _ => (self.window_aggregate(argument), frame),
        }
    }

    fn calm_function(&mut self, argument: Expr) -> (Expr, Option<String>) {
        let frame = self
            .chance(50)
            .then(|| (*self.rng.pick(&PEER_FRAMES)).to_owned());
        match self.rng.below(5) {
            0 => (Expr::op(Kind::Int, "rank()", vec![]), None),
            1 => (Expr::op(Kind::Int, "dense_rank()", vec![]), None),
            2 => (Expr::op(Kind::Float, "percent_rank()", vec![]), None),
            _ => (self.window_aggregate(argument), frame),
        }
    }

    fn window_aggregate(&mut self, argument: Expr) -> Expr {
        let kind = argument.kind;
        match self.rng.below(4) {
            0 => aggregate(Kind::Int, "count", vec![]),
            1 => aggregate(Kind::Int, "count", vec![argument]),
            2 if kind == Kind::Int && argument.tame => {
                let mut sum = aggregate(Kind::Int, "sum", vec![argument]);
                sum.tame = false;
                sum
            }
            // DataFusion knows no ends of truths in a window, and leaves those of some floats open.
            _ if kind == Kind::Bool || (kind == Kind::Float && !argument.tame) => {
                aggregate(Kind::Int, "count", vec![argument])
            }
            _ => aggregate(kind, self.min_or_max(), vec![argument]),
        }
    }
}

fn over(function: Expr, partition: Vec<Expr>, order: Vec<SortKey>, frame: Option<String>) -> Expr {
    let (kind, tame) = (function.kind, function.tame);
    let node = Node::Window {
        function: Box::new(function),
        partition,
        order,
        frame,
    };
    Expr::new(kind, tame, node)
}
