//! Texts as a terminal shows them: how wide they are, and escapes in place of control characters.
//!
//! A tab moves the borders of a table, and an escape sequence may do anything to a terminal, so both are shown as they are written
//! in SQL and most languages: `\t`, `\u{1b}`. Lines of a value stay lines.

use std::borrow::Cow;

/// The text with escapes in place of control characters.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            shown.extend(c.escape_debug())
        } else {
            shown.push(c)
        }
    }
    Cow::Owned(shown)
}

fn is_hidden(c: char) -> bool {
    c.is_control() && c != '\n'
}

/// The number of columns of a terminal that a text takes: East Asian characters take two, combining ones none.
pub fn text_width(text: &str) -> usize {
    console::measure_text_width(text)
}

/// A text with blanks behind it, or before it, up to a width.
pub fn padded(text: &str, to: usize, right: bool) -> String {
    let blanks = " ".repeat(to.saturating_sub(text_width(text)));
    if right {
        format!("{blanks}{text}")
    } else {
        format!("{text}{blanks}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(visible("two\nlines, é"), "two\nlines, é");
        assert_eq!(
            visible("a\tb\r\n\u{1b}[31m\0\u{9b}\\"),
            "a\\tb\\r\n\\u{1b}[31m\\0\\u{9b}\\"
        );
    }
}
