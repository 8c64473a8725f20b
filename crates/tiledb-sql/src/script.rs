//! Cuts text into statements, line by line, so that each runs before the next is read.
//!
//! A statement ends at a semicolon outside quotes and comments. Where a statement could begin, a line that begins with a
//! backslash is a command of the shell, a line with only `help`, `quit` or `exit` is one, too, and a line that begins with `#!`
//! is skipped.

use zeroize::Zeroizing;

/// One thing to run.
#[derive(Debug, PartialEq, Eq)]
pub struct ScriptPiece {
    /// The line on which it begins, counted from 1.
    pub line: usize,
    pub kind: PieceKind,
}

#[derive(Debug, PartialEq, Eq)]
pub enum PieceKind {
    /// A SQL statement, with its semicolon if it had one.
    Statement(String),
    /// A command, without its backslash.
    Command(String),
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ScriptContext {
    #[default]
    Nothing,
    /// A word, which may contain a dollar sign.
    Word,
    Quotes(char),
    /// A dollar-quoted string; [`Splitter::tag`] ends it.
    Dollars,
    LineComment,
    BlockComment(u32),
}

/// Collects lines until they make statements.
#[derive(Debug, Default)]
pub struct Splitter {
    inside: ScriptContext,
    /// The delimiter of a dollar-quoted string: `$$`, or a word between the two signs.
    tag: String,
    text: String,
    /// The line on which the current statement begins; `None` while only blanks and comments were seen.
    begins: Option<usize>,
    line: usize,
    /// The line on which the current quotes or comment begin.
    opened: usize,
    /// The lines on which open parentheses of the current statement stand.
    parentheses: Vec<usize>,
}

impl Splitter {
    /// Takes the next line, and returns the pieces that it completes.
    pub fn push_line(&mut self, line: &str) -> Vec<ScriptPiece> {
        self.line += 1;
        let line = line.trim_end_matches(['\n', '\r']);
        if self.is_between() {
            let command = line.trim_start().strip_prefix('\\').map(str::trim);
            if let Some(command) = command.or_else(|| command_word(line)) {
                self.text.clear();
                let kind = PieceKind::Command(command.to_owned());
                return vec![ScriptPiece {
                    line: self.line,
                    kind,
                }];
            }
            if line.starts_with("#!") {
                return Vec::new();
            }
        }
        let mut pieces = Vec::new();
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let ends_comment = rest.starts_with("*/");
            let (inside, taken) = self.step(rest);
            self.note_open(inside, c);
            self.inside = inside;
            let (taken, after) = rest.split_at_checked(taken).unwrap_or((rest, ""));
            self.text.push_str(taken);
            rest = after;
            match inside {
                ScriptContext::Nothing if c == ';' => pieces.extend(self.finish()),
                ScriptContext::LineComment | ScriptContext::BlockComment(_) => {}
                // The closing characters of a comment, and blanks, begin nothing.
                _ if c.is_whitespace() || ends_comment => {}
                _ => {
                    self.begins.get_or_insert(self.line);
                }
            }
        }
        if matches!(
            self.inside,
            ScriptContext::LineComment | ScriptContext::Word
        ) {
            self.inside = ScriptContext::Nothing;
        }
        self.text.push('\n');
        pieces
    }

    /// Notes where quotes, comments and parentheses begin.
    fn note_open(&mut self, inside: ScriptContext, c: char) {
        let is_plain = |context| matches!(context, ScriptContext::Nothing | ScriptContext::Word);
        match (is_plain(self.inside), is_plain(inside), c) {
            (true, false, _) => self.opened = self.line,
            (true, true, '(') => self.parentheses.push(self.line),
            (true, true, ')') => {
                self.parentheses.pop();
            }
            _ => {}
        }
    }

