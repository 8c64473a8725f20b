use arrow::buffer::NullBuffer;

use super::*;
use crate::arrow::{CellData, TileBuffer};
use crate::format::datatype::Datatype;
use crate::format::delete_condition::Comparison;
use crate::format::schema::CellValNum;

fn fixed(bytes: &[u8], len: usize, valid: Option<Vec<bool>>) -> UnfilteredCells {
    let mut data = TileBuffer::zeroed(bytes.len()).unwrap();
    data.as_slice_mut().copy_from_slice(bytes);
    UnfilteredCells {
        len,
        data: CellData::Fixed(data),
        nulls: valid.map(NullBuffer::from),
    }
}

fn strings(values: &[&[u8]]) -> UnfilteredCells {
    let bytes = values.concat();
    let mut data = TileBuffer::zeroed(bytes.len()).unwrap();
    data.as_slice_mut().copy_from_slice(&bytes);
    let mut offsets = TileBuffer::zeroed((values.len() + 1) * 8).unwrap();
    let mut start = 0;
    for (offset, value) in offsets.typed_data_mut::<u64>().iter_mut().zip(values) {
        *offset = start;
        start += value.len() as u64;
    }
    UnfilteredCells {
        len: values.len(),
        data: CellData::Var { offsets, data },
        nulls: None,
    }
}

fn answers(
    datatype: Datatype,
    shape: CellValNum,
    test: &ConditionTest,
    cells: &UnfilteredCells,
) -> Vec<bool> {
    let test = CellTest::new(datatype, shape, test).unwrap();
    let mut answers = vec![true; cells.len];
    test.answer(&TestedCells::new(cells).unwrap(), &mut answers);
    answers
}

const ONE: CellValNum = CellValNum::Fixed(1);
const ALL: [Comparison; 6] = [
    Comparison::Lt,
    Comparison::Le,
    Comparison::Gt,
    Comparison::Ge,
    Comparison::Eq,
    Comparison::Ne,
];

fn by_all(
    datatype: Datatype,
    shape: CellValNum,
    value: &[u8],
    cells: &UnfilteredCells,
) -> [Vec<bool>; 6] {
    ALL.map(|c| {
        answers(
            datatype,
            shape,
            &ConditionTest::Compare(c, value.to_vec()),
            cells,
        )
    })
}

/// How -1, 0 and 1 compare with 0 in each of [`ALL`].
const RISING: [[bool; 3]; 6] = [
    [true, false, false],
    [true, true, false],
    [false, false, true],
    [false, true, true],
    [false, true, false],
    [true, false, true],
];

#[test]
fn numbers_compare_by_their_type() {
    use Datatype as D;
    macro_rules! check {
        ($($datatype:ident: $t:ty, $values:expr;)*) => {$(
            let values: [$t; 3] = $values;
            let cells = fixed(&values.map(<$t>::to_le_bytes).concat(), 3, None);
            let found = by_all(D::$datatype, ONE, &values[1].to_le_bytes(), &cells);
            assert_eq!(found, RISING.map(|r| r.to_vec()), stringify!($datatype));
        )*};
    }
    check! {
        Int8: i8, [i8::MIN, -1, i8::MAX];
        Int16: i16, [i16::MIN, -1, i16::MAX];
        Int32: i32, [i32::MIN, -1, i32::MAX];
        Int64: i64, [i64::MIN, -1, i64::MAX];
        UInt8: u8, [0, 127, 255];
        UInt16: u16, [0, 255, u16::MAX];
        UInt32: u32, [255, 256, u32::MAX];
        UInt64: u64, [255, 256, u64::MAX];
        Float32: f32, [f32::NEG_INFINITY, -0.5, 0.0];
        Float64: f64, [-1e300, f64::MIN_POSITIVE, f64::INFINITY];
        Bool: u8, [0, 1, 2];
        DateTimeDay: i64, [i64::MIN, 0, 1];
        TimeNs: i64, [-1, 0, 1];
    }
}

