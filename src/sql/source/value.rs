//! A scan as a value, from which it can be made again wherever the array can be read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::physical_expr::PhysicalExpr;

use super::{ScanMode, TileDbSource};
use crate::error::{Error, Result};
use crate::sql::expressions::runtime::PushedFilters;
use crate::sql::query::ScanRequest;

/// A scan as a value: it holds no storage, no lock and no plan. [`open`](Self::open) makes a scan of it.
#[derive(Debug, Clone)]
pub struct ScanValue {
    /// What is read.
    pub request: ScanRequest,
    /// How the scan goes about its rows.
    pub mode: ScanMode,
    /// The conditions that came while the plan was optimized, and that every row meets.
    pub filters: Vec<Arc<dyn PhysicalExpr>>,
    /// At most so many rows of each partition.
    pub fetch: Option<usize>,
    /// Partitions keep to their own units, in order.
    pub preserve_order: bool,
    /// Whether statistics tell the bounds of columns.
    pub tells_bounds: bool,
}

impl TileDbSource {
    /// The scan as a value. Filters that learn while a query runs are not part of it: the operators that make them evaluate
    /// every row, and stay where they are.
    pub fn value(&self) -> ScanValue {
        ScanValue {
            request: self.request(),
            mode: self.mode().clone(),
            filters: self.filters.exact().to_vec(),
            fetch: self.fetch,
            preserve_order: self.preserve_order,
            tells_bounds: self.tells_bounds.load(Ordering::Relaxed),
        }
    }

    /// This plain scan of a value's request in the mode and with the filters and limits of the value.
    pub(in crate::sql) fn with_mode_of(self, value: ScanValue) -> Result<Self> {
        let Some(arranged) = self.in_mode(value.mode)? else {
            return Err(Error::internal(
                "a scan that is opened anew cannot go the way it was planned for",
            ));
        };
        Ok(Self {
            filters: PushedFilters::of_exact(value.filters),
            fetch: value.fetch,
            preserve_order: value.preserve_order,
            tells_bounds: Arc::new(value.tells_bounds.into()),
            ..arranged
        })
    }
}
