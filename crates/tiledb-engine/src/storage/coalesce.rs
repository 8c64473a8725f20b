//! Coalescing of many small ranges into few large requests.
//!
//! Ranges closer than the gap are read together up to the request size, unless gaps would be a large part of a request; overlapping ones always, so that no byte is fetched twice. A single range above the request size stays one request, because the caller wants it as one buffer.
//! Nothing here allocates memory by the size of a range.

use std::ops::Range;

use bytes::Bytes;

use super::link::LinkEstimate;
use crate::error::{Error, Result};

/// The number of gaps that may be read over in the time of a round trip.
const GAPS_PER_ROUND_TRIP: u64 = 10;
/// The bounds of the size up to which ranges share a request, in stores behind a network.
const SMALLEST_REQUEST_BYTES: u64 = 1 << 20;
pub(super) const LARGEST_REQUEST_BYTES: u64 = 16 << 20;
/// The part of such a request that may be gaps: a fifth.
const UNWANTED_PART: u64 = 5;
/// The requests to such a store that one read of a file sends at once.
const PARALLEL_REQUESTS: usize = 64;

/// How ranges are coalesced into requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoOptions {
    /// Ranges at most this far apart are read together.
    pub gap_bytes: u64,
    /// Ranges are not joined beyond this request size.
    pub request_bytes: u64,
    /// The gaps of a request are one gap, or at most its bytes divided by this number.
    pub unwanted_part: u64,
    /// The number of requests of one call that run in parallel.
    pub parallel_requests: usize,
}

impl IoOptions {
    /// For files of this machine, where a request costs as much as reading some kilobytes.
    pub const LOCAL: Self = Self {
        gap_bytes: 64 << 10,
        request_bytes: 16 << 20,
        unwanted_part: 1,
        parallel_requests: 4,
    };

    /// For stores behind a network. Neighbouring ranges share a request until it is worth a round trip, and gaps worth a tenth of
    /// one are read over.
    pub(super) fn of_link(link: LinkEstimate) -> Self {
        let round_trip = link.round_trip_bytes();
        Self {
            gap_bytes: round_trip / GAPS_PER_ROUND_TRIP,
            request_bytes: round_trip.clamp(SMALLEST_REQUEST_BYTES, LARGEST_REQUEST_BYTES),
            unwanted_part: UNWANTED_PART,
            parallel_requests: PARALLEL_REQUESTS,
        }
    }
}

/// The requests for a list of ranges, sorted and disjoint, and the slice of them that each range is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestPlan {
    pub(super) requests: Vec<Range<u64>>,
    slices: Vec<RequestSlice>,
}

/// The slice of a request that a range is: request number, offset in its buffer, length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RequestSlice {
    request: usize,
    offset: u64,
    len: u64,
}

/// Plans the requests for `ranges`, which may be unsorted, overlapping and empty.
pub(super) fn plan(ranges: &[Range<u64>], options: &IoOptions) -> Result<RequestPlan> {
    if let Some(range) = ranges.iter().find(|r| r.start > r.end) {
        return Err(Error::corrupt(format!(
            "a byte range starts at {} but ends before that, at {}",
            range.start, range.end
        )));
    }
    let mut sorted: Vec<(usize, &Range<u64>)> = ranges
        .iter()
        .enumerate()
        .filter(|(_, range)| !range.is_empty())
        .collect();
    sorted.sort_unstable_by_key(|(_, range)| range.start);

    let mut requests: Vec<Range<u64>> = Vec::new();
    // The bytes of the last request that nobody asked for.
    let mut unwanted = 0_u64;
    let mut slices = vec![RequestSlice::default(); ranges.len()];
    for (idx, range) in sorted {
        let joined = requests
            .last()
            .and_then(|last| join(last, range, unwanted, options));
        match joined {
            Some(gaps) => unwanted = gaps,
            None => {
                requests.push(range.clone());
                unwanted = 0;
            }
        }
        let request = requests.len() - 1;
        if let (Some(last), Some(slice)) = (requests.last_mut(), slices.get_mut(idx)) {
            last.end = last.end.max(range.end);
            *slice = RequestSlice {
                request,
                offset: range.start - last.start,
                len: range.end - range.start,
            };
        }
    }
    Ok(RequestPlan { requests, slices })
}

/// The bytes of gaps in a request if `next`, which does not start before `last`, is read with it; `None` if it isn't.
fn join(last: &Range<u64>, next: &Range<u64>, unwanted: u64, options: &IoOptions) -> Option<u64> {
    if next.start < last.end {
        return Some(unwanted);
    }
    let gap = next.start - last.end;
    let unwanted = unwanted.saturating_add(gap);
    let request = next.end - last.start;
    let most_unwanted = (request / options.unwanted_part.max(1)).max(options.gap_bytes);
    let is_small = gap <= options.gap_bytes && request <= options.request_bytes;
    (is_small && unwanted <= most_unwanted).then_some(unwanted)
}

