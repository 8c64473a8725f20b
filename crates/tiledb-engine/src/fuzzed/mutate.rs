//! Changes of inputs that keep what is around a change true: lengths, counts, and where the other fields are.

use std::ops::Range;

use super::{Field, Kind, Random, Trace};

/// Numbers that overflow, wrap, ask for too much, or lie at the border of a width.
const NUMBERS: [u64; 28] = [
    0,
    1,
    2,
    3,
    7,
    8,
    0x7F,
    0x80,
    0xFF,
    0x100,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x1_0000,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFE,
    0xFFFF_FFFF,
    1 << 32,
    1 << 36,
    1 << 48,
    1 << 61,
    u64::MAX >> 1,
    1 << 63,
    (1 << 63) + 1,
    u64::MAX - 7,
    u64::MAX - 1,
    u64::MAX,
];
/// Values of floats that compare unlike numbers.
const FLOATS: [f64; 8] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    -0.0,
    f64::MIN_POSITIVE,
    f64::MAX,
    f64::MIN,
    9_223_372_036_854_775_808.0,
];
/// Bytes that aren't text, or mean something in paths and lists.
const TEXTS: [&[u8]; 14] = [
    b"",
    b"\0",
    b"\n",
    b"/",
    b"..",
    b"../",
    b"\xFF",
    b"\xC0\x80",
    b"\xED\xA0\x80",
    b"\xF4\x90\x80\x80",
    b"\xE2\x80\xAE",
    "é".as_bytes(),
    b"__",
    b"\"\\",
];
/// Inputs do not grow beyond.
const LARGEST: usize = 128 << 10;
/// A length lies at most so many fields before the bytes that it counts.
const NEAR: usize = 8;

/// An input, and what is known of its structure.
#[derive(Debug, Clone)]
pub struct Input {
    /// The bytes.
    pub bytes: Vec<u8>,
    fields: Vec<Field>,
}

impl Input {
    /// An input of which a decoder has read these fields.
    pub fn new(bytes: Vec<u8>, trace: Trace) -> Self {
        Self {
            bytes,
            fields: trace.fields,
        }
    }

    fn field(&self, random: &mut Random, wanted: impl Fn(&Field) -> bool) -> Option<usize> {
        let found = self
            .fields
            .iter()
            .enumerate()
            .filter(|(_, f)| wanted(f))
            .map(|(number, _)| number)
            .collect::<Vec<_>>();
        random.pick(&found).copied()
    }

    fn number(&self, field: &Field) -> u64 {
        let mut bytes = [0; 8];
        let found = self.bytes.get(field.start..field.end()).unwrap_or_default();
        let found = &found[..found.len().min(8)];
        bytes[..found.len()].copy_from_slice(found);
        u64::from_le_bytes(bytes)
    }

    fn set(&mut self, field: &Field, value: u64) {
        let bytes = value.to_le_bytes();
        let old = self.bytes.iter_mut().skip(field.start).take(field.len);
        old.zip(bytes).for_each(|(old, new)| *old = new);
    }

    /// The bytes that a number counts, if it is the length of some that follow.
    fn governed(&self, number: usize) -> Option<Range<usize>> {
        let field = self.fields[number];
        let length = usize::try_from(self.number(&field)).ok()?;
        let mut after = self
            .fields
            .iter()
            .skip(number + 1)
            .filter(|f| f.start >= field.end())
            .take(NEAR);
        let mut bytes = after.clone().filter(|f| f.kind == Kind::Bytes);
        if let Some(found) = bytes.find(|f| f.len == length) {
            return Some(found.start..found.end());
        }
        // Several fields may share a length.
        let start = after.find(|f| f.kind == Kind::Bytes)?.start;
        let end = start.checked_add(length).filter(|_| length > 3)?;
        let ends = self.fields.iter().any(|f| f.end() == end);
        ends.then_some(start..end)
    }

    /// Replaces bytes; lengths of what is around them grow or shrink if they are to be mended.
    fn splice(&mut self, range: Range<usize>, new: &[u8], mends: bool) {
        if self.bytes.len() + new.len() > LARGEST + range.len() {
            return;
        }
        let (old, delta) = (range.len(), new.len());
        let lengths = (0..self.fields.len())
            .filter_map(|number| {
                let field = self.fields[number];
                let is_number = field.kind == Kind::Number && field.len <= 8;
                let governed = (is_number && field.end() <= range.start)
                    .then(|| self.governed(number))
                    .flatten()?;
                let encloses = governed.start <= range.start && range.end <= governed.end;
                encloses.then_some(field)
            })
            .collect::<Vec<_>>();
        if mends {
            for field in lengths {
                let value = self
                    .number(&field)
                    .wrapping_sub(old as u64)
                    .wrapping_add(delta as u64);
                self.set(&field, value);
            }
        }
        self.bytes.splice(range.clone(), new.iter().copied());
        let fields = std::mem::take(&mut self.fields).into_iter();
        self.fields = fields
            .filter_map(|mut field| {
                if field.start >= range.end && (field.start > range.start || field.len > 0) {
                    field.start = field.start - old + delta;
                } else if field.end() > range.start || field.start >= range.start {
                    // What is replaced in part is gone; what encloses it changes its length.
                    let encloses = field.start <= range.start && field.end() >= range.end;
                    if !encloses {
                        return None;
                    }
                    field.len = field.len - old + delta;
                }
                Some(field)
            })
            .collect();
    }
}

