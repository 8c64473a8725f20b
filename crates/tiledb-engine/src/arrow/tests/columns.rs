//! Tests of enumerations, and of the names and metadata of columns.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, StringArray};
use arrow::datatypes::{
    ArrowDictionaryKeyType, DataType, Date32Type, Float64Type, Int8Type, UInt8Type, UInt64Type,
};

use super::*;
use crate::format::enumeration::Enumeration;
use crate::format::schema::{ArraySchema, ArrayType, DimensionLabel, EnumerationRef, Layout};
use crate::format::version::FormatVersion;

fn enumeration(datatype: Datatype, data: &[u8], offsets: Option<Vec<u64>>) -> Enumeration {
    Enumeration {
        name: "e".into(),
        file: "__0_0_0_0".into(),
        datatype,
        cell_val_num: if offsets.is_some() {
            CellValNum::Var
        } else {
            ONE
        },
        ordered: false,
        data: data.to_vec(),
        offsets,
    }
}

fn enumerated(codes: Datatype, values: &Enumeration) -> Result<ColumnType> {
    let mut attribute = attribute(codes, ONE);
    attribute.enumeration = Some(values.name.clone());
    ColumnType::of_attribute(&attribute, Some(values), &TypeOptions::default())
}

fn decoded<K: ArrowDictionaryKeyType>(
    array: &ArrayRef,
) -> (PrimitiveArray<K>, Vec<Option<String>>) {
    let array = array.as_dictionary::<K>();
    let values = array
        .downcast_dict::<StringArray>()
        .unwrap()
        .into_iter()
        .map(|v| v.map(str::to_owned))
        .collect();
    (array.keys().clone(), values)
}

#[test]
fn codes_are_keys_and_null_outside() {
    let colours = enumeration(
        Datatype::StringUtf8,
        "redgrünblue".as_bytes(),
        Some(vec![0, 3, 8]),
    );
    let ty = enumerated(Datatype::Int8, &colours).unwrap();
    let expected = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    assert_eq!(ty.data_type(), &expected);
    assert!(ty.nullable());
    let array = fixed(&ty, &[2, 0, 1], None).unwrap();
    let (keys, values) = decoded::<Int8Type>(&array);
    assert!(keys.nulls().is_none());
    assert_eq!(
        values,
        [Some("blue".into()), Some("red".into()), Some("grün".into())]
    );
    let array = fixed(
        &ty,
        &[0xFF, 1, 3, 0x80, 2],
        Some(vec![true, true, true, true, false]),
    )
    .unwrap();
    let (keys, values) = decoded::<Int8Type>(&array);
    assert_eq!(keys.values(), &[0, 1, 0, 0, 0]);
    assert_eq!(values, [None, Some("grün".into()), None, None, None]);
    assert!(array.to_data().validate_full().is_ok());

    let wide = enumerated(Datatype::UInt64, &colours).unwrap();
    let codes: Vec<u8> = [1u64, u64::MAX]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let (_, values) = decoded::<UInt64Type>(&fixed(&wide, &codes, None).unwrap());
    assert_eq!(values, [Some("grün".into()), None]);
}

#[test]
fn an_empty_enumeration_makes_every_cell_null() {
    let empty = enumeration(Datatype::StringAscii, b"", Some(vec![]));
    let ty = enumerated(Datatype::UInt8, &empty).unwrap();
    let array = fixed(&ty, &[0, 1, 255], None).unwrap();
    assert_eq!((array.len(), array.logical_null_count()), (3, 3));
    assert!(array.to_data().validate_full().is_ok());
    let (_, values) = decoded::<UInt8Type>(&array);
    assert_eq!(values, [None, None, None]);
}

#[test]
fn enumerations_of_numbers_and_wrong_ones() {
    let numbers = enumeration(
        Datatype::Float64,
        &[1.5f64, -0.0].map(f64::to_le_bytes).concat(),
        None,
    );
    let ty = enumerated(Datatype::Int32, &numbers).unwrap();
    assert_eq!(ty.data_type(), &DataType::Float64);
    assert!(ty.nullable() && !ty.is_dictionary());
    let codes = [1i32, 0, 2, -1, 1].map(i32::to_le_bytes).concat();
    let nulls = Some(vec![true, true, true, true, false]);
    let array = fixed(&ty, &codes, nulls).unwrap();
    let expected = [Some(-0.0_f64), Some(1.5), None, None, None];
    let bits = |v: Option<f64>| v.map(f64::to_bits);
    let found = array.as_primitive::<Float64Type>().iter().map(bits);
    assert!(found.eq(expected.into_iter().map(bits)), "{array:?}");
    assert!(enumerated(Datatype::Float32, &numbers).is_err());
    let invalid = enumeration(Datatype::StringUtf8, b"\xff", Some(vec![0]));
    assert!(enumerated(Datatype::Int8, &invalid).is_err());
    let hostile = enumeration(Datatype::StringUtf8, b"ab", Some(vec![0, 3]));
    assert!(enumerated(Datatype::Int8, &hostile).is_err());
    let mut unloaded = attribute(Datatype::Int8, ONE);
    unloaded.enumeration = Some("e".into());
    assert!(ColumnType::of_attribute(&unloaded, None, &TypeOptions::default()).is_err());
}

