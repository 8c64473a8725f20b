//! The condition of a delete or update commit (specification: "Delete commit file", "Update commit file").
//!
//! The condition is a tree: an inner node is `u8 0`, `u8` AND or OR, `u64` children; a leaf is `u8 1`, `u8` operator,
//! `u32` length and name of a field, `u64` length and value, and for IN and NOT IN another `u64` length and the starts
//! of the members. The subtle thing: the stored condition is the *negation* of what the user asked to delete, so cells
//! that satisfy it survive. The value of an enumerated field is its index.
//!
//! libtiledb evaluates a tree into one flag for each cell. An AND clears flags, and a test in an OR sets them, but an OR
//! directly in an OR clears them, too: `(a OR b) OR c` becomes `c`, and `c OR (a OR b)` becomes `c AND (a OR b)`. Its own
//! writer never nests nodes of one kind, and all readers evaluate every other nesting alike.

use super::cursor::Cursor;
use super::encoder::Encoder;
use crate::error::{Error, Result};

/// The most levels of inner nodes; writers merge nested nodes of one kind, so even unusual conditions have far fewer.
const MAX_DEPTH: usize = 128;
/// The smallest size of a node: type, operator, two lengths.
const MIN_NODE_BYTES: usize = 10;

/// The condition that a cell must satisfy to survive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeleteCondition {
    /// One comparison of a field.
    Test {
        /// The field's name.
        field: String,
        /// The comparison.
        test: ConditionTest,
    },
    /// All of these conditions, at least two.
    All(Vec<DeleteCondition>),
    /// Any of these conditions, at least two.
    Any(Vec<DeleteCondition>),
}

/// A comparison of a field with a constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionTest {
    /// Compares with one value, as the bytes of the field's type.
    Compare(Comparison, Vec<u8>),
    /// Tests membership in a set.
    Member {
        /// The members, each as the bytes of the field's type.
        members: Vec<Vec<u8>>,
        /// Whether this is NOT IN.
        negated: bool,
    },
    /// Every value that is not NULL gives this result.
    Always(bool),
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `=`
    Eq,
    /// `<>`
    Ne,
}

impl DeleteCondition {
    /// Reads the contents of a `.del` file.
    pub fn decode_delete(tile: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(tile, "delete condition");
        let condition = decode_node(&mut cursor, 0)?;
        at_end(&cursor)?;
        Ok(condition)
    }

    /// Reads the contents of an `.upd` file: the condition, and new values, which no reader uses.
    pub fn decode_update(tile: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(tile, "update condition");
        let condition = decode_node(&mut cursor, 0)?;
        // Each value has two lengths.
        let values = cursor.count_u64(16, "number of values")?;
        for _ in 0..values {
            cursor.string_u64("field of a value")?;
            let bytes = cursor.u64("size of a value")?;
            cursor.bytes_u64(bytes, "value")?;
        }
        at_end(&cursor)?;
        Ok(condition)
    }

    /// The contents of a `.del` or `.upd` file with a changed condition and unchanged update values; `None` if `change` keeps
    /// the condition.
    ///
    /// # Errors
    /// The contents aren't a valid file of this kind, or the condition can't be stored.
    pub fn replace_in(
        tile: &[u8],
        change: impl FnOnce(Self) -> Option<Self>,
    ) -> Result<Option<Vec<u8>>> {
        let mut cursor = Cursor::new(tile, "delete condition");
        let condition = decode_node(&mut cursor, 0)?;
        let Some(changed) = change(condition) else {
            return Ok(None);
        };
        let mut contents = changed.encode_delete()?;
        contents.extend(cursor.rest());
        Ok(Some(contents))
    }

    /// Writes the contents of a `.del` file.
    ///
    /// # Errors
    /// The name of a field is too long.
    pub fn encode_delete(&self) -> Result<Vec<u8>> {
        let mut to = Encoder::new();
        self.encode(&mut to)?;
        Ok(to.finish())
    }

    fn encode(&self, to: &mut Encoder) -> Result<()> {
        let (combination, nodes) = match self {
            Self::Test { field, test } => return test.encode(field, to),
            Self::All(nodes) => (0, nodes),
            Self::Any(nodes) => (1, nodes),
        };
        to.u8(0);
        to.u8(combination);
        to.count_u64(nodes.len());
        nodes.iter().try_for_each(|node| node.encode(to))
    }

