//! Fragments taken apart and put together again: footer, sections and tiles, each to be changed alone.

use std::collections::{BTreeMap, BTreeSet};

use tiledb_engine::filter::{FilterScratch, Pipeline, TileContext, TileEncoder};
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::format::filter_list::FilterList;
use tiledb_engine::format::fragment::footer::{Footer, SectionOffsets};
use tiledb_engine::format::fragment::offsets::{decode_u64s, encode_u64s};
use tiledb_engine::format::fragment::statistics::{FragmentStatistics, TileMinMax};
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::format::version::FormatVersion;

use crate::support::array_files::{
    Files, METADATA_FILE, contents, join_footer, plain_tile, split_footer,
};

/// The metadata of a fragment of the current format.
pub struct Metadata {
    path: String,
    pub schema: ArraySchema,
    pub footer: Footer,
    /// The contents of sections, by their offsets.
    sections: BTreeMap<u64, Vec<u8>>,
}

/// A field of a fragment.
#[derive(Clone, Copy)]
pub enum Of {
    Attribute(usize),
    Dimension(usize),
    Times,
    DeleteTimes,
}

impl Metadata {
    /// Takes apart the metadata of the fragment whose path contains `part`.
    pub fn of(files: &Files, part: &str) -> Self {
        let mut paths = files.find_all(METADATA_FILE).into_iter();
        let path = paths.find(|path| path.contains(part)).expect("a fragment");
        let (body, footer) = split_footer(&files.0[&path]);
        let (_, schema) = Footer::peek_schema_name(footer).expect("a footer");
        let schema = contents(&files.0[&format!("__schema/{schema}")]);
        let schema = ArraySchema::decode(&schema).expect("a schema");
        let footer = Footer::decode(footer, &schema).expect("a footer");
        let starts: BTreeSet<u64> = all(&footer.sections).into_iter().collect();
        let section = |start: u64| (start, contents(&body[start as usize..]));
        Self {
            sections: starts.into_iter().map(section).collect(),
            path,
            schema,
            footer,
        }
    }

    /// Puts the metadata back.
    pub fn put(mut self, files: &mut Files) {
        let mut body = Vec::new();
        let mut moved = BTreeMap::new();
        for (start, contents) in &self.sections {
            moved.insert(*start, body.len() as u64);
            body.extend(plain_tile(contents));
        }
        each(&mut self.footer.sections, |start| *start = moved[start]);
        let file = join_footer(&body, &self.footer.encode(&self.schema));
        files.0.insert(self.path, file);
    }

    /// The slot of a field.
    pub fn slot(&self, of: Of) -> usize {
        let slots = self.footer.slots(&self.schema);
        match of {
            Of::Attribute(a) => slots.attribute(a),
            Of::Dimension(d) => slots.dimension(d),
            Of::Times => slots.timestamps().expect("times"),
            Of::DeleteTimes => slots.delete_timestamps().expect("times of deletes"),
        }
    }

    /// The contents of a section.
    pub fn section(&mut self, start: u64) -> &mut Vec<u8> {
        self.sections.get_mut(&start).expect("a section")
    }

    /// Changes a list of numbers.
    pub fn numbers(&mut self, start: u64, edit: impl FnOnce(&mut Vec<u64>)) {
        let section = self.section(start);
        let mut numbers = decode_u64s(section, "numbers").expect("numbers");
        edit(&mut numbers);
        *section = encode_u64s(&numbers);
    }

    /// Changes the minima or the maxima of tiles.
    pub fn min_max(&mut self, start: u64, edit: impl FnOnce(&mut TileMinMax)) {
        let section = self.section(start);
        let mut values = TileMinMax::decode(section, "values").expect("values");
        edit(&mut values);
        *section = values.encode();
    }

    /// Changes the statistics of the fragment.
    pub fn totals(&mut self, edit: impl FnOnce(&mut FragmentStatistics)) {
        let start = self
            .footer
            .sections
            .fragment_statistics
            .expect("statistics");
        let slots = self.footer.file_sizes.len();
        let section = self.section(start);
        let mut statistics = FragmentStatistics::decode(section, slots).expect("statistics");
        edit(&mut statistics);
        *section = statistics.encode();
    }
}

/// Changes the metadata of a fragment.
pub fn edit(files: &mut Files, part: &str, edit: impl FnOnce(&mut Metadata)) {
    let mut metadata = Metadata::of(files, part);
    edit(&mut metadata);
    metadata.put(files);
}