    /// What is open at the end of the text, and what ends it.
    pub fn open_part(&self) -> Option<String> {
        let line = self.opened;
        Some(match self.inside {
            ScriptContext::Quotes('\'') => format!("the text from line {line} ends with '"),
            ScriptContext::Quotes(quote) => format!("the name from line {line} ends with {quote}"),
            ScriptContext::Dollars => format!("the text from line {line} ends with {}", self.tag),
            ScriptContext::BlockComment(_) => format!("the comment from line {line} ends with */"),
            _ => format!(
                "the parenthesis from line {} is open",
                self.parentheses.last()?
            ),
        })
    }

    /// Whether a statement could begin here: only blanks and comments came since the last one ended.
    pub fn is_between(&self) -> bool {
        self.begins.is_none() && self.inside == ScriptContext::Nothing
    }

    /// Returns the statement that no semicolon ended, if there is one.
    pub fn finish(&mut self) -> Option<ScriptPiece> {
        let text = Zeroizing::new(std::mem::take(&mut self.text));
        self.inside = ScriptContext::Nothing;
        self.parentheses.clear();
        let line = self.begins.take()?;
        let kind = PieceKind::Statement(text.trim().to_owned());
        Some(ScriptPiece { line, kind })
    }

    /// The context after the first bytes of `rest`, and the number of these bytes.
    fn step(&mut self, rest: &str) -> (ScriptContext, usize) {
        let mut chars = rest.chars();
        let c = chars.next().unwrap_or_default();
        let one = c.len_utf8();
        match (self.inside, c, chars.next().unwrap_or_default()) {
            (ScriptContext::Word, c, _) if is_in_word(c) => (ScriptContext::Word, one),
            (ScriptContext::Nothing | ScriptContext::Word, '-', '-') => {
                (ScriptContext::LineComment, 2)
            }
            (ScriptContext::Nothing | ScriptContext::Word, '/', '*') => {
                (ScriptContext::BlockComment(1), 2)
            }
            (ScriptContext::Nothing | ScriptContext::Word, quote @ ('\'' | '"' | '`'), _) => {
                (ScriptContext::Quotes(quote), one)
            }
            (ScriptContext::Nothing | ScriptContext::Word, '$', _) => match tag_of(rest) {
                Some(tag) => {
                    tag.clone_into(&mut self.tag);
                    (ScriptContext::Dollars, tag.len())
                }
                None => (ScriptContext::Nothing, one),
            },
            (ScriptContext::Nothing | ScriptContext::Word, c, _) if begins_word(c) => {
                (ScriptContext::Word, one)
            }
            (ScriptContext::Nothing | ScriptContext::Word, ..) => (ScriptContext::Nothing, one),
            (ScriptContext::Quotes(quote), c, _) if c == quote => (ScriptContext::Nothing, one),
            (ScriptContext::Dollars, ..) if rest.starts_with(&self.tag) => {
                (ScriptContext::Nothing, self.tag.len())
            }
            (ScriptContext::BlockComment(depth), '/', '*') => {
                (ScriptContext::BlockComment(depth.saturating_add(1)), 2)
            }
            (ScriptContext::BlockComment(depth), '*', '/') if depth > 1 => {
                (ScriptContext::BlockComment(depth - 1), 2)
            }
            (ScriptContext::BlockComment(_), '*', '/') => (ScriptContext::Nothing, 2),
            (inside, ..) => (inside, one),
        }
    }
}

/// A text in pieces, each with whether it is outside of quotes and comments.
#[derive(Debug)]
pub struct ScriptText<'a> {
    splitter: Splitter,
    text: &'a str,
}

impl<'a> ScriptText<'a> {
    pub fn new(text: &'a str) -> Self {
        let splitter = Splitter::default();
        Self { splitter, text }
    }

