//! The place of a syntax error: the line of the statement, and a caret under the place.

use crate::text::{text_width, visible};

/// The columns of the terminal that are shown at most before and after the place.
const BESIDE: usize = 60;

/// The line of a statement that a message points to, and a line with a caret below it; `None` if the message names no place, or if
/// the statement has another word there than the message says.
///
/// sqlparser ends its messages with the word and its place: `Expected: …, found: FROM at Line: 1, Column: 8`.
pub fn under(statement: &str, message: &str) -> Option<String> {
    let (problem, place) = message.rsplit_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    let digits = column
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(column.len());
    let (line, column): (usize, usize) = (line.parse().ok()?, column.get(..digits)?.parse().ok()?);
    let line = statement.lines().nth(line.checked_sub(1)?)?;
    let at = column.checked_sub(1)?;
    let before = line.chars().take(at).collect::<String>();
    let after = line.chars().skip(at).collect::<String>();
    // The library parses some statements in another form than the user typed.
    let found = problem
        .rsplit_once("found: ")
        .map_or("", |(_, found)| found);
    if !after.starts_with(found) {
        return None;
    }
    let cut_before = before.chars().count().saturating_sub(BESIDE);
    let mut shown = String::new();
    if cut_before > 0 {
        shown.push('…');
    }
    let kept = before.chars().skip(cut_before).collect::<String>();
    shown.push_str(&visible(&kept));
    let blanks = " ".repeat(text_width(&shown));
    let rest = after.chars().take(BESIDE).collect::<String>();
    shown.push_str(&visible(&rest));
    if after.chars().nth(BESIDE).is_some() {
        shown.push('…');
    }
    Some(format!("\n  {shown}\n  {blanks}^"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caret_points_to_the_place() {
        let at = |line, column| format!("Unexpected x at Line: {line}, Column: {column}");
        let statement = "SELECT 1\nFROM 京都 WHERE\tx";
        for (line, column, expected) in [
            (1, 8, "\n  SELECT 1\n         ^"),
            (2, 9, "\n  FROM 京都 WHERE\\tx\n            ^"),
            (2, 100, "\n  FROM 京都 WHERE\\tx\n                    ^"),
        ] {
            assert_eq!(under(statement, &at(line, column)).unwrap(), expected);
        }
        let long = "1 + ".repeat(100);
        let shown = under(&long, &at(1, 201)).unwrap();
        let lines = shown.lines().collect::<Vec<_>>();
        assert!(
            lines[1].starts_with("  …") && lines[1].ends_with('…'),
            "{shown}"
        );
        assert_eq!(lines[2].len() - 3, 61);
        let found = "Expected: x, found: WHERE at Line: 2, Column: 9";
        assert_eq!(
            under(statement, found).unwrap().lines().last(),
            Some("            ^")
        );
        for message in [
            "Expected: x, found: FROM at Line: 2, Column: 9",
            "x",
            "at Line: 0, Column: 1",
            "at Line: 9, Column: 1",
            "at Line: 1, Column: x",
        ] {
            assert_eq!(under("SELECT 1", message), None, "{message}");
        }
    }
}
