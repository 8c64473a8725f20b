//! The files in a fragment's folder, against the sizes in its footer.

use std::collections::BTreeMap;

use super::fields::Field;
use crate::array::fragment::{Fragment, METADATA_FILE};
use crate::format::fragment::data_files::FilePart;
use crate::maintain::check::directory::names::{is_staging, staging};
use crate::maintain::check::report::Reporter;
use crate::maintain::check::rule::Rule;
use crate::storage::Listing;

/// A file that the footer promises.
struct Promised {
    bytes: u64,
    /// The field that it belongs to.
    of: String,
}

/// Compares files with the footer. False if files are missing or cut, so that tiles of theirs cannot be read.
pub fn check(fragment: &Fragment, fields: &[Field], listing: &Listing, report: &Reporter) -> bool {
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
            staging(&path, file, report);
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

/// The files that the footer promises; sizes for files that a field does not have are told.
fn promised(
    fragment: &Fragment,
    fields: &[Field],
    report: &Reporter,
) -> BTreeMap<String, Promised> {
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
            promised.insert(field.stem.file(file), Promised { bytes, of });
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
