//! `tiledb_tiles('location')`: the tiles of the visible fragments, one row for each of their fields.
//!
//! | Column | |
//! |---|---|
//! | `fragment`, `tile` | the fragment, and the number of the tile in it |
//! | `field` | the name of the column, from the fragment's own schema |
//! | `role` | `dimension` or `attribute` |
//! | `cells` | the number of cells in the tile; in a dense fragment those that were written |
//! | `mbr` | the box around the cells, for each dimension `dimension`, `low`, `high` as text |
//! | `data_bytes`, `var_bytes`, `validity_bytes` | size on storage: of values or offsets, of variable-sized values, of validity |
//! | `min`, `max`, `sum` | as text; codes if the attribute is enumerated; NULL if none are stored |
//! | `null_count` | the number of nulls; NULL if none is stored |
//!
//! Statistics are shown as they are stored, and some writers store wrong ones: see
//! [`array::fragment::statistics`](tiledb_engine::array::fragment::statistics). Dense fragments store no dimensions; before
//! format 5 all dimensions share a file, whose size each of them shows.
//!
//! Rows come fragment by fragment. Only what the selected columns need is loaded, and only for the fields and fragments
//! that a condition on `fragment`, `field` or `role` selects.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_expr::utils::reassign_expr_columns;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tiledb_engine::array::fragment::statistics::{FieldStatistics, StatisticsWanted, TileSum};
use tiledb_engine::array::fragment::{DenseTiles, FieldTiles, Fragment, FragmentField, TileIdx};
use tiledb_engine::array::inspect::ArrayInspection;
use tiledb_engine::arrow::column_names;
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::format::fragment::rtree::Mbrs;
use tiledb_engine::geometry::key;
use tiledb_engine::storage::Storage;
use tiledb_engine::{Error, Result, ResultExt};

use super::arguments::FunctionTarget;
use super::columns::{self, TEXT, TextRange, optional, required};
use super::description::{DescribeArray, DescriptionRequest, DescriptionRows};
use super::value;

/// The function.
pub(super) struct TilesFunction;

const FRAGMENT: usize = 0;
const FIELD: usize = 2;
const ROLE: usize = 3;
const MBR: usize = 5;
const BYTES: [usize; 3] = [6, 7, 8];
const MIN_MAX: [usize; 2] = [9, 10];
const SUM: usize = 11;
const NULL_COUNT: usize = 12;

impl DescribeArray for TilesFunction {
    const NAME: &'static str = "tiledb_tiles";
    const FILTERED: &'static [usize] = &[FRAGMENT, FIELD, ROLE];

    fn schema() -> SchemaRef {
        columns::schema(vec![
            required("fragment", TEXT),
            required("tile", DataType::UInt64),
            required("field", TEXT),
            required("role", TEXT),
            optional("cells", DataType::UInt64),
            optional("mbr", columns::box_type()),
            optional("data_bytes", DataType::UInt64),
            optional("var_bytes", DataType::UInt64),
            optional("validity_bytes", DataType::UInt64),
            optional("min", TEXT),
            optional("max", TEXT),
            optional("sum", TEXT),
            optional("null_count", DataType::UInt64),
        ])
    }

    fn rows(
        target: FunctionTarget,
        request: Arc<DescriptionRequest>,
    ) -> BoxStream<'static, Result<DescriptionRows>> {
        let fragments = async move {
            let array = ArrayInspection::open(&target.storage, target.window()?).await?;
            let fragments = VecDeque::from(array.visible_fragments().await?);
            Ok::<_, Error>((fragments, array.storage().clone()))
        };
        stream::once(fragments)
            .map_ok(move |(fragments, storage)| of_fragments(fragments, storage, request.clone()))
            .try_flatten()
            .boxed()
    }
}

/// Describes fragment by fragment; each is loaded after the rows of the one before are consumed.
fn of_fragments(
    fragments: VecDeque<Arc<Fragment>>,
    storage: Storage,
    request: Arc<DescriptionRequest>,
) -> impl futures::Stream<Item = Result<DescriptionRows>> + Send {
    stream::unfold((fragments, storage, request), |mut state| async move {
        let fragment = state.0.pop_front()?;
        let name = fragment.name.name.clone();
        let tiles = TileRows::load(fragment, &state.1, Arc::clone(&state.2)).await;
        let batches = match tiles {
            Ok(tiles) => stream::iter(tiles).map(Ok).left_stream(),
            Err(e) => stream::once(async { Err(e.with("fragment", name)) }).right_stream(),
        };
        Some((batches, state))
    })
    .flatten()
    .and_then(|batch| async move { batch })
}

