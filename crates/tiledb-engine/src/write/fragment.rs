//! The files of one fragment, tile by tile. Nothing of it is visible before its commit.

use bytes::Bytes;
use futures::future::join_all;

use super::delete::NewDeleteFile;
use super::encode::{EncodedField, EncodedTile};
use super::fields::WrittenFields;
use super::metadata::{self, FieldSections};
use super::staging::StagingFolder;
use crate::array::fragment::METADATA_FILE;
use crate::array::window::TimestampMs;
use crate::error::{Error, Result};
use crate::format::domain_range::DomainRange;
use crate::format::fragment::data_files::FilePart;
use crate::format::fragment::footer::Footer;
use crate::format::fragment::rtree::Mbrs;
use crate::format::names::TimestampedName;
use crate::storage::{Storage, Upload, Uploaded};

/// The folder of fragments.
const FRAGMENTS_FOLDER: &str = "__fragments";

/// Appends tiles to the files of a fragment.
#[derive(Debug)]
pub struct FragmentWriter {
    storage: Storage,
    folder: StagingFolder,
    name: String,
    columns: Vec<ColumnFiles>,
    mbrs: Mbrs,
    tiles: u64,
    cells: u64,
    last_tile_cells: u64,
}

/// The files of one field.
#[derive(Debug)]
struct ColumnFiles {
    values: Upload,
    var: Option<Upload>,
    validity: Option<Upload>,
    sections: FieldSections,
}

/// A fragment whose files are complete and safe, and which is not visible yet.
#[derive(Debug)]
pub struct StagedFragment {
    /// The name.
    pub name: TimestampedName,
    folder: StagingFolder,
    /// The footer.
    pub footer: Footer,
    /// The number of cells; padding of a dense fragment is included.
    pub cells: u64,
    tiles: u64,
    /// Bytes of all its files.
    pub bytes: u64,
    /// When it was complete.
    pub(super) completed: TimestampMs,
    /// The delete that its deleted cells name; it must be there before the fragment is.
    pub(super) delete: Option<NewDeleteFile>,
}

/// Waits until all futures have ended, and returns their results or the first error. After an error, the others still run to
/// their end, because their threads may be about to create files in the folder that is then removed.
async fn ended<T>(
    all: impl IntoIterator<Item = impl Future<Output = Result<T>>>,
) -> Result<Vec<T>> {
    join_all(all).await.into_iter().collect()
}

impl FragmentWriter {
    /// A fragment called `name`, which no other has. Nothing is written before the first tile.
    pub fn new(storage: &Storage, fields: &WrittenFields, name: String) -> Self {
        let folder = format!("{FRAGMENTS_FOLDER}/{name}");
        let columns = fields.fields.iter().map(|field| {
            let upload = |part| storage.upload(&format!("{folder}/{}", field.stem.file(part)));
            ColumnFiles {
                values: upload(FilePart::Fixed),
                var: field.cell_val_num.is_var().then(|| upload(FilePart::Var)),
                validity: field.nullable.then(|| upload(FilePart::Validity)),
                sections: FieldSections::default(),
            }
        });
        Self {
            storage: storage.clone(),
            columns: columns.collect(),
            folder: StagingFolder::new(storage, folder),
            name,
            mbrs: Mbrs::none(&fields.schema),
            tiles: 0,
            cells: 0,
            last_tile_cells: 0,
        }
    }

    /// Appends the next tile of every field.
    ///
    /// # Errors
    /// The store fails.
    pub async fn append(&mut self, tile: EncodedTile) -> Result<()> {
        self.folder.begin();
        self.tiles += 1;
        self.cells += tile.cells;
        self.last_tile_cells = tile.cells;
        if !tile.mbr.is_empty() {
            self.mbrs.push(&tile.mbr);
        }
        let columns = self.columns.iter_mut().zip(tile.fields);
        ended(columns.map(|(column, field)| column.append(field))).await?;
        Ok(())
    }

    /// Writes the metadata, and waits until everything is safe. The non-empty domain of a dense fragment is `written`; that
    /// of a sparse one follows from its tiles.
    ///
    /// # Errors
    /// The store fails; what has been written is removed then.
    pub async fn finish(
        mut self,
        fields: &WrittenFields,
        written: Option<Vec<DomainRange>>,
    ) -> Result<StagedFragment> {
        self.folder.begin();
        let columns = std::mem::take(&mut self.columns);
        match self.complete(columns, fields, written).await {
            Ok((footer, bytes)) => Ok(StagedFragment {
                name: TimestampedName::parse(&self.name)?,
                folder: self.folder,
                footer,
                cells: self.cells,
                tiles: self.tiles,
                bytes,
                completed: TimestampMs::now(),
                delete: None,
            }),
            Err(error) => {
                self.folder.remove().await;
                Err(error)
            }
        }
    }

