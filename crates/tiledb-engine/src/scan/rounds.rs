//! Late materialization: a unit is read in two rounds.
//!
//! The first round reads the columns that decide which cells become rows. The second round reads the other columns, only
//! for the parts of the unit with rows left. If their bytes cost less than the round trip to a remote store, both rounds are
//! read at once.

use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::future::try_join;

use crate::error::Result;
use crate::memory::budget::{Grant, MemoryBudget};
use crate::scan::context::ScanContext;
use crate::tile::fetch::{FetchList, FetchedBytes, FetchedRanges};
use crate::tile::tile_memory::DecodeScratch;

/// A unit that is read in two rounds. Its parts are read together, and each gives one batch.
pub(super) trait TwoRoundUnit: Sized + Send + Sync + 'static {
    /// The requests of the first round for one part.
    type First: Send + 'static;
    /// A part with rows left after the first round.
    type Part: Send + Sync + 'static;
    /// The requests of the second round for one part.
    type Later: Send + 'static;

    /// The columns of each round.
    fn columns(&self) -> &RoundColumns;

    /// Requests what the two rounds read.
    fn request(
        &mut self,
        context: &ScanContext,
        requests: &mut RoundRequests,
    ) -> impl Future<Output = Result<Vec<Self::First>>> + Send;

    /// Decodes the first round and decides which cells become rows. Each returned part has rows.
    fn decide(
        &self,
        context: &ScanContext,
        first: Vec<Self::First>,
        fetched: &FetchedBytes,
        scratch: &mut DecodeScratch,
    ) -> Result<Vec<Self::Part>>;

    /// Requests the columns that the first round left out of a part.
    fn request_later(
        &self,
        context: &ScanContext,
        part: &Self::Part,
        list: &mut FetchList,
    ) -> impl Future<Output = Result<Self::Later>> + Send;

    /// Adds the columns of the second round to a part.
    fn add_later(
        &self,
        context: &ScanContext,
        part: &mut Self::Part,
        later: &Self::Later,
        fetched: &FetchedBytes,
        scratch: &mut DecodeScratch,
    ) -> Result<()>;

    /// The rows of a part.
    fn batch(context: &ScanContext, part: &Self::Part) -> Result<RecordBatch>;
}

/// The table columns that each round reads.
#[derive(Debug)]
pub(super) struct RoundColumns {
    /// The columns of the first round.
    pub first: Vec<usize>,
    /// The projected columns that are left to the second round.
    pub later: Vec<usize>,
}

impl RoundColumns {
    /// The first round reads the columns of the predicate. Without a predicate it reads the whole projection, unless
    /// `few` cells of the unit can become rows.
    pub fn of(context: &ScanContext, few: bool) -> Self {
        let projection = &context.plan.spec.projection;
        let first = match context.predicate {
            Some(_) => context.predicate_columns().to_vec(),
            None if few => Vec::new(),
            None => projection.clone(),
        };
        let later = projection
            .iter()
            .copied()
            .filter(|column| !first.contains(column))
            .collect();
        Self { first, later }
    }
}

/// The requests of both rounds. The second round may not happen, but its memory must be there if it does.
#[derive(Debug, Default)]
pub(super) struct RoundRequests {
    /// What the first round fetches.
    pub first: FetchList,
    /// What the second round may fetch.
    pub later: FetchList,
    /// About how many bytes the decoded columns of both rounds take.
    decoded_bytes: usize,
}

impl RoundRequests {
    /// Counts the bytes of decoded columns.
    pub fn add_decoded(&mut self, bytes: usize) {
        self.decoded_bytes = self.decoded_bytes.saturating_add(bytes);
    }

    /// Reserves the memory of both rounds; columns kept for other units are dropped first.
    fn reserve(&self, context: &ScanContext) -> Result<Grant> {
        let fetched = self.first.bytes().saturating_add(self.later.bytes());
        let bytes = self.decoded_bytes.saturating_add(usize::try_from(fetched)?);
        context.memory.reserve(bytes).or_else(|_| {
            context.coordinates.clear();
            context.memory.reserve(bytes)
        })
    }
}

/// The result of the first round.
enum FirstRoundResult<U: TwoRoundUnit> {
    /// All rows, because no column is left.
    Rows(Vec<RecordBatch>),
    /// Parts whose other columns are left to the second round.
    Partly(U, Vec<U::Part>),
}

/// Reads a unit; the grant accounts for the memory of the batches.
pub(super) async fn read<U: TwoRoundUnit>(
    context: &Arc<ScanContext>,
    mut unit: U,
) -> Result<(Vec<RecordBatch>, Option<Grant>)> {
    let mut requests = RoundRequests::default();
    let first = unit.request(context, &mut requests).await?;
    let grant = requests.reserve(context)?;
    let later_bytes = requests.later.bytes();
    let reads_once = later_bytes > 0 && context.is_worth_a_round_trip(later_bytes);
    let (fetched, ahead) = if reads_once {
        let later = requests.later.clone();
        let reads = try_join(context.fetch(requests.first), context.fetch(requests.later));
        let (first, fetched) = reads.await?;
        (first, Some(FetchedRanges::new(&later, &fetched)))
    } else {
        (context.fetch(requests.first).await?, None)
    };
    let decided = context
        .decode(move |context, scratch| {
            let parts = unit.decide(context, first, &fetched, scratch)?;
            if unit.columns().later.is_empty() || parts.is_empty() {
                return Ok(FirstRoundResult::Rows(batches::<U>(context, &parts)?));
            }
            Ok(FirstRoundResult::Partly(unit, parts))
        })
        .await?;
    let batches = match decided {
        FirstRoundResult::Rows(batches) => batches,
        FirstRoundResult::Partly(unit, parts) => {
            second_round(context, unit, parts, ahead.as_ref()).await?
        }
    };
    Ok((batches, Some(grant)))
}

/// Reads the columns that the first round left out.
async fn second_round<U: TwoRoundUnit>(
    context: &Arc<ScanContext>,
    unit: U,
    mut parts: Vec<U::Part>,
    ahead: Option<&FetchedRanges>,
) -> Result<Vec<RecordBatch>> {
    let mut list = FetchList::default();
    let mut requests = Vec::with_capacity(parts.len());
    for part in &parts {
        requests.push(unit.request_later(context, part, &mut list).await?);
    }
    let fetched = match ahead.and_then(|ahead| ahead.serve(&list)) {
        Some(fetched) => fetched,
        None => context.fetch(list).await?,
    };
    context
        .decode(move |context, scratch| {
            for (part, later) in parts.iter_mut().zip(&requests) {
                unit.add_later(context, part, later, &fetched, scratch)?;
            }
            batches::<U>(context, &parts)
        })
        .await
}

/// The rows of each part as a batch.
fn batches<U: TwoRoundUnit>(context: &ScanContext, parts: &[U::Part]) -> Result<Vec<RecordBatch>> {
    let batches = parts.iter().map(|part| U::batch(context, part));
    batches.collect()
}
