//! The sections of a fragment's metadata file, each a generic tile, read one by one so that a damaged one hides no other.

use std::ops::Range;

use crate::array::fragment::{Fragment, METADATA_FILE};
use crate::error::Result;
use crate::filter::generic_tile;
use crate::format::fragment::monolithic::{LAST_MONOLITHIC, Monolithic};
use crate::maintain::check::directory::tile::{self, stored};
use crate::maintain::check::report::Reporter;
use crate::maintain::check::rule::Rule;
use crate::storage::{Listing, Storage};

/// The metadata file of a fragment.
pub struct Sections<'a> {
    pub fragment: &'a Fragment,
    pub report: &'a Reporter,
    storage: &'a Storage,
    path: String,
    file_bytes: u64,
    /// All metadata, in versions in which they are one tile.
    pub monolithic: Option<Monolithic>,
}

impl<'a> Sections<'a> {
    /// Opens the metadata of a fragment; `None` if they are told to be unreadable.
    pub async fn open(
        storage: &'a Storage,
        fragment: &'a Fragment,
        listing: &Listing,
        report: &'a Reporter,
    ) -> Result<Option<Self>> {
        let path = fragment.metadata_path();
        let file = listing.files.iter().find(|file| file.name == METADATA_FILE);
        let mut sections = Self {
            fragment,
            report,
            storage,
            file_bytes: file.map_or(0, |file| file.bytes),
            monolithic: None,
            path,
        };
        if fragment.footer.version.since(LAST_MONOLITHIC + 1) {
            return Ok(Some(sections));
        }
        let tile = tile::read(storage, &sections.path, "fragment metadata").await?;
        let dense = fragment.footer.dense;
        match tile.and_then(|tile| Monolithic::decode(&tile.data, &fragment.schema, dense)) {
            Ok(monolithic) => {
                sections.monolithic = Some(monolithic);
                Ok(Some(sections))
            }
            Err(e) => {
                sections.unreadable("fragment metadata", &e.to_string());
                Ok(None)
            }
        }
    }

    /// Where to say that something is wrong.
    pub fn object(&self, what: &str) -> String {
        format!("{}, {what}", self.path)
    }

    /// Tells that a section cannot be read.
    pub fn unreadable(&self, what: &str, problem: &str) {
        let object = self.object(what);
        self.report.tell(
            Rule::UnreadableSection,
            object,
            problem,
            "a section that decodes",
        );
    }

    /// The contents of the section at `start`, decoded; `None` if it is told to be unreadable.
    pub async fn decoded<T>(
        &self,
        start: u64,
        what: &'static str,
        decode: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        let read = self.read(&[(start, what)]).await?;
        let contents = read.into_iter().next().flatten();
        let decoded = contents.map(|contents| decode(&contents)).transpose();
        Ok(decoded.unwrap_or_else(|e| {
            self.unreadable(what, e.message());
            None
        }))
    }

    /// The contents of the sections at these offsets; `None` for each that is told to be unreadable.
    pub async fn read(&self, sections: &[(u64, &'static str)]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut ranges = Vec::with_capacity(sections.len());
        for (start, what) in sections {
            ranges.push(self.range(*start, what));
        }
        let there: Vec<Range<u64>> = ranges.iter().flatten().cloned().collect();
        let fetched = match self.storage.read_ranges(&self.path, &there).await {
            Ok(fetched) => fetched,
            Err(e) => {
                let problem = stored(e)?;
                self.unreadable("sections", &problem.to_string());
                return Ok(vec![None; sections.len()]);
            }
        };
        let mut fetched = fetched.into_iter();
        let mut contents = Vec::with_capacity(sections.len());
        for ((_, what), range) in sections.iter().zip(ranges) {
            let bytes = range.and_then(|_| fetched.next());
            let Some(bytes) = bytes else {
                contents.push(None);
                continue;
            };
            match generic_tile::decode(&bytes, what, self.storage.encryption_key()) {
                Ok(tile) => contents.push(Some(tile.data)),
                Err(e) => {
                    let problem = stored(e)?;
                    self.unreadable(what, problem.message());
                    contents.push(None);
                }
            }
        }
        Ok(contents)
    }

    fn range(&self, start: u64, what: &'static str) -> Option<Range<u64>> {
        let end = self.fragment.footer.section_end(start, self.file_bytes);
        if start < end && end <= self.file_bytes {
            return Some(start..end);
        }
        let problem = format!(
            "it starts at {start}, and the file has {} bytes",
            self.file_bytes
        );
        self.unreadable(what, &problem);
        None
    }
}
