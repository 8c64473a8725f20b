//! Finds the kind of word that a statement asks for at the cursor.

use super::following::{FollowingWords, following};
use super::tokens::{LastTokens, OpenToken, Token};

/// The kind of word that fits at the cursor.
#[derive(Debug, PartialEq, Eq)]
pub enum WantedWord {
    /// Nothing that can be completed.
    Nothing,
    /// The first word of a statement.
    Statement(TypedWord),
    /// One of the words that the grammar allows here.
    Following(TypedWord, FollowingWords),
    /// The name of an option, which begins at the offset `start`, behind a quote.
    Option { start: usize },
    /// A table, or a schema on the way to one.
    Table(TypedWord),
    /// An expression: columns of these tables, functions, or the next keyword.
    Expression(TypedWord, Vec<NamedTable>),
    /// The path of a file to read or write; it begins at the offset `start`, behind a quote.
    Path {
        start: usize,
        /// Whether only a text with a slash is a path, because a plain string is possible, too.
        needs_slash: bool,
    },
}

/// A word that is being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedWord {
    /// The offset at which the word begins, at its quote if it has one.
    pub start: usize,
    /// The text of the word so far, without quotes.
    pub typed: String,
    /// Whether the word began with a double quote.
    pub is_quoted: bool,
    /// The names before the word, which dots separate.
    pub qualifier: Vec<String>,
}

/// A table that a statement names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTable {
    /// The parts of the table's name; or its path, as the only part.
    pub name: Vec<String>,
    pub alias: Option<String>,
}

/// The keywords behind which a table is named.
const BEFORE_TABLES: [&str; 11] = [
    "from",
    "join",
    "into",
    "overwrite",
    "update",
    "table",
    "using",
    "describe",
    "desc",
    "columns",
    "summarize",
];
/// The keywords behind which a list of tables has ended.
const BEHIND_TABLES: [&str; 12] = [
    "where", "group", "order", "having", "limit", "on", "using", "set", "union", "select",
    "window", "qualify",
];
/// The keywords behind which a text is a path.
const BEFORE_PATHS: [&str; 7] = [
    "location", "to", "attach", "group", "database", "exists", "copy",
];

/// The kind of word that fits at the offset `at` of a text.
pub fn wanted(text: &str, at: usize) -> WantedWord {
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    let LastTokens { mut tokens, open } = LastTokens::of(before);
    let (start, is_quoted) = match open {
        OpenToken::Comment => return WantedWord::Nothing,
        OpenToken::Text(start) => return path(&tokens, start + 1),
        OpenToken::Nothing => (at, false),
        OpenToken::Word(start) => (start, false),
        OpenToken::Name(start) => (start, true),
    };
    let typed = before
        .get(start + usize::from(is_quoted)..)
        .unwrap_or_default()
        .replace("\"\"", "\"");
    if typed.starts_with(|c: char| c.is_ascii_digit()) && !is_quoted {
        return WantedWord::Nothing;
    }
    let word = TypedWord {
        start,
        typed,
        is_quoted,
        qualifier: qualifier(&mut tokens),
    };
    if tokens.is_empty() && word.qualifier.is_empty() {
        return WantedWord::Statement(word);
    }
    if let Some(words) = following(&tokens) {
        return WantedWord::Following(word, words);
    }
    if names_table(&tokens) {
        return WantedWord::Table(word);
    }
    let statement = [tokens, vec![Token::Mark(' ')], LastTokens::of_rest(after)].concat();
    WantedWord::Expression(word, tables(&statement))
}

/// Takes the names with dots from the end of a statement.
fn qualifier(tokens: &mut Vec<Token>) -> Vec<String> {
    let mut names = Vec::new();
    while let [.., name, Token::Mark('.')] = tokens.as_slice() {
        let Some(name) = name.name() else { break };
        names.insert(0, name);
        tokens.truncate(tokens.len() - 2);
    }
    names
}

