//! Vacuum files that hide fragments for which there is no replacement: TRUNCATE writes them.
//!
//! The file of a consolidation has the name of the fragment that replaces others, and ends at the time of the last of these.
//! The file of a TRUNCATE has a single time, after all fragments that it hides, so the two are told apart by their names.

use crate::format::names::TimestampedName;

/// Whether the vacuum file of this name hides the fragments `hidden` without a replacement.
pub fn truncates(name: &TimestampedName, hidden: &[impl AsRef<str>]) -> bool {
    let mut ends = hidden
        .iter()
        .map(|hidden| TimestampedName::parse(hidden.as_ref()).map(|hidden| hidden.t2));
    name.t1 == name.t2 && ends.all(|end| end.is_ok_and(|end| end < name.t1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_later_time_truncates() {
        const UUID: &str = "00000000000000000000000000000000";
        let name = |t1: u64, t2: u64| format!("__{t1}_{t2}_{UUID}_22");
        let parsed = |t1, t2| TimestampedName::parse(&name(t1, t2)).unwrap();
        assert!(truncates(&parsed(5, 5), &[name(1, 1), name(2, 4)]));
        // Consolidated with the times of its cells, and without.
        assert!(!truncates(&parsed(1, 4), &[name(1, 1), name(2, 4)]));
        assert!(!truncates(&parsed(4, 4), &[name(1, 1), name(2, 4)]));
        assert!(!truncates(&parsed(3, 3), &[name(1, 1), name(2, 4)]));
        assert!(!truncates(&parsed(5, 5), &["no name of a fragment"]));
    }
}
