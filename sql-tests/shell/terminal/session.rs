//! Sessions in a terminal.

use std::time::Duration;

use libtest_mimic::Failed;

use super::{CTRL_C, CTRL_D, ENTER, Pipe, Terminal};
use crate::support::shell_place::Place;
use crate::support::trials::shell_trial;

/// Makes a function a test in a folder with an array.
macro_rules! terminal_trial {
    ($function:ident) => {
        trials!([shell_trial(stringify!($function), |place| {
            place.array("weather_stations", "weather")?;
            $function(place)
        })]);
    };
}

/// Whether a bar is shown, or, where no array is read, the time behind a turning dot.
fn shows_bar(text: &str) -> bool {
    let last = text.lines().last().unwrap_or_default();
    let turns = last.trim_start().starts_with(|c| ('⠁'..='⣿').contains(&c));
    (turns || last.contains(" %  ")) && last.ends_with(" s")
}

terminal_trial!(words);
fn words(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["./weather"])?;
    shell.expect("Table weather is the array ./weather, 6 columns.")?;
    shell.line("HELP;")?;
    shell.expect("SELECT * FROM './weather' LIMIT 10;")?;
    shell.expect("\\timing [on|off]")?;
    shell.line("\\?")?;
    shell.expect("  \\x [on|off] ")?;
    shell.line("\\d ./weather")?;
    shell.expect("Sparse array of format 22, cells row-major: ./weather")?;
    shell.expect("| station   | STRING_ASCII |")?;
    shell.line("\\d weather")?;
    shell.expect("Sparse array of format 22, cells row-major: weather")?;
    shell.expect("| temperature | FLOAT64 ")?;
    shell.line("\\d ./nothing")?;
    shell.expect("Error: './nothing' isn't a TileDB array or group")?;
    shell.line("Quit")?;
    assert_eq!(shell.ended()?, 0);
    Ok(())
}

terminal_trial!(leaving);
fn leaving(place: &Place) -> Result<(), Failed> {
    for keys in ["\\q\r", "exit;\r", CTRL_D] {
        let mut shell = Terminal::open(place, &["-q"])?;
        shell.prompt()?;
        // Ctrl-C takes back what is typed, and nothing else.
        shell.keys("SELECT nothing")?;
        shell.expect("> SELECT nothing")?;
        shell.keys(CTRL_C)?;
        shell.expect("^C")?;
        shell.prompt()?;
        shell.keys(keys)?;
        assert_eq!(shell.ended()?, 0, "{keys:?}");
    }
    Ok(())
}

terminal_trial!(completion);
fn completion(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["./weather"])?;
    shell.prompt()?;
    shell.keys("sel\t cou\t*) as rows from wea\t where temp\t < 100 and cond\t is not null;\r")?;
    shell.expect(
        "> select count(*) as rows from weather where temperature < 100 and condition is not null;",
    )?;
    shell.expect("| rows")?;
    shell.prompt()?;
    // The path of an array is closed, and there are two columns with a t.
    shell.keys("select count(t\t\t")?;
    shell.expect("temperature")?;
    shell.keys("ime) as times from 'wea\t;\r")?;
    shell.expect("> select count(time) as times from './weather';")?;
    shell.expect("| 2000  |")?;
    shell.prompt()?;
    // The columns of an array that only the statement names.
    shell.keys("select './weather' as f from './weather' w where w.win\t > 100;\r")?;
    shell.expect("> select './weather' as f from './weather' w where w.wind > 100;")?;
    shell.prompt()?;
    shell.keys("\\tim\t of\t\r")?;
    shell.expect("Timing is off.")?;
    Ok(())
}

