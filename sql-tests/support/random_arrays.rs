//! Random statements that create arrays: every type, option and filter, in legal combinations.

/// Random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.roll(one_in) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len() as u64) as usize]
    }

    fn pick_from<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize]
    }
}

/// A column of a statement.
struct Column {
    name: String,
    sql_type: &'static str,
    not_null: bool,
    default: Option<String>,
    options: Vec<(&'static str, String)>,
}

impl Column {
    fn new(name: &str, sql_type: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            sql_type,
            not_null: true,
            default: None,
            options: Vec::new(),
        }
    }

    fn option(&mut self, key: &'static str, value: impl Into<String>) {
        self.options.push((key, value.into()));
    }
}

const DIMENSIONS: [&str; 6] = ["x", "Y dim", "time", "a.b", "\"q\"", "ü"];
const ATTRIBUTES: [&str; 9] = [
    "v",
    "Temp",
    "it's",
    "select",
    "c.d.e",
    "_f",
    "naïve",
    "per%cent",
    "long name",
];

/// SQL types of dimensions, a type of TileDB or none, domains, extents.
const COORDINATES: [(&str, &str, &str, &str); 25] = [
    ("TINYINT", "", "[-100, 99]", "10"),
    ("TINYINT UNSIGNED", "", "[1, 200]", "50"),
    ("SMALLINT", "", "[-5, 5]", "11"),
    ("SMALLINT UNSIGNED", "", "[0, 65000]", "1"),
    ("INT", "", "[-2147483648, 2147483646]", ""),
    ("INT UNSIGNED", "", "[7, 7]", "1"),
    (
        "BIGINT",
        "",
        "[-9223372036854775807, 9223372036854775806]",
        "",
    ),
    ("BIGINT UNSIGNED", "", "[0, 18446744073709551614]", ""),
    ("REAL", "", "[-0.5, 1e30]", "2.5"),
    ("DOUBLE", "", "[0.1, 1e300]", "1e299"),
    ("VARCHAR", "", "", ""),
    ("TEXT", "", "", ""),
    ("DATE", "", "[1990-01-01, 2100-12-31]", "30 days"),
    (
        "DATE",
        "DATETIME_WEEK",
        "[1970-01-01, 1990-01-04]",
        "2 weeks",
    ),
    ("DATE", "DATETIME_MONTH", "[1990-01, 2100-12]", "1 year"),
    ("DATE", "datetime_year", "[0001, 9999]", "10"),
    (
        "TIMESTAMP",
        "",
        "[1990-01-01T00:00, 2100-01-01T00:00:00.000000001]",
        "30 days",
    ),
    ("TIMESTAMP(6)", "", "[1990-01-01, 2100-01-01]", "1 hour"),
    ("TIMESTAMP(3)", "", "[-5, 99999]", "1 s"),
    ("TIMESTAMP(0)", "", "[0001-01-01, 9999-12-31]", "365 days"),
    (
        "TIMESTAMP(0)",
        "DATETIME_HR",
        "[1990-01-01T01:00, 2100-01-01T23:00]",
        "24",
    ),
    ("TIMESTAMP(0)", "DATETIME_MIN", "[0, 100]", "5 minutes"),
    ("TIME", "", "[00:00, 23:59:59.999999999]", "1 hour"),
    ("TIME", "TIME_MIN", "[00:00, 23:59]", "60 min"),
    ("BIGINT", "DATETIME_PS", "[-10, 1000000]", "7"),
];

