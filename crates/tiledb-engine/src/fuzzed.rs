//! Fuzzing of decoders: inputs that are changed at random, but by their structure, for tests.
//!
//! Nothing here depends on a format. Each decoder reads through a cursor, which notes the fields that it reads in the
//! [trace](Trace) of the thread: numbers, counts, and bytes. The [mutator](mutate) changes these fields, and mends the lengths
//! and counts around them, so that what lies behind the checks is tried, too. An input that shows something new (fields in
//! another succession, a code that was not there before, an error in other words) is kept and changed further. One seed is one
//! course of inputs, whatever the machine.

#![allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "only tests use it"
)]

mod mutate;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use self::mutate::Input;

/// So many inputs of each target are tried among the other tests.
const FEW: u64 = 1500;
/// The number of different faults that are reported of a target.
const MOST_FAULTS: usize = 5;
/// The largest corpus, and the largest input in it.
const MOST_KEPT: usize = 3000;
const LARGEST_KEPT: usize = 32 << 10;

/// Fields of an input that are noted.
const MOST_FIELDS: usize = 1 << 10;
/// Features of an input that are noted.
const MOST_FEATURES: usize = 1 << 10;

/// xorshift64*.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A course of numbers.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..4 {
            random.number();
        }
        random
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
        mixed ^ (mixed >> 32)
    }

    /// A number below `n`, or 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.number() % (n.max(1) as u64)) as usize
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of some things.
    pub fn pick<'a, T>(&mut self, things: &'a [T]) -> Option<&'a T> {
        things.get(self.below(things.len()))
    }
}

/// What became of an input.
pub enum Outcome {
    /// It was decoded, and all that must hold of it holds.
    Decoded,
    /// It was refused, with this message.
    Refused(String),
    /// Something does not hold that must.
    Wrong(String),
}

/// What a decoder may take of time and memory.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Memory on top of what follows from the input.
    pub bytes: u64,
    /// Memory for each byte of input.
    pub bytes_per_byte: u64,
}

impl Limits {
    /// Of plain structures. The notes about an input take memory, too.
    pub const USUAL: Self = Self {
        bytes: 256 << 10,
        bytes_per_byte: 64,
    };

    fn bytes(self, input: &[u8]) -> u64 {
        self.bytes + self.bytes_per_byte * input.len() as u64
    }

    /// For what a slow machine needs in a debug build, a hundred times over.
    fn time(input: &[u8]) -> Duration {
        Duration::from_millis(200) + Duration::from_micros(10) * input.len() as u32
    }
}

/// One target while it is tried.
struct Campaign<'a> {
    limits: Limits,
    check: &'a dyn Fn(&[u8]) -> Outcome,
    /// What is decoded, and what is refused.
    corpus: [Vec<Input>; 2],
    features: HashSet<u64>,
    decoded: u64,
    slowest: Duration,
    largest: u64,
}

/// Changes `seeds` and lets `check` look at what comes out: for `FUZZ_SECONDS`, or a few thousand times.
///
/// # Panics
/// An input is not dealt with as it must be. The message has a small input that shows it.
pub fn fuzz(
    name: &str,
    seeds: impl IntoIterator<Item = Vec<u8>>,
    limits: Limits,
    check: impl Fn(&[u8]) -> Outcome,
) {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let seed = number("FUZZ_SEED").unwrap_or(1);
    let until = number("FUZZ_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let mut campaign = Campaign {
        limits,
        check: &check,
        corpus: [Vec::new(), Vec::new()],
        features: HashSet::new(),
        decoded: 0,
        slowest: Duration::ZERO,
        largest: 0,
    };
    let mut faults = Vec::new();
    for seed in seeds {
        faults.extend(campaign.run(seed, true));
    }
    let [seeds, refused] = [0, 1].map(|kind| campaign.corpus[kind].len());
    assert!(
        seeds > 0 && refused == 0,
        "{name}: {refused} seeds are refused"
    );
    let mut random = Random::new(seed);
    let mut runs = 0_u64;
    let goes_on = |runs: u64| match until {
        Some(until) => !runs.is_multiple_of(64) || Instant::now() < until,
        None => runs < FEW,
    };
    while faults.len() < MOST_FAULTS && goes_on(runs) {
        runs += 1;
        // What is decoded is worth more, and so is what came last.
        let [decoded, refused] = &campaign.corpus;
        let from_refused = !refused.is_empty() && random.once_in(5);
        let corpus = if from_refused { refused } else { decoded };
        let recent = corpus
            .len()
            .saturating_sub(random.below(corpus.len()) / 8 + 1);
        let at = [random.below(corpus.len()), recent][random.below(2)];
        let mut input = corpus[at].clone();
        let other = &decoded[random.below(decoded.len())];
        loop {
            mutate::mutate(&mut input, other, &mut random);
            if !random.once_in(3) {
                break;
            }
        }
        let fault = campaign.run(input.bytes, false);
        let is_new = |fault: &Fault| faults.iter().all(|f: &Fault| f.class() != fault.class());
        faults.extend(fault.filter(is_new));
    }
    println!(
        "{name}: {runs} inputs, {} of them decoded, from {seeds} seeds, {} kept, {} features, slowest {:?}, {} KiB at most",
        campaign.decoded,
        campaign.kept() - seeds,
        campaign.features.len(),
        campaign.slowest,
        campaign.largest >> 10,
    );
    let told = faults
        .into_iter()
        .map(|fault| campaign.made_small(fault).told())
        .collect::<Vec<_>>();
    assert!(told.is_empty(), "{name}\n{}", told.join("\n"));
}

