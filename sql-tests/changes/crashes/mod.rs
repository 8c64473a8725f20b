//! A store that fails, hangs or loses an answer at its n-th request, for every n of every statement that writes: afterwards
//! the array opens and holds the state before the statement or the one after it.

mod cases;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{Array, CheckOptions, ErrorKind, Location, Severity, register};
use futures::{StreamExt, TryStreamExt, stream};
use libtest_mimic::Failed;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tiledb_engine::maintain::check::Rule;

use self::cases::{CASES, Case, OPEN};
use crate::support::array_files::nested_delete;
use crate::support::faulty_store::{Fault, Faulty, READ_ONLY, copy_of, execute, session, state};
use crate::support::folders::copy_folder;
use crate::support::neutral_rows;
use crate::support::trials::SqlTrial;
use crate::support::turns;
use crate::{block_on, trial};

const COPY_FOOTERS: &str =
    "SELECT * FROM tiledb_consolidate('crash://store/array', mode => 'fragment_metadata')";

/// Stores the deletes in the form that libtiledb misreads.
const NEST_DELETES: &str = "-- nest deletes";

trials!(each_fault());

fn each_fault() -> Vec<SqlTrial> {
    const FAULTS: [Fault; 3] = [Fault::Dies, Fault::Hangs, Fault::LosesTheAnswer];
    let numbered = CASES.iter().enumerate();
    let all = numbered.flat_map(|(number, case)| {
        let kept = FAULTS.iter().enumerate().filter(move |(turn, _)| {
            // Neighbours among the cases take turns with the faults.
            turns::is_taken(number, *turn, 3)
        });
        kept.map(move |(_, fault)| (case, *fault))
    });
    let crashes = all.map(|(case, fault)| {
        let name = format!("{}_{fault:?}", case.name);
        trial(name, move || block_on(every_point(case, fault)))
    });
    let refused = CASES.iter().map(|case| {
        let name = format!("{}_{:?}", case.name, Fault::IsReadOnly);
        trial(name, move || block_on(read_only(case)))
    });
    crashes.chain(refused).collect()
}

/// The array of a case before its statement.
async fn before(case: &Case) -> Result<InMemory, Failed> {
    let quiet = Faulty::new(InMemory::new(), usize::MAX, Fault::Dies);
    let ctx = session(&quiet)?;
    if !case.create.is_empty() {
        ctx.sql(case.create).await?.collect().await?;
    }
    for statement in case.before {
        match *statement {
            NEST_DELETES => nest_deletes(&quiet.inner).await?,
            statement => execute(&ctx, statement).await?,
        }
    }
    copy_of(&quiet.inner).await
}

async fn nest_deletes(store: &InMemory) -> Result<(), Failed> {
    let objects = store.list(None).try_collect::<Vec<_>>().await?;
    for object in objects {
        if object.location.extension() == Some("del") {
            let file = store.get(&object.location).await?.bytes().await?;
            let nested = nested_delete(&file).into();
            store.put(&object.location, nested).await?;
        }
    }
    Ok(())
}

/// A store that nobody may write to names the file and the reason, and stays as it is.
async fn read_only(case: &Case) -> Result<(), Failed> {
    let base = before(case).await?;
    let store = Faulty::new(copy_of(&base).await?, 0, Fault::IsReadOnly);
    let ended = run(&store, case).await;
    let told = |error: &String| error.contains("crash://store/") && error.contains(READ_ONLY);
    let objects = async |store: &InMemory| store.list(None).try_collect::<Vec<_>>().await;
    let names = |objects: &[ObjectMeta]| {
        let names = objects
            .iter()
            .map(|object| (object.location.to_string(), object.size));
        names.collect::<Vec<_>>()
    };
    let (left, expected) = (objects(&store.inner).await?, objects(&base).await?);
    match (
        ended.as_ref().is_err_and(told),
        names(&left) == names(&expected),
    ) {
        (true, true) => Ok(()),
        (_, same) => Err(format!("{ended:?}, nothing changed: {same}").into()),
    }
}

