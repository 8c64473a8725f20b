//! Ranges of keys, which have both ends, and ranges of strings, which may be unbounded.

/// An inclusive range of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The smallest key.
    pub lo: u64,
    /// The largest key.
    pub hi: u64,
}

impl KeyRange {
    /// Every key.
    pub const ALL: Self = Self {
        lo: 0,
        hi: u64::MAX,
    };

    /// The range of one key.
    pub const fn point(key: u64) -> Self {
        Self { lo: key, hi: key }
    }
}

/// A half-open range of strings in the order of unsigned bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BytesRange {
    /// The smallest string.
    pub start: Vec<u8>,
    /// The smallest string above the range; `None` if it is unbounded.
    pub end: Option<Vec<u8>>,
}

impl BytesRange {
    /// Every string.
    pub const ALL: Self = Self {
        start: Vec::new(),
        end: None,
    };

    /// The range of one string.
    pub fn point(value: &[u8]) -> Self {
        Self {
            start: value.to_vec(),
            end: Some(successor(value)),
        }
    }

    /// The range of all strings that start with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let last = prefix.iter().rposition(|byte| *byte != u8::MAX);
        let end = last.and_then(|last| prefix.get(..=last)).map(|head| {
            let mut end = head.to_vec();
            if let Some(byte) = end.last_mut() {
                *byte += 1;
            }
            end
        });
        Self {
            start: prefix.to_vec(),
            end,
        }
    }
}

/// The string just above `value`.
pub fn successor(value: &[u8]) -> Vec<u8> {
    let mut above = Vec::with_capacity(value.len() + 1);
    above.extend_from_slice(value);
    above.push(0);
    above
}
