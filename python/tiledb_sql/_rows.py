"""Rows of queries as arrays of NumPy."""

from __future__ import annotations

from typing import Any

from ._errors import missing_extra
from ._query import Query


def numpy_columns(query: Query) -> dict[str, Any]:
    """One array for each column, with a mask if the column may be NULL."""
    try:
        import numpy
        import pyarrow.compute
    except ImportError:
        raise missing_extra("numpy", "numpy") from None
    table = query.to_arrow()
    found = {}
    for field, column in zip(table.schema, table.columns):
        if pyarrow.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pyarrow.types.is_time(column.type):
            # Times of day are differences, as in TileDB-Py. Python's have no nanoseconds.
            number = pyarrow.int32() if column.type.bit_width == 32 else pyarrow.int64()
            column = column.cast(number).cast(pyarrow.int64()).cast(pyarrow.duration(column.type.unit))
        if not field.nullable or pyarrow.types.is_nested(column.type):
            found[field.name] = column.to_numpy()
            continue
        mask = pyarrow.compute.is_null(column).to_numpy()
        values = column
        is_text = pyarrow.types.is_string(column.type) or pyarrow.types.is_binary(column.type)
        if column.null_count and not is_text and not pyarrow.types.is_fixed_size_binary(column.type):
            # Dates and some times are numbers of 32 bits.
            number = pyarrow.int32() if column.type.bit_width == 32 else pyarrow.int64()
            values = column.fill_null(pyarrow.scalar(0, number).cast(column.type))
        found[field.name] = numpy.ma.MaskedArray(values.to_numpy(), mask=mask)
    return found


__all__ = ["numpy_columns"]
