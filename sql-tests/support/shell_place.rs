//! An empty folder where a test runs `tiledb-sql`, and what it prints there.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use libtest_mimic::Failed;

use crate::support::array_files::Files;
use crate::support::golden;

/// The binary; absent if it was not built (`--no-default-features`).
pub const PROGRAM: Option<&str> = option_env!("CARGO_BIN_EXE_tiledb-sql");

/// An empty folder where the shell runs, and looks for the home of its user.
pub struct Place(pub PathBuf);

#[derive(Debug)]
pub struct Ran {
    pub out: String,
    pub err: String,
    pub status: Option<i32>,
}

impl Place {
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM.unwrap_or_default());
        command
            .args(arguments)
            .current_dir(&self.0)
            .env("HOME", &self.0)
            .env("RUST_BACKTRACE", "1")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Result<Ran, Failed> {
        Ok(ran(self.command(arguments).output()?))
    }

    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> Result<Ran, Failed> {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().ok_or("no stdin")?;
        stdin.write_all(input.as_bytes())?;
        drop(stdin);
        Ok(ran(child.wait_with_output()?))
    }

    pub fn array(&self, name: &str, copy: &str) -> Result<(), Failed> {
        Files::golden(name).write(&self.0.join(copy));
        Ok(())
    }
}

pub fn ran(output: std::process::Output) -> Ran {
    Ran {
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        status: output.status.code(),
    }
}

impl Ran {
    /// Succeeded, printed exactly `out` on stdout and nothing on stderr.
    pub fn gave(&self, out: &str) -> Result<(), Failed> {
        if self.status == Some(0) && self.out == out && self.err.is_empty() {
            return Ok(());
        }
        Err(format!("expected {out:?}\n{}", self.text()).into())
    }

    /// Succeeded and printed all of `words`, the rows on stdout and everything else on stderr.
    pub fn has(&self, words: &[&str]) -> Result<(), Failed> {
        let text = format!("{}{}", self.out, self.err);
        match words.iter().find(|word| !text.contains(*word)) {
            _ if self.status != Some(0) || self.err.contains("Error") => Err(self.text().into()),
            Some(word) => Err(format!("\"{word}\" is missing\n{}", self.text()).into()),
            None => Ok(()),
        }
    }

    /// Failed with status 1 and one message on stderr that holds all of `words`; `out` is what came before.
    pub fn failed(&self, out: &str, words: &[&str]) -> Result<(), Failed> {
        // The memory pool's own message has a line that begins like one of the shell's.
        let begins = |l: &&str| l.starts_with("Error") && !l.contains("Failed to allocate");
        let messages = self.err.lines().filter(begins).count();
        let clean = [
            "panic",
            "RUST_BACKTRACE",
            "stack backtrace",
            ".rs:",
            "internal error",
        ]
        .iter()
        .all(|word| !self.err.contains(word));
        let told = words.iter().all(|word| self.err.contains(word));
        if self.status == Some(1) && messages == 1 && clean && told && self.out == out {
            return Ok(());
        }
        Err(format!(
            "expected one message with {words:?} after {out:?}\n{}",
            self.text()
        )
        .into())
    }

    pub fn text(&self) -> String {
        format!(
            "status {:?}\nstdout {}\nstderr {}",
            self.status, self.out, self.err
        )
    }
}

pub fn path(array: &str) -> String {
    golden::folder().join(array).display().to_string()
}