terminal_trial!(toggles);
fn toggles(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &[])?;
    let select = "SELECT 1 AS one, 'two' AS second;";
    shell.line(select)?;
    shell.expect("| one   | second |")?;
    shell.expect("1 row(s) fetched.")?;
    shell.expect("Elapsed")?;
    shell.line("\\x")?;
    shell.expect("Expanded display is on.")?;
    shell.line(select)?;
    shell.expect("-[ RECORD 1 ]-\none    | 1\nsecond | two\n")?;
    shell.line("\\x")?;
    shell.expect("Expanded display is off.")?;
    shell.line("\\pset format markdown")?;
    shell.expect("Output format is Markdown.")?;
    shell.line(select)?;
    shell.expect(
        "|  one | second |\n| --: | ------ |\n"
            .replace("  one", " one")
            .as_str(),
    )?;
    shell.line("\\timing")?;
    shell.expect("Timing is off.")?;
    shell.line("SELECT 'without time' AS t;")?;
    shell.expect("without time")?;
    shell.expect("without time")?;
    shell.expect("1 row(s) fetched.")?;
    shell.line("\\timing")?;
    let text = shell.text();
    let after = text.rsplit("without time").next().unwrap_or_default();
    assert!(!after.contains("Elapsed"), "{text}");
    shell.expect("Timing is on.")?;
    shell.line("SELECT 'with time' AS t;")?;
    shell.expect("Elapsed")?;
    Ok(())
}

terminal_trial!(resizing);
fn resizing(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["-q"])?;
    shell.prompt()?;
    let first = "SELECT 'a text that is longer than the window will be' AS text,";
    shell.keys(first)?;
    shell.expect(first)?;
    // The shell draws keys for the old window until it notices the new size.
    shell.resize_until(40, "the line in a narrow window", |text| {
        text.ends_with("\n window will be' AS text,")
    })?;
    shell.keys(" 40 + 2 AS answer")?;
    shell.wait("more of the line", |text| {
        text.replace('\n', "").ends_with(" 40 + 2 AS answer")
    })?;
    shell.resize_until(100, "the line in a wide window", |text| {
        text.trim_end()
            .ends_with("window will be' AS text, 40 + 2 AS answer")
    })?;
    shell.keys(", 'end' AS last;")?;
    shell.wait("the rest of the line", |text| {
        text.replace('\n', "").trim_end().ends_with("last;")
    })?;
    shell.keys(ENTER)?;
    shell.expect("| a text that is longer than the window will be | 42     | end  |")?;
    shell.prompt()
}

terminal_trial!(interrupting);
fn interrupting(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["./weather"])?;
    // Some hours of work.
    shell.line("SELECT sum(a.temperature * b.wind * c.wind * d.wind) FROM weather a, weather b, weather c, weather d; SELECT 'next';")?;
    shell.wait("a bar of an array that was read", |text| {
        shows_bar(text) && text.contains("████ 100 %  ")
    })?;
    shell.keys(CTRL_C)?;
    shell.expect("Interrupted.")?;
    shell.prompt()?;
    let text = shell.text();
    // Neither the bar nor what Ctrl-C looks like is left, and the rest of the line did not run.
    assert!(!text.contains(" % ") && !text.contains("^C"), "{text}");
    assert!(!text.contains("| next"), "{text}");
    shell.line("SELECT 40 + 2 AS answer;")?;
    shell.expect("| 42     |")?;
    shell.line("quit")?;
    assert_eq!(shell.ended()?, 0);
    Ok(())
}

terminal_trial!(interrupting_rows);
fn interrupting_rows(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["-q", "--format", "csv", "--maxrows", "inf"])?;
    shell.line("SELECT a.temperature, b.temperature FROM './weather' a, './weather' b;")?;
    shell.expect("temperature,temperature")?;
    shell.keys(CTRL_C)?;
    shell.expect("Interrupted.")?;
    shell.line("SELECT 40 + 2 AS answer;")?;
    shell.expect("answer\n42\n")
}

terminal_trial!(interrupting_a_file);
fn interrupting_a_file(place: &Place) -> Result<(), Failed> {
    let _pipe = Pipe::new(place, "numbers")?;
    let script = format!(
        "{}\nSELECT * FROM numbers;\nSELECT 'next';\n",
        Pipe::table("numbers")
    );
    std::fs::write(place.0.join("script.sql"), script)?;
    let mut shell = Terminal::open(place, &[])?;
    shell.line("\\i script.sql")?;
    shell.wait("a bar", shows_bar)?;
    shell.keys(CTRL_C)?;
    shell.expect("Interrupted.")?;
    shell.line("SELECT 40 + 2 AS answer;")?;
    shell.expect("| 42     |")?;
    let text = shell.text();
    assert!(!text.contains("next"), "{text}");
    Ok(())
}

/// Shows three lines, and the others if they are asked for.
const PAGER: &str = r#"
for n in 1 2 3; do read -r line && echo "page: $line"; done
printf 'more?'
read -r answer < /dev/tty
test "$answer" != yes || cat
"#;

