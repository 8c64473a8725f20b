//! Variables: `\set NAME VALUE` sets one, and statements use it as `:NAME`, as a text by `:'NAME'`, or as a name by `:"NAME"`.
//!
//! They work as in psql: a value is put into the statement before it is parsed. Where no variable has the name, and in quotes and
//! comments, a colon stays what it is.

use std::collections::BTreeMap;

use datafusion::error::Result;
use datafusion_tiledb::options::secrets::may_hold_secret;
use zeroize::Zeroizing;

use crate::report;
use crate::script::ScriptText;

/// The variables of a session.
#[derive(Debug, Default)]
pub struct ShellVariables {
    values: BTreeMap<String, Zeroizing<String>>,
}

/// How a value is put into a statement.
#[derive(Debug, Clone, Copy)]
enum VariableForm {
    AsIs,
    Text,
    Name,
}

impl ShellVariables {
    /// Sets a variable; quotes around the value are not part of it.
    ///
    /// # Errors
    ///
    /// Fails if the name isn't one of letters, digits and underscores.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        if name.is_empty() || !name.chars().all(is_in_name) {
            return Err(report::message(format!(
                "'{name}' isn't a name of a variable: expected letters, digits and underscores"
            )));
        }
        let inside = value
            .strip_prefix('\'')
            .and_then(|rest| rest.strip_suffix('\''))
            .map(|inside| inside.replace("''", "'"));
        let value = Zeroizing::new(inside.unwrap_or_else(|| value.to_owned()));
        self.values.insert(name.to_owned(), value);
        Ok(())
    }

    /// Removes a variable, if there is one.
    pub fn unset(&mut self, name: &str) {
        self.values.remove(name);
    }

    /// The names and values; secrets are masked.
    pub fn list(&self) -> Vec<(String, String)> {
        let values = self.values.iter().map(|(name, value)| {
            let shown = if is_secret(name, value) { MASK } else { value };
            (name.clone(), report::masked(shown))
        });
        values.collect()
    }

    /// A text with the values in place of the variables.
    pub fn substitute(&self, text: &str) -> String {
        if self.values.is_empty() || !text.contains(':') {
            return text.to_owned();
        }
        let mut result = String::with_capacity(text.len());
        let mut rest = ScriptText::new(text);
        let mut is_after_colon = false;
        while let Some((piece, is_plain)) = rest.next_piece() {
            let is_colon = is_plain && piece == ":";
            // Two colons are a cast.
            let used = (is_colon && !is_after_colon).then(|| self.variable(rest.text()));
            is_after_colon = is_colon;
            match used.flatten() {
                Some((value, taken)) => {
                    result.push_str(&value);
                    rest.skip(taken);
                    is_after_colon = false;
                }
                None => result.push_str(piece),
            }
        }
        result
    }

    /// The value of the variable that a text begins with, and the length of the variable in the text.
    fn variable(&self, text: &str) -> Option<(String, usize)> {
        let quote = text.chars().next()?;
        let (form, quotes) = match quote {
            '\'' => (VariableForm::Text, 1),
            '"' => (VariableForm::Name, 1),
            _ => (VariableForm::AsIs, 0),
        };
        let named = text.get(quotes..)?;
        let end = named.find(|c: char| !is_in_name(c)).unwrap_or(named.len());
        let (name, after) = named.split_at_checked(end)?;
        if quotes == 1 && !after.starts_with(quote) {
            return None;
        }
        let value = self.values.get(name)?;
        let value = match form {
            VariableForm::AsIs => value.to_string(),
            VariableForm::Text => format!("'{}'", value.replace('\'', "''")),
            VariableForm::Name => format!("\"{}\"", value.replace('"', "\"\"")),
        };
        Some((value, name.len() + 2 * quotes))
    }
}

/// What a list shows in place of a secret.
const MASK: &str = "***";

/// Whether a variable holds a secret, by its name or its value.
fn is_secret(name: &str, value: &str) -> bool {
    may_hold_secret(&format!("SET {name} = '{value}'"))
}

/// Whether a command in a text sets a variable to a secret, so that the text must not be kept.
pub fn sets_secret(text: &str) -> bool {
    let commands = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("\\set "));
    let pairs = commands.filter_map(|command| command.trim_start().split_once(char::is_whitespace));
    pairs
        .into_iter()
        .any(|(name, value)| is_secret(name, value.trim()))
}

fn is_in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_place_of_variables() {
        let mut variables = ShellVariables::default();
        variables.set("n", "5").unwrap();
        variables.set("who", "'O''Hara'").unwrap();
        variables.set("col", "a \"b\"").unwrap();
        variables.set("empty", "").unwrap();
        for (text, expected) in [
            ("SELECT :n, :'who'", "SELECT 5, 'O''Hara'"),
            ("SELECT :\"col\" FROM t", "SELECT \"a \"\"b\"\"\" FROM t"),
            ("SELECT :who", "SELECT O'Hara"),
            (
                "SELECT x::n, ':n', \":n\" -- :n\n, $$:n$$ /* :n */",
                "SELECT x::n, ':n', \":n\" -- :n\n, $$:n$$ /* :n */",
            ),
            ("SELECT a[1:n], :m, :'m', :", "SELECT a[15], :m, :'m', :"),
            ("SELECT :n:n, :é", "SELECT 55, :é"),
            ("SELECT 1:empty;", "SELECT 1;"),
        ] {
            assert_eq!(variables.substitute(text), expected);
        }
        variables.unset("n");
        assert_eq!(variables.substitute("SELECT :n"), "SELECT :n");
        for (name, value, is_hidden) in [
            ("encryption_key", "0123456789", true),
            ("aws_secret_access_key", "x9", true),
            ("password", "hunter2", true),
            ("url", "https://user:hunter2@host/a", true),
            ("city", "Bergen", false),
            ("monkey", "business", false),
        ] {
            let mut variables = ShellVariables::default();
            variables.set(name, value).unwrap();
            let (_, shown) = variables.list().remove(0);
            assert_eq!(shown != value, is_hidden, "{name}: {shown}");
            let command = format!("SELECT 1;\n  \\set  {name} {value}");
            assert_eq!(sets_secret(&command), is_hidden, "{name}");
        }
        assert!(variables.set("a b", "1").is_err());
        assert!(variables.set("", "1").is_err());
    }
}
