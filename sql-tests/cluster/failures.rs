//! Workers that aren't there, refuse, or go away.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::cluster::tls::ClusterTls;
use datafusion_tiledb::cluster::trust::{ClusterToken, ClusterTrust};
use datafusion_tiledb::execute;
use futures::StreamExt;
use libtest_mimic::Failed;

use crate::support::cluster_workers::{TestWorker, with_workers};
use crate::support::session_shapes::USUAL;

/// Every failure is told within this time.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// An array that is worth several tasks.
async fn array(place: &str, rows: u64) -> Result<(), Failed> {
    let ctx = USUAL.context()?;
    for sql in [
        format!(
            "CREATE EXTERNAL TABLE t (x BIGINT, k VARCHAR, v DOUBLE, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{place}' \
             OPTIONS ('tiledb.dim.x.domain' '[0, 100000000]')"
        ),
        format!(
            "INSERT INTO t SELECT value, 'k' || (value % 100), sqrt(value) FROM generate_series(1, {rows})"
        ),
    ] {
        execute(&ctx, &sql).await?.collect().await?;
    }
    Ok(())
}

fn session(urls: &[&str], trust: &ClusterTrust) -> Result<SessionContext, Failed> {
    let ctx = USUAL.context()?;
    with_workers(&ctx, urls.join(",").parse()?, trust.clone())?;
    Ok(ctx)
}

/// The error of a statement, which has to come in time.
async fn refused(ctx: &SessionContext, sql: &str) -> Result<String, Failed> {
    let began = Instant::now();
    let answer = async { execute(ctx, sql).await?.collect().await };
    let error = match answer.await {
        Ok(_) => return Err(format!("{sql} succeeds").into()),
        Err(error) => error.strip_backtrace(),
    };
    if began.elapsed() > TOLD_WITHIN {
        return Err(format!("{error}: after {:?}", began.elapsed()).into());
    }
    Ok(error)
}

fn expect(error: &str, parts: &[&str]) -> Result<(), Failed> {
    match parts.iter().find(|part| !error.contains(**part)) {
        Some(part) => Err(format!("{error:?} doesn't say {part:?}").into()),
        None => Ok(()),
    }
}

trial!(unreachable);
async fn unreachable() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("t").display().to_string();
    array(&place, 200_000).await?;
    let sql = format!("SELECT k, count(*) FROM '{place}' GROUP BY k");
    let there = TestWorker::start(ClusterTrust::default());
    // Nobody listens on the port of a worker that was stopped.
    let gone = TestWorker::start(ClusterTrust::default()).url.clone();
    tokio::time::sleep(Duration::from_millis(300)).await;
    for (url, says) in [
        (gone.as_str(), "no connection"),
        ("http://no.such.host.invalid:7071", "no connection"),
    ] {
        let ctx = session(&[&there.url, url], &ClusterTrust::default())?;
        expect(&refused(&ctx, &sql).await?, &[url, says])?;
        // What stays in the process goes on.
        execute(&ctx, "SELECT 1").await?.collect().await?;
    }
    Ok(())
}

trial!(tokens);
async fn tokens() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("t").display().to_string();
    array(&place, 200_000).await?;
    let sql = format!("SELECT k, count(*) FROM '{place}' GROUP BY k");
    let trust = |token: &str| ClusterTrust {
        token: Some(ClusterToken::new(token).expect("a token")),
        tls: None,
    };
    let right = trust("0123456789abcdef");
    let workers = [(); 2].map(|()| TestWorker::start(right.clone()));
    let urls = [workers[0].url.as_str(), workers[1].url.as_str()];
    let ctx = session(&urls, &right)?;
    execute(&ctx, &sql).await?.collect().await?;
    for wrong in [ClusterTrust::default(), trust("0123456789abcdeg")] {
        let error = refused(&session(&urls, &wrong)?, &sql).await?;
        expect(&error, &["http://127.0.0.1:", "--token-file"])?;
        if error.contains("0123456789") {
            return Err(format!("the error tells the token: {error}").into());
        }
    }
    Ok(())
}