/// SQL types of attributes, a type of TileDB or none, fill values.
const VALUES: [(&str, &str, &str); 37] = [
    ("TINYINT", "", "-1"),
    ("TINYINT UNSIGNED", "", "255"),
    ("SMALLINT", "", "7"),
    ("SMALLINT UNSIGNED", "", "x''0100''"),
    ("INT", "", "-2147483648"),
    ("INT UNSIGNED", "", "0"),
    ("BIGINT", "", "9223372036854775807"),
    ("BIGINT UNSIGNED", "", "18446744073709551615"),
    ("REAL", "", "-0.0"),
    ("DOUBLE", "", "x''010000000000f87f''"),
    ("BOOLEAN", "", "true"),
    ("VARCHAR", "", "it''s \"so\""),
    ("VARCHAR", "STRING_ASCII", "x''00''"),
    ("VARCHAR", "STRING_UTF16", "é"),
    ("VARCHAR", "STRING_UTF32", "\" \""),
    ("VARCHAR", "STRING_UCS2", "a"),
    ("VARCHAR", "STRING_UCS4", "[1, 2]"),
    ("VARCHAR", "CHAR", "x''80''"),
    ("VARCHAR", "CHAR[3]", "abc"),
    ("VARCHAR", "CHAR[1]", "a"),
    ("VARCHAR", "STRING_UTF8[2]", "é"),
    ("VARCHAR", "GEOM_WKT", "POINT (1 2)"),
    ("BYTEA", "", "x''00ff''"),
    ("BYTEA", "BLOB[16]", "x''000102030405060708090a0b0c0d0e0f''"),
    ("BYTEA", "GEOM_WKB", "x''01''"),
    ("BYTEA", "ANY", "x''01''"),
    ("DATE", "", "2024-02-29"),
    ("DATE", "DATETIME_YEAR", "1999"),
    ("TIMESTAMP", "", "2024-02-29T12:00:00.000000001"),
    ("TIMESTAMP(3)", "", "NaT"),
    ("TIME", "TIME_SEC", "12:30"),
    ("BIGINT", "TIME_AS", "-5"),
    ("INT[]", "", "[1, -1]"),
    ("INT[3]", "", "[1, 2, 3]"),
    ("DOUBLE[2]", "", "[0.5, inf]"),
    ("TIMESTAMP(3)[]", "", "[2024-01-01T00:00, NaT]"),
    ("BOOLEAN[]", "", "[true]"),
];

/// SQL types of enumerated attributes, types of the values or none, and the values.
const ENUMERATIONS: [(&str, &str, &str); 9] = [
    (
        "VARCHAR",
        "",
        "[\"red\", \"\", \"it''s, \"\"so\"\"\"] ordered",
    ),
    ("VARCHAR", "STRING_ASCII", "[a, b, x''c3a9'']"),
    ("VARCHAR", "STRING_ASCII[2]", "[ab, cd]"),
    ("VARCHAR", "", "[]"),
    ("BIGINT", "", "[1, -1, 9223372036854775807]"),
    ("DOUBLE", "", "[0.1, -0.0, 0.0] ordered"),
    ("BOOLEAN", "", "[true, false]"),
    ("DATE", "DATETIME_MONTH", "[2024-01, 2024-02]"),
    ("TIMESTAMP(3)", "", "[2024-01-01, 5]"),
];

/// A statement that creates an array at a location.
pub fn statement(seed: u64, location: &str) -> String {
    let mut dice = Dice(seed);
    let dense = dice.chance(3);
    let hilbert = !dense && dice.chance(4);
    let needs_domain = dense || hilbert;
    let count = 1 + dice.roll(3) as usize;
    let one_type = dice.pick_from(&COORDINATES);
    let dimensions: Vec<_> = (0..count)
        .map(|index| {
            let kind = if dense {
                dense_kind(one_type)
            } else {
                dice.pick_from(&COORDINATES)
            };
            // The extents of a dense array multiply, and no file holds more than 2^64 cells.
            let has_tile = !hilbert && (!dense || count == 1);
            dimension(&mut dice, DIMENSIONS[index], kind, needs_domain, has_tile)
        })
        .collect();
    let least = u64::from(dense);
    let count = least + dice.roll(5);
    let attributes: Vec<_> = (0..count)
        .map(|index| {
            let name = ATTRIBUTES[(index as usize + seed as usize) % ATTRIBUTES.len()];
            if dice.chance(4) {
                enumerated(&mut dice, name, index)
            } else {
                attribute(&mut dice, name)
            }
        })
        .collect();
    let options = array_options(&mut dice, dense, hilbert, &dimensions);
    write(&dimensions, &attributes, &options, location)
}

/// A type that dense arrays have, instead of one that they have not.
fn dense_kind(
    kind: (&'static str, &'static str, &'static str, &'static str),
) -> (&'static str, &'static str, &'static str, &'static str) {
    match kind.0 {
        "REAL" | "DOUBLE" | "VARCHAR" | "TEXT" => COORDINATES[2],
        _ => kind,
    }
}

