//! Arrays in object stores, behind a server of S3 in this process: doors, credentials, chains of requests, the cache on disk, faults.

mod chains;
mod disk_cache;
mod doors;
mod empty_folders;
mod fault_plans;
mod google;
mod long_scans;
mod refusals;
mod writes;
