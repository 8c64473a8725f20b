//! What is wrong with one enumeration or attribute, or with its statistics, costs that column alone: the others are read, the
//! broken one is still listed, and asking for it is an error that says why, and how to do without.

use libtest_mimic::Failed;
use tiledb_engine::format::enumeration::Enumeration;
use tiledb_engine::format::fragment::footer::Footer;
use tiledb_engine::format::schema::ArraySchema;

use crate::hostile::forged_sizes::{ask, first_filter};
use crate::support::array_files::{
    Files, METADATA_FILE, contents, join_footer, plain_tile, split_footer,
};
use crate::support::refusals::{ALL, edit_schema, read_files, refused};

/// The columns of `weather_stations` without some, as libtiledb reads them.
async fn without(files: &Files, column: &str) -> Result<(), Failed> {
    let whole = Files::golden("weather_stations");
    for sql in [
        format!("SELECT * EXCEPT ({column}) FROM '$' ORDER BY station, time"),
        format!("SELECT * EXCLUDE ({column}) FROM '$' WHERE temperature < 0"),
        "SELECT count(*) FROM '$'".to_owned(),
        "SELECT station, count(*), min(temperature) FROM '$' WHERE note IS NULL GROUP BY station"
            .to_owned(),
        "SELECT time FROM (SELECT * FROM '$') WHERE station = 'Bergen' ORDER BY time LIMIT 5"
            .to_owned(),
    ] {
        let expected = ask(&whole, &sql).await?;
        assert!(!expected.is_empty(), "{sql}");
        assert_eq!(ask(files, &sql).await?, expected, "{sql}");
    }
    let described = read_files(files, "DESCRIBE t").await?;
    assert_eq!(described, 6, "DESCRIBE");
    Ok(())
}

/// Asking for a column says why it cannot be read, and how to do without.
async fn broken(files: &Files, column: &str, why: &[&str]) -> Result<(), Failed> {
    let hint = format!("EXCEPT (\"{column}\")");
    let words = [&[column, hint.as_str(), "array"], why].concat();
    for sql in [
        ALL.to_owned(),
        format!("SELECT {column} FROM t LIMIT 1"),
        format!("SELECT count({column}) FROM t"),
        format!("SELECT temperature FROM t WHERE {column} IS NULL"),
        format!("SELECT temperature FROM t WHERE {column} IS NOT NULL LIMIT 1"),
        format!("SELECT count(*) FROM t GROUP BY {column}"),
    ] {
        refused(&sql, read_files(files, &sql).await, &words)?;
    }
    Ok(())
}

/// An enumeration whose file was made anew.
fn forged_enumeration(edit: impl FnOnce(&mut Enumeration)) -> Files {
    let mut files = Files::golden("weather_stations");
    let path = files.find("__enumerations/");
    files.edit(&path, |tile| {
        let mut enumeration = Enumeration::decode(&contents(tile)).expect("of libtiledb");
        edit(&mut enumeration);
        *tile = plain_tile(&encoded(&enumeration));
    });
    files
}

/// The tile of an enumeration, whatever it says.
fn encoded(enumeration: &Enumeration) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let mut tile = 0_u32.to_le_bytes().to_vec();
    tile.extend(text(&enumeration.name));
    tile.extend(text(&enumeration.file));
    tile.push(enumeration.datatype.code());
    let var = enumeration.cell_val_num.is_var();
    tile.extend(if var { u32::MAX } else { 1 }.to_le_bytes());
    tile.push(enumeration.ordered.into());
    tile.extend((enumeration.data.len() as u64).to_le_bytes());
    tile.extend(&enumeration.data);
    if let Some(offsets) = &enumeration.offsets {
        tile.extend((8 * offsets.len() as u64).to_le_bytes());
        offsets
            .iter()
            .for_each(|offset| tile.extend(offset.to_le_bytes()));
    }
    tile
}

trial!(enumerations);
async fn enumerations() -> Result<(), Failed> {
    use tiledb_engine::format::datatype::Datatype;
    // As found in the wild: numbers of eight bytes that begin at 0, 2, 4 and 6.
    let misfit = forged_enumeration(|e| {
        e.datatype = Datatype::Int64;
        e.data = vec![1; 8];
        e.offsets = Some(vec![0, 2, 4, 6]);
    });
    let not_text = forged_enumeration(|e| e.data.fill(0xff));
    let mut gone = Files::golden("weather_stations");
    let path = gone.find("__enumerations/");
    gone.0.remove(&path);
    let mut cut = Files::golden("weather_stations");
    cut.edit(&path, |file| file.truncate(50));
    for (files, why) in [
        (
            &misfit,
            &["offset of a member", "enumeration", "__enumerations/"][..],
        ),
        (&not_text, &["enumeration", "UTF-8"]),
        (&gone, &["__enumerations/"]),
        (&cut, &["__enumerations/"]),
    ] {
        without(files, "condition").await?;
        broken(files, "condition", why).await?;
        let sql = "SELECT name, arrow_type, problem IS NOT NULL FROM tiledb_schema('$') WHERE name IN ('condition', 'wind')";
        let told = ask(files, sql).await?;
        let expected = [
            "[\"condition\",\"BinaryView\",true]",
            "[\"wind\",\"Float32\",false]",
        ];
        assert_eq!(told, expected, "{why:?}");
    }
    for files in [&misfit, &gone, &cut] {
        let sql = "SELECT enumeration, \"index\", value, attributes, problem LIKE '%__enumerations/%' FROM tiledb_enumerations('$')";
        let told = ask(files, sql).await?;
        assert!(
            told.len() == 1 && told[0].ends_with(",null,null,[\"condition\"],true]"),
            "{told:?}"
        );
    }
    // One of several: the others keep their values.
    let mut one = Files::golden("enum_values");
    let path = one.find_all("__enumerations/").into_iter().find(|path| {
        let enumeration = Enumeration::decode(&contents(&one.0[path]));
        enumeration.expect("of libtiledb").name == "blobs"
    });
    one.0.remove(&path.expect("there is one"));
    let sql = "SELECT d, years, shares, small, days, codes, again FROM '$'";
    assert_eq!(
        ask(&one, sql).await?,
        ask(&Files::golden("enum_values"), sql).await?
    );
    refused(ALL, read_files(&one, ALL).await, &["\"blobs\"", "EXCEPT"])?;
    let listed = "SELECT count(DISTINCT enumeration), count(problem) FROM tiledb_enumerations('$')";
    assert_eq!(ask(&one, listed).await?, ["[6,1]"]);
    Ok(())
}