fn dimension(
    dice: &mut Dice,
    name: &str,
    (sql_type, stored, domain, tile): (&'static str, &'static str, &'static str, &'static str),
    needs_domain: bool,
    has_tile: bool,
) -> Column {
    let mut column = Column::new(name, sql_type);
    if !stored.is_empty() {
        column.option("type", stored);
    }
    if !domain.is_empty() && (needs_domain || !dice.chance(3)) {
        column.option("domain", domain);
        if !tile.is_empty() && dice.chance(2) && has_tile {
            column.option("tile", tile);
        }
    }
    if dice.chance(3) {
        let whole: &[&str] = &[
            "delta, bit_width_reduction, zstd",
            "double_delta",
            "positive_delta(64), lz4",
            "none",
            "",
        ];
        let any: &[&str] = &[
            "gzip(9)",
            "byteshuffle, zstd(7)",
            "bitshuffle, checksum_md5",
            "bzip2",
            "",
        ];
        let text: &[&str] = &[
            "rle",
            "dictionary, zstd(3)",
            "rle, lz4(2)",
            "checksum_sha256",
            "max_chunk_bytes(100)",
        ];
        column.option(
            "filters",
            match sql_type {
                "VARCHAR" | "TEXT" => dice.pick(text),
                "REAL" | "DOUBLE" => dice.pick(any),
                _ if dice.chance(2) => dice.pick(any),
                _ => dice.pick(whole),
            },
        );
    }
    column
}

fn attribute(dice: &mut Dice, name: &str) -> Column {
    let (sql_type, stored, fill) = dice.pick_from(&VALUES);
    let mut column = Column::new(name, sql_type);
    column.not_null = dice.chance(2);
    if !stored.is_empty() {
        column.option("type", stored);
    }
    if dice.chance(2) {
        column.option("fill", fill.replace("''", "'"));
        if !column.not_null && dice.chance(3) {
            column.option("fill_valid", "false");
        }
    } else if dice.chance(4) {
        column.default = match sql_type {
            "INT" | "BIGINT" | "SMALLINT" if stored.is_empty() => Some("1 + 2".to_owned()),
            "VARCHAR" if stored.is_empty() => Some("'it''s'".to_owned()),
            "DATE" if stored.is_empty() => Some("DATE '2024-02-29'".to_owned()),
            "DOUBLE" => Some("0.1".to_owned()),
            "BOOLEAN" => Some("false".to_owned()),
            _ => None,
        };
    }
    if dice.chance(2) {
        let any = [
            "",
            "none",
            "zstd(-7)",
            "gzip, checksum_sha256",
            "byteshuffle, bzip2(9)",
            "bitshuffle, lz4",
            "max_chunk_bytes(64)",
            "zstd, max_chunk_bytes(0)",
        ];
        let text = ["rle", "dictionary", "dictionary, gzip(1)", "rle(5), zstd"];
        let floats = [
            "float_scale(0.5, -1, 2), bit_width_reduction(1000)",
            "xor, double_delta(INT32)",
            "xor, zstd",
        ];
        let whole = [
            "delta, positive_delta",
            "double_delta(4)",
            "bit_width_reduction, rle",
            "xor, delta(INT8)",
        ];
        let filters = match (sql_type, stored) {
            ("VARCHAR", "" | "STRING_ASCII") if dice.chance(2) => dice.pick(&text),
            ("REAL" | "DOUBLE" | "DOUBLE[2]", _) if dice.chance(2) => dice.pick(&floats),
            ("INT" | "BIGINT" | "INT[]" | "INT[3]" | "TIMESTAMP", _) if dice.chance(2) => {
                dice.pick(&whole)
            }
            _ => dice.pick(&any),
        };
        column.option("filters", filters);
    }
    column
}

fn enumerated(dice: &mut Dice, name: &str, index: u64) -> Column {
    let (sql_type, values_as, values) = dice.pick_from(&ENUMERATIONS);
    let mut column = Column::new(name, sql_type);
    column.not_null = dice.chance(2);
    column.option("enumeration", values.replace("''", "'"));
    if !values_as.is_empty() {
        column.option("enumeration_type", values_as);
    }
    if dice.chance(2) {
        column.option(
            "type",
            dice.pick(&[
                "INT8", "UINT8", "INT16", "UINT16", "INT64", "UINT64", "BOOL",
            ]),
        );
    }
    if dice.chance(2) {
        column.option("enumeration_name", format!("values of {index}"));
    }
    if dice.chance(3) {
        column.option("fill", "0".to_owned());
    } else if values == "[1, -1, 9223372036854775807]" {
        column.default = Some("-1".to_owned());
    }
    column
}

