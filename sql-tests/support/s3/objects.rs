//! The operations of S3 on objects in memory.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt;
use http_body_util::BodyExt;
use hyper::body::Bytes;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    UpdateVersion,
};
use s3s::auth::Credentials;
use s3s::dto::*;
use s3s::{Body, S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use super::listing;
use super::options::{S3Action, S3ServerOptions};
use super::uploads::PendingUploads;

/// Answers requests from objects in memory, in which the first segment of a path is the bucket.
pub struct MemoryObjects {
    pub objects: Arc<InMemory>,
    pub uploads: Arc<PendingUploads>,
    pub options: Arc<S3ServerOptions>,
}

/// The properties and the content of an object.
struct ReadObject {
    meta: ObjectMeta,
    content: Bytes,
}

/// The place of an object. A key that `object_store` would write in another way has none.
fn location(bucket: &str, key: &str) -> S3Result<Path> {
    let whole = format!("{bucket}/{key}");
    match Path::parse(&whole) {
        Ok(path) if path.as_ref() == whole => Ok(path),
        _ => Err(s3_error!(
            InvalidArgument,
            "The server has no place for the key {key}"
        )),
    }
}

fn store_error(error: object_store::Error) -> S3Error {
    use object_store::Error;
    match error {
        Error::NotFound { .. } => {
            s3_error!(NoSuchKey, "The specified key does not exist.")
        }
        Error::AlreadyExists { .. } | Error::Precondition { .. } => s3_error!(
            PreconditionFailed,
            "At least one of the pre-conditions you specified did not hold"
        ),
        Error::NotModified { .. } => S3ErrorCode::NotModified.into(),
        error => S3Error::internal_error(error),
    }
}

/// The condition as `object_store` compares it with ETags.
fn condition(condition: Option<ETagCondition>) -> Option<String> {
    condition.map(|condition| match condition {
        ETagCondition::Any => "*".to_owned(),
        ETagCondition::ETag(e_tag) => e_tag.into_value(),
    })
}

/// The bytes that a range of an object covers. No range of an empty object is satisfiable.
fn covered(range: s3s::dto::Range, size: usize) -> S3Result<Range<usize>> {
    let unsatisfiable = || s3_error!(InvalidRange, "The requested range is not satisfiable");
    let bytes = range.check(size as u64)?;
    if bytes.is_empty() {
        return Err(unsatisfiable());
    }
    let start = usize::try_from(bytes.start).map_err(|_| unsatisfiable())?;
    let end = usize::try_from(bytes.end).map_err(|_| unsatisfiable())?;
    Ok(start..end)
}

/// The content of a request.
async fn received(body: Option<StreamingBlob>) -> S3Result<Bytes> {
    let Some(body) = body else {
        return Ok(Bytes::new());
    };
    let collected = Body::from(body).collect().await;
    let collected =
        collected.map_err(|error| S3Error::with_source(S3ErrorCode::BadDigest, error))?;
    Ok(collected.to_bytes())
}

impl MemoryObjects {
    /// Reads an object under the conditions of a request.
    async fn read(
        &self,
        (bucket, key): (&str, &str),
        if_match: Option<ETagCondition>,
        if_none_match: Option<ETagCondition>,
        reader: Option<&Credentials>,
    ) -> S3Result<ReadObject> {
        let location = location(bucket, key)?;
        let options = GetOptions {
            if_match: condition(if_match),
            if_none_match: condition(if_none_match),
            ..GetOptions::default()
        };
        let found = self.objects.get_opts(&location, options).await;
        let found = found.map_err(|error| self.hidden(store_error(error), reader, bucket))?;
        let meta = found.meta.clone();
        let content = found.bytes().await.map_err(store_error)?;
        Ok(ReadObject { meta, content })
    }

    /// An error of a reader. S3 hides from those who may not list a bucket that an object is missing.
    fn hidden(&self, error: S3Error, reader: Option<&Credentials>, bucket: &str) -> S3Error {
        let access_key = reader.map(|keys| keys.access_key.as_str());
        let lists = self
            .options
            .bucket(bucket)
            .is_some_and(|bucket| self.options.allows(access_key, S3Action::List, bucket));
        if *error.code() == S3ErrorCode::NoSuchKey && !lists {
            return s3_error!(AccessDenied, "Access Denied");
        }
        error
    }

    /// The mode of a write under the conditions of its request.
    fn put_mode(
        if_match: Option<ETagCondition>,
        if_none_match: Option<ETagCondition>,
    ) -> S3Result<PutMode> {
        let unknown = || s3_error!(NotImplemented, "The server does not know this condition");
        match (if_match, if_none_match) {
            (None, None) => Ok(PutMode::Overwrite),
            (None, Some(ETagCondition::Any)) => Ok(PutMode::Create),
            (Some(ETagCondition::ETag(e_tag)), None) => Ok(PutMode::Update(UpdateVersion {
                e_tag: Some(e_tag.into_value()),
                version: None,
            })),
            _ => Err(unknown()),
        }
    }

    async fn write(
        &self,
        location: &Path,
        content: PutPayload,
        mode: PutMode,
    ) -> S3Result<Option<ETag>> {
        let options = PutOptions::from(mode);
        let put = self.objects.put_opts(location, content, options).await;
        Ok(put.map_err(store_error)?.e_tag.map(ETag::Strong))
    }

    async fn delete(&self, location: &Path) -> S3Result<()> {
        match self.objects.delete(location).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(store_error(error)),
        }
    }
}

