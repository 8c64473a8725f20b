//! How deeply conditions are nested. What is sent to another machine may have a limited number of levels, because it is read level by
//! level on a stack.

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::BinaryExpr;

use super::shape::{PhysicalExprRef, operands};

/// The most levels of an expression that is sent. Protocol buffers have two messages for each, and at most 100 in one another.
pub(crate) const MOST_SENT_LEVELS: usize = 45;

/// The same condition with chains of AND or OR as trees that are as flat as possible. The order of operands stays.
pub(crate) fn flattened(expr: &PhysicalExprRef) -> PhysicalExprRef {
    flattened_within(expr, MOST_SENT_LEVELS)
}

fn flattened_within(expr: &PhysicalExprRef, levels: usize) -> PhysicalExprRef {
    let binary = expr.downcast_ref::<BinaryExpr>();
    let chain = binary.map(|binary| *binary.op());
    let Some(operator @ (Operator::And | Operator::Or)) = chain else {
        return Arc::clone(expr);
    };
    // What lies deeper can't be sent anyway.
    let Some(levels) = levels.checked_sub(1) else {
        return Arc::clone(expr);
    };
    let all = operands(expr, operator).into_iter();
    let mut all: Vec<_> = all
        .map(|operand| flattened_within(operand, levels))
        .collect();
    while all.len() > 1 {
        let pairs = all.chunks(2);
        let joined = pairs.map(|pair| match pair {
            [left, right] => Arc::new(BinaryExpr::new(
                Arc::clone(left),
                operator,
                Arc::clone(right),
            )) as PhysicalExprRef,
            [single] => Arc::clone(single),
            _ => Arc::clone(expr),
        });
        all = joined.collect();
    }
    all.pop().unwrap_or_else(|| Arc::clone(expr))
}

/// Whether an expression has at most as many levels as can be sent.
pub(crate) fn can_be_sent(expr: &PhysicalExprRef) -> bool {
    let mut waiting = vec![(expr, 1)];
    while let Some((expr, level)) = waiting.pop() {
        if level > MOST_SENT_LEVELS {
            return false;
        }
        waiting.extend(expr.children().into_iter().map(|child| (child, level + 1)));
    }
    true
}

#[cfg(test)]
mod tests {
    use datafusion::physical_expr::expressions::{NotExpr, lit};

    use super::*;

    fn chain(operator: Operator, count: usize) -> PhysicalExprRef {
        let terms = (1..count).map(|n| lit(n.is_multiple_of(3)));
        terms.fold(lit(false), |chain, term| {
            Arc::new(BinaryExpr::new(chain, operator, term))
        })
    }

    #[test]
    fn chains_become_flat_and_keep_their_operands() {
        for operator in [Operator::And, Operator::Or] {
            for count in [1, 2, 3, 4, 5, 64, 999] {
                let chain = chain(operator, count);
                let flat = flattened(&chain);
                assert!(can_be_sent(&flat), "{count}");
                assert_eq!(can_be_sent(&chain), count <= MOST_SENT_LEVELS, "{count}");
                let texts = |expr: &PhysicalExprRef| {
                    let all = operands(expr, operator).into_iter();
                    all.map(|operand| operand.to_string()).collect::<Vec<_>>()
                };
                assert_eq!(texts(&flat), texts(&chain));
            }
        }
    }

    #[test]
    fn chains_within_chains_are_flat_too() {
        let inner = chain(Operator::Or, 300);
        let all = (0..300).map(|_| Arc::clone(&inner));
        let outer = all.reduce(|left, right| Arc::new(BinaryExpr::new(left, Operator::And, right)));
        assert!(can_be_sent(&flattened(&outer.unwrap())));
    }

    #[test]
    fn what_is_no_chain_is_not_flat() {
        let nested = (0..50_000).fold(lit(true), |nested, _| Arc::new(NotExpr::new(nested)) as _);
        assert!(!can_be_sent(&flattened(&nested)));
        // Its own destructor would overflow the stack.
        std::mem::forget(nested);
    }
}
