//! One comparison of a delete condition, evaluated on all cells of a tile at once.
//!
//! The semantics are libtiledb's, not SQL's: numbers compare as in IEEE 754 (NaN is only unequal), text by unsigned
//! bytes, members of sets by their bytes whatever the type, enumerated fields by index, and NULL satisfies nothing. The
//! subtle thing: of a fixed-size `CHAR` cell libtiledb compares the first byte alone, as a signed number.

use arrow::buffer::NullBuffer;

use crate::arrow::{CellData, UnfilteredCells};
use crate::error::{Error, Result};
use crate::filter::EncodedStrings;
use crate::format::datatype::Datatype;
use crate::format::delete_condition::{Comparison, ConditionTest};
use crate::format::schema::CellValNum;
use crate::tile::coordinates::starts;

/// A comparison prepared for a field.
#[derive(Debug, Clone)]
pub(super) enum CellTest {
    Always(bool),
    /// Compares the number at the start of each cell with a number.
    Number(NumberType, Comparison, [u8; 8]),
    /// Compares the cell as text with a string.
    Text(Comparison, Vec<u8>),
    /// Tests whether the bytes of the cell are among the members, which are sorted.
    Member {
        members: Vec<Vec<u8>>,
        negated: bool,
    },
}

/// How bytes are read as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberType {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl CellTest {
    /// Fails where libtiledb fails: for types that conditions do not support, and values of another size.
    pub(super) fn new(datatype: Datatype, cells: CellValNum, test: &ConditionTest) -> Result<Self> {
        let cell_bytes = cells.cell_size(datatype)?;
        Ok(match (test, kind(datatype, cells)?) {
            (ConditionTest::Always(answer), _) => Self::Always(*answer),
            (ConditionTest::Member { members, negated }, _) => {
                if let Some(size) = cell_bytes {
                    members.iter().try_for_each(|m| same_size(m, size))?;
                }
                let mut members = members.clone();
                members.sort_unstable();
                Self::Member {
                    members,
                    negated: *negated,
                }
            }
            (ConditionTest::Compare(comparison, value), ComparisonKind::Text) => {
                Self::Text(*comparison, value.clone())
            }
            (ConditionTest::Compare(comparison, value), ComparisonKind::FirstByte) => {
                let first = value.first().copied().unwrap_or(0);
                Self::Number(NumberType::I8, *comparison, padded(&[first]))
            }
            (ConditionTest::Compare(comparison, value), ComparisonKind::Number(number)) => {
                same_size(value, datatype.size())?;
                Self::Number(number, *comparison, padded(value))
            }
        })
    }

    /// Evaluates the comparison on each cell.
    pub(super) fn answer(&self, cells: &TestedCells<'_>, answers: &mut [bool]) {
        match self {
            Self::Always(answer) => answers.fill(*answer),
            Self::Number(number, comparison, value) => {
                if let ComparedValues::Fixed { data, size } = &cells.values {
                    compare_numbers(*number, *comparison, *value, (data, *size), answers);
                }
            }
            Self::Text(comparison, value) => {
                let value = value.as_slice();
                cells.compare(answers, |cell| match comparison {
                    Comparison::Lt => cell < value,
                    Comparison::Le => cell <= value,
                    Comparison::Gt => cell > value,
                    Comparison::Ge => cell >= value,
                    Comparison::Eq => cell == value,
                    Comparison::Ne => cell != value,
                });
            }
            Self::Member { members, negated } => cells.compare(answers, |cell| {
                let found = members.binary_search_by(|member| member.as_slice().cmp(cell));
                found.is_ok() != *negated
            }),
        }
        if let Some(nulls) = cells.nulls {
            for (answer, valid) in answers.iter_mut().zip(nulls) {
                *answer &= valid;
            }
        }
    }
}

