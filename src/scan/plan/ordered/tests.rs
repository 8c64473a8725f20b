use super::*;
use crate::array::fragment::TileIdx;

const STRICT: Touching = Touching {
    allowed: false,
    in_fragment: false,
};
const ALLOWED: Touching = Touching {
    allowed: true,
    in_fragment: false,
};
const IN_FRAGMENT: Touching = Touching {
    allowed: false,
    in_fragment: true,
};

/// The slabs of tiles, each tile given as (fragment, range).
fn parted(tiles: &[(usize, u64, u64)], touching: Touching) -> Vec<(usize, usize)> {
    let piece = |(i, (fragment, lo, hi)): (usize, &(usize, u64, u64))| Piece {
        lo: Coordinate::Key(*lo),
        hi: Coordinate::Key(*hi),
        fragment: Some(*fragment),
        cells: 10,
        what: What::Tile(TileRef {
            fragment: *fragment,
            tile: TileIdx(i as u64),
            cells: 10,
            covered: true,
            no_deletes: true,
            proven: false,
        }),
    };
    let pieces = tiles.iter().enumerate().map(piece).collect::<Vec<_>>();
    let slabs = slabs(&pieces, touching);
    assert_eq!(
        slabs.iter().map(|s| s.cells).sum::<u64>(),
        10 * tiles.len() as u64
    );
    let ends = slabs.into_iter().map(|s| (s.pieces.start, s.pieces.end));
    ends.collect()
}

#[test]
fn tiles_whose_ranges_overlap_are_one_slab() {
    let tiles = [
        (0, 0, 9),
        (0, 10, 25),
        (1, 20, 21),
        (1, 22, 30),
        (0, 31, 40),
    ];
    for touching in [STRICT, ALLOWED, IN_FRAGMENT] {
        assert_eq!(parted(&tiles, touching), [(0, 1), (1, 4), (4, 5)]);
    }
    // One long tile spans many short ones.
    let tiles = [(0, 0, 90), (1, 1, 2), (1, 3, 4), (1, 91, 95)];
    assert_eq!(parted(&tiles, ALLOWED), [(0, 3), (3, 4)]);
}

#[test]
fn slabs_touch_where_the_coordinate_between_them_tells_no_rows_apart() {
    let tiles = [(0, 0, 5), (0, 5, 5), (0, 5, 9), (1, 9, 12)];
    assert_eq!(parted(&tiles, ALLOWED), [(0, 1), (1, 2), (2, 3), (3, 4)]);
    assert_eq!(parted(&tiles, STRICT), [(0, 4)]);
}

#[test]
fn tiles_of_one_fragment_go_on_where_the_last_one_ends() {
    let tiles = [(0, 0, 5), (0, 5, 5), (0, 5, 9), (1, 10, 12)];
    assert_eq!(
        parted(&tiles, IN_FRAGMENT),
        [(0, 1), (1, 2), (2, 3), (3, 4)]
    );
    // The other fragment has rows at the coordinate that both tiles share, and continues there itself.
    let tiles = [(0, 0, 5), (0, 5, 5), (1, 5, 9), (1, 9, 12)];
    assert_eq!(parted(&tiles, IN_FRAGMENT), [(0, 4)]);
}
