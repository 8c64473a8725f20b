//! What a chunk has become on its way through the filters, when it is written.

/// A chunk behind some of the filters.
#[derive(Debug)]
pub(super) struct Filtered {
    /// The metadata, those of the latest filter first.
    pub(super) metadata: Vec<Vec<u8>>,
    pub(super) data: Vec<u8>,
}

impl Filtered {
    /// The metadata, and then the data.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let data = std::iter::once(self.data.as_slice());
        self.metadata.iter().map(Vec::as_slice).chain(data)
    }
}
