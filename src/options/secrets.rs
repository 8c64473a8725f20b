//! Secrets in statements: keys, passwords and signatures, which no error, log or history may repeat.
//!
//! A parser's error shows the token that it fails at. If a secret was written without quotes, that token may be the secret or a
//! part of it: the tokenizer cuts `0123abcd` in two. So not only secrets are masked, but also words that are parts of one.

use std::fmt;

use tiledb_engine::filter::EncryptionKey;
use tiledb_engine::storage::Location;
use zeroize::Zeroizing;

/// Words that occur in names of secrets. Misspelt names usually contain one of them as well.
const NAMES_OF_SECRETS: [&str; 9] = [
    "encr",
    "secret",
    "passw",
    "token",
    "credential",
    "access_key",
    "account_key",
    "private_key",
    "signature",
];
/// Options that only name the location of a key.
const NAMES_OF_PLACES: [&str; 2] = ["encryption_key_file", "encryption_key_env"];
/// Prefixes of option names, which column names don't have.
const PREFIXES_OF_OPTIONS: [&str; 6] = ["tiledb.", "aws.", "gcp.", "google.", "azure.", "format."];
/// Whether a character may be part of an option's name.
const IN_A_NAME: fn(char) -> bool = |c| c.is_alphanumeric() || c == '_' || c == '.' || c == '-';
/// The text that replaces a secret.
const MASK: &str = "***";
/// Shorter texts aren't treated as secrets, because masking them would make other words unreadable.
const SHORTEST: usize = 4;

/// The secrets of a statement.
#[derive(Default)]
pub struct StatementSecrets(Vec<Zeroizing<String>>);

impl fmt::Debug for StatementSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatementSecrets({})", self.0.len())
    }
}

/// Whether a text may contain a secret, and must not be kept.
pub fn may_hold_secret(text: &str) -> bool {
    !option_secrets(text).is_empty() || url_secrets(text).next().is_some()
}

impl StatementSecrets {
    /// The secrets of a statement that has none.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// The secrets of a statement, which doesn't have to be valid.
    pub fn of(statement: &str) -> Self {
        let mut secrets = option_secrets(statement);
        for url in url_secrets(statement) {
            // Code that parses a URL may show its parts.
            let (_, rest) = url.split_once("://").unwrap_or_default();
            let (user, _) = rest.rsplit_once('@').unwrap_or_default();
            let (_, password) = user.split_once(':').unwrap_or_default();
            let (_, query) = rest.split_once('?').unwrap_or_default();
            let values = query.split('&').filter_map(|pair| pair.split_once('='));
            secrets.extend(password.split('/').chain(values.map(|(_, value)| value)));
        }
        // A key may stand in place of another argument of a function.
        if statement.contains("tiledb_") {
            let texts = statement.split('\'').skip(1).step_by(2);
            secrets.extend(texts.filter(|text| EncryptionKey::from_text(text.as_bytes()).is_ok()));
        }
        let secrets = secrets
            .into_iter()
            .filter(|secret| secret.len() >= SHORTEST);
        Self(
            secrets
                .map(|secret| Zeroizing::new(secret.to_owned()))
                .collect(),
        )
    }

    /// Whether the statement has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A message without these secrets, and without possible secrets in its URLs.
    pub fn masked(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for url in url_secrets(text) {
            masked = masked.replace(url, &Location::without_secrets(url));
        }
        for secret in &self.0 {
            masked = masked.replace(secret.as_str(), MASK);
        }
        if self.0.is_empty() {
            masked
        } else {
            self.without_parts(&masked)
        }
    }

    /// The text without words that are parts of a secret, ignoring case.
    fn without_parts(&self, text: &str) -> String {
        let in_a_word = |c: char| c.is_alphanumeric() || c == '_';
        let secrets = self
            .0
            .iter()
            .map(|secret| Zeroizing::new(secret.to_lowercase()))
            .collect::<Vec<_>>();
        let is_part = |word: &str| {
            let word = word.to_lowercase();
            word.len() >= SHORTEST && secrets.iter().any(|secret| secret.contains(&word))
        };
        let mut shown = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(in_a_word) {
            let (before, from) = rest.split_at_checked(start).unwrap_or((rest, ""));
            let end = from.find(|c| !in_a_word(c)).unwrap_or(from.len());
            let (word, behind) = from.split_at_checked(end).unwrap_or((from, ""));
            shown.push_str(before);
            shown.push_str(if is_part(word) { MASK } else { word });
            rest = behind;
        }
        shown.push_str(rest);
        shown
    }
}

/// The values after names of secrets in a statement.
fn option_secrets(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(IN_A_NAME) {
        let from = rest.get(start..).unwrap_or_default();
        let end = from.find(|c| !IN_A_NAME(c)).unwrap_or(from.len());
        let (name, behind) = from.split_at_checked(end).unwrap_or((from, ""));
        rest = behind;
        let name = name.to_lowercase();
        let is_secret = NAMES_OF_SECRETS.iter().any(|known| name.contains(known));
        let is_place = NAMES_OF_PLACES.iter().any(|known| name.ends_with(known));
        if !is_secret || is_place {
            continue;
        }
        let is_key = name.contains("encr") && name.contains("key");
        let mut prefixes = PREFIXES_OF_OPTIONS.iter();
        let is_option = is_key || prefixes.any(|prefix| name.starts_with(prefix));
        match is_option {
            true => found.extend(words_of_option(behind)),
            // A column may have the same name, but no value follows it.
            false => found.extend(value_behind(behind)),
        }
    }
    found.retain(|secret| !secret.is_empty());
    found
}

