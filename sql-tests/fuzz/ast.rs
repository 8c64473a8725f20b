//! Statements as trees: what the generator makes, the printer writes and the shrinker cuts.
//!
//! Expressions know only a [`Kind`], which is as much of a type as decides where they may stand. What has no structure of
//! its own, operators and functions alike, is an [`Node::Op`]: a text with a gap `{}` for each argument.

/// A family of types within which anything may be compared with anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Bool,
    Int,
    Float,
    Text,
    Date,
    Stamp,
    /// Times, durations and bytes: what sorts and groups but is not computed with.
    Other,
    /// Lists, which are only shown, counted and taken apart.
    List,
    /// Sums and averages of floats, which depend on the order of adding: only shown, and compared with a tolerance.
    Approximate,
}

impl Kind {
    /// Whether answers may be sorted, grouped and made distinct by it.
    pub fn sorts(self) -> bool {
        !matches!(self, Self::List | Self::Approximate)
    }
}

/// What is run: views and prepared parameters first, then a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    pub views: Vec<(String, Query)>,
    pub query: Query,
    /// Types and values of `$1`, `$2`, …; with some the query is prepared and executed.
    pub parameters: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    pub ctes: Vec<Cte>,
    pub body: Body,
    pub order: Vec<SortKey>,
    pub limit: Option<usize>,
    pub offset: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Cte {
    pub name: String,
    pub query: Query,
    /// With a step it is recursive.
    pub step: Option<Query>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    Select(Box<Select>),
    Set {
        /// `UNION ALL`, `INTERSECT`, …
        operator: &'static str,
        left: Box<Query>,
        right: Box<Query>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Select {
    pub distinct: Distinct,
    pub items: Vec<Item>,
    pub from: From,
    pub filter: Option<Expr>,
    pub group: Option<Grouping>,
    pub having: Option<Expr>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Distinct {
    No,
    All,
    On(Vec<Expr>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    pub expr: Expr,
    pub alias: String,
}

/// Keys to group by; a `SELECT` whose items aggregate without any has none of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouping {
    pub form: GroupForm,
    pub keys: Vec<Expr>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum GroupForm {
    Plain,
    Rollup,
    Cube,
    /// Which keys are in each set.
    Sets(Vec<Vec<usize>>),
}

#[derive(Debug, Clone, PartialEq)]
pub enum From {
    /// A table, view or CTE.
    Table {
        name: String,
        alias: String,
    },
    Query {
        query: Box<Query>,
        alias: String,
    },
    Values {
        rows: Vec<Vec<Expr>>,
        alias: String,
        columns: Vec<String>,
    },
    Join {
        /// `LEFT JOIN`, `CROSS JOIN`, …
        kind: &'static str,
        left: Box<From>,
        right: Box<From>,
        on: On,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum On {
    Nothing,
    Using(Vec<String>),
    Condition(Expr),
}

#[derive(Debug, Clone, PartialEq)]
pub struct SortKey {
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: Option<bool>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    pub kind: Kind,
    /// Whether its values are of a size that can be computed with: no sum overflows, no date leaves its range.
    pub tame: bool,
    pub node: Node,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// A column; without a table one of the query's own output.
    Column {
        table: String,
        name: String,
    },
    Literal(String),
    Parameter(usize),
    Op {
        text: String,
        args: Vec<Expr>,
    },
    Aggregate {
        function: &'static str,
        distinct: bool,
        args: Vec<Expr>,
        order: Vec<SortKey>,
        filter: Option<Box<Expr>>,
    },
    Window {
        function: Box<Expr>,
        partition: Vec<Expr>,
        order: Vec<SortKey>,
        frame: Option<String>,
    },
    Scalar(Box<Query>),
    Exists(Box<Query>),
    In {
        not: bool,
        value: Box<Expr>,
        query: Box<Query>,
    },
}

impl Expr {
    pub fn new(kind: Kind, tame: bool, node: Node) -> Self {
        Self { kind, tame, node }
    }

    pub fn column(kind: Kind, tame: bool, table: &str, name: &str) -> Self {
        let (table, name) = (table.to_owned(), name.to_owned());
        Self::new(kind, tame, Node::Column { table, name })
    }

    pub fn literal(kind: Kind, text: impl Into<String>) -> Self {
        Self::new(kind, true, Node::Literal(text.into()))
    }

    /// An operator or function, tame if its arguments are.
    pub fn op(kind: Kind, text: impl Into<String>, args: Vec<Expr>) -> Self {
        let (tame, text) = (args.iter().all(|a| a.tame), text.into());
        Self::new(kind, tame, Node::Op { text, args })
    }

    /// A condition.
    pub fn test(text: impl Into<String>, args: Vec<Expr>) -> Self {
        Self::op(Kind::Bool, text, args)
    }

    pub fn is_literal(&self) -> bool {
        matches!(self.node, Node::Literal(_) | Node::Parameter(_))
    }
}

impl From {
    /// What columns of it are called by: every table's alias, from left to right.
    pub fn aliases(&self) -> Vec<&str> {
        match self {
            Self::Table { alias, .. } | Self::Query { alias, .. } | Self::Values { alias, .. } => {
                vec![alias]
            }
            Self::Join { left, right, .. } => [left.aliases(), right.aliases()].concat(),
        }
    }
}
