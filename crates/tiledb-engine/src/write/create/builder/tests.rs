//! Builders resolve to definitions, and definitions to the words that build them.

mod refused;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::*;
use crate::error::ErrorKind;
use crate::format::schema::Layout;

fn columns(fields: &[(&str, DataType)]) -> Schema {
    let fields = fields
        .iter()
        .map(|(name, data_type)| Field::new(*name, data_type.clone(), false));
    Schema::new(fields.collect::<Vec<_>>())
}

fn readings() -> Schema {
    columns(&[
        ("station", DataType::Utf8),
        ("time", DataType::Timestamp(TimeUnit::Nanosecond, None)),
        ("level", DataType::Float64),
        ("note", DataType::Utf8View),
    ])
}

fn builder(schema: &Schema, dimensions: &[&str], options: &[(&str, &str)]) -> Result<ArrayBuilder> {
    let builder = ArrayBuilder::new(schema, dimensions)?;
    options
        .iter()
        .try_fold(builder, |builder, (key, value)| builder.option(key, value))
}

fn refused(schema: &Schema, dimensions: &[&str], options: &[(&str, &str)]) -> Error {
    let built = builder(schema, dimensions, options);
    built.and_then(|builder| builder.definition()).unwrap_err()
}

#[test]
fn a_key_is_all_that_is_needed() {
    let definition = builder(&readings(), &["station", "time"], &[])
        .unwrap()
        .definition()
        .unwrap();
    let schema = &definition.schema;
    assert_eq!(
        (schema.array_type, schema.capacity),
        (ArrayType::Sparse, 10_000)
    );
    assert_eq!(
        (schema.tile_order, schema.cell_order),
        (Layout::RowMajor, Layout::RowMajor)
    );
    assert!(!schema.allows_duplicates);
    let filters: Vec<_> = schema
        .dimensions
        .iter()
        .map(|d| d.filters.to_string())
        .collect();
    assert_eq!(filters, ["zstd(3)", "byteshuffle, zstd(3)"]);
    let filters: Vec<_> = schema
        .attributes
        .iter()
        .map(|a| a.filters.to_string())
        .collect();
    assert_eq!(filters, ["byteshuffle, zstd(3)", "zstd(3)"]);
    assert_eq!(
        schema.offsets_filters.to_string(),
        "positive_delta, byteshuffle, zstd(3)"
    );
    assert_eq!(schema.validity_filters.to_string(), "rle");
    assert_eq!(schema.dimensions[0].domain, None);
    let size = schema.dimensions[1].extent_steps().unwrap();
    assert_eq!(
        size,
        u64::MAX - 1,
        "all of the domain, which lacks NaT, and the largest value"
    );
}

#[test]
fn dimensions_have_the_order_of_the_key() {
    let definition = builder(&readings(), &["time", "station"], &[])
        .unwrap()
        .definition()
        .unwrap();
    let names: Vec<_> = definition
        .schema
        .dimensions
        .iter()
        .map(|d| d.name.as_str())
        .collect();
    assert_eq!(names, ["time", "station"]);
    assert_eq!(
        definition.schema.dimensions[0].filters.to_string(),
        "delta, byteshuffle, zstd(3)"
    );
    let error = refused(&readings(), &["time", "time"], &[]);
    assert!(error.message().contains("named twice"), "{error}");
    let error = refused(&readings(), &[], &[]);
    assert!(error.message().contains("one dimension or more"), "{error}");
}

#[test]
fn typed_methods_and_options_say_the_same() {
    let typed = ArrayBuilder::new(&readings(), ["time"])
        .unwrap()
        .domain("time", "1990-01-01", "2100-01-01")
        .unwrap()
        .tile("time", "30 days")
        .unwrap()
        .filters("level", "float_scale(0.1, 0, 2), zstd")
        .unwrap()
        .fill("level", -1.5)
        .unwrap()
        .enumeration("note", ["dry", "wet"], false)
        .unwrap()
        .definition()
        .unwrap();
    let options = builder(
        &readings(),
        &["time"],
        &[
            ("tiledb.dim.time.domain", "[1990-01-01, 2100-01-01]"),
            ("tiledb.dim.time.tile", "2592000000000000"),
            ("attr.level.filters", "float_scale(0.1, 0, 2), zstd"),
            ("attr.LEVEL.fill", "-1.5"),
            ("attr.note.enumeration", "[dry, \"wet\"]"),
        ],
    )
    .unwrap()
    .definition()
    .unwrap();
    assert_eq!(typed, options);
    let note = &typed.schema.attributes[2];
    assert_eq!(note.enumeration.as_deref(), Some("note"));
    assert_eq!(typed.enumerations[0].member(1), Some(&b"wet"[..]));
}