    /// The condition in the form that libtiledb's own writer stores: no node lies directly in a node of its kind.
    #[must_use]
    pub fn flat(self) -> Self {
        match self {
            Self::Test { .. } => self,
            Self::All(nodes) => together(nodes, Self::All, |node| match node {
                Self::All(nodes) => Ok(nodes),
                other => Err(other),
            }),
            Self::Any(nodes) => together(nodes, Self::Any, |node| match node {
                Self::Any(nodes) => Ok(nodes),
                other => Err(other),
            }),
        }
    }

    /// Whether libtiledb up to 2.30 finds different survivors than the condition describes. For an OR directly in another OR,
    /// it keeps only the cells that satisfy both an alternative before it and one of its own.
    pub fn is_misread(&self) -> bool {
        let (any, nodes) = match self {
            Self::Test { .. } => return false,
            Self::All(nodes) => (false, nodes),
            Self::Any(nodes) => (true, nodes),
        };
        let inner = |node: &Self| (any && matches!(node, Self::Any(_))) || node.is_misread();
        nodes.iter().any(inner)
    }

    /// The fields that it reads, in the order of the tree; a field may occur several times.
    pub fn fields(&self) -> Vec<&str> {
        match self {
            Self::Test { field, .. } => vec![field],
            Self::All(nodes) | Self::Any(nodes) => nodes.iter().flat_map(Self::fields).collect(),
        }
    }
}

/// The flattened children of a node; `open` returns the children of a node of the same kind.
fn together(
    nodes: Vec<DeleteCondition>,
    combine: fn(Vec<DeleteCondition>) -> DeleteCondition,
    open: fn(DeleteCondition) -> std::result::Result<Vec<DeleteCondition>, DeleteCondition>,
) -> DeleteCondition {
    let mut flat = Vec::with_capacity(nodes.len());
    for node in nodes {
        match open(node.flat()) {
            Ok(nodes) => flat.extend(nodes),
            Err(node) => flat.push(node),
        }
    }
    match flat.len() {
        1 => flat.remove(0),
        _ => combine(flat),
    }
}

impl ConditionTest {
    fn encode(&self, field: &str, to: &mut Encoder) -> Result<()> {
        let operator = match self {
            Self::Compare(Comparison::Lt, _) => 0,
            Self::Compare(Comparison::Le, _) => 1,
            Self::Compare(Comparison::Gt, _) => 2,
            Self::Compare(Comparison::Ge, _) => 3,
            Self::Compare(Comparison::Eq, _) => 4,
            Self::Compare(Comparison::Ne, _) => 5,
            Self::Member { negated: false, .. } => 6,
            Self::Member { negated: true, .. } => 7,
            Self::Always(true) => 253,
            Self::Always(false) => 254,
        };
        to.u8(1);
        to.u8(operator);
        to.bytes_u32(field.as_bytes(), "field")?;
        match self {
            Self::Compare(_, value) => to.bytes_u64(value),
            Self::Always(_) => to.bytes_u64(&[]),
            Self::Member { members, .. } => {
                to.bytes_u64(&members.concat());
                to.count_u64(members.len().saturating_mul(8));
                let mut start = 0;
                for member in members {
                    to.count_u64(start);
                    start = start.saturating_add(member.len());
                }
            }
        }
        Ok(())
    }
}

fn at_end(cursor: &Cursor<'_>) -> Result<()> {
    match cursor.remaining() {
        0 => Ok(()),
        bytes => Err(cursor.invalid("bytes after the end", bytes, "none")),
    }
}

fn decode_node(cursor: &mut Cursor<'_>, depth: usize) -> Result<DeleteCondition> {
    match cursor.u8("type of a node")? {
        0 => decode_inner(cursor, depth),
        1 => decode_leaf(cursor),
        other => Err(cursor.invalid("type of a node", other, "0 (expression) or 1 (value)")),
    }
}

fn decode_inner(cursor: &mut Cursor<'_>, depth: usize) -> Result<DeleteCondition> {
    if depth == MAX_DEPTH {
        return Err(Error::unsupported(format!(
            "the condition is nested more than {MAX_DEPTH} levels deep"
        )));
    }
    let combine: fn(Vec<DeleteCondition>) -> DeleteCondition = match cursor.u8("combination")? {
        0 => DeleteCondition::All,
        1 => DeleteCondition::Any,
        2 => {
            return Err(Error::unsupported(
                "the condition holds a NOT, which no writer stores: negations are pushed into the comparisons",
            ));
        }
        other => return Err(cursor.invalid("combination", other, "0 (AND) or 1 (OR)")),
    };
    let count = cursor.count_u64(MIN_NODE_BYTES, "number of children")?;
    if count < 2 {
        return Err(cursor.invalid("number of children", count, "at least 2"));
    }
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(decode_node(cursor, depth + 1)?);
    }
    Ok(combine(nodes))
}

