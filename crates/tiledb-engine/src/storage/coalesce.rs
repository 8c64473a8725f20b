//! Coalescing of many small ranges into few large requests.
//!
//! Ranges closer than the gap are read together up to the request size; overlapping ones always, so that no byte is
//! fetched twice. A single range above the request size stays one request, because the caller wants it as one buffer.
//! Nothing here allocates memory by the size of a range.

use std::ops::Range;

use bytes::Bytes;

use crate::error::{Error, Result};

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
pub(super) fn plan(
    ranges: &[Range<u64>],
    gap_bytes: u64,
    request_bytes: u64,
) -> Result<RequestPlan> {
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
    let mut slices = vec![RequestSlice::default(); ranges.len()];
    for (idx, range) in sorted {
        let joins = requests
            .last()
            .is_some_and(|last| joins(last, range, gap_bytes, request_bytes));
        if !joins {
            requests.push(range.clone());
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

/// Whether `next`, which does not start before `last`, is read with it.
fn joins(last: &Range<u64>, next: &Range<u64>, gap_bytes: u64, request_bytes: u64) -> bool {
    if next.start < last.end {
        return true;
    }
    next.start - last.end <= gap_bytes && next.end - last.start <= request_bytes
}

impl RequestPlan {
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

    fn requests(ranges: &[Range<u64>], gap: u64, cap: u64) -> Vec<Range<u64>> {
        plan(ranges, gap, cap).unwrap().requests
    }

    #[test]
    fn near_ranges_join_up_to_the_gap_and_the_request_size() {
        assert_eq!(requests(&[0..10, 15..20], 5, 100), [0..20]);
        assert_eq!(requests(&[0..10, 16..20], 5, 100), [0..10, 16..20]);
        assert_eq!(requests(&[0..10, 10..20, 20..30], 0, 20), [0..20, 20..30]);
        assert_eq!(requests(&[20..30, 0..10, 10..20], 0, 100), [0..30]);
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
        let inverted = plan(&[7..3], 10, 100);
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
        let plan = plan(&ranges, 4, 64).unwrap();
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
