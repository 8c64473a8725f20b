//! Groups of integers in small ranges, such as the codes of enumerations and the coordinates of most dimensions: every
//! integer, or combination of a few, has a slot in a table.

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, UInt32Array,
};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Date64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::physical_plan::aggregates::group_values::GroupValues;
use serde::{Deserialize, Serialize};

/// The most slots in a table. Each takes four bytes, and the used ones should stay in the processor's caches.
const MOST_SLOTS: usize = 1 << 20;

/// The slot has no group.
const NONE: u32 = u32::MAX;
/// The slot has no group yet, but a row of this batch gets one.
const COMING: u32 = u32::MAX - 1;
/// The row has no slot, because the bounds were wrong.
const NO_SLOT: u32 = u32::MAX;

/// A range of integers that have slots. NULL has the first slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeySpan {
    /// The smallest integer, converted by [`KeyInteger::bits`].
    first: u64,
    /// The number of slots.
    slots: usize,
}

impl KeySpan {
    /// All values of a type; `None` if there are too many.
    pub fn of_type(data_type: &DataType) -> Option<Self> {
        let (first, bits) = match data_type {
            DataType::Int8 => (i8::MIN.bits(), 8),
            DataType::Int16 => (i16::MIN.bits(), 16),
            DataType::UInt8 => (0, 8),
            DataType::UInt16 => (0, 16),
            _ => return None,
        };
        let slots = (1 << bits) + 1;
        Some(Self { first, slots })
    }

    /// The values between two bounds; `None` if they are not integers, or too many.
    pub fn between(least: &ScalarValue, greatest: &ScalarValue) -> Option<Self> {
        let first = bits_of(least)?;
        let slots = usize::try_from(bits_of(greatest)?.wrapping_sub(first))
            .ok()?
            .checked_add(2)?;
        (slots <= MOST_SLOTS).then_some(Self { first, slots })
    }

    /// The number of slots for all combinations of keys; `None` if there are too many.
    pub fn slots(spans: &[Self]) -> Option<usize> {
        let slots = spans
            .iter()
            .try_fold(1_usize, |all, span| all.checked_mul(span.slots));
        slots.filter(|slots| *slots <= MOST_SLOTS)
    }

    /// The slot of a combination that is extended by a number, given by its [bits](Number::bits).
    #[inline]
    fn append(self, slot: u32, number: Option<u64>) -> u32 {
        let number = number.map_or(0, |n| n.wrapping_sub(self.first).saturating_add(1));
        let slots = self.slots as u64;
        if slot == NO_SLOT || number >= slots {
            return NO_SLOT;
        }
        u32::try_from(u64::from(slot) * slots + number).unwrap_or(NO_SLOT)
    }
}

/// An integer as 64 bits: differences of these, modulo 2^64, are those of the integers.
trait KeyInteger: Copy {
    fn bits(self) -> u64;
}

macro_rules! number {
    ($($signed:ty)*; $($unsigned:ty)*) => {
        $(impl KeyInteger for $signed {
            fn bits(self) -> u64 {
                i64::from(self).cast_unsigned()
            }
        })*
        $(impl KeyInteger for $unsigned {
            fn bits(self) -> u64 {
                u64::from(self)
            }
        })*
    };
}

number!(i8 i16 i32 i64; u8 u16 u32 u64);

/// A function that is generic over the integer type.
trait IntegerVisitor {
    type Answer;

    fn visit<T: ArrowPrimitiveType<Native: KeyInteger>>(
        self,
        numbers: &PrimitiveArray<T>,
    ) -> Self::Answer;
}

