//! Walks that change what they see.

use super::ast::{Body, Distinct, Expr, From, Node, On, Query, Select};

impl Expr {
    /// The expressions directly below, not those of queries.
    pub fn children_mut(&mut self) -> Vec<&mut Expr> {
        match &mut self.node {
            Node::Column { .. } | Node::Literal(_) | Node::Parameter(_) => vec![],
            Node::Scalar(_) | Node::Exists(_) => vec![],
            Node::Op { args, .. } => args.iter_mut().collect(),
            Node::Aggregate {
                args,
                order,
                filter,
                ..
            } => {
                let order = order.iter_mut().map(|key| &mut key.expr);
                let filter = filter.as_deref_mut();
                args.iter_mut().chain(order).chain(filter).collect()
            }
            Node::Window {
                function,
                partition,
                order,
                ..
            } => {
                let order = order.iter_mut().map(|key| &mut key.expr);
                let function = std::iter::once(&mut **function);
                function.chain(partition).chain(order).collect()
            }
            Node::In { value, .. } => vec![value],
        }
    }

    /// The query directly in it.
    pub fn query_mut(&mut self) -> Option<&mut Query> {
        match &mut self.node {
            Node::Scalar(query) | Node::Exists(query) | Node::In { query, .. } => Some(query),
            _ => None,
        }
    }

    /// Shows every expression in it to be changed, itself first, and those of queries.
    pub fn visit_mut(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        change(self);
        for child in self.children_mut() {
            child.visit_mut(change);
        }
        if let Some(query) = self.query_mut() {
            query.visit_mut(change);
        }
    }
}

impl Select {
    /// The expressions that stand in it, apart from those of tables.
    pub fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        let mut exprs: Vec<&mut Expr> = Vec::new();
        exprs.extend(self.items.iter_mut().map(|item| &mut item.expr));
        if let Distinct::On(keys) = &mut self.distinct {
            exprs.extend(keys);
        }
        exprs.extend(&mut self.filter);
        exprs.extend(self.group.iter_mut().flat_map(|group| &mut group.keys));
        exprs.extend(&mut self.having);
        exprs
    }
}

impl From {
    fn visit_mut(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        match self {
            Self::Table { .. } => {}
            Self::Query { query, .. } => query.visit_mut(change),
            Self::Values { rows, .. } => {
                for value in rows.iter_mut().flatten() {
                    value.visit_mut(change);
                }
            }
            Self::Join {
                left, right, on, ..
            } => {
                left.visit_mut(change);
                right.visit_mut(change);
                if let On::Condition(condition) = on {
                    condition.visit_mut(change);
                }
            }
        }
    }
}

impl Query {
    /// Shows every expression in it to be changed.
    pub fn visit_mut(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        for cte in &mut self.ctes {
            cte.query.visit_mut(change);
            if let Some(step) = &mut cte.step {
                step.visit_mut(change);
            }
        }
        match &mut self.body {
            Body::Select(select) => {
                select.from.visit_mut(change);
                for expr in select.exprs_mut() {
                    expr.visit_mut(change);
                }
            }
            Body::Set { left, right, .. } => {
                left.visit_mut(change);
                right.visit_mut(change);
            }
        }
        for key in &mut self.order {
            key.expr.visit_mut(change);
        }
    }
}
