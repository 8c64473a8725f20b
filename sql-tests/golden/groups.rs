//! Groups from the outside: what libtiledb lists, what attaching costs, and where members may lie.
//!
//! The SQL of groups stands in `groups.slt`; here is what needs files made for the occasion.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::Int64Array;
use datafusion::catalog::CatalogProvider;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::session::{StartedStatement, start};
use datafusion_tiledb::{TileDbGroup, detach_group, register, register_group};
use futures::FutureExt;
use futures::future::BoxFuture;
use libtest_mimic::Failed;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path as StorePath;
use tiledb_engine::array::group::{Group, MemberLocation};
use tiledb_engine::array::window::{OpenWindow, TimestampMs};
use tiledb_engine::format::group::ObjectKind;
use tiledb_engine::storage::{ExternalMembers, Location, MetadataCache, RequestLog, Storage};

use crate::data;
use crate::support::array_files::{Files, plain_tile};
use crate::support::fixtures;

fn folder(name: &str) -> PathBuf {
    fixtures::root().join("groups").join(name)
}

pub fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A copy of a golden group in a folder of its own.
pub fn copy(name: &str) -> Result<(tempfile::TempDir, PathBuf), Failed> {
    let scratch = tempfile::tempdir()?;
    let place = scratch.path().join(name);
    Files::of(&folder(name)).write(&place);
    Ok((scratch, place))
}

pub async fn number(ctx: &SessionContext, sql: &str) -> Result<i64, Failed> {
    let batches = ctx.sql(sql).await?.collect().await?;
    let column = batches
        .first()
        .ok_or("no batch")?
        .column(0)
        .as_any()
        .downcast_ref::<Int64Array>();
    Ok(column.ok_or("not a number")?.value(0))
}

pub async fn error(ctx: &SessionContext, sql: &str) -> Result<String, Failed> {
    match ctx.sql(sql).await {
        Ok(_) => Err(format!("{sql} succeeded").into()),
        Err(e) => Ok(e.strip_backtrace()),
    }
}

/// A file of group details of version 2: object type, whether relative, URI, name, whether deleted.
fn details(members: &[(u8, bool, &str, &str, bool)]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    bytes.extend((members.len() as u64).to_le_bytes());
    for (kind, relative, uri, name, deleted) in members {
        bytes.extend(2_u32.to_le_bytes());
        bytes.extend([*kind, u8::from(*relative)]);
        bytes.extend(text(uri));
        bytes.push(1);
        bytes.extend(text(name));
        bytes.push(u8::from(*deleted));
    }
    plain_tile(&bytes)
}

/// Changes the group at `folder`.
fn change(folder: &Path, at: u64, members: &[(u8, bool, &str, &str, bool)]) -> Result<(), Failed> {
    fs::create_dir_all(folder.join("__group"))?;
    fs::write(folder.join("__tiledb_group.tdb"), "")?;
    let name = format!("__{at}_{at}_{:032x}_2", 7);
    fs::write(folder.join("__group").join(name), details(members))?;
    Ok(())
}

/// Path, kind and folder of a member.
type Member = (String, String, String);

/// Every member below a group.
fn walk(
    folder: PathBuf,
    at: u64,
    above: String,
    passed: Vec<PathBuf>,
) -> BoxFuture<'static, Result<Vec<Member>, Failed>> {
    async move {
        let window = OpenWindow::new(TimestampMs(0), Some(TimestampMs(at)))?;
        let group = Group::open(&Storage::new(Location::local(&text(&folder))?), window).await?;
        let root = fixtures::root().join("groups");
        let passed = [passed, vec![folder]].concat();
        let mut found = Vec::new();
        for member in group.members {
            let MemberLocation::SameStore(location) = &member.location else {
                return Err("the golden groups are relative".into());
            };
            let folder = PathBuf::from(format!("/{}", location.root()));
            let shown = text(folder.strip_prefix(&root)?);
            let path = format!("{above}{}", member.name);
            found.push((path.clone(), member.kind.to_string(), shown));
            let exists = folder.join("__tiledb_group.tdb").exists();
            if member.kind == ObjectKind::Group && exists && !passed.contains(&folder) {
                found.extend(walk(folder, at, format!("{path}/"), passed.clone()).await?);
            }
        }
        Ok(found)
    }
    .boxed()
}

