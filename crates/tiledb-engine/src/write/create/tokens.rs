//! Lists in settings: `[1, 2]`, `["a", "b, c"]`, and several of them.

use crate::error::{Error, Result};

/// An element of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListElement {
    /// As it stands.
    Plain(String),
    /// Between double quotes, which are doubled inside it.
    Quoted(String),
}

impl ListElement {
    /// The text, without quotes.
    pub fn text(&self) -> &str {
        match self {
            Self::Plain(text) | Self::Quoted(text) => text,
        }
    }
}

/// The elements of a list in brackets; `[]` has none.
pub fn elements(text: &str) -> Result<Vec<ListElement>> {
    match lists(text)?.as_mut_slice() {
        [list] => Ok(std::mem::take(list)),
        _ => Err(wrong(text)),
    }
}

/// The lists of `[a, b], [c]`.
pub fn lists(text: &str) -> Result<Vec<Vec<ListElement>>> {
    let mut lists = Vec::new();
    let mut rest = text.trim();
    loop {
        let (list, after) = one_list(rest).ok_or_else(|| wrong(text))?;
        lists.push(list);
        match after.trim_start() {
            "" => return Ok(lists),
            after => {
                rest = after
                    .strip_prefix(',')
                    .ok_or_else(|| wrong(text))?
                    .trim_start()
            }
        }
    }
}

/// A list at the start of some text, and the text after it.
pub fn one_list(text: &str) -> Option<(Vec<ListElement>, &str)> {
    let mut rest = text.trim_start().strip_prefix('[')?.trim_start();
    let mut elements = Vec::new();
    if let Some(after) = rest.strip_prefix(']') {
        return Some((elements, after));
    }
    loop {
        let (element, after) = match rest.strip_prefix('"') {
            Some(inside) => quoted(inside)?,
            None => {
                let end = rest.find([',', ']'])?;
                let (plain, after) = rest.split_at(end);
                (ListElement::Plain(plain.trim_end().to_owned()), after)
            }
        };
        elements.push(element);
        let after = after.trim_start();
        match after.strip_prefix(']') {
            Some(after) => return Some((elements, after)),
            None => rest = after.strip_prefix(',')?.trim_start(),
        }
    }
}

/// Text up to its closing quote, and the text after it.
fn quoted(text: &str) -> Option<(ListElement, &str)> {
    let mut inside = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"')?;
        inside.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                inside.push('"');
                rest = after;
            }
            None => return Some((ListElement::Quoted(inside), after)),
        }
    }
}

fn wrong(text: &str) -> Error {
    const SHOWN: usize = 80;
    let shown: String = text.chars().take(SHOWN).collect();
    let dots = if shown.len() < text.len() { "…" } else { "" };
    Error::invalid(format!(
        "'{shown}{dots}': expected a list in brackets, such as [1, 2] or [\"a\", \"b\"]"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_apart() {
        let texts = |text| {
            let elements = elements(text).unwrap();
            let texts = elements.iter().map(|e| e.text().to_owned());
            texts.collect::<Vec<_>>()
        };
        assert_eq!(texts("[]"), [""; 0]);
        assert_eq!(texts(" [ 1 ,2 ] "), ["1", "2"]);
        assert_eq!(
            texts(r#"["a, b", "say ""no""", ""]"#),
            ["a, b", "say \"no\"", ""]
        );
        assert_eq!(texts("[a b,]"), ["a b", ""]);
        let both = lists("[1, 2], [\"x\"]").unwrap();
        assert_eq!(both.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(
            one_list("[a] ordered").map(|(_, after)| after),
            Some(" ordered")
        );
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["", "1", "[1", "1]", "[\"a]", "[1] 2", "[1],", "[\"a\" b]"] {
            let error = lists(text).unwrap_err();
            assert!(error.message().contains("a list in brackets"), "{text}");
        }
        assert!(elements("[1], [2]").is_err());
    }
}