/// Changes an input in one way; some take parts of another.
pub fn mutate(input: &mut Input, other: &Input, random: &mut Random) {
    let mends = !random.once_in(10);
    match random.below(20) {
        0..=5 => number(input, random),
        6..=8 => elements(input, random, mends),
        9..=11 => content(input, random),
        12..=14 => resize(input, other, random, mends),
        15 | 16 => graft(input, other, random, mends),
        _ => raw(input, other, random),
    }
}

/// Another value of a number or a count.
fn number(input: &mut Input, random: &mut Random) {
    let is_number = |f: &Field| f.kind != Kind::Bytes && f.len > 0;
    let Some(at) = input.field(random, is_number) else {
        return raw(input, &input.clone(), random);
    };
    let field = input.fields[at];
    let old = input.number(&field);
    let value = match random.below(8) {
        0 => old.wrapping_add(1),
        1 => old.wrapping_sub(1),
        2 => old ^ (1 << random.below(field.len.min(8) * 8)),
        3 => random.number(),
        4 => random.below(40) as u64,
        5 => {
            let like = |f: &Field| f.kind != Kind::Bytes && f.len == field.len;
            let like = input.field(random, like).unwrap_or(at);
            input.number(&input.fields[like])
        }
        6 => (input.bytes.len().saturating_sub(field.end()) as u64)
            .wrapping_add(random.below(3) as u64)
            .wrapping_sub(1),
        _ => extreme(random),
    };
    input.set(&field, value);
}

fn extreme(random: &mut Random) -> u64 {
    random.pick(&NUMBERS).copied().unwrap_or_default()
}

/// More or fewer elements of a list, or others in their places, and the count with them.
fn elements(input: &mut Input, random: &mut Random, mends: bool) {
    let Some(at) = input.field(random, |f| f.kind == Kind::Count) else {
        return number(input, random);
    };
    let count = input.fields[at];
    let n = input.number(&count);
    let Some(first) = input.fields[at..]
        .iter()
        .find(|f| f.start >= count.end())
        .copied()
    else {
        return number(input, random);
    };
    let spans = spans(input, &count, &first, n);
    let (Some(from), Some(to)) = (random.pick(&spans).cloned(), random.pick(&spans).cloned())
    else {
        // The first element of an empty list is made of whatever follows.
        let end = (first.start + 8 + random.below(32)).min(input.bytes.len());
        let bytes = input.bytes[first.start.min(end)..end].to_vec();
        input.set(&count, n.wrapping_add(1));
        return input.splice(first.start..first.start, &bytes, mends);
    };
    let element = input.bytes[from.clone()].to_vec();
    match random.below(5) {
        0 => {
            input.set(&count, n.wrapping_sub(1));
            input.splice(from, &[], mends);
        }
        1 => {
            let other = input.bytes[to.clone()].to_vec();
            let (front, back) = if from.start < to.start {
                ((from, other), (to, element))
            } else {
                ((to, element), (from, other))
            };
            input.splice(back.0, &back.1, mends);
            input.splice(front.0, &front.1, mends);
        }
        2 if random.once_in(8) => {
            let times = (1 + random.below(LARGEST / 2)) / element.len().max(1);
            input.set(&count, n.wrapping_add(times as u64));
            input.splice(to.start..to.start, &element.repeat(times), mends);
        }
        2 | 3 => {
            let times = 1 + random.below(12);
            input.set(&count, n.wrapping_add(times as u64));
            input.splice(to.start..to.start, &element.repeat(times), mends);
        }
        _ => {
            input.set(&count, n.wrapping_add(1));
            input.splice(to.start..to.start, &element, mends);
        }
    }
}