/// Whether a member is the one of the golden list, where `?` stands for want of a name.
fn is_same(found: &Member, golden: &Member) -> bool {
    let ((path, kind, folder), (golden_path, golden_kind, golden_folder)) = (found, golden);
    let last = folder.rsplit('/').next().unwrap_or_default();
    let name = match golden_path.strip_suffix('?') {
        Some(above) => path.strip_prefix(above).is_some_and(|name| {
            name == last || name.strip_prefix(last).is_some_and(|n| n.starts_with('_'))
        }),
        None => path == golden_path,
    };
    name && kind == golden_kind && folder == golden_folder
}

trial!(as_libtiledb_lists_them);
async fn as_libtiledb_lists_them() -> Result<(), Failed> {
    let expected = fs::read_to_string(data().join("groups/expected.jsonl"))?;
    let mut count = 0;
    for line in expected.lines() {
        let (name, at, mut golden): (String, u64, Vec<Member>) = serde_json::from_str(line)?;
        let mut found = walk(folder(&name), at, String::new(), Vec::new()).await?;
        // Those with names first: what has none may be any other.
        golden.sort_by_key(|(path, _, _)| path.contains('?'));
        for member in &golden {
            let same = found
                .iter()
                .position(|f| is_same(f, member))
                .ok_or_else(|| format!("{name} at {at}: no {member:?} in {found:?}"))?;
            found.remove(same);
            count += 1;
        }
        assert!(found.is_empty(), "{name} at {at}: {found:?} too much");
    }
    assert!(count > 80, "{count} members are too few");
    Ok(())
}

trial!(attaching_reads_group_files_only);
async fn attaching_reads_group_files_only() -> Result<(), Failed> {
    let log = Arc::new(RequestLog::new());
    let cache = Arc::new(MetadataCache::new(1 << 20));
    let ctx = SessionContext::new();
    TileDbGroup::builder(text(&folder("experiment")))
        .request_log(Arc::clone(&log))
        .cache(cache)
        .attach(&ctx, "exp")
        .await?;
    let files: Vec<_> = log.entries().into_iter().map(|r| r.file).collect();
    let of_groups = files
        .iter()
        .all(|f| f.is_empty() || f.starts_with("__group"));
    assert!(of_groups, "{files:?}");
    // Six groups: one listing each, the one without members one more, and five files.
    assert_eq!(files.len(), 6 + 1 + 6, "{files:?}");

    // What lists names asks nothing.
    log.clear();
    let catalog = ctx.catalog("exp").ok_or("attached")?;
    assert_eq!(catalog.schema_names().len(), 6);
    for schema in catalog.schema_names() {
        let schema = catalog.schema(&schema).ok_or("listed")?;
        for table in schema.table_names() {
            schema.table_type(&table).await?;
        }
    }
    assert_eq!(log.len(), 0);

    // A query opens the array it names, and lists the groups above it.
    assert_eq!(
        number(&ctx, "SELECT count(*) FROM exp.ms.\"RNA/var\"").await?,
        2
    );
    let files: Vec<_> = log.entries().into_iter().map(|r| r.file).collect();
    let groups = files.iter().filter(|f| f.starts_with("__group")).count();
    assert_eq!(groups, 3, "{files:?}");
    Ok(())
}