/// Changes the unfiltered bytes of each tile of a field of fixed size; the file and its offsets follow.
pub fn edit_tiles(
    files: &mut Files,
    part: &str,
    of: Of,
    mut change: impl FnMut(usize, &mut Vec<u8>),
) {
    let mut metadata = Metadata::of(files, part);
    let slot = metadata.slot(of);
    let schema = metadata.schema.clone();
    let (name, datatype, filters) = match of {
        Of::Attribute(a) => {
            let attribute = &schema.attributes[a];
            (
                format!("a{a}.tdb"),
                attribute.datatype,
                attribute.filters.clone(),
            )
        }
        Of::Dimension(d) => {
            let filters = schema.dimension_filters(d, FormatVersion::WRITTEN).clone();
            (format!("d{d}.tdb"), schema.dimensions[d].datatype, filters)
        }
        Of::Times => (
            "t.tdb".to_owned(),
            Datatype::UInt64,
            schema.coords_filters.clone(),
        ),
        Of::DeleteTimes => (
            "dt.tdb".to_owned(),
            Datatype::UInt64,
            schema.coords_filters.clone(),
        ),
    };
    let path = metadata.path.replace(METADATA_FILE, &name);
    let file = files.0[&path].clone();
    let start = metadata.footer.sections.tile_offsets[slot];
    let cell_bytes = datatype.size();
    let cells = |tile: usize, metadata: &Metadata| {
        let last = tile as u64 + 1 == metadata.footer.sparse_tile_count;
        let footer = &metadata.footer;
        if footer.dense || last {
            footer.last_tile_cell_count as usize
        } else {
            metadata.schema.capacity as usize
        }
    };
    let offsets = decode_u64s(metadata.section(start), "offsets").expect("offsets");
    let mut written = Vec::new();
    let mut moved = Vec::new();
    for (tile, offset) in offsets.iter().enumerate() {
        let end = offsets
            .get(tile + 1)
            .map_or(file.len(), |end| *end as usize);
        let bytes = cells(tile, &metadata) * cell_bytes;
        let mut unfiltered = unfiltered(&filters, datatype, &file[*offset as usize..end], bytes);
        change(tile, &mut unfiltered);
        moved.push(written.len() as u64);
        written.extend(filtered(&filters, datatype, &unfiltered));
    }
    metadata.footer.file_sizes[slot] = written.len() as u64;
    metadata.numbers(start, |offsets| *offsets = moved);
    metadata.put(files);
    files.0.insert(path, written);
}

fn context(datatype: Datatype) -> TileContext {
    TileContext {
        datatype,
        cell_bytes: datatype.size(),
        schema_version: FormatVersion::WRITTEN,
        fragment_version: FormatVersion::WRITTEN,
        var_data: false,
    }
}

fn unfiltered(filters: &FilterList, datatype: Datatype, tile: &[u8], bytes: usize) -> Vec<u8> {
    let pipeline = Pipeline::new(filters, &context(datatype), None).expect("filters");
    let mut unfiltered = vec![0; bytes];
    let decoded = pipeline.decode(tile, &mut unfiltered, &mut FilterScratch::default());
    decoded.expect("a tile");
    unfiltered
}

fn filtered(filters: &FilterList, datatype: Datatype, bytes: &[u8]) -> Vec<u8> {
    let encoder = TileEncoder::new(filters, &context(datatype)).expect("filters");
    let mut encoder = encoder;
    encoder.encode(bytes).expect("a tile")
}

/// The offsets of all sections.
fn all(sections: &SectionOffsets) -> Vec<u64> {
    let mut starts = Vec::new();
    each(&mut sections.clone(), |start| starts.push(*start));
    starts
}

fn each(sections: &mut SectionOffsets, mut visit: impl FnMut(&mut u64)) {
    visit(&mut sections.rtree);
    for list in [
        &mut sections.tile_offsets,
        &mut sections.var_offsets,
        &mut sections.var_sizes,
        &mut sections.validity_offsets,
        &mut sections.mins,
        &mut sections.maxes,
        &mut sections.sums,
        &mut sections.null_counts,
    ] {
        list.iter_mut().for_each(&mut visit);
    }
    sections.fragment_statistics.iter_mut().for_each(&mut visit);
    sections
        .processed_conditions
        .iter_mut()
        .for_each(&mut visit);
}