/// An input that is not dealt with as it must be.
struct Fault {
    input: Vec<u8>,
    what: String,
}

impl Fault {
    fn class(&self) -> u64 {
        words(&self.what)
    }

    fn told(&self) -> String {
        let mut hex = String::new();
        for byte in &self.input {
            let _ = write!(hex, "{byte:02x}");
        }
        format!("{}\n  {} bytes: {hex}", self.what, self.input.len())
    }
}

impl Campaign<'_> {
    fn kept(&self) -> usize {
        self.corpus.iter().map(Vec::len).sum()
    }

    /// Looks at one input, and keeps it if it shows something new.
    fn run(&mut self, input: Vec<u8>, keep: bool) -> Option<Fault> {
        let before = self.decoded;
        let (trace, fault) = self.observe(&input);
        let kind = usize::from(self.decoded == before);
        let known = self.features.len();
        self.features.extend(trace.features.iter().copied());
        let is_new = self.features.len() > known;
        let has_room = self.corpus[kind].len() < MOST_KEPT && input.len() <= LARGEST_KEPT;
        match fault {
            Some(what) => Some(Fault { input, what }),
            None => {
                if keep || (is_new && has_room) {
                    self.corpus[kind].push(Input::new(input, trace));
                }
                None
            }
        }
    }

    fn observe(&mut self, input: &[u8]) -> (Trace, Option<String>) {
        let mut outcome = None;
        let begun = Instant::now();
        let mut trace = Trace::default();
        let taken = bytes_taken(|| {
            (trace, outcome) = during(input, || {
                catch_unwind(AssertUnwindSafe(|| (self.check)(input))).ok()
            });
        });
        let mut time = begun.elapsed();
        let told = match outcome {
            None => Some("it panics".to_owned()),
            Some(Outcome::Wrong(what)) => Some(what),
            Some(Outcome::Refused(message)) => {
                trace.features.push(words(&message));
                None
            }
            Some(Outcome::Decoded) => {
                self.decoded += 1;
                None
            }
        };
        if told.is_some() {
            return (trace, told);
        }
        self.largest = self.largest.max(taken);
        let limit = self.limits.bytes(input);
        if taken > limit {
            return (
                trace,
                Some(format!("it takes {taken} bytes, more than {limit}")),
            );
        }
        for _ in 0..3 {
            if time > Limits::time(input) {
                let begun = busy_since(Duration::ZERO);
                let _ = catch_unwind(AssertUnwindSafe(|| (self.check)(input)));
                time = time.min(busy_since(begun));
            }
        }
        self.slowest = self.slowest.max(time);
        let slow = time > Limits::time(input);
        (trace, slow.then(|| format!("it takes {time:?}")))
    }

    /// Leaves out of an input what does not matter to its fault.
    fn made_small(&mut self, fault: Fault) -> Fault {
        let Fault { mut input, what } = fault;
        let class = words(&what);
        let mut width = input.len() / 2;
        let mut tries = 0;
        while width > 0 {
            let mut start = 0;
            while start < input.len() && tries < 2000 {
                tries += 1;
                let mut less = input.clone();
                less.drain(start..input.len().min(start + width));
                match self.observe(&less).1 {
                    Some(what) if words(&what) == class => input = less,
                    _ => start += width,
                }
            }
            width /= 2;
        }
        Fault { input, what }
    }
}

