//! No file of `src/` has more than 500 lines, and no function in one more than 80: who opens a file finds one idea in it.

/// A file may have so many lines.
const FILE_LINES: usize = 500;
/// A function may have so many lines, from its `fn` to its closing brace.
const FUNCTION_LINES: usize = 80;

/// Says what is too long in a file.
pub fn too_long(file: &str, text: &str) -> Vec<String> {
    let lines = text.lines().collect::<Vec<_>>();
    let mut found = Vec::new();
    if lines.len() > FILE_LINES {
        let count = lines.len();
        found.push(format!(
            "{file} has {count} lines, more than {FILE_LINES}: split it along its ideas"
        ));
    }
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function(line) else {
            continue;
        };
        let count = function_lines(&lines[start..]);
        if count > FUNCTION_LINES {
            let number = start + 1;
            found.push(format!(
                "{file}:{number}: {name} has {count} lines, more than {FUNCTION_LINES}"
            ));
        }
    }
    found
}

/// Finds the name of the function that begins on a line.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let (before, after) = match line.strip_prefix("fn ") {
        Some(after) => ("", after),
        None => line.split_once(" fn ")?,
    };
    let mut words = before.split_whitespace();
    // The last is the end of `pub(in …)`.
    let qualifies = |word: &str| {
        matches!(word, "pub" | "const" | "async" | "unsafe")
            || word.starts_with("pub(")
            || word.ends_with(')')
    };
    let name = after.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.all(qualifies).then(|| name.into_iter().next())?
}

/// Counts the lines of the function that begins on the first of these. As rustfmt writes them, functions end with a brace,
/// and declarations with a semicolon, on a line that is indented like the first.
fn function_lines(lines: &[&str]) -> usize {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let own = lines.first().map_or(0, |line| indentation(line));
    let ends = |(number, line): (usize, &&str)| {
        let closes = line.trim() == "}" || line.ends_with(';');
        let on_one_line = number == 0 && line.ends_with('}');
        (indentation(line) == own && closes) || on_one_line
    };
    let last = lines.iter().enumerate().position(ends);
    last.map_or(lines.len(), |last| last + 1)
}

/// Measures made-up files of the greatest lengths allowed, and of one line more.
pub fn finds_sizes() -> Result<(), String> {
    let text = |lines: usize| {
        let body = "        f();\n\n".repeat(lines / 2 - 1) + &"\n".repeat(lines % 2);
        format!(
            "trait T {{\n    fn a(\n        x: u8,\n    ) -> u8;\n    fn b() {{}}\n}}\n\
             impl S {{\n    pub(in crate::a) async fn one() {{\n{body}    }}\n    fn c() {{}}\n}}\n"
        )
    };
    let all = [
        too_long("a.rs", &text(80)),
        too_long("b.rs", &text(81)),
        too_long("c.rs", &"\n".repeat(500)),
        too_long("d.rs", &"\n".repeat(501)),
    ];
    let all = all.concat();
    let expected = [
        "b.rs:8: one has 81 lines, more than 80",
        "d.rs has 501 lines, more than 500: split it along its ideas",
    ];
    match all == expected {
        true => Ok(()),
        false => Err(format!("found {all:?}")),
    }
}