impl CellTest {
    /// The result for every value from `lo` to `hi`, none of which is NULL; `None` if it differs between them.
    pub(super) fn between(&self, lo: &[u8], hi: &[u8]) -> Option<bool> {
        if lo == hi || matches!(self, Self::Always(_)) {
            return Some(self.answer_one(lo));
        }
        match self.comparison()? {
            Comparison::Eq => self.apart(lo, hi).then_some(false),
            Comparison::Ne => self.apart(lo, hi).then_some(true),
            _ => {
                let answer = self.answer_one(lo);
                (answer == self.answer_one(hi)).then_some(answer)
            }
        }
    }

    /// Whether the constant lies outside these bounds.
    fn apart(&self, lo: &[u8], hi: &[u8]) -> bool {
        self.compared_by(Comparison::Gt).answer_one(lo)
            || self.compared_by(Comparison::Lt).answer_one(hi)
    }

    fn comparison(&self) -> Option<Comparison> {
        match self {
            Self::Number(_, comparison, _) | Self::Text(comparison, _) => Some(*comparison),
            Self::Always(_) | Self::Member { .. } => None,
        }
    }

    /// The same constant with another comparison.
    fn compared_by(&self, comparison: Comparison) -> Self {
        match self {
            Self::Number(number, _, value) => Self::Number(*number, comparison, *value),
            Self::Text(_, value) => Self::Text(comparison, value.clone()),
            other => other.clone(),
        }
    }

    fn answer_one(&self, cell: &[u8]) -> bool {
        let mut answer = [false];
        let values = match self {
            Self::Number(..) => ComparedValues::Fixed {
                data: cell,
                size: cell.len(),
            },
            // An empty text is a value, too.
            _ => ComparedValues::Var {
                starts: vec![0, cell.len()],
                data: cell,
            },
        };
        let cells = TestedCells {
            values,
            nulls: None,
        };
        self.answer(&cells, &mut answer);
        answer == [true]
    }
}

/// How a comparison interprets a field's cells.
enum ComparisonKind {
    Number(NumberType),
    Text,
    FirstByte,
}

fn kind(datatype: Datatype, cells: CellValNum) -> Result<ComparisonKind> {
    use Datatype as D;
    let number = match datatype {
        D::Char if !cells.is_var() => return Ok(ComparisonKind::FirstByte),
        D::Char | D::StringAscii | D::StringUtf8 => return Ok(ComparisonKind::Text),
        D::Int8 => NumberType::I8,
        D::Int16 => NumberType::I16,
        D::Int32 => NumberType::I32,
        D::Int64 => NumberType::I64,
        D::UInt8 | D::Bool => NumberType::U8,
        D::UInt16 => NumberType::U16,
        D::UInt32 => NumberType::U32,
        D::UInt64 => NumberType::U64,
        D::Float32 => NumberType::F32,
        D::Float64 => NumberType::F64,
        _ if datatype.is_datetime() || datatype.is_time() => NumberType::I64,
        _ => {
            return Err(Error::unsupported(format!(
                "the type of the field is {datatype}, which conditions cannot compare"
            )));
        }
    };
    if cells != CellValNum::Fixed(1) {
        return Err(Error::unsupported(format!(
            "a cell of the field has {cells:?} values of type {datatype}, but conditions compare single values"
        )));
    }
    Ok(ComparisonKind::Number(number))
}

fn same_size(value: &[u8], size: usize) -> Result<()> {
    if value.len() == size {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "the condition compares with a value of {} bytes, expected the {size} of a cell (a test for NULL cannot be stored)",
        value.len()
    )))
}

fn padded(value: &[u8]) -> [u8; 8] {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(value) {
        *to = *from;
    }
    bytes
}

/// The cells of a field, as comparisons read them.
#[derive(Debug)]
pub(super) struct TestedCells<'a> {
    values: ComparedValues<'a>,
    nulls: Option<&'a NullBuffer>,
}

#[derive(Debug)]
enum ComparedValues<'a> {
    Fixed {
        data: &'a [u8],
        size: usize,
    },
    /// The start of each cell, then the end of the last, all checked.
    Var {
        starts: Vec<usize>,
        data: &'a [u8],
    },
    Encoded(&'a EncodedStrings),
}

