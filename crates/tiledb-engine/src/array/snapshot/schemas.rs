//! The schemas of an array and their enumerations, and whether the array is encrypted, which only its schemas show.
//!
//! The subtle thing: libtiledb evolves an encrypted array with a plain schema and plain enumerations, and then refuses to
//! open the array. Here these alone are taken, and only as what an evolution can make of the encrypted ones: a plain
//! schema may add and drop attributes, and a plain enumeration may be new or have more values. Anything else, such as
//! other dimensions, types or filters, would let a writer without the key give the cells another meaning.

use std::collections::HashMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::join_all;

use crate::array::directory::{ArrayDirectory, ArrayFile, ENUMERATIONS_FOLDER, SCHEMA_FOLDER};
use crate::array::window::OpenWindow;
use crate::arrow::ArrayEnumerations;
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::filter::generic_tile;
use crate::format::enumeration::Enumeration;
use crate::format::filter_list::{Filter, FilterList};
use crate::format::schema::{ArraySchema, Dimension, EnumerationRef};
use crate::storage::{Storage, once_finished};

/// A schema, and whether its file is encrypted.
#[derive(Debug, Clone)]
struct SchemaFile {
    schema: Arc<ArraySchema>,
    encrypted: bool,
}

/// The files of schemas and enumerations that aren't cached: of all of them if they are small, otherwise the schema that `window`
/// shows.
pub(super) fn unread(
    storage: &Storage,
    directory: &ArrayDirectory,
    window: &OpenWindow,
    most_bytes: u64,
) -> Vec<String> {
    // The sizes come from the store and may be wrong.
    let sum = |bytes: u64, more: u64| bytes.saturating_add(more);
    let newest = directory.schema_at(window).ok();
    let sizes = directory.schemas().iter().map(|file| file.info.bytes);
    let bytes = sizes.fold(0, sum);
    let files = directory.schemas().iter().filter(|file| {
        let is_wanted =
            bytes <= most_bytes || newest.is_some_and(|newest| newest.info.name == file.info.name);
        let key = storage.cache_key(&file.path(), 0, &file.info);
        is_wanted && storage.cache().get::<SchemaFile>(key).is_none()
    });
    let mut unread: Vec<_> = files.map(ArrayFile::path).collect();
    let sizes = directory.listed_enumerations().map(|(_, bytes)| bytes);
    if sizes.fold(0, sum) <= most_bytes {
        let paths = directory.listed_enumerations().map(|(path, _)| path);
        unread.extend(paths.filter(|path| {
            let key = storage.cache_key_immutable(path, 0);
            storage.cache().get::<EnumerationFile>(key).is_none()
        }));
    }
    unread
}

/// The schema that `window` shows, and the storage with the key only if the array is encrypted.
pub(in crate::array) async fn open_schema(
    storage: &Storage,
    window: OpenWindow,
    directory: &ArrayDirectory,
) -> Result<(Storage, Arc<ArraySchema>)> {
    let file = directory.schema_at(&window)?;
    let newest = load_file(storage, file).await?;
    let storage = settle_key(storage, directory, &newest).await?;
    let schema = load_schema(&storage, directory, file).await?;
    Ok((storage, schema))
}

/// The storage with the key only if the array is encrypted, which its schemas show.
async fn settle_key(
    storage: &Storage,
    directory: &ArrayDirectory,
    newest: &SchemaFile,
) -> Result<Storage> {
    let Some(key) = storage.encryption_key().cloned() else {
        return Ok(storage.clone());
    };
    let with_key = storage.clone().with_encryption_key(Some(key));
    if newest.encrypted {
        return Ok(with_key);
    }
    // An evolution by libtiledb leaves the newest schema plain, so the other schemas decide.
    for file in directory.schemas() {
        if load_file(storage, file).await?.encrypted {
            return Ok(with_key);
        }
    }
    if storage.has_key_on_demand() {
        return Ok(storage.clone().with_encryption_key(None));
    }
    Err(Error::encryption(
        "an encryption key was given but the array is not encrypted",
    ))
}

