//! How ranges become requests differs between local files and stores behind a network.

/// How ranges become requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoOptions {
    /// Ranges at most this far apart are read together.
    pub gap_bytes: u64,
    /// Joining stops where a request would become larger than this.
    pub request_bytes: u64,
    /// So many requests of one call run at a time.
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
