//! Scans as bytes, for engines that plan a query on one machine and read on others.
//!
//! Values are written with serde and [`postcard`], expressions as DataFusion's own protocol buffers. Both sides must be the
//! same release: the bytes begin with its version, and others are refused. The key of an encrypted array is not sent: the
//! machine that reads takes it from its environment ([`SESSION_KEY`](crate::options::encryption::SESSION_KEY)), or it is put into the options
//! of the request before the scan is opened.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use datafusion_proto::physical_plan::from_proto::parse_physical_expr_with_converter;
use datafusion_proto::physical_plan::to_proto::serialize_physical_expr;
use datafusion_proto::physical_plan::{
    DefaultPhysicalProtoConverter, PhysicalExtensionCodec, PhysicalPlanDecodeContext,
};
use datafusion_proto::protobuf::{self, PhysicalExprNode};
use prost::Message as _;
use serde::{Deserialize, Serialize};
use tiledb_engine::array::snapshot::SnapshotContents;
use tiledb_engine::scan::plan::first_cells::DimensionOrder;
use tiledb_engine::{Error, Result};

use crate::options::TableOptions;
use crate::options::settings::TileDbSettings;
use crate::scan::query::{ScanFilters, ScanQuery, ScanRequest};
use crate::scan::source::{ScanMode, ScanValue};

/// The release that wrote the bytes.
const RELEASE: &str = concat!("datafusion-tiledb ", env!("CARGO_PKG_VERSION"));

/// An expression as protocol buffers.
type ExprBytes = Vec<u8>;

/// What is written of a [`ScanValue`], behind the release.
#[derive(Debug, Serialize, Deserialize)]
struct WireScan {
    uri: String,
    root: String,
    seen: SnapshotContents,
    options: TableOptions,
    /// The columns of the table, as protocol buffers.
    schema: Vec<u8>,
    projection: Vec<usize>,
    of_array: Option<ExprBytes>,
    of_labels: Vec<(usize, ExprBytes)>,
    limit: Option<usize>,
    first_cells: Option<(Vec<DimensionOrder>, u64)>,
    partitions: usize,
    settings: TileDbSettings,
    mode: ScanMode,
    filters: Vec<ExprBytes>,
    fetch: Option<usize>,
    preserve_order: bool,
    tells_bounds: bool,
}

impl ScanValue {
    /// The scan as bytes; `codec` writes what is not DataFusion's own in its conditions.
    ///
    /// Fails if a condition cannot be written.
    pub fn to_bytes(&self, codec: &dyn PhysicalExtensionCodec) -> Result<Vec<u8>> {
        let expr_to_bytes = |expr: &Arc<dyn PhysicalExpr>| expr_to_bytes(expr, codec);
        let query = &self.request.query;
        let of_labels = query
            .filters
            .of_labels
            .iter()
            .map(|(label, expr)| Ok((*label, expr_to_bytes(expr)?)));
        let schema = protobuf::Schema::try_from(query.schema.as_ref())
            .map_err(|e| unwritable("the columns of the table", e))?;
        let scan = WireScan {
            uri: self.request.uri.clone(),
            root: self.request.root.clone(),
            seen: self.request.seen.clone(),
            options: query.options.clone(),
            schema: schema.encode_to_vec(),
            projection: query.projection.clone(),
            of_array: query
                .filters
                .of_array
                .as_ref()
                .map(expr_to_bytes)
                .transpose()?,
            of_labels: of_labels.collect::<Result<_>>()?,
            limit: query.limit,
            first_cells: query.first_cells.clone(),
            partitions: query.partitions,
            settings: query.settings.clone(),
            mode: self.mode.clone(),
            filters: self
                .filters
                .iter()
                .map(expr_to_bytes)
                .collect::<Result<_>>()?,
            fetch: self.fetch,
            preserve_order: self.preserve_order,
            tells_bounds: self.tells_bounds,
        };
        let release = postcard::to_stdvec(RELEASE);
        let release = release.map_err(|e| unwritable("the release", e))?;
        postcard::to_extend(&scan, release).map_err(|e| unwritable("the scan", e))
    }

    /// The scan that [`to_bytes`](Self::to_bytes) wrote. `context` knows the functions that its conditions call, and the results
    /// of scalar subqueries that they name.
    ///
    /// Fails if another release wrote the bytes, or if they aren't a scan.
    pub fn from_bytes(bytes: &[u8], context: &PhysicalPlanDecodeContext<'_>) -> Result<Self> {
        let release = postcard::take_from_bytes::<&str>(bytes);
        let (release, bytes) = release.map_err(|e| unreadable("its release", e))?;
        if release != RELEASE {
            return Err(Error::unsupported(format!(
                "a scan was written by {release:?} and is read by {RELEASE:?}: run the same release on all machines"
            )));
        }
        let scan: WireScan = postcard::from_bytes(bytes).map_err(|e| unreadable("it", e))?;
        let schema = protobuf::Schema::decode(scan.schema.as_slice())
            .map_err(|e| unreadable("the columns of the table", e))?;
        let schema =
            Schema::try_from(&schema).map_err(|e| unreadable("the columns of the table", e))?;
        let expr = |bytes: ExprBytes| expr_from_bytes(&bytes, context, &schema);
        let of_labels = scan.of_labels.into_iter();
        let filters = ScanFilters {
            of_array: scan.of_array.map(expr).transpose()?,
            of_labels: of_labels
                .map(|(label, bytes)| Ok((label, expr(bytes)?)))
                .collect::<Result<_>>()?,
        };
        let pushed = scan.filters.into_iter().map(expr).collect::<Result<_>>()?;
        let query = ScanQuery {
            options: scan.options,
            schema: Arc::new(schema),
            projection: scan.projection,
            filters,
            limit: scan.limit,
            first_cells: scan.first_cells,
            partitions: scan.partitions,
            settings: scan.settings,
        };
        Ok(Self {
            request: ScanRequest {
                uri: scan.uri,
                root: scan.root,
                seen: scan.seen,
                query,
            },
            mode: scan.mode,
            filters: pushed,
            fetch: scan.fetch,
            preserve_order: scan.preserve_order,
            tells_bounds: scan.tells_bounds,
        })
    }
}

fn expr_to_bytes(
    expr: &Arc<dyn PhysicalExpr>,
    codec: &dyn PhysicalExtensionCodec,
) -> Result<ExprBytes> {
    let node = serialize_physical_expr(expr, codec)
        .map_err(|e| unwritable(format!("the condition {expr}"), e))?;
    Ok(node.encode_to_vec())
}

fn expr_from_bytes(
    bytes: &[u8],
    context: &PhysicalPlanDecodeContext<'_>,
    schema: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    PhysicalExprNode::decode(bytes)
        .map_err(|e| DataFusionError::External(e.into()))
        .and_then(|node| {
            let converter = DefaultPhysicalProtoConverter {};
            parse_physical_expr_with_converter(&node, schema, context, &converter)
        })
        .map_err(|e| unreadable("a condition", e))
}

type WireErrorSource = Box<dyn std::error::Error + Send + Sync>;

fn unwritable(what: impl std::fmt::Display, source: impl Into<WireErrorSource>) -> Error {
    Error::unsupported(format!(
        "a scan cannot be sent to another machine: {what} cannot be written"
    ))
    .with_source(source)
}

fn unreadable(what: &str, source: impl Into<WireErrorSource>) -> Error {
    Error::corrupt(format!(
        "a scan from another machine cannot be read: {what} is not what {RELEASE} writes"
    ))
    .with_source(source)
}