async fn every_point(case: &Case, fault: Fault) -> Result<(), Failed> {
    let base = before(case).await?;
    let tends = ["tiledb_consolidate(", "tiledb_vacuum("]
        .iter()
        .any(|name| case.statement.contains(name));
    let before = state(&base).await?;
    // How many requests the statement takes, and what it leaves.
    let counting = Faulty::new(copy_of(&base).await?, usize::MAX, fault);
    run(&counting, case).await?;
    let after = state(&counting.inner).await?;
    if (before == after) != tends {
        return Err(format!("{} changes rows: {}", case.name, before != after).into());
    }
    let requests = counting.requests.count.load(Ordering::SeqCst);
    let remains = if tends {
        goes_on(&counting.inner, case, &after).await?
    } else {
        Vec::new()
    };
    let point = async |n: usize| {
        let faulty = Faulty::new(copy_of(&base).await?, n, fault);
        let ended = tokio::time::timeout(Duration::from_millis(500), run(&faulty, case)).await;
        let found = state(&faulty.inner).await?;
        let expected = match (&ended, found == after) {
            // Success is only reported for what is there.
            (Ok(Ok(())), _) => found == after,
            (_, true) => true,
            _ => found == before,
        };
        if !expected {
            return Err(format!("{fault:?} at {n} of {requests}: {ended:?} left {found:?}").into());
        }
        check(&faulty.inner).await?;
        if case.create.is_empty()
            && case.statement.contains("crash://store/array")
            && found.is_none()
        {
            used_again(&faulty.inner, case, &after).await?;
        }
        if tends {
            let found = goes_on(&faulty.inner, case, &after).await?;
            if found != remains {
                return Err(format!(
                    "{fault:?} at {n} of {requests}: {found:?} remain, not {remains:?}"
                )
                .into());
            }
        }
        Ok::<bool, Failed>(found == after)
    };
    // Statements that hang are waited for together.
    let at_once = match fault {
        Fault::Hangs => 16,
        _ => 4,
    };
    let points = stream::iter(0..requests)
        .map(point)
        .buffer_unordered(at_once)
        .try_collect::<Vec<_>>()
        .await?;
    let changed = points.iter().filter(|changed| **changed).count();
    let kept = points.len() - changed;
    if tends {
        return Ok(());
    }
    let some_kept = kept > 0 || fault == Fault::LosesTheAnswer;
    if some_kept && requests > 1 {
        Ok(())
    } else {
        Err(format!("{requests} requests, {kept} kept, {changed} changed").into())
    }
}

/// Writes the files of the array into a folder, and returns whether its creation is announced.
async fn write_array(store: &InMemory, folder: &std::path::Path) -> Result<bool, Failed> {
    let mut objects = store.list(Some(&Path::from("array")));
    let mut is_announced = false;
    while let Some(object) = objects.next().await {
        let path = object?.location;
        let file = folder.join(path.to_string());
        std::fs::create_dir_all(file.parent().expect("a file is in a folder"))?;
        std::fs::write(&file, store.get(&path).await?.bytes().await?)?;
        is_announced |= path.to_string().ends_with(".new.staged");
    }
    Ok(is_announced)
}

/// After an interrupted creation is dead, another array can be created in its place, and its leftovers are removed.
async fn used_again(
    left: &InMemory,
    case: &Case,
    created: &Option<Vec<String>>,
) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let is_announced = write_array(left, folder.path()).await?;
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    register(&ctx)?;
    let array = folder.path().join("array").display().to_string();
    let statement = case.statement.replace("crash://store/array", &array);
    let age = |age: Duration| -> Result<(), Failed> {
        for file in std::fs::read_dir(format!("{array}/__commits"))? {
            let times = std::fs::FileTimes::new().set_modified(std::time::SystemTime::now() - age);
            std::fs::File::options()
                .append(true)
                .open(file?.path())?
                .set_times(times)?;
        }
        Ok(())
    };
    if is_announced {
        // Another writer may be about to put the schema.
        age(Duration::from_secs(5))?;
        let Err(error) = execute(&ctx, &statement).await else {
            return Err("the rows of a living creation were taken over".into());
        };
        let told = error.message().unwrap_or_default();
        if !told.contains("another writer is creating an array here") {
            return Err(told.to_string().into());
        }
        age(Duration::from_secs(60))?;
    }
    let swept = tempfile::tempdir()?;
    copy_folder(folder.path(), swept.path())?;
    execute(&ctx, &statement).await?;
    let rows = |ctx: SessionContext, array: String| async move {
        let table = ctx.sql(&format!("SELECT * FROM '{array}'")).await?;
        let mut found = vec![neutral_rows::header(table.schema().as_arrow())];
        found.extend(neutral_rows::rows(&table.collect().await?));
        Ok::<_, Failed>(found)
    };
    let found = rows(ctx.clone(), array.clone()).await?;
    let expected = created.as_ref().ok_or("nothing is created")?;
    if expected.get(..found.len()) != Some(found.as_slice()) {
        return Err(format!("again: {found:?}, not {expected:?}").into());
    }
    // The leftovers of the first creation aren't part of the array. They can be removed before or after the second creation.
    let swept = swept.path().join("array").display().to_string();
    for (array, fragments) in [(swept, 0), (array, 1)] {
        if !std::path::Path::new(&array).exists() {
            continue;
        }
        let vacuum =
            format!("SELECT * FROM tiledb_vacuum('{array}', mode => 'leftovers', min_age => '0')");
        execute(&ctx, &vacuum).await?;
        for folder in ["__commits", "__fragments"] {
            let files = std::fs::read_dir(format!("{array}/{folder}"))
                .into_iter()
                .flatten()
                .flatten()
                .map(|file| file.file_name().display().to_string())
                .collect::<Vec<_>>();
            if files.len() > fragments {
                return Err(format!("{folder} has {files:?} after the vacuum").into());
            }
        }
        // A vacuum of an array doesn't look at its schemas.
        let findings = format!(
            "SELECT rule, object, found FROM tiledb_check('{array}') WHERE rule <> 'unused-enumeration'"
        );
        let findings = neutral_rows::rows(&ctx.sql(&findings).await?.collect().await?);
        if !findings.is_empty() {
            return Err(format!("after the vacuum: {findings:?}").into());
        }
    }
    Ok(())
}

