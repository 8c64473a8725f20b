//! Workers that aren't there, refuse, or go away.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;
use datafusion_tiledb::cluster::trust::{ClusterToken, ClusterTrust};
use datafusion_tiledb::execute;
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

/// A worker that is a process of its own.
struct WorkerProcess {
    child: Child,
    url: String,
}

impl WorkerProcess {
    fn start() -> Result<Self, Failed> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tiledb-sql"))
            .args(["-m", "1g", "worker", "--listen", "127.0.0.1:0"])
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
