//! Arrays that statements create: what a statement says is what the array is, and an array says the statement that makes it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::Location;
use libtest_mimic::Failed;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use tiledb_engine::filter::generic_tile;
use tiledb_engine::format::enumeration::Enumeration;
use tiledb_engine::format::filter_list::{FilterList, MAX_CHUNK_BYTES};
use tiledb_engine::format::schema::{ArraySchema, CellValNum};
use tiledb_engine::storage::Storage;
use url::Url;

use crate::support::{fixtures, random_arrays, session_shapes};

/// What is on storage of an array's definition.
#[derive(Debug, PartialEq)]
struct Stored {
    /// The schema in today's version, without the names of files, and with the enumerations in the order of their names.
    schema: Vec<u8>,
    /// The enumerations without files, by name.
    enumerations: Vec<Enumeration>,
}

/// Reads the last schema of an array.
async fn stored(array: Location) -> Result<Stored, Failed> {
    let storage = Storage::new(array);
    let schemas = storage.list("__schema").await?;
    let file = match schemas.files.last() {
        Some(file) => format!("__schema/{}", file.name),
        None => "__array_schema.tdb".to_owned(),
    };
    let tile = generic_tile::decode(&storage.read(&file).await?, "array schema", None)?;
    let mut schema = ArraySchema::decode(&tile.data)?;
    let mut enumerations = Vec::new();
    for reference in &mut schema.enumerations {
        let file = format!("__schema/__enumerations/{}", reference.file);
        let tile = generic_tile::decode(&storage.read(&file).await?, "enumeration", None)?;
        let mut enumeration = Enumeration::decode(&tile.data)?;
        reference.file.clear();
        enumeration.file.clear();
        enumerations.push(enumeration);
    }
    schema.enumerations.sort_by(|a, b| a.name.cmp(&b.name));
    enumerations.sort_by(|a, b| a.name.cmp(&b.name));
    in_today_s_version(&mut schema);
    Ok(Stored {
        schema: schema.encode()?,
        enumerations,
    })
}

/// What old versions do not store, and readers assume.
fn in_today_s_version(schema: &mut ArraySchema) {
    for attribute in schema.attributes.iter_mut().filter(|a| a.is_unnamed()) {
        attribute.name.clear();
    }
    if !schema.version.since(7) {
        schema.validity_filters = FilterList {
            max_chunk_bytes: MAX_CHUNK_BYTES,
            ..FilterList::default()
        };
    }
    for attribute in &mut schema.attributes {
        if let (false, CellValNum::Fixed(count)) = (schema.version.since(6), attribute.cell_val_num)
        {
            attribute.fill_value = attribute.datatype.default_fill().repeat(count as usize);
        }
    }
    for dimension in &mut schema.dimensions {
        if !schema.version.since(5) {
            dimension.filters = schema.coords_filters.clone();
        }
    }
}

/// A session, and a store in memory for the arrays that it creates.
struct Workshop {
    ctx: SessionContext,
    store: Arc<InMemory>,
}

impl Workshop {
    fn open() -> Result<Self, Failed> {
        let ctx = session_shapes::USUAL.context()?;
        let store = Arc::new(InMemory::new());
        let url = Url::parse("memory://made")?;
        ctx.register_object_store(&url, Arc::clone(&store) as Arc<dyn ObjectStore>);
        Ok(Self { ctx, store })
    }

    /// Runs a statement that creates an array called `name`.
    async fn create(&self, sql: &str, name: &str) -> Result<Stored, Failed> {
        let sql = sql.replacen("CREATE EXTERNAL", "CREATE OR REPLACE EXTERNAL", 1);
        let created = self.ctx.sql(&sql).await;
        created
            .map_err(|e| format!("{e}\n{sql}"))?
            .collect()
            .await?;
        let store = Arc::clone(&self.store) as Arc<dyn ObjectStore>;
        stored(Location::new(store, name.into(), uri(name))).await
    }

    /// The statement that an array says would create it.
    async fn statement(&self, location: &str) -> Result<String, Failed> {
        let sql = format!(
            "SELECT create_statement FROM tiledb_array('{}')",
            location.replace('\'', "''")
        );
        let batches = self.ctx.sql(&sql).await?.collect().await?;
        Ok(batches[0].column(0).as_string_view().value(0).to_owned())
    }

    /// Runs the statement of one array at another location.
    async fn create_again(&self, sql: &str, from: &str, name: &str) -> Result<Stored, Failed> {
        let location = |uri: &str| format!("LOCATION '{}'", uri.replace('\'', "''"));
        let moved = sql.replace(&location(from), &location(&uri(name)));
        if moved == sql {
            Err(format!("the statement names no location:\n{sql}").into())
        } else {
            self.create(&moved, name).await
        }
    }
}

fn uri(name: &str) -> String {
    format!("memory://made/{name}")
}

