//! What `tiledb-sql` does besides SQL: places of the command line, commands, and formats of its own.

use std::fs;

use libtest_mimic::Failed;

use crate::support::shell_place::{Place, path};

const CSV: [&str; 3] = ["-q", "--format", "csv"];

fn group() -> String {
    let group = crate::support::fixtures::root().join("groups/experiment");
    group.display().to_string()
}

trial!(at_hand);
/// The paths of the command line are tables, whatever their folders are called.
fn at_hand(place: &Place) -> Result<(), Failed> {
    place.array("quickstart_sparse", "My Array.tdb")?;
    let with = |places: &[&str], sql: &str| place.run(&[places, &CSV, &["-c", sql]].concat());
    let count = "SELECT count(*) AS n FROM my_array";
    with(&["My Array.tdb"], count)?.gave("n\n3\n")?;
    with(&["./My Array.tdb/"], "SELECT count(*) AS n FROM My_Array")?.gave("n\n3\n")?;
    let at_a_time = format!("{}?timestamp=1", place.0.join("My Array.tdb").display());
    with(&[&at_a_time], count)?.gave("n\n0\n")?;
    let both = ["My Array.tdb", "./My Array.tdb"];
    with(&both, "SELECT count(*) AS n FROM my_array a, my_array_2 b")?.gave("n\n9\n")?;
    let told = place.run(&["My Array.tdb", "-c", count])?;
    told.has(&["Table my_array is the array ./My Array.tdb, 3 columns."])?;

    let group = group();
    with(&[&group], "SELECT count(*) AS n FROM experiment.obs")?.gave("n\n4\n")?;
    with(
        &[&group, &group],
        "SELECT count(*) AS n FROM experiment_2.obs",
    )?
    .gave("n\n4\n")?;
    let told = place.run(&[
        &group,
        "-c",
        count.replace("my_array", "experiment.obs").as_str(),
    ])?;
    told.has(&["Schema experiment is the group ", "4 arrays"])?;

    let copy = "COPY (SELECT a FROM my_array) TO 'cells.parquet'";
    with(&["My Array.tdb"], copy)?;
    with(&["cells.parquet"], "SELECT sum(a) AS s FROM cells")?.gave("s\n6\n")?;

    fs::write(place.0.join("notes.txt"), "no table")?;
    fs::create_dir(place.0.join("empty"))?;
    for nothing in ["nowhere", "./nowhere", "notes.txt", "empty"] {
        let ran = with(&[nothing], "SELECT 1")?;
        ran.failed("", &[nothing, "isn't a TileDB array or group"])?;
    }
    let ran = with(&[&path("encrypted_sparse")], "SELECT 1")?;
    ran.failed("", &["encrypted"])
}

trial!(describe);
fn describe(place: &Place) -> Result<(), Failed> {
    place.array("quickstart_sparse", "it's an array")?;
    let array = place.0.join("it's an array").display().to_string();
    let fields = "column,role,type,arrow_type,nullable,domain_low,domain_high,extent,enumeration,filters\n\
                  rows,dimension,INT32,Int32,false,1,4,4,,zstd\n\
                  cols,dimension,INT32,Int32,false,1,4,4,,zstd\n\
                  a,attribute,INT32,Int32,false,,,,,\n";
    let quoted = format!("\\d '{}';", array.replace('\'', "''"));
    for command in [
        &format!("\\d {array}"),
        &quoted,
        "\\d ./it's an array",
        "\\d it's an array",
    ] {
        let ran = place.run(&[&CSV[..], &["-c", command]].concat())?;
        ran.gave(fields)
            .map_err(|e| format!("{command}: {}", e.message().unwrap_or_default()))?;
    }
    let titled = place.run(&["-c", &format!("\\d {array}")])?;
    titled.has(&[
        "Sparse array of format ",
        "3 cells in 1 fragment, ",
        "| dimension |",
        "| rows      |",
        "| attribute |",
    ])?;

    let members = format!("\\d {}", group());
    let ran = place.run(&["-q", "-c", &members])?;
    ran.has(&["| ms/RNA/X/data ", "| array "])?;

    let copy = format!(
        "COPY (SELECT a FROM '{}') TO 'cells.parquet'",
        path("quickstart_sparse")
    );
    let described = ["-c", &copy, "-c", "\\d cells.parquet"];
    let ran = place.run(&[&CSV[..], &described].concat())?;
    ran.gave("count\n3\ncolumn_name,data_type,is_nullable\na,Int32,NO\n")?;

    // A name that is a table's stays one.
    let create = "CREATE VIEW cells AS SELECT 1 AS one";
    let columns = ["-c", create, "-c", "\\d cells"];
    place
        .run(&[&["-q"], &columns[..]].concat())?
        .has(&["| one "])?;
    // The tables of the session, without those that describe it.
    let listed = place.run(&[&group(), "-c", create, "-c", "\\d", "-c", "\\d experiment"])?;
    listed.has(&[
        "| cells ",
        "| view ",
        "| experiment.\"ms/RNA/X/data\"  | array |",
        "| ms/RNA/X/data  |",
    ])?;
    if listed.out.contains("information_schema") {
        return Err(listed.text().into());
    }
    place
        .run(&["-q", "-c", "\\d nothing"])?
        .failed("", &["nothing"])?;
    let ran = place.run(&["-q", "-c", "\\d ./nothing"])?;
    ran.failed("", &["'./nothing' isn't a TileDB array or group"])
}

