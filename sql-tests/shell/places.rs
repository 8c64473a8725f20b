//! How `tiledb-sql` resolves paths and URLs: `~` is the home folder in every statement, and it reads files on web servers
//! without listings.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use libtest_mimic::Failed;

use crate::support::shell_place::Place;

const CSV: [&str; 3] = ["-q", "--format", "csv"];

trial!(home_folder);
fn home_folder(place: &Place) -> Result<(), Failed> {
    let run = |sql: &str| place.run(&[&CSV[..], &["-c", sql]].concat());
    fs::create_dir(place.0.join("work"))?;
    let run_elsewhere = |sql: &str| {
        let arguments = [&CSV[..], &["-c", sql]].concat();
        let output = place
            .command(&arguments)
            .current_dir(place.0.join("work"))
            .output()?;
        Ok::<_, Failed>(crate::support::shell_place::ran(output))
    };
    for (sql, gives) in [
        (
            "CREATE EXTERNAL TABLE t (x INT NOT NULL, a INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '~/made'",
            "",
        ),
        ("INSERT INTO '~/made' VALUES (1, 10)", "count\n1\n"),
        ("SELECT a FROM '~/made'", "a\n10\n"),
        (
            "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '~/made'; SELECT a FROM t",
            "a\n10\n",
        ),
        (
            "COPY (SELECT 2 AS x, 20 AS a) TO '~/copied' STORED AS TILEDB PARTITIONED BY (x)",
            "count\n1\n",
        ),
        ("SELECT a FROM '~/copied'", "a\n20\n"),
        ("COPY (SELECT 3 AS a) TO '~/file.parquet'", "count\n1\n"),
        ("SELECT a FROM '~/file.parquet'", "a\n3\n"),
        (
            "CREATE EXTERNAL TABLE p STORED AS PARQUET LOCATION '~/file.parquet'; SELECT a FROM p",
            "a\n3\n",
        ),
        (
            "SELECT count(*) AS n FROM tiledb_schema('~/made')",
            "n\n2\n",
        ),
        (
            "SELECT changes FROM tiledb_create_group('~/group')",
            "changes\n\"[\"\"create group\"\"]\"\n",
        ),
        (
            "SELECT count(*) AS n FROM tiledb_add_member('~/group', '~/made', name => 'm')",
            "n\n1\n",
        ),
        (
            "SET tiledb.external_members = 'same_store'; ATTACH '~/group' AS g; SELECT a FROM g.m",
            "a\n10\n",
        ),
    ] {
        run_elsewhere(sql)?.gave(gives)?;
    }
    // The file exists at its path without `~`, and no folder is named `~`.
    run("SELECT a FROM './made' UNION ALL SELECT a FROM './copied' ORDER BY a")?
        .gave("a\n10\n20\n")?;
    for folder in [place.0.join("~"), place.0.join("work/~")] {
        assert!(!folder.exists(), "{}", folder.display());
    }
    place.run(&["check", "~/made"])?.has(&["1 cells checked"])?;
    place
        .run(&[
            "~/made",
            "-q",
            "--format",
            "csv",
            "-c",
            "SELECT a FROM made",
        ])?
        .gave("a\n10\n")
}

trial!(web_servers);
/// Servers refuse a request for a listing in several ways. The shell reads the file from each of them.
fn web_servers(place: &Place) -> Result<(), Failed> {
    for refusal in [
        "405 Method Not Allowed",
        "501 Not Implemented",
        "403 Forbidden",
        "400 Bad Request",
        "404 Not Found",
        "200 OK",
    ] {
        let server = WebServer::start(refusal, b"a,b\n1,2\n3,4\n")?;
        let sql = format!("SELECT sum(b) AS s FROM 'http://{}/f.csv'", server.address);
        let ran = place.run(&[&CSV[..], &["-c", &sql]].concat())?;
        ran.gave("s\n6\n")
            .map_err(|e| format!("{refusal}: {e:?}"))?;
    }
    // A URL without a file's extension may name an array, and the server answers that it doesn't.
    let server = WebServer::start("405 Method Not Allowed", b"a\n1\n")?;
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 'http://{}/array'",
        server.address
    );
    let ran = place.run(&["-q", "-c", &sql])?;
    for words in ["not a TileDB array", "status 405", "WebDAV"] {
        assert!(ran.err.contains(words), "{}", ran.err);
    }
    for refusal in ["403 Forbidden", "501 Not Implemented", "200 OK"] {
        let server = WebServer::start(refusal, b"a\n1\n")?;
        let sql = format!("SELECT * FROM 'http://{}/array'", server.address);
        let ran = place.run(&["-q", "-c", &sql])?;
        assert!(ran.err.contains("WebDAV"), "{refusal}: {}", ran.err);
    }
    Ok(())
}

