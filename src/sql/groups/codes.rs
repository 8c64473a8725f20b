//! Groups of small numbers, as the codes of enumerations are: each number has a place in a table.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, Int8Type, Int16Type, UInt8Type, UInt16Type};
use datafusion::common::{Result, internal_datafusion_err, internal_err};
use datafusion::physical_plan::aggregates::group_values::GroupValues;

/// No group yet.
const NONE: u32 = u32::MAX;

/// The group of each number that was seen.
#[derive(Debug, Default)]
pub(super) struct CodeTable {
    /// By the number, as if it had no sign.
    groups: Vec<u32>,
    of_null: Option<u32>,
}

/// Whether numbers of a type have places in a table.
pub(super) fn is_small(data_type: &DataType) -> bool {
    use DataType::{Int8, Int16, UInt8, UInt16};
    matches!(data_type, Int8 | Int16 | UInt8 | UInt16)
}

/// A number's place in the table.
trait Place: Copy {
    /// How many places there are.
    const COUNT: usize;

    fn place(self) -> usize;
}

macro_rules! place {
    ($number:ty, $self:ident => $place:expr) => {
        impl Place for $number {
            const COUNT: usize = 1 << <$number>::BITS;

            fn place($self) -> usize {
                usize::from($place)
            }
        }
    };
}

place!(i8, self => self.cast_unsigned());
place!(i16, self => self.cast_unsigned());
place!(u8, self => self);
place!(u16, self => self);

impl CodeTable {
    /// Forgets all groups.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.of_null = None;
    }

    /// Bytes this takes in memory.
    pub fn size(&self) -> usize {
        self.groups.capacity() * size_of::<u32>()
    }

    /// The group of each number; `values` keeps the numbers of groups.
    pub fn intern(
        &mut self,
        codes: &ArrayRef,
        values: &mut dyn GroupValues,
        groups: &mut Vec<usize>,
    ) -> Result<()> {
        match codes.data_type() {
            DataType::Int8 => self.find::<Int8Type>(codes, values, groups),
            DataType::Int16 => self.find::<Int16Type>(codes, values, groups),
            DataType::UInt8 => self.find::<UInt8Type>(codes, values, groups),
            DataType::UInt16 => self.find::<UInt16Type>(codes, values, groups),
            other => internal_err!("{other} is no type of small numbers"),
        }
    }

    fn find<T: ArrowPrimitiveType<Native: Place>>(
        &mut self,
        codes: &ArrayRef,
        values: &mut dyn GroupValues,
        groups: &mut Vec<usize>,
    ) -> Result<()> {
        let codes = codes.as_primitive::<T>();
        self.groups.resize(T::Native::COUNT, NONE);
        self.add_new(codes, values)?;
        groups.clear();
        let group = |code: &T::Native| self.groups.get(code.place()).map_or(0, |g| *g as usize);
        let nulls = codes.nulls().filter(|nulls| nulls.null_count() > 0);
        let Some((nulls, of_null)) = nulls.zip(self.of_null) else {
            groups.extend(codes.values().iter().map(group));
            return Ok(());
        };
        let rows = codes.values().iter().zip(nulls.iter());
        groups.extend(rows.map(|(code, valid)| match valid {
            true => group(code),
            false => of_null as usize,
        }));
        Ok(())
    }

    /// Gives numbers that were not seen yet, and NULL, groups.
    fn add_new<T: ArrowPrimitiveType<Native: Place>>(
        &mut self,
        codes: &PrimitiveArray<T>,
        values: &mut dyn GroupValues,
    ) -> Result<()> {
        let known = |groups: &[u32], code: &T::Native| {
            groups.get(code.place()).is_some_and(|group| *group != NONE)
        };
        let values_known = codes.values().iter();
        let values_known = values_known.fold(true, |all, code| all & known(&self.groups, code));
        let null_known = codes.null_count() == 0 || self.of_null.is_some();
        if values_known && null_known {
            return Ok(());
        }
        let mut added = Vec::new();
        for (row, code) in codes.values().iter().enumerate() {
            let valid = codes.is_valid(row);
            let known = match valid {
                true => known(&self.groups, code),
                false => self.of_null.is_some(),
            };
            if known {
                continue;
            }
            let one: ArrayRef = Arc::new(codes.slice(row, 1));
            values.intern(&[one], &mut added)?;
            let group = added.first().and_then(|group| u32::try_from(*group).ok());
            let group = group.ok_or_else(|| internal_datafusion_err!("a code has no group"))?;
            match self.groups.get_mut(code.place()) {
                Some(slot) if valid => *slot = group,
                _ => self.of_null = Some(group),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int8Array, Int16Array, UInt16Array};
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::logical_expr::EmitTo;
    use datafusion::physical_plan::aggregates::group_values::new_group_values;
    use datafusion::physical_plan::aggregates::order::GroupOrdering;

    use super::*;

    /// The groups of batches of codes, and the codes of these groups.
    fn grouped(batches: &[ArrayRef]) -> (Vec<Vec<usize>>, ArrayRef) {
        let field = Field::new("code", batches[0].data_type().clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let mut values = new_group_values(schema, &GroupOrdering::None).unwrap();
        let mut table = CodeTable::default();
        let groups = batches.iter().map(|codes| {
            // What was there before is forgotten.
            let mut groups = vec![99];
            let interned = table.intern(codes, values.as_mut(), &mut groups);
            interned.map(|()| groups).unwrap()
        });
        let groups = groups.collect();
        let values = values.emit(EmitTo::All).unwrap();
        (groups, values.into_iter().next().unwrap())
    }

    #[test]
    fn codes_are_numbered_as_they_come() {
        let batches: [ArrayRef; 4] = [
            Arc::new(Int8Array::from(vec![Some(-128), Some(127), Some(-128)])),
            Arc::new(Int8Array::from(vec![None, Some(-1), Some(127), None])),
            Arc::new(Int8Array::from(Vec::<i8>::new())),
            Arc::new(Int8Array::from(vec![Some(9), None, Some(0), Some(-1)]).slice(1, 3)),
        ];
        let (groups, codes) = grouped(&batches);
        assert_eq!(
            groups,
            [vec![0, 1, 0], vec![2, 3, 1, 2], vec![], vec![2, 4, 3]]
        );
        let expected = Int8Array::from(vec![Some(-128), Some(127), None, Some(-1), Some(0)]);
        assert_eq!(codes.as_primitive(), &expected);
    }

    #[test]
    fn wide_codes_have_places_to_their_limits() {
        let codes = vec![u16::MAX, 0, u16::MAX, 1 << 15];
        let (groups, _) = grouped(&[Arc::new(UInt16Array::from(codes))]);
        assert_eq!(groups, [[0, 1, 0, 2]]);
        let codes = vec![i16::MIN, i16::MAX, -1, i16::MIN];
        let (groups, _) = grouped(&[Arc::new(Int16Array::from(codes))]);
        assert_eq!(groups, [[0, 1, 2, 0]]);
    }
}
