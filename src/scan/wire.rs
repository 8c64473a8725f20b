//! Scans as bytes, for engines that plan a query on one machine and read on others.
//!
//! Values are written with serde and [`postcard`], expressions as DataFusion's own protocol buffers. Both sides must be the
//! same release: the bytes begin with its version, and others are refused. The key of an encrypted array is not sent: the
//! machine that reads takes it from its environment ([`SESSION_KEY`](crate::options::encryption::SESSION_KEY)), or it is put into the options
//! of the request before the scan is opened.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::error::DataFusionError;
use datafusion_proto::physical_plan::{
    DefaultPhysicalProtoConverter, PhysicalExtensionCodec, PhysicalPlanDecodeContext,
    PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{self, PhysicalExprNode};
use prost::Message as _;
use serde::{Deserialize, Serialize};
use tiledb_engine::array::snapshot::SnapshotContents;
use tiledb_engine::scan::plan::first_cells::DimensionOrder;
use tiledb_engine::{Error, Result};

use crate::expressions::nesting::{MOST_SENT_LEVELS, can_be_sent, flattened};
use crate::expressions::shape::PhysicalExprRef;
use crate::options::TableOptions;
use crate::options::settings::TileDbSettings;
use crate::scan::query::{ScanFilters, ScanQuery, ScanRequest};
use crate::scan::source::task::{ScanTask, TaskPart};
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
    /// Filters of operators that run on the same machine.
    dynamic: Vec<ExprBytes>,
    fetch: Option<usize>,
    preserve_order: bool,
    tells_bounds: bool,
    /// The part that one machine reads; `None` if all of it.
    part: Option<TaskPart>,
}

impl WireScan {
    fn of(value: &ScanValue, task: Option<&ScanTask>, exprs: &ExprWriter<'_>) -> Result<Self> {
        let query = &value.request.query;
        let of_labels = query
            .filters
            .of_labels
            .iter()
            .map(|(label, expr)| Ok((*label, exprs.write(expr)?)));
        let schema = protobuf::Schema::try_from(query.schema.as_ref())
            .map_err(|e| unwritable("the columns of the table", e))?;
        let dynamic = task.iter().flat_map(|task| &task.dynamic);
        Ok(Self {
            uri: value.request.uri.clone(),
            root: value.request.root.clone(),
            seen: value.request.seen.clone(),
            options: query.options.clone(),
            schema: schema.encode_to_vec(),
            projection: query.projection.clone(),
            of_array: query
                .filters
                .of_array
                .as_ref()
                .map(|expr| exprs.write(expr))
                .transpose()?,
            of_labels: of_labels.collect::<Result<_>>()?,
            limit: query.limit,
            first_cells: query.first_cells.clone(),
            partitions: query.partitions,
            settings: query.settings.clone(),
            mode: value.mode.clone(),
            filters: value
                .filters
                .iter()
                .map(|expr| exprs.write(expr))
                .collect::<Result<_>>()?,
            dynamic: dynamic
                .map(|expr| exprs.write(expr))
                .collect::<Result<_>>()?,
            fetch: value.fetch,
            preserve_order: value.preserve_order,
            tells_bounds: value.tells_bounds,
            part: task.map(|task| task.part.clone()),
        })
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        let release = postcard::to_stdvec(RELEASE);
        let release = release.map_err(|e| unwritable("the release", e))?;
        postcard::to_extend(self, release).map_err(|e| unwritable("the scan", e))
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let release = postcard::take_from_bytes::<&str>(bytes);
        let (release, bytes) = release.map_err(|e| unreadable("its release", e))?;
        if release != RELEASE {
            return Err(Error::unsupported(format!(
                "a scan was written by {release:?} and is read by {RELEASE:?}: run the same release on all machines"
            )));
        }
        postcard::from_bytes(bytes).map_err(|e| unreadable("it", e))
    }

