//! `tiledb_create_group`, `tiledb_add_member` and `tiledb_remove_member`: groups, and their members.
//!
//! ```text
//! SELECT * FROM tiledb_create_group('/data/experiment')
//! SELECT * FROM tiledb_add_member('/data/experiment', 'obs', name => 'obs')
//! SELECT * FROM tiledb_add_member('/data/experiment', '/data/shared/var', name => 'var', relative => false)
//! SELECT * FROM tiledb_remove_member('/data/experiment', 'var')
//! ```
//!
//! A member that isn't a URL and doesn't begin with `/` or `~` is a path from the group's folder. The files at the location
//! show whether it is an array or a group.

use datafusion::catalog::Session;
use datafusion::logical_expr::Expr;
use futures::FutureExt;
use futures::future::BoxFuture;
use tiledb_engine::GroupEdit;
use tiledb_engine::Result;
use tiledb_engine::storage::Location;
use tiledb_engine::write::group::create_group;

use super::functions::{check_time, target_of, usage};
use super::once::{ChangeFunction, FinishedAlteration, PendingAlteration};
use crate::catalog::AttachedGroups;
use crate::functions::arguments::{FunctionCall, FunctionTarget, text};
use crate::stores::location::locate;
use crate::stores::runtime::ArrayRuntime;
use crate::table::url_table::ParsedLocation;

const MEMBER_NAME: &str = "name";
const RELATIVE: &str = "relative";

/// `tiledb_create_group`.
pub(super) struct CreateGroup(FunctionCall);

impl ChangeFunction for CreateGroup {
    const NAME: &'static str = "tiledb_create_group";

    fn parse(arguments: &[Expr]) -> Result<Self> {
        let call = FunctionCall::parse(Self::NAME, arguments)?;
        check_time(&call)?;
        if call.table_options()?.write_timestamp.is_some() {
            return Err(usage(
                Self::NAME,
                "a group has no time of its own, only its members have",
            ));
        }
        Ok(Self(call))
    }

    fn prepare<'a>(&'a self, session: &'a dyn Session) -> BoxFuture<'a, Result<PendingAlteration>> {
        async move {
            let target = target_of(&self.0, session).await?;
            let attached = AttachedGroups::of(session);
            let doing = async move {
                create_group(&target.storage).await?;
                attached.follow(target.storage.location()).await;
                Ok(FinishedAlteration {
                    uri: target.storage.uri().to_owned(),
                    changes: vec!["create group".to_owned()],
                    file: Some(tiledb_engine::array::group::GROUP_FILE.to_owned()),
                })
            };
            Ok(doing.boxed())
        }
        .boxed()
    }
}

/// `tiledb_add_member`.
pub(super) struct AddMember {
    call: FunctionCall,
    member: String,
    name: Option<String>,
    relative: Option<bool>,
}

impl ChangeFunction for AddMember {
    const NAME: &'static str = "tiledb_add_member";

    fn parse(arguments: &[Expr]) -> Result<Self> {
        let [target, member, options @ ..] = arguments else {
            let given = arguments.len();
            return Err(usage(Self::NAME, &format!("{given} arguments are given")));
        };
        let rest = std::iter::once(target).chain(options).cloned();
        let own = [MEMBER_NAME, RELATIVE];
        let call = FunctionCall::parse_with(Self::NAME, &own, &rest.collect::<Vec<_>>())?;
        check_time(&call)?;
        let own = |wanted: &str| {
            let plain = |key: &str| key.strip_prefix("tiledb.").unwrap_or(key) == wanted;
            call.own.iter().rfind(|(key, _)| plain(key))
        };
        Ok(Self {
            member: text(Self::NAME, 1, member)?,
            name: own(MEMBER_NAME).map(|(_, name)| name.clone()),
            relative: match own(RELATIVE) {
                Some(_) => Some(call.is_on(RELATIVE)?),
                None => None,
            },
            call,
        })
    }

    fn prepare<'a>(&'a self, session: &'a dyn Session) -> BoxFuture<'a, Result<PendingAlteration>> {
        async move {
            let target = target_of(&self.call, session).await?;
            let member = place(&self.member, &target.runtime)?;
            let edit = GroupEdit::new().add_member(member, self.name.as_deref(), self.relative);
            Ok(doing(edit, target, AttachedGroups::of(session)))
        }
        .boxed()
    }
}

/// The location of a member, or the path to it from the group's folder.
fn place(member: &str, runtime: &ArrayRuntime) -> Result<std::result::Result<Location, String>> {
    let is_whole =
        member.contains("://") || member.starts_with(['/', '~', std::path::MAIN_SEPARATOR]);
    if !is_whole {
        return Ok(Err(member.to_owned()));
    }
    let named = ParsedLocation::parse(member)?;
    Ok(Ok(locate(&named.path, runtime)?))
}

/// `tiledb_remove_member`.
pub(super) struct RemoveMember {
    call: FunctionCall,
    name: String,
}

impl ChangeFunction for RemoveMember {
    const NAME: &'static str = "tiledb_remove_member";

    fn parse(arguments: &[Expr]) -> Result<Self> {
        let [target, name, options @ ..] = arguments else {
            let given = arguments.len();
            return Err(usage(Self::NAME, &format!("{given} arguments are given")));
        };
        let rest = std::iter::once(target).chain(options).cloned();
        let call = FunctionCall::parse(Self::NAME, &rest.collect::<Vec<_>>())?;
        check_time(&call)?;
        let name = text(Self::NAME, 1, name)?;
        Ok(Self { call, name })
    }

    fn prepare<'a>(&'a self, session: &'a dyn Session) -> BoxFuture<'a, Result<PendingAlteration>> {
        async move {
            let target = target_of(&self.call, session).await?;
            let edit = GroupEdit::new().remove(&self.name);
            Ok(doing(edit, target, AttachedGroups::of(session)))
        }
        .boxed()
    }
}

/// Changes the members of the target once it is awaited; the lists of `attached` groups follow.
fn doing(edit: GroupEdit, target: FunctionTarget, attached: AttachedGroups) -> PendingAlteration {
    let edit = edit.timestamp_if_given(target.options.write_timestamp);
    async move {
        let (file, changes) = edit.apply_in_words(&target.storage).await?;
        attached.follow(target.storage.location()).await;
        Ok(FinishedAlteration {
            uri: target.storage.uri().to_owned(),
            changes,
            file,
        })
    }
    .boxed()
}