/// The schema in a file. The storage has a key only if the array is encrypted.
pub(super) async fn load_schema(
    storage: &Storage,
    directory: &ArrayDirectory,
    file: &ArrayFile,
) -> Result<Arc<ArraySchema>> {
    let loaded = load_file(storage, file).await?;
    if storage.encryption_key().is_some() && !loaded.encrypted {
        let known = encrypted_schemas(storage, directory).await?;
        check_evolved(&known, &loaded.schema).context("file", || file.path())?;
    }
    Ok(loaded.schema)
}

/// Reads a schema in the folder of schemas, which may have been put there after they were listed, and its enumerations.
pub(in crate::array) async fn read_schema(
    storage: &Storage,
    directory: &ArrayDirectory,
    name: &str,
) -> Result<(ArraySchema, ArrayEnumerations)> {
    let path = format!("{SCHEMA_FOLDER}/{name}");
    let read = async {
        let bytes = storage.read(&path).await?;
        let (SchemaFile { schema, encrypted }, _) = decode(&bytes, &path, storage)?;
        if storage.encryption_key().is_some() && !encrypted {
            check_evolved(&encrypted_schemas(storage, directory).await?, &schema)?;
        }
        let enumerations = load_enumerations(storage, directory, &schema).await?;
        Ok((Arc::unwrap_or_clone(schema), enumerations))
    };
    read.await.context("file", || path)
}

async fn load_file(storage: &Storage, file: &ArrayFile) -> Result<SchemaFile> {
    let path = file.path();
    let load = || async { decode(&storage.read(&path).await?, &path, storage) }.boxed();
    let key = storage.cache_key(&path, 0, &file.info);
    storage
        .cache()
        .get_or_load(key, once_finished(&file.info, load))
        .await
        .map(|schema| schema.as_ref().clone())
        .context("file", || path)
}

/// A schema, and the memory that it takes.
fn decode(bytes: &[u8], path: &str, storage: &Storage) -> Result<(SchemaFile, usize)> {
    let tile = storage.decode_generic_tile_or_plain(bytes, "array schema")?;
    let mut schema = ArraySchema::decode(&tile.data)?;
    schema.locate_problems(path);
    let schema = SchemaFile {
        schema: Arc::new(schema),
        encrypted: tile.encrypted,
    };
    Ok((schema, tile.data.len().saturating_mul(2)))
}

async fn encrypted_schemas(
    storage: &Storage,
    directory: &ArrayDirectory,
) -> Result<Vec<Arc<ArraySchema>>> {
    let mut encrypted = Vec::new();
    for file in directory.schemas() {
        let loaded = load_file(storage, file).await?;
        if loaded.encrypted {
            encrypted.push(loaded.schema);
        }
    }
    Ok(encrypted)
}

/// A dimension without its filters: libtiledb writes those of the schema with each dimension when it evolves an array, and tiles
/// are read by the filters of the schema that their fragment was written with.
fn unfiltered(dimension: &Dimension) -> Dimension {
    Dimension {
        filters: FilterList::default(),
        ..dimension.clone()
    }
}

/// Fails unless `plain` is what evolutions can make of the encrypted schemas.
fn check_evolved(encrypted: &[Arc<ArraySchema>], plain: &ArraySchema) -> Result<()> {
    let refuse = |what: &str| {
        Err(Error::new(
            ErrorKind::NotEncrypted,
            format!(
                "the array schema is not encrypted, and {what}, which no evolution of the array's encrypted schemas can make: \
             whoever put it there did not know the key; remove the file"
            ),
        ))
    };
    let Some(newest) = encrypted.last() else {
        return Err(generic_tile::is_plain("array schema"));
    };
    let frame = |schema: &ArraySchema| {
        let filters = [
            schema.coords_filters.clone(),
            schema.offsets_filters.clone(),
            schema.validity_filters.clone(),
        ];
        let orders = (schema.tile_order, schema.cell_order, schema.capacity);
        (schema.array_type, schema.allows_duplicates, orders, filters)
    };
    if frame(plain) != frame(newest) || plain.version < newest.version {
        return refuse("has another array type, order, capacity, version or list of filters");
    }
    if !plain
        .dimensions
        .iter()
        .map(unfiltered)
        .eq(newest.dimensions.iter().map(unfiltered))
    {
        return refuse("has other dimensions");
    }
    if plain.labels != newest.labels {
        return refuse("has other dimension labels");
    }
    for attribute in &plain.attributes {
        let schemas = encrypted.iter().flat_map(|schema| &schema.attributes);
        let mut known = schemas.filter(|known| known.name == attribute.name);
        let is_known = known.clone().next().is_some();
        if is_known && !known.any(|known| known == attribute) {
            return refuse(&format!("changes the attribute \"{}\"", attribute.name));
        }
        // The coordinates beside an attribute under bitsort are stored without encryption.
        if !is_known && attribute.filters.contains(|f| *f == Filter::Bitsort) {
            return refuse(&format!(
                "adds the attribute \"{}\" with the filter bitsort",
                attribute.name
            ));
        }
    }
    Ok(())
}

