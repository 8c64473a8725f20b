//! Options for coalescing ranges into requests, for local files and for remote stores.

/// How ranges are coalesced into requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoOptions {
    /// Ranges at most this far apart are read together.
    pub gap_bytes: u64,
    /// Ranges are not joined beyond this request size.
    pub request_bytes: u64,
    /// The number of requests of one call that run in parallel.
    pub parallel_requests: usize,
}

impl IoOptions {
    /// For files of this machine, where a request costs as much as reading some kilobytes.
    pub const LOCAL: Self = Self {
        gap_bytes: 64 << 10,
        request_bytes: 16 << 20,
        parallel_requests: 4,
    };
    /// For stores behind a network, where a request costs as much as reading a megabyte.
    pub const REMOTE: Self = Self {
        gap_bytes: 1 << 20,
        request_bytes: 16 << 20,
        parallel_requests: 10,
    };
}