/// Whether a table is named behind these words: directly behind FROM and the like, or in the list that follows it.
fn names_table(tokens: &[Token]) -> bool {
    let is_one_of = |token: &Token, words: &[&str]| words.iter().any(|word| token.is(word));
    match tokens.last() {
        Some(Token::Mark(',')) => {}
        Some(token) => return is_one_of(token, &BEFORE_TABLES),
        None => return false,
    }
    let mut depth = 0_usize;
    for token in tokens.iter().rev() {
        match token {
            Token::Mark(')') => depth += 1,
            Token::Mark('(') if depth == 0 => return false,
            Token::Mark('(') => depth -= 1,
            _ if depth > 0 => {}
            token if is_one_of(token, &["from"]) => return true,
            token if is_one_of(token, &BEHIND_TABLES) => return false,
            _ => {}
        }
    }
    false
}

/// Decides the meaning of a text in quotes by the words before it.
fn path(tokens: &[Token], start: usize) -> WantedWord {
    if names_table(tokens) {
        return WantedWord::Path {
            start,
            needs_slash: true,
        };
    }
    if names_option(tokens) {
        return WantedWord::Option { start };
    }
    let of_function = matches!(tokens, [.., Token::Word(name), Token::Mark('(')]
        if name.to_lowercase().starts_with("tiledb_") || name.eq_ignore_ascii_case("parquet_metadata"));
    let behind = |token: &Token| BEFORE_PATHS.iter().any(|word| token.is(word));
    if of_function || tokens.last().is_some_and(behind) {
        WantedWord::Path {
            start,
            needs_slash: of_function,
        }
    } else {
        WantedWord::Nothing
    }
}

/// Whether a text is the name of an option: in the parentheses of OPTIONS, behind the opening one or a comma.
fn names_option(tokens: &[Token]) -> bool {
    if !matches!(tokens.last(), Some(Token::Mark('(' | ','))) {
        return false;
    }
    let open = tokens.iter().rposition(|token| *token == Token::Mark('('));
    let before = open.and_then(|at| tokens.get(at.checked_sub(1)?));
    before.is_some_and(|word| word.is("options") || word.is("tblproperties"))
}

/// The tables that a statement names.
fn tables(tokens: &[Token]) -> Vec<NamedTable> {
    let mut tables = Vec::new();
    let mut rest = tokens;
    while let [token, after @ ..] = rest {
        rest = after;
        let in_list = *token == Token::Mark(',') && {
            let before = tokens.len() - after.len();
            names_table(tokens.get(..before).unwrap_or_default())
        };
        if !in_list && !BEFORE_TABLES.iter().any(|word| token.is(word)) {
            continue;
        }
        if let Some((table, after)) = table(rest) {
            tables.push(table);
            rest = after;
        }
    }
    tables
}

