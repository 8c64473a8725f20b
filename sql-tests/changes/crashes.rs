//! A store that fails, hangs or loses an answer at its n-th request, for every n of every statement that writes: afterwards
//! the array opens and holds the state before the statement or the one after it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{CheckOptions, ErrorKind, Location, Severity, TileDbTable, register};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use libtest_mimic::Failed;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, UploadPart,
};
use tiledb_engine::maintain::check::Rule;

use crate::support::array_files::nested_delete;
use crate::support::neutral_rows;
use crate::support::trials::SqlTrial;
use crate::{block_on, trial};

/// What happens at the n-th request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This request and all later ones fail.
    Dies,
    /// This request never ends; the statement is cancelled.
    Hangs,
    /// A write is done, but its answer is an error; later requests work.
    LosesTheAnswer,
    /// Something else happens before this request.
    Meets,
    /// Everything can be read, and nothing written or removed.
    IsReadOnly,
}

/// An array with the rows (1, 'a') to (9, 'i').
const LETTERS: &str = "CREATE EXTERNAL TABLE t (x INT NOT NULL, s VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
                       LOCATION 'crash://store/array' OPTIONS ('tiledb.capacity' '4')";
const ROWS: &[&str] = &["INSERT INTO t SELECT i, chr(96 + i) FROM unnest(range(1, 10)) AS u(i)"];

/// A statement, and the array it starts from.
struct Case {
    name: &'static str,
    create: &'static str,
    before: &'static [&'static str],
    statement: &'static str,
}

/// Opens the table of a case.
const OPEN: &str = "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 'crash://store/array'";

const EVOLVED: &str = "CREATE EXTERNAL TABLE t (x INT NOT NULL, s VARCHAR, c VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB LOCATION \
     'crash://store/array' OPTIONS ('tiledb.attr.c.enumeration' '[\"a\", \"b\"]')";

/// Three commits of metadata, one of which removes a key that another has set.
const NOTES: [&str; 3] = [
    "SELECT * FROM tiledb_set_metadata('t', {'a': 1, 'b': 2})",
    "SELECT * FROM tiledb_set_metadata('t', {'a': 'one', 'c': [1, 2]})",
    "SELECT * FROM tiledb_delete_metadata('t', 'b')",
];
const MERGE_NOTES: &str =
    "SELECT * FROM tiledb_consolidate('crash://store/array', mode => 'array_metadata')";
const GROUP: [&str; 4] = [
    "SELECT * FROM tiledb_create_group('crash://store/group')",
    "SELECT * FROM tiledb_set_metadata('crash://store/group', {'a': 1, 'b': 2})",
    "SELECT * FROM tiledb_set_metadata('crash://store/group', {'a': 'one', 'c': [1, 2]})",
    "SELECT * FROM tiledb_delete_metadata('crash://store/group', 'b')",
];
const MERGE_GROUP: &str =
    "SELECT * FROM tiledb_consolidate('crash://store/group', mode => 'array_metadata')";

/// Fragments and a delete.
const COMMITS: [&str; 3] = [
    "INSERT INTO t SELECT i, chr(96 + i) FROM unnest(range(1, 10)) AS u(i)",
    "INSERT INTO t VALUES (2, 'two'), (20, 'twenty')",
    "DELETE FROM t WHERE x > 7",
];
const LIST_COMMITS: &str =
    "SELECT * FROM tiledb_consolidate('crash://store/array', mode => 'commits')";
const COPY_FOOTERS: &str =
    "SELECT * FROM tiledb_consolidate('crash://store/array', mode => 'fragment_metadata')";

/// Stores the deletes in the form that libtiledb misreads.
const NEST_DELETES: &str = "-- nest deletes";

