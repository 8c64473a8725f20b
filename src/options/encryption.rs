//! Sources of the key of an encrypted array: an option, a file, an environment variable.
//!
//! Text of SQL ends up in histories and logs, so two of the options only refer to the key. If no option gives a key,
//! the environment variable [`SESSION_KEY`] does, for all arrays that turn out to be encrypted; this works for arrays
//! named by their path, too. The subtle thing: a key that was given instead of a file's or variable's name must not
//! appear in the error either.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use tiledb_engine::filter::EncryptionKey;
use tiledb_engine::{Error, Result, ResultExt};
use zeroize::Zeroizing;

/// The environment variable with the key for all encrypted arrays without an option for the key.
pub const SESSION_KEY: &str = "TILEDB_ENCRYPTION_KEY";

/// A key file has at most 64 digits and a line end; a longer file isn't a key.
const LONGEST_FILE_BYTES: u64 = 128;

/// What stands for a text that may be a secret.
const NOT_SHOWN: &str = "(not shown, for it could be a key)";
/// The name of an option is rarely longer, and a secret rarely shorter.
const LONGEST_NAME: usize = 40;
/// How to give a key where it must not be written.
pub(crate) const OTHER_WAYS: &str = "name a file that holds it with tiledb.encryption_key_file, or an environment variable with \
     tiledb.encryption_key_env, set the environment variable TILEDB_ENCRYPTION_KEY, or give it to CREATE EXTERNAL TABLE \u{2026} \
     OPTIONS ('tiledb.encryption_key' '\u{2026}')";

/// The option whose value is the key.
pub(crate) const KEY: &str = "encryption_key";
/// The option that names a file with the key.
pub(crate) const KEY_FILE: &str = "encryption_key_file";
/// The option that names an environment variable with the key.
pub(crate) const KEY_VARIABLE: &str = "encryption_key_env";

/// The key in an option with this name and value.
pub(crate) fn key_of_option(name: &str, value: &str) -> Result<Arc<EncryptionKey>> {
    let key = match name {
        KEY_FILE => key_in_file(value),
        KEY_VARIABLE => key_in_variable(value, std::env::var_os(value)),
        _ => EncryptionKey::from_text(value.as_bytes()),
    };
    key.map(Arc::new)
        .context("option", || format!("tiledb.{name}"))
}

/// The key in the environment variable.
pub(crate) fn key_of_environment() -> Result<Option<Arc<EncryptionKey>>> {
    let Some(value) = std::env::var_os(SESSION_KEY).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let key = key_in_variable(SESSION_KEY, Some(value))?;
    Ok(Some(Arc::new(key)))
}

fn key_in_variable(name: &str, value: Option<OsString>) -> Result<EncryptionKey> {
    let value = value.ok_or_else(|| {
        Error::invalid(format!(
            "the environment variable {} is not set",
            shown(name)
        ))
    })?;
    let value = Zeroizing::new(value.into_encoded_bytes());
    EncryptionKey::from_text(&value).context("environment variable", || shown(name))
}

fn key_in_file(path: &str) -> Result<EncryptionKey> {
    let mut bytes = Zeroizing::new(Vec::new());
    let read =
        File::open(path).and_then(|file| file.take(LONGEST_FILE_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|e| {
        Error::invalid(format!("the key file {} cannot be read", shown(path))).with_source(e)
    })?;
    let found = EncryptionKey::from_text(&bytes).or_else(|error| {
        // Editors end the file with a newline; a file of 32 bytes is the key itself, whatever its last byte.
        let line = bytes.strip_suffix(b"\n").ok_or(error)?;
        EncryptionKey::from_text(line.strip_suffix(b"\r").unwrap_or(line))
    });
    found.context("file", || shown(path))
}

/// A name for a message, unless it may be a key that was given by mistake.
fn shown(name: &str) -> String {
    if EncryptionKey::from_text(name.as_bytes()).is_ok() {
        return NOT_SHOWN.to_owned();
    }
    format!("'{name}'")
}

/// The name of an option for a message, unless it may be a secret that stands in the place of one.
pub(crate) fn shown_name(name: &str) -> String {
    let in_a_name = |c: char| c.is_ascii_alphanumeric() || "._- \"".contains(c);
    if name.len() <= LONGEST_NAME && name.chars().all(in_a_name) {
        shown(name)
    } else {
        NOT_SHOWN.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tiledb_engine::ErrorKind;

    use super::*;

    const TEXT: &str = "0123456789abcdeF0123456789abcdeF";
    const HEX: &str = "3031323334353637383961626364654630313233343536373839616263646546";

    #[test]
    fn a_file_holds_bytes_or_digits_with_or_without_a_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let path = file.display().to_string();
        let key = EncryptionKey::new(TEXT.as_bytes().try_into().unwrap());
        for text in [TEXT, HEX] {
            for end in ["", "\n", "\r\n"] {
                fs::write(&file, format!("{text}{end}")).unwrap();
                assert_eq!(*key_of_option(KEY_FILE, &path).unwrap(), key);
            }
        }
        // 32 bytes are a key even if they look like text with a newline.
        let mut bytes = [0xFF; 32];
        bytes[31] = b'\n';
        fs::write(&file, bytes).unwrap();
        let found = key_of_option(KEY_FILE, &path).unwrap();
        assert_eq!(*found, EncryptionKey::new(&bytes));
        for wrong in [
            "",
            "\n",
            "hunter2\n",
            &format!("{TEXT}\n\n"),
            &HEX.repeat(1000),
        ] {
            fs::write(&file, wrong).unwrap();
            let error = key_of_option(KEY_FILE, &path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&path), "{error}");
            assert!(!error.to_string().contains("hunter2"));
            assert!(!error.to_string().contains("0123"));
        }
    }

    #[test]
    fn a_variable_holds_bytes_or_digits() {
        let key = EncryptionKey::new(TEXT.as_bytes().try_into().unwrap());
        for text in [TEXT, HEX] {
            assert_eq!(key_in_variable("KEY", Some(text.into())).unwrap(), key);
        }
        let error = key_in_variable("KEY", Some("hunter2".into())).unwrap_err();
        assert!(error.to_string().contains("'KEY'"), "{error}");
        assert!(!error.to_string().contains("hunter2"));
        let error = key_of_option(KEY_VARIABLE, "NO_SUCH_VARIABLE_OF_A_TEST").unwrap_err();
        assert!(error.to_string().contains("NO_SUCH_VARIABLE"), "{error}");
    }

    #[test]
    fn a_key_in_the_wrong_place_is_not_repeated() {
        for text in [TEXT, HEX] {
            for option in [KEY_FILE, KEY_VARIABLE] {
                let error = key_of_option(option, text).unwrap_err().to_string();
                assert!(!error.contains(text), "{error}");
                assert!(error.contains(option), "{error}");
            }
        }
    }
}