#[test]
fn dense_arrays_need_domains_and_get_extents() {
    let cube = columns(&[
        ("x", DataType::Int32),
        ("y", DataType::Int32),
        ("v", DataType::Int16),
    ]);
    let dense = ("array_type", "dense");
    let error = refused(&cube, &["x", "y"], &[dense]);
    assert!(
        error
            .message()
            .contains("'tiledb.dim.x.domain' '[low, high]'"),
        "{error}"
    );
    let domains = [
        dense,
        ("dim.x.domain", "[0, 9]"),
        ("dim.y.domain", "[1, 1000000]"),
    ];
    let definition = builder(&cube, &["x", "y"], &domains)
        .unwrap()
        .definition()
        .unwrap();
    let extents = definition
        .schema
        .dimensions
        .iter()
        .map(|d| d.extent_steps().unwrap());
    assert_eq!(extents.collect::<Vec<_>>(), [10, 10_000]);
    assert!(
        definition
            .schema
            .dimensions
            .iter()
            .all(|d| d.filters.is_empty())
    );
}

#[test]
fn columns_are_found_in_any_case_unless_two_are_meant() {
    let table = columns(&[
        ("Id", DataType::Int8),
        ("a.b", DataType::Int8),
        ("A", DataType::Int8),
        ("a", DataType::Int8),
    ]);
    let builder = ArrayBuilder::new(&table, ["Id"]).unwrap();
    let set = |key: &str, value: &str| builder.clone().option_in_lower_case(key, value);
    assert!(set("dim.id.tile", "3").is_ok());
    assert!(set("attr.a.b.fill", "3").is_ok());
    let error = set("attr.a.fill", "3").unwrap_err();
    assert!(error.message().contains("\"a\" may mean A or a"), "{error}");
    assert!(builder.clone().option("attr.a.fill", "3").is_ok());
    assert!(
        set("attr.id.fill", "3")
            .unwrap_err()
            .message()
            .contains("begins with tiledb.dim")
    );
    assert!(
        set("dim.a.b.tile", "3")
            .unwrap_err()
            .message()
            .contains("begins with tiledb.attr")
    );
    let error = set("dim.y.tile", "3").unwrap_err();
    assert!(
        error.message().contains("the columns are Id, a.b, A, a"),
        "{error}"
    );
    assert!(
        set("dim.id.fill", "3")
            .unwrap_err()
            .message()
            .contains("domain, tile, filters, type")
    );
    assert_eq!(
        set("timestamp", "3").unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn an_array_tells_how_it_was_made() {
    let table = Schema::new(vec![
        Field::new("k", DataType::Utf8, false),
        Field::new("Time", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("v", DataType::Float32, true),
        Field::new("c", DataType::Utf8, true),
        Field::new("d", DataType::Utf8, false),
    ]);
    let options = [
        ("cell_order", "col-major"),
        ("capacity", "17"),
        ("dim.Time.type", "DATETIME_HR"),
        (
            "dim.Time.domain",
            "[1990-01-01T00:00:00, 2100-01-01T00:00:00]",
        ),
        ("dim.Time.tile", "30 days"),
        (
            "current_domain",
            "[\"a\", \"zz\"], [1990-01-01T00:00:00, 2001-01-01T00:00:00]",
        ),
        ("attr.v.fill", "-0.0"),
        ("attr.v.fill_valid", "false"),
        ("attr.c.enumeration", "[\"x\"\"y\", \"z\"] ordered"),
        ("attr.d.type", "UINT8"),
        ("attr.d.enumeration_name", "c"),
    ];
    let definition = builder(&table, &["k", "Time"], &options)
        .unwrap()
        .definition()
        .unwrap();
    let wording = CreateWording::of(&definition, Vec::new()).unwrap();
    let told: Vec<_> = wording
        .options
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    assert_eq!(told, options);
    assert_eq!((wording.dimensions, wording.missing.len()), (2, 0));
    assert_eq!(wording.builder().unwrap().definition().unwrap(), definition);
    let plain = builder(&readings(), &["station", "time"], &[])
        .unwrap()
        .definition()
        .unwrap();
    assert!(
        CreateWording::of(&plain, Vec::new())
            .unwrap()
            .options
            .is_empty()
    );
}

#[test]
fn options_are_compared_with_an_array() {
    let definition = builder(&readings(), &["station", "time"], &[("capacity", "9")]).unwrap();
    let definition = definition.definition().unwrap();
    let told = |options: &[(&str, &str)]| {
        let all = ArrayBuilder::of(&definition).unwrap();
        let all = options
            .iter()
            .try_fold(all, |all, (key, value)| all.option(key, value))
            .unwrap();
        let found = all.disagreements(&definition).unwrap();
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(
        told(&[
            ("capacity", "9"),
            ("attr.level.filters", "ByteShuffle,zstd( 3)")
        ])
        .is_empty()
    );
    assert_eq!(
        told(&[
            ("capacity", "10"),
            ("dim.time.type", "DATETIME_NS"),
            ("attr.note.fill", "-")
        ]),
        [
            "tiledb.attr.note.fill is '-' and the array has 'x'00''",
            "tiledb.capacity is '10' and the array has '9'"
        ]
    );
}
