//! Impossible arrays are refused, with a reason.

use super::*;

/// Dimensions of a table of `x` and `y` (TINYINT), `r` (REAL) and `v` (VARCHAR); options, separated by semicolons; text of the
/// error.
const NO_ARRAYS: [(&str, &str, &str); 32] = [
    ("", "", "one dimension or more"),
    ("x", "capacity 0", "capacity is 0"),
    ("x", "tile_order hilbert", "tile_order is hilbert"),
    (
        "x",
        "array_type dense",
        "'tiledb.dim.x.domain' '[low, high]'",
    ),
    (
        "x",
        "array_type dense; cell_order hilbert; dim.x.domain [0, 1]",
        "only sparse arrays have",
    ),
    (
        "x",
        "array_type dense; allows_duplicates true; dim.x.domain [0, 1]",
        "allows_duplicates is true",
    ),
    (
        "v",
        "array_type dense",
        "expected integers, dates or times, or a sparse array",
    ),
    (
        "x, r",
        "array_type dense; dim.x.domain [0, 1]; dim.r.domain [0, 1]",
        "its dimension is FLOAT32",
    ),
    (
        "x",
        "cell_order hilbert",
        "the Hilbert curve divides the domain",
    ),
    (
        "x",
        "dim.x.domain [3, 2]",
        "[3, 2]: expected a low end that is not above",
    ),
    (
        "x",
        "dim.x.domain [-128, 127]",
        "all of INT8: expected one value less",
    ),
    ("x", "dim.x.domain [0, 128]", "a number from -128 to 127"),
    ("x", "dim.x.domain [0]", "a low and a high end"),
    ("x", "dim.x.domain 0, 1", "a list in brackets"),
    (
        "x",
        "dim.x.domain [0, 9]; dim.x.tile 11",
        "the tile extent is 11, and the domain is [0, 9]: expected 1 to 10",
    ),
    (
        "x",
        "dim.x.domain [0, 9]; dim.x.tile 0",
        "the tile extent is 0",
    ),
    (
        "x",
        "dim.x.domain [-100, 100]; dim.x.tile 200",
        "expected at most 127",
    ),
    (
        "x",
        "dim.x.tile x",
        "'x' isn't a tile extent of INT8: expected a number of steps",
    ),
    ("r", "dim.r.domain [0, inf]", "expected finite ends"),
    (
        "r",
        "dim.r.domain [0, 1]; dim.r.tile -1",
        "the tile extent is -1.0",
    ),
    (
        "r",
        "dim.r.domain [0, 1]; dim.r.tile 3",
        "at most the size of the domain",
    ),
    ("r", "dim.r.filters delta", "does not take FLOAT32"),
    (
        "r",
        "coords_filters double_delta; dim.r.filters ",
        "does not take FLOAT32",
    ),
    ("v", "dim.v.tile 3", "no tile extent"),
    ("v", "dim.v.domain [a, b]", "takes any text"),
    (
        "x, y",
        "current_domain [0, 1]",
        "1 ranges: expected one for each of the 2",
    ),
    (
        "x",
        "dim.x.domain [0, 9]; current_domain [0, 10]",
        "expected a part of the domain [0, 9]",
    ),
    ("v", "current_domain [\"\", \"\"]", "expected a high end"),
    ("x", "attr.v.fill \"\"", "the fill value has 0 bytes"),
    ("x", "attr.v.fill_valid true", "the column is NOT NULL"),
    (
        "x",
        "offsets_filters float_scale(1, 0, 8)",
        "float_scale rounds",
    ),
    (
        "x",
        "attr.v.type INT16",
        "INT16 shows as SMALLINT, and the column is declared as VARCHAR",
    ),
];

