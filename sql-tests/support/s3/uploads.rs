//! Uploads in parts that are neither complete nor aborted.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

use hyper::body::Bytes;
use object_store::PutPayload;
use object_store::path::Path;
use s3s::dto::{CompletedPart, ETag};
use s3s::{S3Result, s3_error};

/// A part of an upload.
struct UploadedPart {
    e_tag: String,
    content: Bytes,
}

/// An upload that has begun.
struct PendingUpload {
    location: Path,
    parts: BTreeMap<i32, UploadedPart>,
}

#[derive(Default)]
struct UploadTable {
    uploads: HashMap<String, PendingUpload>,
    /// The number of identifiers and ETags that were given out.
    given_out: usize,
}

impl UploadTable {
    fn unique_name(&mut self, kind: &str) -> String {
        self.given_out += 1;
        format!("{kind}-{}", self.given_out)
    }

    fn upload(&mut self, id: &str, location: &Path) -> S3Result<&mut PendingUpload> {
        self.uploads
            .get_mut(id)
            .filter(|upload| upload.location == *location)
            .ok_or_else(|| {
                s3_error!(
                    NoSuchUpload,
                    "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed."
                )
            })
    }
}

/// The uploads of a server.
#[derive(Default)]
pub struct PendingUploads(Mutex<UploadTable>);

impl PendingUploads {
    fn table(&self) -> MutexGuard<'_, UploadTable> {
        self.0.lock().expect("nobody panics while holding it")
    }

    /// The number of uploads that are neither complete nor aborted.
    pub fn count(&self) -> usize {
        self.table().uploads.len()
    }

    /// Begins an upload, and returns its identifier.
    pub fn begin(&self, location: Path) -> String {
        let mut table = self.table();
        let id = table.unique_name("upload");
        let parts = BTreeMap::new();
        let upload = PendingUpload { location, parts };
        table.uploads.insert(id.clone(), upload);
        id
    }

    /// Adds or replaces a part, and returns its ETag.
    pub fn add_part(
        &self,
        id: &str,
        location: &Path,
        number: i32,
        content: Bytes,
    ) -> S3Result<ETag> {
        let mut table = self.table();
        let e_tag = table.unique_name("part");
        let upload = table.upload(id, location)?;
        let part = UploadedPart {
            e_tag: e_tag.clone(),
            content,
        };
        upload.parts.insert(number, part);
        Ok(ETag::Strong(e_tag))
    }

    /// The content of an upload that consists of the listed parts. All of them but the last one must have the least size.
    pub fn content(
        &self,
        id: &str,
        location: &Path,
        listed: &[CompletedPart],
        least_size: usize,
    ) -> S3Result<PutPayload> {
        let mut table = self.table();
        let upload = table.upload(id, location)?;
        if listed.is_empty() {
            return Err(s3_error!(MalformedXML, "The list of parts is empty"));
        }
        if !listed.is_sorted_by(|one, next| one.part_number < next.part_number) {
            return Err(s3_error!(
                InvalidPartOrder,
                "The list of parts was not in ascending order"
            ));
        }
        let mut contents = Vec::with_capacity(listed.len());
        for (index, part) in listed.iter().enumerate() {
            let found = part.part_number.and_then(|n| upload.parts.get(&n));
            let e_tag = part.e_tag.as_ref().map(ETag::value);
            let Some(found) = found.filter(|found| Some(found.e_tag.as_str()) == e_tag) else {
                return Err(s3_error!(
                    InvalidPart,
                    "One or more of the specified parts could not be found"
                ));
            };
            if found.content.len() < least_size && index + 1 < listed.len() {
                return Err(s3_error!(
                    EntityTooSmall,
                    "Your proposed upload is smaller than the minimum allowed size"
                ));
            }
            contents.push(found.content.clone());
        }
        Ok(contents.into_iter().collect())
    }

    /// Forgets an upload, which is complete or aborted.
    pub fn end(&self, id: &str, location: &Path) -> S3Result<()> {
        let mut table = self.table();
        table.upload(id, location)?;
        table.uploads.remove(id);
        Ok(())
    }
}
