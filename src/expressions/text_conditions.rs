//! The conditions on text within a predicate.
//!
//! They are the input of the search in text, described in `scan/sparse/tile/text.rs` of the engine; `tiledb.enable_text_search`
//! switches it off. Only comparisons that no string can make fail are used, because the scan evaluates them on strings
//! that may belong to no row.

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, LikeExpr, Literal};
use tiledb_engine::tile::needles::NeedleSet;

use super::shape::{ConditionShape, PhysicalExprRef};

/// The most needles that are searched for.
const MOST_NEEDLES: usize = 16;

/// The properties of a condition on text.
#[derive(Debug)]
pub(crate) struct TextProperties {
    /// The only column it reads.
    column: usize,
    /// Byte strings one of which every matching string contains.
    pub needles: Option<NeedleSet>,
}

/// `None` if a condition is not on the text of one column, or may fail.
pub(crate) fn of_condition(expr: &PhysicalExprRef, schema: &Schema) -> Option<TextProperties> {
    TextAnalysis { schema }.condition(expr, 0)
}

struct TextAnalysis<'a> {
    schema: &'a Schema,
}

impl TextAnalysis<'_> {
    fn condition(&self, expr: &PhysicalExprRef, depth: usize) -> Option<TextProperties> {
        let texts = |parts: Vec<&PhysicalExprRef>| {
            let texts = parts
                .into_iter()
                .map(|part| self.condition(part, depth + 1));
            texts.collect::<Option<Vec<_>>>()
        };
        match ConditionShape::of(expr, depth)? {
            ConditionShape::All(parts) => together(texts(parts)?, Option::or),
            ConditionShape::Any(parts) => together(texts(parts)?, |a, b| Some(a?.or(b?))),
            ConditionShape::Not(arg) => Some(TextProperties {
                needles: None,
                ..self.condition(arg, depth + 1)?
            }),
            ConditionShape::Single => self.single(expr),
            ConditionShape::Constant(_) | ConditionShape::OneOf(_) | ConditionShape::Dynamic(_) => {
                None
            }
        }
    }

    /// A condition that is not composed of others.
    fn single(&self, expr: &PhysicalExprRef) -> Option<TextProperties> {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            self.comparison(binary)
        } else if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            let column = self.column(like.expr())?;
            let pattern = text_of(like.pattern())?;
            let literally = !like.negated() && !like.case_insensitive();
            let needles = literally.then(|| longest_run(pattern)).flatten();
            Some(TextProperties {
                column,
                needles: needles.and_then(|run| needle(run.as_bytes())),
            })
        } else if let Some(list) = expr.downcast_ref::<InListExpr>() {
            let column = self.column(list.expr())?;
            let values = list
                .list()
                .iter()
                .map(bytes_of)
                .collect::<Option<Vec<_>>>()?;
            let few = !list.negated() && values.len() <= MOST_NEEDLES;
            let needles = few.then(|| needles(&values)).flatten();
            Some(TextProperties { column, needles })
        } else {
            self.function(expr.downcast_ref::<ScalarFunctionExpr>()?)
        }
    }

    fn comparison(&self, binary: &BinaryExpr) -> Option<TextProperties> {
        use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let compares = matches!(binary.op(), Eq | NotEq | Lt | LtEq | Gt | GtEq);
        let (left, right) = (binary.left(), binary.right());
        let ends = self
            .column(left)
            .zip(bytes_of(right))
            .or_else(|| self.column(right).zip(bytes_of(left)));
        let (column, value) = ends.filter(|_| compares)?;
        let equal = *binary.op() == Eq;
        Some(TextProperties {
            column,
            needles: equal.then(|| needle(value)).flatten(),
        })
    }

    fn function(&self, function: &ScalarFunctionExpr) -> Option<TextProperties> {
        let known = function.fun().name() == "starts_with";
        let [column, part] = function.args() else {
            return None;
        };
        let (column, part) = (self.column(column)?, text_of(part)?);
        known.then(|| TextProperties {
            column,
            needles: needle(part.as_bytes()),
        })
    }

    /// A column of strings.
    fn column(&self, expr: &PhysicalExprRef) -> Option<usize> {
        let column = expr.downcast_ref::<Column>()?.index();
        let strings = |t: &DataType| matches!(t, DataType::Utf8View | DataType::BinaryView);
        let field = self.schema.fields().get(column)?;
        strings(field.data_type()).then_some(column)
    }
}

/// Combines conditions on one column, and their needles by `join`.
fn together(
    texts: Vec<TextProperties>,
    join: impl Fn(Option<NeedleSet>, Option<NeedleSet>) -> Option<NeedleSet>,
) -> Option<TextProperties> {
    let mut texts = texts.into_iter();
    let first = texts.next()?;
    texts.try_fold(first, |text, other| {
        let needles = join(text.needles, other.needles);
        let same = text.column == other.column;
        same.then_some(TextProperties {
            column: text.column,
            needles: needles.filter(|needles| needles.len() <= MOST_NEEDLES),
        })
    })
}

/// A literal string that is not NULL.
fn text_of(expr: &PhysicalExprRef) -> Option<&str> {
    expr.downcast_ref::<Literal>()?.value().try_as_str()?
}