/// Reads the enumerations of a schema. A damaged one only affects the attributes that use it; a failure of the storage,
/// a wrong key, or a plain one that cannot be an evolution, is an error of the whole array.
pub(in crate::array) async fn load_enumerations(
    storage: &Storage,
    directory: &ArrayDirectory,
    schema: &ArraySchema,
) -> Result<ArrayEnumerations> {
    let mut enumerations = HashMap::new();
    let loaded = schema.enumerations.iter().map(|reference| async move {
        let loaded = load_enumeration(storage, reference).await?;
        if storage.encryption_key().is_some() && !loaded.encrypted {
            check_extended(storage, directory, reference, &loaded.enumeration).await?;
        }
        Ok(Arc::clone(&loaded.enumeration))
    });
    for (reference, loaded) in schema.enumerations.iter().zip(join_all(loaded).await) {
        let enumeration = loaded.map_err(|e: Error| {
            let path = enumeration_path(reference);
            let e = e.with("enumeration", &reference.name).with("file", path);
            match e.kind() {
                ErrorKind::NotFound => e.with_kind(ErrorKind::Corrupt),
                _ => e,
            }
        });
        let enumeration = match enumeration {
            Err(e) if e.is_about_data() => Err(Arc::new(e)),
            enumeration => Ok(enumeration?),
        };
        enumerations.insert(reference.name.clone(), enumeration);
    }
    Ok(enumerations)
}

/// An enumeration, and whether its file is encrypted.
#[derive(Debug)]
struct EnumerationFile {
    enumeration: Arc<Enumeration>,
    encrypted: bool,
}

fn enumeration_path(reference: &EnumerationRef) -> String {
    format!("{ENUMERATIONS_FOLDER}/{}", reference.file)
}

async fn load_enumeration(
    storage: &Storage,
    reference: &EnumerationRef,
) -> Result<Arc<EnumerationFile>> {
    // The names of enumeration files are unique forever, so no listing is needed to find a version.
    let path = enumeration_path(reference);
    let load = async {
        let bytes = storage.read(&path).await?;
        let tile = storage.decode_generic_tile_or_plain(&bytes, "enumeration")?;
        let file = EnumerationFile {
            enumeration: Arc::new(Enumeration::decode(&tile.data)?),
            encrypted: tile.encrypted,
        };
        Ok((file, tile.data.len()))
    };
    let key = storage.cache_key_immutable(&path, 0);
    storage.cache().get_or_load(key, load).await
}

/// Fails if an encrypted schema has the plain enumeration, or one of its name whose values it does not keep.
async fn check_extended(
    storage: &Storage,
    directory: &ArrayDirectory,
    plain: &EnumerationRef,
    values: &Enumeration,
) -> Result<()> {
    for schema in encrypted_schemas(storage, directory).await? {
        let of_that_name = schema.enumerations.iter().find(|e| e.name == plain.name);
        let Some(known) = of_that_name else {
            continue;
        };
        if known.file == plain.file {
            return Err(generic_tile::is_plain("enumeration"));
        }
        let known = load_enumeration(storage, known).await?;
        if known.encrypted && !values.extends(&known.enumeration) {
            return Err(Error::new(
                ErrorKind::NotEncrypted,
                "the enumeration is not encrypted and has other values than the encrypted one of its name: whoever put it \
                 there did not know the key; remove the schema that names it",
            ));
        }
    }
    Ok(())
}
