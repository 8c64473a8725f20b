//! Tests of the values of options, of error messages, and of how DataFusion passes options.

use datafusion::config::ExtensionOptions;
use tiledb_engine::ErrorKind;

use super::keys::KNOWN;
use super::*;

fn end(value: &str) -> Result<u64> {
    parse_end("timestamp", value)
}

#[test]
fn times_are_milliseconds_or_iso() {
    assert_eq!(end("1000").unwrap(), 1000);
    assert_eq!(end(" 0 ").unwrap(), 0);
    assert_eq!(end("18446744073709551615").unwrap(), u64::MAX);
    assert_eq!(end("1970-01-02").unwrap(), 86_400_000);
    assert_eq!(end("2024-05-01T00:00:00Z").unwrap(), 1_714_521_600_000);
    assert_eq!(end("2024-05-01 00:00:00").unwrap(), 1_714_521_600_000);
    assert_eq!(
        end("2024-05-01T02:00:00.250+02:00").unwrap(),
        1_714_521_600_250
    );
}

#[test]
fn windows_are_whole_milliseconds_inside_the_times() {
    assert_eq!(end("1970-01-01T00:00:00.000999Z").unwrap(), 0);
    assert_eq!(
        parse_start("timestamp_start", "1970-01-01T00:00:00.000999Z").unwrap(),
        1
    );
    assert_eq!(
        parse_start("timestamp_start", "1970-01-01T00:00:00.001Z").unwrap(),
        1
    );
}

#[test]
fn wrong_times_say_what_is_expected() {
    for (value, why) in [
        ("", "not a time"),
        ("yesterday", "not a time"),
        ("2024-13-01", "not a time"),
        ("-5", "not a time"),
        ("1960-01-01", "before 1970"),
        ("99999999999999999999", "too large"),
    ] {
        let error = end(value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.message().contains(why), "{error}");
        assert!(
            error.message().contains("expected milliseconds since 1970"),
            "{error}"
        );
    }
}

#[test]
fn keys_come_with_and_without_prefix() {
    let with = TableOptions::from_pairs([
        ("tiledb.empty_cells", "Skip"),
        ("tiledb.time_as", "duration"),
    ]);
    let without = TableOptions::from_pairs([("empty_cells", "skip"), ("time_as", "duration")]);
    assert_eq!(with.unwrap(), without.unwrap());
}

#[test]
fn unknown_keys_and_values_list_the_known_ones() {
    let error = TableOptions::from_pairs([("tiledb.timestmp", "1")]).unwrap_err();
    assert!(
        error.message().contains("unknown option \"timestmp\""),
        "{error}"
    );
    assert!(
        error.message().contains("tiledb.timestamp_start"),
        "{error}"
    );
    let error = TableOptions::from_pairs([("empty_cells", "zero")]).unwrap_err();
    assert!(
        error
            .message()
            .ends_with("expected fill or null or skip or domain"),
        "{error}"
    );
}

#[test]
fn what_is_on_or_off() {
    let options = [("system_columns", "true"), ("tiledb.all_versions", "True")];
    let options = TableOptions::from_pairs(options).unwrap();
    assert!(options.system_columns && options.all_versions);
    let options = TableOptions::from_pairs([("system_columns", "false")]).unwrap();
    assert!(!options.system_columns && !options.all_versions);
    let error = TableOptions::from_pairs([("all_versions", "2")]).unwrap_err();
    assert!(
        error.message().contains("expected true or false"),
        "{error}"
    );
}