/// Calls `visitor` with the integers of an array; `None` if it has another type.
fn visit<V: IntegerVisitor>(numbers: &dyn Array, visitor: V) -> Option<V::Answer> {
    macro_rules! by_type {
        ($($data_type:pat => $native:ty,)*) => {
            match numbers.data_type() {
                $($data_type => Some(visitor.visit(numbers.as_primitive::<$native>())),)*
                _ => None,
            }
        };
    }
    by_type! {
        DataType::Int8 => Int8Type,
        DataType::Int16 => Int16Type,
        DataType::Int32 => Int32Type,
        DataType::Int64 => Int64Type,
        DataType::UInt8 => UInt8Type,
        DataType::UInt16 => UInt16Type,
        DataType::UInt32 => UInt32Type,
        DataType::UInt64 => UInt64Type,
        DataType::Date32 => Date32Type,
        DataType::Date64 => Date64Type,
        DataType::Timestamp(TimeUnit::Second, _) => TimestampSecondType,
        DataType::Timestamp(TimeUnit::Millisecond, _) => TimestampMillisecondType,
        DataType::Timestamp(TimeUnit::Microsecond, _) => TimestampMicrosecondType,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
    }
}

/// The bits of an integer; `None` if it is NULL or has another type.
fn bits_of(value: &ScalarValue) -> Option<u64> {
    struct FirstKeySlots;
    impl IntegerVisitor for FirstKeySlots {
        type Answer = Option<u64>;

        fn visit<T: ArrowPrimitiveType<Native: KeyInteger>>(
            self,
            numbers: &PrimitiveArray<T>,
        ) -> Self::Answer {
            numbers.iter().next().flatten().map(KeyInteger::bits)
        }
    }
    visit(&value.to_array().ok()?, FirstKeySlots).flatten()
}

/// Extends the slots of rows by the integers of a key.
struct AppendKeySlots<'a> {
    span: KeySpan,
    slots: &'a mut [u32],
}

impl IntegerVisitor for AppendKeySlots<'_> {
    type Answer = ();

    fn visit<T: ArrowPrimitiveType<Native: KeyInteger>>(self, numbers: &PrimitiveArray<T>) {
        let Self { span, slots } = self;
        let rows = slots.iter_mut().zip(numbers.values());
        match numbers.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => rows.for_each(|(slot, number)| *slot = span.append(*slot, Some(number.bits()))),
            Some(nulls) => rows.zip(nulls).for_each(|((slot, number), valid)| {
                *slot = span.append(*slot, valid.then(|| number.bits()));
            }),
        }
    }
}

/// The group of each combination of integers that has occurred.
#[derive(Debug)]
pub(super) struct NumberTable {
    spans: Vec<KeySpan>,
    groups: Vec<u32>,
    /// The slots of the rows of a batch.
    slots: Vec<u32>,
}

impl NumberTable {
    /// An empty table for keys within these spans; `None` if it would be too large.
    pub fn new(spans: &[KeySpan]) -> Option<Self> {
        Some(Self {
            groups: vec![NONE; KeySpan::slots(spans)?],
            spans: spans.to_vec(),
            slots: Vec::new(),
        })
    }

    /// Removes all groups.
    pub fn clear(&mut self) {
        self.groups.fill(NONE);
    }

    /// Size in memory.
    pub fn size(&self) -> usize {
        (self.groups.capacity() + self.slots.capacity()) * size_of::<u32>()
    }

    /// The group of each row; `values` stores the keys of groups.
    pub fn intern(
        &mut self,
        keys: &[ArrayRef],
        values: &mut dyn GroupValues,
        groups: &mut Vec<usize>,
    ) -> Result<()> {
        let rows = keys.first().map_or(0, |key| key.len());
        self.slots.clear();
        self.slots.resize(rows, 0);
        for (key, span) in keys.iter().zip(&self.spans) {
            let slots = &mut self.slots;
            let numbers = visit(key, AppendKeySlots { span: *span, slots });
            numbers.ok_or_else(|| internal_datafusion_err!("a key isn't a number"))?;
        }
        if !self.find(groups) {
            self.add_new(keys, values)?;
            self.find(groups);
            self.find_without_slot(keys, values, groups)?;
        }
        Ok(())
    }

