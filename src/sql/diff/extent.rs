//! Where two snapshots of an array can differ, by what is known without reading cells.
//!
//! A cell differs only if a fragment does that may hold it. A fragment is the same for both if both see all of it and
//! it records no deletes, which each snapshot judges by its own time. If the deletes differ that neither has processed,
//! any cell may.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{Expr, ident, lit};

use crate::array::fragment::Fragment;
use crate::array::fragment::boxes::TileRange;
use crate::array::snapshot::{Seen, Snapshot};
use crate::array::table::ArrayTable;
use crate::array::window::Visibility;
use crate::arrow::stored_values;
use crate::format::schema::{ArraySchema, Attribute};
use crate::stats::trust::tells_dimension;

/// With more fragments than this, their boxes are not told apart.
const MOST_BOXES: usize = 16;

/// Where an array differs between two snapshots.
#[derive(Debug)]
pub(super) enum Differing {
    /// Where these fragments of the later snapshot have cells, each of which is newer than all that the earlier one
    /// shows. No cell is gone.
    Written(Seen),
    /// Where these fragments of one snapshot or the other have cells.
    Within(Vec<Arc<Fragment>>),
    /// Anywhere.
    Anywhere,
}

impl Differing {
    /// Compares the fragments and deletes of two snapshots.
    pub(super) fn between(old: &Snapshot, new: &Snapshot) -> Self {
        let deletes = old.deletes.names().eq(new.deletes.names());
        if !deletes || !reads_alike(old, new) {
            return Self::Anywhere;
        }
        let whole = |snapshot: &Snapshot| -> HashSet<String> {
            let fragments = snapshot.fragments.iter().filter(|f| is_whole(f));
            fragments.map(|f| f.name.name.clone()).collect()
        };
        let (in_old, in_new) = (whole(old), whole(new));
        let differs = |fragment: &&Arc<Fragment>| {
            let name = &fragment.name.name;
            !in_old.contains(name) || !in_new.contains(name)
        };
        let gone = old.fragments.iter().filter(differs);
        let gone = gone.cloned().collect::<Vec<_>>();
        let added = new.fragments.iter().filter(differs);
        let added = added.cloned().collect::<Vec<_>>();
        let last = old.window.end_or_now().0;
        let newer = |f: &Arc<Fragment>| f.name.t1 > last && !f.footer.has_delete_metadata;
        if gone.is_empty() && added.iter().all(newer) {
            return Self::Written(Seen {
                window: new.window,
                fragments: added.iter().map(|f| f.name.name.clone()).collect(),
                deletes: Vec::new(),
            });
        }
        Self::Within(gone.into_iter().chain(added).collect())
    }
}

/// Whether a fragment that two snapshots show has the same values in both, by the schema of the first.
///
/// A code that one enumeration does not have is NULL there, and may be a value of the other. An attribute that the
/// first does not have has its fill value there, and may be one that an old fragment stores all the same: if it was
/// dropped, and added again later.
fn reads_alike(old: &Snapshot, new: &Snapshot) -> bool {
    new.schema.attributes.iter().all(|attribute| {
        let name = &attribute.name;
        let before = old.schema.attribute_index(name);
        let before = before.and_then(|i| old.schema.attributes.get(i));
        let Some(before) = before.filter(|before| is_of_type(before, attribute)) else {
            let stores = |f: &Arc<Fragment>| f.schema.attribute_index(name).is_some();
            return !old.fragments.iter().any(stores);
        };
        let file = |schema: &ArraySchema, attribute: &Attribute| {
            let name = attribute.enumeration.as_ref();
            let found = name.and_then(|name| schema.enumeration(name));
            found.map(|found| found.file.clone())
        };
        file(&old.schema, before) == file(&new.schema, attribute)
    })
}

/// Whether two attributes have the same type of cells.
fn is_of_type(a: &Attribute, b: &Attribute) -> bool {
    (a.datatype, a.cell_val_num, &a.enumeration) == (b.datatype, b.cell_val_num, &b.enumeration)
}

/// Whether every snapshot that shows all of a fragment shows the same of it.
fn is_whole(fragment: &Fragment) -> bool {
    fragment.visibility == Visibility::Whole && !fragment.footer.has_delete_metadata
}

/// A condition on dimensions that holds where one of the fragments may have a cell; `None` if it holds everywhere.
pub(super) fn condition(table: &ArrayTable, fragments: &[Arc<Fragment>]) -> Option<Expr> {
    if fragments.len() <= MOST_BOXES {
        let boxes = fragments
            .iter()
            .map(|f| box_of(table, std::slice::from_ref(f)));
        // Without a fragment there is no cell.
        return Some(disjunction(boxes.collect::<Option<Vec<_>>>()?).unwrap_or_else(|| lit(false)));
    }
    box_of(table, fragments)
}

/// The condition of lying in the box around some fragments; `None` if no side of the box is known.
fn box_of(table: &ArrayTable, fragments: &[Arc<Fragment>]) -> Option<Expr> {
    let dimensions = 0..table.dimension_count();
    conjunction(dimensions.filter_map(|d| side_of(table, fragments, d)))
}

fn side_of(table: &ArrayTable, fragments: &[Arc<Fragment>], d: usize) -> Option<Expr> {
    let ty = table.types.get(d).filter(|ty| !ty.is_lossy())?;
    let name = table.schema.fields().get(d)?.name();
    let datatype = ty.datatype();
    let mut around: Option<(Vec<u8>, Vec<u8>)> = None;
    let mut keys: Option<(u64, u64)> = None;
    for fragment in fragments {
        let known = fragment.footer.dense || tells_dimension(fragment, d);
        match fragment.non_empty_range(d) {
            _ if !known => return None,
            TileRange::Bytes { lo, hi } => {
                let (lo, hi) = (lo.to_vec(), hi.to_vec());
                around = Some(match around {
                    Some((l, h)) => (l.min(lo), h.max(hi)),
                    None => (lo, hi),
                });
            }
            range => {
                let (lo, hi) = range.keys()?;
                keys = Some(keys.map_or((lo, hi), |(l, h)| (l.min(lo), h.max(hi))));
            }
        }
    }
    let stored = |key| crate::geometry::key::from_key(datatype, key);
    let (lo, hi) = match keys {
        Some((lo, hi)) => (stored(lo), stored(hi)),
        None => around?,
    };
    let ends = [Some(lo.as_slice()), Some(hi.as_slice())];
    let ends = stored_values(ty, ends.into_iter(), None).ok()??;
    let value = |i| ScalarValue::try_from_array(&ends, i).ok().map(lit);
    Some(ident(name).between(value(0)?, value(1)?))
}
