//! What makes a shell pleasant, one test for each feature.

use libtest_mimic::Failed;

use super::{CTRL_C, ENTER, Terminal};
use crate::support::shell_place::Place;
use crate::support::trials::shell_trial;

/// Makes a function a test in a folder with an array.
macro_rules! feature_trial {
    ($function:ident) => {
        trials!([shell_trial(stringify!($function), |place| {
            place.array("weather_stations", "weather")?;
            $function(place)
        })]);
    };
}

const UP: &str = "\x1b[A";

feature_trial!(types_of_columns);
fn types_of_columns(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["./weather"])?;
    shell.line("SELECT station, time, condition FROM weather LIMIT 1;")?;
    shell.expect("| station | time                | condition  |")?;
    shell.expect("| text    | timestamp(ns)       | enum(text) |")?;
    shell.line("\\types off")?;
    shell.expect("Types of columns are off.")?;
    shell.line("SELECT 1 AS a;")?;
    shell.expect("| a |\n+---+\n| 1 |")?;
    shell.line("SET datafusion.format.types_info = true;")?;
    shell.line("SELECT 2 AS a;")?;
    shell.expect("| a     |\n| int64 |\n+-------+\n| 2     |")?;
    // Those that describe something have none.
    shell.line("DESCRIBE weather;")?;
    shell.expect("| column_name | data_type")?;
    shell.expect("is_nullable |\n+-")
}

feature_trial!(head_and_tail);
fn head_and_tail(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &[])?;
    shell.line("SELECT value AS n FROM range(0, 100000);")?;
    shell.expect("| 0     |")?;
    shell.expect("| 19    |\n| …     |\n| 99980 |")?;
    shell.expect("| 99999 |")?;
    shell.expect("100000 row(s) fetched. (First 20 and last 20 shown; \\maxrows changes that.)")?;
    shell.line("\\x")?;
    shell.line("SELECT value AS n FROM range(0, 1000);")?;
    shell.expect("-[ RECORD 20 ]-\nn | 19\n-[ RECORD 981 ]-\nn | 980")?;
    shell.expect("1000 row(s) fetched.")
}

feature_trial!(row_limit);
fn row_limit(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &[])?;
    shell.line("\\maxrows 3")?;
    shell.expect("Tables show at most 3 rows.")?;
    shell.line("SELECT value AS n FROM range(0, 10);")?;
    shell.expect("| 0     |\n| 1     |\n| …     |\n| 9     |")?;
    shell.line("\\maxrows inf")?;
    shell.expect("Tables show all rows.")?;
    shell.line("SELECT value AS n FROM range(0, 50);")?;
    shell.expect("| 25    |")?;
    shell.expect("| 49    |")?;
    shell.line("\\maxrows some")?;
    shell.expect("Error: '\\maxrows some': expected a number of rows, or inf")
}

feature_trial!(columns_cut_to_the_window);
fn columns_cut_to_the_window(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["./weather"])?;
    // A long value is cut.
    shell.line("SELECT repeat('long ', 100) AS l, 'end' AS e;")?;
    shell.expect("long lo")?;
    shell.expect("… | end  |")?;
    // Columns in the middle are left out.
    shell.line("SELECT * FROM weather a, weather b LIMIT 1;")?;
    shell.expect("| station | time")?;
    shell.expect("| … |")?;
    shell.expect("of 12 columns shown; \\x or \\width off shows all.)")?;
    let text = shell.text();
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(120), "{text}");
    shell.line("\\width 30")?;
    shell.expect("Tables are at most 30 characters wide.")?;
    shell.line("SELECT repeat('x', 100) AS l;")?;
    shell.expect(&format!("| {}… |", "x".repeat(25)))?;
    shell.line("\\width auto")?;
    shell.expect("Tables are at most as wide as the terminal.")
}