#[async_trait]
impl S3 for MemoryObjects {
    async fn head_bucket(
        &self,
        req: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        let bucket = self.options.bucket(&req.input.bucket);
        Ok(S3Response::new(HeadBucketOutput {
            bucket_region: bucket.and_then(|bucket| bucket.region.clone()),
            ..HeadBucketOutput::default()
        }))
    }

    async fn get_bucket_location(
        &self,
        req: S3Request<GetBucketLocationInput>,
    ) -> S3Result<S3Response<GetBucketLocationOutput>> {
        let bucket = self.options.bucket(&req.input.bucket);
        let region = bucket.and_then(|bucket| bucket.region.clone());
        // The name of the first region is empty here.
        let region = region.filter(|region| region != "us-east-1");
        Ok(S3Response::new(GetBucketLocationOutput {
            location_constraint: region.map(BucketLocationConstraint::from),
        }))
    }

    async fn head_object(
        &self,
        req: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let input = req.input;
        let place = (input.bucket.as_str(), input.key.as_str());
        let reader = req.credentials.as_ref();
        let found = self.read(place, input.if_match, input.if_none_match, reader);
        let found = found.await?;
        Ok(S3Response::new(HeadObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            content_length: i64::try_from(found.meta.size).ok(),
            e_tag: listing::e_tag(&found.meta),
            last_modified: Some(listing::last_modified(&found.meta)),
            ..HeadObjectOutput::default()
        }))
    }

    async fn get_object(
        &self,
        req: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let input = req.input;
        let place = (input.bucket.as_str(), input.key.as_str());
        let reader = req.credentials.as_ref();
        let found = self.read(place, input.if_match, input.if_none_match, reader);
        let mut found = found.await?;
        let size = found.content.len();
        let mut content_range = None;
        if let Some(range) = input.range {
            let bytes = covered(range, size)?;
            content_range = Some(format!("bytes {}-{}/{size}", bytes.start, bytes.end - 1));
            found.content = found.content.slice(bytes);
        }
        Ok(S3Response::new(GetObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            content_length: i64::try_from(found.content.len()).ok(),
            content_range,
            e_tag: listing::e_tag(&found.meta),
            last_modified: Some(listing::last_modified(&found.meta)),
            body: Some(Body::from(found.content).into()),
            ..GetObjectOutput::default()
        }))
    }

    async fn list_objects_v2(
        &self,
        req: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let bucket = Path::from(req.input.bucket.as_str());
        let found: Vec<ObjectMeta> = self
            .objects
            .list(Some(&bucket))
            .try_collect()
            .await
            .map_err(store_error)?;
        let keyed = found.into_iter().filter_map(|object| {
            let key = object.location.as_ref().split_once('/')?.1.to_owned();
            Some((key, object))
        });
        let length = self.options.page_length(req.input.max_keys);
        let page = listing::page(keyed.collect(), req.input, length)?;
        Ok(S3Response::new(page))
    }

    async fn put_object(
        &self,
        req: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let input = req.input;
        let location = location(&input.bucket, &input.key)?;
        let mode = Self::put_mode(input.if_match, input.if_none_match)?;
        let content = received(input.body).await?;
        Ok(S3Response::new(PutObjectOutput {
            e_tag: self.write(&location, content.into(), mode).await?,
            ..PutObjectOutput::default()
        }))
    }

    async fn delete_object(
        &self,
        req: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        let input = req.input;
        self.delete(&location(&input.bucket, &input.key)?).await?;
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn delete_objects(
        &self,
        req: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let input = req.input;
        let mut deleted = Vec::new();
        for object in input.delete.objects {
            self.delete(&location(&input.bucket, &object.key)?).await?;
            deleted.push(DeletedObject {
                key: Some(object.key),
                ..DeletedObject::default()
            });
        }
        let is_quiet = input.delete.quiet == Some(true);
        Ok(S3Response::new(DeleteObjectsOutput {
            deleted: (!is_quiet).then_some(deleted),
            ..DeleteObjectsOutput::default()
        }))
    }

    async fn create_multipart_upload(
        &self,
        req: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let input = req.input;
        let id = self.uploads.begin(location(&input.bucket, &input.key)?);
        Ok(S3Response::new(CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(id),
            ..CreateMultipartUploadOutput::default()
        }))
    }

    async fn upload_part(
        &self,
        req: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        let input = req.input;
        let location = location(&input.bucket, &input.key)?;
        let content = received(input.body).await?;
        let uploads = &self.uploads;
        let e_tag = uploads.add_part(&input.upload_id, &location, input.part_number, content)?;
        Ok(S3Response::new(UploadPartOutput {
            e_tag: Some(e_tag),
            ..UploadPartOutput::default()
        }))
    }

    async fn complete_multipart_upload(
        &self,
        req: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let input = req.input;
        let location = location(&input.bucket, &input.key)?;
        let mode = Self::put_mode(input.if_match, input.if_none_match)?;
        let listed = input.multipart_upload.and_then(|upload| upload.parts);
        let listed = listed.unwrap_or_default();
        let least = self.options.least_part_size;
        let uploads = &self.uploads;
        let content = uploads.content(&input.upload_id, &location, &listed, least)?;
        let e_tag = self.write(&location, content, mode).await?;
        uploads.end(&input.upload_id, &location)?;
        Ok(S3Response::new(CompleteMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag,
            ..CompleteMultipartUploadOutput::default()
        }))
    }

    async fn abort_multipart_upload(
        &self,
        req: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let input = req.input;
        let location = location(&input.bucket, &input.key)?;
        self.uploads.end(&input.upload_id, &location)?;
        Ok(S3Response::new(AbortMultipartUploadOutput::default()))
    }
}
