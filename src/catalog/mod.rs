//! A TileDB group as a catalog and as a schema of a session.
//!
//! DataFusion's names have three parts, and groups nest deeper: in a SOMA experiment, `X/data` of a measurement is four
//! levels down. So a part may be a path. With a group attached as `exp`, the same array is
//!
//! | Name | Read as |
//! |---|---|
//! | `exp."ms/RNA/X/data"` | the group as a *schema* of the session's own catalog: tables are paths |
//! | `exp."ms/RNA/X".data` | the group as a *catalog*: nested groups, by their paths, are its schemas |
//! | `exp.ms."RNA/X/data"` | the same: from any schema, paths lead further down |
//!
//! Arrays directly in the group are `exp.obs`; in the catalog they are in the schema `public`: `exp.public.obs`.
//!
//! - If no member matches a part exactly, the only one that matches in another case is taken: `exp.ms."rna/var"`.
//! - A member without a name is named by the last part of its URI, with a number if that is taken (`data`, `data_2`).
//! - A nested group called `public` or `information_schema` is the schema `./public`; any path may begin with `./`.
//! - `information_schema` and SHOW TABLES list the arrays that were there when the group was attached, or when this
//!   session last changed the members of a group in it, each once by catalog and once by schema. What others change is
//!   listed once the group is attached again. Names in queries are looked up each time, so a query is never stale.
//!
//! Attaching only reads group files. An array is opened when a query names it; the error of a missing or damaged array appears
//! then, and affects nothing else. A group that contains itself is listed once. `timestamp` applies to the group and to its
//! members; `timestamp_start` only to the members.

mod attached;
pub(crate) mod explore;
mod group;
mod provider;
mod resolve;
mod statement;
use datafusion::prelude::SessionContext;

pub(crate) use self::attached::AttachedGroups;
pub use self::attached::TileDbGroupBuilder;
pub(crate) use self::attached::attached_notice;
pub use self::group::{AttachAs, TileDbGroup};
pub(crate) use self::resolve::explain_group;
pub(crate) use self::statement::{GroupStatement, first_word, first_word_range};
use tiledb_engine::Result;

use crate::stores::place::ArrayPlace;

/// The schema of the arrays directly in a group that is a catalog.
pub const ROOT_SCHEMA: &str = "public";

/// Attaches the group at a path, a URL or a [`Location`](crate::Location) to a session as `name`, as a catalog and as a schema; see [the module](self).
///
/// [`TileDbGroup::builder`] takes options. The session needs no other preparation.
pub async fn register_group(
    ctx: &SessionContext,
    name: &str,
    place: impl Into<ArrayPlace>,
) -> Result<()> {
    TileDbGroup::builder(place).attach(ctx, name).await
}

/// Detaches the group attached as `name`; returns whether there was one.
pub fn detach_group(ctx: &SessionContext, name: &str) -> bool {
    attached::detach(ctx, name)
}

#[cfg(test)]
mod tests {
    use tiledb_engine::ErrorKind;

    use super::{AttachAs, GroupStatement, first_word};
    use crate::options::TableOptions;
    use tiledb_stores::StoreOptions;

    fn parsed(sql: &str) -> GroupStatement {
        GroupStatement::parse(sql).unwrap().unwrap()
    }

    fn attach(uri: &str, name: &str, attach_as: AttachAs) -> GroupStatement {
        GroupStatement::Attach {
            uri: uri.to_owned(),
            name: name.to_owned(),
            attach_as,
            if_not_exists: false,
            options: TableOptions::default(),
            store_options: StoreOptions::default(),
        }
    }

    #[test]
    fn attach_in_every_form() {
        let plain = attach("/data/exp", "exp", AttachAs::Both);
        for sql in [
            "ATTACH '/data/exp' AS exp",
            "attach '/data/exp' as EXP;",
            "-- a group\n/* here */ ATTACH GROUP '/data/exp' AS \"exp\" ;;",
            "ATTACH DATABASE '/data/exp' AS exp (TYPE tiledb, READ_ONLY)",
            "ATTACH '/data/exp' AS exp (READ_ONLY true,)",
            "ATTACH '/data/exp' AS exp OPTIONS ()",
            "ATTACH '/data/exp'",
            "ATTACH '/data/Exp' (type TileDB)",
        ] {
            let mut statement = parsed(sql);
            if let GroupStatement::Attach { uri, .. } = &mut statement {
                *uri = uri.to_ascii_lowercase();
            }
            assert_eq!(statement, plain, "{sql}");
        }
        let named = |sql: &str, name: &str, attach_as| {
            assert_eq!(parsed(sql), attach("x", name, attach_as), "{sql}");
        };
        named("ATTACH 'x' AS CATALOG e", "e", AttachAs::Catalog);
        named("ATTACH 'x' AS DATABASE e", "e", AttachAs::Catalog);
        named("ATTACH 'x' AS SCHEMA \"E x\" ()", "E x", AttachAs::Schema);
        named("ATTACH 'x' AS schema", "schema", AttachAs::Both);
        named(
            "ATTACH 'x' AS catalog OPTIONS ()",
            "catalog",
            AttachAs::Both,
        );
        let odd = parsed("ATTACH 's3://b/My exp.2/'");
        assert_eq!(odd, attach("s3://b/My exp.2/", "my_exp_2", AttachAs::Both));
    }

