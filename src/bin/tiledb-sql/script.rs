//! Cuts text into statements, line by line, so that each runs before the next is read.
//!
//! A statement ends at a semicolon outside quotes and comments. Where a statement could begin, a line
//! that begins with a backslash is a command of the shell, and a line that begins with `#!` is skipped.

/// One thing to run.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    /// The line it begins on, counted from 1.
    pub line: usize,
    pub kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// A SQL statement, with its semicolon if it had one.
    Statement(String),
    /// A command, without its backslash.
    Command(String),
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Inside {
    #[default]
    Nothing,
    Quotes(char),
    Dollars,
    LineComment,
    BlockComment(u32),
}

/// Collects lines until they make statements.
#[derive(Debug, Default)]
pub struct Splitter {
    inside: Inside,
    text: String,
    /// Where the statement being collected begins; `None` while only blanks and comments were seen.
    begins: Option<usize>,
    line: usize,
}

impl Splitter {
    /// Takes the next line and returns what it completes.
    pub fn push_line(&mut self, line: &str) -> Vec<Piece> {
        self.line += 1;
        let line = line.trim_end_matches(['\n', '\r']);
        if self.begins.is_none() && self.inside == Inside::Nothing {
            if let Some(command) = line.trim_start().strip_prefix('\\') {
                self.text.clear();
                let kind = Kind::Command(command.trim().to_owned());
                return vec![Piece {
                    line: self.line,
                    kind,
                }];
            }
            if line.starts_with("#!") {
                return Vec::new();
            }
        }
        let mut pieces = Vec::new();
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            self.text.push(c);
            let pair = (c, chars.peek().copied().unwrap_or('\0'));
            let (inside, took_two) = step(self.inside, pair);
            self.inside = inside;
            if took_two && let Some(second) = chars.next() {
                self.text.push(second);
            }
            match inside {
                Inside::Nothing if c == ';' => pieces.extend(self.finish()),
                Inside::LineComment | Inside::BlockComment(_) => {}
                // The closing characters of a comment, and blanks, begin nothing.
                _ if c.is_whitespace() || pair == ('*', '/') => {}
                _ => {
                    self.begins.get_or_insert(self.line);
                }
            }
        }
        if self.inside == Inside::LineComment {
            self.inside = Inside::Nothing;
        }
        self.text.push('\n');
        pieces
    }

    /// Returns the statement that no semicolon ended, if there is one.
    pub fn finish(&mut self) -> Option<Piece> {
        let text = std::mem::take(&mut self.text);
        self.inside = Inside::Nothing;
        let line = self.begins.take()?;
        let kind = Kind::Statement(text.trim().to_owned());
        Some(Piece { line, kind })
    }
}

/// What the text is inside of after `pair.0`, or after both characters of `pair`.
fn step(inside: Inside, pair: (char, char)) -> (Inside, bool) {
    match (inside, pair) {
        (Inside::Nothing, ('-', '-')) => (Inside::LineComment, true),
        (Inside::Nothing, ('/', '*')) => (Inside::BlockComment(1), true),
        (Inside::Nothing, ('$', '$')) => (Inside::Dollars, true),
        (Inside::Nothing, (quote @ ('\'' | '"' | '`'), _)) => (Inside::Quotes(quote), false),
        (Inside::Quotes(quote), (c, _)) if c == quote => (Inside::Nothing, false),
        (Inside::Dollars, ('$', '$')) => (Inside::Nothing, true),
        (Inside::BlockComment(depth), ('/', '*')) => {
            (Inside::BlockComment(depth.saturating_add(1)), true)
        }
        (Inside::BlockComment(depth), ('*', '/')) if depth > 1 => {
            (Inside::BlockComment(depth - 1), true)
        }
        (Inside::BlockComment(_), ('*', '/')) => (Inside::Nothing, true),
        (other, _) => (other, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(usize, String)> {
        let mut splitter = Splitter::default();
        let mut pieces: Vec<_> = text.lines().flat_map(|l| splitter.push_line(l)).collect();
        pieces.extend(splitter.finish());
        pieces
            .into_iter()
            .map(|p| match p.kind {
                Kind::Statement(sql) => (p.line, sql),
                Kind::Command(command) => (p.line, format!("\\{command}")),
            })
            .collect()
    }

    fn pieces(expected: &[(usize, &str)]) -> Vec<(usize, String)> {
        expected
            .iter()
            .map(|(l, s)| (*l, (*s).to_owned()))
            .collect()
    }

    #[test]
    fn semicolons_end_statements_wherever_they_stand() {
        assert_eq!(
            split("select 1; select\n 2;\n\nselect 3"),
            pieces(&[(1, "select 1;"), (1, "select\n 2;"), (4, "select 3")])
        );
        assert_eq!(split(";;\n ;"), pieces(&[]));
        assert_eq!(split(""), pieces(&[]));
    }

    #[test]
    fn quotes_hide_semicolons() {
        assert_eq!(
            split("select ';', \"a;b\", 'it''s; fine';\nselect 'two\nlines;';"),
            pieces(&[
                (1, "select ';', \"a;b\", 'it''s; fine';"),
                (2, "select 'two\nlines;';")
            ])
        );
        assert_eq!(
            split("select $$a;'b$$; select 2"),
            pieces(&[(1, "select $$a;'b$$;"), (1, "select 2")])
        );
    }

    #[test]
    fn comments_hide_semicolons_and_quotes() {
        assert_eq!(
            split(
                "-- it's; a comment\nselect 1 -- why; not\n;\n/* a; /* b; */ c' */ select 2;\n-- end"
            ),
            pieces(&[
                (2, "-- it's; a comment\nselect 1 -- why; not\n;"),
                (4, "/* a; /* b; */ c' */ select 2;")
            ])
        );
        assert_eq!(
            split("select 4 /* c */ / 2;"),
            pieces(&[(1, "select 4 /* c */ / 2;")])
        );
        assert_eq!(split("/* only */ -- comments\n"), pieces(&[]));
    }

    #[test]
    fn commands_stand_on_lines_of_their_own() {
        assert_eq!(
            split("#!/usr/bin/env tiledb-sql -f\n\\d weather \nselect '\n\\d';\n  \\q"),
            pieces(&[(2, "\\d weather"), (3, "select '\n\\d';"), (5, "\\q")])
        );
    }
}
