//! Loading of schemas and their enumerations, which also shows whether the array is encrypted.

use std::collections::HashMap;
use std::sync::Arc;

use crate::array::directory::{ArrayDirectory, ArrayFile, ENUMERATIONS_FOLDER};
use crate::array::window::OpenWindow;
use crate::arrow::Enumerations;
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::filter::generic_tile;
use crate::format::enumeration::Enumeration;
use crate::format::schema::ArraySchema;
use crate::storage::Storage;

/// A schema, and whether its file is encrypted.
#[derive(Debug, Clone)]
pub(super) struct SchemaFile {
    pub(super) schema: Arc<ArraySchema>,
    encrypted: bool,
}

/// The schema that `window` shows, and the storage with the key only if the array is encrypted.
pub(in crate::array) async fn open_schema(
    storage: &Storage,
    window: OpenWindow,
    directory: &ArrayDirectory,
) -> Result<(Storage, Arc<ArraySchema>)> {
    let newest = load_schema(storage, directory.schema_at(&window)?).await?;
    let storage = settle_key(storage, directory, &newest).await?;
    Ok((storage, newest.schema))
}

/// The storage with the key only if the array is encrypted, which its schemas show.
async fn settle_key(
    storage: &Storage,
    directory: &ArrayDirectory,
    newest: &SchemaFile,
) -> Result<Storage> {
    if storage.encryption_key().is_none() || newest.encrypted {
        return Ok(storage.clone());
    }
    // libtiledb writes an unencrypted schema when it evolves an encrypted array, so the other schemas decide.
    for file in directory.schemas() {
        if load_schema(storage, file).await?.encrypted {
            return Ok(storage.clone());
        }
    }
    if storage.has_key_on_demand() {
        return Ok(storage.clone().with_encryption_key(None));
    }
    Err(Error::encryption(
        "an encryption key was given but the array is not encrypted",
    ))
}

pub(super) async fn load_schema(storage: &Storage, file: &ArrayFile) -> Result<SchemaFile> {
    let path = file.path();
    let load = async {
        let bytes = storage.read(&path).await?;
        let tile = generic_tile::decode(&bytes, "array schema", storage.encryption_key())?;
        let mut schema = ArraySchema::decode(&tile.data)?;
        schema.locate_problems(&path);
        let schema = SchemaFile {
            schema: Arc::new(schema),
            encrypted: tile.encrypted,
        };
        Ok((schema, tile.data.len().saturating_mul(2)))
    };
    let key = storage.cache_key(&path, 0, &file.info);
    storage
        .cache()
        .get_or_load(key, load)
        .await
        .map(|schema| schema.as_ref().clone())
        .context("file", || path)
}

/// Reads the enumerations of a schema. A damaged one only affects the attributes that use it; a failure of the storage,
/// or a wrong key, is an error of the whole array.
pub(in crate::array) async fn load_enumerations(
    storage: &Storage,
    schema: &ArraySchema,
) -> Result<Enumerations> {
    let mut enumerations = HashMap::new();
    if schema.enumerations.is_empty() {
        return Ok(enumerations);
    }
    // The names of enumeration files are unique forever, so no listing is needed to find a version.
    for reference in &schema.enumerations {
        let path = format!("{ENUMERATIONS_FOLDER}/{}", reference.file);
        let load = async {
            let bytes = storage.read(&path).await?;
            let tile = generic_tile::decode(&bytes, "enumeration", storage.encryption_key())?;
            Ok((Enumeration::decode(&tile.data)?, tile.data.len()))
        };
        let key = storage.cache_key_immutable(&path, 0);
        let enumeration = storage
            .cache()
            .get_or_load(key, load)
            .await
            .map_err(|e| match e.kind() {
                ErrorKind::NotFound => e.with_kind(ErrorKind::Corrupt),
                _ => e,
            })
            .map_err(|e| e.with("enumeration", &reference.name).with("file", path));
        let enumeration = match enumeration {
            Err(e) if e.is_about_data() => Err(Arc::new(e)),
            enumeration => Ok(enumeration?),
        };
        enumerations.insert(reference.name.clone(), enumeration);
    }
    Ok(enumerations)
}
