//! Bytes that are looked for in the text of a tile.
//!
//! `name = 'EVER GIVEN'` is met by no cell of a tile in whose strings those bytes do not occur, and to look for them
//! takes a fraction of the time of making strings of the bytes. `src/scan/sparse/tile/text.rs` tells what it is worth.

use memchr::memmem::Finder;

/// As much is looked for of a needle: finds may overlap, and each is compared from its beginning.
const MOST_BYTES: usize = 256;
/// A search is given up when there are more finds than one for so many bytes.
const BYTES_PER_FIND: usize = 128;

/// Bytes to look for.
#[derive(Debug, Clone)]
pub struct Needles(Vec<Finder<'static>>);

/// Where bytes that were looked for occur.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finds {
    /// At these places, in order; maybe at none.
    At(Vec<usize>),
    /// It was not worth the while to find out.
    Anywhere,
}

impl Needles {
    /// `None` if there is nothing to look for, or nothing in one of them.
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

    /// Both.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where they begin in `data`.
    pub fn find_in(&self, data: &[u8]) -> Finds {
        let most = data.len() / BYTES_PER_FIND + 1;
        let mut offsets = Vec::new();
        for finder in &self.0 {
            let mut from = 0;
            // Finds may overlap: one that begins in a cell before must not hide one that begins in the next.
            while let Some(at) = data.get(from..).and_then(|rest| finder.find(rest)) {
                offsets.push(from + at);
                from += at + 1;
                if offsets.len() > most {
                    return Finds::Anywhere;
                }
            }
        }
        offsets.sort_unstable();
        Finds::At(offsets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needles_are_found_wherever_they_begin() {
        let data = [&[b'x'; 2000][..], b"aaa\0\xffbaab"].concat();
        let needles = Needles::new([&b"aa"[..], b"\xffb"]).unwrap();
        assert_eq!(
            needles.find_in(&data),
            Finds::At(vec![2000, 2001, 2004, 2006])
        );
        let none = Needles::new([&b"aaaa"[..]]).unwrap();
        assert_eq!(none.find_in(&data), Finds::At(vec![]));
        assert_eq!(none.clone().or(needles).find_in(b""), Finds::At(vec![]));
        let many = Needles::new([&b"x"[..]]).unwrap();
        assert_eq!(many.find_in(&data), Finds::Anywhere);
        // The beginning of a long one is enough.
        let long = Needles::new([&[b'x'; 3000][..]]).unwrap();
        assert_eq!(long.find_in(&data), Finds::Anywhere);
        let long = Needles::new([&[&b"aab"[..], &[b'y'; 3000]].concat()[..]]).unwrap();
        assert_eq!(long.find_in(&data), Finds::At(vec![]));
        assert!(Needles::new([&b"a"[..], b""]).is_none());
        assert!(Needles::new([]).is_none());
    }
}
