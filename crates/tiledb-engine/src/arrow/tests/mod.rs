//! Every type of the table, at its limits. Expected values come from first principles.

mod cells;
mod columns;
mod values;

use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;

use super::*;
use crate::error::Result;
use crate::format::datatype::Datatype;
use crate::format::filter_list::FilterList;
use crate::format::schema::{Attribute, CellValNum, DataOrder, Dimension};

const ONE: CellValNum = CellValNum::Fixed(1);

fn attribute(datatype: Datatype, cell_val_num: CellValNum) -> Attribute {
    Attribute {
        name: "a".into(),
        datatype,
        cell_val_num,
        filters: FilterList::default(),
        fill_value: datatype.default_fill(),
        nullable: false,
        fill_valid: false,
        order: DataOrder::Unordered,
        enumeration: None,
        problem: None,
    }
}

fn dimension(datatype: Datatype, cell_val_num: CellValNum) -> Dimension {
    Dimension {
        name: "d".into(),
        datatype,
        cell_val_num,
        filters: FilterList::default(),
        domain: None,
        extent: None,
    }
}

fn with(options: TypeOptions, datatype: Datatype, cell_val_num: CellValNum) -> ColumnType {
    ColumnType::of_attribute(&attribute(datatype, cell_val_num), None, &options).unwrap()
}

fn ty(datatype: Datatype, cell_val_num: CellValNum) -> ColumnType {
    with(TypeOptions::default(), datatype, cell_val_num)
}

fn bytes(bytes: &[u8]) -> TileBuffer {
    TileBuffer::copy_of(bytes).unwrap()
}

fn fixed(ty: &ColumnType, data: &[u8], nulls: Option<Vec<bool>>) -> Result<ArrayRef> {
    ty.to_array(UnfilteredCells {
        len: data.len() / ty.cell_bytes().unwrap(),
        data: CellData::Fixed(bytes(data)),
        nulls: nulls.map(NullBuffer::from),
    })
}

fn i64s(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn var(ty: &ColumnType, starts: &[u64], data: &[u8], nulls: Option<Vec<bool>>) -> Result<ArrayRef> {
    let mut offsets: Vec<u8> = starts
        .iter()
        .flat_map(|v| v.to_ne_bytes_for_test())
        .collect();
    // The unused slot is undefined.
    offsets.extend([0xEE; 8]);
    ty.to_array(UnfilteredCells {
        len: starts.len(),
        data: CellData::Var {
            offsets: bytes(&offsets),
            data: bytes(data),
        },
        nulls: nulls.map(NullBuffer::from),
    })
}

trait NativeBytes {
    fn to_ne_bytes_for_test(&self) -> [u8; 8];
}
impl NativeBytes for u64 {
    fn to_ne_bytes_for_test(&self) -> [u8; 8] {
        if cfg!(target_endian = "big") {
            self.swap_bytes().to_le_bytes()
        } else {
            self.to_le_bytes()
        }
    }
}
