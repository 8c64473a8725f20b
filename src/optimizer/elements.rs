//! `gt[1]` for attributes with several values per cell.
//!
//! This serves `SELECT count(*) FROM calls WHERE gt[1] = 1 AND gt[2] = 1`, where `gt` has a fixed number of values in
//! each cell. DataFusion's function takes lists of variable length: it first converts lists of fixed length, and then
//! copies each element on its own. If all cells have equally many values, the index of an element follows from its row.
//! The analyzer rule here replaces DataFusion's function by one that uses this, once types are resolved. It does not
//! apply to attributes with a variable number of values, to indexes that are not constant, and in plans that read no
//! array. `tiledb.enable_elements_in_place` switches it off. Benchmark: `benches/special_ways.rs`,
//! `enable_elements_in_place`: 2.0 × for a condition, 2.9 × for a sum, on two cores.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt64Array, new_null_array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use super::plan_search::reads_array_and_has_expr;
use crate::options::settings::TileDbSettings;

/// The name of DataFusion's function, and its alias.
const ARRAY_ELEMENT: (&str, &str) = ("array_element", "list_element");

/// Adds the function and the analyzer rule to a session that is being built.
pub(super) fn install(builder: &mut SessionStateBuilder) {
    let rules = &mut builder.analyzer().get_or_insert_default().rules;
    if is_among(rules) {
        return;
    }
    let rule = ElementsInPlace::default();
    let function = Arc::clone(&rule.function);
    rules.push(Arc::new(rule));
    let functions = builder.scalar_functions().get_or_insert_default();
    functions.push(function);
}

/// Whether the rule is among these.
pub(super) fn is_among(rules: &[Arc<dyn AnalyzerRule + Send + Sync>]) -> bool {
    rules
        .iter()
        .any(|rule| rule.name() == ElementsInPlace::NAME)
}

/// Replaces `array_element` by [`ElementInPlace`] where it can.
#[derive(Debug)]
struct ElementsInPlace {
    function: Arc<ScalarUDF>,
}

impl Default for ElementsInPlace {
    fn default() -> Self {
        let signature = Signature::any(2, Volatility::Immutable);
        let function = ElementInPlace { signature };
        Self {
            function: Arc::new(ScalarUDF::from(function)),
        }
    }
}

impl ElementsInPlace {
    const NAME: &'static str = "tiledb_elements_in_place";

    /// The element of a list of fixed length, if `expr` is one.
    fn in_place(&self, expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
        let Some((list, index)) = cast_and_index(&expr) else {
            return Transformed::no(expr);
        };
        let fixed = match (list.expr.get_type(schema), list.field.data_type()) {
            (Ok(DataType::FixedSizeList(of, _)), DataType::List(to)) => {
                of.data_type() == to.data_type()
            }
            _ => false,
        };
        if !fixed {
            return Transformed::no(expr);
        }
        let args = vec![list.expr.as_ref().clone(), index.clone()];
        let function = ScalarFunction::new_udf(Arc::clone(&self.function), args);
        Transformed::yes(Expr::ScalarFunction(function))
    }
}

/// The list and the index of a call of DataFusion's function with a cast list and a constant index.
fn cast_and_index(expr: &Expr) -> Option<(&Cast, &Expr)> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else {
        return None;
    };
    let (name, alias) = ARRAY_ELEMENT;
    let same = func.name() == name && func.aliases().iter().any(|a| a == alias);
    match args.as_slice() {
        [
            Expr::Cast(list),
            index @ Expr::Literal(ScalarValue::Int64(Some(_)), _),
        ] if same => Some((list, index)),
        _ => None,
    }
}

