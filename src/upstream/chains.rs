//! Long chains of `OR` and `AND` as sets, and as trees that are not deep.
//!
//! The parser makes of `a OR b OR c …` a tree as deep as the chain is long. DataFusion walks expressions recursively, and looks for
//! each term of a chain among all terms before it: ten thousand terms overflow the stack, and two thousand take a second. So
//! while a chain is planned, every 64 terms become a block, and blocks of equal size become one of twice the size: the
//! tree stays as deep as the logarithm of the chain's length. Comparisons of one column with constants of one type become the
//! list of `IN` or `NOT IN`, which is looked up in a set. Shorter chains stay as they are written.
//!
//! The subtle thing: constants of several types are compared each in a type of its own, but those of a list in one that suits all.
//! Nor are floating-point numbers collected, because a list finds them by their bits.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::{BinaryExpr, Cast, InList};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, Operator, utils};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// The number of terms that become a block: a power of two.
const BLOCK: usize = 64;

static PLANNER: LazyLock<Arc<dyn ExprPlanner>> = LazyLock::new(|| Arc::new(ChainPlanner));

/// Adds the planner of chains to a session.
pub(crate) fn install(builder: &mut SessionStateBuilder) {
    let planners = builder.expr_planners().get_or_insert_default();
    if !planners.iter().any(is_ours) {
        planners.push(Arc::clone(&PLANNER));
    }
}

/// Whether a session has the planner.
pub(crate) fn is_installed(state: &SessionState) -> bool {
    state.expr_planners().iter().any(is_ours)
}

fn is_ours(planner: &Arc<dyn ExprPlanner>) -> bool {
    Arc::ptr_eq(planner, &PLANNER)
}

#[derive(Debug)]
struct ChainPlanner;

impl ExprPlanner for ChainPlanner {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let chain = match expr.op {
            BinaryOperator::Or => OperatorChain::Or,
            BinaryOperator::And => OperatorChain::And,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        if !chain.ends_block(&expr.left) {
            return Ok(PlannerResult::Original(expr));
        }
        let whole = chain.with_block(expr.left, expr.right, schema);
        Ok(PlannerResult::Planned(whole))
    }
}

/// All filters as one condition, a flat tree however many there are; `None` if there are none.
pub(crate) fn all_of(filters: Vec<Expr>) -> Option<Expr> {
    match filters.len() > BLOCK {
        true => Some(OperatorChain::And.tree(filters)),
        false => utils::conjunction(filters),
    }
}

/// The operator of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OperatorChain {
    Or,
    And,
}

impl OperatorChain {
    fn operator(self) -> Operator {
        match self {
            Self::Or => Operator::Or,
            Self::And => Operator::And,
        }
    }

    /// The comparison whose chain is a list: `IN` of `=`, and `NOT IN` of `<>`.
    fn comparison(self) -> Operator {
        match self {
            Self::Or => Operator::Eq,
            Self::And => Operator::NotEq,
        }
    }

    fn join(self, left: Expr, right: Expr) -> Expr {
        let (left, right) = (Box::new(left), Box::new(right));
        Expr::BinaryExpr(BinaryExpr::new(left, self.operator(), right))
    }

    /// Both sides, if the expression is a chain.
    fn sides(self, expr: &Expr) -> Option<(&Expr, &Expr)> {
        match expr {
            Expr::BinaryExpr(b) if b.op == self.operator() => Some((&b.left, &b.right)),
            _ => None,
        }
    }

    /// Takes off the last term: what comes before it, and the term.
    fn split_last(self, expr: Expr) -> (Option<Expr>, Expr) {
        match expr {
            Expr::BinaryExpr(b) if b.op == self.operator() => (Some(*b.left), *b.right),
            term => (None, term),
        }
    }

    /// The list of the same kind as the chain, if the expression is one.
    fn list(self, expr: &Expr) -> Option<&InList> {
        match expr {
            Expr::InList(list) if list.negated == (self == Self::And) => Some(list),
            _ => None,
        }
    }

    /// The logarithm of the number of terms in a block; 0 for a term.
    fn weight(self, expr: &Expr) -> u32 {
        if let Some(list) = self.list(expr) {
            return match list.list.len() < BLOCK {
                true => 0,
                false => list.list.len().ilog2(),
            };
        }
        let (mut levels, mut node) = (0, expr);
        while let Some((left, _)) = self.sides(node) {
            levels += 1;
            node = left;
        }
        match levels > 0 && self.list(node).is_some() {
            true => levels + self.weight(node),
            false => levels,
        }
    }

