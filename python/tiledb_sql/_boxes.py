"""Boxes of dense arrays, as arrays of NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _engine
from ._errors import InvalidError, missing_extra
from ._indexing import range_of
from ._rows import numpy_columns
from ._text import name_in_sql

if TYPE_CHECKING:
    import numpy as _numpy

    from ._array import Array, Attribute

# The NumPy types of TileDB's types of numbers. Those of times follow from their names.
_NUMBERS = {f"{kind}{bits}": f"{kind.lower()}{bits}" for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)}
_NUMBERS |= {"FLOAT32": "float32", "FLOAT64": "float64"}

_UNITS = {"YEAR": "Y", "MONTH": "M", "WEEK": "W", "DAY": "D", "HR": "h", "MIN": "m", "SEC": "s"}
_UNITS |= {unit: unit.lower() for unit in ("MS", "US", "NS", "PS", "FS", "AS")}

# About how many cells are given to the engine at a time.
_CELLS_AT_ONCE = 1 << 18


class DenseRange:
    """The coordinates that a key selects, first and last of each dimension, and the shape of the cells."""

    def __init__(self, array: Array, keys: Sequence[Any], included: bool) -> None:
        self.ranges: list[tuple[int, int]] = []
        # With and without the dimensions that a single coordinate was given for.
        self.sides: list[int] = []
        self.shape: list[int] = []
        for dimension, (low, high), key in zip(array.dims, array._domain(), keys):
            first, last, is_one = range_of(dimension.name, low, high, key, included)
            side = max(last - first + 1, 0)
            self.ranges.append((first, last))
            self.sides.append(side)
            if not is_one:
                self.shape.append(side)


def read(array: Array, box: DenseRange, columns: list[str]) -> dict[str, Any]:
    """The cells of a box, one array for each attribute."""
    try:
        import numpy
    except ImportError:
        raise missing_extra("numpy", "numpy") from None
    found: dict[str, Any] = {}
    targets: list[tuple[str, Any, Any | None]] = []
    attributes = {attribute.name: attribute for attribute in array.attrs}
    for name in columns:
        dtype = _dtype(attributes[name])
        if dtype is not None:
            values = numpy.empty(box.sides, dtype)
            mask = numpy.zeros(box.sides, bool) if attributes[name].nullable else None
            targets.append((name, values, mask))
    if targets and 0 not in box.sides:
        ranges = [(d.name, str(first), str(last)) for d, (first, last) in zip(array.dims, box.ranges)]
        _engine.read_box(array._session._engine, array.uri, array._at, ranges, targets)
    for name, values, mask in targets:
        found[name] = values if mask is None else numpy.ma.MaskedArray(values, mask=mask)
    rest = [name for name in columns if name not in found]
    if rest:
        found |= _read_rows(array, box, rest)
    return {name: found[name].reshape(box.shape) for name in columns}


def _dtype(attribute: Attribute) -> str | None:
    """The NumPy type of an attribute whose stored values are those of NumPy."""
    if attribute.enumeration is not None or attribute.values_per_cell != 1:
        return None
    number = _NUMBERS.get(attribute.type)
    if number is not None:
        return number
    kind, _, unit = attribute.type.partition("_")
    if unit not in _UNITS or kind not in ("DATETIME", "TIME"):
        return None
    return f"{'datetime64' if kind == 'DATETIME' else 'timedelta64'}[{_UNITS[unit]}]"


def _read_rows(array: Array, box: DenseRange, columns: list[str]) -> dict[str, Any]:
    """Text and enumerated values."""
    conditions: list[str] = []
    params: list[int] = []
    for dimension, (first, last) in zip(array.dims, box.ranges):
        conditions.append(f"{name_in_sql(dimension.name)} BETWEEN ${len(params) + 1} AND ${len(params) + 2}")
        params += [first, last]
    order = ", ".join(name_in_sql(dimension.name) for dimension in array.dims)
    cells = array._call("tiledb_scan", {"empty_cells": "'domain'"})
    shown = ", ".join(map(name_in_sql, columns))
    query = array._session.sql(f"SELECT {shown} FROM {cells} WHERE {' AND '.join(conditions)} ORDER BY {order}", params)
    return numpy_columns(query)


def write(array: Array, box: DenseRange, values: Any) -> None:
    """Writes the cells of a box in one commit: one array, or one for each attribute in a mapping."""
    try:
        import numpy  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        raise missing_extra("numpy", "numpy") from None
    names = [attribute.name for attribute in array.attrs]
    if not isinstance(values, Mapping):
        if len(names) != 1:
            raise InvalidError(f"{array.uri} has the attributes {', '.join(names)}: assign a dict with an array for each of them")
        values = {names[0]: values}
    if set(values) != set(names):
        raise InvalidError(f"values were given for {', '.join(map(str, values)) or 'nothing'}, but {array.uri} has the attributes {', '.join(names)}")
    columns = {name: _fitting(array.uri, array.attrs[at], values[name], box) for at, name in enumerate(names)}
    if 0 in box.sides:
        return
    array.append(_batches(array, box, columns))


def _fitting(uri: str, attribute: Attribute, values: Any, box: DenseRange) -> _numpy.ndarray[Any, Any]:
    """The values of one attribute in the shape of the box, if they have it or are a single one, and fit the type."""
    import numpy

    given: _numpy.ndarray[Any, Any] = numpy.asanyarray(values)
    if given.shape == ():
        given = numpy.broadcast_to(given, box.shape)
    if list(given.shape) != box.shape:
        raise InvalidError(
            f"the values of {attribute.name} have the shape {given.shape}, but the cells of {uri} have the shape {tuple(box.shape)}"
        )
    dtype = _NUMBERS.get(attribute.type) if attribute.enumeration is None and attribute.values_per_cell == 1 else None
    # An array of objects may hold None, and the engine checks what it holds.
    if dtype is not None and given.dtype != object:
        is_integer = numpy.dtype(dtype).kind in "iu"
        if given.dtype.kind not in ("iub" if is_integer else "iufb"):
            raise InvalidError(f"the values of {attribute.name} have the type {given.dtype}, but the attribute has the type {dtype}")
        # What a mask hides is NULL, and may be any number.
        held = given.compressed() if isinstance(given, numpy.ma.MaskedArray) else given
        limits = numpy.iinfo(dtype) if is_integer and held.size and given.dtype.kind != "b" else None
        if limits is not None and (int(held.min()) < limits.min or int(held.max()) > limits.max):
            raise InvalidError(
                f"the values of {attribute.name} lie between {held.min()} and {held.max()}, which the type {dtype} doesn't hold"
            )
        given = given.astype(dtype, copy=False)
    return given.reshape(box.sides)


def _batches(array: Array, box: DenseRange, columns: Mapping[str, _numpy.ndarray[Any, Any]]) -> Iterator[Any]:
    """The cells tile by tile, so that each tile is complete when the next one begins."""
    import numpy
    import pyarrow

    # A tile may hold nothing but None, so all objects of a column decide their type together.
    types = {name: _arrow(values.ravel()).type for name, values in columns.items() if values.dtype == object}
    steps = []
    for dimension, (low, _), (first, last) in zip(array.dims, array._domain(whole=True), box.ranges):
        extent = max(int(dimension.extent or 1), 1)
        # The bounds of tiles within the box.
        begin = low + (first - low) // extent * extent
        bounds = [first, *range(begin + extent, last + 1, extent), last + 1]
        steps.append(list(zip(bounds, bounds[1:])))
    for tile in itertools.product(*steps):
        for part in _parts(tile):
            sides = [end - start for start, end in part]
            slices = tuple(slice(start - first, end - first) for (start, end), (first, _) in zip(part, box.ranges))
            data: dict[str, Any] = {}
            for at, (dimension, (start, end)) in enumerate(zip(array.dims, part)):
                dtype = _NUMBERS[dimension.type]
                axis = numpy.fromiter(range(start, end), dtype, end - start)
                shape = [1] * len(sides)
                shape[at] = sides[at]
                data[dimension.name] = numpy.broadcast_to(axis.reshape(shape), sides).ravel()
            for name, values in columns.items():
                data[name] = _arrow(values[slices].ravel(), types.get(name))
            yield pyarrow.RecordBatch.from_pydict(data)


def _arrow(values: _numpy.ndarray[Any, Any], kind: Any = None) -> Any:
    import numpy
    import pyarrow

    mask = numpy.ma.getmaskarray(values) if isinstance(values, numpy.ma.MaskedArray) else None
    return pyarrow.array(numpy.ma.getdata(values), kind, mask=mask)


def _parts(tile: tuple[tuple[int, int], ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    """A tile, in parts of not too many cells along its first dimension."""
    (start, end), *others = tile
    across = 1
    for low, high in others:
        across *= high - low
    step = max(_CELLS_AT_ONCE // across, 1)
    for first in range(start, end, step):
        yield ((first, min(first + step, end)), *others)


__all__ = ["DenseRange", "read", "write"]