impl AnalyzerRule for ElementsInPlace {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let is_call = |expr: &Expr| cast_and_index(expr).is_some();
        if !TileDbSettings::of(config).enable_elements_in_place
            || !reads_array_and_has_expr(&plan, is_call)?
        {
            return Ok(plan);
        }
        let in_plan = |plan: LogicalPlan| {
            let names = NamePreserver::new(&plan);
            let inputs = plan
                .inputs()
                .into_iter()
                .map(|input| Arc::clone(input.schema()))
                .collect::<Vec<_>>();
            plan.map_expressions(|expr| {
                // Most expressions have no such call and need no schema.
                if !expr.exists(|e| Ok(cast_and_index(e).is_some()))? {
                    return Ok(Transformed::no(expr));
                }
                let mut schema = DFSchema::empty();
                inputs.iter().for_each(|input| schema.merge(input));
                let name = names.save(&expr);
                let changed = expr.transform_up(|expr| Ok(self.in_place(expr, &schema)))?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            })
        };
        plan.transform_up_with_subqueries(in_plan).data()
    }
}

/// Returns an element of a list of fixed length, counted from 1, or from the end by negative numbers; NULL beyond the
/// ends.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ElementInPlace {
    signature: Signature,
}

impl ScalarUDFImpl for ElementInPlace {
    fn name(&self) -> &'static str {
        "tiledb_element"
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [list, index] => Ok(format!("{list}[{index}]")),
            _ => exec_err!("{} takes a list and a number", self.name()),
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [list, index] => Ok(format!("{}[{}]", list.schema_name(), index.schema_name())),
            _ => exec_err!("{} takes a list and a number", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::FixedSizeList(of, _), DataType::Int64] => Ok(of.data_type().clone()),
            _ => exec_err!("{} takes a list of fixed length and a BIGINT", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [list, ColumnarValue::Scalar(ScalarValue::Int64(Some(index)))] = args.args.as_slice()
        else {
            return exec_err!("{} takes a list and a number", self.name());
        };
        let list = list.to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(element(&list, *index)?))
    }
}

/// The element with this index in each list.
fn element(list: &ArrayRef, index: i64) -> Result<ArrayRef> {
    let Some(list) = list.as_fixed_size_list_opt() else {
        return exec_err!("{} isn't a list of fixed length", list.data_type());
    };
    let length = i64::from(list.value_length());
    let offset = match index {
        1.. => index - 1,
        0 => -1,
        _ => index.saturating_add(length),
    };
    let (first, step) = match offset {
        0.. if offset < length => (offset.cast_unsigned(), length.cast_unsigned()),
        _ => {
            return Ok(new_null_array(&list.value_type(), list.len()));
        }
    };
    let indices = (0..list.len() as u64).map(|row| row * step + first);
    let indices = UInt64Array::new(indices.collect(), list.nulls().cloned());
    Ok(take(list.values(), &indices, None)?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{FixedSizeListArray, Int16Array};
    use datafusion::arrow::datatypes::Int16Type;

    use super::*;

    #[test]
    fn elements_are_counted_from_both_ends() {
        let lists = [
            None,
            Some([Some(1), None, Some(3)]),
            None,
            Some([Some(4), Some(5), Some(6)]),
        ];
        let lists = FixedSizeListArray::from_iter_primitive::<Int16Type, _, _>(lists, 3);
        let part: ArrayRef = Arc::new(lists.slice(1, 3));
        let expected = [
            (1, [Some(1), None, Some(4)]),
            (2, [None, None, Some(5)]),
            (3, [Some(3), None, Some(6)]),
            (-1, [Some(3), None, Some(6)]),
            (-3, [Some(1), None, Some(4)]),
        ];
        for (index, expected) in expected {
            let expected = Int16Array::from(expected.to_vec());
            assert_eq!(element(&part, index).unwrap().as_primitive(), &expected);
        }
        for beyond in [0, 4, -4, i64::MAX, i64::MIN] {
            let nothing = Int16Array::from(vec![None; 3]);
            assert_eq!(element(&part, beyond).unwrap().as_primitive(), &nothing);
        }
    }
}
