//! A scan part of which metadata answer: the answers, and the tiles left to read.

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::error::Result;
use crate::scan::ScanPlan;
use crate::scan::plan::whole::WholeTile;
use crate::scan::summary::{self, Summary};
use crate::stats::trust::{Asked, Rounding};

/// A scan, with the tiles that metadata may answer.
#[derive(Debug)]
pub struct RemainingScan {
    plan: Arc<ScanPlan>,
    whole: Vec<WholeTile>,
    asked: Arc<Vec<Asked>>,
    rounding: Rounding,
    parted: OnceCell<Parted>,
}

/// A scan, split into answered tiles and the rest.
#[derive(Debug)]
pub struct Parted {
    /// The aggregates of the tiles that metadata answer.
    pub answered: Vec<Summary>,
    /// The scan of the other tiles.
    pub left: Arc<ScanPlan>,
}

impl RemainingScan {
    /// `None` if metadata cannot answer any part of the request.
    pub fn new(
        plan: Arc<ScanPlan>,
        asked: Arc<Vec<Asked>>,
        rounding: Rounding,
    ) -> Result<Option<Self>> {
        let whole = plan.whole_tiles();
        let some = summary::may_know(&plan, &whole, &asked, rounding)?;
        Ok(some.then(|| Self {
            plan,
            whole,
            asked,
            rounding,
            parted: OnceCell::new(),
        }))
    }

    /// The number of tiles that may be answered.
    pub fn candidates(&self) -> usize {
        self.whole.len()
    }

    /// Splits the scan; the first caller loads the statistics.
    pub async fn parted(&self) -> Result<&Parted> {
        self.parted.get_or_try_init(|| self.part()).await
    }

    /// How many units are to be read, as far as that is known.
    pub fn unit_count(&self) -> u64 {
        let left = self.parted.get().map_or(&self.plan, |parted| &parted.left);
        left.unit_count()
    }

    async fn part(&self) -> Result<Parted> {
        let uri = || self.plan.spec.table.snapshot.storage.uri();
        let answered = summary::summarize(&self.plan, &self.whole, &self.asked, self.rounding)
            .await
            .map_err(|e| e.with("array", uri()))?;
        let mut ordinals = answered
            .iter()
            .flat_map(|summary| summary.ordinals.iter().copied())
            .collect::<Vec<_>>();
        ordinals.sort_unstable();
        Ok(Parted {
            left: Arc::new(self.plan.without(&ordinals)),
            answered,
        })
    }
}
