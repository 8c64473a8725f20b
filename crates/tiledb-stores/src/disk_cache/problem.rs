//! The reasons for which a process goes without its disk cache.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a disk cache can't be opened.
#[derive(Debug)]
pub struct DiskCacheProblem {
    folder: PathBuf,
    cause: ProblemCause,
}

/// What was found in place of a usable folder.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProblemCause {
    /// Another cache, usually of another process, has locked the folder.
    InUse,
    /// The capacity is less than the smallest possible one.
    CapacityTooSmall {
        /// The given capacity.
        capacity_bytes: u64,
        /// The smallest possible capacity.
        minimum_bytes: u64,
    },
    /// The path leads to something other than a folder.
    NotAFolder,
    /// The folder belongs to another user.
    OtherOwner,
    /// Other users can open the folder, which also holds files of other programs.
    SharedFolder,
    /// The file system has too little space.
    DiskFull {
        /// The space that is left.
        free_bytes: u64,
        /// The space that a cache needs to begin with.
        needed_bytes: u64,
    },
    /// The folder can't be created, or its files can't be read or written.
    Unusable(io::Error),
    /// The storage engine can't use the folder's files, even after they were emptied.
    Engine(String),
}

impl DiskCacheProblem {
    pub(super) fn new(folder: &Path, cause: ProblemCause) -> Self {
        Self {
            folder: folder.to_path_buf(),
            cause,
        }
    }

    /// The folder of the cache.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What was found.
    pub fn cause(&self) -> &ProblemCause {
        &self.cause
    }
}

impl fmt::Display for DiskCacheProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.display();
        match &self.cause {
            ProblemCause::InUse => write!(
                f,
                "the disk cache in {folder} is in use by another process: close that process or choose another folder"
            ),
            ProblemCause::CapacityTooSmall {
                capacity_bytes,
                minimum_bytes,
            } => write!(
                f,
                "the disk cache in {folder} has a capacity of {capacity_bytes} bytes: choose at least {minimum_bytes} bytes"
            ),
            ProblemCause::NotAFolder => {
                write!(
                    f,
                    "the disk cache needs a folder, but {folder} isn't one: choose another path"
                )
            }
            ProblemCause::OtherOwner => write!(
                f,
                "the disk cache can't use {folder}, which belongs to another user: choose a folder of your own"
            ),
            ProblemCause::SharedFolder => write!(
                f,
                "the disk cache can't use {folder}, which other users can open and which holds other files: choose an empty folder, \
                 or run chmod 700 on this one"
            ),
            ProblemCause::DiskFull {
                free_bytes,
                needed_bytes,
            } => write!(
                f,
                "the disk cache in {folder} needs {needed_bytes} bytes of free disk space, but {free_bytes} bytes are left: \
                 free some space or choose a folder on another disk"
            ),
            ProblemCause::Unusable(error) => write!(
                f,
                "the disk cache can't use {folder} ({error}): choose a folder that you can read and write"
            ),
            ProblemCause::Engine(reason) => {
                write!(
                    f,
                    "the disk cache can't use the files in {folder} ({reason}): delete that folder and try again"
                )
            }
        }
    }
}

impl std::error::Error for DiskCacheProblem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            ProblemCause::Unusable(error) => Some(error),
            _ => None,
        }
    }
}
