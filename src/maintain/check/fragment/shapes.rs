//! Which statistics a field has, and how large they are.
//!
//! Since version 11 every slot has its sections. Aggregates of libtiledb crash where statistics that a type has are
//! missing.

use super::fields::{Field, FieldStatistics, Kind};
use super::sections::Sections;
use crate::format::datatype::Datatype;
use crate::format::fragment::statistics::{FragmentStatistics, TileMinMax};
use crate::format::schema::CellValNum;
use crate::maintain::check::rule::Rule;

/// Since this version, there are statistics.
const SINCE: u32 = 11;

impl Field {
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
        self.kind != Kind::Dimension && (text || (one && !opaque))
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

    /// Whether it is a geometry: libtiledb up to 2.30 has no statistics of these, and later releases none that mean
    /// anything.
    pub fn is_geometry(&self) -> bool {
        matches!(self.datatype, Datatype::GeomWkb | Datatype::GeomWkt)
    }
}

/// Checks the sizes of the statistics of tiles; those of a wrong size are dropped.
pub fn of_tiles(
    sections: &Sections<'_>,
    field: &Field,
    tiles: u64,
    mut statistics: FieldStatistics,
) -> FieldStatistics {
    if !sections.fragment.footer.version.since(SINCE) {
        return statistics;
    }
    let shape = Shape {
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
pub fn of_fragment(sections: &Sections<'_>, field: &Field, statistics: &FragmentStatistics) {
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

struct Shape<'a> {
    sections: &'a Sections<'a>,
    field: &'a Field,
    tiles: u64,
}

impl Shape<'_> {
    fn min_max(&self, what: &str, has: bool, values: &TileMinMax) -> bool {
        let has = has && !(self.field.is_geometry() && values.is_empty());
        let size = self.field.cell_size();
        let width = size.unwrap_or(size_of::<u64>());
        let (fixed, var) = (values.fixed.len(), values.var.len());
        let wanted = match has {
            true => usize::try_from(self.tiles)
                .ok()
                .and_then(|tiles| tiles.checked_mul(width)),
            false => Some(0),
        };
        if wanted != Some(fixed) || (size.is_some() && var != 0) {
            let expected = match has {
                true => format!("{} values of {width} bytes", self.tiles),
                false => "none".to_owned(),
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
        let expected = match has {
            true => format!("one for each of {} tiles", self.tiles),
            false => "none".to_owned(),
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