#[test]
fn a_key_is_taken_and_never_told() {
    const SECRET: &str = "0123456789abcdeF0123456789abcdeF";
    let options = TableOptions::from_pairs([("tiledb.encryption_key", SECRET)]).unwrap();
    let key = EncryptionKey::from_text(SECRET.as_bytes()).unwrap();
    assert_eq!(options.encryption_key.as_deref(), Some(&key));
    let mut extension = TileDbTableOptions::default();
    extension.set("encryption_key", SECRET).unwrap();
    let entries: Vec<_> = extension
        .entries()
        .into_iter()
        .map(|entry| (entry.key, entry.value))
        .collect();
    for shown in [
        format!("{options:?} {options:#?}"),
        format!("{extension:?} {entries:?}"),
    ] {
        assert!(!shown.contains("0123"), "{shown}");
    }
    let error = TableOptions::from_pairs([("encryption_key", "hunter2")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(!error.to_string().contains("hunter2"), "{error}");
    for other in ["encryption_key_env", "encryption_key_file"] {
        let both = TableOptions::from_pairs([("encryption_key", SECRET), (other, SECRET)]);
        assert!(!both.unwrap_err().to_string().contains(SECRET));
    }
}

#[test]
fn windows_must_make_sense() {
    assert!(TableOptions::from_pairs([("timestamp", "1"), ("timestamp_end", "2")]).is_err());
    assert!(TableOptions::from_pairs([("timestamp", "1"), ("tiledb.timestamp", "1")]).is_err());
    assert!(TableOptions::from_pairs([("timestamp_start", "3"), ("timestamp_end", "2")]).is_err());
    let options =
        TableOptions::from_pairs([("timestamp_start", "2"), ("timestamp_end", "2")]).unwrap();
    assert_eq!(
        (options.timestamp_start, options.timestamp_end),
        (Some(2), Some(2))
    );
}

#[test]
fn statements_carry_options_of_others() {
    let options = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect::<HashMap<_, _>>()
    };
    let parsed = TableOptions::from_statement(&options(&[
        ("aws.region", "eu-west-1"),
        ("format.timestamp", "7"),
    ]));
    assert_eq!(parsed.unwrap().timestamp_end, Some(7));
    assert!(TableOptions::from_statement(&options(&[("tiledbb.timestamp", "7")])).is_err());
}

#[test]
fn options_of_creation_are_apart() {
    let statement = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect::<HashMap<_, _>>()
    };
    let all = statement(&[
        ("format.capacity", "7"),
        ("tiledb.timestamp", "5"),
        ("tiledb.attr.a.b.fill", "x"),
        ("aws.region", "eu-west-1"),
    ]);
    assert_eq!(
        TableOptions::from_statement(&all).unwrap().timestamp_end,
        Some(5)
    );
    let (_, creation) = TableOptions::split_statement(&all).unwrap();
    let creation: Vec<_> = creation
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    assert_eq!(creation, [("attr.a.b.fill", "x"), ("capacity", "7")]);
    let twice = statement(&[("format.capacity", "7"), ("tiledb.capacity", "7")]);
    let error = TableOptions::split_statement(&twice).unwrap_err();
    assert!(
        error
            .message()
            .contains("\"tiledb.capacity\" is given twice"),
        "{error}"
    );
    let error = TableOptions::from_pairs([("tiledb.capacity", "7")]).unwrap_err();
    assert!(
        error.message().contains("belongs in CREATE EXTERNAL TABLE"),
        "{error}"
    );
}

#[test]
fn the_extension_takes_keys_both_ways() {
    let mut table_options = datafusion::config::TableOptions::default();
    table_options
        .extensions
        .insert(TileDbTableOptions::default());
    table_options.set("tiledb.timestamp", "5").unwrap();
    assert!(table_options.set("tiledb.nonsense", "5").is_err());
    // What describes an array to be created is for the statement that creates it.
    table_options.set("tiledb.capacity", "5").unwrap();
    table_options.set("tiledb.dim.x.domain", "[0, 9]").unwrap();
    let extension = table_options
        .extensions
        .get::<TileDbTableOptions>()
        .unwrap();
    assert_eq!(extension.options().timestamp_end, Some(5));

    let mut extension = TileDbTableOptions::default();
    extension.set("timestamp", "6").unwrap();
    assert_eq!(extension.options().timestamp_end, Some(6));
    assert_eq!(extension.entries().len(), KNOWN.len());
}