    /// Writes the rest; returns the footer and the bytes of all files.
    async fn complete(
        &mut self,
        columns: Vec<ColumnFiles>,
        fields: &WrittenFields,
        written: Option<Vec<DomainRange>>,
    ) -> Result<(Footer, u64)> {
        let (mut finished, mut sections) = (Vec::new(), Vec::new());
        let closing = columns.into_iter().map(ColumnFiles::finish);
        for (files, of_field) in ended(closing).await? {
            finished.extend(files);
            sections.push(of_field);
        }
        let domain = written.unwrap_or_else(|| self.mbrs.union(&fields.schema));
        let sparse_tiles = if fields.dense { 0 } else { self.tiles };
        let summary = metadata::FragmentSummary {
            domain,
            sparse_tiles,
            last_tile_cells: self.last_tile_cells,
        };
        let key = self.storage.encryption_key().cloned();
        let (bytes, footer) = metadata::encode(fields, &sections, &self.mbrs, summary, key)?;
        let data_bytes = finished.iter().map(|file| file.bytes).sum::<u64>();
        let folder = self.folder.path();
        self.storage.sync(finished, folder).await?;
        let metadata_bytes = bytes.len() as u64;
        let path = format!("{folder}/{METADATA_FILE}");
        self.storage.create_file(&path, Bytes::from(bytes)).await?;
        Ok((footer, data_bytes.saturating_add(metadata_bytes)))
    }

    /// Removes what has been written; nobody has seen it.
    pub async fn withdraw(self) {
        for upload in self.columns.into_iter().flat_map(ColumnFiles::into_files) {
            if let Err(error) = upload.abort().await {
                log::warn!("an upload of a failed statement stays: {error}");
            }
        }
        self.folder.remove().await;
    }
}

impl StagedFragment {
    /// The number of tiles.
    pub fn tiles(&self) -> u64 {
        self.tiles
    }

    /// The key that orders fragments by age: the time, and the name.
    pub fn age(&self) -> (u64, &String) {
        (self.name.t1, &self.name.name)
    }

    /// The folder of its files, relative to the array.
    pub fn folder(&self) -> &str {
        self.folder.path()
    }

    /// Records that the fragment may become visible from now on, so that dropping it leaves its files.
    pub(super) fn keep(&mut self) {
        self.folder.keep();
    }

    /// Removes the fragment, which nobody has seen.
    pub async fn withdraw(self) {
        self.folder.remove().await;
    }
}

impl ColumnFiles {
    async fn append(&mut self, tile: EncodedField) -> Result<()> {
        let sections = &mut self.sections;
        sections.offsets.push(self.values.bytes());
        sections.statistics.push(tile.statistics);
        self.values.append(Bytes::from(tile.values)).await?;
        match (&mut self.var, tile.var) {
            (Some(file), Some((data, unfiltered))) => {
                sections.var_offsets.push(file.bytes());
                sections.var_sizes.push(unfiltered);
                file.append(Bytes::from(data)).await?;
            }
            (None, None) => {}
            _ => return Err(Error::internal("a tile does not fit its field")),
        }
        match (&mut self.validity, tile.validity) {
            (Some(file), Some(validity)) => {
                sections.validity_offsets.push(file.bytes());
                file.append(Bytes::from(validity)).await
            }
            (None, None) => Ok(()),
            _ => Err(Error::internal(
                "the validity of a tile does not fit its field",
            )),
        }
    }

    fn into_files(self) -> impl Iterator<Item = Upload> {
        let files = [Some(self.values), self.var, self.validity];
        files.into_iter().flatten()
    }

    async fn finish(mut self) -> Result<(Vec<Uploaded>, FieldSections)> {
        let files = [Some(self.values), self.var, self.validity];
        let finished = files.map(|file| async {
            match file {
                Some(file) => file.finish().await.map(Some),
                None => Ok(None),
            }
        });
        let finished = ended(finished).await?;
        let mut sizes = finished
            .iter()
            .map(|file| file.as_ref().map_or(0, |f| f.bytes));
        self.sections.file_bytes = [(); 3].map(|()| sizes.next().unwrap_or(0));
        Ok((finished.into_iter().flatten().collect(), self.sections))
    }
}
