//! Display of a scan in EXPLAIN.

use std::fmt;

use datafusion::physical_plan::DisplayFormatType;

use super::TileDbSource;

impl TileDbSource {
    pub(super) fn show(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => {
                writeln!(f, "format=tiledb")?;
                for (name, value) in self.lines() {
                    // The renderer cuts long lines by bytes, so all characters must be ASCII.
                    let value: String = value.chars().map(ascii).collect();
                    writeln!(f, "{name}={value}")?;
                }
                Ok(())
            }
            _ => {
                f.write_str("TileDbScan: ")?;
                for (i, (name, value)) in self.lines().into_iter().enumerate() {
                    let separator = if i == 0 { "" } else { ", " };
                    write!(f, "{separator}{name}={value}")?;
                }
                Ok(())
            }
        }
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let spec = &self.plan().spec;
        let counts = &self.plan().counts;
        let schema = &spec.table.snapshot.schema;
        let names = self
            .planned
            .schema
            .fields()
            .iter()
            .map(|f| f.name().as_str())
            .collect::<Vec<_>>();
        let mut lines = vec![
            ("uri", spec.table.snapshot.storage.uri().to_owned()),
            ("array", schema.array_type.to_string()),
            ("projection", format!("[{}]", names.join(", "))),
        ];
        if spec.all_versions {
            lines.push(("versions", "all".to_owned()));
        }
        if !self.planned.label_filters.is_empty() {
            lines.push(("labels", self.planned.label_filters.join("; ")));
        }
        if !spec.subarray.is_all() {
            lines.push(("subarray", spec.subarray.describe(schema)));
        }
        if let Some(predicate) = &self.planned.predicate {
            lines.push(("predicate", predicate.to_string()));
        }
        lines.extend(self.filters.lines());
        let fragments = counts.fragments - counts.fragments_pruned;
        lines.push(("fragments", format!("{fragments}/{}", counts.fragments)));
        lines.push((
            "tiles",
            format!("{}/{}", counts.tiles - counts.tiles_pruned, counts.tiles),
        ));
        if counts.tiles_pruned_statistics > 0 {
            lines.push(("ruled_out", counts.tiles_pruned_statistics.to_string()));
        }
        if counts.tiles_proven > 0 {
            lines.push(("proven", counts.tiles_proven.to_string()));
        }
        if counts.tiles_overlapping > 0 {
            lines.push(("overlapping", counts.tiles_overlapping.to_string()));
        }
        if counts.deletes > 0 {
            lines.push(("deletes", counts.deletes.to_string()));
        }
        self.orders(&mut lines);
        let partitions = self.arrangement.partition_count();
        lines.push(("partitions", partitions.to_string()));
        let ranges = self.arrangement.ranges();
        if let Some(column) = ranges.and_then(|_| self.leading_column()) {
            lines.push(("ranges_of", column.name().to_owned()));
        }
        if let Some(remaining) = self.remaining() {
            let tiles = format!("up to {}", remaining.candidates());
            lines.push(("tiles_from_metadata", tiles));
        }
        if let Some(fetch) = self.fetch {
            lines.push(("fetch", fetch.to_string()));
        }
        lines
    }

    /// The orders in which units are read and rows come.
    fn orders(&self, lines: &mut Vec<(&'static str, String)>) {
        let spec = &self.plan().spec;
        if let Some(order) = self.arrangement.unit_order() {
            let wanted = order
                .wanted()
                .iter()
                .map(|wanted| {
                    let name = spec.table.schema.field(wanted.column).name();
                    let direction = if wanted.descending { "DESC" } else { "ASC" };
                    format!("{name} {direction}")
                })
                .collect::<Vec<_>>()
                .join(", ");
            lines.push(("best_first", format!("[{wanted}]")));
        }
        if let Some(order) = self.arrangement.row_order() {
            let terms = order
                .terms()
                .iter()
                .map(|term| {
                    let field = spec.table.schema.field(term.column);
                    let options = term.options.to_string();
                    let direction = options.split(' ').next().filter(|_| !field.is_nullable());
                    format!("{} {}", field.name(), direction.unwrap_or(&options))
                })
                .collect::<Vec<_>>()
                .join(", ");
            lines.push(("ordered_by", format!("[{terms}]")));
        }
    }
}

/// The character, or `?` if it is not ASCII.
fn ascii(c: char) -> char {
    if c.is_ascii() { c } else { '?' }
}