#[test]
fn what_libtiledb_refuses_is_refused() {
    let table = columns(&[
        ("x", DataType::Int8),
        ("y", DataType::Int8),
        ("r", DataType::Float32),
        ("v", DataType::Utf8),
    ]);
    for (dimensions, options, why) in NO_ARRAYS {
        let dimensions: Vec<_> = dimensions
            .split(", ")
            .filter(|name| !name.is_empty())
            .collect();
        let options: Vec<_> = options
            .split("; ")
            .filter_map(|option| option.split_once(' '))
            .collect();
        let error = refused(&table, &dimensions, &options);
        assert!(error.to_string().contains(why), "{options:?}: {error}");
    }
    let reserved = columns(&[("x", DataType::Int8), ("__v", DataType::Int8)]);
    let error = refused(&reserved, &["x"], &[]);
    assert!(error.message().contains("two underscores"), "{error}");
    let twice = columns(&[
        ("x", DataType::Int8),
        ("v", DataType::Int8),
        ("v", DataType::Int8),
    ]);
    let error = refused(&twice, &["x"], &[]);
    assert!(
        error.message().contains("two columns are called \"v\""),
        "{error}"
    );
    let point = columns(&[("x", DataType::Int8)]);
    let dense = [("array_type", "dense"), ("dim.x.domain", "[0, 1]")];
    let error = refused(&point, &["x"], &dense);
    assert!(error.message().contains("one attribute or more"), "{error}");
    let wide = (0..17).map(|i| Field::new(format!("d{i}"), DataType::Utf8, false));
    let wide = Schema::new(wide.collect::<Vec<_>>());
    let names: Vec<_> = wide.fields().iter().map(|f| f.name().as_str()).collect();
    let error = refused(&wide, &names, &[("cell_order", "hilbert")]);
    assert!(
        error.message().contains("17 dimensions: expected 16"),
        "{error}"
    );
}

/// Options of a table of `x` (TINYINT), `a` and `b` (VARCHAR) and `n` (BIGINT), and text of the error.
const NO_ENUMERATIONS: [(&str, &str); 8] = [
    ("attr.a.enumeration [a, a]", "the value a is listed twice"),
    ("attr.a.enumeration [a", "values in brackets"),
    (
        "attr.a.enumeration_name shared",
        "nothing says what enumeration \"shared\" holds",
    ),
    (
        "attr.a.enumeration [a]; attr.a.enumeration_name e; attr.b.enumeration [b]; attr.b.enumeration_name e",
        "has other values for another column",
    ),
    (
        "attr.a.enumeration [a]; attr.a.type FLOAT32",
        "expected one integer or BOOL",
    ),
    ("attr.n.enumeration [1, x]", "'x' isn't a value of INT64"),
    (
        "attr.a.enumeration [a]; attr.a.enumeration_type INT8",
        "INT8 shows as TINYINT, and the column is declared as VARCHAR",
    ),
    (
        "attr.a.enumeration [red]; attr.a.fill red",
        "'red' isn't a value of INT32",
    ),
];

#[test]
fn enumerations_are_checked() {
    let table = columns(&[
        ("x", DataType::Int8),
        ("a", DataType::Utf8),
        ("b", DataType::Utf8),
        ("n", DataType::Int64),
    ]);
    for (options, why) in NO_ENUMERATIONS {
        let options: Vec<_> = options
            .split("; ")
            .filter_map(|option| option.split_once(' '))
            .collect();
        let error = refused(&table, &["x"], &options);
        assert!(error.to_string().contains(why), "{options:?}: {error}");
    }
    let many = (0..127)
        .map(|i| i.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let many = format!("[{many}]");
    let options = [
        ("attr.n.enumeration", many.as_str()),
        ("attr.n.type", "INT8"),
    ];
    let error = refused(&table, &["x"], &options);
    assert!(
        error
            .message()
            .contains("127 values, and INT8 has codes for 126"),
        "{error}"
    );
    let shared = [
        ("attr.a.enumeration", "[\"p, q\", \"\"] ordered"),
        ("attr.a.enumeration_name", "e"),
        ("attr.b.enumeration_name", "e"),
        ("attr.b.type", "UINT8"),
    ];
    let shared = builder(&table, &["x"], &shared)
        .unwrap()
        .default_value("b", "p, q".into())
        .unwrap()
        .definition()
        .unwrap();
    assert_eq!(shared.enumerations.len(), 1);
    assert!(shared.enumerations[0].ordered);
    assert_eq!(shared.schema.attributes[1].fill_value, [0]);
    let none = builder(&table, &["x"], &[("attr.a.enumeration", "[p]")]).unwrap();
    let error = none
        .default_value("a", "q".into())
        .unwrap()
        .definition()
        .unwrap_err();
    assert!(error.message().contains("none of the 1 values"), "{error}");
}
