//! What a terminal shows of the bytes that a program writes to it: as much of a VT100 as line editors and progress bars use.

use libtest_mimic::Failed;

/// All lines since the beginning; the last ones are the window.
#[derive(Debug)]
pub struct Screen {
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
    columns: usize,
    /// The beginning of a sequence or character whose rest is yet to come.
    partial: Vec<u8>,
    written: Vec<u8>,
}

impl Screen {
    pub fn new(columns: u16) -> Self {
        Self {
            lines: vec![Vec::new()],
            row: 0,
            column: 0,
            columns: columns.into(),
            partial: Vec::new(),
            written: Vec::new(),
        }
    }

    /// All bytes so far.
    pub fn written(&self) -> &[u8] {
        &self.written
    }

    pub fn resize(&mut self, columns: u16) {
        self.columns = columns.into();
    }

    /// The lines as text, without blanks at their ends.
    pub fn text(&self) -> String {
        let lines = self.lines.iter().map(|line| {
            let line = line.iter().collect::<String>();
            line.trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Takes bytes as they come, in pieces of any size.
    pub fn write(&mut self, bytes: &[u8]) {
        self.written.extend_from_slice(bytes);
        self.partial.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.partial);
        let whole = match std::str::from_utf8(&bytes) {
            Ok(_) => bytes.len(),
            Err(e) => e.valid_up_to(),
        };
        let mut rest = std::str::from_utf8(&bytes[..whole]).unwrap_or_default();
        while let Some(c) = rest.chars().next() {
            let taken = match c {
                '\x1b' => match self.escape(rest) {
                    Some(taken) => taken,
                    None => break,
                },
                c => {
                    self.character(c);
                    c.len_utf8()
                }
            };
            rest = &rest[taken..];
        }
        self.partial = [rest.as_bytes(), &bytes[whole..]].concat();
    }

    fn character(&mut self, c: char) {
        match c {
            '\r' => self.column = 0,
            '\n' => self.down(1),
            '\x08' => self.column = self.column.saturating_sub(1),
            c if c.is_control() => {}
            c => {
                if self.column >= self.columns {
                    self.column = 0;
                    self.down(1);
                }
                let line = &mut self.lines[self.row];
                line.resize(line.len().max(self.column + 1), ' ');
                line[self.column] = c;
                self.column += 1;
            }
        }
    }

    fn down(&mut self, rows: usize) {
        self.row += rows;
        self.lines
            .resize(self.lines.len().max(self.row + 1), Vec::new());
    }

    /// Obeys the sequence that a text begins with, and says how long it is; `None` if its end is yet to come.
    fn escape(&mut self, text: &str) -> Option<usize> {
        if !text.starts_with("\x1b[") {
            return (text.len() > 1).then_some(2);
        }
        let end = text[2..].find(|c: char| c.is_ascii_alphabetic() || c == '~')? + 2;
        let number = text[2..end].parse::<usize>().ok();
        let some = number.unwrap_or(1);
        match &text[end..=end] {
            "A" => self.row = self.row.saturating_sub(some),
            "B" => self.down(some),
            "C" => self.column += some,
            "D" => self.column = self.column.saturating_sub(some),
            "G" => self.column = some.saturating_sub(1),
            "K" => {
                let line = &mut self.lines[self.row];
                match number {
                    Some(2) => line.clear(),
                    _ => line.truncate(self.column),
                }
            }
            "J" => {
                self.lines[self.row].truncate(self.column);
                self.lines.truncate(self.row + 1);
            }
            _ => {}
        }
        Some(end + 1)
    }
}

trial!(shows_what_is_left);
/// What is written over and erased is gone.
fn shows_what_is_left() -> Result<(), Failed> {
    let mut screen = Screen::new(6);
    for piece in [
        &b"one\r\ntw"[..],
        b"o\r\x1b",
        b"[2Kt\xc3",
        b"\xa4\r\nabcdefgh",
        b"\x1b[1A\x1b[1Gx\x1b[1B\r\x1b[J",
        b"yz\x08!\x1b[?25h",
    ] {
        screen.write(piece);
    }
    let text = screen.text();
    if text == "one\nt\u{e4}\nxbcdef\ny!" {
        Ok(())
    } else {
        Err(format!("the screen shows {text:?}").into())
    }
}