/// The bytes of a string literal of any type that is not NULL.
fn bytes_of(expr: &PhysicalExprRef) -> Option<&[u8]> {
    use ScalarValue::{Binary, BinaryView, LargeBinary};
    match expr.downcast_ref::<Literal>()?.value() {
        Binary(value) | BinaryView(value) | LargeBinary(value) => value.as_deref(),
        other => other.try_as_str()?.map(str::as_bytes),
    }
}

fn needle(bytes: &[u8]) -> Option<NeedleSet> {
    needles(&[bytes])
}

/// `None` if one of them is empty, or may be shown for other stored bytes.
fn needles(all: &[&[u8]]) -> Option<NeedleSet> {
    // Replacement characters stand for invalid stored bytes.
    let replaced = |bytes: &&[u8]| {
        let text = std::str::from_utf8(bytes);
        text.is_ok_and(|text| text.contains(char::REPLACEMENT_CHARACTER))
    };
    if all.iter().any(replaced) {
        None
    } else {
        NeedleSet::new(all.iter().copied())
    }
}

/// The longest literal part of a LIKE pattern; `None` if it has escapes.
fn longest_run(pattern: &str) -> Option<&str> {
    let runs = pattern.split(['%', '_']);
    let longest = runs.max_by_key(|run| run.len());
    longest.filter(|_| !pattern.contains('\\'))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::Field;
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    use datafusion::datasource::MemTable;
    use datafusion::physical_plan::filter::FilterExec;
    use datafusion::prelude::SessionContext;
    use tiledb_engine::tile::needles::NeedleMatches;

    use super::*;

    fn of(sql: &str) -> Option<TextProperties> {
        let fields = vec![
            Field::new("s", DataType::Utf8View, true),
            Field::new("t", DataType::Utf8View, true),
            Field::new("n", DataType::Int64, true),
        ];
        let schema = Arc::new(Schema::new(fields));
        let table = MemTable::try_new(Arc::clone(&schema), vec![vec![]]).unwrap();
        let ctx = SessionContext::new();
        ctx.register_table("t", Arc::new(table)).unwrap();
        let plan = async {
            let query = ctx.sql(&format!("SELECT * FROM t WHERE {sql}")).await?;
            query.create_physical_plan().await
        };
        let plan = futures::executor::block_on(plan).unwrap();
        let mut text = None;
        plan.apply(|node| {
            if let Some(filter) = node.downcast_ref::<FilterExec>() {
                text = of_condition(filter.predicate(), &schema);
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        text
    }

    /// Whether a string with these bytes may satisfy a condition, by its needles.
    fn may_hold(sql: &str, string: &str) -> bool {
        let text = of(sql).unwrap_or_else(|| panic!("{sql} is about text"));
        let needles = text.needles.unwrap_or_else(|| panic!("{sql} has needles"));
        needles.find_in(string.as_bytes()) != NeedleMatches::At(Vec::new())
    }

    #[test]
    fn needles_are_in_every_string_that_meets_a_condition() {
        for (sql, hit, miss) in [
            ("s = 'abc'", "abc", "abd"),
            ("'abc' = s", "abc", "ab"),
            ("s LIKE 'ab%cde_f'", "ab-cdexf", "ab-cd"),
            ("s IN ('abc', 'xyz')", "xyz", "xy"),
            ("s = 'abc' OR s LIKE '%xyz'", "-xyz", "ab"),
            ("s > 'b' AND s LIKE '%xyz%'", "c xyz", "c"),
            ("starts_with(s, 'ab')", "abc", "ba"),
            ("s = 'é'", "é", "e"),
        ] {
            assert!(may_hold(sql, hit), "{sql}");
            assert!(!may_hold(sql, miss), "{sql}");
        }
    }

    #[test]
    fn some_conditions_on_text_have_no_needles() {
        for sql in [
            "s <> 'abc'",
            "s < 'abc'",
            "s = ''",
            "s IN ('abc', '')",
            "s NOT IN ('abc')",
            "s NOT LIKE 'abc%'",
            "s ILIKE 'abc%'",
            "s LIKE '%_%'",
            "s LIKE 'a\\%bcd%'",
            "NOT (s LIKE 'abc%')",
            "s = 'abc' OR s > 'x'",
            "s = 'a\u{fffd}b'",
            "s IN ('a\u{fffd}b', 'b', 'c', 'd', 'e')",
            "s LIKE '%a\u{fffd}b'",
        ] {
            let text = of(sql).unwrap_or_else(|| panic!("{sql} is about text"));
            assert!(text.needles.is_none(), "{sql}");
        }
    }

    #[test]
    fn other_conditions_are_not_about_text() {
        for sql in [
            "n = 3",
            "s = t",
            "s = 'a' OR t = 'a'",
            "s = 'a' OR n = 3",
            "s IS NULL",
            "s IS NOT DISTINCT FROM 'a'",
            "coalesce(s, 'a') = 'a'",
            "CAST(s AS INT) = 3",
            "s = NULL",
            "s IN ('a', NULL)",
            "substr(s, 2) = 'a'",
            "contains(s, 'a')",
        ] {
            assert!(of(sql).is_none(), "{sql}");
        }
    }
}