#[test]
fn nan_only_differs_and_zeros_are_equal() {
    let values = [f64::NAN, -0.0, 0.0].map(f64::to_le_bytes).concat();
    let cells = fixed(&values, 3, None);
    let found = by_all(Datatype::Float64, ONE, &0_f64.to_le_bytes(), &cells);
    assert_eq!(
        found,
        [
            [false, false, false],
            [false, true, true],
            [false, false, false],
            [false, true, true],
            [false, true, true],
            [true, false, false],
        ]
        .map(|r| r.to_vec())
    );
    let nan = by_all(Datatype::Float64, ONE, &f64::NAN.to_le_bytes(), &cells);
    assert_eq!(nan[4], [false; 3]);
    assert_eq!(nan[5], [true; 3]);
    // Members of sets are bytes.
    let zero = ConditionTest::Member {
        members: vec![0_f64.to_le_bytes().to_vec()],
        negated: false,
    };
    let found = answers(Datatype::Float64, ONE, &zero, &cells);
    assert_eq!(found, [false, false, true]);
}

#[test]
fn text_compares_by_unsigned_bytes() {
    let cells = strings(&[b"a", b"a\0", b"a\xff", b"", b"b"]);
    let found = by_all(Datatype::StringUtf8, CellValNum::Var, b"a\0", &cells);
    assert_eq!(
        found,
        [
            [true, false, false, true, false],
            [true, true, false, true, false],
            [false, false, true, false, true],
            [false, true, true, false, true],
            [false, true, false, false, false],
            [true, false, true, true, true],
        ]
        .map(|r| r.to_vec())
    );
    let set = |negated| ConditionTest::Member {
        members: vec![b"b".to_vec(), Vec::new()],
        negated,
    };
    let found = |negated| {
        let shape = CellValNum::Var;
        answers(Datatype::StringAscii, shape, &set(negated), &cells)
    };
    assert_eq!(found(false), [false, false, false, true, true]);
    assert_eq!(found(true), [true, true, true, false, false]);
}

#[test]
fn fixed_text_compares_whole_and_fixed_char_by_its_first_byte() {
    let cells = fixed(b"abcabdb\xffz", 3, None);
    let three = CellValNum::Fixed(3);
    let less = ConditionTest::Compare(Comparison::Lt, b"abd".to_vec());
    let ascii = answers(Datatype::StringAscii, three, &less, &cells);
    assert_eq!(ascii, [true, false, false]);
    let equal = ConditionTest::Compare(Comparison::Eq, b"azz".to_vec());
    let char = answers(Datatype::Char, three, &equal, &cells);
    assert_eq!(char, [true, true, false]);
}

#[test]
fn nothing_holds_for_null() {
    let values = [1_i32, 2, 3].map(i32::to_le_bytes).concat();
    let cells = fixed(&values, 3, Some(vec![true, false, true]));
    let two = 2_i32.to_le_bytes().to_vec();
    for test in [
        ConditionTest::Compare(Comparison::Eq, two.clone()),
        ConditionTest::Compare(Comparison::Ne, two.clone()),
        ConditionTest::Always(true),
        ConditionTest::Always(false),
        ConditionTest::Member {
            members: vec![two],
            negated: true,
        },
    ] {
        assert!(!answers(Datatype::Int32, ONE, &test, &cells)[1], "{test:?}");
    }
}

#[test]
fn types_and_sizes_that_cannot_be_compared_are_refused() {
    let test = |bytes: usize| ConditionTest::Compare(Comparison::Eq, vec![0; bytes]);
    assert!(CellTest::new(Datatype::Int32, ONE, &test(4)).is_ok());
    for (datatype, shape, bytes) in [
        (Datatype::Int32, ONE, 0),
        (Datatype::Int32, ONE, 8),
        (Datatype::Int32, CellValNum::Fixed(2), 8),
        (Datatype::Int32, CellValNum::Var, 4),
        (Datatype::Blob, CellValNum::Var, 4),
        (Datatype::StringUtf16, CellValNum::Var, 4),
    ] {
        let refused = CellTest::new(datatype, shape, &test(bytes));
        assert!(refused.is_err(), "{datatype} {shape:?} {bytes}");
    }
    let members = ConditionTest::Member {
        members: vec![vec![0; 4], vec![0; 3]],
        negated: false,
    };
    assert!(CellTest::new(Datatype::Int32, ONE, &members).is_err());
}

