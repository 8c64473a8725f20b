//! Turns a scan that DataFusion requests from a table into a scan of its array.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::{ScanArgs, Session};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;

use crate::error::to_datafusion_error;
use crate::labels::{LabelColumns, MentionedLabels};
use crate::options::settings::TileDbSettings;
use crate::options::{FloatColumns, TableOptions};
use crate::scan::query::{ScanFilters, ScanQuery};
use crate::scan::source::{ScanRenewal, TileDbSource};
use crate::stores::runtime::ArrayRuntime;
use crate::table::provider::{ShownArray, TileDbTable};
use crate::upstream::chains;

impl TileDbTable {
    /// Plans a scan of the present array. Its columns are the table's, or the ones that `floats` derives from them.
    pub(crate) async fn plan(
        &self,
        state: &dyn Session,
        args: &ScanArgs<'_>,
        floats: FloatColumns,
    ) -> Result<TileDbSource> {
        let options = TableOptions {
            floats,
            ..self.options().clone()
        };
        let mut shown = self.shown().await.map_err(to_datafusion_error)?;
        if options.floats != self.options().floats {
            shown = Arc::new(
                ShownArray::new(shown.table.snapshot.clone(), &options)
                    .map_err(to_datafusion_error)?,
            );
        }
        let labels = &shown.labels;
        let projection = match args.projection() {
            Some(projection) => projection.to_vec(),
            None => (0..labels.schema().fields().len()).collect(),
        };
        let query = Arc::new(ScanQuery {
            options,
            schema: Arc::clone(labels.schema()),
            projection,
            filters: split_filters(state, args, labels)?,
            limit: args.limit(),
            first_cells: None,
            partitions: state.config().target_partitions(),
            settings: TileDbSettings::of(state.config_options()),
        });
        let renewal = ScanRenewal {
            shows_present: self.shows_present(),
            is_alone: self.is_scanned_alone(),
        };
        let runtime = ArrayRuntime::of_session(state);
        let planned = query.plan_renewed(&shown.table, labels, renewal, &runtime);
        let source = planned.await?;
        self.record(&source);
        Ok(source)
    }
}

fn split_filters(
    state: &dyn Session,
    args: &ScanArgs<'_>,
    labels: &LabelColumns,
) -> Result<ScanFilters> {
    let schema = DFSchema::try_from(Arc::clone(labels.schema()))?;
    let (mut of_array, mut of_labels) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
    for filter in args.filters().unwrap_or_default() {
        match labels.mentioned(filter) {
            MentionedLabels::Only(label) => {
                of_labels.entry(label).or_default().push(filter.clone())
            }
            MentionedLabels::None => of_array.push(filter.clone()),
            MentionedLabels::Among => {
                let error = tiledb_engine::Error::internal(format!(
                    "the filter {filter} was not offered by this table"
                ));
                return Err(to_datafusion_error(error));
            }
        }
    }
    let together = |filters: Vec<Expr>| {
        chains::all_of(filters)
            .map(|filter| state.create_physical_expr(filter, &schema))
            .transpose()
    };
    let mut filters = ScanFilters {
        of_array: together(of_array)?,
        of_labels: Vec::with_capacity(of_labels.len()),
    };
    for (label, of_label) in of_labels {
        let expr = together(of_label)?;
        filters.of_labels.extend(expr.map(|expr| (label, expr)));
    }
    Ok(filters)
}