    /// Finds the group of each row; returns whether all have one.
    fn find(&self, groups: &mut Vec<usize>) -> bool {
        let mut all = true;
        groups.clear();
        groups.extend(self.slots.iter().map(|slot| {
            let group = self.groups.get(*slot as usize).copied().unwrap_or(NONE);
            all &= group != NONE;
            group as usize
        }));
        all
    }

    /// Adds groups for slots that have none yet.
    fn add_new(&mut self, keys: &[ArrayRef], values: &mut dyn GroupValues) -> Result<()> {
        let mut firsts = Vec::new();
        for (row, slot) in (0_u32..).zip(&self.slots) {
            if let Some(group) = self.groups.get_mut(*slot as usize)
                && *group == NONE
            {
                *group = COMING;
                firsts.push(row);
            }
        }
        let rows = UInt32Array::from(firsts);
        let added = intern_rows(keys, &rows, values)?;
        for (row, added) in rows.values().iter().zip(added) {
            let slot = self.slots.get(*row as usize);
            let group = slot.and_then(|slot| self.groups.get_mut(*slot as usize));
            if let Some(group) = group {
                *group = u32::try_from(added)
                    .ok()
                    .filter(|group| *group < COMING)
                    .ok_or_else(|| internal_datafusion_err!("too many groups"))?;
            }
        }
        Ok(())
    }

    /// Finds the groups of rows without a slot.
    fn find_without_slot(
        &self,
        keys: &[ArrayRef],
        values: &mut dyn GroupValues,
        groups: &mut [usize],
    ) -> Result<()> {
        let slots = (0_u32..).zip(&self.slots);
        let without_slot = slots.filter(|(_, slot)| **slot == NO_SLOT);
        let rows = without_slot.map(|(row, _)| row).collect::<UInt32Array>();
        let found = intern_rows(keys, &rows, values)?;
        for (row, found) in rows.values().iter().zip(found) {
            if let Some(group) = groups.get_mut(*row as usize) {
                *group = found;
            }
        }
        Ok(())
    }
}

