//! Cuts in expressions: an expression gives way to a part of it, or to a literal.

use super::super::ast::{Expr, Kind, Node};
use super::Knife;
use super::queries::{cut_keys, cut_query};

/// Offers every cut of an expression.
pub fn cut_expr(expr: &mut Expr, knife: &mut Knife) {
    let kind = expr.kind;
    if kind == Kind::Bool && !expr.is_literal() {
        for truth in ["TRUE", "FALSE"] {
            if knife.cuts() {
                *expr = Expr::literal(Kind::Bool, truth);
                return;
            }
        }
    }
    let whole = !matches!(expr.node, Node::Aggregate { .. } | Node::Window { .. });
    let parts: Vec<Expr> = expr.children().into_iter().cloned().collect();
    for part in parts {
        if whole && part.kind == kind && knife.cuts() {
            *expr = part;
            return;
        }
    }
    match &mut expr.node {
        Node::Op { text, args } => {
            // A list of values.
            if args.len() > 2 && text.contains("IN (") && knife.cuts() {
                args.pop();
                *text = text.replacen(", {}", "", 1);
                return;
            }
        }
        Node::Aggregate {
            distinct,
            order,
            filter,
            ..
        } => {
            if *distinct && knife.cuts() {
                *distinct = false;
            }
            if filter.is_some() && knife.cuts() {
                *filter = None;
            }
            cut_keys(order, knife, false);
        }
        Node::Window {
            partition,
            order,
            frame,
            ..
        } => {
            if frame.is_some() && knife.cuts() {
                *frame = None;
            }
            for i in 0..partition.len() {
                if knife.cuts() {
                    partition.remove(i);
                    return;
                }
            }
            cut_keys(order, knife, true);
        }
        Node::In { not, .. } => {
            if *not && knife.cuts() {
                *not = false;
            }
        }
        Node::Literal(text) => {
            for simple in ["0", "1"] {
                if kind == Kind::Int && text.len() > 2 && knife.cuts() {
                    simple.clone_into(text);
                    return;
                }
            }
        }
        Node::Column { .. } | Node::Parameter(_) | Node::Scalar(_) | Node::Exists(_) => {}
    }
    for child in expr.children_mut() {
        cut_expr(child, knife);
    }
    if let Some(query) = expr.query_mut() {
        cut_query(query, knife);
    }
}