/// Values for which the code alone is not enough: each kind that is plain, NaNs of all kinds, and an invalid time.
#[test]
fn values_of_plain_columns_are_those_of_the_enumeration() {
    let nans = [0x7ff8_0000_0000_0001_u64, 0xfff8_0000_0000_0000, 1 << 63];
    let floats = enumeration(
        Datatype::Float64,
        &nans.map(u64::to_le_bytes).concat(),
        None,
    );
    let ty = enumerated(Datatype::UInt8, &floats).unwrap();
    let array = fixed(&ty, &[2, 1, 0, 3], None).unwrap();
    let array = array.as_primitive::<Float64Type>();
    let found: Vec<_> = array.iter().map(|v| v.map(f64::to_bits)).collect();
    let nan = Some(f64::NAN.to_bits());
    assert_eq!(found, [Some(nans[2]), nan, nan, None]);

    let booleans = enumeration(Datatype::Bool, &[1, 0], None);
    let ty = enumerated(Datatype::UInt64, &booleans).unwrap();
    assert_eq!(ty.data_type(), &DataType::Boolean);
    let codes = [0, u64::MAX, 1].map(u64::to_le_bytes).concat();
    let array = fixed(&ty, &codes, None).unwrap();
    let found: Vec<_> = array.as_boolean().iter().collect();
    assert_eq!(found, [Some(true), None, Some(false)]);

    let days = [7, i64::MIN].map(i64::to_le_bytes).concat();
    let days = enumeration(Datatype::DateTimeDay, &days, None);
    let ty = enumerated(Datatype::Int8, &days).unwrap();
    assert_eq!(ty.data_type(), &DataType::Date32);
    assert_eq!(ty.enumeration_values().unwrap().null_count(), 1);
    let array = fixed(&ty, &[1, 0], None).unwrap();
    let found: Vec<_> = array.as_primitive::<Date32Type>().iter().collect();
    assert_eq!(found, [None, Some(7)]);

    let nothing = enumeration(Datatype::Int64, b"", None);
    let ty = enumerated(Datatype::Int8, &nothing).unwrap();
    assert_eq!(fixed(&ty, &[0, 1], None).unwrap().null_count(), 2);

    // Lists would take memory for every cell with the same value.
    let mut lists = enumeration(Datatype::UInt8, &[1, 2, 3], Some(vec![0, 1]));
    let ty = enumerated(Datatype::Int8, &lists).unwrap();
    assert!(ty.is_dictionary());
    lists.cell_val_num = CellValNum::Fixed(3);
    lists.offsets = None;
    assert!(enumerated(Datatype::Int8, &lists).unwrap().is_dictionary());
}

fn schema(dimensions: Vec<Dimension>, attributes: Vec<Attribute>) -> ArraySchema {
    ArraySchema {
        version: FormatVersion::known(22),
        array_type: ArrayType::Sparse,
        tile_order: Layout::RowMajor,
        cell_order: Layout::RowMajor,
        capacity: 10,
        allows_duplicates: false,
        coords_filters: FilterList::default(),
        offsets_filters: FilterList::default(),
        validity_filters: FilterList::default(),
        dimensions,
        attributes,
        labels: Vec::new(),
        enumerations: vec![EnumerationRef {
            name: "e".into(),
            file: "f".into(),
        }],
        current_domain: None,
    }
}

fn named(mut attribute: Attribute, name: &str) -> Attribute {
    attribute.name = name.into();
    attribute
}

