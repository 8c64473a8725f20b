//! [`ChunkState`]: a chunk during decoding; each stage reverses one filter.

use crate::error::{Error, Result};
use crate::filter::aes_256_gcm;
use crate::filter::bitsort;
use crate::filter::buffer::{FilterBuffer, StepLimits};
use crate::filter::chunk::StoredChunk;
use crate::filter::compression::{self, DecompressTarget};
use crate::filter::scratch::FilterScratch;
use crate::filter::stage::Stage;
use crate::filter::word::WordWidth;
use crate::format::cursor::Cursor;

/// Bytes borrowed from the tile, or decoded.
pub(super) enum ChunkBytes<'a> {
    Borrowed(&'a [u8]),
    Restored(FilterBuffer),
}

impl ChunkBytes<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Restored(buffer) => buffer.bytes(),
        }
    }

    fn release(self, scratch: &mut FilterScratch) {
        if let Self::Restored(buffer) = self {
            scratch.give(buffer);
        }
    }
}

/// A chunk during decoding.
pub(super) struct ChunkState<'a> {
    pub(super) data: ChunkBytes<'a>,
    metadata: ChunkBytes<'a>,
    /// Size of the metadata that filters have taken.
    pub(super) taken: usize,
    /// The stored position of each cell's value, if a filter sorted them.
    order: Option<&'a [u32]>,
}

impl<'a> ChunkState<'a> {
    pub(super) fn new(chunk: &StoredChunk<'a>) -> Self {
        Self {
            data: ChunkBytes::Borrowed(chunk.data),
            metadata: ChunkBytes::Borrowed(chunk.metadata),
            taken: 0,
            order: None,
        }
    }

    /// Sets the stored position of each cell's value.
    pub(super) fn with_order(self, order: &'a [u32]) -> Self {
        Self {
            order: Some(order),
            ..self
        }
    }

    pub(super) fn metadata(&self) -> Cursor<'_> {
        let rest = self.metadata.bytes().get(self.taken..);
        Cursor::new(rest.unwrap_or_default(), "chunk metadata")
    }

    fn unsort(&mut self, width: WordWidth, out: &mut [u8]) -> Result<()> {
        let order = self.order.ok_or_else(|| {
            Error::unsupported(
                "filter bitsort can only be undone in an attribute, by the coordinates of its cells",
            )
        })?;
        let mut metadata = self.metadata();
        bitsort::decode_into(width, order, &mut metadata, self.data.bytes(), out)?;
        self.taken += metadata.position();
        Ok(())
    }

    fn replace_data(&mut self, buffer: FilterBuffer, scratch: &mut FilterScratch) {
        std::mem::replace(&mut self.data, ChunkBytes::Restored(buffer)).release(scratch);
    }

    fn replace_metadata(&mut self, buffer: FilterBuffer, scratch: &mut FilterScratch) {
        std::mem::replace(&mut self.metadata, ChunkBytes::Restored(buffer)).release(scratch);
        self.taken = 0;
    }

    /// Reverses `stage` into a buffer.
    pub(super) fn undo(
        &mut self,
        stage: &Stage,
        limits: StepLimits,
        scratch: &mut FilterScratch,
    ) -> Result<()> {
        match stage {
            Stage::Checked(check) => {
                let mut metadata = self.metadata();
                check.verify(&mut metadata, self.data.bytes())?;
                self.taken += metadata.position();
            }
            Stage::Transformed(transform) => {
                let mut buffer = scratch.take();
                let mut metadata = self.metadata();
                let input = self.data.bytes();
                let len = transform.output_bytes(&metadata, input)?;
                if len > limits.data.limit_bytes {
                    return Err(Error::corrupt(format!(
                        "{len} bytes come out of a filter, more than a chunk of this size can need"
                    )));
                }
                transform.decode_into(&mut metadata, input, buffer.extend(len)?)?;
                self.taken += metadata.position();
                self.replace_data(buffer, scratch);
            }
            Stage::Sorted(width) => {
                let mut buffer = scratch.take();
                self.unsort(*width, buffer.extend(self.data.bytes().len())?)?;
                self.replace_data(buffer, scratch);
            }
            Stage::Compressed(codec) => {
                let (mut buffer, mut restored) = (scratch.take(), scratch.take());
                compression::decode(
                    *codec,
                    &mut self.metadata(),
                    self.data.bytes(),
                    DecompressTarget::Growing(&mut buffer),
                    &mut restored,
                    limits,
                    &mut scratch.contexts,
                )?;
                self.replace_data(buffer, scratch);
                self.replace_metadata(restored, scratch);
            }
            Stage::Encrypted(key) => {
                let (mut buffer, mut restored) = (scratch.take(), scratch.take());
                aes_256_gcm::decode(
                    key,
                    &mut self.metadata(),
                    self.data.bytes(),
                    DecompressTarget::Growing(&mut buffer),
                    &mut restored,
                )?;
                self.replace_data(buffer, scratch);
                self.replace_metadata(restored, scratch);
            }
        }
        Ok(())
    }

    /// Reverses `stage` into exactly `out`; the data held are undefined afterwards.
    pub(super) fn undo_into(
        &mut self,
        stage: &Stage,
        out: &mut [u8],
        limits: StepLimits,
        scratch: &mut FilterScratch,
    ) -> Result<()> {
        match stage {
            Stage::Checked(_) => Err(Error::internal("a checksum puts out no data")),
            Stage::Transformed(transform) => {
                let mut metadata = self.metadata();
                transform.decode_into(&mut metadata, self.data.bytes(), out)?;
                self.taken += metadata.position();
                Ok(())
            }
            Stage::Sorted(width) => self.unsort(*width, out),
            Stage::Compressed(codec) => {
                let mut restored = scratch.take();
                compression::decode(
                    *codec,
                    &mut self.metadata(),
                    self.data.bytes(),
                    DecompressTarget::Exact(out),
                    &mut restored,
                    limits,
                    &mut scratch.contexts,
                )?;
                self.replace_metadata(restored, scratch);
                Ok(())
            }
            Stage::Encrypted(key) => {
                let mut restored = scratch.take();
                aes_256_gcm::decode(
                    key,
                    &mut self.metadata(),
                    self.data.bytes(),
                    DecompressTarget::Exact(out),
                    &mut restored,
                )?;
                self.replace_metadata(restored, scratch);
                Ok(())
            }
        }
    }

    pub(super) fn release(self, scratch: &mut FilterScratch) {
        self.data.release(scratch);
        self.metadata.release(scratch);
    }
}
