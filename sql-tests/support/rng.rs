//! Random numbers that follow from a seed: splitmix64, which is ten lines and the same on every machine.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The stream of a seed; streams of different numbers have nothing to do with each other.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut rng = Self(seed ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        rng.next();
        Self(rng.next() ^ number)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if there is none.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// A number from `low` up to and including `high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of some, which must not be none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// One of some, if there are any.
    pub fn pick_any<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        (!from.is_empty()).then(|| self.pick(from))
    }

    /// One of several by weight.
    pub fn weighted<T: Copy>(&mut self, from: &[(usize, T)]) -> T {
        let mut left = self.below(from.iter().map(|(weight, _)| weight).sum());
        for (weight, value) in from {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *value,
            }
        }
        from[0].1
    }
}
