//! Listings of a folder with all folders below it.

use std::collections::HashSet;

use object_store::ObjectMeta;
use object_store::path::Path;

use super::{FileInfo, Listing};

impl Listing {
    /// Converts the objects below `folder`. The names of those in folders below it begin with these.
    pub(in crate::storage) fn of_tree(objects: Vec<ObjectMeta>, folder: &Path) -> Self {
        let mut files: Vec<FileInfo> = Vec::with_capacity(objects.len());
        for meta in objects {
            let Some(parts) = meta.location.prefix_match(folder) else {
                continue;
            };
            let name = parts
                .map(|part| part.as_ref().to_owned())
                .collect::<Vec<_>>()
                .join("/");
            files.push(FileInfo {
                name,
                ..FileInfo::new(meta)
            });
        }
        files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        // Some tools represent a folder by an empty object of its name.
        let folders: HashSet<String> = files
            .iter()
            .flat_map(|file| {
                file.name
                    .match_indices('/')
                    .map(|(at, _)| file.name.get(..at).unwrap_or_default())
            })
            .map(str::to_owned)
            .collect();
        files.retain(|file| {
            let is_placeholder = file.bytes == 0 && folders.contains(&file.name);
            !file.name.is_empty() && !is_placeholder
        });
        Self {
            files,
            folders: Vec::new(),
        }
    }

    /// The files of a tree that are in a folder, or in folders below that.
    pub fn files_below(&self, folder: &str) -> &[FileInfo] {
        let prefix = format!("{folder}/");
        let before = |file: &FileInfo| file.name < prefix;
        let files = self.files.split_at(self.files.partition_point(before)).1;
        let within = |file: &&FileInfo| file.name.starts_with(&prefix);
        files.split_at(files.iter().take_while(within).count()).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_folder_are_those_behind_its_slash() {
        let names = ["a", "a-b/x", "a.c", "a/b/y", "a/x", "ab/x", "b/x", "ä/x"];
        let objects = names.map(|name| ObjectMeta {
            location: Path::parse(format!("root/{name}")).unwrap(),
            last_modified: Default::default(),
            size: 1,
            e_tag: None,
            version: None,
        });
        let tree = Listing::of_tree(objects.into(), &Path::from("root"));
        let below = |folder: &str| {
            let files = tree.files_below(folder).iter();
            files.map(|file| file.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(below("a"), ["a/b/y", "a/x"]);
        assert_eq!(below("a/b"), ["a/b/y"]);
        assert_eq!(below("a-b"), ["a-b/x"]);
        assert_eq!(below("ä"), ["ä/x"]);
        for folder in ["", "0", "a/x", "c", "z"] {
            assert!(below(folder).is_empty(), "{folder}");
        }
    }
}
