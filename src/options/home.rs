//! The home folder in paths.

use std::borrow::Cow;
use std::path::is_separator;

/// A user's path with the home folder in place of a leading `~`.
///
/// Paths that come from storage are not expanded: a member of a group may be called `~`.
pub(crate) fn expand_home(path: &str) -> Cow<'_, str> {
    let rest = path.strip_prefix('~');
    let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with(is_separator));
    match (rest, std::env::home_dir()) {
        (Some(rest), Some(home)) => Cow::Owned(format!("{}{rest}", home.display())),
        _ => Cow::Borrowed(path),
    }
}
