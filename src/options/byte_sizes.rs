//! Numbers of bytes and of other units, as people write them.

/// The units of bytes. The letters alone are the shell's, and mean powers of two.
const UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("B", 1),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
];

/// A number of bytes: `100000`, `64 MiB`, `10 GB`, `2g`.
pub(crate) fn byte_size(value: &str) -> Option<u64> {
    scaled(value, |unit| {
        let mut units = UNITS.iter();
        let found = units.find(|(name, _)| name.eq_ignore_ascii_case(unit));
        found.map(|(_, bytes)| *bytes)
    })
}

/// A whole number with a unit.
pub(crate) fn scaled(value: &str, unit: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let value = value.trim();
    let digits = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let (number, name) = value.split_at_checked(digits)?;
    number.parse::<u64>().ok()?.checked_mul(unit(name.trim())?)
}

/// A number of bytes in the largest unit in which it's whole.
pub(crate) fn shown_size(bytes: u64) -> String {
    let whole = |(_, unit): &&(&str, u64)| *unit > 1 && bytes > 0 && bytes.is_multiple_of(*unit);
    let named = UNITS.iter().filter(|(name, _)| name.len() > 1);
    match named.filter(whole).max_by_key(|(_, unit)| *unit) {
        Some((name, unit)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_ten_or_of_two() {
        for (text, expected) in [
            ("100", Some(100)),
            (" 10 GB ", Some(10_000_000_000)),
            ("10GiB", Some(10 << 30)),
            ("2g", Some(2 << 30)),
            ("64 mib", Some(64 << 20)),
            ("3 tb", Some(3_000_000_000_000)),
            ("much", None),
            ("", None),
            ("-1g", None),
            ("1.5 GB", None),
            ("10 gigs", None),
            ("99999999999t", None),
        ] {
            assert_eq!(byte_size(text), expected, "{text}");
        }
    }

    #[test]
    fn shown_sizes_are_read_again() {
        for (bytes, shown) in [
            (10_000_000_000, "10 GB"),
            (2 << 30, "2 GiB"),
            (1 << 20, "1 MiB"),
            (1500, "1500 B"),
            (0, "0 B"),
        ] {
            assert_eq!(shown_size(bytes), shown);
            assert_eq!(byte_size(shown), Some(bytes));
        }
    }
}