/// Finds the groups of some rows in `values`.
fn intern_rows(
    keys: &[ArrayRef],
    rows: &UInt32Array,
    values: &mut dyn GroupValues,
) -> Result<Vec<usize>> {
    let mut groups = Vec::new();
    if !rows.is_empty() {
        let keys = keys
            .iter()
            .map(|key| take(key, rows, None))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        values.intern(&keys, &mut groups)?;
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{
        Date32Array, Int8Array, Int16Array, Int64Array, UInt16Array, UInt64Array,
    };
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::logical_expr::EmitTo;
    use datafusion::physical_plan::aggregates::group_values::new_group_values;
    use datafusion::physical_plan::aggregates::order::GroupOrdering;

    use super::*;

    /// The groups of batches of keys, and the keys of these groups.
    fn grouped(spans: &[KeySpan], batches: &[Vec<ArrayRef>]) -> (Vec<Vec<usize>>, Vec<ArrayRef>) {
        let keys = batches[0].iter();
        let fields = keys.map(|key| Field::new("key", key.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut values = new_group_values(schema, &GroupOrdering::None).unwrap();
        let mut table = NumberTable::new(spans).unwrap();
        let groups = batches.iter().map(|keys| {
            // Earlier contents are removed.
            let mut groups = vec![99];
            let interned = table.intern(keys, values.as_mut(), &mut groups);
            interned.map(|()| groups).unwrap()
        });
        let groups = groups.collect();
        (groups, values.emit(EmitTo::All).unwrap())
    }

    #[test]
    fn codes_are_numbered_as_they_come() {
        let batches: [ArrayRef; 4] = [
            Arc::new(Int8Array::from(vec![Some(-128), Some(127), Some(-128)])),
            Arc::new(Int8Array::from(vec![None, Some(-1), Some(127), None])),
            Arc::new(Int8Array::from(Vec::<i8>::new())),
            Arc::new(Int8Array::from(vec![Some(9), None, Some(0), Some(-1)]).slice(1, 3)),
        ];
        let span = KeySpan::of_type(&DataType::Int8).unwrap();
        let (groups, codes) = grouped(&[span], &batches.map(|batch| vec![batch]));
        assert_eq!(
            groups,
            [vec![0, 1, 0], vec![2, 3, 1, 2], vec![], vec![2, 4, 3]]
        );
        let expected = Int8Array::from(vec![Some(-128), Some(127), None, Some(-1), Some(0)]);
        assert_eq!(codes[0].as_primitive(), &expected);
    }

    #[test]
    fn numbers_have_slots_to_the_limits_of_their_type() {
        let codes: ArrayRef = Arc::new(UInt16Array::from(vec![u16::MAX, 0, u16::MAX, 1 << 15]));
        let span = KeySpan::of_type(codes.data_type()).unwrap();
        assert_eq!(grouped(&[span], &[vec![codes]]).0, [[0, 1, 0, 2]]);
        let codes: ArrayRef = Arc::new(Int16Array::from(vec![i16::MIN, i16::MAX, -1, i16::MIN]));
        let span = KeySpan::of_type(codes.data_type()).unwrap();
        assert_eq!(grouped(&[span], &[vec![codes]]).0, [[0, 1, 2, 0]]);
        let ends = |least: i64, greatest: i64| KeySpan::between(&least.into(), &greatest.into());
        for (least, greatest) in [(i64::MIN, i64::MIN + 9), (i64::MAX - 9, i64::MAX), (-5, 4)] {
            let numbers: ArrayRef = Arc::new(Int64Array::from(vec![greatest, least, greatest]));
            let span = ends(least, greatest).unwrap();
            assert_eq!(grouped(&[span], &[vec![numbers]]).0, [[0, 1, 0]]);
        }
        assert_eq!(ends(i64::MIN, i64::MAX), None);
        assert_eq!(ends(0, -1), None);
        assert_eq!(ends(0, MOST_SLOTS as i64), None);
        assert_eq!(KeySpan::between(&0.5_f64.into(), &7.5_f64.into()), None);
        assert_eq!(
            KeySpan::between(&ScalarValue::Int64(None), &1_i64.into()),
            None
        );
    }

    #[test]
    fn numbers_beyond_the_bounds_have_groups_all_the_same() {
        let span = KeySpan::between(&10_u64.into(), &19_u64.into()).unwrap();
        let numbers = |numbers: &[u64]| vec![Arc::new(UInt64Array::from(numbers.to_vec())) as _];
        let batches = [
            numbers(&[15, 9, 20, 9]),
            numbers(&[u64::MAX, 20, 10, 19]),
            numbers(&[8, 15]),
        ];
        let (groups, keys) = grouped(&[span], &batches);
        assert_eq!(groups, [vec![0, 1, 2, 1], vec![5, 2, 3, 4], vec![6, 0]]);
        let expected = UInt64Array::from(vec![15, 9, 20, 10, 19, u64::MAX, 8]);
        assert_eq!(keys[0].as_primitive(), &expected);
    }

    #[test]
    fn keys_are_told_apart_together() {
        let spans = [
            KeySpan::between(
                &ScalarValue::Date32(Some(-3)),
                &ScalarValue::Date32(Some(3)),
            )
            .unwrap(),
            KeySpan::of_type(&DataType::Int8).unwrap(),
        ];
        let days: ArrayRef = Arc::new(Date32Array::from(vec![
            Some(-3),
            Some(3),
            None,
            Some(-3),
            Some(4),
            None,
            Some(-3),
            Some(4),
        ]));
        let codes: ArrayRef = Arc::new(Int8Array::from(vec![
            Some(7),
            None,
            None,
            Some(8),
            Some(7),
            None,
            Some(7),
            Some(7),
        ]));
        let (groups, keys) = grouped(&spans, &[vec![days, codes]]);
        assert_eq!(groups, [vec![0, 1, 2, 3, 4, 2, 0, 4]]);
        assert_eq!(keys[0].len(), 5);
    }
}
