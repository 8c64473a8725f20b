//! `tiledb-sql` in a terminal, as somebody who types sees it: completion, interrupts, toggles, bars, pagers, resized windows.
//!
//! A test types, and waits until the screen shows what it expects; nothing depends on how long that takes. A statement that
//! is to last reads from a pipe into which nobody writes until the test does.

mod features;
mod screen;
mod session;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use self::screen::Screen;
use crate::support::shell_place::{PROGRAM, Place};

/// A busy machine gets so much time for anything.
const LIMIT: Duration = Duration::from_secs(120);

pub const CTRL_C: &str = "\x03";
pub const CTRL_D: &str = "\x04";
pub const ENTER: &str = "\r";

/// The shell in a terminal.
pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    shown: Arc<(Mutex<Screen>, Condvar)>,
    /// What the screen showed up to here was looked at.
    seen: usize,
}

fn size(columns: u16) -> PtySize {
    PtySize {
        rows: 40,
        cols: columns,
        ..PtySize::default()
    }
}

impl Terminal {
    /// Starts the shell in the folder of a test.
    pub fn open(place: &Place, arguments: &[&str]) -> Result<Self, Failed> {
        Self::open_with(place, arguments, &[])
    }

    /// As [`Self::open`], with more variables of the environment.
    pub fn open_with(
        place: &Place,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Self, Failed> {
        const COLUMNS: u16 = 120;
        let pair = native_pty_system().openpty(size(COLUMNS))?;
        let mut command = CommandBuilder::new(PROGRAM.unwrap_or_default());
        command.args(arguments);
        command.cwd(&place.0);
        command.env("HOME", &place.0);
        command.env("TERM", "xterm");
        command.env_remove("RUST_LOG");
        // A test that pages names its pager.
        command.env("TILEDB_SQL_PAGER", "");
        for variable in ["NO_COLOR", "VISUAL", "EDITOR", "TILEDB_SQL_EDITOR"] {
            command.env_remove(variable);
        }
        for (name, value) in variables {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command)?;
        drop(pair.slave);
        let mut output = pair.master.try_clone_reader()?;
        let shown = Arc::new((Mutex::new(Screen::new(COLUMNS)), Condvar::new()));
        let writes = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                writes.0.lock().unwrap().write(&bytes[..count]);
                writes.1.notify_all();
            }
        });
        Ok(Self {
            child,
            keyboard: pair.master.take_writer()?,
            master: pair.master,
            shown,
            seen: 0,
        })
    }

    /// Types keys.
    pub fn keys(&mut self, keys: &str) -> Result<(), Failed> {
        self.keyboard.write_all(keys.as_bytes())?;
        self.keyboard.flush()?;
        Ok(())
    }

    /// Types a line, once there is a prompt.
    pub fn line(&mut self, line: &str) -> Result<(), Failed> {
        self.prompt()?;
        self.keys(line)?;
        // What stands before the prompt comes, the line editor does not see.
        let typed = line
            .chars()
            .rev()
            .take(10)
            .collect::<String>()
            .chars()
            .rev()
            .collect::<String>();
        self.wait(line, |text| text.replace('\n', "").ends_with(&typed))?;
        self.keys(ENTER)
    }

    /// Waits for a prompt. The shell shows a hint behind it as long as nothing is typed.
    pub fn prompt(&mut self) -> Result<(), Failed> {
        let is_prompt = |text: &str| {
            let last = text.lines().last().unwrap_or_default();
            last == ">" || last.starts_with(">  \\? for help")
        };
        self.wait("a prompt", is_prompt)
    }

    /// Waits until the screen shows a text somewhere below what was found before.
    pub fn expect(&mut self, words: &str) -> Result<(), Failed> {
        let seen = self.seen;
        let after = |text: &str| text.get(seen..).and_then(|new| new.find(words));
        self.wait(words, |text| after(text).is_some())?;
        let text = self.text();
        self.seen = seen + after(&text).unwrap_or_default() + words.len();
        Ok(())
    }

    /// Waits until the screen is as it should be.
    pub fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) -> Result<(), Failed> {
        let (screen, writes) = &*self.shown;
        let not_so = |screen: &mut Screen| !is_so(&screen.text());
        let guard = screen.lock().unwrap();
        let (screen, waited) = writes.wait_timeout_while(guard, LIMIT, not_so).unwrap();
        if waited.timed_out() {
            Err(format!("waited for {what} in vain:\n{}", screen.text()).into())
        } else {
            Ok(())
        }
    }

    /// All that is and was shown.
    pub fn text(&self) -> String {
        self.shown.0.lock().unwrap().text()
    }

    /// All that was written, with its escape sequences.
    pub fn bytes(&self) -> String {
        let (screen, _) = &*self.shown;
        String::from_utf8_lossy(screen.lock().unwrap().written()).into_owned()
    }

    /// Makes the window wider or narrower.
    pub fn resize(&self, columns: u16) -> Result<(), Failed> {
        self.shown.0.lock().unwrap().resize(columns);
        self.master.resize(size(columns))?;
        Ok(())
    }

    /// Makes the window wider or narrower, until the shell shows it. A signal that comes just before the shell waits for the next key is
    /// noticed with that key, so the window is resized again.
    pub fn resize_until(
        &self,
        columns: u16,
        what: &str,
        is_so: impl Fn(&str) -> bool,
    ) -> Result<(), Failed> {
        const TRIES: u16 = 5;
        for _ in 0..TRIES {
            self.resize(columns)?;
            let (screen, writes) = &*self.shown;
            let not_so = |screen: &mut Screen| !is_so(&screen.text());
            let guard = screen.lock().unwrap();
            let waited = writes.wait_timeout_while(guard, LIMIT / 20, not_so);
            if !waited.unwrap().1.timed_out() {
                return Ok(());
            }
            self.resize(columns + 1)?;
        }
        Err(format!("resized for {what} in vain:\n{}", self.text()).into())
    }

    /// Waits for the end of the shell, and gives its exit status.
    pub fn ended(&mut self) -> Result<u32, Failed> {
        let begin = Instant::now();
        while begin.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait()? {
                return match status.signal() {
                    None => Ok(status.exit_code()),
                    Some(signal) => Err(format!("ended by {signal}:\n{}", self.text()).into()),
                };
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("the shell does not end:\n{}", self.text()).into())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pipe with a name, whose reader waits until something is written or this is dropped.
pub struct Pipe(File);

impl Pipe {
    /// The pipe as a file of a place; `table` makes it a table of one column, `n`.
    pub fn new(place: &Place, name: &str) -> Result<Self, Failed> {
        let path = place.0.join(name);
        let made = Command::new("mkfifo").arg(&path).status()?;
        if !made.success() {
            return Err("there is no pipe".into());
        }
        // Who reads and writes needs nobody at the other end.
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self(file))
    }

    /// The statement that makes a pipe a table.
    pub fn table(name: &str) -> String {
        format!(
            "CREATE UNBOUNDED EXTERNAL TABLE {name} (n BIGINT) STORED AS CSV LOCATION '{name}' OPTIONS ('format.has_header' 'false');"
        )
    }

    pub fn write(&mut self, lines: &str) -> Result<(), Failed> {
        Ok(self.0.write_all(lines.as_bytes())?)
    }
}