const CASES: [Case; 29] = [
    Case {
        name: "insert_sparse",
        create: "CREATE EXTERNAL TABLE t (x INT NOT NULL, s VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
                 LOCATION 'crash://store/array' OPTIONS ('tiledb.capacity' '4')",
        before: &["INSERT INTO t VALUES (1, 'a'), (2, 'b')"],
        statement: "INSERT INTO t SELECT i, 'new' || i FROM unnest(range(2, 12)) AS u(i)",
    },
    Case {
        name: "insert_dense",
        create: "CREATE EXTERNAL TABLE t (x INT NOT NULL, v INT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB \
                 LOCATION 'crash://store/array' OPTIONS \
                 ('tiledb.array_type' 'dense', 'tiledb.dim.x.domain' '[0, 99]', 'tiledb.dim.x.tile' '10')",
        before: &["INSERT INTO t SELECT i, i * 10 FROM unnest(range(0, 30)) AS u(i)"],
        // Several fragments: one box is filled up, the others are full.
        statement: "INSERT INTO t VALUES (3, -3), (7, -7), (55, -55), (91, -91)",
    },
    Case {
        name: "delete_by_condition",
        create: LETTERS,
        before: ROWS,
        statement: "DELETE FROM t WHERE x > 4",
    },
    Case {
        name: "delete_by_coordinates",
        create: LETTERS,
        before: ROWS,
        statement: "DELETE FROM t WHERE s IN ('b', 'd')",
    },
    Case {
        name: "update_that_moves",
        create: LETTERS,
        before: ROWS,
        statement: "UPDATE t SET x = x + 1, s = 'new' WHERE s >= 'd'",
    },
    Case {
        name: "merge",
        create: LETTERS,
        before: ROWS,
        statement: "MERGE INTO t USING (VALUES (1, 'one'), (2, 'two'), (20, 'new')) AS n(x, s) ON t.x = n.x \
                    WHEN MATCHED AND n.x = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET s = n.s \
                    WHEN NOT MATCHED THEN INSERT (x, s) VALUES (n.x, n.s)",
    },
    Case {
        name: "overwrite",
        create: LETTERS,
        before: ROWS,
        statement: "INSERT OVERWRITE t VALUES (5, 'five'), (50, 'fifty')",
    },
    Case {
        name: "truncate",
        create: LETTERS,
        before: ROWS,
        statement: "TRUNCATE TABLE t",
    },
    Case {
        // Twice the same cell: in between, nobody may see four.
        name: "consolidate",
        create: "CREATE EXTERNAL TABLE t (x INT NOT NULL, s VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
                 LOCATION 'crash://store/array' OPTIONS ('tiledb.allows_duplicates' 'true')",
        before: &[
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            "INSERT INTO t VALUES (1, 'a'), (3, 'c')",
        ],
        statement: "SELECT * FROM tiledb_consolidate('crash://store/array', verify => true)",
    },
    Case {
        name: "vacuum",
        create: "CREATE EXTERNAL TABLE t (x INT NOT NULL, s VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
                 LOCATION 'crash://store/array' OPTIONS ('tiledb.allows_duplicates' 'true')",
        before: &[
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            "INSERT INTO t VALUES (1, 'a'), (3, 'c')",
            "SELECT * FROM tiledb_consolidate('crash://store/array')",
            "INSERT INTO t VALUES (4, 'd')",
            "SELECT * FROM tiledb_consolidate('crash://store/array')",
            "SELECT * FROM tiledb_consolidate('crash://store/array', mode => 'commits')",
        ],
        statement: "SELECT * FROM tiledb_vacuum('crash://store/array')",
    },
    Case {
        name: "create",
        create: "",
        before: &[],
        statement: "CREATE EXTERNAL TABLE t (x INT NOT NULL, c VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
                    LOCATION 'crash://store/array' OPTIONS ('tiledb.attr.c.enumeration' '[\"a\", \"b\"]')",
    },
    Case {
        name: "alter_table",
        create: EVOLVED,
        before: &["INSERT INTO t VALUES (1, 'a', 'b')"],
        statement: "ALTER TABLE t DROP COLUMN s, ADD COLUMN d INT DEFAULT 5, \
                    ADD COLUMN e VARCHAR DEFAULT 'q' OPTIONS (enumeration = '[\"p\", \"q\"]')",
    },
    Case {
        name: "extend_enumeration",
        create: EVOLVED,
        before: &["INSERT INTO t VALUES (1, 'a', 'b')"],
        statement: "SELECT * FROM tiledb_extend_enumeration('t', 'c', ['c', 'd'])",
    },
    Case {
        name: "set_metadata",
        create: EVOLVED,
        before: &["SELECT * FROM tiledb_set_metadata('t', {'a': 1, 'b': 2})"],
        statement: "SELECT * FROM tiledb_set_metadata('t', {'a': 'one', 'c': [1, 2]})",
    },
    Case {
        name: "create_group",
        create: "",
        before: &[],
        statement: "SELECT * FROM tiledb_create_group('crash://store/group')",
    },
    Case {
        name: "add_member",
        create: EVOLVED,
        before: &["SELECT * FROM tiledb_create_group('crash://store/group')"],
        statement: "SELECT * FROM tiledb_add_member('crash://store/group', 'crash://store/array', name => 'a')",
    },
    Case {
        name: "remove_member",
        create: EVOLVED,
        before: &[
            "SELECT * FROM tiledb_create_group('crash://store/group')",
            "SELECT * FROM tiledb_add_member('crash://store/group', 'crash://store/array', name => 'a')",
        ],
        statement: "SELECT * FROM tiledb_remove_member('crash://store/group', 'a')",
    },
    Case {
        name: "copy_to",
        create: "",
        before: &[],
        statement: "COPY (SELECT i AS x, 'v' || i AS s FROM unnest(range(1, 12)) AS u(i)) TO 'crash://store/array' \
                    STORED AS TILEDB PARTITIONED BY (x)",
    },
    Case {
        name: "consolidate_commits",
        create: LETTERS,
        before: &COMMITS,
        statement: LIST_COMMITS,
    },
    Case {
        name: "vacuum_commits",
        create: LETTERS,
        before: &[
            COMMITS[0],
            COMMITS[1],
            LIST_COMMITS,
            COMMITS[2],
            "INSERT INTO t VALUES (3, 'three')",
            LIST_COMMITS,
        ],
        statement: "SELECT * FROM tiledb_vacuum('crash://store/array', mode => 'commits')",
    },
    Case {
        name: "consolidate_footers",
        create: LETTERS,
        before: &COMMITS,
        statement: COPY_FOOTERS,
    },
    Case {
        name: "vacuum_footers",
        create: LETTERS,
        before: &[
            COMMITS[0],
            COMMITS[1],
            COPY_FOOTERS,
            "INSERT INTO t VALUES (3, 'three')",
            COPY_FOOTERS,
            "INSERT INTO t VALUES (4, 'four')",
            COPY_FOOTERS,
        ],
        statement: "SELECT * FROM tiledb_vacuum('crash://store/array', mode => 'fragment_metadata')",
    },
    Case {
        name: "consolidate_metadata",
        create: EVOLVED,
        before: &NOTES,
        statement: MERGE_NOTES,
    },
    Case {
        // What replaces the first ones is replaced in turn, twice.
        name: "vacuum_metadata",
        create: EVOLVED,
        before: &[
            NOTES[0],
            NOTES[1],
            MERGE_NOTES,
            NOTES[2],
            MERGE_NOTES,
            "SELECT * FROM tiledb_set_metadata('t', {'d': 4})",
            MERGE_NOTES,
        ],
        statement: "SELECT * FROM tiledb_vacuum('crash://store/array', mode => 'array_metadata')",
    },
    Case {
        // Each delete is stored twice.
        name: "rewrite_deletes",
        create: LETTERS,
        before: &[
            COMMITS[0],
            COMMITS[1],
            COMMITS[2],
            "DELETE FROM t WHERE x = 2",
            NEST_DELETES,
            LIST_COMMITS,
        ],
        statement: "SELECT * FROM tiledb_consolidate('crash://store/array', mode => 'deletes')",
    },
    Case {
        // The statement first empties the delete that tests the column, wherever it is stored.
        name: "drop_tested_column",
        create: "CREATE EXTERNAL TABLE t (x INT NOT NULL, v INT NOT NULL, s VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
                 LOCATION 'crash://store/array'",
        before: &[
            "INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')",
            "INSERT INTO t VALUES (3, 30, 'c')",
            "DELETE FROM t WHERE v BETWEEN 15 AND 25",
            "SELECT * FROM tiledb_consolidate('crash://store/array')",
            "SELECT * FROM tiledb_vacuum('crash://store/array')",
            LIST_COMMITS,
        ],
        statement: "ALTER TABLE t DROP COLUMN v",
    },
    Case {
        name: "set_metadata_of_group",
        create: "",
        before: &[GROUP[0], GROUP[1]],
        statement: GROUP[2],
    },
    Case {
        name: "consolidate_metadata_of_group",
        create: "",
        before: &GROUP,
        statement: MERGE_GROUP,
    },
    Case {
        name: "vacuum_metadata_of_group",
        create: "",
        before: &[
            GROUP[0],
            GROUP[1],
            GROUP[2],
            MERGE_GROUP,
            GROUP[3],
            MERGE_GROUP,
        ],
        statement: "SELECT * FROM tiledb_vacuum('crash://store/group', mode => 'array_metadata')",
    },
];

