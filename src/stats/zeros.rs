//! The two zeros of floats, between which statistics and conditions draw the line in different places.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array};
use arrow::datatypes::{DataType, Float32Type, Float64Type};

/// The outer one of the two zeros where a bound is a zero: whoever wrote the bound may have taken one for the other, and
/// so may who compares with it (an `=` of DataFusion does, a comparator of arrow does not).
pub(crate) fn outer_zeros(bounds: &ArrayRef, upper: bool) -> ArrayRef {
    match bounds.data_type() {
        DataType::Float32 => {
            let zero = if upper { 0.0 } else { -0.0 };
            let outer = |v: f32| if v == 0.0 { zero } else { v };
            let array: Float32Array = bounds.as_primitive::<Float32Type>().unary(outer);
            Arc::new(array)
        }
        DataType::Float64 => {
            let zero = if upper { 0.0 } else { -0.0 };
            let outer = |v: f64| if v == 0.0 { zero } else { v };
            let array: Float64Array = bounds.as_primitive::<Float64Type>().unary(outer);
            Arc::new(array)
        }
        _ => Arc::clone(bounds),
    }
}