fn array_options(
    dice: &mut Dice,
    dense: bool,
    hilbert: bool,
    dimensions: &[Column],
) -> Vec<(&'static str, String)> {
    let mut options = Vec::new();
    let mut add = |key, value: &str| options.push((key, value.to_owned()));
    if dense || dice.chance(5) {
        add("array_type", if dense { "Dense" } else { "sparse" });
    }
    if hilbert {
        add("cell_order", "hilbert");
    } else if dice.chance(2) {
        add("cell_order", dice.pick(&["col-major", "row_major"]));
    }
    if dice.chance(3) {
        add("tile_order", dice.pick(&["col_major", "row-major"]));
    }
    if dice.chance(2) {
        add(
            "capacity",
            dice.pick(&["1", "10000", "18446744073709551615"]),
        );
    }
    if !dense && dice.chance(3) {
        add("allows_duplicates", "true");
    }
    // A type or a filter of its own keeps a dimension from these.
    if dice.chance(3) {
        add(
            "coords_filters",
            dice.pick(&[
                "zstd(-1)",
                "",
                "bitshuffle, gzip(6)",
                "byteshuffle, lz4, checksum_md5",
            ]),
        );
    }
    if dice.chance(3) {
        add(
            "offsets_filters",
            dice.pick(&[
                "zstd",
                "double_delta, lz4",
                "",
                "positive_delta(100), bit_width_reduction, bzip2",
            ]),
        );
    }
    if dice.chance(3) {
        add(
            "validity_filters",
            dice.pick(&["zstd", "", "rle, gzip", "bitshuffle, max_chunk_bytes(1)"]),
        );
    }
    let domains: Option<Vec<_>> = dimensions
        .iter()
        .map(|dimension| {
            let mut options = dimension.options.iter();
            options
                .find(|(key, _)| *key == "domain")
                .map(|(_, domain)| domain.clone())
                .or_else(|| {
                    let text = matches!(dimension.sql_type, "VARCHAR" | "TEXT");
                    text.then(|| "[\"\", \"z, \"\"]\"]".to_owned())
                })
        })
        .collect();
    if let (Some(domains), true) = (domains, dice.chance(3)) {
        options.push(("current_domain", domains.join(", ")));
    }
    options
}

fn write(
    dimensions: &[Column],
    attributes: &[Column],
    options: &[(&'static str, String)],
    location: &str,
) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let columns = dimensions.iter().chain(attributes).map(|column| {
        let not_null = if column.not_null { " NOT NULL" } else { "" };
        let default = column
            .default
            .as_ref()
            .map(|value| format!(" DEFAULT {value}"))
            .unwrap_or_default();
        format!(
            "{} {}{not_null}{default}",
            quoted(&column.name),
            column.sql_type
        )
    });
    let key: Vec<_> = dimensions
        .iter()
        .map(|column| quoted(&column.name))
        .collect();
    let of_columns = |kind: &'static str, columns: &[Column]| {
        let options = columns.iter().flat_map(move |column| {
            let options = column.options.iter();
            options.map(move |(key, value)| {
                (
                    format!("tiledb.{kind}.{}.{key}", column.name),
                    value.clone(),
                )
            })
        });
        options.collect::<Vec<_>>()
    };
    let mut all: Vec<_> = options
        .iter()
        .map(|(key, value)| (format!("tiledb.{key}"), value.clone()))
        .collect();
    all.extend(of_columns("dim", dimensions));
    all.extend(of_columns("attr", attributes));
    let all: Vec<_> = all
        .iter()
        .map(|(key, value)| format!("{} {}", literal(key), literal(value)))
        .collect();
    let all = if all.is_empty() {
        String::new()
    } else {
        format!(" OPTIONS ({})", all.join(", "))
    };
    format!(
        "CREATE EXTERNAL TABLE t ({}, PRIMARY KEY ({})) STORED AS TILEDB LOCATION {}{all}",
        columns.collect::<Vec<_>>().join(", "),
        key.join(", "),
        literal(location)
    )
}