feature_trial!(interrupt_of_a_join);
/// An aggregate over a join would never return to the runtime without pauses.
fn interrupt_of_a_join(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["./weather"])?;
    shell.line("SELECT count(*) FROM weather a, weather b, weather c, weather d WHERE a.wind + b.wind + c.wind < d.wind;")?;
    shell.wait("a bar", |text| {
        text.lines().last().is_some_and(|line| line.ends_with(" s"))
    })?;
    let pressed = std::time::Instant::now();
    shell.keys(CTRL_C)?;
    shell.expect("Interrupted.")?;
    let waited = pressed.elapsed();
    assert!(waited.as_secs() < 20, "{waited:?}");
    shell.line("SELECT 40 + 2 AS answer;")?;
    shell.expect("| 42     |")
}

feature_trial!(interrupt_between_statements);
/// Ctrl-C ends a script even if it comes just as a statement has ended.
fn interrupt_between_statements(place: &Place) -> Result<(), Failed> {
    let script = format!("{}SELECT 'last' AS s;\n", "SELECT 1 AS a;\n".repeat(20_000));
    std::fs::write(place.0.join("many.sql"), script)?;
    let mut shell = Terminal::open(place, &["-q", "--format", "csv"])?;
    for _ in 0..5 {
        shell.line("\\i many.sql")?;
        shell.expect("a\n1\na\n1\n")?;
        shell.keys(CTRL_C)?;
        shell.expect("Interrupted.")?;
        shell.prompt()?;
    }
    assert!(!shell.text().contains("last"));
    Ok(())
}

feature_trial!(leaving_at_the_second_interrupt);
/// Planning can't be interrupted, and a long expression takes minutes.
fn leaving_at_the_second_interrupt(place: &Place) -> Result<(), Failed> {
    let statement = format!("SELECT 1{};\n", " + 1".repeat(8000));
    std::fs::write(place.0.join("long.sql"), statement)?;
    let mut shell = Terminal::open(place, &[])?;
    shell.line("\\i long.sql")?;
    shell.wait("a bar", |text| {
        text.lines().last().is_some_and(|line| line.ends_with(" s"))
    })?;
    shell.keys(CTRL_C)?;
    shell.expect("Cancelling… Press Ctrl-C again to leave the shell.")?;
    shell.keys(CTRL_C)?;
    assert_eq!(shell.ended()?, 130);
    Ok(())
}

feature_trial!(output_to_a_file);
fn output_to_a_file(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &[])?;
    shell.line("\\pset format csv")?;
    shell.line("\\o out.csv")?;
    shell.line("SELECT 1 AS a, 'x' AS b;")?;
    shell.expect("1 row(s) fetched.")?;
    shell.line("\\echo between")?;
    shell.line("SELECT 2 AS c;")?;
    shell.expect("1 row(s) fetched.")?;
    shell.line("\\o")?;
    shell.line("SELECT 3 AS d;")?;
    shell.expect("d\n3\n")?;
    let written = std::fs::read_to_string(place.0.join("out.csv"))?;
    assert_eq!(written, "a,b\n1,x\nbetween\nc\n2\n");
    // A program reads until the output goes elsewhere.
    shell.line("\\o |tr a-z A-Z > upper.txt")?;
    shell.line("SELECT 'loud' AS word;")?;
    shell.expect("1 row(s) fetched.")?;
    shell.line("\\o")?;
    shell.prompt()?;
    let written = std::fs::read_to_string(place.0.join("upper.txt"))?;
    assert_eq!(written, "WORD\nLOUD\n");
    shell.line("\\o no/such/folder")?;
    shell.expect("Error: cannot write to 'no/such/folder'")
}

feature_trial!(variables);
fn variables(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["./weather", "-v", "most=3"])?;
    shell.line("\\set who Bergen")?;
    shell.line("\\set col temperature")?;
    shell.line("SELECT :\"col\" AS t, ':who' AS c, 1::INT AS i FROM weather WHERE station = :'who' ORDER BY time LIMIT :most;")?;
    shell.expect("| 5.4     | :who | 1     |")?;
    shell.expect("3 row(s) fetched.")?;
    shell.line("\\set")?;
    shell.expect("  col   temperature\n  most  3\n  who   Bergen\n")?;
    shell.line("\\unset who")?;
    shell.line("SELECT :'who';")?;
    shell.expect("Error: SQL syntax")
}

