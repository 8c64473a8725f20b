//! `tiledb_commits('location')`: the history of an array, one row per commit, oldest first.
//!
//! | Column | |
//! |---|---|
//! | `kind` | `write`, `delete`, `update`; `consolidated`, `ignore`, `vacuum` for files about other commits |
//! | `name` | the name of the commit: of a write, that of the fragment; of a vacuum, that of the replacing fragment |
//! | `timestamp_start`, `timestamp_end` | its time; a range for consolidated commits |
//! | `format_version` | the format version; NULL if the name has none |
//! | `file` | its own file; NULL if it is only listed in consolidated commits |
//! | `consolidated_in` | the files of consolidated commits that list it |
//! | `committed` | whether it is in effect: not if it is only listed and an ignore file removes it from the list |
//! | `ignored_by` | the ignore file that names it |
//! | `vacuumed_by` | the vacuum file that says another fragment replaces it |
//! | `visible` | whether the window of time shows it |
//! | `lists` | the names in a file about other commits |
//!
//! Commits of all times are shown; `'tiledb.timestamp'` decides what is `visible`.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use futures::stream::BoxStream;
use tiledb_engine::Result;
use tiledb_engine::array::commits::ArrayCommit;
use tiledb_engine::array::inspect::ArrayInspection;
use tiledb_engine::array::window::{OpenWindow, WindowVisibility};
use tiledb_engine::format::commit::CommitKind;

use super::arguments::FunctionTarget;
use super::columns::{self, TEXT, TIME, optional, required};
use super::description::{DescribeArray, DescriptionRequest, DescriptionRows, once};

/// The function.
pub(super) struct CommitsFunction;

impl DescribeArray for CommitsFunction {
    const NAME: &'static str = "tiledb_commits";

    fn schema() -> SchemaRef {
        columns::schema(vec![
            required("kind", TEXT),
            required("name", TEXT),
            optional("timestamp_start", TIME),
            optional("timestamp_end", TIME),
            optional("format_version", DataType::UInt32),
            optional("file", TEXT),
            required("consolidated_in", columns::text_list()),
            required("committed", DataType::Boolean),
            optional("ignored_by", TEXT),
            optional("vacuumed_by", TEXT),
            required("visible", DataType::Boolean),
            optional("lists", columns::text_list()),
        ])
    }

    fn rows(
        target: FunctionTarget,
        _request: Arc<DescriptionRequest>,
    ) -> BoxStream<'static, Result<DescriptionRows>> {
        once(async move {
            let window = target.window()?;
            let array = ArrayInspection::open(&target.storage, window).await?;
            let commits = array.commits().await?;
            rows(&commits, &window, !array.schema.is_dense())
        })
    }
}

fn rows(commits: &[ArrayCommit], window: &OpenWindow, sparse: bool) -> Result<DescriptionRows> {
    let hiding: HashSet<&String> = commits
        .iter()
        .filter(|c| c.kind == CommitKind::Vacuum)
        .filter(|c| window.sees_fragment(&c.name, sparse) != WindowVisibility::Hidden)
        .filter_map(|c| c.file.as_ref())
        .collect();
    let visible = |commit: &ArrayCommit| match commit.kind {
        CommitKind::Write | CommitKind::Ok => {
            commit.is_committed()
                && window.sees_fragment(&commit.name, sparse) != WindowVisibility::Hidden
                && !commit
                    .vacuumed_by
                    .as_ref()
                    .is_some_and(|path| hiding.contains(path))
        }
        CommitKind::Delete | CommitKind::Update => window.contains(&commit.name),
        CommitKind::Vacuum => {
            window.sees_fragment(&commit.name, sparse) != WindowVisibility::Hidden
        }
        CommitKind::Consolidated | CommitKind::Ignore => true,
    };
    let each = || commits.iter();
    let listed: Vec<Vec<&String>> = each().map(|c| c.consolidated_in.iter().collect()).collect();
    let lists: Vec<Option<Vec<&String>>> = each()
        .map(|c| is_list(c.kind).then(|| c.lists.iter().collect()))
        .collect();
    Ok(DescriptionRows {
        len: commits.len(),
        columns: vec![
            columns::text(each().map(|c| c.kind.word())),
            columns::text(each().map(|c| &c.name.name)),
            columns::times(each().map(|c| c.name.t1)),
            columns::times(each().map(|c| c.name.t2)),
            columns::u32s(each().map(|c| c.name.version)),
            columns::opt_text(each().map(|c| c.file.as_ref())),
            columns::text_lists(&listed)?,
            columns::bools(each().map(ArrayCommit::is_committed)),
            columns::opt_text(each().map(|c| c.ignored_by.as_ref())),
            columns::opt_text(each().map(|c| c.vacuumed_by.as_ref())),
            columns::bools(each().map(visible)),
            columns::opt_text_lists(&lists)?,
        ],
    })
}

fn is_list(kind: CommitKind) -> bool {
    matches!(
        kind,
        CommitKind::Consolidated | CommitKind::Ignore | CommitKind::Vacuum
    )
}
