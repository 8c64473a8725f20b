"""Rows as datasets of xarray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._errors import InvalidError, missing_extra
from ._query import Query

if TYPE_CHECKING:
    import numpy as _numpy
    import pyarrow as _pyarrow
    import xarray as _xarray


def grid_of(query: Query, dims: Sequence[str]) -> _xarray.Dataset:
    """The rows of a query as a dataset, if they are a grid: one row for each combination of the values of ``dims``."""
    try:
        import numpy
        import pyarrow  # noqa: F401
        import xarray
    except ImportError as error:
        raise missing_extra(error.name or "xarray", "xarray") from None
    from ._cells import column_values

    table = query.to_arrow()
    names = table.column_names
    if isinstance(dims, str) or not dims or len(set(dims)) != len(dims):
        raise InvalidError(f"dims is a list of columns, each of them once, not {dims!r}")
    for name in [*dims, *names]:
        if names.count(name) != 1:
            how_many = "no column is" if name not in names else "two columns are"
            raise InvalidError(f"{how_many} called {name!r}; the columns are {', '.join(names)}")
    values: list[Any] = []
    codes: list[Any] = []
    for name in dims:
        if table[name].null_count:
            raise InvalidError(f"the dimension {name} is NULL in a row: leave such rows out with WHERE {name} IS NOT NULL")
        found, code = numpy.unique(column_values(table[name]), return_inverse=True)
        values.append(found)
        codes.append(code.reshape(-1))
    shape = tuple(len(found) for found in values)
    places = _places(table, dims, values, codes, shape)
    coordinates = {name: found for name, found in zip(dims, values)}
    variables = {}
    for name in names:
        if name not in coordinates:
            column = column_values(table[name])
            cells = numpy.empty(places.shape, column.dtype)
            cells[places] = column
            variables[name] = (list(dims), cells.reshape(shape))
    return xarray.Dataset(variables, coordinates)


def _places(
    table: _pyarrow.Table, dims: Sequence[str], values: list[Any], codes: list[Any], shape: tuple[int, ...]
) -> _numpy.ndarray[Any, Any]:
    """The place of each row in the grid, in row-major order."""
    import math

    import numpy

    cells = math.prod(shape)
    rows = table.num_rows
    if rows == 0:
        return numpy.empty(0, numpy.int64)
    # So many rows can't fill the grid. The first gap is among the first cells, one more than there are rows.
    looked = min(cells, rows + 1)
    places = numpy.zeros(rows, numpy.int64)
    if cells > 2**62:
        raise InvalidError(f"the rows aren't a grid: {rows} rows have {' x '.join(map(str, shape))} combinations of {', '.join(dims)}")
    for code, size in zip(codes, shape):
        places = places * size + code
    counts = numpy.bincount(places[places < looked], minlength=looked)
    twice = numpy.flatnonzero(counts > 1)
    gaps = numpy.flatnonzero(counts == 0)
    for found, what in ((twice, "two rows are"), (gaps, "no row is")):
        if len(found):
            at = numpy.unravel_index(int(found[0]), shape)
            cell = ", ".join(f"{name} = {known[i]}" for name, known, i in zip(dims, values, at))
            raise InvalidError(
                f"the rows aren't a grid of {' x '.join(map(str, shape))} cells: {what} at {cell}. "
                "Select the rows of a box, or aggregate with GROUP BY"
            )
    return places
