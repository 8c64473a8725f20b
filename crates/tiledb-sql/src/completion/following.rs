//! The words that follow the beginning of a statement, where its grammar leaves little choice.

use super::tokens::Token;

/// The words that may follow.
#[derive(Debug, PartialEq, Eq)]
pub enum FollowingWords {
    /// One of these keywords.
    Keywords(&'static [&'static str]),
    /// The name of a setting, or one of these keywords.
    Settings(&'static [&'static str]),
}

/// A pattern of tokens: a keyword, or `_` for any token.
type TokenPattern = &'static [&'static str];

const CREATED: &[&str] = &[
    "EXTERNAL TABLE",
    "FUNCTION",
    "OR REPLACE",
    "SCHEMA",
    "TABLE",
    "UNBOUNDED EXTERNAL TABLE",
    "VIEW",
];
const REPLACED: &[&str] = &["EXTERNAL TABLE", "FUNCTION", "TABLE", "VIEW"];
const ALTERATIONS: &[&str] = &["ADD COLUMN", "DROP COLUMN", "SET TBLPROPERTIES"];
const FORMATS: &[&str] = &["ARROW", "AVRO", "CSV", "JSON", "PARQUET", "TILEDB"];
const ACTIONS: &[&str] = &["DELETE", "INSERT", "UPDATE SET"];

/// What follows a statement that consists of these tokens so far.
const WHOLE: [(TokenPattern, &[&str]); 21] = [
    (&["create"], CREATED),
    (&["create", "or", "replace"], REPLACED),
    (&["create", "external"], &["TABLE"]),
    (&["drop"], &["FUNCTION", "SCHEMA", "TABLE", "VIEW"]),
    (&["alter"], &["TABLE"]),
    (&["alter", "table", "_"], ALTERATIONS),
    (&["alter", "table", "_", "add"], &["COLUMN"]),
    (&["alter", "table", "_", "drop"], &["COLUMN"]),
    (&["alter", "table", "_", "set"], &["TBLPROPERTIES"]),
    (&["insert"], &["INTO", "OVERWRITE"]),
    (
        &["insert", "into", "_"],
        &["DEFAULT VALUES", "SELECT", "VALUES"],
    ),
    (&["insert", "overwrite", "_"], &["SELECT", "VALUES"]),
    (&["merge"], &["INTO"]),
    (&["merge", "into", "_"], &["AS", "USING"]),
    (&["replace"], &["INTO"]),
    (&["truncate"], &["TABLE"]),
    (&["delete"], &["FROM"]),
    (&["delete", "from", "_"], &["WHERE"]),
    (&["update", "_"], &["SET"]),
    (&["attach", "_"], &["AS"]),
    (&["copy", "_"], &["TO"]),
];

/// What follows these tokens anywhere.
const ENDS: [(TokenPattern, &[&str]); 6] = [
    (&["stored", "as"], FORMATS),
    (&["when"], &["MATCHED", "NOT MATCHED"]),
    (&["matched"], &["AND", "BY SOURCE", "THEN"]),
    (&["matched", "then"], ACTIONS),
    (&["system_time"], &["AS OF"]),
    (&["primary"], &["KEY"]),
];

const SHOWN: &[&str] = &["ALL", "COLUMNS FROM", "CREATE TABLE", "FUNCTIONS", "TABLES"];

/// What follows the tokens of a statement; `None` if the grammar leaves much choice.
pub fn following(tokens: &[Token]) -> Option<FollowingWords> {
    // A qualified name is one token here.
    let tokens = without_qualifiers(tokens);
    match tokens.as_slice() {
        [only] if only.is("set") || only.is("reset") => return Some(FollowingWords::Settings(&[])),
        [only] if only.is("show") => return Some(FollowingWords::Settings(SHOWN)),
        _ => {}
    }
    let whole = WHOLE.iter().find(|(pattern, _)| is_like(&tokens, pattern));
    let end = || {
        ENDS.iter().find(|(pattern, _)| {
            let end = tokens.len().checked_sub(pattern.len());
            end.and_then(|at| tokens.get(at..))
                .is_some_and(|end| is_like(end, pattern))
        })
    };
    let (_, words) = whole.or_else(end)?;
    // CASE has WHEN, too.
    if tokens.last().is_some_and(|token| token.is("when")) && !tokens.first()?.is("merge") {
        return None;
    }
    Some(FollowingWords::Keywords(words))
}

fn is_like(tokens: &[&Token], pattern: TokenPattern) -> bool {
    let is_one = |(token, word): (&&Token, &&str)| *word == "_" || token.is(word);
    tokens.len() == pattern.len() && tokens.iter().zip(pattern).all(is_one)
}

fn without_qualifiers(tokens: &[Token]) -> Vec<&Token> {
    let mut kept: Vec<&Token> = Vec::with_capacity(tokens.len());
    for token in tokens {
        if *token == Token::Mark('.') {
            kept.pop();
        } else {
            kept.push(token);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::super::tokens::LastTokens;
    use super::*;

    #[test]
    fn words_follow_the_beginning_of_a_statement() {
        for (text, expected) in [
            ("create ", Some(CREATED)),
            ("ALTER TABLE a.\"b c\" ", Some(ALTERATIONS)),
            ("create external table t stored as ", Some(FORMATS)),
            ("copy (select 1) to 'x' stored as ", Some(FORMATS)),
            (
                "merge into t using u on true when ",
                Some(&["MATCHED", "NOT MATCHED"][..]),
            ),
            (
                "merge into t using u on true when not matched then ",
                Some(ACTIONS),
            ),
            ("delete from './a' ", Some(&["WHERE"])),
            ("select case when ", None),
            ("select a ", None),
            ("", None),
        ] {
            let tokens = LastTokens::of(text).tokens;
            let expected = expected.map(FollowingWords::Keywords);
            assert_eq!(following(&tokens), expected, "{text}");
        }
        let show = LastTokens::of("show ").tokens;
        assert_eq!(following(&show), Some(FollowingWords::Settings(SHOWN)));
    }
}
