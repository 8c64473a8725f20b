"""Datasets of xarray as groups of dense arrays."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._array import Array, Group
from ._errors import InvalidError, missing_extra
from ._layout import AXIS_OF_SCALARS, COORDINATES, attribute_name, metadata_key
from ._text import literal_in_sql, name_in_sql, text_in_sql

if TYPE_CHECKING:
    import pyarrow as _pyarrow
    import xarray as _xarray

    from ._session import Session

# Numbers the names of tables that only create arrays, which threads of a session must not share.
_created = itertools.count()

_SQL_TYPES = {
    "int8": "TINYINT NOT NULL",
    "int16": "SMALLINT NOT NULL",
    "int32": "INT NOT NULL",
    "int64": "BIGINT NOT NULL",
    "uint8": "TINYINT UNSIGNED NOT NULL",
    "uint16": "SMALLINT UNSIGNED NOT NULL",
    "uint32": "INT UNSIGNED NOT NULL",
    "uint64": "BIGINT UNSIGNED NOT NULL",
    "float32": "REAL NOT NULL",
    "float64": "DOUBLE NOT NULL",
    "bool": "BOOLEAN NOT NULL",
    # NaT is NULL.
    "datetime64[s]": "TIMESTAMP(0)",
    "datetime64[ms]": "TIMESTAMP(3)",
    "datetime64[us]": "TIMESTAMP(6)",
    "datetime64[ns]": "TIMESTAMP(9)",
}


def from_xarray(
    data: _xarray.Dataset | _xarray.DataArray,
    uri: str | os.PathLike[str],
    tile: Mapping[str, int] | None = None,
    session: Session | None = None,
) -> Group:
    """Writes a dataset as a new group of dense arrays, which ``xarray.open_dataset(uri, engine="tiledb_sql")`` opens.

    Variables with the same dimensions are attributes of one array, and each coordinate has an array of its own. ``tile`` gives the extents
    of tiles by dimension; the default is the chunks of the data, or what fits. Chunks are computed one after another.
    """
    try:
        import numpy  # noqa: F401
        import pyarrow  # noqa: F401
        import xarray
    except ImportError as error:
        raise missing_extra(error.name or "xarray", "xarray") from None
    if session is None:
        from ._session import _shared_session

        session = _shared_session()
    if isinstance(data, xarray.DataArray):
        data = data.to_dataset(name=data.name or "data")
    where = os.fspath(uri).rstrip("/")
    arrays = [_ArrayOfVariables(data, name, variables, tile or {}) for name, variables in _layout(data)]
    session.sql(f"SELECT * FROM tiledb_create_group({text_in_sql(where)})")
    coordinates = "\n".join(str(name) for name in data.coords)
    _set_metadata(session, where, dict(data.attrs) | ({COORDINATES: coordinates} if coordinates else {}))
    for array in arrays:
        array.write(session, f"{where}/{array.name}")
        session.sql(f"SELECT * FROM tiledb_add_member({text_in_sql(where)}, {text_in_sql(array.name)}, name => {text_in_sql(array.name)})")
    opened = session.open(where)
    assert isinstance(opened, Group)
    return opened


def _layout(data: _xarray.Dataset) -> list[tuple[str, list[str]]]:
    """The arrays of a dataset: their names, and their variables."""
    sets: dict[tuple[Any, ...], list[str]] = {}
    arrays: list[tuple[str, list[str]]] = []
    for name, variable in data.variables.items():
        if not isinstance(name, str) or not all(isinstance(dim, str) for dim in variable.dims):
            raise InvalidError(f"the variable {name!r} or one of its dimensions has a name that isn't text: rename it")
        if "/" in name:
            raise InvalidError(f"the variable {name!r} has a slash in its name: rename it")
        if name in data.coords:
            arrays.append((name, [name]))
        else:
            sets.setdefault(tuple(variable.dims), []).append(name)
    taken = {name for name, _ in arrays}
    for dims, variables in sets.items():
        wanted = variables[0] if len(variables) == 1 else "_".join(dims) or "scalars"
        while wanted in taken:
            wanted += "_"
        taken.add(wanted)
        arrays.append((wanted, variables))
    return arrays


class _ArrayOfVariables:
    """The dense array that holds variables of the same dimensions."""

    def __init__(self, data: _xarray.Dataset, name: str, variables: list[str], tile: Mapping[str, int]) -> None:
        self.name = name
        self._variables = {v: data.variables[v] for v in variables}
        first = self._variables[variables[0]]
        self._dims = tuple(str(dim) for dim in first.dims) or (AXIS_OF_SCALARS,)
        self._shape = first.shape or (1,)
        for dim, size in zip(self._dims, self._shape):
            if size == 0:
                raise InvalidError(f"the dimension {dim} has no coordinates, and arrays have at least one")
        extents: dict[Any, int] = {dim: sizes[0] for dim, sizes in first.chunksizes.items()}
        extents.update(tile)
        self._tile = {dim: min(extent, data.sizes[dim]) for dim, extent in extents.items() if dim in self._dims}
        self._kinds: dict[str, tuple[str, _pyarrow.DataType]] = {}
        for v, variable in self._variables.items():
            self._kinds[v] = _kind(v, variable)

    def write(self, session: Session, uri: str) -> None:
        """Creates the array, and writes its cells in one commit."""
        columns = [f"{name_in_sql(dim)} BIGINT NOT NULL" for dim in self._dims]
        columns += [f"{name_in_sql(attribute_name(v, self._dims))} {kind}" for v, (kind, _) in self._kinds.items()]
        options = {"array_type": "dense"}
        for dim, size in zip(self._dims, self._shape):
            options[f"dim.{dim}.domain"] = f"[0, {size - 1}]"
            if dim in self._tile:
                options[f"dim.{dim}.tile"] = str(self._tile[dim])
        table = f"xarray_variables_{next(_created)}"
        keys = ", ".join(map(name_in_sql, self._dims))
        chosen = ", ".join(text_in_sql("tiledb." + key) + " " + text_in_sql(value) for key, value in options.items())
        session.sql(
            f"CREATE EXTERNAL TABLE {table} ({', '.join(columns)}, PRIMARY KEY ({keys})) "
            f"STORED AS TILEDB LOCATION {text_in_sql(uri)} OPTIONS ({chosen})"
        )
        session.sql(f"DROP TABLE {table}")
        array = session.open(uri)
        assert isinstance(array, Array)
        extents = [int(dimension.extent or size) for dimension, size in zip(array.dims, self._shape)]
        array.append(self._rows(extents))
        attributes: dict[str, Any] = {}
        for v, variable in self._variables.items():
            attribute = attribute_name(v, self._dims)
            attributes |= {metadata_key(attribute, str(key)): value for key, value in variable.attrs.items()}
        _set_metadata(session, uri, attributes)

    def _rows(self, extents: list[int]) -> _pyarrow.RecordBatchReader:
        """The cells tile by tile, which is their order in the array."""
        import pyarrow

        fields = [pyarrow.field(dim, pyarrow.int64(), False) for dim in self._dims]
        fields += [pyarrow.field(attribute_name(v, self._dims), kind) for v, (_, kind) in self._kinds.items()]
        schema = pyarrow.schema(fields)
        return pyarrow.RecordBatchReader.from_batches(schema, self._tiles(schema, extents))

    def _tiles(self, schema: _pyarrow.Schema, extents: list[int]) -> Iterator[_pyarrow.RecordBatch]:
        import numpy
        import pyarrow

        starts = [range(0, size, extent) for size, extent in zip(self._shape, extents)]
        for corner in itertools.product(*starts):
            box = [(low, min(low + extent, size)) for low, extent, size in zip(corner, extents, self._shape)]
            shape = [high - low for low, high in box]
            columns = [
                numpy.broadcast_to(numpy.arange(low, high).reshape([-1 if i == axis else 1 for i in range(len(box))]), shape)
                for axis, (low, high) in enumerate(box)
            ]
            arrays = [pyarrow.array(column.reshape(-1)) for column in columns]
            for v, variable in self._variables.items():
                cells = variable[tuple(slice(low, high) for low, high in box)] if variable.dims else variable
                arrays.append(_arrow(cells.values, self._kinds[v][1], math.prod(shape)))
            yield pyarrow.record_batch(arrays, schema=schema)


def _kind(name: str, variable: _xarray.Variable) -> tuple[str, _pyarrow.DataType]:
    """The type of a variable in SQL and in Arrow."""
    import pyarrow

    dtype = variable.dtype
    if str(dtype) in _SQL_TYPES:
        return _SQL_TYPES[str(dtype)], pyarrow.from_numpy_dtype(dtype)
    if dtype.kind == "U" or dtype.kind == "T":
        return "VARCHAR NOT NULL" if dtype.kind == "U" else "VARCHAR", pyarrow.string()
    if dtype.kind == "S":
        return "BYTEA NOT NULL", pyarrow.binary()
    if dtype.kind == "O":
        found = pyarrow.array(variable.values.reshape(-1), from_pandas=True).type
        if pyarrow.types.is_string(found) or pyarrow.types.is_null(found):
            return "VARCHAR", pyarrow.string()
        if pyarrow.types.is_binary(found):
            return "BYTEA", pyarrow.binary()
        if pyarrow.types.is_boolean(found):
            return "BOOLEAN", pyarrow.bool_()
    raise InvalidError(
        f"the variable {name} has the type {dtype}, which arrays don't have: convert it, for example with astype('int64'), or drop it"
    )


def _arrow(values: Any, kind: _pyarrow.DataType, cells: int) -> _pyarrow.Array:
    import numpy
    import pyarrow

    flat = numpy.asarray(values).reshape(-1)
    assert len(flat) == cells
    if flat.dtype.kind == "T":
        flat = flat.astype(object)
    # NaN of a float column stays NaN.
    return pyarrow.array(flat, kind, from_pandas=flat.dtype.kind in "OM")


def _set_metadata(session: Session, uri: str, metadata: Mapping[Any, Any]) -> None:
    if metadata:
        pairs = ", ".join(f"{text_in_sql(str(key))}: {_value(str(key), value)}" for key, value in metadata.items())
        session.sql(f"SELECT * FROM tiledb_set_metadata({text_in_sql(uri)}, {{{pairs}}})")


def _value(key: str, value: Any) -> str:
    """A value of metadata in SQL: a scalar, or several numbers."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return f"CAST({text_in_sql(str(value))} AS DOUBLE)"
    if isinstance(value, (list, tuple)) and value:
        if len(value) == 1:
            return _value(key, value[0])
        if all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in value):
            return f"[{', '.join(_value(key, number) for number in value)}]"
        raise InvalidError(f"the attribute {key} is a list of other things than numbers: join them into a text")
    try:
        return literal_in_sql(value)
    except InvalidError:
        raise InvalidError(
            f"the attribute {key} of the type {type(value).__name__} can't be metadata: make it a text or a number, or delete it"
        ) from None
