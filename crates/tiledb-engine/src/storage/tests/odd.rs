//! A store in memory that misbehaves in one of several ways, as real stores do.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

use super::*;
use crate::error::ErrorKind;

/// A store in memory that misbehaves.
#[derive(Debug)]
pub(super) struct Odd {
    inner: InMemory,
    oddity: Oddity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Oddity {
    NoSuffix,
    DropsBytes,
    ShiftsRanges,
    ListsTheFolderItself,
    Fails,
}

impl Odd {
    pub(super) fn store(oddity: Oddity) -> Arc<dyn ObjectStore> {
        let inner = InMemory::new();
        Arc::new(Self { inner, oddity })
    }

    fn fail_if_so(&self) -> object_store::Result<()> {
        if self.oddity != Oddity::Fails {
            return Ok(());
        }
        Err(object_store::Error::Generic {
            store: "Odd",
            source: "out of order".into(),
        })
    }
}

impl std::fmt::Display for Odd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.oddity)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Odd {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(
        &self,
        location: &Path,
        mut options: GetOptions,
    ) -> object_store::Result<GetResult> {
        self.fail_if_so()?;
        match (self.oddity, &mut options.range) {
            (Oddity::NoSuffix, Some(GetRange::Suffix(_))) => {
                let source = "no suffix ranges".into();
                return Err(object_store::Error::NotSupported { source });
            }
            (Oddity::ShiftsRanges, Some(GetRange::Bounded(range))) => {
                *range = range.start + 1..range.end + 1
            }
            _ => {}
        }
        let head = options.head;
        let mut result = self.inner.get_opts(location, options).await?;
        if self.oddity == Oddity::DropsBytes && !head {
            let GetResultPayload::Stream(stream) = result.payload else {
                return Ok(result);
            };
            let shorter = stream.map(|chunk| chunk.map(|bytes| bytes.slice(1..)));
            result.payload = GetResultPayload::Stream(shorter.boxed());
        }
        Ok(result)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.fail_if_so()?;
        let mut result = self.inner.list_with_delimiter(prefix).await?;
        if let (Oddity::ListsTheFolderItself, Some(prefix)) = (self.oddity, prefix) {
            let mut itself = result.objects[0].clone();
            itself.location = prefix.clone();
            itself.size = 0;
            result.objects.push(itself);
        }
        Ok(result)
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[tokio::test]
async fn stores_that_answer_wrongly_are_caught() {
    for oddity in [Oddity::DropsBytes, Oddity::ShiftsRanges] {
        let fixture = Fixture::over(Odd::store(oddity));
        fixture.put("f", digits(1000)).await;
        let error = fixture.storage.read_range("f", 10..20).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
    }
    let fixture = Fixture::over(Odd::store(Oddity::DropsBytes));
    fixture.put("f", digits(1000)).await;
    assert_eq!(
        fixture.storage.read("f").await.unwrap_err().kind(),
        ErrorKind::Storage
    );
    let error = fixture.storage.read_suffix("f", 10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    // The failed request is in the log, and its returned bytes are counted.
    assert_eq!(fixture.log.len(), 2);

    let fixture = Fixture::over(Odd::store(Oddity::Fails));
    fixture.put("f", digits(1000)).await;
    for error in [
        fixture.storage.list("").await.unwrap_err(),
        fixture.storage.read("f").await.unwrap_err(),
        fixture.storage.read_range("f", 1..2).await.unwrap_err(),
        fixture.storage.read_suffix("f", 1).await.unwrap_err(),
        fixture.storage.head("f").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert!(error.to_string().contains("memory://some/array"), "{error}");
        assert!(error.to_string().contains("out of order"), "{error}");
    }
}

#[test]
fn stores_of_files_are_recognized() {
    let new = |store: Arc<dyn ObjectStore>| {
        Location::new(store, object_store::path::Path::ROOT, "mine://")
    };
    assert!(new(Arc::new(object_store::local::LocalFileSystem::new())).is_files());
    let folder = tempfile::tempdir().unwrap();
    let below = object_store::local::LocalFileSystem::new_with_prefix(folder.path()).unwrap();
    assert!(new(Arc::new(below)).is_files());
    assert!(!new(Arc::new(object_store::memory::InMemory::new())).is_files());
}