#[test]
fn the_arrow_schema_names_its_fields_and_sets_their_metadata() {
    let mut anonymous = dimension(Datatype::Int32, ONE);
    anonymous.name = String::new();
    let mut colour = named(attribute(Datatype::Int8, ONE), "colour");
    colour.enumeration = Some("e".into());
    let schema = schema(
        vec![dimension(Datatype::DateTimeDay, ONE), anonymous],
        vec![
            named(attribute(Datatype::GeomWkb, CellValNum::Var), "shape"),
            named(attribute(Datatype::Int8, ONE), ""),
            named(attribute(Datatype::Int8, ONE), "attr"),
            colour,
        ],
    );
    let colours = enumeration(Datatype::StringUtf8, b"ab", Some(vec![0, 1]));
    let enumerations = HashMap::from([("e".to_owned(), Ok(Arc::new(colours)))]);
    let (arrow, types) = arrow_schema(&schema, &enumerations, &TypeOptions::default()).unwrap();
    let names: Vec<&str> = arrow.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["d", "__dim_1", "shape", "attr_1", "attr", "colour"]);
    assert_eq!(types.len(), 6);
    for (field, ty) in arrow.fields().iter().zip(&types) {
        assert_eq!(
            (field.data_type(), field.is_nullable()),
            (ty.data_type(), ty.nullable())
        );
        assert_eq!(field.metadata()["tiledb.datatype"], ty.datatype().name());
    }
    assert_eq!(arrow.field(5).metadata()["tiledb.enumeration"], "e");
    assert_eq!(arrow.field(0).metadata()["tiledb.role"], "dimension");
    assert_eq!(arrow.field(2).metadata()["tiledb.role"], "attribute");
    assert_eq!(
        arrow.field(2).metadata()["ARROW:extension:name"],
        "geoarrow.wkb"
    );
    assert!(!arrow.field(0).is_nullable());
    assert!(arrow.field(5).is_nullable());
}

#[test]
fn names_that_repeat_are_refused() {
    let twice = schema(
        vec![dimension(Datatype::Int32, ONE)],
        vec![named(attribute(Datatype::Int8, ONE), "d")],
    );
    let error = arrow_schema(&twice, &HashMap::new(), &TypeOptions::default()).unwrap_err();
    assert!(error.message().contains("\"d\""), "{error}");
    let anonymous = schema(
        vec![dimension(Datatype::Int32, ONE)],
        vec![
            named(attribute(Datatype::Int8, ONE), ""),
            named(attribute(Datatype::Int8, ONE), ""),
        ],
    );
    assert_eq!(column_names(&anonymous).unwrap(), ["d", "attr", "attr_1"]);
}

fn label(name: &str, dimension: u32, datatype: Datatype, external: bool) -> DimensionLabel {
    DimensionLabel {
        dimension,
        name: name.into(),
        relative: true,
        uri: "__labels/l0".into(),
        attribute: "label".into(),
        order: DataOrder::Increasing,
        datatype,
        cell_val_num: ONE,
        external,
        problem: None,
    }
}

#[test]
fn labels_are_columns_of_their_dimension() {
    let mut anonymous = dimension(Datatype::Int32, ONE);
    anonymous.name = String::new();
    let mut schema = schema(
        vec![dimension(Datatype::Int32, ONE), anonymous],
        vec![named(attribute(Datatype::Int8, ONE), "")],
    );
    schema.labels = vec![
        label("attr", 0, Datatype::Float32, false),
        label("far", 1, Datatype::Int8, true),
        label("day", 1, Datatype::DateTimeDay, false),
    ];
    // An attribute without a name does not take the name of a label.
    assert_eq!(column_names(&schema).unwrap(), ["d", "__dim_1", "attr_1"]);
    let options = TypeOptions::default();
    let expected = [
        ("attr", DataType::Float32, false, "FLOAT32", "d"),
        ("far", DataType::Int8, true, "INT8", "__dim_1"),
        ("day", DataType::Date32, true, "DATETIME_DAY", "__dim_1"),
    ];
    for (label, (name, data_type, nullable, datatype, dimension)) in
        schema.labels.iter().zip(expected)
    {
        let (field, ty) = label_field(&schema, label, &options).unwrap();
        let found = (
            field.name().as_str(),
            field.data_type(),
            field.is_nullable(),
        );
        assert_eq!(found, (name, &data_type, nullable));
        assert_eq!((ty.data_type(), ty.nullable()), (&data_type, nullable));
        assert_eq!(field.metadata()["tiledb.role"], "label");
        assert_eq!(field.metadata()["tiledb.datatype"], datatype);
        assert_eq!(field.metadata()["tiledb.dimension"], dimension);
    }
    let mut lost = label("lost", 2, Datatype::Int8, false);
    lost.problem = Some("there is no such dimension".into());
    let (field, ty) = label_field(&schema, &lost, &options).unwrap();
    assert_eq!(field.data_type(), &DataType::BinaryView);
    assert!(field.metadata()["tiledb.unreadable"].contains("no such dimension"));
    assert!(
        ty.check_readable()
            .unwrap_err()
            .to_string()
            .contains("label lost")
    );
}