trial!(before_lists_of_members);
/// A group from before TileDB 2.8 lists no members. A notice tells whoever attaches it how to reach the arrays in its folder.
async fn before_lists_of_members() -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let group = scratch.path().join("old");
    Files::of(&folder("experiment/obs")).write(&group.join("obs"));
    fs::write(group.join("__tiledb_group.tdb"), "")?;
    let ctx = SessionContext::new();
    register(&ctx)?;
    let attached = start(&ctx, &format!("ATTACH '{}' AS old", text(&group))).await?;
    let StartedStatement::Done {
        notice: Some(notice),
    } = attached
    else {
        return Err(format!("expected a notice, found {attached:?}").into());
    };
    let (path, place) = (text(&group.join("obs")), text(&group));
    let told = [
        format!("FROM '{path}'"),
        format!("tiledb_add_member('{place}', 'obs')"),
    ];
    let named = error(&ctx, "SELECT * FROM old.obs").await?;
    for hint in told {
        assert!(notice.contains(&hint), "{notice}");
        assert!(named.contains(&hint), "{named}");
    }
    assert_eq!(
        number(&ctx, &format!("SELECT count(*) FROM '{path}'")).await?,
        4
    );
    let add = format!("SELECT * FROM tiledb_add_member('{place}', 'obs')");
    ctx.sql(&add).await?.collect().await?;
    assert_eq!(number(&ctx, "SELECT count(*) FROM old.obs").await?, 4);
    // A group with members causes no notice.
    let attach = format!("ATTACH '{}' AS exp", text(&folder("experiment")));
    let attached = start(&ctx, &attach).await?;
    assert!(matches!(attached, StartedStatement::Done { notice: None }));
    Ok(())
}

trial!(names_are_looked_up_anew);
async fn names_are_looked_up_anew() -> Result<(), Failed> {
    let (_scratch, group) = copy("experiment")?;
    let ctx = SessionContext::new();
    register_group(&ctx, "exp", text(&group)).await?;
    assert_eq!(number(&ctx, "SELECT count(*) FROM exp.obs").await?, 4);
    let obs = text(&group.join("obs"));
    change(
        &group,
        9000,
        &[
            (2, true, "obs", "obs", true),
            (2, false, &obs, "cells", false),
            (1, true, "ms/RNA", "rna", false),
        ],
    )?;
    assert_eq!(number(&ctx, "SELECT count(*) FROM exp.cells").await?, 4);
    assert_eq!(number(&ctx, "SELECT count(*) FROM exp.rna.var").await?, 2);
    let gone = error(&ctx, "SELECT * FROM exp.obs").await?;
    assert!(
        gone.contains("no member \"obs\"; it holds cells (array)"),
        "{gone}"
    );
    // The list of names is that of the time of attaching, until the group is attached again.
    let catalog = ctx.catalog("exp").ok_or("attached")?;
    let schema = catalog.schema("public").ok_or("root")?;
    assert_eq!(schema.table_names(), ["obs"]);
    assert!(detach_group(&ctx, "exp"));
    assert!(!detach_group(&ctx, "exp"));
    register_group(&ctx, "exp", text(&group)).await?;
    let catalog = ctx.catalog("exp").ok_or("attached")?;
    assert!(catalog.schema_names().contains(&"rna".to_owned()));
    Ok(())
}

/// A store that has the files in a folder.
async fn in_memory_below(folder: &str, files: &Files) -> Result<InMemory, Failed> {
    let store = InMemory::new();
    for (path, bytes) in &files.0 {
        let path = StorePath::parse(format!("{folder}/{path}"))?;
        store.put(&path, bytes.clone().into()).await?;
    }
    Ok(store)
}

