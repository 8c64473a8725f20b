//! Suggestions for misspelled names.

use strsim::osa_distance;

/// The shortest beginning by which a longer name is suggested.
const SHORTEST_BEGINNING: usize = 3;

/// The known name that is most like a misspelled one, whatever the case; `None` if none is like it.
///
/// A name is like another if a third of its characters need a change at most, or if the other begins with it. Two neighbours that
/// changed places are one change.
///
/// ```
/// use tiledb_stores::most_similar;
///
/// let known = ["weather", "stations"];
/// assert_eq!(most_similar("wether", known), Some("weather"));
/// assert_eq!(most_similar("stat", known), Some("stations"));
/// assert_eq!(most_similar("fragments", known), None);
/// ```
pub fn most_similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let length = wanted.chars().count();
    let most = (length / 3).max(1);
    let measured = known.into_iter().filter_map(|candidate| {
        let lower = candidate.to_lowercase();
        // The distance is at least the difference of the lengths.
        let distance = if lower.chars().count().abs_diff(length) > most {
            usize::MAX
        } else {
            osa_distance(&wanted, &lower)
        };
        let is_beginning = length >= SHORTEST_BEGINNING && lower.starts_with(&wanted);
        let rank = match distance {
            distance if distance <= most && distance < length => distance,
            _ if is_beginning => most + 1,
            _ => return None,
        };
        Some((rank, candidate))
    });
    let best = measured.min_by_key(|(rank, _)| *rank);
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_letter_names_are_not_similar_to_each_other() {
        assert_eq!(most_similar("a", ["b", "c"]), None);
        assert_eq!(most_similar("ab", ["ac"]), Some("ac"));
        assert_eq!(most_similar("Größe", ["grösse", "größen"]), Some("größen"));
        assert_eq!(most_similar("", ["a"]), None);
        assert_eq!(most_similar("coutn", ["cot", "count"]), Some("count"));
        assert_eq!(most_similar("timestmp", ["timestamp"]), Some("timestamp"));
    }
}