/// The folders of arrays in a folder.
fn find_arrays(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Failed> {
    if folder.join("__schema").is_dir() || folder.join("__array_schema.tdb").is_file() {
        found.push(folder.to_owned());
    }
    let mut entries = fs::read_dir(folder)?
        .map(|e| e.map(|e| e.path()))
        .collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    for entry in entries {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        let inside = !name.starts_with("__") || name == "__labels";
        if inside && entry.is_dir() {
            find_arrays(&entry, found)?;
        }
    }
    Ok(())
}

/// Arrays of libtiledb that no statement makes again, by what is in their paths, and what they say about it.
const EXCEPTIONS: [(&str, &str); 5] = [
    ("labels", "dimension label"),
    ("/__labels/", "attribute \"label\" as it is stored"),
    ("/webp_", "lossy images"),
    ("_bitsort_", "filter bitsort"),
    ("/odd_names", "but for the case of letters"),
];

trial!(golden);
/// Every array of libtiledb whose schema can be read says a statement that makes the same schema again, byte for byte in today's
/// version; the exceptions say so.
async fn golden() -> Result<(), Failed> {
    let workshop = Workshop::open()?;
    let (mut whole, mut wrong) = (0, Vec::new());
    let mut met = [0; EXCEPTIONS.len()];
    let mut arrays = Vec::new();
    find_arrays(fixtures::root(), &mut arrays)?;
    for (number, array) in arrays.iter().enumerate() {
        let path = array.display().to_string();
        let Ok(wanted) = stored(Location::local(&path)?).await else {
            // It is encrypted, or broken on purpose.
            continue;
        };
        let told = workshop.statement(&path).await?;
        let comments = told
            .lines()
            .take_while(|line| line.starts_with("--"))
            .collect::<Vec<_>>()
            .join(" ");
        let exception = EXCEPTIONS
            .iter()
            .position(|(name, why)| path.contains(name) && comments.contains(why));
        if let Some(exception) = exception {
            met[exception] += 1;
        } else if !comments.is_empty() {
            wrong.push(format!("{path}: {comments}"));
        } else {
            match workshop
                .create_again(&told, &path, &number.to_string())
                .await
            {
                Ok(found) if found == wanted => whole += 1,
                Ok(found) => wrong.push(format!("{path}:\n{told}\n{found:?}\n{wanted:?}")),
                Err(e) => wrong.push(format!("{path}: {e:?}")),
            }
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n").into());
    }
    if whole < 1_000 || met.contains(&0) {
        return Err(format!("{whole} arrays were made again, and exceptions met {met:?}").into());
    }
    Ok(())
}

/// How many random statements are tried.
const STATEMENTS: u64 = 400;

trial!(random);
/// Random statements: the array says a statement that makes the same array, byte for byte, and says the same.
async fn random() -> Result<(), Failed> {
    let workshop = Workshop::open()?;
    for seed in 0..STATEMENTS {
        let (first, second) = (format!("a{seed}"), format!("b{seed}"));
        let sql = random_arrays::statement(seed, &uri(&first));
        let wanted = workshop.create(&sql, &first).await?;
        let told = workshop.statement(&uri(&first)).await?;
        if told.starts_with("--") {
            return Err(format!("{sql}\n{told}").into());
        }
        let found = workshop.create_again(&told, &uri(&first), &second).await?;
        if found != wanted {
            return Err(format!("{sql}\n{told}\n{found:?}\n{wanted:?}").into());
        }
        let retold = workshop.statement(&uri(&second)).await?;
        if told.replace(&first, "t") != retold.replace(&second, "t") {
            return Err(format!("{told}\n{retold}").into());
        }
        // Told of an array that exists, the statement agrees with it.
        workshop.create(&sql, &first).await?;
    }
    Ok(())
}

trial!(explain);
/// Neither EXPLAIN nor planning creates anything.
async fn explain() -> Result<(), Failed> {
    let ctx = session_shapes::USUAL.context()?;
    let scratch = tempfile::tempdir()?;
    let array = scratch.path().join("array");
    let create = format!(
        "CREATE EXTERNAL TABLE t (x INT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{}'",
        array.display()
    );
    ctx.state().create_logical_plan(&create).await?;
    let explained = ctx.sql(&format!("EXPLAIN {create}")).await;
    if let Ok(explained) = explained {
        let _ = explained.collect().await;
    }
    if array.exists() {
        return Err("an array was created without the statement being run".into());
    }
    ctx.sql(&create).await?.collect().await?;
    if array.join("__schema").is_dir() {
        Ok(())
    } else {
        Err("no array was created".into())
    }
}

trial!(races);
/// Many sessions create one array at once: all that succeed agree on what it is.
async fn races() -> Result<(), Failed> {
    for _ in 0..20 {
        let scratch = tempfile::tempdir()?;
        let array = scratch.path().join("array");
        let creations: Vec<_> = (1..=8).map(|capacity| {
            let location = array.display().to_string();
            tokio::spawn(async move {
                let ctx = session_shapes::USUAL.context().expect("a session");
                let create = format!(
                    "CREATE EXTERNAL TABLE t (x INT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{location}' \
                     OPTIONS ('tiledb.capacity' '{capacity}')"
                );
                let created = ctx.sql(&create).await;
                created.map(|_| capacity).map_err(|e| e.to_string())
            })
        }).collect();
        let (mut made, mut told) = (Vec::new(), Vec::new());
        for creation in creations {
            match creation.await? {
                Ok(capacity) => made.push(capacity),
                Err(error) => told.push(error),
            }
        }
        let ctx = session_shapes::USUAL.context()?;
        let sql = format!("SELECT capacity FROM tiledb_array('{}')", array.display());
        let schemas = ctx.sql(&sql).await?.collect().await?;
        let capacity = schemas[0].column(0).as_primitive::<UInt64Type>().value(0);
        if made.len() > 1 || made.iter().any(|made| *made != capacity) {
            return Err(format!("{made:?} of capacity {capacity}: {told:?}").into());
        }
        for error in told {
            if !error.contains("there is an array already")
                && !error.contains("is not what the statement says")
            {
                return Err(error.into());
            }
        }
    }
    Ok(())
}