/// A web server with one file, which stops at the end of the test.
struct WebServer {
    address: String,
}

impl WebServer {
    /// Answers GET and HEAD with `content`, and PROPFIND with the status `refusal`.
    fn start(refusal: &'static str, content: &'static [u8]) -> Result<Self, Failed> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let content = Arc::new(content);
        thread::spawn(move || {
            for stream in listener.incoming().take(100).flatten() {
                let content = Arc::clone(&content);
                thread::spawn(move || answer(stream, refusal, &content));
            }
        });
        Ok(Self { address })
    }
}

fn answer(stream: TcpStream, refusal: &str, content: &[u8]) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let mut stream = stream;
    let (mut method, mut range) = (String::new(), None);
    while let Some(line) = lines.next().transpose()? {
        if method.is_empty() {
            method = line.split(' ').next().unwrap_or_default().to_owned();
        }
        if let Some(bytes) = line.to_lowercase().strip_prefix("range: bytes=") {
            range = bytes.split_once('-').map(|(from, to)| {
                let from = from.parse::<usize>().unwrap_or(0);
                let to = to.parse::<usize>().unwrap_or(usize::MAX);
                (from, to.min(content.len() - 1))
            });
        }
        if !line.is_empty() {
            continue;
        }
        let last_modified = "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT";
        if method == "PROPFIND" {
            write!(
                stream,
                "HTTP/1.1 {refusal}\r\nContent-Length: 6\r\n\r\n<html>"
            )?;
        } else {
            let (status, body, more) = match range {
                Some((from, to)) => (
                    "206 Partial Content",
                    &content[from..=to],
                    format!("Content-Range: bytes {from}-{to}/{}\r\n", content.len()),
                ),
                None => ("200 OK", content, String::new()),
            };
            write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{last_modified}\r\n{more}\r\n",
                body.len()
            )?;
            if method == "GET" {
                stream.write_all(body)?;
            }
        }
        stream.flush()?;
        (method, range) = (String::new(), None);
    }
    Ok(())
}

trial!(piped_tables);
/// The standard input is a file like others, but only where it doesn't hold the statements.
fn piped_tables(place: &Place) -> Result<(), Failed> {
    let table = "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/dev/stdin' OPTIONS ('format.has_header' 'true')";
    let twice = format!(
        "{table}; {}; SELECT t.a + u.a AS a FROM t, u ORDER BY a",
        table.replace(" t ", " u ")
    );
    let run = |sql: &str| place.run_with_input(&[&CSV[..], &["-c", sql]].concat(), "a\n1\n2\n");
    run(&twice)?.gave("a\n2\n3\n3\n4\n")?;
    let other = "CREATE EXTERNAL TABLE u STORED AS JSON LOCATION '/dev/stdin'";
    run(&format!("{table}; {other}"))?.failed("", &["stdin.csv", "the same STORED AS"])?;
    let piped = place.run_with_input(&CSV, &format!("{table};"))?;
    piped.failed("", &["it holds the statements"])
}

trial!(store_options);
/// Options that no store takes are errors, in each statement.
fn store_options(place: &Place) -> Result<(), Failed> {
    for (location, option, words) in [
        ("./x", "aws.region", "no options of an object store"),
        ("file:///x", "aws.region", "no options of an object store"),
        (
            "http://localhost:1/x",
            "http.x",
            "web servers take no options",
        ),
        ("gs://bucket/x", "aws.region", "begin with gcp."),
        ("az://bucket/x", "azure.x", "unknown option \"azure.x\""),
    ] {
        for statement in [
            "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION",
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION",
            "COPY (SELECT 1 AS x) TO",
            "ATTACH",
        ] {
            let behind = match statement {
                "ATTACH" => "AS g",
                "COPY (SELECT 1 AS x) TO" => "STORED AS CSV OPTIONS",
                _ => "OPTIONS",
            };
            let sql = format!("{statement} '{location}' {behind} ('{option}' 'r')");
            place.run(&["-q", "-c", &sql])?.failed("", &[words])?;
        }
    }
    Ok(())
}
