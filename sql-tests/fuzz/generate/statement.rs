//! Whole statements: a query with views, CTEs and parameters before it.

use super::super::ast::{
    Body, Cte, Distinct, Expr, From, GroupForm, Grouping, Item, Kind, Node, Query, Select,
    Statement,
};
use super::super::columns::Column;
use super::super::determined::is_determined;
use super::super::judge::skips_inside;
use super::conditions::aggregate;
use super::{Generator, Made, Relation, Wanted};

/// So deep are queries in queries.
const DEPTH: usize = 2;
/// So often a recursive CTE takes its step.
const STEPS: usize = 4;

impl Generator {
    /// A statement of one answer.
    pub fn statement(&mut self) -> Statement {
        let relations = self.relations.len();
        loop {
            let statement = self.any_statement();
            self.relations.truncate(relations);
            if is_determined(&statement, &self.keys) && !skips_inside(&statement) {
                return statement;
            }
        }
    }

    fn any_statement(&mut self) -> Statement {
        self.lone = self.chance(35);
        let mut views = Vec::new();
        if self.chance(8) {
            let name = self.name("view");
            let made = self.query(1, &Wanted::default());
            views.push((name.clone(), self.remember(name, made)));
        }
        let mut ctes = Vec::new();
        if self.chance(5)
            && let Some(cte) = self.recursive()
        {
            ctes.push(cte);
        }
        if self.chance(12) {
            let name = self.name("cte");
            let made = self.query(1, &Wanted::default());
            let (query, step) = (self.remember(name.clone(), made), None);
            ctes.push(Cte { name, query, step });
        }
        let depth = self.rng.weighted(&[(25, 0), (40, 1), (35, DEPTH)]);
        let mut query = if self.chance(4) {
            self.count_of_some()
        } else {
            self.query(depth, &Wanted::default()).query
        };
        query.ctes = ctes;
        let mut statement = Statement {
            views,
            query,
            parameters: Vec::new(),
        };
        if self.chance(5) {
            self.prepare(&mut statement);
        }
        statement
    }

    /// Makes a query a relation of its own.
    fn remember(&mut self, name: String, made: Made) -> Query {
        self.relations.push(Relation {
            name,
            columns: made.columns,
            rows: made.rows,
        });
        made.query
    }

    /// How many rows a limit leaves, whichever they are.
    fn count_of_some(&mut self) -> Query {
        let mut inner = self.query(1, &Wanted::default());
        inner.query.limit = Some(self.rng.between(0, 30));
        inner.query.offset = if self.chance(40) {
            self.rng.below(10)
        } else {
            0
        };
        if self.chance(70) {
            inner.query.order.clear();
        }
        let alias = self.name("a");
        let query = Box::new(inner.query);
        let count = aggregate(Kind::Int, "count", vec![]);
        let from = From::Query { query, alias };
        self.simple(from, None, vec![count])
    }

    fn simple(&mut self, from: From, filter: Option<Expr>, exprs: Vec<Expr>) -> Query {
        let mut items = Vec::new();
        for expr in exprs {
            let alias = self.name("o");
            items.push(Item { expr, alias });
        }
        let select = Select {
            distinct: Distinct::No,
            items,
            from,
            filter,
            group: None,
            having: None,
        };
        Query {
            ctes: Vec::new(),
            body: Body::Select(Box::new(select)),
            order: Vec::new(),
            limit: None,
            offset: 0,
        }
    }

