//! Codes and values of enumerations in plans for other machines.
//!
//! The codec of the engine passes no expressions of ours on, but functions that the workers know by name. So the expressions are
//! written as calls of two functions, whose second argument is the list of the enumeration's values.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
use datafusion_proto::protobuf::physical_expr_node::ExprType;
use datafusion_proto::protobuf::{PhysicalExprNode, PhysicalScalarUdfNode};

use super::conversion::EnumerationConversion;

/// The call that an expression is sent as.
pub(super) fn as_call(
    conversion: EnumerationConversion,
    of: &Arc<dyn PhysicalExpr>,
    values: &ArrayRef,
    field: &FieldRef,
    context: &PhysicalExprEncodeCtx<'_>,
) -> Result<PhysicalExprNode> {
    let list = SingleRowListArrayBuilder::new(Arc::clone(values)).build_list_scalar();
    let list = Arc::new(Literal::new(list)) as Arc<dyn PhysicalExpr>;
    let call = PhysicalScalarUdfNode {
        name: function_name(conversion).to_owned(),
        args: context.encode_children_expressions([of, &list])?,
        fun_definition: None,
        return_type: Some(field.data_type().try_into()?),
        nullable: field.is_nullable(),
        return_field_name: field.name().clone(),
    };
    Ok(PhysicalExprNode {
        expr_id: None,
        expr_type: Some(ExprType::ScalarUdf(call)),
    })
}

/// The name by which workers know a conversion.
fn function_name(conversion: EnumerationConversion) -> &'static str {
    match conversion {
        EnumerationConversion::ToCodes => "tiledb_enumeration_codes",
        EnumerationConversion::ToValues => "tiledb_enumeration_values",
    }
}

/// Adds the functions to a worker's session.
pub(crate) fn install(builder: &mut SessionStateBuilder) {
    let functions = builder.scalar_functions().get_or_insert_default();
    for conversion in [
        EnumerationConversion::ToCodes,
        EnumerationConversion::ToValues,
    ] {
        let function = SentFunction {
            conversion,
            signature: Signature::any(2, Volatility::Immutable),
        };
        functions.push(Arc::new(ScalarUDF::from(function)));
    }
}

/// A function of a column and the list of an enumeration's values. Its call holds the type that it returns.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SentFunction {
    conversion: EnumerationConversion,
    signature: Signature,
}

impl ScalarUDFImpl for SentFunction {
    fn name(&self) -> &str {
        function_name(self.conversion)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        exec_err!("{} is for plans from other machines", self.name())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [column, ColumnarValue::Scalar(ScalarValue::List(list))] = args.args.as_slice() else {
            return exec_err!("{} takes a column and a list of values", self.name());
        };
        if list.len() != 1 || list.is_null(0) {
            return exec_err!("{} takes one list of values", self.name());
        }
        let (column, values) = (column.to_array(args.number_rows)?, list.value(0));
        let converted = self.conversion.convert(&column, &values)?;
        let (found, expected) = (converted.data_type(), args.return_field.data_type());
        if found != expected {
            return exec_err!("{} gives {found} instead of {expected}", self.name());
        }
        Ok(ColumnarValue::Array(converted))
    }
}