fn decode_leaf(cursor: &mut Cursor<'_>) -> Result<DeleteCondition> {
    let operator = cursor.u8("operator")?;
    let field = cursor.string_u32("field")?;
    let bytes = cursor.u64("size of the value")?;
    let value = cursor.bytes_u64(bytes, "value")?;
    let compare = |comparison| ConditionTest::Compare(comparison, value.to_vec());
    let test = match operator {
        0 => compare(Comparison::Lt),
        1 => compare(Comparison::Le),
        2 => compare(Comparison::Gt),
        3 => compare(Comparison::Ge),
        4 => compare(Comparison::Eq),
        5 => compare(Comparison::Ne),
        6 | 7 => ConditionTest::Member {
            members: decode_members(cursor, value)?,
            negated: operator == 7,
        },
        253 => ConditionTest::Always(true),
        254 => ConditionTest::Always(false),
        other => return Err(cursor.invalid("operator", other, "0 to 7, 253 or 254")),
    };
    Ok(DeleteCondition::Test { field, test })
}

fn decode_members(cursor: &mut Cursor<'_>, values: &[u8]) -> Result<Vec<Vec<u8>>> {
    let bytes = cursor.u64("size of the members' starts")?;
    if !bytes.is_multiple_of(8) {
        return Err(cursor.invalid("size of the members' starts", bytes, "a multiple of 8"));
    }
    let starts = cursor.bytes_u64(bytes, "members' starts")?;
    let starts = starts.as_chunks::<8>().0;
    let mut members = Vec::with_capacity(starts.len());
    for (i, start) in starts.iter().enumerate() {
        let start = u64::from_le_bytes(*start);
        let end = starts
            .get(i + 1)
            .map_or(values.len() as u64, |next| u64::from_le_bytes(*next));
        let member = usize::try_from(start)
            .ok()
            .zip(usize::try_from(end).ok())
            .and_then(|(start, end)| values.get(start..end));
        let Some(member) = member else {
            let expected = format!("starts that rise and stay within {} bytes", values.len());
            return Err(cursor.invalid("member", format!("bytes {start} to {end}"), expected));
        };
        members.push(member.to_vec());
    }
    Ok(members)
}

/// Reads the list of the conditions that a consolidated fragment has processed: the paths of their files, relative to the array
/// (specification: "Fragment Metadata File", Processed Conditions).
///
/// `u64 count`, then `u64 length` and text each. The subtle thing: the `dci` values of cells index this list.
pub fn decode_processed_conditions(tile: &[u8]) -> Result<Vec<String>> {
    let mut cursor = Cursor::new(tile, "processed conditions");
    let count = cursor.count_u64(size_of::<u64>(), "count")?;
    let paths = (0..count)
        .map(|_| cursor.string_u64("delete file"))
        .collect::<Result<_>>()?;
    match cursor.remaining() {
        0 => Ok(paths),
        bytes => Err(cursor.invalid("bytes after the end", bytes, "none")),
    }
}