feature_trial!(editor);
/// The editor gets the last statement, and what it makes of it runs.
fn editor(place: &Place) -> Result<(), Failed> {
    let script = "sed -i -e 's/1 AS one/2 AS two/' \"$1\"\n";
    std::fs::write(place.0.join("editor"), script)?;
    let variables = [("EDITOR", "sh ./editor"), ("VISUAL", "")];
    let mut shell = Terminal::open_with(place, &[], &variables[..1])?;
    shell.line("SELECT 1 AS one;")?;
    shell.expect("| one   |")?;
    shell.line("\\e")?;
    shell.expect("SELECT 2 AS two;")?;
    shell.expect("| two   |")?;
    // An unchanged text doesn't run, a file does.
    shell.line("\\e")?;
    std::fs::write(place.0.join("file.sql"), "SELECT 1 AS one, 'file' AS f;\n")?;
    shell.line("\\e file.sql")?;
    shell.expect("| 2     | file |")?;
    shell.prompt()?;
    assert_eq!(
        shell.text().matches("| two   |\n").count(),
        1,
        "{}",
        shell.text()
    );
    // The arrow keys bring it back.
    shell.keys(UP)?;
    shell.wait("the text of the editor", |text| {
        text.ends_with("SELECT 2 AS two, 'file' AS f;")
    })
}

feature_trial!(watch);
fn watch(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &[])?;
    shell.line("\\watch")?;
    shell.expect("Error: no statement has run yet that could be repeated")?;
    shell.line("SELECT 40 + 2 AS answer;")?;
    shell.expect("| 42     |")?;
    shell.line("\\watch 0 3")?;
    for _ in 0..3 {
        shell.expect("| 42     |")?;
    }
    shell.prompt()?;
    shell.line("\\watch 0.01")?;
    for _ in 0..5 {
        shell.expect("| 42     |")?;
    }
    shell.keys(CTRL_C)?;
    shell.prompt()?;
    shell.line("\\watch soon")?;
    shell.expect("expected a number of seconds")
}

feature_trial!(syntax);
fn syntax(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &[])?;
    shell.line("\\h")?;
    shell.expect("  ALTER TABLE            add or drop columns of an array")?;
    shell.expect("  SUMMARIZE ")?;
    shell.line("\\h create external")?;
    shell.expect("CREATE EXTERNAL TABLE: create an array")?;
    shell.expect("PRIMARY KEY (dimension, …)")?;
    shell.line("\\h summarise")?;
    shell.expect("did you mean \\h SUMMARIZE?")
}

feature_trial!(readonly);
fn readonly(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["--readonly", "./weather"])?;
    shell.line("DELETE FROM weather;")?;
    shell.expect("Error: DELETE is refused, because the session is read-only")?;
    shell.line("COPY weather TO 'x.csv';")?;
    shell.expect("Error: COPY is refused")?;
    shell.line("SELECT * FROM tiledb_vacuum('weather');")?;
    shell.expect("is refused, because the session is read-only")?;
    shell.line("CREATE VIEW w AS SELECT count(*) AS n FROM weather;")?;
    shell.line("SELECT n FROM w;")?;
    shell.expect("| 2000  |")?;
    assert!(!place.0.join("x.csv").exists());
    Ok(())
}

feature_trial!(init_file);
fn init_file(place: &Place) -> Result<(), Failed> {
    let script = "-- mine\n\\set who Nuuk\n\\timing off\nCREATE VIEW w AS SELECT 1 AS one;\n";
    std::fs::write(place.0.join(".tiledbsqlrc"), script)?;
    std::fs::write(place.0.join(".datafusionrc"), "SELECT 'not this';")?;
    let mut shell = Terminal::open(place, &[])?;
    shell.line("SELECT one, :'who' AS who FROM w;")?;
    shell.expect("| 1     | Nuuk |")?;
    shell.expect("1 row(s) fetched.")?;
    shell.prompt()?;
    let text = shell.text();
    assert!(
        !text.contains("Elapsed") && !text.contains("not this"),
        "{text}"
    );
    Ok(())
}

