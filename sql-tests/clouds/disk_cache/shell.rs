//! The flags of the shell, and its warnings.

use std::fs;

use libtest_mimic::Failed;

use super::{arrange_sparse, expect, reads};
use crate::block_on;
use crate::support::cloud::S3Cloud;
use crate::support::shell_place::{Place, Ran, ran};

const SQL: &str = "SELECT v FROM 's3://data/sparse' WHERE x = 31234";

fn shell(place: &Place, cloud: &S3Cloud, arguments: &[&str]) -> Result<Ran, Failed> {
    let mut command = place.command(arguments);
    for name in ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"] {
        command.env_remove(name);
    }
    command.envs(cloud.variables());
    Ok(ran(command.output()?))
}

trial!(another_process_finds_the_bytes);
/// What one shell has fetched, the next one finds, with the flags and with SET. Both print the same.
fn another_process_finds_the_bytes(place: &Place) -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    block_on(arrange_sparse(&cloud))?;
    let flags = [
        "-q",
        "--cache-dir",
        "kept",
        "--cache-size",
        "64m",
        "-c",
        SQL,
    ];
    let set = "SET tiledb.cache_dir = 'kept'";
    let size = "SET tiledb.cache_size = '64 MiB'";
    let settings = ["-q", "-c", size, "-c", set, "-c", SQL];
    for (arguments, is_warm) in [(&flags[..], false), (&flags, true), (&settings, true)] {
        cloud.server.clear();
        let ran = shell(place, &cloud, arguments)?;
        expect(&ran.out, "15617.0")?;
        let requests = cloud.server.requests();
        let read = reads(&requests);
        if ran.status != Some(0) || !ran.err.is_empty() || read.is_empty() != is_warm {
            return Err(format!("{ran:?} {arguments:?} {read:#?}").into());
        }
    }
    Ok(())
}

trial!(problems_are_shown_once);
/// A folder that can't be used gives one line on stderr, a wrong size is an error.
fn problems_are_shown_once(place: &Place) -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    block_on(arrange_sparse(&cloud))?;
    fs::write(place.0.join("file"), "text")?;
    let ran = shell(
        place,
        &cloud,
        &["-q", "--cache-dir", "file", "-c", SQL, "-c", SQL],
    )?;
    if ran.status != Some(0) || ran.out.matches("15617.0").count() != 2 {
        return Err(format!("{ran:?}").into());
    }
    let warnings: Vec<_> = ran.err.lines().collect();
    let [warning] = warnings.as_slice() else {
        return Err(format!("{warnings:#?}").into());
    };
    expect(warning, "Warning: the disk cache needs a folder, but ")?;
    for size in ["much", "0"] {
        let ran = shell(place, &cloud, &["--cache-size", size, "-c", SQL])?;
        expect(
            &ran.err,
            &format!("at least 16 MiB, such as 500 MB, 10 GB or 1 TiB, found '{size}'"),
        )?;
        let set = format!("SET tiledb.cache_size = '{size}'");
        let set = shell(place, &cloud, &["-c", &set])?;
        expect(&set.err, "'tiledb.cache_size' is a size of at least 16 MiB")?;
        expect(&set.err, &format!("found '{size}'"))?;
        if ran.status != Some(2) || set.status != Some(1) {
            return Err(format!("{ran:?} {set:?}").into());
        }
    }
    Ok(())
}