/// Writes what [`decode_processed_conditions`] reads.
pub fn encode_processed_conditions(paths: &[String]) -> Vec<u8> {
    let mut to = Encoder::new();
    to.count_u64(paths.len());
    paths.iter().for_each(|path| to.bytes_u64(path.as_bytes()));
    to.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(operator: u8, field: &str, value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![1, operator];
        bytes.extend(u32::try_from(field.len()).unwrap().to_le_bytes());
        bytes.extend(field.as_bytes());
        bytes.extend((value.len() as u64).to_le_bytes());
        bytes.extend(value);
        bytes
    }

    fn inner(combination: u8, children: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![0, combination];
        bytes.extend((children.len() as u64).to_le_bytes());
        bytes.extend(children.concat());
        bytes
    }

    fn members(operator: u8, values: &[u8], starts: &[u64]) -> Vec<u8> {
        let mut bytes = leaf(operator, "s", values);
        bytes.extend((starts.len() as u64 * 8).to_le_bytes());
        bytes.extend(starts.iter().flat_map(|s| s.to_le_bytes()));
        bytes
    }

    fn test(field: &str, test: ConditionTest) -> DeleteCondition {
        let field = field.to_owned();
        DeleteCondition::Test { field, test }
    }

    /// These are the bytes that libtiledb 2.30 stores for DELETE WHERE a < 5, `a` an int32.
    #[test]
    fn reads_what_libtiledb_stores() {
        let stored = [1, 3, 1, 0, 0, 0, b'a', 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0];
        let read = DeleteCondition::decode_delete(&stored).unwrap();
        let value = 5_i32.to_le_bytes().to_vec();
        assert_eq!(
            read,
            test("a", ConditionTest::Compare(Comparison::Ge, value))
        );
    }

    #[test]
    fn reads_trees_and_sets() {
        let stored = inner(
            1,
            &[
                inner(0, &[leaf(0, "x", &[1]), leaf(253, "y", &[])]),
                members(7, b"onetwo", &[0, 3, 3]),
            ],
        );
        let read = DeleteCondition::decode_delete(&stored).unwrap();
        assert_eq!(read.fields(), ["x", "y", "s"]);
        let DeleteCondition::Any(nodes) = read else {
            panic!("an OR was stored")
        };
        assert_eq!(
            nodes[1],
            test(
                "s",
                ConditionTest::Member {
                    members: vec![b"one".to_vec(), Vec::new(), b"two".to_vec()],
                    negated: true,
                }
            )
        );
    }

    #[test]
    fn reads_updates() {
        let mut stored = leaf(5, "a", &[7]);
        stored.extend(1_u64.to_le_bytes());
        stored.extend(1_u64.to_le_bytes());
        stored.extend(b"b");
        stored.extend(2_u64.to_le_bytes());
        stored.extend([1, 2]);
        let read = DeleteCondition::decode_update(&stored).unwrap();
        assert_eq!(
            read,
            test("a", ConditionTest::Compare(Comparison::Ne, vec![7]))
        );
        for len in 0..stored.len() {
            assert!(DeleteCondition::decode_update(&stored[..len]).is_err());
        }
    }

    #[test]
    fn conditions_are_replaced_and_values_stay() {
        let mut stored = leaf(5, "a", &[7]);
        let values = [
            1_u64.to_le_bytes(),
            0_u64.to_le_bytes(),
            0_u64.to_le_bytes(),
        ]
        .concat();
        stored.extend(&values);
        assert!(DeleteCondition::decode_update(&stored).is_ok());
        let other = test("b", ConditionTest::Always(true));
        let replaced = DeleteCondition::replace_in(&stored, |read| {
            assert_eq!(
                read,
                test("a", ConditionTest::Compare(Comparison::Ne, vec![7]))
            );
            Some(other.clone())
        })
        .unwrap()
        .unwrap();
        assert_eq!(DeleteCondition::decode_update(&replaced).unwrap(), other);
        assert!(replaced.ends_with(&values));
        assert_eq!(
            DeleteCondition::replace_in(&stored, |_| None).unwrap(),
            None
        );
        assert!(DeleteCondition::replace_in(&stored[..5], Some).is_err());
    }

    #[test]
    fn every_truncation_and_any_odd_byte_is_an_error() {
        let stored = inner(0, &[leaf(4, "a", &[1, 2]), members(6, b"xy", &[0, 1])]);
        for len in 0..stored.len() {
            assert!(
                DeleteCondition::decode_delete(&stored[..len]).is_err(),
                "{len}"
            );
        }
        let mut longer = stored.clone();
        longer.push(0);
        assert!(DeleteCondition::decode_delete(&longer).is_err());
        for odd in [
            inner(2, &[leaf(4, "a", &[1]), leaf(4, "a", &[1])]),
            inner(3, &[leaf(4, "a", &[1]), leaf(4, "a", &[1])]),
            inner(0, &[leaf(4, "a", &[1])]),
            leaf(8, "a", &[1]),
            vec![2],
            members(6, b"xy", &[1, 0]),
            members(6, b"xy", &[3]),
            members(6, b"xy", &[u64::MAX]),
        ] {
            assert!(DeleteCondition::decode_delete(&odd).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn depth_and_counts_are_bounded() {
        let mut deep = leaf(4, "a", &[1]);
        for _ in 0..100 {
            deep = inner(0, &[leaf(4, "a", &[1]), deep]);
        }
        assert!(DeleteCondition::decode_delete(&deep).is_ok());
        // The deepest possible nesting, without the bytes that would end it.
        let endless: Vec<u8> = [0, 0, 2, 0, 0, 0, 0, 0, 0, 0].repeat(1_000_000);
        let error = DeleteCondition::decode_delete(&endless).unwrap_err();
        assert!(error.to_string().contains("128 levels"), "{error}");
        let mut many = vec![0, 1];
        many.extend(u64::MAX.to_le_bytes());
        assert!(DeleteCondition::decode_delete(&many).is_err());
    }
}