/// A table that is longer than the window.
const LONG: &str = "SELECT station FROM weather LIMIT 39;";

fn with_pager(place: &Place) -> Result<Terminal, Failed> {
    std::fs::write(place.0.join("pager"), PAGER)?;
    let mut shell = Terminal::open(place, &["./weather"])?;
    shell.line("\\pager sh ./pager")?;
    shell.expect("Results that don't fit the window go through 'sh ./pager'.")?;
    Ok(shell)
}

terminal_trial!(paging);
/// What is too long or too wide goes through the pager, as long as it is on.
fn paging(place: &Place) -> Result<(), Failed> {
    let mut shell = with_pager(place)?;
    shell.line("SELECT 'short' AS a;")?;
    shell.expect("\n| short |")?;
    shell.line(LONG)?;
    shell.expect("page: +-")?;
    shell.expect("page: | station")?;
    shell.expect("more?")?;
    shell.keys("yes\r")?;
    shell.expect("| Bergen ")?;
    shell.expect("39 row(s) fetched.")?;
    shell.line("\\width off")?;
    shell.line("SELECT * FROM weather a, weather b LIMIT 1;")?;
    shell.expect("page: | station")?;
    shell.expect("more?")?;
    shell.keys("yes\r")?;
    shell.expect("1 row(s) fetched.")?;
    shell.line("\\pager")?;
    shell.expect("Results are printed without a pager.")?;
    shell.line(LONG)?;
    shell.expect("39 row(s) fetched.")?;
    shell.line("\\pager on")?;
    shell.expect("go through 'sh ./pager'.")?;
    shell.prompt()?;
    let pages = shell.text().matches("page: | station").count();
    assert_eq!(pages, 2, "{}", shell.text());
    Ok(())
}

terminal_trial!(leaving_a_pager);
/// Whoever leaves a pager before the end, or has none that runs, goes on in the session.
fn leaving_a_pager(place: &Place) -> Result<(), Failed> {
    let mut shell = with_pager(place)?;
    for keys in ["no\r", CTRL_C] {
        shell.line(LONG)?;
        shell.expect("more?")?;
        shell.keys(keys)?;
        shell.expect("39 row(s) fetched.")?;
    }
    shell.line("\\pager no-such-pager")?;
    shell.line(LONG)?;
    shell.expect(
        "Error: the pager 'no-such-pager' does not run; '\\pager off' prints without one",
    )?;
    shell.line("\\pager off")?;
    shell.line(LONG)?;
    shell.expect("\n| Bergen ")?;
    shell.line("SELECT 40 + 2 AS answer;")?;
    shell.expect("| 42     |")
}

terminal_trial!(bar);
/// A bar is shown while a statement runs, and leaves no trace.
fn bar(place: &Place) -> Result<(), Failed> {
    let mut pipe = Pipe::new(place, "numbers")?;
    let mut shell = Terminal::open(place, &["./weather"])?;
    shell.line(&Pipe::table("numbers"))?;
    shell.line("SELECT n + 1 AS m FROM numbers LIMIT 1;")?;
    shell.wait("a bar", shows_bar)?;
    pipe.write("7\n")?;
    drop(pipe);
    shell.expect("m\n8\n")?;
    shell.expect("1 row(s) fetched.")?;
    shell.prompt()?;
    let text = shell.text();
    assert!(!text.contains(|c| ('⠁'..='⣿').contains(&c)), "{text}");
    Ok(())
}

terminal_trial!(bar_of_a_write);
/// Rows that are read to be written are counted; nothing of the count is left, nor of the rows if they are interrupted.
fn bar_of_a_write(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["./weather"])?;
    shell.line("CREATE EXTERNAL TABLE t (n BIGINT NOT NULL, PRIMARY KEY (n)) STORED AS TILEDB LOCATION 't';")?;
    // Some hours of work.
    shell.line("INSERT INTO t SELECT -value FROM range(0, 1000000000000);")?;
    shell.wait("the rows that were read", |text| {
        shows_bar(text) && text.contains(" rows read, ")
    })?;
    shell.keys(CTRL_C)?;
    shell.expect("Interrupted.")?;
    shell.line("SELECT count(*) + 40 AS rows FROM t;")?;
    shell.expect("| 40    |")?;
    let text = shell.text();
    assert!(!text.contains("rows read"), "{text}");
    Ok(())
}

