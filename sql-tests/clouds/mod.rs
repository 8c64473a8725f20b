//! Arrays in object stores, behind a server of S3 in this process: doors, credentials, chains of requests, faults.

mod chains;
mod doors;
mod empty_folders;
mod fault_plans;
mod refusals;
mod writes;