trial!(attributes);
async fn attributes() -> Result<(), Failed> {
    // The datatype, and the values per cell, stand before the sizes of the list of filters.
    let datatype = |code: u8| {
        let mut files = Files::golden("weather_stations");
        edit_schema(&mut files, |schema| {
            let at = first_filter(schema, "wind") - 8 - 4 - 1;
            assert_eq!(schema[at], 2, "wind is of type FLOAT32");
            schema[at] = code;
        });
        files
    };
    let cells = |count: u32| {
        let mut files = Files::golden("weather_stations");
        edit_schema(&mut files, |schema| {
            let at = first_filter(schema, "wind") - 8 - 4;
            schema[at..at + 4].copy_from_slice(&count.to_le_bytes());
        });
        files
    };
    for (files, why) in [
        (datatype(99), "datatype code is 99"),
        (datatype(44), "datatype code is 44"),
        (datatype(3), "fill value has 4 bytes, expected the 8"),
        (datatype(17), "type ANY"),
        (cells(0), "values per cell is 0"),
        (cells(2), "fill value has 4 bytes, expected the 8"),
    ] {
        without(&files, "wind").await?;
        broken(&files, "wind", &[why]).await?;
        let sql = format!("SELECT name FROM tiledb_schema('$') WHERE problem LIKE '%{why}%'");
        assert_eq!(ask(&files, &sql).await?, ["[\"wind\"]"], "{why}");
        let sql = "SELECT count(*) > 0 FROM tiledb_fragments('$')";
        assert_eq!(ask(&files, sql).await?, ["[true]"], "{why}");
    }
    // An attribute that isn't an index, but has an enumeration.
    let mut files = Files::golden("weather_stations");
    edit_schema(&mut files, |schema| {
        let at = first_filter(schema, "condition") - 8 - 4 - 1;
        assert_eq!(schema[at], 6, "condition is of type UINT8");
        schema[at] = 40;
    });
    without(&files, "condition").await?;
    broken(&files, "condition", &["expected one integer or boolean"]).await?;

    // A filter nobody knows: told when it is asked for, with the same way out.
    let mut files = Files::golden("weather_stations");
    edit_schema(&mut files, |schema| {
        let at = first_filter(schema, "wind");
        schema[at] = 200;
    });
    without(&files, "wind").await?;
    let words = ["unknown (200)", "attribute wind", "EXCEPT (\"wind\")"];
    refused(ALL, read_files(&files, ALL).await, &words)
}

trial!(statistics);
/// Statistics only save work: what is damaged is not known.
async fn statistics() -> Result<(), Failed> {
    let whole = Files::golden("weather_stations").plain();
    let wind = 0;
    // Smallest and largest values, sums, and numbers of NULLs: the lists of offsets in a footer, each by slot.
    for list in 4..8 {
        let mut files = whole.clone();
        for path in whole.find_all(METADATA_FILE) {
            files.edit(&path, |file| {
                let (body, footer) = split_footer(file);
                let (_, schema) = Footer::peek_schema_name(footer).expect("a footer");
                let schema = contents(&whole.0[&format!("__schema/{schema}")]);
                let schema = ArraySchema::decode(&schema).expect("a schema");
                let slots = Footer::decode(footer, &schema)
                    .expect("a footer")
                    .file_sizes
                    .len();
                let at = footer.len() - 8 * (1 + 8 * slots + 2) + 8 * (1 + list * slots + wind);
                let (_, section) = footer[at..].split_at(0);
                let section = u64::from_le_bytes(*section.first_chunk().expect("an offset"));
                let mut body = body.to_vec();
                // The size of the tile behind its version.
                let size = usize::try_from(section).expect("small") + 4;
                body[size..size + 8].copy_from_slice(&u64::MAX.to_le_bytes());
                *file = join_footer(&body, footer);
            });
        }
        for sql in [
            "SELECT count(wind), min(wind), max(wind), sum(wind) > 0 FROM '$'",
            "SELECT count(*), min(temperature) FROM '$' WHERE wind > 9",
            "SELECT count(*) FROM '$' WHERE wind IS NULL AND temperature < 3",
            "SELECT station, wind FROM '$' ORDER BY wind DESC LIMIT 4",
            "SELECT max(temperature), count(condition) FROM '$'",
        ] {
            let expected = ask(&whole, sql).await?;
            assert_eq!(ask(&files, sql).await?, expected, "list {list}: {sql}");
        }
    }
    Ok(())
}

trial!(storage);
/// That an enumeration cannot be decrypted is not a property of the enumeration: the array is refused.
async fn storage() -> Result<(), Failed> {
    let sql = "SELECT d FROM t";
    let outcome = read_files(&Files::golden("encrypted_enumerations"), sql).await;
    refused(sql, outcome, &["encrypt"])
}