trial!(words);
/// Words that are commands, whatever their case; what follows them is not run.
fn words(place: &Place) -> Result<(), Failed> {
    for word in ["quit", "Exit;", "  QUIT ;  "] {
        let script = format!("SELECT 1 AS a;\n{word}\nSELECT nothing;\n");
        place.run_with_input(&CSV, &script)?.gave("a\n1\n")?;
    }
    let help = place.run(&["-q", "-c", "HELP;"])?;
    help.has(&["SELECT * FROM './weather' LIMIT 10;", "\\timing [on|off]"])?;
    let list = place.run(&["-q", "-c", "\\?"])?;
    list.has(&["  \\d PATH ", "  \\q "])?;
    for (command, words) in [
        ("\\nonsense", "'\\?' lists them"),
        ("\\timing perhaps", "expected on or off"),
        ("\\pset format yaml", "csv, tsv, table"),
        ("\\i", "needs a file"),
    ] {
        place.run(&["-q", "-c", command])?.failed("", &[words])?;
    }
    Ok(())
}

trial!(markdown);
fn markdown(place: &Place) -> Result<(), Failed> {
    let sql = "SELECT 'a|b' AS text, 12 AS n UNION ALL SELECT NULL, 3 ORDER BY n";
    let table = "| text |   n |\n| ---- | --: |\n| NULL |   3 |\n| a\\|b |  12 |\n";
    place
        .run(&["-q", "--format", "markdown", "-c", sql])?
        .gave(table)?;
    let script = format!("\\pset format markdown\n{sql};\n");
    let ran = place.run_with_input(&["-q"], &script)?;
    ran.has(&["Output format is Markdown.\n", table])
}

trial!(expanded);
fn expanded(place: &Place) -> Result<(), Failed> {
    let sql = "SELECT 1 AS one, 'two' AS second";
    let block = "-[ RECORD 1 ]-\none    | 1\nsecond | two\n";
    place.run(&["-q", "-x", "-c", sql])?.gave(block)?;
    let script = format!("\\x\n{sql};\n\\x off\n\\pset expanded on\n{sql};\n");
    place
        .run_with_input(&["-q"], &script)?
        .gave(&format!("{block}{block}"))?;
    // Other formats go to programs, and stay as they are.
    place
        .run(&["-q", "-x", "--format", "csv", "-c", sql])?
        .gave("one,second\n1,two\n")?;
    let many = format!("SELECT a FROM '{}'", path("rtree_three_levels"));
    let ran = place.run(&["-x", "--maxrows", "3", "-c", &many])?;
    ran.has(&["RECORD 1000", "(First 2 and last 1 shown;"])?;
    if ran.out.contains("RECORD 4") {
        Err(ran.text().into())
    } else {
        Ok(())
    }
}

trial!(output_of_scripts);
/// A script sends results to files and programs, and waits for these.
fn output_of_scripts(place: &Place) -> Result<(), Failed> {
    let script =
        "\\o first.csv\nSELECT 1 AS a;\n\\o |sleep 0.2; cat > second.csv\nSELECT 2 AS b;\n";
    place.run_with_input(&CSV, script)?.gave("")?;
    let read = |file: &str| fs::read_to_string(place.0.join(file));
    assert_eq!(
        (read("first.csv")?, read("second.csv")?),
        ("a\n1\n".into(), "b\n2\n".into())
    );
    // One that has read enough doesn't end the shell.
    let head = "\\o |head -n 2 > head.csv\nSELECT value AS n FROM range(0, 200000);\n\\o\nSELECT 'next' AS s;\n";
    place.run_with_input(&CSV, head)?.gave("s\nnext\n")?;
    assert_eq!(read("head.csv")?, "n\n0\n");
    let failing = "\\o |exit 3\nSELECT 'x' AS s;\n\\o\n";
    let ran = place.run_with_input(&CSV, failing)?;
    ran.failed("", &["the program 'exit 3' failed"])
}
