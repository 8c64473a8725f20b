//! The lists of a field: where its tiles begin, how large their values are, and their statistics.

use super::fields::{Field, FieldStatistics};
use super::sections::Sections;
use super::shapes;
use crate::error::Result;
use crate::format::fragment::offsets::decode_u64s;
use crate::format::fragment::statistics::TileMinMax;
use crate::maintain::check::rule::Rule;

/// The lists of a field as stored; those that it does not have, or that cannot be read, are `None`.
#[derive(Debug, Default)]
pub struct Lists {
    tile_offsets: Option<Vec<u64>>,
    var_offsets: Option<Vec<u64>>,
    var_sizes: Option<Vec<u64>>,
    validity_offsets: Option<Vec<u64>>,
    mins: Option<TileMinMax>,
    maxes: Option<TileMinMax>,
    sums: Option<Vec<u64>>,
    null_counts: Option<Vec<u64>>,
}

const TILE_OFFSETS: &str = "tile offsets";
const VAR_OFFSETS: &str = "var tile offsets";
const VAR_SIZES: &str = "var tile sizes";
const VALIDITY_OFFSETS: &str = "validity tile offsets";
const MINS: &str = "tile mins";
const MAXES: &str = "tile maxes";
const SUMS: &str = "tile sums";
const NULL_COUNTS: &str = "tile null counts";

impl Lists {
    /// Reads the lists of a field; `None` if the footer has none for it.
    pub async fn read(sections: &Sections<'_>, field: &Field) -> Result<Option<Self>> {
        if let Some(monolithic) = &sections.monolithic {
            let of = |lists: &[std::sync::Arc<Vec<u64>>]| {
                lists.get(field.slot).map(|list| list.as_ref().clone())
            };
            return Ok(Some(Self {
                tile_offsets: of(&monolithic.tile_offsets),
                var_offsets: of(&monolithic.var_offsets),
                var_sizes: of(&monolithic.var_sizes),
                ..Self::default()
            }));
        }
        let offsets = &sections.fragment.footer.sections;
        let lists = [
            (TILE_OFFSETS, &offsets.tile_offsets),
            (VAR_OFFSETS, &offsets.var_offsets),
            (VAR_SIZES, &offsets.var_sizes),
            (VALIDITY_OFFSETS, &offsets.validity_offsets),
            (MINS, &offsets.mins),
            (MAXES, &offsets.maxes),
            (SUMS, &offsets.sums),
            (NULL_COUNTS, &offsets.null_counts),
        ];
        // Some versions have no such lists.
        let there: [Option<(u64, &'static str)>; 8] =
            lists.map(|(what, starts)| Some((*starts.get(field.slot)?, what)));
        let wanted: Vec<(u64, &'static str)> = there.iter().flatten().copied().collect();
        let mut read = sections.read(&wanted).await?.into_iter();
        let mut next = |index: usize| match there.get(index) {
            Some(Some(_)) => read.next().flatten(),
            _ => None,
        };
        let contents: [Option<Vec<u8>>; 8] = std::array::from_fn(&mut next);
        let [tiles, var, sizes, validity, mins, maxes, sums, nulls] = contents;
        let numbers = |contents: Option<Vec<u8>>, what: &'static str| {
            let decoded = contents.map(|contents| decode_u64s(&contents, what));
            told(sections, field, what, decoded)
        };
        let min_max = |contents: Option<Vec<u8>>, what: &'static str| {
            let decoded = contents.map(|contents| TileMinMax::decode(&contents, what));
            told(sections, field, what, decoded)
        };
        Ok(Some(Self {
            tile_offsets: numbers(tiles, TILE_OFFSETS),
            var_offsets: numbers(var, VAR_OFFSETS),
            var_sizes: numbers(sizes, VAR_SIZES),
            validity_offsets: numbers(validity, VALIDITY_OFFSETS),
            mins: min_max(mins, MINS),
            maxes: min_max(maxes, MAXES),
            sums: numbers(sums, SUMS),
            null_counts: numbers(nulls, NULL_COUNTS),
        }))
    }

    /// Checks the lists against the number of tiles and the files; `None` if there are none.
    pub fn check(
        self,
        sections: &Sections<'_>,
        field: &Field,
        tiles: u64,
    ) -> Option<FieldStatistics> {
        let footer = &sections.fragment.footer;
        let slot = field.slot;
        let size = |sizes: &[u64]| sizes.get(slot).copied().unwrap_or(0);
        let check = Check {
            sections,
            field,
            tiles,
        };
        let mut readable = check.offsets(
            TILE_OFFSETS,
            self.tile_offsets.as_deref(),
            size(&footer.file_sizes),
        );
        if field.is_var() {
            let bytes = size(&footer.var_file_sizes);
            readable &= check.offsets(VAR_OFFSETS, self.var_offsets.as_deref(), bytes);
            readable &= check.count(VAR_SIZES, self.var_sizes.as_deref());
        }
        if field.nullable {
            let bytes = size(&footer.validity_file_sizes);
            readable &= check.offsets(VALIDITY_OFFSETS, self.validity_offsets.as_deref(), bytes);
        }
        let statistics = FieldStatistics {
            mins: self.mins.unwrap_or_default(),
            maxes: self.maxes.unwrap_or_default(),
            sums: self.sums.unwrap_or_default(),
            null_counts: self.null_counts.unwrap_or_default(),
            readable,
        };
        Some(shapes::of_tiles(sections, field, tiles, statistics))
    }
}

fn told<T>(
    sections: &Sections<'_>,
    field: &Field,
    what: &'static str,
    decoded: Option<Result<T>>,
) -> Option<T> {
    match decoded? {
        Ok(list) => Some(list),
        Err(e) => {
            sections.unreadable(&format!("{what} of {field}"), e.message());
            None
        }
    }
}

/// Checks the lists of one field.
struct Check<'a> {
    sections: &'a Sections<'a>,
    field: &'a Field,
    tiles: u64,
}

impl Check<'_> {
    /// Offsets begin with 0, ascend and lie in the file.
    fn offsets(&self, what: &'static str, list: Option<&[u64]>, file_bytes: u64) -> bool {
        if !self.count(what, list) {
            return false;
        }
        let mut previous = 0;
        for (tile, offset) in list.unwrap_or_default().iter().enumerate() {
            let first = tile == 0 && *offset != 0;
            if first || *offset < previous || *offset > file_bytes {
                let expected = match tile {
                    0 => "0".to_owned(),
                    _ => format!("{previous} to {file_bytes}, the size of the file"),
                };
                let object = format!("{}, tile {tile}", self.object(what));
                let found = format!("the offset {offset}");
                let report = self.sections.report;
                report.tell(Rule::TileOffsets, object, found, expected);
                return false;
            }
            previous = *offset;
        }
        true
    }

    /// There is one entry for each tile.
    fn count(&self, what: &'static str, list: Option<&[u64]>) -> bool {
        // What is unreadable was told.
        let Some(list) = list else {
            return false;
        };
        let found = list.len() as u64;
        if found != self.tiles {
            let found = format!("{found} entries");
            let expected = format!("one for each of {} tiles", self.tiles);
            let report = self.sections.report;
            report.tell(Rule::TileOffsets, self.object(what), found, expected);
        }
        found == self.tiles
    }

    fn object(&self, what: &str) -> String {
        self.sections.object(&format!("{what} of {}", self.field))
    }
}