terminal_trial!(command);
/// Without a session, too, there is a bar unless only results are wanted, and Ctrl-C leaves nothing of it.
fn command(place: &Place) -> Result<(), Failed> {
    let _pipe = Pipe::new(place, "numbers")?;
    let table = Pipe::table("numbers");
    let arguments = ["-c", &table, "-c", "SELECT * FROM numbers"];
    let mut shell = Terminal::open(place, &arguments)?;
    shell.wait("a bar", shows_bar)?;
    shell.keys(CTRL_C)?;
    shell.expect("Interrupted.")?;
    assert_eq!(shell.ended()?, 130);
    let text = shell.text();
    assert!(text.ends_with("\nInterrupted.\n"), "{text}");

    // Results are shown where only they are wanted, and no bar.
    let begun = ["-q", "--format", "csv", "-c", "SELECT 'begun' AS a"];
    let mut shell = Terminal::open(place, &[&begun, &arguments[..]].concat())?;
    shell.expect("a\nbegun\n")?;
    // Longer than a bar waits. If the machine is so slow that none would be shown by then, nothing is wrong.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(shell.text(), "a\nbegun\n");
    shell.keys(CTRL_C)?;
    assert_eq!(shell.ended()?, 130);
    Ok(())
}

terminal_trial!(secrets);
/// Secrets are on the screen where they were typed, and nowhere else: not in answers and errors, not in what the arrow keys
/// bring back, and not in the history of the next session.
fn secrets(place: &Place) -> Result<(), Failed> {
    const SECRET: &str = "kX9/marked+secret=of32bytes-Qz7w";
    const HARMLESS: &str = "SELECT 40 + 2 AS harmless;";
    let statements = [
        "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION './weather' OPTIONS ('tiledb.encryption_key' '$');",
        "CREATE EXTERNAL TABLE u STORED AS TILEDB LOCATION './weather' OPTIONS ('tiledb.encription_key' '$');",
        "CREATE EXTERNAL TABLE v STORED AS TILEDB LOCATION './weather' OPTIONS (tiledb.encryption_key '$');",
        "CREATE VIEW w AS SELECT * FROM tiledb_scan('./weather', 'tiledb.encryption_key', '$');",
        "SELECT * FROM './weather?encryption_key=$';",
        "SELECT * FROM 'https://localhost:1/array?sig=$';",
        "SET tiledb.encryption_key = '$';",
        "ATTACH 'az://user:$@account/group' AS g;",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION './x.csv' OPTIONS ('aws.secret_access_key' '$');",
        "CREATE EXTERNAL TABLE y STORED AS CSV LOCATION './y.csv' OPTIONS ('aws.secret_acess_key' '$');",
        "COPY (SELECT 1 AS x) TO './z' STORED AS TILEDB OPTIONS ('tiledb.encryption_key' '$', 'tiledb.no_option' 'x');",
    ];
    let shown = |shell: &Terminal| {
        let text = shell.text().replace('\n', "");
        text.matches(&SECRET[..12]).count()
    };
    let mut shell = Terminal::open(place, &["-q"])?;
    shell.line(HARMLESS)?;
    shell.expect("| 42       |")?;
    for (typed, statement) in statements.into_iter().enumerate() {
        shell.line(&statement.replace('$', SECRET))?;
        shell.prompt()?;
        assert_eq!(shown(&shell), typed + 1, "{}", shell.text());
    }
    for statement in [
        "SHOW ALL;",
        "SELECT view_name, definition FROM information_schema.views;",
    ] {
        shell.line(statement)?;
        shell.prompt()?;
        assert_eq!(shown(&shell), statements.len(), "{}", shell.text());
    }
    const UP: &str = "\x1b[A";
    shell.keys(&UP.repeat(3))?;
    shell.wait("the first statement", |text| text.ends_with(HARMLESS))?;
    shell.keys(CTRL_C)?;
    shell.line("\\q")?;
    assert_eq!(shell.ended()?, 0);
    let history = std::fs::read_to_string(place.0.join(".tiledbsql_history"))?;
    assert!(history.contains(HARMLESS), "{history}");
    assert!(!history.contains(&SECRET[..12]), "{history}");
    Ok(())
}