impl RequestPlan {
    /// The size of the request that each range is part of, in the given order.
    #[cfg(feature = "cache")]
    pub(super) fn request_sizes(&self) -> impl Iterator<Item = u64> {
        self.slices.iter().map(|slice| {
            let request = self.requests.get(slice.request);
            request.map_or(0, |request| request.end - request.start)
        })
    }

    /// The ranges in the given order, as slices of the requests' buffers.
    pub(super) fn slices(&self, buffers: &[Bytes]) -> Result<Vec<Bytes>> {
        self.slices.iter().map(|slice| slice.of(buffers)).collect()
    }
}

impl RequestSlice {
    fn of(&self, buffers: &[Bytes]) -> Result<Bytes> {
        if self.len == 0 {
            return Ok(Bytes::new());
        }
        let start = usize::try_from(self.offset)?;
        let end = usize::try_from(self.offset + self.len)?;
        buffers
            .get(self.request)
            .filter(|buffer| end <= buffer.len())
            .map(|buffer| buffer.slice(start..end))
            .ok_or_else(|| Error::internal("a coalesced read lacks bytes that were planned"))
    }
}

#[cfg(test)]
#[expect(
    clippy::single_range_in_vec_init,
    reason = "lists of ranges are the subject"
)]
mod tests {
    use super::*;

    fn options(gap_bytes: u64, request_bytes: u64) -> IoOptions {
        IoOptions {
            gap_bytes,
            request_bytes,
            unwanted_part: 5,
            parallel_requests: 1,
        }
    }

    fn requests(ranges: &[Range<u64>], gap: u64, cap: u64) -> Vec<Range<u64>> {
        plan(ranges, &options(gap, cap)).unwrap().requests
    }

    #[test]
    fn near_ranges_join_up_to_the_gap_and_the_request_size() {
        assert_eq!(requests(&[0..10, 15..20], 5, 100), [0..20]);
        assert_eq!(requests(&[0..10, 16..20], 5, 100), [0..10, 16..20]);
        assert_eq!(requests(&[0..10, 10..20, 20..30], 0, 20), [0..20, 20..30]);
        assert_eq!(requests(&[20..30, 0..10, 10..20], 0, 100), [0..30]);
    }

    #[test]
    fn gaps_are_at_most_a_fifth_or_one_gap() {
        assert_eq!(requests(&[0..1, 6..7, 12..13], 5, 100), [0..7, 12..13]);
        assert_eq!(requests(&[0..40, 45..50, 55..90], 5, 100), [0..90]);
        assert_eq!(requests(&[0..10, 15..20, 25..30], 5, 100), [0..20, 25..30]);
        let many: Vec<_> = (0..1000).map(|i| i * 10..i * 10 + 9).collect();
        assert_eq!(requests(&many, 1, u64::MAX), [0..9999]);
        assert_eq!(requests(&many[..3], u64::MAX, u64::MAX), [0..29]);
    }

    #[test]
    fn overlapping_ranges_join_whatever_the_size() {
        assert_eq!(requests(&[0..50, 0..50, 40..90], 0, 10), [0..90]);
        assert_eq!(requests(&[0..50, 10..20, 60..70], 10, 100), [0..70]);
        assert_eq!(requests(&[0..1000], 0, 10), [0..1000]);
    }

    #[test]
    fn empty_ranges_ask_for_nothing_and_inverted_ones_are_corrupt() {
        assert_eq!(requests(&[], 10, 100), []);
        assert_eq!(requests(&[5..5, u64::MAX..u64::MAX], 10, 100), []);
        #[expect(clippy::reversed_empty_ranges, reason = "the subject")]
        let inverted = plan(&[7..3], &options(10, 100));
        assert!(inverted.is_err());
        assert_eq!(
            requests(&[0..u64::MAX, 9..10], u64::MAX, u64::MAX),
            [0..u64::MAX]
        );
    }

    #[test]
    fn slices_are_what_was_asked_without_copies() {
        let data: Vec<u8> = (0..=255).collect();
        let part = |r: &Range<u64>| {
            &data[usize::try_from(r.start).unwrap()..usize::try_from(r.end).unwrap()]
        };
        let ranges = [200..210, 3..3, 0..10, 5..12, 14..15, 100..101];
        let plan = plan(&ranges, &options(4, 64)).unwrap();
        let buffers: Vec<Bytes> = plan
            .requests
            .iter()
            .map(|r| Bytes::copy_from_slice(part(r)))
            .collect();
        let slices = plan.slices(&buffers).unwrap();
        for (range, slice) in ranges.iter().zip(&slices) {
            assert_eq!(slice, part(range));
        }
        assert_eq!(slices[2].as_ptr(), buffers[0].as_ptr());
        assert!(plan.slices(&buffers[..1]).is_err());
    }
}
