//! The cells of a tile that are compared with other cells.

/// The cells of a tile that are compared with other cells.
#[derive(Debug)]
pub enum Asked {
    /// All cells; this is their number.
    All(usize),
    /// The cells with these indices.
    Some(Vec<u32>),
}

impl Asked {
    /// The selected cells of a mask.
    pub fn new(mask: &[bool]) -> Self {
        let count = mask
            .iter()
            .map(|selected| usize::from(*selected))
            .sum::<usize>();
        if count == mask.len() {
            return Self::All(count);
        }
        // A loop without branches: every index is written, and the next one overwrites it if the cell is not selected.
        let mut cells = vec![0; count + 1];
        let mut next = 0;
        for (cell, selected) in (0_u32..).zip(mask) {
            if let Some(slot) = cells.get_mut(next) {
                *slot = cell;
            }
            next += usize::from(*selected);
        }
        cells.truncate(count);
        Self::Some(cells)
    }

    /// The number of cells.
    pub fn len(&self) -> usize {
        match self {
            Self::All(count) => *count,
            Self::Some(cells) => cells.len(),
        }
    }

    /// Whether there are no cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first cell and the last.
    pub(super) fn ends(&self) -> Option<(usize, usize)> {
        match self {
            Self::All(count) => Some((0, count.checked_sub(1)?)),
            Self::Some(cells) => Some((*cells.first()? as usize, *cells.last()? as usize)),
        }
    }

    /// Calls `f` with each cell and its value; `values` has one value for each of these cells.
    pub(super) fn for_each<T: Copy>(&self, values: &[T], mut f: impl FnMut(usize, T)) {
        match self {
            Self::All(_) => values.iter().enumerate().for_each(|(c, v)| f(c, *v)),
            Self::Some(cells) => {
                let both = cells.iter().zip(values);
                both.for_each(|(cell, v)| f(*cell as usize, *v));
            }
        }
    }

    /// Calls `f` with each cell.
    pub(super) fn for_each_cell(&self, f: impl FnMut(usize)) {
        match self {
            Self::All(count) => (0..*count).for_each(f),
            Self::Some(cells) => cells.iter().map(|cell| *cell as usize).for_each(f),
        }
    }

    /// Calls `f` with the value of each cell; `values` has one value for every cell of the tile.
    pub(super) fn for_each_of<const N: usize>(
        &self,
        values: &[[u8; N]],
        mut f: impl FnMut([u8; N]),
    ) {
        match self {
            Self::All(count) => values.iter().take(*count).for_each(|v| f(*v)),
            Self::Some(cells) => cells
                .iter()
                .filter_map(|cell| values.get(*cell as usize))
                .for_each(|v| f(*v)),
        }
    }
}
