//! Walks over statements: the parts of an expression, and the columns and queries in it; and walks that change what
//! they see.

use super::ast::{Body, Distinct, Expr, From, Node, On, Query, Select};

impl Expr {
    /// The expressions directly below, not those of queries.
    pub fn children(&self) -> Vec<&Expr> {
        match &self.node {
            Node::Column { .. } | Node::Literal(_) | Node::Parameter(_) => vec![],
            Node::Scalar(_) | Node::Exists(_) => vec![],
            Node::Op { args, .. } => args.iter().collect(),
            Node::Aggregate {
                args,
                order,
                filter,
                ..
            } => {
                let order = order.iter().map(|key| &key.expr);
                let filter = filter.as_deref();
                args.iter().chain(order).chain(filter).collect()
            }
            Node::Window {
                function,
                partition,
                order,
                ..
            } => {
                let order = order.iter().map(|key| &key.expr);
                let function = std::iter::once(&**function);
                function.chain(partition).chain(order).collect()
            }
            Node::In { value, .. } => vec![value],
        }
    }

    /// The query directly in it.
    pub fn query(&self) -> Option<&Query> {
        match &self.node {
            Node::Scalar(query) | Node::Exists(query) | Node::In { query, .. } => Some(query),
            _ => None,
        }
    }

    /// Shows every expression in it, itself first, and those of queries.
    pub fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Expr)) {
        see(self);
        for child in self.children() {
            child.visit(see);
        }
        if let Some(query) = self.query() {
            query.visit(&mut |_| {}, see);
        }
    }

    /// Tables and names of the columns in it, also in its queries.
    pub fn columns(&self) -> Vec<(&str, &str)> {
        let mut columns = Vec::new();
        self.visit(&mut |expr| {
            if let Node::Column { table, name } = &expr.node {
                columns.push((table.as_str(), name.as_str()));
            }
        });
        columns
    }

    /// Whether an expression in it, outside of its queries, is such.
    pub fn any(&self, is: &dyn Fn(&Expr) -> bool) -> bool {
        is(self) || self.children().into_iter().any(|child| child.any(is))
    }
}

impl Select {
    /// The expressions that stand in it, apart from those of tables.
    pub fn exprs(&self) -> Vec<&Expr> {
        let mut exprs: Vec<&Expr> = self.items.iter().map(|item| &item.expr).collect();
        if let Distinct::On(keys) = &self.distinct {
            exprs.extend(keys);
        }
        exprs.extend(&self.filter);
        exprs.extend(self.group.iter().flat_map(|group| &group.keys));
        exprs.extend(&self.having);
        exprs
    }
}

impl From {
    fn visit<'a>(&'a self, see_query: &mut dyn FnMut(&'a Query), see: &mut dyn FnMut(&'a Expr)) {
        match self {
            Self::Table { .. } => {}
            Self::Query { query, .. } => query.visit(see_query, see),
            Self::Values { rows, .. } => rows.iter().flatten().for_each(|e| e.visit(see)),
            Self::Join {
                left, right, on, ..
            } => {
                left.visit(see_query, see);
                right.visit(see_query, see);
                if let On::Condition(condition) = on {
                    condition.visit(see);
                }
            }
        }
    }

    /// Shows every table, query and join in it that is not in a query.
    pub fn parts(&self) -> Vec<&From> {
        let mut parts = vec![self];
        if let Self::Join { left, right, .. } = self {
            parts.extend(left.parts());
            parts.extend(right.parts());
        }
        parts
    }
}

impl Query {
    /// Shows this query and those in it, and every expression.
    pub fn visit<'a>(
        &'a self,
        see_query: &mut dyn FnMut(&'a Query),
        see: &mut dyn FnMut(&'a Expr),
    ) {
        see_query(self);
        for cte in &self.ctes {
            cte.query.visit(see_query, see);
            if let Some(step) = &cte.step {
                step.visit(see_query, see);
            }
        }
        match &self.body {
            Body::Select(select) => {
                select.from.visit(see_query, see);
                for expr in select.exprs() {
                    expr.visit(see);
                }
            }
            Body::Set { left, right, .. } => {
                left.visit(see_query, see);
                right.visit(see_query, see);
            }
        }
        for key in &self.order {
            key.expr.visit(see);
        }
    }

    /// What it gives: kinds and names.
    pub fn output(&self) -> Vec<(&str, &Expr)> {
        match &self.body {
            Body::Select(select) => {
                let items = select.items.iter();
                items.map(|i| (i.alias.as_str(), &i.expr)).collect()
            }
            Body::Set { left, .. } => left.output(),
        }
    }
}

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
