//! The words of a statement that is still being typed.
//!
//! SQL's parser can't help here, because a line under the cursor is rarely a whole statement. So this module only distinguishes
//! words, quoted names, text and other characters, and finds which of them the line ends inside of.

/// A piece of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// A keyword, a number, or a name without quotes.
    Word(String),
    /// A name in double quotes.
    Name(String),
    /// A text in single quotes.
    Text(String),
    /// Any other character.
    Mark(char),
}

/// The token that is unfinished at the end of a text, and the offset at which it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenToken {
    Nothing,
    Word(usize),
    Name(usize),
    Text(usize),
    Comment,
}

/// The pieces of the last statement of a text, without an unfinished piece at its end.
#[derive(Debug, PartialEq, Eq)]
pub struct LastTokens {
    pub tokens: Vec<Token>,
    pub open: OpenToken,
}

impl Token {
    /// Whether this is a keyword.
    pub fn is(&self, keyword: &str) -> bool {
        matches!(self, Self::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    /// The name, if the token is one: in lower case unless it is quoted, as everywhere in SQL.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Word(word) => Some(word.to_lowercase()),
            Self::Name(name) => Some(name.clone()),
            Self::Text(_) | Self::Mark(_) => None,
        }
    }
}

impl LastTokens {
    pub fn of(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let at = text.len() - rest.len();
            let open = |open| Self {
                tokens: Vec::new(),
                open,
            };
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            match c {
                ';' => tokens.clear(),
                c if c.is_whitespace() => {}
                '-' if rest.starts_with('-') => match rest.split_once('\n') {
                    Some((_, after)) => rest = after,
                    None => {
                        return Self {
                            tokens,
                            ..open(OpenToken::Comment)
                        };
                    }
                },
                '/' if rest.starts_with('*') => match rest.split_once("*/") {
                    Some((_, after)) => rest = after,
                    None => {
                        return Self {
                            tokens,
                            ..open(OpenToken::Comment)
                        };
                    }
                },
                quote @ ('\'' | '"') => match quoted(rest, quote) {
                    Some((inside, after)) => {
                        tokens.push(match quote {
                            '"' => Token::Name(inside),
                            _ => Token::Text(inside),
                        });
                        rest = after;
                    }
                    None if quote == '"' => {
                        return Self {
                            tokens,
                            ..open(OpenToken::Name(at))
                        };
                    }
                    None => {
                        return Self {
                            tokens,
                            ..open(OpenToken::Text(at))
                        };
                    }
                },
                c if is_in_word(c) => {
                    let end = rest.find(|c| !is_in_word(c));
                    let Some((word, after)) = end.and_then(|end| rest.split_at_checked(end)) else {
                        return Self {
                            tokens,
                            ..open(OpenToken::Word(at))
                        };
                    };
                    tokens.push(Token::Word(format!("{c}{word}")));
                    rest = after;
                }
                c => tokens.push(Token::Mark(c)),
            }
        }
        Self {
            tokens,
            open: OpenToken::Nothing,
        }
    }

    /// The pieces of a text up to the end of its first statement, including the last piece.
    pub fn of_rest(text: &str) -> Vec<Token> {
        let mut tokens = Self::of(&format!("{text} ")).tokens;
        // Another statement begins after a semicolon.
        if let Some((first, _)) = text.split_once(';') {
            tokens = Self::of(&format!("{first} ")).tokens;
        }
        tokens
    }
}

fn is_in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '@' | '#')
}

/// Splits a text at its closing quote; a doubled quote does not close it.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut inside = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once(quote)?;
        inside.push_str(before);
        match after.strip_prefix(quote) {
            Some(more) => {
                inside.push(quote);
                rest = more;
            }
            None => return Some((inside, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Token {
        Token::Word(text.to_owned())
    }

    #[test]
    fn the_last_statement_is_taken_apart() {
        let text = "select 1; SELECT a.\"B\"\"c\", 'it''s' -- x\n/* y; */ FROM sta";
        let found = LastTokens::of(text);
        let expected = [
            word("SELECT"),
            word("a"),
            Token::Mark('.'),
            Token::Name("B\"c".to_owned()),
            Token::Mark(','),
            Token::Text("it's".to_owned()),
            word("FROM"),
        ];
        assert_eq!(found.tokens, expected);
        assert_eq!(found.open, OpenToken::Word(text.len() - 3));
    }

    #[test]
    fn what_is_open_is_told() {
        assert_eq!(LastTokens::of("select ").open, OpenToken::Nothing);
        assert_eq!(LastTokens::of("select 'a;b").open, OpenToken::Text(7));
        assert_eq!(LastTokens::of("select \"a").open, OpenToken::Name(7));
        assert_eq!(LastTokens::of("select -- a").open, OpenToken::Comment);
        assert_eq!(LastTokens::of("select /* a").open, OpenToken::Comment);
        assert_eq!(LastTokens::of("select größ").open, OpenToken::Word(7));
    }

    #[test]
    fn the_rest_ends_with_its_statement() {
        assert_eq!(
            LastTokens::of_rest(" from t; select x"),
            [word("from"), word("t")]
        );
        assert_eq!(LastTokens::of_rest(" from t"), [word("from"), word("t")]);
    }
}
