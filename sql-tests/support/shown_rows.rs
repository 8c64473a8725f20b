//! The rows that SQL shows for rows that libtiledb reads: NaNs of different bits become one NaN, and coordinates have one zero.
//!
//! libtiledb treats the coordinates -0.0 and 0.0 as two cells; SQL treats them as one. Rows of libtiledb that differ only in
//! this sign are versions of one cell. They don't show which version is the newest, so SQL must show any one of them.

use std::collections::BTreeMap;

use datafusion::arrow::datatypes::{DataType, Schema};
use serde_json::Value;

use crate::support::neutral_rows;

/// Whether a column holds floats, and in which role.
#[derive(Clone, Copy, PartialEq)]
enum FloatRole {
    None,
    Attribute,
    Dimension,
}

/// The columns of an array.
pub struct ShownColumns(Vec<FloatRole>);

impl ShownColumns {
    pub fn of(schema: &Schema) -> Self {
        let columns = schema.fields().iter().map(|field| {
            let is_dimension = field
                .metadata()
                .get("tiledb.role")
                .is_some_and(|role| role == "dimension");
            match (has_floats(field.data_type()), is_dimension) {
                (false, _) => FloatRole::None,
                (true, false) => FloatRole::Attribute,
                (true, true) => FloatRole::Dimension,
            }
        });
        Self(columns.collect())
    }

    /// Describes what is wrong with the rows, which are in the neutral form; `None` if they are right.
    pub fn compare(&self, wanted: &[&str], found: &[String]) -> Result<(), String> {
        let mut there: BTreeMap<String, usize> = BTreeMap::new();
        for row in found {
            *there.entry(row.clone()).or_default() += 1;
        }
        let mut take = |row: &String| match there.get_mut(row) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        };
        let mut cells: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for row in wanted {
            let values: Value = serde_json::from_str(row).map_err(|e| e.to_string())?;
            let own = self.coordinates(&values, false);
            let shown = self.shown(&values, row);
            let cell = self.coordinates(&values, true);
            cells.entry(cell).or_default().push((own, shown));
        }
        for versions in cells.values() {
            let same = versions.iter().all(|(own, _)| *own == versions[0].0);
            let taken = versions.iter().filter(|(_, shown)| take(shown)).count();
            if taken < if same { versions.len() } else { 1 } {
                return Err(format!("expected {versions:?}, of which {taken} are there"));
            }
        }
        match there.iter().find(|(_, count)| **count > 0) {
            None => Ok(()),
            Some((row, _)) => Err(format!("found {row}, which libtiledb does not read")),
        }
    }

    /// The coordinates, with all of their bits or with one zero. Without floats among the coordinates, the whole row.
    fn coordinates(&self, row: &Value, one_zero: bool) -> String {
        if self.0.contains(&FloatRole::Dimension) {
            self.of_dimensions(row, one_zero)
        } else {
            row.to_string()
        }
    }

    fn of_dimensions(&self, row: &Value, one_zero: bool) -> String {
        let last = self
            .0
            .iter()
            .rposition(|kind| *kind == FloatRole::Dimension);
        let values = self
            .0
            .iter()
            .zip(row.as_array().into_iter().flatten())
            .take(last.map_or(0, |last| last + 1))
            .map(|(kind, value)| match (kind, value.as_str()) {
                (FloatRole::Dimension, Some(bits)) if one_zero => without_sign(bits).to_owned(),
                _ => value.to_string(),
            });
        values.collect::<Vec<_>>().join(" ")
    }

    fn shown(&self, row: &Value, text: &str) -> String {
        if self.0.iter().all(|kind| *kind == FloatRole::None) {
            return text.to_owned();
        }
        let values = self.0.iter().zip(row.as_array().into_iter().flatten()).map(
            |(kind, value)| match kind {
                FloatRole::None => value.clone(),
                kind => one_nan(value, *kind == FloatRole::Dimension),
            },
        );
        neutral_rows::ascii(&Value::Array(values.collect()).to_string())
    }
}

fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::FixedSizeList(item, _) => has_floats(item.data_type()),
        DataType::Dictionary(_, values) => has_floats(values),
        other => matches!(other, DataType::Float32 | DataType::Float64),
    }
}

fn one_nan(value: &Value, one_zero: bool) -> Value {
    let bits = match value {
        Value::Array(items) => {
            return Value::Array(items.iter().map(|item| one_nan(item, one_zero)).collect());
        }
        Value::String(bits) => bits,
        other => return other.clone(),
    };
    let number = u64::from_str_radix(bits, 16).expect("a float is its bits");
    let is_nan = match bits.len() {
        8 => f32::from_bits(u32::try_from(number).expect("eight digits")).is_nan(),
        _ => f64::from_bits(number).is_nan(),
    };
    Value::String(match (is_nan, one_zero, bits.len()) {
        (true, _, 8) => "7fc00000".to_owned(),
        (true, ..) => "7ff8000000000000".to_owned(),
        (false, true, _) => without_sign(bits).to_owned(),
        (false, false, _) => bits.clone(),
    })
}

fn without_sign(bits: &str) -> &str {
    match bits {
        "8000000000000000" => "0000000000000000",
        "80000000" => "00000000",
        other => other,
    }
}