feature_trial!(continuation);
/// A new line says what is still open.
fn continuation(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &[])?;
    shell.prompt()?;
    for (typed, says) in [
        ("SELECT 'two", "the text from line 1 ends with '"),
        ("lines' AS t,", "a semicolon ends the statement"),
        ("(1 + ", "the parenthesis from line 3 is open"),
        ("2) AS n /* why", "the comment from line 4 ends with */"),
    ] {
        shell.keys(typed)?;
        shell.keys(ENTER)?;
        shell.wait(says, |text| text.ends_with(&format!("\n  … {says}")))?;
    }
    shell.keys("*/;")?;
    shell.keys(ENTER)?;
    shell.expect("| two   | 3     |\n| lines |       |")
}

feature_trial!(completion_of_everything);
fn completion_of_everything(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["./weather"])?;
    shell.prompt()?;
    for (typed, completed) in [
        ("CREATE EXT\t", "CREATE EXTERNAL TABLE"),
        ("alter table wea\t add\t", "alter table weather add column"),
        ("update wea\t s\t temp\t", "update weather set temperature"),
        (
            "set tiledb.enable_meta\t",
            "set tiledb.enable_metadata_aggregates",
        ),
        (
            "select * from we\t for\t",
            "select * from weather for system_time as of",
        ),
        (
            "copy weather to 'x' options ('tiledb.cap\t",
            "options ('tiledb.capacity'",
        ),
        ("summ\t we\t", "summarize weather"),
        ("\\h trun\t", "\\h TRUNCATE"),
    ] {
        shell.keys(typed)?;
        shell.wait(completed, |text| text.ends_with(completed))?;
        shell.keys(CTRL_C)?;
        shell.prompt()?;
    }
    // No internal function is offered.
    shell.keys("select tiledb_\t\t")?;
    shell.keys("x")?;
    shell.wait("what was typed", |text| text.ends_with("select tiledb_x"))?;
    assert!(!shell.text().contains("tiledb_element"), "{}", shell.text());
    Ok(())
}

feature_trial!(all_columns);
fn all_columns(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["./weather"])?;
    shell.line("SELECT condition, station, count(*) AS n FROM weather GROUP BY ALL ORDER BY ALL DESC LIMIT 1;")?;
    shell.expect("| storm      | Zurich  | ")?;
    shell.line("SELECT * FROM (VALUES (2, 'b'), (1, 'z'), (1, 'a')) AS t(n, c) ORDER BY ALL;")?;
    shell.expect("| 1     | a    |\n| 1     | z    |\n| 2     | b    |")
}

feature_trial!(files_by_their_endings);
fn files_by_their_endings(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &[])?;
    for (file, text) in [
        ("a.tsv", "n\tword\n1\ta,b\n"),
        ("a.ndjson", "{\"n\":1,\"word\":\"a,b\"}\n"),
        ("a.jsonl", "{\"n\":1,\"word\":\"a,b\"}\n"),
    ] {
        shell.line(&format!("COPY (SELECT 1 AS n, 'a,b' AS word) TO '{file}';"))?;
        shell.line(&format!("SELECT n + 41 AS m, word FROM './{file}';"))?;
        shell.expect("| 42    | a,b  |")?;
        assert_eq!(std::fs::read_to_string(place.0.join(file))?, text);
    }
    Ok(())
}

feature_trial!(highlighting);
fn highlighting(place: &Place) -> Result<(), Failed> {
    let red = "\x1b[91mSELECT\x1b[0m";
    for (arguments, variables, is_red) in [
        (&[][..], &[][..], true),
        (&["--color=never"], &[], false),
        (&[], &[("NO_COLOR", "1")], false),
        (&["--color"], &[("NO_COLOR", "1")], true),
    ] {
        let mut shell = Terminal::open_with(place, arguments, variables)?;
        shell.prompt()?;
        shell.keys("SELECT 'x'")?;
        shell.wait("what was typed", |text| text.ends_with("> SELECT 'x'"))?;
        assert_eq!(
            shell.bytes().contains(red),
            is_red,
            "{arguments:?} {variables:?}"
        );
    }
    Ok(())
}

