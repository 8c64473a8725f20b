//! Between the values of a column and their codes in an enumeration.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int64Array, downcast_integer_array, make_comparator,
};
use datafusion::arrow::compute::{SortOptions, cast, sort_to_indices, take};
use datafusion::common::{Result, exec_err};

/// What becomes of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum EnumerationConversion {
    /// The values of a dictionary become their codes in the enumeration.
    ToCodes,
    /// Codes of the enumeration become a dictionary of its values.
    ToValues,
}

impl EnumerationConversion {
    /// Converts a column, with the values of the enumeration, which all differ.
    ///
    /// # Errors
    /// The column isn't a dictionary, or not one of integers; a row has a value or a code that the enumeration hasn't.
    pub(super) fn convert(self, column: &ArrayRef, values: &ArrayRef) -> Result<ArrayRef> {
        match self {
            Self::ToCodes => codes_among(column, values),
            Self::ToValues => values_of(column, values),
        }
    }
}

/// The codes of a dictionary in the enumeration with these values, which all differ.
///
/// Fails if a row has a value that isn't among them.
fn codes_among(array: &ArrayRef, values: &ArrayRef) -> Result<ArrayRef> {
    let Some(dictionary) = array.as_any_dictionary_opt() else {
        return exec_err!("{} isn't an enumeration", array.data_type());
    };
    let shown = dictionary.values();
    if shown.to_data().ptr_eq(&values.to_data()) || shown == values {
        return Ok(dictionary.keys().slice(0, dictionary.keys().len()));
    }
    translated(array, values)
}

/// The codes of a dictionary with other values, or with the same values in another order.
fn translated(array: &ArrayRef, values: &ArrayRef) -> Result<ArrayRef> {
    let dictionary = array.as_any_dictionary();
    let order = sort_to_indices(values, None, None)?;
    let found = cast(dictionary.values(), values.data_type())?;
    let compare = make_comparator(values, &found, SortOptions::default())?;
    let order = order.values();
    let code = |value: usize| {
        let position = order.partition_point(|code| compare(*code as usize, value).is_lt());
        let code = order.get(position).map(|code| *code as usize);
        code.filter(|code| compare(*code, value).is_eq())
    };
    let used = used_values(array);
    let mut codes = Vec::with_capacity(found.len());
    for (value, used) in used.into_iter().enumerate() {
        let code = if found.is_valid(value) {
            code(value)
        } else {
            None
        };
        if used && code.is_none() && found.is_valid(value) {
            return exec_err!("a value is not one of the enumeration");
        }
        codes.push(code.map(|code| code as i64));
    }
    let codes = cast(&Int64Array::from(codes), dictionary.keys().data_type())?;
    Ok(take(&codes, dictionary.keys(), None)?)
}

/// Which values of a dictionary are used.
fn used_values(array: &ArrayRef) -> Vec<bool> {
    let dictionary = array.as_any_dictionary();
    let mut used = vec![false; dictionary.values().len()];
    if used.is_empty() {
        return used;
    }
    let keys = dictionary.normalized_keys().into_iter().enumerate();
    for (_, key) in keys.filter(|(row, _)| array.is_valid(*row)) {
        if let Some(used) = used.get_mut(key) {
            *used = true;
        }
    }
    used
}

/// A dictionary of these values with the codes as its keys.
///
/// Fails if a code has no value, or isn't an integer.
fn values_of(codes: &ArrayRef, values: &ArrayRef) -> Result<ArrayRef> {
    let codes = codes.as_ref();
    downcast_integer_array! {
        codes => {
            let shown = DictionaryArray::try_new(codes.clone(), Arc::clone(values))?;
            Ok(Arc::new(shown))
        }
        other => exec_err!("{other} cannot key a dictionary")
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int8Array, StringArray};
    use datafusion::arrow::datatypes::Int8Type;

    use super::*;

    fn text(values: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    fn codes(values: &[&str], keys: &[Option<i8>]) -> Result<Vec<Option<i8>>> {
        let keys = Int8Array::from(keys.to_vec());
        let column = Arc::new(DictionaryArray::<Int8Type>::try_new(keys, text(values))?) as _;
        let codes = EnumerationConversion::ToCodes.convert(&column, &text(&["m", "a", "z"]))?;
        Ok(codes.as_primitive::<Int8Type>().iter().collect())
    }

    #[test]
    fn codes_are_those_of_the_enumeration_whatever_the_dictionary() {
        let keys = [Some(0), None, Some(2), Some(1)];
        assert_eq!(codes(&["m", "a", "z"], &keys).unwrap(), keys);
        let other = codes(&["z", "m", "a"], &keys).unwrap();
        assert_eq!(other, [Some(2), None, Some(1), Some(0)]);
        assert_eq!(codes(&[], &[None, None]).unwrap(), [None, None]);
        // Values that no row uses are ignored.
        assert_eq!(codes(&["a", "?"], &[Some(0)]).unwrap(), [Some(1)]);
        assert!(codes(&["a", "?"], &[Some(1)]).is_err());
    }

    #[test]
    fn codes_without_a_value_are_refused() {
        let values = text(&["m", "a"]);
        let convert = |codes: &[i8]| {
            let codes: ArrayRef = Arc::new(Int8Array::from(codes.to_vec()));
            EnumerationConversion::ToValues.convert(&codes, &values)
        };
        let shown = convert(&[1, 0]).unwrap();
        let shown = cast(&shown, values.data_type()).unwrap();
        assert_eq!(&shown, &text(&["a", "m"]));
        assert!(convert(&[2]).is_err());
        assert!(convert(&[-1]).is_err());
        assert!(
            EnumerationConversion::ToValues
                .convert(&values, &values)
                .is_err()
        );
    }
}