/// The most bytes that `decode` has allocated at one time. The tests of other crates have allocators of their own, and count none.
fn bytes_taken(decode: impl FnOnce()) -> u64 {
    #[cfg(test)]
    return allocation_counter::measure(decode).bytes_max;
    #[cfg(not(test))]
    {
        decode();
        0
    }
}

/// How long this thread has had the processor, which other threads use as well; the wall clock where the system doesn't count it.
fn busy_since(before: Duration) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let busy = told
        .split(' ')
        .next()
        .and_then(|ns| ns.parse().ok())
        .map(Duration::from_nanos);
    let time = busy.or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).ok());
    time.unwrap_or_default().saturating_sub(before)
}

/// A message without its numbers and quotations.
pub fn words(message: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut quoted = false;
    for c in message.chars() {
        quoted ^= c == '"';
        if !quoted && !c.is_ascii_digit() && c.is_ascii() {
            c.hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// The kind of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A number.
    Number,
    /// The number of elements that follow.
    Count,
    /// Bytes, which may be a structure of their own.
    Bytes,
}

/// One field that a decoder has read.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The field begins at this byte of the input.
    pub start: usize,
    /// The number of bytes of the field.
    pub len: usize,
    /// Its kind.
    pub kind: Kind,
    /// Its name in errors.
    pub name: &'static str,
}

impl Field {
    /// The first byte behind it.
    pub fn end(&self) -> usize {
        self.start + self.len
    }
}

/// What was read of an input.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// The fields, by where they begin.
    pub fields: Vec<Field>,
    /// What may be new about it.
    pub features: Vec<u64>,
}

#[derive(Default)]
struct Writing {
    input: Range<usize>,
    fields: Vec<Field>,
    last: &'static str,
    features: BTreeSet<u64>,
}

thread_local! {
    static WRITING: RefCell<Option<Writing>> = const { RefCell::new(None) };
}

/// Traces what `decode` reads of `input`.
pub fn during<T>(input: &[u8], decode: impl FnOnce() -> T) -> (Trace, T) {
    let start = input.as_ptr().addr();
    let writing = Writing {
        input: start..start + input.len(),
        ..Writing::default()
    };
    WRITING.set(Some(writing));
    let result = decode();
    let Writing {
        mut fields,
        features,
        ..
    } = WRITING.take().unwrap_or_default();
    fields.sort_by_key(|f| (f.start, std::cmp::Reverse(f.len), f.kind));
    fields.dedup_by_key(|f| (f.start, f.len));
    let features = features.into_iter().collect();
    (Trace { fields, features }, result)
}

/// Notes that a decoder has read `bytes`.
pub fn note(bytes: &[u8], kind: Kind, name: &'static str) {
    WRITING.with_borrow_mut(|writing| {
        if let Some(writing) = writing {
            writing.note(bytes, kind, name);
        }
    });
}

impl Writing {
    fn note(&mut self, bytes: &[u8], kind: Kind, name: &'static str) {
        let first = bytes.as_ptr().addr();
        let is_inside = self.input.contains(&first) || bytes.is_empty();
        if is_inside && self.fields.len() < MOST_FIELDS {
            let same = |f: &Field| f.len == bytes.len() && f.start == first - self.input.start;
            let start = first.saturating_sub(self.input.start);
            let len = bytes.len();
            match self.fields.last_mut() {
                // The cursor has noted it as bytes before it knew what it is.
                Some(last) if first >= self.input.start && same(last) => last.kind = kind,
                _ => self.fields.push(Field {
                    start: start.min(self.input.len()),
                    len,
                    kind,
                    name,
                }),
            }
        }
        if self.features.len() < MOST_FEATURES {
            // Neither names nor codes are many; their successions say where in a decoder it was.
            let code = match bytes {
                [code] => u64::from(*code) + 1,
                [] => 300,
                _ => 0,
            };
            let edge = hash(self.last) ^ hash(name).rotate_left(17) ^ code.rotate_left(48);
            self.features.insert(edge);
            self.last = name;
        }
    }
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    text.as_bytes().iter().fold(0xCBF2_9CE4_8422_2325, step)
}