/// All quoted texts and words after an option's name, up to the next option.
fn words_of_option(rest: &str) -> Vec<&str> {
    let mut rest = rest.strip_prefix(['\'', '"']).unwrap_or(rest);
    let mut words = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '=' | '>' | ':'));
        let Some(first) = rest.chars().next() else {
            return words;
        };
        if matches!(first, ',' | ')' | ';') {
            return words;
        }
        if matches!(first, '\'' | '"') {
            let quoted = rest.strip_prefix(first).unwrap_or_default();
            let (word, behind) = quoted.split_once(first).unwrap_or((quoted, ""));
            words.push(word);
            rest = behind;
            continue;
        }
        let ends = |c: char| c.is_whitespace() || matches!(c, ',' | ')' | ';' | '\'' | '"');
        let end = rest.find(ends).unwrap_or(rest.len());
        let (word, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
        words.push(word);
        rest = behind;
    }
}

/// The value after a name, if its form marks it as a value: `' 'value'`, `' value`, `=value`, `'value'`.
fn value_behind(rest: &str) -> Option<&str> {
    let after_name = rest.strip_prefix(['\'', '"']);
    let in_quotes = after_name.is_some();
    let rest = after_name.unwrap_or(rest);
    let value =
        rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '=' | ',' | '>' | ':'));
    let between = rest.get(..rest.len().checked_sub(value.len())?)?;
    if let Some(quoted) = value.strip_prefix(['\'', '"']) {
        return quoted.split(['\'', '"']).next();
    }
    let ends = |c: char| c.is_whitespace() || matches!(c, ',' | ')' | ';' | '&' | '\'' | '"');
    let is_given = in_quotes || between.contains('=');
    value.split(ends).next().filter(|_| is_given)
}

/// The URLs in a text that may contain secrets.
fn url_secrets(text: &str) -> impl Iterator<Item = &str> {
    let words =
        text.split(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '(' | ')' | ';'));
    words.filter(|word| {
        let rest = word.split_once("://").map_or("", |(_, rest)| rest);
        let query = rest.split_once('?').map_or("", |(_, query)| query);
        let signed = ["sig", "token", "signature", "credential"];
        let query = query.to_lowercase();
        rest.split_once('@')
            .is_some_and(|(user, _)| user.contains(':'))
            || query.split('&').any(|pair| {
                signed.iter().any(|name| {
                    let key = pair.split('=').next().unwrap_or_default();
                    key == *name
                        || key.ends_with(&format!("-{name}"))
                        || key.ends_with(&format!("_{name}"))
                })
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_with_a_secret_are_known() {
        for text in [
            "… OPTIONS ('tiledb.encryption_key' 'x')",
            "… OPTIONS (Tiledb.Encryption_Key 'x')",
            "… OPTIONS (encrytion_key hunter2)",
            "… ('tiledb.encryption_key_file' 'f', 'tiledb.encryption_key' 'x')",
            "… OPTIONS ('aws.secret_access_key' 'a/b+c')",
            "SELECT * FROM tiledb_scan('a', encryption_key => 'x')",
            "ATTACH 'az://u:SECRET@h/g'",
            "ATTACH 's3://u:SE/CRET@h/g'",
            "SELECT * FROM 'https://h/a?sig=x'",
        ] {
            assert!(may_hold_secret(text), "{text}");
        }
        for text in [
            "… OPTIONS ('tiledb.encryption_key_file' 'x')",
            "… OPTIONS ('tiledb.encryption_key_env' 'X')",
            "SELECT 1",
            "SELECT password, token FROM users",
            "SELECT password FROM encrypted WHERE token > 5",
            "SELECT * FROM 's3://b/a?timestamp=5' WHERE key = 'a'",
        ] {
            assert!(!may_hold_secret(text), "{text}");
        }
        assert!(StatementSecrets::of("SELECT 1").is_empty());
        let secrets = StatementSecrets::of("OPTIONS ('tiledb.encryption_key' hunter2)");
        assert!(!secrets.is_empty());
        let shown = secrets.masked("found: hunter2 in 's3://u:pw@b/x' at 'https://h/y?sig=z'");
        assert_eq!(shown, "found: *** in 's3://b/x' at 'https://h/y'");
    }

    #[test]
    fn parts_of_a_secret_are_masked() {
        for statement in [
            "ATTACH 'g' AS g (encryption_key 0123hunter2)",
            "ATTACH 'g' AS g (encryption_key = 0123/HUNTER2)",
            "ATTACH 'g' AS g (encryption_key '0123'hunter2)",
            "ATTACH 'g' AS g (encryption_key \"0123\" hunter2, read_only)",
            "ALTER TABLE t SET TBLPROPERTIES ('aws.secret_access_key' = 0123 + hunter2",
        ] {
            let secrets = StatementSecrets::of(statement);
            let shown =
                secrets.masked("found: hunter2, then \"0123\", expected: read_only at line 12");
            let expected = "found: ***, then \"***\", expected: read_only at line 12";
            assert_eq!(shown, expected, "{statement}");
        }
        // The name of an array and a compared column aren't options.
        let sql = "CREATE EXTERNAL TABLE t … LOCATION 'encrypted_dense' OPTIONS ('tiledb.encryption_key_env' 'MY_KEY')";
        let shown = "the variable MY_KEY is not set";
        assert_eq!(StatementSecrets::of(sql).masked(shown), shown);
        let secrets = StatementSecrets::of("SELECT a FROM t WHERE token = 5 AND temperature > 3");
        let shown = "No field named temperature";
        assert_eq!(secrets.masked(shown), shown);
    }
}