    /// The next character or delimiter, and whether it is plain text.
    pub fn next_piece(&mut self) -> Option<(&'a str, bool)> {
        if self.text.is_empty() {
            return None;
        }
        let is_plain = |context| matches!(context, ScriptContext::Nothing | ScriptContext::Word);
        let before = self.splitter.inside;
        let (inside, taken) = self.splitter.step(self.text);
        let (piece, rest) = self.text.split_at_checked(taken)?;
        self.text = rest;
        let ends_comment = inside == ScriptContext::LineComment && piece == "\n";
        self.splitter.inside = if ends_comment {
            ScriptContext::Nothing
        } else {
            inside
        };
        Some((piece, is_plain(before) && is_plain(inside)))
    }

    /// The text after the last piece.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Skips bytes, which are plain text.
    pub fn skip(&mut self, bytes: usize) {
        self.text = self.text.get(bytes..).unwrap_or_default();
    }
}

/// The command of a line without a backslash, if it has one: a word alone, with or without a semicolon.
fn command_word(line: &str) -> Option<&'static str> {
    let word = line.trim_matches(|c: char| c.is_whitespace() || c == ';');
    let is = |name: &str| word.eq_ignore_ascii_case(name) && !line.trim_start().starts_with(';');
    match () {
        () if is("help") => Some("help"),
        () if is("quit") || is("exit") => Some("q"),
        () => None,
    }
}

fn begins_word(c: char) -> bool {
    c.is_alphabetic() || matches!(c, '_' | '#' | '@')
}

fn is_in_word(c: char) -> bool {
    begins_word(c) || c.is_ascii_digit() || c == '$'
}

/// The end of the dollar-quoted string that `text` begins with; `None` if there is no such string, as in `$1`.
fn tag_of(text: &str) -> Option<&str> {
    let word = text.strip_prefix('$')?;
    let past = word.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    let closes = word.get(past..)?.starts_with('$');
    text.get(..past + 2).filter(|_| closes)
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
                PieceKind::Statement(sql) => (p.line, sql),
                PieceKind::Command(command) => (p.line, format!("\\{command}")),
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
        assert_eq!(
            split("select $a$x;y$a$; select $ä_1$a;$a$;\n$ä_1$;select $$$;$$;"),
            pieces(&[
                (1, "select $a$x;y$a$;"),
                (1, "select $ä_1$a;$a$;\n$ä_1$;"),
                (2, "select $$$;$$;")
            ])
        );
        // A placeholder, and words with dollar signs in them, quote nothing.
        assert_eq!(
            split(
                "select $1; select a$b$, é$$, @x$y$;select 1$$;$$; select 'a'$t$;$t$;\nselect a\n$$;$$;"
            ),
            pieces(&[
                (1, "select $1;"),
                (1, "select a$b$, é$$, @x$y$;"),
                (1, "select 1$$;$$;"),
                (1, "select 'a'$t$;$t$;"),
                (2, "select a\n$$;$$;")
            ])
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
    fn words_are_commands_where_a_statement_could_begin() {
        for (text, command) in [
            ("help", "\\help"),
            ("  Help ; ", "\\help"),
            ("quit;", "\\q"),
            ("EXIT", "\\q"),
            ("-- a comment\nquit", "\\q"),
        ] {
            let split = split(text);
            let commands = split.iter().map(|(_, command)| command.as_str());
            assert_eq!(commands.collect::<Vec<_>>(), [command], "{text}");
        }
        assert_eq!(
            split("select\nquit\n;\nselect exit;"),
            pieces(&[(1, "select\nquit\n;"), (4, "select exit;")])
        );
        assert_eq!(split("helpful;"), pieces(&[(1, "helpful;")]));
        assert_eq!(split("exit from"), pieces(&[(1, "exit from")]));
    }

    #[test]
    fn commands_stand_on_lines_of_their_own() {
        assert_eq!(
            split("#!/usr/bin/env tiledb-sql -f\n\\d weather \nselect '\n\\d';\n  \\q"),
            pieces(&[(2, "\\d weather"), (3, "select '\n\\d';"), (5, "\\q")])
        );
    }
}