    /// Whether the expression is a block: a long list, or a tree whose sides have the same number of terms.
    fn is_block(self, expr: &Expr) -> bool {
        let smallest = BLOCK.ilog2();
        match self.sides(expr) {
            None => self.weight(expr) >= smallest,
            Some((left, right)) => {
                let half = self.weight(right);
                half + 1 >= smallest && self.weight(left) == half
            }
        }
    }

    /// Whether one more term after those at the end of a chain makes a block.
    fn ends_block(self, mut chain: &Expr) -> bool {
        for _ in 2..BLOCK {
            match self.sides(chain) {
                Some((before, term)) if !self.is_block(chain) && !self.is_block(term) => {
                    chain = before;
                }
                _ => return false,
            }
        }
        let last = self.sides(chain).map_or(chain, |(_, last)| last);
        !self.is_block(chain) && !self.is_block(last)
    }

    /// A chain with one more term, whose last terms become a block.
    fn with_block(self, chain: Expr, term: Expr, schema: &DFSchema) -> Expr {
        let mut terms = vec![term];
        let mut rest = Some(chain);
        while terms.len() < BLOCK
            && let Some(chain) = rest.take()
        {
            let term;
            // The first term of all may be a block.
            (rest, term) = match self.is_block(&chain) {
                true => (None, chain),
                false => self.split_last(chain),
            };
            terms.push(term);
        }
        terms.reverse();
        let mut block = match self.as_list(&terms, schema) {
            Some(list) => list,
            None => self.tree(terms),
        };
        while let Some(chain) = rest.take() {
            let (before, last) = match self.is_block(&chain) {
                true => (None, chain),
                false => self.split_last(chain),
            };
            if !self.is_block(&last) || self.weight(&last) != self.weight(&block) {
                let chain = match before {
                    Some(before) => self.join(before, last),
                    None => last,
                };
                return self.join(chain, block);
            }
            block = self.merge(last, block, schema);
            rest = before;
        }
        block
    }

    /// The terms as a tree, halves on both sides.
    fn tree(self, mut terms: Vec<Expr>) -> Expr {
        while terms.len() > 1 {
            let mut pairs = Vec::with_capacity(terms.len().div_ceil(2));
            let mut rest = terms.into_iter();
            while let Some(left) = rest.next() {
                pairs.push(match rest.next() {
                    Some(right) => self.join(left, right),
                    None => left,
                });
            }
            terms = pairs;
        }
        let only = terms.pop();
        only.unwrap_or_else(|| datafusion::logical_expr::lit(self == Self::And))
    }

    /// The terms as a list, if all compare one column with constants of one type.
    fn as_list(self, terms: &[Expr], schema: &DFSchema) -> Option<Expr> {
        let mut compared = terms.iter().map(|term| self.compared(term));
        let (column, first) = compared.next()??;
        let kind = constant_type(first)?;
        if !is_found_in_lists(&kind) || !is_found_in_lists(&type_of(column, schema)?) {
            return None;
        }
        let mut list = vec![first.clone()];
        for compared in compared {
            let (other, constant) = compared?;
            if other != column || constant_type(constant)? != kind {
                return None;
            }
            list.push(constant.clone());
        }
        let column = Box::new(Expr::Column(column.clone()));
        Some(Expr::InList(InList::new(column, list, self == Self::And)))
    }

    /// The column and the constant that a term compares.
    fn compared(self, term: &Expr) -> Option<(&Column, &Expr)> {
        let Expr::BinaryExpr(comparison) = term else {
            return None;
        };
        if comparison.op != self.comparison() {
            return None;
        }
        match (comparison.left.as_ref(), comparison.right.as_ref()) {
            (Expr::Column(column), constant) | (constant, Expr::Column(column)) => {
                Some((column, constant))
            }
            _ => None,
        }
    }

    /// Two blocks of equal weight as one.
    fn merge(self, left: Expr, right: Expr, schema: &DFSchema) -> Expr {
        match (left, right) {
            (Expr::InList(mut a), Expr::InList(b)) if self.may_be_one(&a, &b, schema) => {
                a.list.extend(b.list);
                Expr::InList(a)
            }
            (left, right) => self.join(left, right),
        }
    }

    fn may_be_one(self, a: &InList, b: &InList, schema: &DFSchema) -> bool {
        let of_chain = |list: &InList| list.negated == (self == Self::And);
        let (Expr::Column(column), true) = (a.expr.as_ref(), a.expr == b.expr) else {
            return false;
        };
        let Some(kind) = a.list.first().and_then(constant_type) else {
            return false;
        };
        let same = |constant: &Expr| constant_type(constant).as_ref() == Some(&kind);
        of_chain(a)
            && of_chain(b)
            && is_found_in_lists(&kind)
            && type_of(column, schema).is_some_and(|ty| is_found_in_lists(&ty))
            && a.list.iter().chain(&b.list).all(same)
    }
}

