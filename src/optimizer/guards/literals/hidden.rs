//! Casts that are disguised as functions, so that DataFusion's simplifier keeps them.
//!
//! The simplifier moves a cast from the column to the literal, so `CAST(t AS Timestamp(ns)) < …` becomes `t < …`. It wrongly
//! assumes that the literal's conversion is exact. A disguised cast has the name, type and value of the original cast.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TryCast, Volatility,
};

/// A disguised cast to `to`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct HiddenCast {
    signature: Signature,
    to: FieldRef,
    /// Whether a value that can't be cast becomes NULL, as in TRY_CAST.
    tries: bool,
}

/// Returns the function for a cast, and every other expression unchanged.
pub(super) fn hidden(expr: Expr) -> Expr {
    let (inner, to, tries) = match expr {
        Expr::Cast(Cast { expr, field }) => (expr, field, false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
        other => return other,
    };
    let function = HiddenCast {
        signature: Signature::any(1, Volatility::Immutable),
        to,
        tries,
    };
    let function = Arc::new(ScalarUDF::from(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*inner]))
}

/// Whether [`hidden`] made the expression.
pub(super) fn is_hidden(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => {
            let function = call.func.inner();
            function.downcast_ref::<HiddenCast>().is_some()
        }
        _ => false,
    }
}

/// Returns the cast for a function that [`hidden`] made, and every other expression unchanged.
pub(super) fn shown(expr: Expr) -> Transformed<Expr> {
    let Expr::ScalarFunction(ScalarFunction { func, mut args }) = expr else {
        return Transformed::no(expr);
    };
    let cast = func.inner().downcast_ref::<HiddenCast>();
    let (Some(cast), 1) = (cast, args.len()) else {
        return Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args }));
    };
    let (inner, to) = (Box::new(args.remove(0)), Arc::clone(&cast.to));
    Transformed::yes(if cast.tries {
        Expr::TryCast(TryCast::new_from_field(inner, to))
    } else {
        Expr::Cast(Cast::new_from_field(inner, to))
    })
}

impl ScalarUDFImpl for HiddenCast {
    fn name(&self) -> &'static str {
        "tiledb_hidden_cast"
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [inner] => Ok(format!("CAST({inner} AS {})", self.to.data_type())),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        // A cast has the name of its operand.
        match args {
            [inner] => Ok(inner.schema_name().to_string()),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.to.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [inner] = args.arg_fields else {
            return internal_err!("{} takes one argument", self.name());
        };
        let nullable = self.tries || inner.is_nullable();
        let field = inner
            .as_ref()
            .clone()
            .with_nullable(nullable)
            .with_data_type(self.to.data_type().clone());
        Ok(Arc::new(if self.to.metadata().is_empty() {
            field
        } else {
            field.with_metadata(self.to.metadata().clone())
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [inner] = args.args.as_slice() else {
            return internal_err!("{} takes one argument", self.name());
        };
        let mut options = DEFAULT_CAST_OPTIONS;
        options.safe = self.tries;
        inner.cast_to(self.to.data_type(), Some(&options))
    }
}