/// Certificates of the tests: what a process shows, and whom it believes. The script beside them makes them.
fn tls(identity: Option<(&[u8], &[u8])>, authority: Option<&[u8]>) -> ClusterTls {
    let mut tls = ClusterTls::default();
    if let Some((certificate, key)) = identity {
        tls = tls.with_identity(certificate, key).expect("a certificate");
    }
    match authority {
        Some(authority) => tls.with_authority(authority).expect("a certificate"),
        None => tls,
    }
}

const OWN: (&[u8], &[u8]) = (include_bytes!("tls/own.pem"), include_bytes!("tls/own.key"));
const OWN_AUTHORITY: &[u8] = include_bytes!("tls/own-authority.pem");
const OTHER: (&[u8], &[u8]) = (
    include_bytes!("tls/other.pem"),
    include_bytes!("tls/other.key"),
);
const OTHER_AUTHORITY: &[u8] = include_bytes!("tls/other-authority.pem");

trial!(certificates);
/// Workers with TLS talk to coordinators, and to each other, that can prove who they are, and to nobody else.
async fn certificates() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("t").display().to_string();
    array(&place, 200_000).await?;
    let sql = format!("SELECT k, count(*) FROM '{place}' GROUP BY k");
    let token = ClusterToken::new("0123456789abcdef").expect("a token");
    let trust = |tls: ClusterTls, token: Option<&ClusterToken>| ClusterTrust {
        token: token.cloned(),
        tls: Some(tls),
    };
    // With a token, who asks needs no certificate; without one, it does.
    for token in [None, Some(&token)] {
        let of_workers = trust(tls(Some(OWN), Some(OWN_AUTHORITY)), token);
        let workers = [(); 2].map(|()| TestWorker::start(of_workers.clone()));
        let urls = [workers[0].url.as_str(), workers[1].url.as_str()];
        let known = match token {
            Some(_) => tls(None, Some(OWN_AUTHORITY)),
            None => tls(Some(OWN), Some(OWN_AUTHORITY)),
        };
        let ctx = session(&urls, &trust(known, token))?;
        let plan = execute(&ctx, &sql).await?.create_physical_plan().await?;
        if plan.name() != "ClusterExec" {
            return Err(format!("{sql} stays in the process").into());
        }
        execute(&ctx, &sql).await?.collect().await?;
        let plain = urls.map(|url| url.replace("https", "http"));
        let plain = [plain[0].as_str(), plain[1].as_str()];
        let mut wrong = vec![
            // It believes another authority, and those of the system.
            (trust(tls(Some(OWN), Some(OTHER_AUTHORITY)), token), urls),
            (trust(tls(Some(OWN), None), token), urls),
            // TLS on one side only.
            (
                ClusterTrust {
                    token: token.cloned(),
                    tls: None,
                },
                plain,
            ),
            (trust(tls(Some(OWN), Some(OWN_AUTHORITY)), token), plain),
            // A certificate of another authority.
            (trust(tls(Some(OTHER), Some(OWN_AUTHORITY)), token), urls),
            // Neither a certificate nor a token.
            (trust(tls(None, Some(OWN_AUTHORITY)), None), urls),
        ];
        for (number, (trust, urls)) in wrong.drain(..).enumerate() {
            let error = refused(&session(&urls, &trust)?, &sql).await?;
            if !urls
                .iter()
                .any(|url| error.contains(&format!("worker {url}/: ")))
            {
                return Err(format!("{number}: {error:?} names no worker").into());
            }
            if error.contains("0123456789") || error.contains("PRIVATE") {
                return Err(format!("the error holds a secret: {error}").into());
            }
        }
    }
    // TLS of a coordinator, and a worker without.
    let workers = [(); 2].map(|()| TestWorker::start(ClusterTrust::default()));
    let urls = [&workers[0], &workers[1]].map(|worker| worker.url.replace("http://", "https://"));
    let own = trust(tls(Some(OWN), Some(OWN_AUTHORITY)), None);
    let error = refused(&session(&[&urls[0], &urls[1]], &own)?, &sql).await?;
    expect(&error, &["worker https://127.0.0.1:"])
}