/// What was interrupted is completed by doing it again, and leaves nothing behind: the files that remain, by their folders.
async fn goes_on(
    left: &InMemory,
    case: &Case,
    rows: &Option<Vec<String>>,
) -> Result<Vec<(String, usize)>, Failed> {
    let again = Faulty::new(copy_of(left).await?, usize::MAX, Fault::Dies);
    run(&again, case).await?;
    let ctx = session(&again)?;
    let (place, modes) = if case.create.is_empty() {
        ("group", &["array_metadata"][..])
    } else {
        (
            "array",
            &[
                "fragments",
                "commits",
                "fragment_metadata",
                "array_metadata",
            ][..],
        )
    };
    let uri = format!("crash://store/{place}");
    for mode in modes {
        let statement =
            format!("SELECT * FROM tiledb_vacuum('{uri}', mode => '{mode}', min_age => '0')");
        ctx.sql(&statement).await?.collect().await?;
    }
    if place == "array" {
        let leftovers =
            format!("SELECT * FROM tiledb_vacuum('{uri}', mode => 'leftovers', min_age => '0')");
        ctx.sql(&leftovers).await?.collect().await?;
    }
    let found = state(&again.inner).await?;
    let findings = format!("SELECT rule, object, found FROM tiledb_check('{uri}')");
    let findings = ctx.sql(&findings).await?.collect().await?;
    let findings = neutral_rows::rows(&findings);
    if found != *rows || !findings.is_empty() {
        return Err(format!("{found:?}, {findings:?}").into());
    }
    files(&again.inner).await
}

/// The number of files in each folder of an array or a group.
async fn files(store: &InMemory) -> Result<Vec<(String, usize)>, Failed> {
    let objects = store.list(None).try_collect::<Vec<_>>().await?;
    let mut counted = BTreeMap::new();
    for object in objects {
        let folders = object
            .location
            .parts()
            .take(2)
            .map(|part| part.as_ref().to_owned());
        let folder = folders.collect::<Vec<_>>().join("/");
        *counted.entry(folder).or_insert(0) += 1;
    }
    Ok(counted.into_iter().collect())
}

async fn run(store: &Arc<Faulty>, case: &Case) -> Result<(), String> {
    let ctx = session(store).map_err(|e| format!("{e:?}"))?;
    if !case.create.is_empty() {
        execute(&ctx, OPEN).await.map_err(|e| format!("{e:?}"))?;
    }
    let executed = execute(&ctx, case.statement).await;
    executed.map_err(|e| format!("{e:?}"))
}

/// Nothing is damaged; what a crash left over isn't an error.
async fn check(store: &InMemory) -> Result<(), Failed> {
    for place in ["array", "group"] {
        let store: Arc<dyn ObjectStore> = Arc::new(copy_of(store).await?);
        let uri = format!("crash://store/{place}");
        let location = Location::new(store, Path::from(place), uri.as_str());
        let check = Array::check(location, CheckOptions::default())?;
        let findings: Vec<_> = check.collect().await;
        for finding in findings {
            match finding {
                // `check` reports the condition until it is rewritten.
                Ok(finding) if finding.rule == Rule::DeleteNesting => {}
                Ok(finding) if finding.severity() == Severity::Error => {
                    return Err(format!("{finding:?}").into());
                }
                Ok(_) => {}
                // There may be nothing in this place.
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotAnArray) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}
