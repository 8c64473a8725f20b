//! What `tiledb-sql` does besides SQL: commands, and formats of its own.

use libtest_mimic::{Failed, Trial};

use crate::shell::{Place, Test, path, shell_trial};

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 3] = [
        ("words", words),
        ("markdown", markdown),
        ("expanded", expanded),
    ];
    tests
        .into_iter()
        .map(|(name, test)| shell_trial(name, test))
        .collect()
}

const CSV: [&str; 3] = ["-q", "--format", "csv"];

/// Words that are commands, whatever their case; what follows them is not run.
fn words(place: &Place) -> Result<(), Failed> {
    for word in ["quit", "Exit;", "  QUIT ;  "] {
        let script = format!("SELECT 1 AS a;\n{word}\nSELECT nothing;\n");
        place.run_with_input(&CSV, &script)?.gave("a\n1\n")?;
    }
    let help = place.run(&["-q", "-c", "HELP;"])?;
    help.has(&["SELECT * FROM './weather' LIMIT 10;", "\\timing [on|off]"])?;
    let list = place.run(&["-q", "-c", "\\?"])?;
    list.has(&["| Command ", "| \\q "])?;
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

fn markdown(place: &Place) -> Result<(), Failed> {
    let sql = "SELECT 'a|b' AS text, 12 AS n UNION ALL SELECT NULL, 3 ORDER BY n";
    let table = "| text |   n |\n| ---- | --: |\n| NULL |   3 |\n| a\\|b |  12 |\n";
    place
        .run(&["-q", "--format", "markdown", "-c", sql])?
        .gave(table)?;
    let script = format!("\\pset format markdown\n{sql};\n");
    let told = format!("Output format is Markdown.\n{table}");
    place.run_with_input(&["-q"], &script)?.gave(&told)
}

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
    ran.has(&["RECORD 3", "(First 3 displayed."])?;
    match ran.out.contains("RECORD 4") {
        true => Err(ran.text().into()),
        false => Ok(()),
    }
}
