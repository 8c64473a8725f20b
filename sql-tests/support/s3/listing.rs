//! Pages of listings.

use std::time::SystemTime;

use object_store::ObjectMeta;
use s3s::dto::{CommonPrefix, ETag, ListObjectsV2Input, ListObjectsV2Output, Object, Timestamp};
use s3s::{S3Result, s3_error};

/// An object of a bucket: its key, and its properties.
pub type KeyedObject = (String, ObjectMeta);

/// An object, or the beginning that several keys share.
enum ListingEntry {
    Object(KeyedObject),
    CommonPrefix(String),
}

impl ListingEntry {
    /// The name by which entries are ordered, and after which a page continues.
    fn name(&self) -> &str {
        match self {
            Self::Object((key, _)) => key,
            Self::CommonPrefix(prefix) => prefix,
        }
    }
}

/// The ETag of an object, as s3s sends it.
pub fn e_tag(object: &ObjectMeta) -> Option<ETag> {
    object.e_tag.clone().map(ETag::Strong)
}

/// The time of an object, as s3s sends it.
pub fn last_modified(object: &ObjectMeta) -> Timestamp {
    SystemTime::from(object.last_modified).into()
}

/// All entries of a listing, in order. Keys with the delimiter behind the prefix become common prefixes.
fn entries(objects: Vec<KeyedObject>, input: &ListObjectsV2Input) -> Vec<ListingEntry> {
    let prefix = input.prefix.as_deref().unwrap_or("");
    let start_after = input.start_after.as_deref().unwrap_or("");
    let delimiter = input.delimiter.as_deref().filter(|text| !text.is_empty());
    let mut entries: Vec<ListingEntry> = Vec::new();
    for (key, object) in objects {
        let Some(rest) = key.strip_prefix(prefix) else {
            continue;
        };
        if key.as_str() <= start_after {
            continue;
        }
        let common = delimiter.and_then(|text| Some(rest.find(text)? + text.len()));
        let entry = match common {
            Some(length) => ListingEntry::CommonPrefix(format!("{prefix}{}", &rest[..length])),
            None => ListingEntry::Object((key, object)),
        };
        if entries.last().map(ListingEntry::name) != Some(entry.name()) {
            entries.push(entry);
        }
    }
    entries
}

fn listed_object((key, object): KeyedObject) -> Object {
    Object {
        e_tag: e_tag(&object),
        last_modified: Some(last_modified(&object)),
        size: i64::try_from(object.size).ok(),
        key: Some(key),
        ..Object::default()
    }
}

/// The page of a listing that the input asks for, of at most so many entries. The objects are in the order of their keys.
pub fn page(
    objects: Vec<KeyedObject>,
    input: ListObjectsV2Input,
    page_length: usize,
) -> S3Result<ListObjectsV2Output> {
    if input.encoding_type.is_some() {
        return Err(s3_error!(NotImplemented, "Keys are never encoded"));
    }
    let mut entries = entries(objects, &input);
    if let Some(token) = &input.continuation_token {
        entries.retain(|entry| entry.name() > token.as_str());
    }
    let is_truncated = page_length > 0 && entries.len() > page_length;
    entries.truncate(page_length);
    let next = entries.last().filter(|_| is_truncated);
    let next_continuation_token = next.map(|entry| entry.name().to_owned());
    let key_count = i32::try_from(entries.len()).ok();
    let mut contents = Vec::new();
    let mut common_prefixes = Vec::new();
    for entry in entries {
        match entry {
            ListingEntry::Object(object) => contents.push(listed_object(object)),
            ListingEntry::CommonPrefix(prefix) => common_prefixes.push(CommonPrefix {
                prefix: Some(prefix),
            }),
        }
    }
    Ok(ListObjectsV2Output {
        name: Some(input.bucket),
        prefix: input.prefix,
        delimiter: input.delimiter,
        start_after: input.start_after,
        continuation_token: input.continuation_token,
        next_continuation_token,
        is_truncated: Some(is_truncated),
        key_count,
        max_keys: i32::try_from(page_length).ok(),
        contents: Some(contents),
        common_prefixes: Some(common_prefixes),
        ..ListObjectsV2Output::default()
    })
}