/// The type of a constant that is not NULL; `None` for other expressions.
fn constant_type(expr: &Expr) -> Option<DataType> {
    match expr {
        Expr::Literal(value, _) if !value.is_null() => Some(value.data_type()),
        Expr::Cast(Cast { expr, field }) => constant_type(expr).map(|_| field.data_type().clone()),
        _ => None,
    }
}

fn type_of(column: &Column, schema: &DFSchema) -> Option<DataType> {
    let field = schema.field_from_column(column).ok()?;
    Some(field.data_type().clone())
}

/// Whether equal values of a type are found in a list: all but floating-point numbers, of which -0.0 equals 0.0.
fn is_found_in_lists(ty: &DataType) -> bool {
    match ty {
        DataType::Dictionary(_, value) => is_found_in_lists(value),
        ty => !ty.is_floating() && !ty.is_nested(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::{col, lit};
    use datafusion::prelude::SessionContext;

    use super::*;

    fn schema() -> DFSchema {
        let field = |name: &str, ty| Field::new(name, ty, true);
        let fields = vec![
            field("a", DataType::Int64),
            field("b", DataType::Int64),
            field("f", DataType::Float64),
        ];
        DFSchema::try_from(Schema::new(fields)).unwrap()
    }

    /// The terms as the session plans them, one after the other.
    fn planned(op: &BinaryOperator, terms: &[Expr]) -> Expr {
        let mut terms = terms.iter().cloned();
        let first = terms.next().unwrap();
        terms.fold(first, |left, right| {
            let op = op.clone();
            let raw = RawBinaryExpr { op, left, right };
            match ChainPlanner.plan_binary_op(raw, &schema()).unwrap() {
                PlannerResult::Planned(expr) => expr,
                PlannerResult::Original(RawBinaryExpr { op, left, right }) => match op {
                    BinaryOperator::Or => OperatorChain::Or.join(left, right),
                    _ => OperatorChain::And.join(left, right),
                },
            }
        })
    }

    fn depth(expr: &Expr) -> usize {
        match expr {
            Expr::BinaryExpr(b) => 1 + depth(&b.left).max(depth(&b.right)),
            _ => 0,
        }
    }

    /// The terms of a chain from left to right, those of lists as comparisons.
    fn terms(chain: OperatorChain, expr: &Expr, into: &mut Vec<Expr>) {
        if let Some((left, right)) = chain.sides(expr) {
            terms(chain, left, into);
            terms(chain, right, into);
        } else if let Some(list) = chain.list(expr) {
            let compare = |constant: &Expr| {
                let (left, right) = (list.expr.clone(), Box::new(constant.clone()));
                Expr::BinaryExpr(BinaryExpr::new(left, chain.comparison(), right))
            };
            into.extend(list.list.iter().map(compare));
        } else {
            into.push(expr.clone());
        }
    }

    fn check(op: &BinaryOperator, chain: OperatorChain, all: &[Expr], lists: bool) {
        let whole = planned(op, all);
        let mut found = Vec::new();
        terms(chain, &whole, &mut found);
        assert!(found == all, "{} terms of {}", found.len(), all.len());
        let most = BLOCK + all.len().ilog2() as usize + 1;
        assert!(depth(&whole) <= most, "{} levels", depth(&whole));
        assert_eq!(format!("{whole}").contains(" IN ("), lists);
    }

    #[test]
    fn chains_keep_their_terms_and_are_not_deep() {
        for n in [1_i64, 2, 63, 64, 65, 128, 191, 1_000, 5_000] {
            let of = |term: &dyn Fn(i64) -> Expr| (0..n).map(term).collect::<Vec<_>>();
            let long = n >= 64;
            let equal = of(&|i| col("a").eq(lit(i)));
            check(&BinaryOperator::Or, OperatorChain::Or, &equal, long);
            let unequal = of(&|i| col("a").not_eq(lit(i)));
            check(&BinaryOperator::And, OperatorChain::And, &unequal, long);
            check(&BinaryOperator::And, OperatorChain::And, &equal, false);
            let less = of(&|i| col("a").lt(lit(i)));
            check(&BinaryOperator::Or, OperatorChain::Or, &less, false);
            let floats = of(&|i| col("f").eq(lit(i)));
            check(&BinaryOperator::Or, OperatorChain::Or, &floats, false);
            let mixed = of(&|i| match i % 2 {
                0 => col("a").eq(lit(i)),
                _ => col("a").eq(lit(i.to_string())),
            });
            check(&BinaryOperator::Or, OperatorChain::Or, &mixed, false);
            let columns = of(&|i| col(if i % 3 == 0 { "a" } else { "b" }).eq(lit(i)));
            check(&BinaryOperator::Or, OperatorChain::Or, &columns, false);
            let pairs = of(&|i| col("a").eq(lit(i)).and(col("b").eq(lit(i))));
            check(&BinaryOperator::Or, OperatorChain::Or, &pairs, false);
        }
    }

    #[test]
    fn null_is_in_no_list() {
        let all = (0..200).map(|i| match i % 50 {
            7 => col("a").eq(Expr::Literal(ScalarValue::Int64(None), None)),
            _ => col("a").eq(lit(i)),
        });
        let all = all.collect::<Vec<_>>();
        check(&BinaryOperator::Or, OperatorChain::Or, &all, false);
    }

    /// The types of columns that are cast from text, and of those that are cast from numbers.
    const TYPES: [(&str, &str); 2] = [
        (
            "v",
            "Utf8|Utf8View|Dictionary(Int8, Utf8)|Binary|Decimal128(10, 2)|UInt64",
        ),
        (
            "arrow_cast(v, 'Int64')",
            "Int8|Int64|Float64|Boolean|Timestamp(ms)|Timestamp(s, \"Asia/Tokyo\")|Dictionary(UInt16, Int64)|Date64",
        ),
    ];

    /// Constants of one type or of several, `$` being a small number.
    const CONSTANTS: [&str; 12] = [
        "$",
        "-$",
        "'$'",
        "$.0",
        "arrow_cast($, 'UInt8')",
        "arrow_cast('$', 'Utf8View')",
        "arrow_cast('$', 'Dictionary(Int32, Utf8)')",
        "DATE '1970-01-0$'",
        "TIMESTAMP '1970-01-01 00:00:00.00$'",
        "'1970-01-01T09:00:0$'",
        "X'3$'",
        "300$",
    ];

    /// A session with the table `t`, and the number of its columns.
    async fn filled(with_planner: bool) -> (SessionContext, usize) {
        let mut builder = SessionStateBuilder::new().with_default_features();
        if with_planner {
            install(&mut builder);
        }
        let ctx = SessionContext::new_with_state(builder.build());
        let types = TYPES
            .iter()
            .flat_map(|(v, all)| all.split('|').map(move |ty| (v, ty)));
        let casts = types.enumerate();
        let casts = casts.map(|(i, (from, ty))| format!("arrow_cast({from}, '{ty}') AS c{i}"));
        let casts = casts.collect::<Vec<_>>();
        let rows = format!(
            "CREATE TABLE t AS SELECT {} FROM (VALUES ('1'), ('2'), ('3'), ('4'), ('0'), (NULL)) AS n(v)",
            casts.join(", ")
        );
        ctx.sql(&rows).await.unwrap().collect().await.unwrap();
        (ctx, casts.len())
    }

    /// The rows that meet a condition; `None` if it is an error.
    async fn rows(ctx: &SessionContext, condition: &str) -> Option<String> {
        let sql = format!("SELECT c0, {condition} AS met FROM t ORDER BY c0");
        let batches = ctx.sql(&sql).await.ok()?.collect().await.ok()?;
        Some(pretty_format_batches(&batches).unwrap().to_string())
    }

    #[tokio::test]
    async fn chains_mean_what_they_mean_without_this_planner() {
        let ((plain, columns), (ours, _)) = (filled(false).await, filled(true).await);
        let mut compared = 0;
        for column in (0..columns).map(|i| format!("c{i}")) {
            for constant in CONSTANTS {
                // The two operators take turns, because each chain takes a tenth of a second.
                let (operator, link) = [(" = ", " OR "), (" <> ", " AND ")][compared % 2];
                let terms = (0..BLOCK + 2).map(|term| {
                    // Not all numbers are met, and each one is there many times.
                    let constant = constant.replace('$', ["1", "3", "4", "9"][term % 4]);
                    match term % 5 {
                        0 => format!("{constant}{operator}{column}"),
                        _ => format!("{column}{operator}{constant}"),
                    }
                });
                let chain = terms.collect::<Vec<_>>().join(link);
                let expected = rows(&plain, &chain).await;
                let found = rows(&ours, &chain).await;
                assert_eq!(found, expected, "{column}{operator}{constant}");
                compared += usize::from(found.is_some());
            }
        }
        assert!(compared > 80, "{compared} chains aren't errors");
    }
}