/// A field of a fragment, for which there are rows.
struct TileField {
    name: String,
    field: FragmentField,
    role: &'static str,
    datatype: Datatype,
}

/// The loaded metadata of a fragment, and the next tile to describe.
struct TileRows {
    fragment: Arc<Fragment>,
    request: Arc<DescriptionRequest>,
    fields: Vec<TileField>,
    dense: Option<DenseTiles>,
    mbrs: Option<Arc<Mbrs>>,
    /// The files of each field; empty if not selected.
    files: Vec<FieldTiles>,
    statistics: Vec<FieldStatistics>,
    tiles: u64,
    next: u64,
}

impl TileRows {
    async fn load(
        fragment: Arc<Fragment>,
        storage: &Storage,
        request: Arc<DescriptionRequest>,
    ) -> Result<Self> {
        let fields = wanted_fields(&fragment, &request)?;
        let ids: Vec<FragmentField> = fields.iter().map(|f| f.field).collect();
        let some = !fields.is_empty();
        let dense = if fragment.footer.dense {
            fragment.dense_tiles()?
        } else {
            None
        };
        let mbrs = if some && !fragment.footer.dense && request.wants(&[MBR]) {
            Some(fragment.mbrs(storage).await?)
        } else {
            None
        };
        let files = if some && request.wants(&BYTES) {
            fragment.field_tiles(storage, &ids).await?
        } else {
            Vec::new()
        };
        let wanted = StatisticsWanted {
            min_max: request.wants(&MIN_MAX),
            sums: request.wants(&[SUM]),
            null_counts: request.wants(&[NULL_COUNT]),
        };
        let statistics = if some && wanted != StatisticsWanted::default() {
            fragment.statistics(storage, &ids, wanted).await?
        } else {
            Vec::new()
        };
        Ok(Self {
            tiles: if some { fragment.tile_count()? } else { 0 },
            fragment,
            request,
            fields,
            dense,
            mbrs,
            files,
            statistics,
            next: 0,
        })
    }

    /// The rows of some tiles.
    fn rows(&self, tiles: std::ops::Range<u64>) -> Result<DescriptionRows> {
        let fields = self.fields.len();
        let rows: Vec<(TileIdx, usize)> = tiles
            .flat_map(|tile| (0..fields).map(move |field| (TileIdx(tile), field)))
            .collect();
        let each = || rows.iter().copied();
        let wants = |columns: &[usize]| self.request.wants(columns);
        let field = |i: usize| self.fields.get(i);
        let mbrs = if wants(&[MBR]) {
            let mbrs: Vec<_> = each().map(|(tile, _)| self.mbr(tile)).collect();
            columns::boxes(&mbrs)?
        } else {
            columns::unwanted(rows.len())
        };
        let [data, var, validity] = self.bytes(&rows)?;
        let show = |field: usize, value: Option<&[u8]>| {
            Some(value::cell(self.fields.get(field)?.datatype, value?))
        };
        let statistics = |field: usize| self.statistics.get(field);
        Ok(DescriptionRows {
            len: rows.len(),
            columns: vec![
                columns::text(each().map(|_| &self.fragment.name.name)),
                columns::u64s(each().map(|(tile, _)| Some(tile.0))),
                columns::text(each().map(|(_, f)| field(f).map_or("", |f| &f.name))),
                columns::text(each().map(|(_, f)| field(f).map_or("", |f| f.role))),
                columns::u64s(each().map(|(tile, _)| self.cells(tile))),
                mbrs,
                columns::u64s(data),
                columns::u64s(var),
                columns::u64s(validity),
                columns::opt_text(each().map(|(t, f)| show(f, statistics(f)?.min(t)))),
                columns::opt_text(each().map(|(t, f)| show(f, statistics(f)?.max(t)))),
                columns::opt_text(each().map(|(t, f)| Some(sum(statistics(f)?.sum(t)?)))),
                columns::u64s(each().map(|(t, f)| statistics(f)?.null_count(t))),
            ],
        })
    }

    fn cells(&self, tile: TileIdx) -> Option<u64> {
        if self.fragment.footer.dense {
            return self.dense.as_ref()?.cells_of(tile)?.cells();
        }
        let cells = self.fragment.sparse_tile_cells(tile).ok()?;
        u64::try_from(cells).ok()
    }