fn compiled(root: Node, until: Option<u64>) -> CompiledDelete {
    let fields = Vec::new();
    let tree = Arc::new(ConditionTree { root, fields });
    CompiledDelete { tree, until }
}

/// The tree of a fragment whose only field is `a`.
fn tree(node: Node, until: Option<u64>) -> FragmentDeletes {
    FragmentDeletes {
        conditions: vec![compiled(node, until)],
        fields: vec![FragmentField::Attribute(0)],
        recorded: false,
    }
}

fn a(comparison: Comparison, value: i32) -> Node {
    test_of(FragmentField::Attribute(0), comparison, value)
}

fn test_of(field: FragmentField, comparison: Comparison, value: i32) -> Node {
    let test = ConditionTest::Compare(comparison, value.to_le_bytes().to_vec());
    let test = CellTest::new(Datatype::Int32, ONE, &test).unwrap();
    Node::Test(field, test)
}

fn kept(deletes: &FragmentDeletes, times: CellTimes<'_>, end: u64) -> Vec<usize> {
    let values: Vec<u8> = (0..6_i32).flat_map(i32::to_le_bytes).collect();
    let cells = fixed(&values, 6, None);
    let keep = deletes.survivors(&[&cells], times, end, 6).unwrap();
    let numbers = keep.iter().enumerate().filter(|(_, keep)| **keep);
    numbers.map(|(i, _)| i).collect()
}

#[test]
fn and_and_or_nest() {
    use Comparison::{Eq, Ge, Le, Ne};
    let none = CellTimes::default();
    let all = || Node::All(vec![a(Ge, 2), a(Le, 4), a(Ne, 3)]);
    assert_eq!(kept(&tree(all(), None), none, 9), [2, 4]);
    let any = || Node::Any(vec![a(Eq, 0), all(), a(Eq, 5)]);
    assert_eq!(kept(&tree(any(), None), none, 9), [0, 2, 4, 5]);
    let nested = Node::All(vec![any(), Node::Any(vec![any(), a(Eq, 1)]), a(Le, 4)]);
    assert_eq!(kept(&tree(nested, None), none, 9), [0, 2, 4]);
}

#[test]
fn a_missing_field_deletes_and_forgets_alternatives_before_it() {
    use Comparison::{Eq, Ge};
    let none = CellTimes::default();
    assert!(kept(&tree(Node::Missing, None), none, 9).is_empty());
    let first = Node::Any(vec![Node::Missing, a(Eq, 1)]);
    assert_eq!(kept(&tree(first, None), none, 9), [1]);
    let last = Node::Any(vec![a(Eq, 1), Node::Missing]);
    assert!(kept(&tree(last, None), none, 9).is_empty());
    let both = Node::All(vec![a(Ge, 0), Node::Missing]);
    assert!(kept(&tree(both, None), none, 9).is_empty());
}

