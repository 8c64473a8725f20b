//! The files in a fragment's folder, against the sizes in its footer, and the sections of its metadata file, each a
//! generic tile, read one by one so that a damaged one hides no other.

use std::collections::BTreeMap;
use std::ops::Range;

use super::fields::CheckedField;
use crate::array::fragment::{Fragment, METADATA_FILE};
use crate::error::Result;
use crate::format::fragment::data_files::FilePart;
use crate::format::fragment::monolithic::{LAST_MONOLITHIC, MonolithicMetadata};
use crate::maintain::check::directory::folders::{self, about_stored, is_staging, report_staging};
use crate::maintain::check::report::FindingReporter;
use crate::maintain::check::rule::Rule;
use crate::storage::{Listing, Storage};

/// A file that the footer lists.
struct PromisedFile {
    bytes: u64,
    /// The field that it belongs to.
    of: String,
}

/// Compares files with the footer. Returns `false` if files are missing or cut, so that their tiles cannot be read.
pub fn check(
    fragment: &Fragment,
    fields: &[CheckedField],
    listing: &Listing,
    report: &FindingReporter,
) -> bool {
    let promised = promised(fragment, fields, report);
    let mut fit = true;
    for (name, promised) in &promised {
        let path = format!("{}/{name}", fragment.folder);
        let expected = format!(
            "{} bytes, as the footer says of {}",
            promised.bytes, promised.of
        );
        match listing.files.iter().find(|file| file.name == *name) {
            None if promised.bytes == 0 => {}
            None => {
                report.tell(Rule::MissingFile, path, "no such file", expected);
                fit = false;
            }
            Some(file) if file.bytes < promised.bytes => {
                let found = format!("{} bytes", file.bytes);
                report.tell(Rule::FileSize, path, found, expected);
                fit = false;
            }
            Some(file) if file.bytes > promised.bytes => {
                let found = format!("{} bytes", file.bytes);
                report.tell(Rule::LongFile, path, found, expected);
            }
            Some(_) => {}
        }
    }
    for file in &listing.files {
        let path = format!("{}/{}", fragment.folder, file.name);
        if is_staging(&file.name) {
            report_staging(&path, file, report);
        } else if !promised.contains_key(&file.name) && file.name != METADATA_FILE {
            let found = format!("a file of {} bytes", file.bytes);
            report.tell(
                Rule::UnknownFile,
                path,
                found,
                "files of the fragment's fields only",
            );
        }
    }
    fit
}

/// The files that the footer lists. Sizes for files that a field doesn't have are reported.
fn promised(
    fragment: &Fragment,
    fields: &[CheckedField],
    report: &FindingReporter,
) -> BTreeMap<String, PromisedFile> {
    let footer = &fragment.footer;
    let mut promised = BTreeMap::new();
    let mut unclaimed: BTreeMap<(&str, usize), u64> = BTreeMap::new();
    let parts = [
        ("values", &footer.file_sizes),
        ("variable-sized values", &footer.var_file_sizes),
        ("validity", &footer.validity_file_sizes),
    ];
    for (part, sizes) in parts {
        let there = sizes.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
        unclaimed.extend(there.map(|(slot, bytes)| ((part, slot), *bytes)));
    }
    for field in fields {
        let mut files = vec![("values", FilePart::Fixed, &footer.file_sizes)];
        if field.is_var() {
            files.push((
                "variable-sized values",
                FilePart::Var,
                &footer.var_file_sizes,
            ));
        }
        if field.nullable {
            files.push(("validity", FilePart::Validity, &footer.validity_file_sizes));
        }
        for (part, file, sizes) in files {
            unclaimed.remove(&(part, field.slot));
            let bytes = sizes.get(field.slot).copied().unwrap_or(0);
            let of = format!("{field}");
            promised.insert(field.stem.file(file), PromisedFile { bytes, of });
        }
    }
    for ((part, slot), bytes) in unclaimed {
        let object = format!("{}, slot {slot}", fragment.metadata_path());
        let found = format!("the footer says {bytes} bytes of {part}");
        report.tell(
            Rule::FileSize,
            object,
            found,
            "0 bytes, as the schema has no such field",
        );
    }
    promised
}

/// The metadata file of a fragment.
pub struct CheckedSections<'a> {
    pub fragment: &'a Fragment,
    pub report: &'a FindingReporter,
    storage: &'a Storage,
    path: String,
    file_bytes: u64,
    /// All metadata, in versions that store them in one tile.
    pub monolithic: Option<MonolithicMetadata>,
}

impl<'a> CheckedSections<'a> {
    /// Opens the metadata of a fragment; `None` if they are reported as unreadable.
    pub async fn open(
        storage: &'a Storage,
        fragment: &'a Fragment,
        listing: &Listing,
        report: &'a FindingReporter,
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
        let tile = folders::read_tile(storage, &sections.path, "fragment metadata").await?;
        let dense = fragment.footer.dense;
        match tile.and_then(|tile| MonolithicMetadata::decode(&tile.data, &fragment.schema, dense))
        {
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

    /// The object of a finding in this file.
    pub fn object(&self, what: &str) -> String {
        format!("{}, {what}", self.path)
    }

    /// Reports that a section cannot be read.
    pub fn unreadable(&self, what: &str, problem: &str) {
        let object = self.object(what);
        self.report.tell(
            Rule::UnreadableSection,
            object,
            problem,
            "a section that decodes",
        );
    }

    /// The contents of the section at `start`, decoded; `None` if it is reported as unreadable.
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

    /// The contents of the sections at these offsets; `None` for each that is reported as unreadable.
    pub async fn read(&self, sections: &[(u64, &'static str)]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut ranges = Vec::with_capacity(sections.len());
        for (start, what) in sections {
            ranges.push(self.range(*start, what));
        }
        let there: Vec<Range<u64>> = ranges.iter().flatten().cloned().collect();
        let fetched = match self.storage.read_ranges(&self.path, &there).await {
            Ok(fetched) => fetched,
            Err(e) => {
                let problem = about_stored(e)?;
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
            match self.storage.decode_generic_tile(&bytes, what) {
                Ok(tile) => contents.push(Some(tile.data)),
                Err(e) => {
                    let problem = about_stored(e)?;
                    self.unreadable(what, problem.message());
                    contents.push(None);
                }
            }
        }
        Ok(contents)
    }

    fn range(&self, start: u64, what: &'static str) -> Option<Range<u64>> {
        let end = self.fragment.section_end(start, self.file_bytes);
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