trial!(absolute_members);
async fn absolute_members() -> Result<(), Failed> {
    let (scratch, group) = copy("experiment")?;
    let other = scratch.path().join("other");
    let odd = scratch.path().join("odd %41?#");
    Files::of(&group.join("obs")).write(&odd);
    let uri = |path: &Path| format!("file://{}", path.display());
    change(
        &other,
        5,
        &[
            (2, false, &uri(&group.join("obs")), "url", false),
            (2, false, &text(&group.join("obs")), "path", false),
            (2, false, &uri(&odd), "odd", false),
            (2, true, "../experiment/obs", "beside", false),
            (1, false, &uri(&group.join("ms")), "ms", false),
            (2, false, "nostore://bucket/obs?x=secret", "far", false),
            (2, false, "tiledb://cloud/obs", "cloud", false),
            (2, false, "", "nowhere", false),
            (1, false, "nonsense://x", "odd_group", false),
        ],
    )?;
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_information_schema(true));
    datafusion_tiledb::register(&ctx)?;
    register_group(&ctx, "g", text(&other)).await?;
    // Nothing of this lies below the group, so it is opened only if the user says so.
    let columns = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'g'";
    assert_eq!(number(&ctx, columns).await?, 0);
    for name in ["url", "path", "odd", "beside", "far", "ms.\"RNA/var\""] {
        let refused = error(&ctx, &format!("SELECT * FROM g.{name}")).await?;
        assert!(
            refused.contains("lies outside") && refused.contains("SET tiledb.external_members = "),
            "{refused}"
        );
        assert!(!refused.contains("secret"), "{refused}");
    }
    let found = format!(
        "SELECT count(*) FROM tiledb_members('{}') WHERE found AND name IN ('url', 'path', 'odd', 'beside', 'far', 'ms')",
        text(&other)
    );
    assert_eq!(number(&ctx, &found).await?, 0);
    let allow = format!(
        "SET tiledb.external_members = '{}/, nostore://bucket'",
        text(scratch.path())
    );
    ctx.sql(&allow).await?.collect().await?;
    assert!(number(&ctx, &found).await? > 4);
    // The list of the group was made before that.
    detach_group(&ctx, "g");
    register_group(&ctx, "g", text(&other)).await?;
    for name in ["url", "path", "odd", "beside"] {
        assert_eq!(
            number(&ctx, &format!("SELECT count(*) FROM g.{name}")).await?,
            4
        );
    }
    assert_eq!(
        number(&ctx, "SELECT count(*) FROM g.ms.\"RNA/var\"").await?,
        2
    );
    let far = error(&ctx, "SELECT * FROM g.far").await?;
    assert!(far.contains("the scheme nostore://"), "{far}");
    assert!(
        far.contains("member far") && !far.contains("secret"),
        "{far}"
    );
    for name in ["cloud", "nowhere", "odd_group.x"] {
        error(&ctx, &format!("SELECT * FROM g.{name}")).await?;
    }
    assert_eq!(number(&ctx, columns).await?, 4 * 3 + 3 + 2 + 2);
    // A store that the session gets to know later.
    let store = in_memory_below("obs", &Files::of(&group.join("obs"))).await?;
    let url = url::Url::parse("nostore://bucket").expect("a URL");
    ctx.register_object_store(&url, Arc::new(store));
    assert_eq!(number(&ctx, "SELECT count(*) FROM g.far").await?, 4);
    Ok(())
}

trial!(in_memory);
async fn in_memory() -> Result<(), Failed> {
    let store = InMemory::new();
    for (path, bytes) in &Files::of(&folder("experiment")).0 {
        let path = StorePath::parse(format!("deep/exp/{path}"))?;
        store.put(&path, bytes.clone().into()).await?;
    }
    let change = [
        (2, false, "mine://store/deep/exp/obs", "absolute", false),
        (2, false, "mine://store/deep/other/obs", "outside", false),
    ];
    let path = StorePath::parse(format!("deep/exp/__group/__7_7_{:032x}_2", 1))?;
    store.put(&path, details(&change).into()).await?;
    let root = StorePath::from("deep/exp");
    let location = Location::new(Arc::new(store), root, "mine://store/deep/exp");
    let ctx = SessionContext::new();
    let builder = TileDbGroup::builder(location);
    builder.clone().attach(&ctx, "exp").await?;
    assert_eq!(number(&ctx, "SELECT count(*) FROM exp.absolute").await?, 4);
    assert_eq!(
        number(&ctx, "SELECT count(*) FROM exp.\"ms/RNA\".var").await?,
        2
    );
    let outside = error(&ctx, "SELECT * FROM exp.outside").await?;
    assert!(outside.contains("mine://store"), "{outside}");

    // Without a session, as a provider among others.
    let group = builder.open().await?;
    let other = SessionContext::new();
    let own = other.catalog("datafusion").ok_or("the default catalog")?;
    own.register_schema("exp", group.as_schema())?;
    other.register_catalog("cat", Arc::new(group));
    assert_eq!(number(&other, "SELECT count(*) FROM exp.obs").await?, 4);
    assert_eq!(
        number(&other, "SELECT count(*) FROM cat.ms.\"RNA/var\"").await?,
        2
    );
    Ok(())
}