    #[test]
    fn options_are_those_of_tables_and_stores() {
        let sql = "ATTACH IF NOT EXISTS 's3://b/e' AS e
        (tiledb.timestamp 1000, empty_cells = skip, 'aws.region' 'eu-west-1', 'invalid_utf8' = 'lossy')";
        let GroupStatement::Attach {
            if_not_exists,
            options,
            store_options,
            ..
        } = parsed(sql)
        else {
            panic!("an ATTACH");
        };
        assert!(if_not_exists);
        let pairs = [
            ("timestamp", "1000"),
            ("empty_cells", "skip"),
            ("invalid_utf8", "lossy"),
        ];
        assert_eq!(options, TableOptions::from_pairs(pairs).unwrap());
        let region = ("aws.region".to_owned(), "eu-west-1".to_owned());
        assert_eq!(store_options, [region].into_iter().collect());
        assert_eq!(format!("{store_options:?}"), "{\"aws.region\"}");
    }

    #[test]
    fn detach() {
        for (sql, name, if_exists) in [
            ("DETACH exp", "exp", false),
            ("detach database IF EXISTS \"Exp\";", "Exp", true),
            ("DETACH GROUP exp", "exp", false),
        ] {
            let name = name.to_owned();
            let expected = GroupStatement::Detach { name, if_exists };
            assert_eq!(parsed(sql), expected, "{sql}");
        }
    }

    #[test]
    fn other_statements_are_left_alone() {
        for sql in [
            "",
            ";",
            "SELECT 'attach'",
            "-- attach 'x'\nSELECT 1",
            "/* attach */",
            "attachment",
            "'attach'",
            "é attach",
        ] {
            assert_eq!(GroupStatement::parse(sql).unwrap(), None, "{sql}");
        }
    }

    #[test]
    fn mistakes_say_what_is_expected() {
        for (sql, words) in [
            ("ATTACH", "found the end, expected the location"),
            ("ATTACH exp AS x", "found \"exp\", expected the location"),
            ("ATTACH 'x' AS", "found the end, expected a name"),
            (
                "ATTACH 'x' AS 'y'",
                "found a text in quotes, expected a name",
            ),
            (
                "ATTACH 'x' exp",
                "found \"exp\", expected the end of the statement",
            ),
            ("ATTACH IF EXISTS 'x'", "expected NOT EXISTS"),
            ("ATTACH 'x' AS y OPTIONS", "expected ( and options"),
            (
                "ATTACH 'x' AS y (timestamp",
                "expected a value for the option \"timestamp\"",
            ),
            ("ATTACH 'x' AS y (timestamp 5 6)", "expected , or )"),
            ("ATTACH 'x' AS y (5)", "the name of an option"),
            (
                "ATTACH 'x' AS y (timestmp 5)",
                "unknown option \"timestmp\"",
            ),
            ("ATTACH 'x' AS y (timestamp 5, timestamp 6)", "given twice"),
            (
                "ATTACH 'x' AS y (TYPE sqlite)",
                "TYPE sqlite: only groups of TileDB",
            ),
            ("ATTACH 'x' AS y (READ_ONLY false)", "tiledb_add_member"),
            ("ATTACH 'x", "Unterminated"),
            ("DETACH", "found the end, expected a name"),
            ("DETACH IF NOT EXISTS x", "expected EXISTS"),
            ("DETACH x y", "expected the end of the statement"),
        ] {
            let error = GroupStatement::parse(sql).unwrap_err();
            assert!(error.message().contains(words), "{sql}: {error}");
            assert!(
                matches!(
                    error.kind(),
                    ErrorKind::InvalidInput | ErrorKind::Unsupported
                ),
                "{error}"
            );
        }
    }

    #[test]
    fn the_first_word_stands_behind_comments() {
        for text in ["show all", " -- a\n/* b */ show", "show;"] {
            assert_eq!(first_word(text), "show");
        }
        assert_eq!(first_word("-- nothing"), "");
    }
}
