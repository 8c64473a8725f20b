//! Evaluation of conditions on text by the stored bytes of a tile, before they become an array.
//!
//! This serves `SELECT count(*), avg(speed) FROM ships WHERE name = 'EVER GIVEN 1234'`, and LIKE, IN, `starts_with` and
//! comparisons of a column of text in a sparse array. Without it, all strings of a tile and all other columns become
//! arrays, and the condition is evaluated on every row. Here the stored bytes are [searched](crate::tile::needles)
//! first for the bytes that every match contains: a tile without them is dropped, and in other tiles only the cells
//! around the matches become strings. Run-length and dictionary encoded strings are evaluated once each. It does not
//! apply to conditions on several columns or that may fail, to text that is not shown as it is stored, to dense arrays,
//! and where statistics prove the condition. `tiledb.enable_text_search` switches it off. Benchmark:
//! `benches/special_ways.rs`, `enable_text_search`: 2.2 × for one name, 1.2 × for the beginning of names, 1.3 × under
//! run lengths and a dictionary, on two cores; most of the remaining time is unfiltering.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};

use crate::arrow::TileStrings;
use crate::error::Result;
use crate::scan::rows::{DecodedColumns, evaluate, find};
use crate::scan::sparse::tile::TileWork;
use crate::scan::spec::{Predicate, TextCondition};
use crate::tile::fields::ColumnRequest;
use crate::tile::needles::NeedleMatches;
use crate::tile::selection::Selection;
use crate::tile::tile_memory::DecodeScratch;

/// The strings of columns that conditions were evaluated on.
pub(super) type ConditionTexts = Vec<(usize, Arc<TileStrings>)>;

impl TileWork<'_> {
    /// Deselects the cells that do not satisfy a condition on text. The decoded columns are kept in `columns` or in
    /// `texts`.
    pub fn ask_text(
        &mut self,
        test: &TextCondition,
        columns: &mut DecodedColumns,
        texts: &mut ConditionTexts,
        scratch: &mut DecodeScratch,
    ) -> Result<()> {
        let [column] = test.predicate.columns() else {
            return self.test_column(test, columns);
        };
        let known = texts.iter().find(|(known, _)| known == column);
        if let Some(strings) = known.map(|(_, strings)| Arc::clone(strings)) {
            return self.test_strings(test, *column, &strings);
        }
        let Some(request) = self.take_request(*column) else {
            return self.test_column(test, columns);
        };
        if !self.decoder.scan.is_text(&request) {
            let array = self.decoder.column(&request, &self.mask, scratch)?;
            columns.push((*column, array));
            return self.test_column(test, columns);
        }
        let needles = test.needles.as_ref();
        match self.decoder.strings(&request, needles, scratch)? {
            None => {
                self.decoder.context.metrics.tiles_pruned_text.add(1);
                self.mask = vec![false; self.decoder.of.cells];
                Ok(())
            }
            Some((strings, finds)) => {
                self.keep_found(&strings, finds);
                // A view of each cell takes less memory than copies of many strings, and none that was not reserved.
                if strings.is_large_part(&self.mask) {
                    let array = self.decoder.all_strings(*column, strings)?;
                    columns.push((*column, array));
                    return self.test_column(test, columns);
                }
                let strings = Arc::new(strings);
                texts.push((*column, Arc::clone(&strings)));
                self.test_strings(test, *column, &strings)
            }
        }
    }

    /// Takes the request of a stored column that is not decoded yet.
    fn take_request(&mut self, column: usize) -> Option<ColumnRequest> {
        let requests = [&mut self.request.columns, &mut self.request.coordinates];
        requests.into_iter().find_map(|requests| {
            let mut asked = requests.iter();
            let index = asked.position(|r| r.column == column && r.is_stored());
            index.map(|index| requests.remove(index))
        })
    }

    /// Whether all cells share the value of a column.
    fn shares(&self, column: usize) -> bool {
        let mut requests = self.request.columns.iter();
        requests.any(|r| r.column == column && !r.is_stored())
    }

    /// Deselects the cells in which no needle was found.
    fn keep_found(&mut self, strings: &TileStrings, finds: NeedleMatches) {
        let NeedleMatches::At(offsets) = finds else {
            return;
        };
        let mut found = vec![false; self.decoder.of.cells];
        for cell in offsets.into_iter().filter_map(|byte| strings.cell_at(byte)) {
            if let Some(found) = found.get_mut(cell) {
                *found = self.mask.get(cell).copied().unwrap_or(true);
            }
        }
        self.mask = found;
    }

    /// Evaluates a condition on a decoded column.
    fn test_column(&mut self, test: &TextCondition, columns: &DecodedColumns) -> Result<()> {
        let selection = self.meeting(Some(&*test.predicate), columns, &ConditionTexts::new())?;
        self.mask = selection.to_bools();
        Ok(())
    }

    /// Evaluates a condition on strings: on each distinct one, or on those of the selected cells.
    fn test_strings(
        &mut self,
        test: &TextCondition,
        column: usize,
        strings: &TileStrings,
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let ask = |array: ArrayRef| {
            let count = array.len();
            evaluate(&*test.predicate, &[array], count)
        };
        let stored_once = strings.encoded().filter(|e| e.strings() <= self.count());
        if let Some(encoded) = stored_once
            && let Some(each) = self.decoder.each_string(column, encoded)?
        {
            let answers = ask(each)?
                .iter()
                .map(|answer| answer == Some(true))
                .collect::<Vec<_>>();
            let meets = |key: &u32| answers.get(*key as usize).copied().unwrap_or(false);
            self.mask.resize(self.decoder.of.cells, true);
            let cells = self.mask.iter_mut().zip(encoded.keys());
            cells.for_each(|(selected, key)| *selected &= meets(key));
            if let Some(nulls) = strings.nulls() {
                let cells = self.mask.iter_mut().zip(nulls);
                cells.for_each(|(selected, valid)| *selected &= valid);
            }
            return Ok(());
        }
        let selection = self.selection();
        let answers = ask(self
            .decoder
            .strings_of(column, strings, &selection.indices())?)?;
        self.mask = selection.and_then(&answers)?.to_bools();
        Ok(())
    }

    /// The cells that also satisfy a predicate.
    pub fn meeting(
        &self,
        predicate: Option<&dyn Predicate>,
        columns: &DecodedColumns,
        texts: &ConditionTexts,
    ) -> Result<Selection> {
        let selection = self.selection();
        let Some(predicate) = predicate else {
            return Ok(selection);
        };
        let input = |column: &usize| {
            let strings = texts.iter().find(|(known, _)| known == column);
            match strings {
                Some((_, strings)) => {
                    self.decoder
                        .strings_of(*column, strings, &selection.indices())
                }
                None if self.shares(*column) => self.decoder.repeated(*column, selection.count()),
                None => selection.apply(find(columns, *column)?),
            }
        };
        let inputs = predicate
            .columns()
            .iter()
            .map(input)
            .collect::<Result<Vec<_>>>()?;
        selection.and_then(&evaluate(predicate, &inputs, selection.count())?)
    }

    /// The cells that are left, as a selection.
    pub fn selection(&self) -> Selection {
        if self.mask.is_empty() {
            Selection::all(self.decoder.of.cells)
        } else {
            Selection::from_bools(&self.mask)
        }
    }
}
