//! Whether boxes fill the box around them.

use crate::geometry::domain::KeyBox;

/// The box around boxes.
pub fn union(boxes: &[&KeyBox]) -> Option<KeyBox> {
    let (first, rest) = boxes.split_first()?;
    rest.iter()
        .try_fold((*first).clone(), |all, next| all.union(next))
}

/// The number of cells of `whole` in none of the boxes; `None` if the boxes are too entangled to count.
pub(super) fn uncovered(whole: &KeyBox, boxes: &[&KeyBox]) -> Option<u128> {
    /// The most pieces that are examined; more are not worth the time.
    const MOST_PIECES: usize = 4096;
    let mut left = vec![whole.clone()];
    for cells in boxes {
        let mut next = Vec::new();
        for piece in left {
            subtract(&piece, cells, &mut next);
        }
        if next.len() > MOST_PIECES {
            return None;
        }
        left = next;
    }
    Some(left.iter().map(KeyBox::volume).sum())
}

/// Appends the pieces of a box outside another.
fn subtract(from: &KeyBox, what: &KeyBox, to: &mut Vec<KeyBox>) {
    let Some(common) = from.intersect(what) else {
        to.push(from.clone());
        return;
    };
    let (mut lo, mut hi) = (from.lo().to_vec(), from.hi().to_vec());
    for (d, (low, high)) in common.ranges().enumerate() {
        let (Some(from_lo), Some(from_hi)) = (lo.get(d).copied(), hi.get(d).copied()) else {
            return;
        };
        let mut piece = |start: u64, end: u64| {
            let (mut lo, mut hi) = (lo.clone(), hi.clone());
            if let (Some(lo), Some(hi)) = (lo.get_mut(d), hi.get_mut(d)) {
                (*lo, *hi) = (start, end);
            }
            to.extend(KeyBox::new(lo, hi));
        };
        if from_lo < low {
            piece(from_lo, low - 1);
        }
        if from_hi > high {
            piece(high + 1, from_hi);
        }
        if let (Some(lo), Some(hi)) = (lo.get_mut(d), hi.get_mut(d)) {
            (*lo, *hi) = (low, high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_box_is_counted() {
        let whole = KeyBox::new(vec![0, 0], vec![9, 9]).unwrap();
        let hole = KeyBox::new(vec![3, 4], vec![5, 6]).unwrap();
        let mut pieces = Vec::new();
        subtract(&whole, &hole, &mut pieces);
        assert_eq!(pieces.iter().map(KeyBox::volume).sum::<u128>(), 91);
        for (i, a) in pieces.iter().enumerate() {
            assert!(!a.intersects(&hole));
            assert!(pieces.iter().skip(i + 1).all(|b| !a.intersects(b)));
        }
        assert_eq!(uncovered(&whole, &[&hole]), Some(91));
        assert_eq!(uncovered(&whole, &[&hole, &whole]), Some(0));
    }
}
