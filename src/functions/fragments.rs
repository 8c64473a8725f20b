//! `tiledb_fragments('location')`: the committed fragments of an array, oldest first, visible or not.
//!
//! | Column | |
//! |---|---|
//! | `fragment` | the name |
//! | `timestamp_start`, `timestamp_end` | when its cells were written; a range if it is consolidated |
//! | `format_version` | its format version; the schema has its own |
//! | `dense` | whether it stores a box of cells |
//! | `cells` | the number of written cells, including deleted ones and every version of a cell; for a dense fragment those of its box |
//! | `tiles` | the number of tiles |
//! | `non_empty_domain` | the box around the cells, for each dimension `dimension`, `low`, `high` as text |
//! | `data_bytes`, `var_bytes`, `validity_bytes` | size on storage: values and offsets, variable-sized values, validity |
//! | `metadata_bytes`, `total_bytes` | size of the metadata file, and of everything |
//! | `has_timestamps`, `has_delete_metadata` | whether each cell has its own time, and its own time of deletion |
//! | `consolidated` | whether it replaces other fragments |
//! | `vacuumed_by` | the vacuum file that says another fragment replaces it |
//! | `schema` | the schema it was written with |
//! | `visible` | whether the window of time shows some of its cells |

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tiledb_engine::Result;
use tiledb_engine::array::fragment::Fragment;
use tiledb_engine::array::inspect::{ArrayInspection, InspectedFragment};
use tiledb_engine::storage::Storage;

use super::arguments::FunctionTarget;
use super::columns::{self, TEXT, TIME, optional, required};
use super::description::{DescribeArray, DescriptionRequest, DescriptionRows, once};

/// The function.
pub(super) struct FragmentsFunction;

/// The columns that need a request for each fragment.
const METADATA_BYTES: [usize; 2] = [11, 12];
/// Such requests at the same time.
const HEAD_CONCURRENCY: usize = 16;

impl DescribeArray for FragmentsFunction {
    const NAME: &'static str = "tiledb_fragments";

    fn schema() -> SchemaRef {
        columns::schema(vec![
            required("fragment", TEXT),
            optional("timestamp_start", TIME),
            optional("timestamp_end", TIME),
            required("format_version", DataType::UInt32),
            required("dense", DataType::Boolean),
            optional("cells", DataType::UInt64),
            optional("tiles", DataType::UInt64),
            optional("non_empty_domain", columns::box_type()),
            required("data_bytes", DataType::UInt64),
            required("var_bytes", DataType::UInt64),
            required("validity_bytes", DataType::UInt64),
            optional("metadata_bytes", DataType::UInt64),
            optional("total_bytes", DataType::UInt64),
            required("has_timestamps", DataType::Boolean),
            required("has_delete_metadata", DataType::Boolean),
            required("consolidated", DataType::Boolean),
            optional("vacuumed_by", TEXT),
            required("schema", TEXT),
            required("visible", DataType::Boolean),
        ])
    }

    fn rows(
        target: FunctionTarget,
        request: Arc<DescriptionRequest>,
    ) -> BoxStream<'static, Result<DescriptionRows>> {
        once(async move {
            let array = ArrayInspection::open(&target.storage, target.window()?).await?;
            let fragments = array.fragments().await?;
            let metadata = if request.wants(&METADATA_BYTES) {
                metadata_bytes(array.storage(), &fragments).await?
            } else {
                vec![None; fragments.len()]
            };
            rows(&fragments, &metadata)
        })
    }
}

/// The sizes of the metadata files.
async fn metadata_bytes(
    storage: &Storage,
    fragments: &[InspectedFragment],
) -> Result<Vec<Option<u64>>> {
    let paths: Vec<String> = fragments
        .iter()
        .map(|f| f.fragment.metadata_path())
        .collect();
    stream::iter(paths)
        .map(|path| async move { Ok(storage.head(&path).await?.map(|info| info.bytes)) })
        .buffered(HEAD_CONCURRENCY)
        .try_collect()
        .await
}

fn rows(fragments: &[InspectedFragment], metadata: &[Option<u64>]) -> Result<DescriptionRows> {
    let each = || fragments.iter().map(|f| f.fragment.as_ref());
    let footers = || each().map(|f| f.footer.as_ref());
    let standing_for_others: HashSet<&str> = fragments
        .iter()
        .filter_map(|f| f.vacuumed_by.as_deref())
        .map(tiledb_engine::format::names::stem)
        .collect();
    let consolidated =
        |f: &Fragment| f.name.t1 < f.name.t2 || standing_for_others.contains(f.name.name.as_str());
    let data: Vec<u64> = footers().map(|f| sum(&f.file_sizes)).collect();
    let var: Vec<u64> = footers().map(|f| sum(&f.var_file_sizes)).collect();
    let validity: Vec<u64> = footers().map(|f| sum(&f.validity_file_sizes)).collect();
    let parts = data.iter().zip(&var).zip(&validity).zip(metadata);
    let total = parts.map(|(((data, var), validity), metadata)| {
        Some(sum(&[*data, *var, *validity, (*metadata)?]))
    });
    let boxes: Vec<_> = each()
        .map(|f| {
            let ranges = f.footer.non_empty_domain.as_ref();
            ranges.map(|ranges| columns::sides(&f.schema, ranges))
        })
        .collect();
    let cells = each()
        .map(Fragment::cell_count)
        .collect::<Result<Vec<_>>>()?;
    let tiles = each()
        .map(Fragment::tile_count)
        .collect::<Result<Vec<_>>>()?;
    let some = |values: &[u64]| columns::u64s(values.iter().map(|v| Some(*v)));
    Ok(DescriptionRows {
        len: fragments.len(),
        columns: vec![
            columns::text(each().map(|f| &f.name.name)),
            columns::times(each().map(|f| f.name.t1)),
            columns::times(each().map(|f| f.name.t2)),
            columns::u32s(footers().map(|f| Some(f.version.get()))),
            columns::bools(footers().map(|f| f.dense)),
            columns::u64s(cells),
            some(&tiles),
            columns::boxes(&boxes)?,
            some(&data),
            some(&var),
            some(&validity),
            columns::u64s(metadata.iter().copied()),
            columns::u64s(total),
            columns::bools(footers().map(|f| f.has_timestamps)),
            columns::bools(footers().map(|f| f.has_delete_metadata)),
            columns::bools(each().map(consolidated)),
            columns::opt_text(fragments.iter().map(|f| f.vacuumed_by.as_ref())),
            columns::text(footers().map(|f| &f.schema_name)),
            columns::bools(fragments.iter().map(|f| f.visible)),
        ],
    })
}

fn sum(sizes: &[u64]) -> u64 {
    sizes.iter().fold(0, |sum, size| sum.saturating_add(*size))
}