trials!(each_fault());

fn each_fault() -> Vec<SqlTrial> {
    let faults = [Fault::Dies, Fault::Hangs, Fault::LosesTheAnswer];
    let all = CASES
        .iter()
        .flat_map(|case| faults.map(|fault| (case, fault)));
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
    let tends = ["tiledb_consolidate(", "tiledb_vacuum("];
    let tends = tends.iter().any(|name| case.statement.contains(name));
    let before = state(&base).await?;
    // How many requests the statement takes, and what it leaves.
    let counting = Faulty::new(copy_of(&base).await?, usize::MAX, fault);
    run(&counting, case).await?;
    let after = state(&counting.inner).await?;
    if (before == after) != tends {
        return Err(format!("{} changes rows: {}", case.name, before != after).into());
    }
    let requests = counting.requests.count.load(Ordering::SeqCst);
    let remains = match tends {
        true => goes_on(&counting.inner, case, &after).await?,
        false => Vec::new(),
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
        .buffer_unordered(at_once);
    let points = points.try_collect::<Vec<_>>().await?;
    let changed = points.iter().filter(|changed| **changed).count();
    let kept = points.len() - changed;
    if tends {
        return Ok(());
    }
    let some_kept = kept > 0 || fault == Fault::LosesTheAnswer;
    match some_kept && requests > 1 {
        true => Ok(()),
        false => Err(format!("{requests} requests, {kept} kept, {changed} changed").into()),
    }
}

/// After an interrupted creation is dead, another array can be created in its place, and its leftovers are removed.
async fn used_again(
    left: &InMemory,
    case: &Case,
    created: &Option<Vec<String>>,
) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let mut objects = left.list(Some(&Path::from("array")));
    let mut is_announced = false;
    while let Some(object) = objects.next().await {
        let path = object?.location;
        let file = folder.path().join(path.to_string());
        std::fs::create_dir_all(file.parent().expect("a file is in a folder"))?;
        std::fs::write(&file, left.get(&path).await?.bytes().await?)?;
        is_announced |= path.to_string().ends_with(".new.staged");
    }
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    register(&ctx)?;
    let array = folder.path().join("array").display().to_string();
    let statement = case.statement.replace("crash://store/array", &array);
    let age = |age: Duration| -> Result<(), Failed> {
        for file in std::fs::read_dir(format!("{array}/__commits"))? {
            let times = std::fs::FileTimes::new();
            let times = times.set_modified(std::time::SystemTime::now() - age);
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
        if !told.contains("somebody else is creating an array here") {
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
            let files = std::fs::read_dir(format!("{array}/{folder}"));
            let files = files.into_iter().flatten().flatten();
            let files = files.map(|file| file.file_name().display().to_string());
            let files = files.collect::<Vec<_>>();
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

pub fn copy_folder(from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &to)?,
            false => {
                std::fs::copy(entry.path(), to)?;
            }
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
    let (place, modes) = match case.create.is_empty() {
        true => ("group", &["array_metadata"][..]),
        false => (
            "array",
            &[
                "fragments",
                "commits",
                "fragment_metadata",
                "array_metadata",
            ][..],
        ),
    };
    let uri = format!("crash://store/{place}");
    for mode in modes {
        let statement = format!("SELECT * FROM tiledb_vacuum('{uri}', mode => '{mode}')");
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
        let folders = object.location.parts().take(2);
        let folders = folders.map(|part| part.as_ref().to_owned());
        let folder = folders.collect::<Vec<_>>().join("/");
        *counted.entry(folder).or_insert(0) += 1;
    }
    Ok(counted.into_iter().collect())
}

/// A session whose tables lie in the store.
pub fn session(store: &Arc<Faulty>) -> Result<SessionContext, Failed> {
    let config = SessionConfig::new().with_target_partitions(2);
    let ctx = SessionContext::new_with_config(config);
    register(&ctx)?;
    let url = url::Url::parse("crash://store")?;
    ctx.register_object_store(&url, Arc::clone(store) as Arc<dyn ObjectStore>);
    Ok(ctx)
}

async fn run(store: &Arc<Faulty>, case: &Case) -> Result<(), String> {
    let ctx = session(store).map_err(|e| format!("{e:?}"))?;
    if !case.create.is_empty() {
        execute(&ctx, OPEN).await.map_err(|e| format!("{e:?}"))?;
    }
    let executed = execute(&ctx, case.statement).await;
    executed.map_err(|e| format!("{e:?}"))
}

/// Runs a statement to its end.
pub async fn execute(ctx: &SessionContext, sql: &str) -> Result<(), Failed> {
    datafusion_tiledb::execute(ctx, sql)
        .await?
        .collect()
        .await?;
    Ok(())
}

/// Nothing is damaged; what a crash left over is no error.
async fn check(store: &InMemory) -> Result<(), Failed> {
    for place in ["array", "group"] {
        let store: Arc<dyn ObjectStore> = Arc::new(copy_of(store).await?);
        let uri = format!("crash://store/{place}");
        let location = Location::new(store, Path::from(place), uri.as_str());
        let check = TileDbTable::builder(uri).location(location);
        let findings: Vec<_> = check.check(CheckOptions::default())?.collect().await;
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

/// What a reader finds: columns, rows, values of enumerations and metadata of the array, members of the group; or that there is
/// neither.
pub async fn state(store: &InMemory) -> Result<Option<Vec<String>>, Failed> {
    let mut found = cells(store).await?;
    let quiet = Faulty::new(copy_of(store).await?, usize::MAX, Fault::Dies);
    let ctx = session(&quiet)?;
    for described in [
        "SELECT enumeration, index, value FROM tiledb_enumerations('crash://store/array')",
        "SELECT key, type, value FROM tiledb_metadata('crash://store/array')",
        "SELECT path, type, uri FROM tiledb_members('crash://store/group')",
        "SELECT key, type, value FROM tiledb_metadata('crash://store/group')",
    ] {
        let Ok(rows) = ctx.sql(described).await?.collect().await else {
            continue;
        };
        let rows = neutral_rows::rows(&rows);
        // A group without members is a group; an array that is not there has no metadata.
        if described.contains("/group") || !rows.is_empty() {
            let found = found.get_or_insert_default();
            found.push("described".to_owned());
            found.extend(rows);
        }
    }
    Ok(found)
}

async fn cells(store: &InMemory) -> Result<Option<Vec<String>>, Failed> {
    let store: Arc<dyn ObjectStore> = Arc::new(copy_of(store).await?);
    let location = Location::new(store, Path::from("array"), "crash://store/array");
    let opened = TileDbTable::builder("crash://store/array")
        .location(location)
        .open()
        .await;
    let table = match opened {
        Ok(table) => table,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // Files of an enumeration without a schema are no array.
        Err(error) if error.kind() == ErrorKind::NotAnArray => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let ctx = SessionContext::new();
    let rows = ctx.read_table(Arc::new(table))?;
    let mut found = vec![neutral_rows::header(rows.schema().as_arrow())];
    found.extend(neutral_rows::rows(&rows.collect().await?));
    Ok(Some(found))
}

pub async fn copy_of(store: &InMemory) -> Result<InMemory, Failed> {
    let copy = InMemory::new();
    let mut objects = store.list(None);
    while let Some(object) = objects.next().await {
        let path = object?.location;
        let bytes = match store.get(&path).await {
            // A dropped statement removes its files in the background.
            Err(object_store::Error::NotFound { .. }) => continue,
            found => found?.bytes().await?,
        };
        copy.put(&path, bytes.into()).await?;
    }
    Ok(copy)
}

/// What happens before a request.
pub type Meeting = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// The requests to a store, and what happens at one of them.
pub struct Requests {
    pub count: AtomicUsize,
    at: usize,
    fault: Fault,
    meeting: Option<Meeting>,
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} at {}", self.fault, self.at)
    }
}

/// A store in memory with a fault at its n-th request.
#[derive(Debug)]
pub struct Faulty {
    pub inner: Arc<InMemory>,
    pub requests: Arc<Requests>,
}

/// What to do about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Answer,
    LoseTheAnswer,
}

impl Faulty {
    fn new(inner: InMemory, at: usize, fault: Fault) -> Arc<Self> {
        Self::with(Arc::new(inner), at, fault, None)
    }

    /// A store before whose n-th request something else happens.
    pub fn meeting(inner: Arc<InMemory>, at: usize, meeting: Meeting) -> Arc<Self> {
        Self::with(inner, at, Fault::Meets, Some(meeting))
    }

    fn with(inner: Arc<InMemory>, at: usize, fault: Fault, meeting: Option<Meeting>) -> Arc<Self> {
        let count = AtomicUsize::new(0);
        Arc::new(Self {
            inner,
            requests: Arc::new(Requests {
                count,
                at,
                fault,
                meeting,
            }),
        })
    }

    async fn request(&self) -> object_store::Result<Verdict> {
        request(&self.requests).await
    }

    /// Refuses to change anything in a store that can only be read.
    fn may_change(&self, path: &Path) -> object_store::Result<()> {
        may_change(&self.requests, path)
    }
}

/// What a store says that can only be read.
const READ_ONLY: &str = "this store can only be read";

fn may_change(requests: &Requests, path: &Path) -> object_store::Result<()> {
    match requests.fault {
        Fault::IsReadOnly => Err(object_store::Error::PermissionDenied {
            path: path.to_string(),
            source: READ_ONLY.into(),
        }),
        _ => Ok(()),
    }
}

async fn request(requests: &Requests) -> object_store::Result<Verdict> {
    let number = requests.count.fetch_add(1, Ordering::SeqCst);
    match requests.fault {
        Fault::Dies if number >= requests.at => Err(broken()),
        Fault::Hangs if number >= requests.at => futures::future::pending().await,
        Fault::LosesTheAnswer if number == requests.at => Ok(Verdict::LoseTheAnswer),
        Fault::Meets if number == requests.at => {
            if let Some(meeting) = &requests.meeting {
                meeting().await;
            }
            Ok(Verdict::Answer)
        }
        _ => Ok(Verdict::Answer),
    }
}

fn broken() -> object_store::Error {
    object_store::Error::Generic {
        store: "Faulty",
        source: "the connection broke".into(),
    }
}

fn answered<T>(verdict: Verdict, result: object_store::Result<T>) -> object_store::Result<T> {
    match verdict {
        Verdict::Answer => result,
        Verdict::LoseTheAnswer => Err(broken()),
    }
}

impl std::fmt::Display for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Faulty({:?})", self.requests)
    }
}

/// An upload in parts whose every step is a request.
#[derive(Debug)]
struct FaultyUpload {
    inner: Box<dyn MultipartUpload>,
    requests: Arc<Requests>,
}

#[async_trait::async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let put = self.inner.put_part(data);
        let requests = Arc::clone(&self.requests);
        Box::pin(async move {
            let verdict = request(&requests).await?;
            answered(verdict, put.await)
        })
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        let verdict = request(&self.requests).await?;
        answered(verdict, self.inner.complete().await)
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        request(&self.requests).await?;
        self.inner.abort().await
    }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.may_change(location)?;
        let verdict = self.request().await?;
        answered(verdict, self.inner.put_opts(location, payload, opts).await)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.may_change(location)?;
        self.request().await?;
        Ok(Box::new(FaultyUpload {
            inner: self.inner.put_multipart_opts(location, opts).await?,
            requests: Arc::clone(&self.requests),
        }))
    }

    async fn get_opts(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        let verdict = self.request().await?;
        answered(verdict, self.inner.get_opts(location, options).await)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        let requests = Arc::clone(&self.requests);
        let checked = locations.then(move |location| {
            let requests = Arc::clone(&requests);
            async move {
                request(&requests).await?;
                let location = location?;
                may_change(&requests, &location)?;
                Ok(location)
            }
        });
        self.inner.delete_stream(checked.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let requests = Arc::clone(&self.requests);
        let listed = self.inner.list(prefix);
        let first = futures::stream::once(async move {
            request(&requests).await?;
            Ok(())
        });
        first
            .flat_map(move |begun| match begun {
                Ok(()) => futures::stream::empty().boxed(),
                Err(error) => futures::stream::once(async move { Err(error) }).boxed(),
            })
            .chain(listed)
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        let verdict = self.request().await?;
        answered(verdict, self.inner.list_with_delimiter(prefix).await)
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.may_change(to)?;
        self.request().await?;
        self.inner.copy_opts(from, to, options).await
    }
}
