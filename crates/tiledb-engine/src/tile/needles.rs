//! Search for byte strings in the text of a tile.
//!
//! No cell of a tile satisfies `name = 'EVER GIVEN'` if its strings do not contain those bytes, and searching takes a
//! fraction of the time of converting the bytes to strings. `src/scan/sparse/tile/text.rs` states the gain.

use memchr::memmem::Finder;

/// The length to which needles are cut: matches may overlap, and each is compared from its start.
const MOST_BYTES: usize = 256;
/// The search is given up when there is more than one match for this many bytes.
const BYTES_PER_FIND: usize = 128;

/// The byte strings to search for.
#[derive(Debug, Clone)]
pub struct NeedleSet(Vec<Finder<'static>>);

/// The matches of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeedleMatches {
    /// The needles occur at these byte offsets, ascending; possibly nowhere.
    At(Vec<usize>),
    /// There are too many matches; the needles may occur anywhere.
    Anywhere,
}

impl NeedleSet {
    /// `None` if there are no needles, or if one is empty.
    pub fn new<'a>(needles: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let mut finders = Vec::new();
        for needle in needles {
            if needle.is_empty() {
                return None;
            }
            let begin = needle.get(..MOST_BYTES).unwrap_or(needle);
            finders.push(Finder::new(begin).into_owned());
        }
        (!finders.is_empty()).then_some(Self(finders))
    }

    /// The needles of both.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The number of needles.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds where needles begin in `data`.
    pub fn find_in(&self, data: &[u8]) -> NeedleMatches {
        let most = data.len() / BYTES_PER_FIND + 1;
        let mut offsets = Vec::new();
        for finder in &self.0 {
            let mut from = 0;
            // Matches may overlap: one that begins in one cell must not hide one that begins in the next.
            while let Some(at) = data.get(from..).and_then(|rest| finder.find(rest)) {
                offsets.push(from + at);
                from += at + 1;
                if offsets.len() > most {
                    return NeedleMatches::Anywhere;
                }
            }
        }
        offsets.sort_unstable();
        NeedleMatches::At(offsets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needles_are_found_wherever_they_begin() {
        let data = [&[b'x'; 2000][..], b"aaa\0\xffbaab"].concat();
        let needles = NeedleSet::new([&b"aa"[..], b"\xffb"]).unwrap();
        assert_eq!(
            needles.find_in(&data),
            NeedleMatches::At(vec![2000, 2001, 2004, 2006])
        );
        let none = NeedleSet::new([&b"aaaa"[..]]).unwrap();
        assert_eq!(none.find_in(&data), NeedleMatches::At(vec![]));
        assert_eq!(
            none.clone().or(needles).find_in(b""),
            NeedleMatches::At(vec![])
        );
        let many = NeedleSet::new([&b"x"[..]]).unwrap();
        assert_eq!(many.find_in(&data), NeedleMatches::Anywhere);
        // The start of a long needle is enough.
        let long = NeedleSet::new([&[b'x'; 3000][..]]).unwrap();
        assert_eq!(long.find_in(&data), NeedleMatches::Anywhere);
        let long = NeedleSet::new([&[&b"aab"[..], &[b'y'; 3000]].concat()[..]]).unwrap();
        assert_eq!(long.find_in(&data), NeedleMatches::At(vec![]));
        assert!(NeedleSet::new([&b"a"[..], b""]).is_none());
        assert!(NeedleSet::new([]).is_none());
    }
}
