//! The lists of a field: where its tiles begin, how large their values are, and their statistics.

use super::fields::{CheckedField, FieldKind, StoredFieldStatistics};
use super::files::CheckedSections;
use crate::error::Result;
use crate::format::datatype::Datatype;
use crate::format::fragment::offsets::decode_u64s;
use crate::format::fragment::statistics::{FragmentStatistics, TileMinMax};
use crate::format::schema::CellValNum;
use crate::maintain::check::rule::Rule;

/// The lists of a field as stored; missing and unreadable ones are `None`.
#[derive(Debug, Default)]
pub struct FieldLists {
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

impl FieldLists {
    /// Reads the lists of a field; `None` if the footer has none for it.
    pub async fn read(
        sections: &CheckedSections<'_>,
        field: &CheckedField,
    ) -> Result<Option<Self>> {
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
        sections: &CheckedSections<'_>,
        field: &CheckedField,
        tiles: u64,
    ) -> Option<StoredFieldStatistics> {
        let footer = &sections.fragment.footer;
        let slot = field.slot;
        let size = |sizes: &[u64]| sizes.get(slot).copied().unwrap_or(0);
        let check = ListCheck {
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
        let statistics = StoredFieldStatistics {
            mins: self.mins.unwrap_or_default(),
            maxes: self.maxes.unwrap_or_default(),
            sums: self.sums.unwrap_or_default(),
            null_counts: self.null_counts.unwrap_or_default(),
            readable,
        };
        Some(check_tile_sizes(sections, field, tiles, statistics))
    }
}

fn told<T>(
    sections: &CheckedSections<'_>,
    field: &CheckedField,
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
struct ListCheck<'a> {
    sections: &'a CheckedSections<'a>,
    field: &'a CheckedField,
    tiles: u64,
}

impl ListCheck<'_> {
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
        // Unreadable sections have been reported.
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

/// Since this version, there are statistics.
const SINCE: u32 = 11;

impl CheckedField {
    /// Whether it has a minimum and a maximum; dimensions have rectangles instead.
    pub fn has_min_max(&self) -> bool {
        use Datatype as D;
        let text = matches!(self.datatype, D::Char | D::StringAscii);
        let one = self.cell_val_num == CellValNum::Fixed(1);
        let opaque = matches!(
            self.datatype,
            D::Any
                | D::Blob
                | D::StringUtf8
                | D::StringUtf16
                | D::StringUtf32
                | D::StringUcs2
                | D::StringUcs4
        );
        self.kind != FieldKind::Dimension && (text || (one && !opaque))
    }

    /// Whether it has a sum.
    pub fn has_sum(&self) -> bool {
        use Datatype as D;
        let opaque = matches!(
            self.datatype,
            D::Any
                | D::Blob
                | D::StringAscii
                | D::StringUtf8
                | D::StringUtf16
                | D::StringUtf32
                | D::StringUcs2
                | D::StringUcs4
        );
        self.cell_val_num == CellValNum::Fixed(1) && !opaque
    }

    /// Whether it is a geometry: libtiledb up to 2.30 has no statistics of geometries, and those of later releases mean
    /// nothing.
    pub fn is_geometry(&self) -> bool {
        matches!(self.datatype, Datatype::GeomWkb | Datatype::GeomWkt)
    }
}

/// Checks the sizes of the statistics of tiles; those of a wrong size are dropped.
///
/// Since version 11 every slot has its sections. Aggregates of libtiledb crash where statistics that a type has are
/// missing.
fn check_tile_sizes(
    sections: &CheckedSections<'_>,
    field: &CheckedField,
    tiles: u64,
    mut statistics: StoredFieldStatistics,
) -> StoredFieldStatistics {
    if !sections.fragment.footer.version.since(SINCE) {
        return statistics;
    }
    let shape = ListShape {
        sections,
        field,
        tiles,
    };
    let has = field.has_min_max();
    for (what, min_max) in [
        ("tile mins", &mut statistics.mins),
        ("tile maxes", &mut statistics.maxes),
    ] {
        if !shape.min_max(what, has, min_max) {
            *min_max = TileMinMax::default();
        }
    }
    let has_sum = field.has_sum() && !(field.is_geometry() && statistics.sums.is_empty());
    if !shape.numbers("tile sums", has_sum, &statistics.sums) {
        statistics.sums.clear();
    }
    if !shape.numbers("tile null counts", field.nullable, &statistics.null_counts) {
        statistics.null_counts.clear();
    }
    statistics
}

/// Checks the sizes of a field's statistics over the whole fragment.
pub fn check_fragment_sizes(
    sections: &CheckedSections<'_>,
    field: &CheckedField,
    statistics: &FragmentStatistics,
) {
    let Some(of_field) = statistics.slots.get(field.slot) else {
        return;
    };
    for (what, value) in [
        ("fragment min", &of_field.min),
        ("fragment max", &of_field.max),
    ] {
        let fits = match field.cell_size() {
            Some(size) => value.len() == size || value.is_empty(),
            None => true,
        };
        if !fits || (!field.has_min_max() && !value.is_empty()) {
            let found = format!("{} bytes", value.len());
            let expected = match (field.has_min_max(), field.cell_size()) {
                (true, Some(size)) => format!("{size} bytes, or none"),
                _ => "none".to_owned(),
            };
            let object = sections.object(&format!("{what} of {field}"));
            sections
                .report
                .tell(Rule::StatisticsShape, object, found, expected);
        }
    }
}

struct ListShape<'a> {
    sections: &'a CheckedSections<'a>,
    field: &'a CheckedField,
    tiles: u64,
}

impl ListShape<'_> {
    fn min_max(&self, what: &str, has: bool, values: &TileMinMax) -> bool {
        let has = has && !(self.field.is_geometry() && values.is_empty());
        let size = self.field.cell_size();
        let width = size.unwrap_or(size_of::<u64>());
        let (fixed, var) = (values.fixed.len(), values.var.len());
        let wanted = if has {
            usize::try_from(self.tiles)
                .ok()
                .and_then(|tiles| tiles.checked_mul(width))
        } else {
            Some(0)
        };
        if wanted != Some(fixed) || (size.is_some() && var != 0) {
            let expected = if has {
                format!("{} values of {width} bytes", self.tiles)
            } else {
                "none".to_owned()
            };
            self.tell(what, format!("{fixed} and {var} bytes"), expected);
            return false;
        }
        if let Err(e) = values.check(self.tiles, size) {
            self.tell(what, e.message().to_owned(), "ascending starts".to_owned());
            return false;
        }
        true
    }

    fn numbers(&self, what: &str, has: bool, values: &[u64]) -> bool {
        let wanted = if has { self.tiles } else { 0 };
        if values.len() as u64 == wanted {
            return true;
        }
        let expected = if has {
            format!("one for each of {} tiles", self.tiles)
        } else {
            "none".to_owned()
        };
        self.tell(what, format!("{} values", values.len()), expected);
        false
    }

    fn tell(&self, what: &str, found: String, expected: String) {
        let object = self.sections.object(&format!("{what} of {}", self.field));
        let report = self.sections.report;
        report.tell(Rule::StatisticsShape, object, found, expected);
    }
}