/// Where the elements of a list are: its first field comes again, or its elements are one piece of bytes.
fn spans(input: &Input, count: &Field, first: &Field, n: u64) -> Vec<Range<usize>> {
    // A count may claim anything; no more elements than bytes are there.
    let n = usize::try_from(n).unwrap_or(0).min(input.bytes.len());
    if n > 0 && first.kind == Kind::Bytes && first.len >= n && first.len.is_multiple_of(n) {
        let width = first.len / n;
        let start = |i: usize| first.start + i * width;
        return (0..n.min(4096)).map(|i| start(i)..start(i + 1)).collect();
    }
    let alike = input.fields.iter().filter(|f| {
        f.start >= count.end() && f.name == first.name && f.len == first.len && f.kind == first.kind
    });
    let starts = alike.map(|f| f.start).take(n + 1).collect::<Vec<_>>();
    starts.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// Other contents of the same length.
fn content(input: &mut Input, random: &mut Random) {
    let Some(at) = input.field(random, |f| f.kind == Kind::Bytes && f.len > 0) else {
        return number(input, random);
    };
    let field = input.fields[at];
    let width = [1, 2, 4, 8][random.below(4)];
    let at = random.below(field.len) / width * width;
    let value = match random.below(6) {
        0 => extreme(random).to_le_bytes(),
        1 => {
            let float = random.pick(&FLOATS).copied().unwrap_or_default();
            match width {
                4 => u64::from((float as f32).to_bits()).to_le_bytes(),
                _ => float.to_bits().to_le_bytes(),
            }
        }
        2 => random.number().to_le_bytes(),
        3 => {
            let text = random.pick(&TEXTS).copied().unwrap_or_default();
            let bytes = input.bytes.iter_mut().skip(field.start + at);
            bytes.zip(text).for_each(|(old, new)| *old = *new);
            return;
        }
        4 => {
            let from = field.start + random.below(field.len);
            let mut bytes = [0; 8];
            let found = input.bytes.iter().skip(from);
            bytes
                .iter_mut()
                .zip(found)
                .for_each(|(new, old)| *new = *old);
            bytes
        }
        _ => {
            let old = Field {
                start: field.start + at,
                len: width,
                ..field
            };
            let step = 1 + random.below(3) as u64;
            let number = input.number(&old);
            [number.wrapping_add(step), number.wrapping_sub(step)][random.below(2)].to_le_bytes()
        }
    };
    let end = field.end().min(input.bytes.len());
    let bytes = input
        .bytes
        .get_mut(field.start + at..end)
        .unwrap_or_default()
        .iter_mut();
    bytes
        .zip(value)
        .take(width)
        .for_each(|(old, new)| *old = new);
}

/// Longer or shorter contents.
fn resize(input: &mut Input, other: &Input, random: &mut Random, mends: bool) {
    let Some(at) = input.field(random, |f| f.kind == Kind::Bytes) else {
        return raw(input, other, random);
    };
    let field = input.fields[at];
    let at = field.start + random.below(field.len + 1);
    let left = field.end() - at;
    let new = match random.below(6) {
        0 => random.pick(&TEXTS).map(|t| t.to_vec()).unwrap_or_default(),
        1 => (0..random.below(12))
            .map(|_| random.number() as u8)
            .collect(),
        2 => {
            let from = random.below(other.bytes.len());
            let bytes = other.bytes.get(from..).unwrap_or_default();
            bytes[..bytes.len().min(random.below(64))].to_vec()
        }
        3 => vec![random.number() as u8; random.below(300)],
        4 if random.once_in(20) => vec![b'a'; random.below(LARGEST / 2)],
        _ => Vec::new(),
    };
    let old = if random.once_in(2) {
        random.below(left + 1)
    } else {
        0
    };
    input.splice(at..at + old, &new, mends);
}

/// Puts a field, or several, of another input in the place of one of the same name.
fn graft(input: &mut Input, other: &Input, random: &mut Random, mends: bool) {
    let Some(donor) = other.field(random, |_| true) else {
        return raw(input, other, random);
    };
    let name = other.fields[donor].name;
    let Some(at) = input.field(random, |f| f.name == name) else {
        return raw(input, other, random);
    };
    let span = |input: &Input, first: usize, random: &mut Random| {
        let field = input.fields[first];
        let last = (first + random.below(6)).min(input.fields.len() - 1);
        let end = if random.once_in(2) {
            field.end()
        } else {
            input.fields[last].end().max(field.end())
        };
        field.start.min(input.bytes.len())..end.min(input.bytes.len())
    };
    let from = span(other, donor, random);
    let to = span(input, at, random);
    input.splice(to, &other.bytes[from], mends);
}

/// A change that knows nothing.
fn raw(input: &mut Input, other: &Input, random: &mut Random) {
    let len = input.bytes.len();
    let at = random.below(len + 1);
    match random.below(8) {
        0 => input.splice(at..len, &[], false),
        1 => {
            let end = (at + random.below(16)).min(len);
            input.splice(at..end, &[], false);
        }
        2 => {
            let new = (0..random.below(12))
                .map(|_| random.number() as u8)
                .collect::<Vec<_>>();
            input.splice(at..at, &new, false);
        }
        3 => {
            let from = random.below(other.bytes.len() + 1);
            let bytes = &other.bytes[from..];
            let bytes = bytes[..bytes.len().min(random.below(64))].to_vec();
            let end = (at + bytes.len()).min(len);
            input.splice(at..end, &bytes, false);
        }
        4 => {
            let width = [1, 2, 4, 8][random.below(4)];
            let value = extreme(random).to_le_bytes();
            let bytes = input.bytes.iter_mut().skip(at);
            bytes
                .zip(&value[..width])
                .for_each(|(old, new)| *old = *new);
        }
        _ => {
            if let Some(byte) = input.bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
}