    /// The step of a recursive CTE from `at` to the next value of a table, with the tables that it reads.
    fn next_value(&mut self, at: Expr, source: From) -> Option<(Expr, From)> {
        // The next value that the table has: at most one row comes of one.
        let (inner, other) = (self.name("a"), self.name("a"));
        let (table, all) = self.table(inner);
        let key = all
            .pick(&mut self.rng, |c| c.kind == Kind::Int && c.tame)?
            .clone();
        let mut seen = self.simple(table, None, vec![wide(key.expr())]);
        if let Body::Select(select) = &mut seen.body {
            select.group = Some(Grouping {
                form: GroupForm::Plain,
                keys: vec![key.expr()],
            });
        }
        let shown = seen.output()[0].0.to_owned();
        let found = Expr::column(Kind::Int, true, &other, &shown);
        let on = Expr::test("({} = {} + 1)", vec![found.clone(), at]);
        let source = From::Join {
            kind: "INNER JOIN",
            left: Box::new(source),
            right: Box::new(From::Query {
                query: Box::new(seen),
                alias: other,
            }),
            on: super::super::ast::On::Condition(on),
        };
        Some((found, source))
    }

    /// A CTE that steps from number to number, through the rows of a table or past them.
    fn recursive(&mut self) -> Option<Cte> {
        let name = self.name("cte");
        let alias = self.name("a");
        let (from, scope) = self.table(alias);
        let start = scope
            .pick(&mut self.rng, |c| c.kind == Kind::Int && c.tame)?
            .clone();
        let function = *self.rng.pick(&["min", "max"]);
        let first = match self.chance(50) {
            true => aggregate(Kind::Int, function, vec![start.expr()]),
            // A few rows: those that begin are one for each value.
            false => start.expr(),
        };
        let grouped = matches!(first.node, Node::Column { .. });
        let zero = Expr::literal(Kind::Int, "CAST(0 AS BIGINT)");
        let filter = self.chance(40).then(|| self.condition(&scope, 1));
        let mut query = self.simple(from, filter, vec![wide(first), zero]);
        if let (true, Body::Select(select)) = (grouped, &mut query.body) {
            select.distinct = Distinct::All;
        }
        let names: Vec<String> = query
            .output()
            .iter()
            .map(|(n, _)| (*n).to_owned())
            .collect();
        let (own, count) = (self.name("a"), names[1].clone());
        let at = Expr::column(Kind::Int, true, &own, &names[0]);
        let taken = Expr::column(Kind::Int, true, &own, &count);
        let steps = Expr::literal(Kind::Int, STEPS.to_string());
        let go_on = Expr::test("({} < {})", vec![taken.clone(), steps]);
        let mut source = From::Table {
            name: name.clone(),
            alias: own,
        };
        let mut next = Expr::op(Kind::Int, "({} + 1)", vec![at.clone()]);
        if self.chance(60) {
            (next, source) = self.next_value(at, source)?;
        }
        let more = Expr::op(Kind::Int, "({} + 1)", vec![taken]);
        let step = self.simple(source, Some(go_on), vec![next, more]);
        let column = |name: &String| Column {
            name: name.clone(),
            kind: Kind::Int,
            tame: true,
            values: start.column.values.clone(),
            distinct: 4,
            numbers: false,
        };
        self.relations.push(Relation {
            name: name.clone(),
            columns: names.iter().map(column).collect(),
            rows: (STEPS + 1) * if grouped { start.column.distinct } else { 1 },
        });
        Some(Cte {
            name,
            query,
            step: Some(step),
        })
    }

    /// Turns some literals into parameters.
    fn prepare(&mut self, statement: &mut Statement) {
        let mut parameters = Vec::new();
        let rng = &mut self.rng;
        statement.query.visit_mut(&mut |expr| {
            let Node::Literal(text) = &expr.node else {
                return;
            };
            let whole = text.strip_prefix('-').unwrap_or(text);
            let number = whole.parse::<u32>().is_ok();
            let kind = match expr.kind {
                Kind::Int if number => "BIGINT",
                Kind::Text if text.starts_with('\'') => "VARCHAR",
                _ => return,
            };
            if rng.chance(60) {
                parameters.push((kind, text.clone()));
                expr.node = Node::Parameter(parameters.len() - 1);
            }
        });
        statement.parameters = parameters;
    }
}

/// A number as a sum. It has no metadata of a field, in which both sides of a recursive CTE would have to agree.
fn wide(expr: Expr) -> Expr {
    Expr::op(Kind::Int, "(CAST({} AS BIGINT) + 0)", vec![expr])
}