trial!(running_tasks);
/// `tiledb_workers()` counts the tasks while they run, and none afterwards.
async fn running_tasks() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("t").display().to_string();
    array(&place, 200_000).await?;
    let workers = [(); 2].map(|()| TestWorker::start(ClusterTrust::default()));
    let ctx = session(
        &[&workers[0].url, &workers[1].url],
        &ClusterTrust::default(),
    )?;
    let tasks = async || -> Result<Vec<u64>, Failed> {
        let sql = "SELECT tasks FROM tiledb_workers()";
        let batches = execute(&ctx, sql).await?.collect().await?;
        let counts = batches.iter().flat_map(|batch| {
            let counts = batch.column(0).as_primitive::<UInt64Type>();
            counts.values().to_vec()
        });
        Ok(counts.collect())
    };
    assert_eq!(tasks().await?, [0, 0]);
    // Takes minutes.
    let sql = format!(
        "SELECT count(*) FROM '{place}' AS a JOIN '{place}' AS b ON a.k = b.k AND a.v <> b.v"
    );
    let rows = execute(&ctx, &sql).await?.execute_stream().await?;
    let running = tokio::spawn(rows.collect::<Vec<_>>());
    let until = async |done: fn(&[u64]) -> bool| -> Result<(), Failed> {
        let began = Instant::now();
        loop {
            let counts = tasks().await?;
            if done(&counts) {
                return Ok(());
            }
            if began.elapsed() > TOLD_WITHIN {
                return Err(format!("{counts:?} tasks after {:?}", began.elapsed()).into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    until(|counts| counts.iter().all(|count| *count > 0)).await?;
    running.abort();
    until(|counts| counts == [0, 0]).await?;
    // A limit that is reached, and a failure, end tasks, too.
    let limited = format!(
        "SELECT a.x FROM '{place}' AS a JOIN '{place}' AS b ON a.k = b.k AND a.v <> b.v LIMIT 1"
    );
    let rows = execute(&ctx, &limited).await?.collect().await?;
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
    until(|counts| counts == [0, 0]).await?;
    let failing = format!("SELECT k, sum(100 / (x - 150000)) FROM '{place}' GROUP BY k");
    let error = refused(&ctx, &failing).await?;
    expect(&error, &["worker http://", "zero"])?;
    until(|counts| counts == [0, 0]).await
}

/// A worker that is a process of its own.
struct WorkerProcess {
    child: Child,
    url: String,
}

impl WorkerProcess {
    fn start() -> Result<Self, Failed> {
        Self::start_with(&[])
    }

    /// Starts a worker with variables in its environment.
    fn start_with(variables: &[(&str, &str)]) -> Result<Self, Failed> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tiledb-sql"))
            .args(["-m", "1g", "worker", "--listen", "127.0.0.1:0"])
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("a pipe")?).read_line(&mut line)?;
        let url = line
            .split_whitespace()
            .find(|word| word.starts_with("http://"));
        let url = url.ok_or(format!("no address in {line:?}"))?;
        let url = url.trim_end_matches(',').to_owned();
        Ok(Self { child, url })
    }

    fn signal(&self, name: &str) -> Result<(), Failed> {
        let mut kill = Command::new("kill");
        kill.args([name, &self.child.id().to_string()]).status()?;
        Ok(())
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

trial!(workers_without_encryption_key);
/// The key of an encrypted array comes from the environment of each machine. It isn't sent.
async fn workers_without_encryption_key() -> Result<(), Failed> {
    const KEY: (&str, &str) = ("TILEDB_ENCRYPTION_KEY", "0123456789abcdef0123456789abcdef");
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("secret").display().to_string();
    // The statements, and whether they succeed, with what was printed.
    let run = |arguments: &[&str], statements: &[&str]| -> Result<(bool, String), Failed> {
        let mut shell = Command::new(env!("CARGO_BIN_EXE_tiledb-sql"));
        shell.args(["-q", "--format", "csv"]).args(arguments);
        for statement in statements {
            shell.args(["-c", &statement.replace("$P", &place)]);
        }
        let ran = shell.env(KEY.0, KEY.1).output()?;
        let printed = [ran.stdout, ran.stderr].concat();
        Ok((ran.status.success(), String::from_utf8(printed)?))
    };
    let (created, printed) = run(
        &[],
        &[
            "CREATE EXTERNAL TABLE e (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$P' \
             OPTIONS ('tiledb.dim.x.domain' '[0, 1000000]', 'tiledb.capacity' '10000', 'tiledb.encryption_key_env' 'TILEDB_ENCRYPTION_KEY')",
            "INSERT INTO e SELECT value AS x, value AS v FROM generate_series(0, 199999)",
        ],
    )?;
    if !created {
        return Err(printed.into());
    }
    let query = [
        "SET tiledb.bytes_per_task = '1 B'",
        "SELECT sum(v % 1000) AS s FROM '$P' WHERE v % 3 >= 0",
    ];
    let workers = [WorkerProcess::start()?, WorkerProcess::start()?];
    let urls = format!("{},{}", workers[0].url, workers[1].url);
    let (answered, printed) = run(&["--workers", &urls], &query)?;
    if answered || printed.contains(KEY.1) {
        return Err(printed.into());
    }
    expect(&printed, &["worker http://127.0.0.1:", &place, KEY.0])?;
    let workers = [
        WorkerProcess::start_with(&[KEY])?,
        WorkerProcess::start_with(&[KEY])?,
    ];
    let urls = format!("{},{}", workers[0].url, workers[1].url);
    let (answered, printed) = run(&["--workers", &urls], &query)?;
    if !answered || !printed.contains("99900000") {
        return Err(printed.into());
    }
    Ok(())
}

#[cfg(unix)]
trial!(lost);
/// A worker is killed, or stopped, in the middle of a query.
#[cfg(unix)]
async fn lost() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("t").display().to_string();
    array(&place, 400_000).await?;
    // Takes minutes.
    let sql = format!(
        "SELECT count(*) FROM '{place}' AS a JOIN '{place}' AS b ON a.k = b.k AND a.v <> b.v"
    );
    for signal in ["-KILL", "-STOP"] {
        let workers = [WorkerProcess::start()?, WorkerProcess::start()?];
        let ctx = session(
            &[&workers[0].url, &workers[1].url],
            &ClusterTrust::default(),
        )?;
        let query = sql.clone();
        let running = tokio::spawn(async move { execute(&ctx, &query).await?.collect().await });
        tokio::time::sleep(Duration::from_secs(2)).await;
        workers[1].signal(signal)?;
        let began = Instant::now();
        let ended = tokio::time::timeout(Duration::from_secs(20), running).await??;
        let Err(error) = ended else {
            return Err(format!("the query survives {signal}").into());
        };
        if began.elapsed() > TOLD_WITHIN {
            return Err(format!("{signal}: {error} after {:?}", began.elapsed()).into());
        }
        expect(
            &error.to_string(),
            &[&workers[1].url, "the connection broke off"],
        )?;
        workers[1].signal("-CONT")?;
        return_to_rest(&workers[0]).await?;
    }
    Ok(())
}

/// Fails unless a worker does nothing any more soon after its query has ended.
#[cfg(unix)]
async fn return_to_rest(worker: &WorkerProcess) -> Result<(), Failed> {
    let ticks = || -> Result<u64, Failed> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", worker.child.id()))?;
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        // The times in user and in system mode are the 14th and the 15th field; the name is the second.
        let fields = after_name.split_whitespace().skip(11).take(2);
        fields.map(|field| Ok(field.parse::<u64>()?)).sum()
    };
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    tokio::time::sleep(TOLD_WITHIN).await;
    let before = ticks()?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let used = ticks()? - before;
    if used > 20 {
        return Err(format!("a worker without a query uses {used} % of a processor").into());
    }
    Ok(())
}