/// The table at the beginning of tokens, and the rest of the tokens.
fn table(tokens: &[Token]) -> Option<(NamedTable, &[Token])> {
    let (first, mut rest) = tokens.split_first()?;
    let mut name = match first {
        Token::Text(path) => vec![path.clone()],
        token => vec![token.name().filter(|name| name != "select")?],
    };
    while let [Token::Mark('.'), part, after @ ..] = rest {
        name.push(part.name()?);
        rest = after;
    }
    if let [token, after @ ..] = rest
        && token.is("as")
    {
        rest = after;
    }
    let ends = |token: &Token| {
        let words = BEHIND_TABLES.iter().chain(&BEFORE_TABLES);
        let joins = ["inner", "left", "right", "full", "cross", "natural", "for"];
        words.chain(&joins).any(|word| token.is(word))
    };
    let alias = rest
        .first()
        .filter(|token| !ends(token))
        .and_then(Token::name);
    if alias.is_some() {
        rest = rest.get(1..).unwrap_or_default();
    }
    Some((NamedTable { name, alias }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kind of word that fits where the text has a bar, which stands for the cursor.
    fn at_bar(text: &str) -> WantedWord {
        let at = text.find('|').unwrap();
        wanted(&text.replacen('|', "", 1), at)
    }

    fn named(table: &str, alias: Option<&str>) -> NamedTable {
        NamedTable {
            name: table.split(':').map(str::to_owned).collect(),
            alias: alias.map(str::to_owned),
        }
    }

    #[test]
    fn tables_follow_from() {
        for text in [
            "SELECT * FROM |",
            "SELECT * FROM we|",
            "select * from a, b, w|",
            "select * from a join w|",
            "INSERT INTO w|",
            "DESCRIBE w|",
            "SHOW COLUMNS FROM w|",
            "select * from (select 1) x, w|",
            "select 1; select * from w|",
        ] {
            assert!(matches!(at_bar(text), WantedWord::Table(_)), "{text}");
        }
        let WantedWord::Table(word) = at_bar("select * from Exp.\"MS\".\"RN|") else {
            panic!("no table");
        };
        assert_eq!(word.qualifier, ["exp", "MS"]);
        assert_eq!(
            (word.typed.as_str(), word.is_quoted, word.start),
            ("RN", true, 23)
        );
    }

    #[test]
    fn expressions_know_the_tables_of_their_statement() {
        let weather = named("weather", None);
        for (text, tables) in [
            ("SELECT st| FROM weather WHERE x", vec![weather.clone()]),
            ("select * from weather where st|", vec![weather.clone()]),
            (
                "select * from weather order by a, st|",
                vec![weather.clone()],
            ),
            (
                "select f(a, st|) from weather; select 1 from x",
                vec![weather.clone()],
            ),
            (
                "select | from exp.ms.\"A/b\" as x, './c' y left join d using (e)",
                vec![
                    named("exp:ms:A/b", Some("x")),
                    named("./c", Some("y")),
                    named("d", None),
                ],
            ),
            ("select st|", vec![]),
            ("select * from (select 1) where |", vec![]),
        ] {
            let WantedWord::Expression(_, found) = at_bar(text) else {
                panic!("no expression: {text}");
            };
            assert_eq!(found, tables, "{text}");
        }
        let WantedWord::Expression(word, _) = at_bar("select w.te| from weather w") else {
            panic!("no expression");
        };
        assert_eq!(word.qualifier, ["w"]);
    }

    #[test]
    fn texts_are_paths_where_paths_belong() {
        for (text, slash) in [
            ("select * from './we|", true),
            ("select * from a join 'x|", true),
            ("summarize './x|", true),
            ("select * from tiledb_schema('x|", true),
            (
                "create external table t stored as tiledb location 'x|",
                false,
            ),
            ("copy t to 'x|", false),
            ("attach 'x|", false),
            ("ATTACH GROUP IF NOT EXISTS 'x|", false),
        ] {
            let start = text.rfind('\'').unwrap() + 1;
            let needs_slash = slash;
            assert_eq!(
                at_bar(text),
                WantedWord::Path { start, needs_slash },
                "{text}"
            );
        }
        assert_eq!(at_bar("select * from t where a = 'x|"), WantedWord::Nothing);
        assert_eq!(at_bar("select 'x|"), WantedWord::Nothing);
        assert_eq!(at_bar("-- sel|"), WantedWord::Nothing);
        assert_eq!(at_bar("select 12|"), WantedWord::Nothing);
    }

    #[test]
    fn options_are_named_in_their_parentheses() {
        for text in [
            "create external table t stored as tiledb location 'x' options ('til|",
            "copy t to 'x' OPTIONS ('a' 'b', 'c|",
            "alter table t set tblproperties ('|",
        ] {
            let start = text.rfind('\'').unwrap() + 1;
            assert_eq!(at_bar(text), WantedWord::Option { start }, "{text}");
        }
        assert_eq!(
            at_bar("copy t to 'x' options ('a' 'b|"),
            WantedWord::Nothing
        );
    }

    #[test]
    fn statements_begin_with_a_keyword() {
        assert!(matches!(at_bar("|"), WantedWord::Statement(_)));
        assert!(matches!(at_bar("select 1; sel|"), WantedWord::Statement(_)));
    }
}
