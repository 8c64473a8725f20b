//! `tiledb-sql` among other programs and files: pipes, paths with any name, Parquet, CSV and JSON beside arrays.

use std::path::Path;

use libtest_mimic::{Failed, Trial};

use crate::shell::{Place, Test, path, ran, shell_trial};

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 3] = [
        ("broken_pipe", broken_pipe),
        ("names", names),
        ("other_files", other_files),
    ];
    tests
        .into_iter()
        .map(|(name, test)| shell_trial(name, test))
        .collect()
}

fn broken_pipe(place: &Place) -> Result<(), Failed> {
    let array = path("weather_stations");
    let sql = format!("SELECT * FROM '{array}' a CROSS JOIN '{array}' b");
    let mut child = place
        .command(&["-q", "--format", "csv", "-c", &sql])
        .spawn()?;
    // The reader reads nothing and goes.
    drop(child.stdout.take());
    let ran = ran(child.wait_with_output()?);
    if ran.err.is_empty() && ran.status.is_some() {
        return Ok(());
    }
    Err(ran.text().into())
}

fn names(place: &Place) -> Result<(), Failed> {
    for name in [
        "größe 100% #1",
        "arrays/日本語",
        "it's",
        "a+b?c",
        "deep/er/w.x_y",
    ] {
        place.array("quickstart_sparse", name)?;
        let quoted = name.replace('\'', "''");
        let create = format!("CREATE EXTERNAL TABLE q STORED AS TILEDB LOCATION '{quoted}'");
        let ran = place.run(&[
            "-q",
            "--format",
            "csv",
            "-c",
            &create,
            "-c",
            "SELECT sum(a) AS s FROM q",
        ])?;
        ran.gave("s\n6\n")
            .map_err(|e| format!("{name}: {}", e.message().unwrap_or_default()))?;
        for sql in [
            "EXPLAIN SELECT * FROM q",
            "EXPLAIN FORMAT INDENT SELECT * FROM q",
            "EXPLAIN ANALYZE SELECT * FROM q",
        ] {
            place
                .run(&["-q", "-c", &create, "-c", sql])?
                .has(&["DataSourceExec"])?;
        }
        if name.contains('?') {
            continue; // In a table name the question mark begins options.
        }
        let absolute = place.0.join(name).display().to_string().replace('\'', "''");
        for path in [format!("./{quoted}"), format!("./{quoted}/"), absolute] {
            let sql = format!("SELECT sum(a) AS s FROM '{path}'");
            let ran = place.run(&["-q", "--format", "csv", "-c", &sql])?;
            ran.gave("s\n6\n")
                .map_err(|e| format!("{path}: {}", e.message().unwrap_or_default()))?;
            place
                .run(&["-q", "-c", &format!("EXPLAIN {sql}")])?
                .has(&["DataSourceExec"])?;
        }
    }
    Ok(())
}

/// Parquet, CSV and JSON are read and written as in datafusion-cli, and joined with arrays.
fn other_files(place: &Place) -> Result<(), Failed> {
    let array = path("weather_stations");
    for (extension, header) in [
        ("parquet", ""),
        ("csv", " OPTIONS ('format.has_header' 'true')"),
        ("json", ""),
    ] {
        let file = format!("stations.{extension}");
        let copy = format!(
            "COPY (SELECT DISTINCT station, upper(station) AS loud FROM '{array}') TO '{file}'{header}"
        );
        place.run(&["-q", "-c", &copy])?.has(&[])?;
        assert!(Path::new(&place.0.join(&file)).exists());
        let join = format!(
            "SELECT count(*) AS n, count(DISTINCT s.loud) = count(DISTINCT w.station) AS same
             FROM '{array}' w JOIN '{file}' s ON s.station = w.station"
        );
        place
            .run(&["-q", "--format", "csv", "-c", &join])?
            .gave("n,same\n2000,true\n")?;
    }
    Ok(())
}