trial!(wide_and_deep);
/// A chain of groups deeper than what is listed, and groups that hold the next one many times over.
async fn wide_and_deep() -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let mut deepest = scratch.path().join("deep");
    let mut path = String::new();
    for _ in 0..50 {
        change(&deepest, 1, &[(1, true, "g", "g", false)])?;
        deepest.push("g");
        path.push_str("g/");
    }
    change(&deepest, 1, &[(2, true, "a", "a", false)])?;
    Files::of(&folder("cycle/inner/a")).write(&deepest.join("a"));
    let ctx = SessionContext::new();
    register_group(&ctx, "deep", text(&scratch.path().join("deep"))).await?;
    assert_eq!(
        number(&ctx, &format!("SELECT count(*) FROM deep.\"{path}a\"")).await?,
        2
    );
    let catalog = ctx.catalog("deep").ok_or("attached")?;
    assert_eq!(catalog.schema_names().len(), 32);

    let names: Vec<String> = (0..20).map(|n| format!("g{n}")).collect();
    for level in 0..6 {
        let next = format!("../{}", level + 1);
        let members: Vec<_> = names
            .iter()
            .map(|n| (1, true, next.as_str(), n.as_str(), false))
            .collect();
        change(
            &scratch.path().join("wide").join(level.to_string()),
            1,
            &members,
        )?;
    }
    let wide = TileDbGroup::builder(text(&scratch.path().join("wide/0")))
        .external_members(ExternalMembers::SameStore)
        .open()
        .await?;
    let listed = wide.schema_names().len();
    assert!((8_000..=10_000).contains(&listed), "{listed}");
    Ok(())
}

trial!(sessions);
/// What wraps a session's catalogs before or after neither hides groups nor shows them to other sessions.
async fn sessions() -> Result<(), Failed> {
    let ctx = SessionContext::new();
    let group = text(&folder("experiment"));
    register_group(&ctx, "one", &group).await?;
    let ctx = ctx.enable_url_table();
    register(&ctx)?;
    register_group(&ctx, "two", &group).await?;
    for name in ["one", "two"] {
        assert_eq!(
            number(&ctx, &format!("SELECT count(*) FROM {name}.obs")).await?,
            4
        );
        assert_eq!(
            number(&ctx, &format!("SELECT count(*) FROM {name}.public.obs")).await?,
            4
        );
    }
    let path = format!("SELECT count(*) FROM '{group}/obs'");
    assert_eq!(number(&ctx, &path).await?, 4);
    assert!(register_group(&ctx, "one", &group).await.is_err());

    let other = SessionContext::new_with_config(ctx.copied_config());
    register_group(&other, "three", &group).await?;
    assert!(other.catalog("one").is_none());
    assert!(ctx.catalog("three").is_none());

    assert!(detach_group(&ctx, "one"));
    assert!(ctx.catalog("one").is_none());
    error(&ctx, "SELECT * FROM one.obs").await?;
    assert!(!detach_group(&ctx, "public"));
    assert_eq!(number(&ctx, "SELECT count(*) FROM two.obs").await?, 4);
    // Registering over a group is registering.
    ctx.register_catalog(
        "two",
        Arc::new(datafusion::catalog::MemoryCatalogProvider::new()),
    );
    error(&ctx, "SELECT * FROM two.public.obs").await?;
    assert_eq!(number(&ctx, "SELECT count(*) FROM two.obs").await?, 4);
    Ok(())
}