#[test]
fn bounds_decide_what_every_cell_between_them_answers() {
    let value = |v: i32| v.to_le_bytes();
    let all = ALL.map(|c| ConditionTest::Compare(c, value(5).to_vec()));
    let member = |negated| ConditionTest::Member {
        members: vec![value(5).to_vec(), value(7).to_vec()],
        negated,
    };
    let more = [
        member(false),
        member(true),
        ConditionTest::Always(true),
        ConditionTest::Always(false),
    ];
    for test in all.into_iter().chain(more) {
        let test = CellTest::new(Datatype::Int32, ONE, &test).unwrap();
        for lo in 2..9 {
            for hi in lo..9 {
                let bytes: Vec<u8> = (lo..=hi).flat_map(value).collect();
                let cells = fixed(&bytes, bytes.len() / 4, None);
                let mut answers = vec![false; cells.len];
                test.answer(&TestedCells::new(&cells).unwrap(), &mut answers);
                let same = answers
                    .iter()
                    .all(|a| *a == answers[0])
                    .then_some(answers[0]);
                let bounds = test.between(&value(lo), &value(hi));
                // Bounds decide nothing for sets, unless both are the same value.
                let unknown = bounds.is_none() && matches!(test, CellTest::Member { .. });
                assert!(
                    bounds == same || unknown,
                    "{test:?} {lo}..={hi}: {bounds:?}, {same:?}"
                );
            }
        }
    }
    let text = ConditionTest::Compare(Comparison::Eq, b"m".to_vec());
    let text = CellTest::new(Datatype::StringAscii, CellValNum::Var, &text).unwrap();
    assert_eq!(text.between(b"a", b"lzz"), Some(false));
    assert_eq!(text.between(b"a", b"m"), None);
    assert_eq!(text.between(b"m", b"m"), Some(true));
    assert_eq!(text.between(b"m\0", b""), Some(false));
}

#[test]
fn no_delete_matches_a_tile_where_all_trees_hold_for_its_bounds() {
    use Comparison::{Ge, Le, Lt};
    let d = |comparison, value| test_of(FragmentField::Dimension(0), comparison, value);
    let match_none = |node: Node, lo: i32, hi: i32| {
        let deletes = tree(node, None);
        let ends = (lo.to_le_bytes().to_vec(), hi.to_le_bytes().to_vec());
        deletes.match_none(|_| Some(ends.clone()))
    };
    assert!(match_none(d(Ge, 5), 5, 9));
    assert!(!match_none(d(Ge, 5), 4, 9));
    let outside = || Node::Any(vec![d(Lt, 5), d(Ge, 9)]);
    assert!(match_none(outside(), 0, 4) && match_none(outside(), 9, 20));
    assert!(!match_none(outside(), 4, 9) && !match_none(outside(), 6, 7));
    let all = || Node::All(vec![d(Ge, 1), outside(), d(Le, 30)]);
    assert!(match_none(all(), 1, 4));
    assert!(!match_none(all(), 0, 4));
    assert!(!match_none(Node::Any(vec![d(Ge, 0), Node::Missing]), 1, 2));
    assert!(match_none(Node::Any(vec![Node::Missing, d(Ge, 0)]), 1, 2));
    let mut recorded = tree(d(Ge, 0), None);
    recorded.recorded = true;
    let any = |_| Some((Vec::new(), Vec::new()));
    assert!(!recorded.match_none(any));
    // An attribute has no bounds.
    assert!(!tree(a(Ge, 0), None).match_none(any));
    // If the bounds of a dimension are unknown, some delete may match.
    let unknown = tree(all(), None);
    assert!(!unknown.match_none(|_| None));
}

#[test]
fn cells_written_after_the_delete_stay() {
    let written = [10, 20, 21, 20, 20, 30];
    let times = CellTimes {
        written: Some(&written),
        deleted: None,
    };
    let deletes = tree(a(Comparison::Ge, 4), Some(20));
    assert!(deletes.needs_timestamps());
    assert_eq!(kept(&deletes, times, 99), [2, 4, 5]);
}

#[test]
fn recorded_deletes_count_up_to_the_end_of_the_window() {
    let deleted = [u64::MAX, 5, 10, 11, u64::MAX, 0];
    let times = CellTimes {
        written: None,
        deleted: Some(&deleted),
    };
    let mut deletes = tree(a(Comparison::Ge, 0), None);
    deletes.recorded = true;
    assert_eq!(kept(&deletes, times, 10), [0, 3, 4]);
    assert_eq!(kept(&deletes, times, u64::MAX), [0, 4]);
}