feature_trial!(caret);
/// The place of a syntax error has a caret, and the next prompt is empty.
fn caret(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["./weather"])?;
    shell.line("SELECT station FROM weather WERE wind > 5;")?;
    shell.expect("Error: SQL syntax: ")?;
    shell.expect(
        "  SELECT station FROM weather WERE wind > 5;\n                                   ^",
    )?;
    shell.prompt()?;
    shell.line("SELECT 40 + 2 AS answer;")?;
    shell.expect("| 42     |")?;
    // The broken line is in the history.
    shell.prompt()?;
    shell.keys(&UP.repeat(2))?;
    shell.wait("the broken line", |text| text.ends_with("WERE wind > 5;"))
}

feature_trial!(suggestions);
fn suggestions(place: &Place) -> Result<(), Failed> {
    let group = crate::support::fixtures::root().join("groups/experiment");
    let group = group.display().to_string();
    let mut shell = Terminal::open(place, &["./weather", &group])?;
    shell.prompt()?;
    shell.resize(250)?;
    for (typed, suggested) in [
        ("SELECT * FROM wether;", "Did you mean 'weather'?"),
        (
            "SELECT temprature FROM weather;",
            "Did you mean 'weather.temperature'?",
        ),
        ("SELECT coutn(*) FROM weather;", "Did you mean 'count'?"),
        (
            "SELECT * FROM tiledb_fragmnts('weather');",
            "Did you mean 'tiledb_fragments'?",
        ),
        (
            "SET datafusion.execution.batchsize = 5;",
            "Did you mean 'datafusion.execution.batch_size'?",
        ),
        (
            "SET tiledb.enable_first_cell = false;",
            "did you mean 'tiledb.enable_first_cells'?",
        ),
        (
            "SELECT * FROM tiledb_vacuum('weather', min_ages => '1');",
            "unknown option \"min_ages\" of tiledb_vacuum; did you mean min_age?",
        ),
        (
            "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION './weather' OPTIONS ('tiledb.timestmp' '1');",
            "did you mean tiledb.timestamp?",
        ),
        ("SELECT * FROM obs;", "Did you mean 'experiment.obs'?"),
        (
            "SELECT * FROM experiment.ms.RNA.var;",
            "experiment.\"ms/RNA\".var",
        ),
        ("\\timming", "did you mean \\timing?"),
    ] {
        shell.line(typed)?;
        shell.expect("Error: ")?;
        shell.expect(suggested)?;
    }
    Ok(())
}

feature_trial!(summarize);
fn summarize(place: &Place) -> Result<(), Failed> {
    let mut shell = Terminal::open(place, &["./weather"])?;
    shell.line("\\x")?;
    shell.line("SUMMARIZE weather;")?;
    shell.expect("column_name     | temperature")?;
    shell.expect("min             | -15.8")?;
    shell.expect("max             | 40.1")?;
    shell.expect("count           | 2000")?;
    shell.expect("column_name     | wind")?;
    shell.expect("null_percentage | 3.45")?;
    shell.line("SUMMARIZE SELECT station FROM './weather' WHERE wind IS NULL;")?;
    shell.expect("min             | Bergen")?;
    shell.expect("count           | 69")
}

feature_trial!(descriptions);
fn descriptions(place: &Place) -> Result<(), Failed> {
    let group = crate::support::fixtures::root().join("groups/experiment");
    let group = group.display().to_string();
    let mut shell = Terminal::open(place, &["./weather", &group])?;
    shell.line("\\d")?;
    shell.expect("| experiment.\"ms/RNA/X/data\"  | array |")?;
    shell.expect("| weather                     | array | ./weather |")?;
    shell.expect("5 row(s) fetched.")?;
    shell.line("\\d experiment")?;
    shell.expect("| ms/RNA/X/data  |")?;
    shell.line("\\d weather")?;
    shell.expect("Sparse array of format 22, cells row-major: weather")?;
    shell.expect("2060 cells in 2 fragments, ")?;
    shell.expect("| dimension | type ")?;
    shell.expect("| time      | DATETIME_NS ")?;
    shell.expect("| attribute ")?;
    shell.expect("| condition ")?;
    assert!(
        !shell.text().contains("information_schema"),
        "{}",
        shell.text()
    );
    Ok(())
}