impl<'a> TestedCells<'a> {
    pub(super) fn new(cells: &'a UnfilteredCells) -> Result<Self> {
        let values = match &cells.data {
            CellData::Fixed(values) => ComparedValues::Fixed {
                data: values.as_slice(),
                size: values.len() / cells.len.max(1),
            },
            CellData::Var { offsets, data } => ComparedValues::Var {
                starts: starts(offsets, cells.len, data.len())?,
                data: data.as_slice(),
            },
            CellData::Encoded(strings) => ComparedValues::Encoded(strings),
        };
        Ok(Self {
            values,
            nulls: cells.nulls.as_ref(),
        })
    }

    fn compare(&self, answers: &mut [bool], holds: impl Fn(&[u8]) -> bool) {
        match &self.values {
            ComparedValues::Fixed { data, size } => {
                for (answer, cell) in answers.iter_mut().zip(data.chunks_exact((*size).max(1))) {
                    *answer = holds(cell);
                }
            }
            ComparedValues::Var { starts, data } => {
                let ends = starts.iter().skip(1);
                for (answer, (start, end)) in answers.iter_mut().zip(starts.iter().zip(ends)) {
                    *answer = holds(data.get(*start..*end).unwrap_or_default());
                }
            }
            ComparedValues::Encoded(strings) => {
                let hold = (0..strings.strings())
                    .map(|number| holds(strings.string(number)))
                    .collect::<Vec<_>>();
                for (answer, key) in answers.iter_mut().zip(strings.keys()) {
                    *answer = hold.get(*key as usize).copied().unwrap_or(false);
                }
            }
        }
    }
}

/// One loop per type and comparison, over contiguous values, so that it can be vectorised.
fn compare_numbers(
    number: NumberType,
    comparison: Comparison,
    value: [u8; 8],
    (data, size): (&[u8], usize),
    answers: &mut [bool],
) {
    macro_rules! as_type {
        ($t:ty) => {{
            const N: usize = size_of::<$t>();
            let number = |bytes: &[u8; N]| <$t>::from_le_bytes(*bytes);
            let value = value.first_chunk::<N>().map_or(<$t>::default(), number);
            let values = data.as_chunks::<N>().0.iter().map(number);
            compare(values, comparison, value, answers);
        }};
    }
    match number {
        // Of a cell of several CHARs, the first is compared.
        NumberType::I8 => {
            let value = i8::from_le_bytes([value[0]]);
            let firsts = data.iter().step_by(size.max(1));
            let values = firsts.map(|byte| i8::from_le_bytes([*byte]));
            compare(values, comparison, value, answers);
        }
        NumberType::I16 => as_type!(i16),
        NumberType::I32 => as_type!(i32),
        NumberType::I64 => as_type!(i64),
        NumberType::U8 => as_type!(u8),
        NumberType::U16 => as_type!(u16),
        NumberType::U32 => as_type!(u32),
        NumberType::U64 => as_type!(u64),
        NumberType::F32 => as_type!(f32),
        NumberType::F64 => as_type!(f64),
    }
}

fn compare<T: PartialOrd + Copy>(
    values: impl Iterator<Item = T>,
    comparison: Comparison,
    value: T,
    answers: &mut [bool],
) {
    let cells = answers.iter_mut().zip(values);
    match comparison {
        Comparison::Lt => cells.for_each(|(answer, cell)| *answer = cell < value),
        Comparison::Le => cells.for_each(|(answer, cell)| *answer = cell <= value),
        Comparison::Gt => cells.for_each(|(answer, cell)| *answer = cell > value),
        Comparison::Ge => cells.for_each(|(answer, cell)| *answer = cell >= value),
        Comparison::Eq => cells.for_each(|(answer, cell)| *answer = cell == value),
        Comparison::Ne => cells.for_each(|(answer, cell)| *answer = cell != value),
    }
}
