//! The two zeros of floats, which statistics and conditions may or may not distinguish.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array};
use arrow::datatypes::{DataType, Float32Type, Float64Type};

/// Widens bounds that are zero to the outer of the two zeros. The writer of the bound may have stored either zero for
/// the other, and a comparison may treat them as equal (`=` of DataFusion) or not (a comparator of arrow).
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