    fn mbr(&self, tile: TileIdx) -> Option<Vec<TextRange>> {
        let dimensions = self.fragment.schema.dimensions.iter();
        if let Some(mbrs) = &self.mbrs {
            let sides = dimensions.enumerate().map(|(i, dimension)| {
                let (low, high) = mbrs.range(tile.get(), i);
                columns::side(&dimension.name, dimension.datatype, low, high)
            });
            return Some(sides.collect());
        }
        let cells = self.dense.as_ref()?.cells_of(tile)?;
        let sides = dimensions.zip(cells.ranges()).map(|(dimension, (lo, hi))| {
            let bytes = |k: u64| key::from_key(dimension.datatype, k);
            columns::side(&dimension.name, dimension.datatype, &bytes(lo), &bytes(hi))
        });
        Some(sides.collect())
    }

    /// Sizes on storage of values, of variable-sized values, of validity.
    fn bytes(&self, rows: &[(TileIdx, usize)]) -> Result<[Vec<Option<u64>>; 3]> {
        let mut bytes = [Vec::new(), Vec::new(), Vec::new()];
        let [data, var, validity] = &mut bytes;
        for (tile, field) in rows {
            let Some(files) = self.files.get(*field) else {
                continue;
            };
            let size = |file: &tiledb_engine::array::fragment::TileFile| {
                file.tile(*tile).map(|range| range.end - range.start)
            };
            data.push(Some(size(&files.values)?));
            var.push(files.var.as_ref().map(|(file, _)| size(file)).transpose()?);
            validity.push(files.validity.as_ref().map(size).transpose()?);
        }
        Ok(bytes)
    }
}

impl Iterator for TileRows {
    type Item = Result<DescriptionRows>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.tiles {
            return None;
        }
        let fields = self.fields.len().max(1);
        let tiles = (self.request.batch_size / fields).max(1) as u64;
        let start = self.next;
        self.next = start.saturating_add(tiles).min(self.tiles);
        Some(
            self.rows(start..self.next)
                .context("fragment", || &self.fragment.name.name),
        )
    }
}

fn sum(sum: TileSum) -> String {
    match sum {
        TileSum::Int(sum) => sum.to_string(),
        TileSum::UInt(sum) => sum.to_string(),
        TileSum::Float(sum) => format!("{sum:?}"),
    }
}

/// The fields of a fragment that have tiles and satisfy the request's condition.
fn wanted_fields(fragment: &Fragment, request: &DescriptionRequest) -> Result<Vec<TileField>> {
    let schema = &fragment.schema;
    let mut names = column_names(schema)?.into_iter();
    let dimension_names: Vec<_> = names.by_ref().take(schema.dimensions.len()).collect();
    let mut fields = Vec::new();
    // Dense fragments store no coordinates.
    if !fragment.footer.dense {
        let dimensions = schema.dimensions.iter().zip(dimension_names).enumerate();
        fields.extend(dimensions.map(|(i, (dimension, name))| TileField {
            name,
            field: FragmentField::Dimension(i),
            role: "dimension",
            datatype: dimension.datatype,
        }));
    }
    let attributes = schema.attributes.iter().zip(names).enumerate();
    fields.extend(attributes.map(|(i, (attribute, name))| TileField {
        name,
        field: FragmentField::Attribute(i),
        role: "attribute",
        datatype: attribute.datatype,
    }));
    let mut keep = selected(&fragment.name.name, &fields, request)
        .map_err(|e| Error::invalid("the condition on tiles failed").with_source(e))?
        .into_iter();
    fields.retain(|_| keep.next().unwrap_or(true));
    Ok(fields)
}

/// The fields that satisfy the request's condition; empty if it has none.
fn selected(
    fragment: &str,
    fields: &[TileField],
    request: &DescriptionRequest,
) -> datafusion::error::Result<Vec<bool>> {
    let Some(filter) = &request.filter else {
        return Ok(Vec::new());
    };
    let schema = Arc::new(TilesFunction::schema().project(TilesFunction::FILTERED)?);
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            columns::text(fields.iter().map(|_| fragment)),
            columns::text(fields.iter().map(|f| &f.name)),
            columns::text(fields.iter().map(|f| f.role)),
        ],
    )?;
    let filter = reassign_expr_columns(Arc::clone(filter), &schema)?;
    let keep = filter.evaluate(&batch)?.into_array(fields.len())?;
    Ok(keep.as_boolean().iter().map(|k| k == Some(true)).collect())
}
