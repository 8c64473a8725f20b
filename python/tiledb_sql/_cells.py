"""Cells as arrays of NumPy without masks, as xarray has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    import pyarrow as _pyarrow

_Values = numpy.ndarray[Any, Any]


def dtype_of(kind: _pyarrow.DataType, nullable: bool) -> numpy.dtype[Any]:
    """The type of the values of an Arrow column. Integers that may be NULL are floats, and NULL is NaN."""
    import pyarrow

    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    if pyarrow.types.is_time(kind):
        return numpy.dtype(f"timedelta64[{kind.unit}]")
    dtype: numpy.dtype[Any] = pyarrow.array([], kind).to_numpy(zero_copy_only=False).dtype
    # xarray has no days.
    if dtype == "datetime64[D]":
        return numpy.dtype("datetime64[s]")
    if not nullable or dtype.kind in "fMmO":
        return dtype
    return numpy.dtype("object" if dtype.kind == "b" else "float64")


def without_mask(values: _Values, dtype: numpy.dtype[Any]) -> _Values:
    """Values of a type of :func:`dtype_of`, with NaN, NaT or None where a mask hides them."""
    mask = numpy.ma.getmask(values) if isinstance(values, numpy.ma.MaskedArray) else numpy.ma.nomask
    plain: _Values = numpy.asarray(numpy.ma.getdata(values)).astype(dtype, copy=mask is not numpy.ma.nomask)
    if mask is not numpy.ma.nomask:
        plain[mask] = {"f": numpy.nan, "M": numpy.datetime64("NaT"), "m": numpy.timedelta64("NaT")}.get(dtype.kind)
    return plain


def column_values(column: _pyarrow.ChunkedArray, nullable: bool = True) -> _Values:
    """The values of an Arrow column."""
    import pyarrow
    import pyarrow.compute

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pyarrow.types.is_time(column.type):
        # Times of day are differences. Python's have no nanoseconds.
        number = pyarrow.int32() if column.type.bit_width == 32 else pyarrow.int64()
        column = column.cast(number).cast(pyarrow.int64()).cast(pyarrow.duration(column.type.unit))
    dtype = dtype_of(column.type, nullable and column.null_count > 0)
    if pyarrow.types.is_boolean(column.type) and column.null_count:
        return numpy.array(column.to_pylist(), dtype=object)
    # Integers with NULL become floats here, and dates without one stay dates.
    return numpy.asarray(column.to_numpy()).astype(dtype, copy=False)