    /// The scan, with the filters that learn while the query runs, and the part that a task reads.
    fn read(
        self,
        exprs: &ExprReader<'_>,
    ) -> Result<(ScanValue, Vec<PhysicalExprRef>, Option<TaskPart>)> {
        let schema = protobuf::Schema::decode(self.schema.as_slice())
            .map_err(|e| unreadable("the columns of the table", e))?;
        let schema =
            Schema::try_from(&schema).map_err(|e| unreadable("the columns of the table", e))?;
        let expr = |bytes: ExprBytes| exprs.read(&bytes, &schema);
        let of_labels = self.of_labels.into_iter();
        let filters = ScanFilters {
            of_array: self.of_array.map(expr).transpose()?,
            of_labels: of_labels
                .map(|(label, bytes)| Ok((label, expr(bytes)?)))
                .collect::<Result<_>>()?,
        };
        let pushed = self.filters.into_iter().map(expr).collect::<Result<_>>()?;
        let dynamic = self.dynamic.into_iter().map(expr).collect::<Result<_>>()?;
        let query = ScanQuery {
            options: self.options,
            schema: Arc::new(schema),
            projection: self.projection,
            filters,
            limit: self.limit,
            first_cells: self.first_cells,
            partitions: self.partitions,
            settings: self.settings,
        };
        let value = ScanValue {
            request: ScanRequest {
                uri: self.uri,
                root: self.root,
                seen: self.seen,
                query,
            },
            mode: self.mode,
            filters: pushed,
            fetch: self.fetch,
            preserve_order: self.preserve_order,
            tells_bounds: self.tells_bounds,
        };
        Ok((value, dynamic, self.part))
    }
}

impl ScanValue {
    /// The scan as bytes; `codec` writes what is not DataFusion's own in its conditions.
    ///
    /// Fails if a condition cannot be written.
    pub fn to_bytes(&self, codec: &dyn PhysicalExtensionCodec) -> Result<Vec<u8>> {
        let converter = &DefaultPhysicalProtoConverter {};
        WireScan::of(self, None, &ExprWriter { codec, converter })?.to_bytes()
    }

    /// The scan that [`to_bytes`](Self::to_bytes) wrote. `context` knows the functions that its conditions call, and the results
    /// of scalar subqueries that they name.
    ///
    /// Fails if another release wrote the bytes, or if they aren't a scan.
    pub fn from_bytes(bytes: &[u8], context: &PhysicalPlanDecodeContext<'_>) -> Result<Self> {
        let converter = &DefaultPhysicalProtoConverter {};
        let exprs = ExprReader { context, converter };
        let (value, ..) = WireScan::from_bytes(bytes)?.read(&exprs)?;
        Ok(value)
    }
}

#[cfg(feature = "cluster")]
impl ScanTask {
    /// The task as bytes. The filters of operators that run on the same machine are those that `converter` has written already.
    ///
    /// Fails if a condition cannot be written.
    pub(crate) fn to_bytes(
        &self,
        codec: &dyn PhysicalExtensionCodec,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Vec<u8>> {
        let exprs = ExprWriter { codec, converter };
        WireScan::of(&self.scan, Some(self), &exprs)?.to_bytes()
    }

    /// The task that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// Fails if another release wrote the bytes, or if they aren't a task.
    pub(crate) fn from_bytes(
        bytes: &[u8],
        context: &PhysicalPlanDecodeContext<'_>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Self> {
        let exprs = ExprReader { context, converter };
        let (scan, dynamic, part) = WireScan::from_bytes(bytes)?.read(&exprs)?;
        let part = part.ok_or_else(|| Error::corrupt("a task of a scan without its part"))?;
        part.check()?;
        Ok(Self {
            scan,
            dynamic,
            part,
        })
    }
}

/// Writes expressions.
struct ExprWriter<'a> {
    codec: &'a dyn PhysicalExtensionCodec,
    converter: &'a dyn PhysicalProtoConverterExtension,
}

impl ExprWriter<'_> {
    fn write(&self, expr: &PhysicalExprRef) -> Result<ExprBytes> {
        let flat = flattened(expr);
        if !can_be_sent(&flat) {
            return Err(Error::unsupported(format!(
                "a scan cannot be sent to another machine: a condition has more than {MOST_SENT_LEVELS} levels"
            )));
        }
        let node = self
            .converter
            .physical_expr_to_proto(&flat, self.codec)
            .map_err(|e| unwritable(format!("the condition {expr}"), e))?;
        Ok(node.encode_to_vec())
    }
}

/// Reads expressions.
struct ExprReader<'a> {
    context: &'a PhysicalPlanDecodeContext<'a>,
    converter: &'a dyn PhysicalProtoConverterExtension,
}

impl ExprReader<'_> {
    fn read(&self, bytes: &[u8], schema: &Schema) -> Result<PhysicalExprRef> {
        PhysicalExprNode::decode(bytes)
            .map_err(|e| DataFusionError::External(e.into()))
            .and_then(|node| {
                self.converter
                    .proto_to_physical_expr(&node, schema, self.context)
            })
            .map_err(|e| unreadable("a condition", e))
    }
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
