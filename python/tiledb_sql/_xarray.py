"""Dense arrays, and groups of them, as datasets of xarray: ``xarray.open_dataset(uri, engine="tiledb_sql")``.

This module needs xarray, which imports it by its entry point.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable
from typing import Any

import numpy
import xarray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from ._array import Array, Group
from ._cells import column_values, dtype_of, without_mask
from ._errors import InvalidError
from ._layout import AXIS_OF_SCALARS, COORDINATES, attribute_metadata, variable_name
from ._metadata import Metadata
from ._recipes import reopen
from ._text import name_in_sql

# Longer dimensions are those of arrays that grow. Their datasets are the box around the written cells.
_LONGEST = 2**27


class TileDbBackend(BackendEntrypoint):
    """Opens a dense array, or a group whose dense arrays share their dimensions."""

    description = "Dense TileDB arrays, and groups of them"
    url = "https://github.com/datafusion-contrib/datafusion-tiledb/blob/main/docs/python.md"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "at")

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        at: Any = None,
    ) -> xarray.Dataset:
        """The array or the group as it is, or as of a time."""
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        return open_dataset(os.fspath(filename_or_obj), at, dropped)

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether a path is that of an array or a group."""
        try:
            path = os.fspath(filename_or_obj)
        except TypeError:
            return False
        if not isinstance(path, str):
            return False
        if os.path.splitext(path.rstrip("/"))[1] in (".tdb", ".tiledb"):
            return True
        return any(os.path.exists(os.path.join(path, name)) for name in ("__schema", "__tiledb_group.tdb", "__group"))


def open_dataset(uri: str, at: Any, dropped: set[str]) -> xarray.Dataset:
    """The dataset of an array or a group."""
    from ._session import open

    opened = open(uri, at)
    if isinstance(opened, Array):
        if not opened.is_dense:
            raise InvalidError(f"{uri} is a sparse array, whose cells aren't a grid: read it with SQL, and use to_xarray(dims=…)")
        members = [opened]
        metadata = dict(opened.meta)
    else:
        found = (opened[path] for path in opened.members)
        members = [member for member in found if isinstance(member, Array) and member.is_dense]
        if not members:
            raise InvalidError(f"the group {uri} has no dense array; its members are {', '.join(opened.members) or 'none'}")
        metadata = group_metadata(opened)
    dataset = _Collected(uri)
    for member in members:
        dataset.add(member, at, dropped)
    names = str(metadata.pop(COORDINATES, "")).split("\n")
    made = xarray.Dataset(dataset.variables, attrs=attribute_metadata(metadata)[0])
    return made.set_coords([n for n in [*dataset.coordinates, *names] if n in made.variables])


def group_metadata(group: Group) -> dict[str, Any]:
    """The metadata of a group."""
    return dict(Metadata(_GroupPlace(group)))  # type: ignore[arg-type]


class _GroupPlace:
    """A group with the parts of an array that metadata need."""

    _call = Array._call
    _describe = Array._describe

    def __init__(self, group: Group) -> None:
        self._session = group._session
        self.uri = group.uri
        self._at = None


class _Collected:
    """The variables of the arrays of a dataset."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._ranges: dict[str, tuple[tuple[int, int], str]] = {}
        self.variables: dict[Hashable, xarray.Variable] = {}
        self.coordinates: list[str] = []

    def add(self, array: Array, at: Any, dropped: set[str]) -> None:
        """Adds the attributes of an array as variables."""
        ranges = _ranges(array)
        dims = [dimension.name for dimension in array.dims]
        for name, own in zip(dims, ranges):
            known, elsewhere = self._ranges.setdefault(name, (own, array.uri))
            if known != own:
                raise InvalidError(
                    f"the arrays of {self._uri} don't share the dimension {name}: it goes from {known[0]} to {known[1]} in {elsewhere}, "
                    f"and from {own[0]} to {own[1]} in {array.uri}. Open each of them alone"
                )
        plain, of_variables = attribute_metadata(dict(array.meta), [attribute.name for attribute in array.attrs])
        if self._uri == array.uri:
            # This is the metadata of the dataset.
            plain = {}
        schema = _schema(array)
        extents = {d.name: int(d.extent) for d in array.dims if d.extent is not None}
        shape = tuple(high - low + 1 for low, high in ranges)
        chunks = {d: min(extents.get(d, size), max(size, 1)) for d, size in zip(dims, shape)}
        for attribute in array.attrs:
            name = variable_name(attribute.name)
            if name in dropped or attribute.name in dropped:
                continue
            if name in self.variables:
                raise InvalidError(f"two arrays of {self._uri} have a variable {name}: leave it out with drop_variables")
            field = schema.field(attribute.name)
            cells = TileDbCells(array, at, attribute.name, ranges, dtype_of(field.type, attribute.nullable))
            attrs = plain | of_variables.get(name, {})
            encoding = {"preferred_chunks": chunks}
            if dims == [AXIS_OF_SCALARS]:
                self.variables[name] = xarray.Variable((), cells._read((0,)), attrs)
                continue
            self.variables[name] = xarray.Variable(dims, indexing.LazilyIndexedArray(cells), attrs, encoding)
        self._add_coordinates(array, ranges, dropped)

    def _add_coordinates(self, array: Array, ranges: list[tuple[int, int]], dropped: set[str]) -> None:
        """Adds labels, and the coordinates of dimensions that don't begin with 0."""
        for name, dimension in _labels(array):
            if name in dropped or name in self.variables:
                continue
            values = _label_values(array, name, dimension, ranges)
            self.variables[name] = xarray.Variable((dimension,), values)
            self.coordinates.append(name)
        for d, (low, high) in zip(array.dims, ranges):
            is_named = d.name in dropped or d.name in self.variables
            if low != 0 and high - low < _LONGEST and not is_named:
                self.variables[d.name] = xarray.Variable((d.name,), numpy.arange(low, high + 1))


class TileDbCells(BackendArray):
    """The cells of one attribute, which are read when they are indexed. It can be pickled, without its session."""

    def __init__(self, array: Array, at: Any, attribute: str, ranges: list[tuple[int, int]], dtype: numpy.dtype[Any]) -> None:
        self._array: Array | None = array
        self._process = os.getpid()
        self._place = (array.uri, at)
        self._attribute = attribute
        self._lows = [low for low, _ in ranges]
        self.shape = tuple(high - low + 1 for low, high in ranges)
        self.dtype = dtype

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_array": None}

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        box: list[Any] = []
        steps: list[slice] = []
        for k, low, size in zip(key, self._lows, self.shape):
            if isinstance(k, slice):
                taken = range(*k.indices(size))
                first, last = (0, 0) if not taken else (min(taken[0], taken[-1]), max(taken[0], taken[-1]) + 1)
                box.append(slice(low + first, low + last))
                steps.append(slice(None, None, taken.step))
            else:
                box.append(low + int(k))
        cells = self._opened()[self._attribute][tuple(box)]
        return without_mask(cells, self.dtype)[tuple(steps)]

    def _opened(self) -> Array:
        if self._array is None or self._process != os.getpid():
            self._array, self._process = reopen(*self._place), os.getpid()
        return self._array


def _ranges(array: Array) -> list[tuple[int, int]]:
    """The first and the last coordinate of each dimension."""
    found = array._describe(
        "tiledb_schema",
        "domain_low, domain_high, current_domain_low, current_domain_high",
        "WHERE role = 'dimension' ORDER BY position",
    )
    try:
        ranges = [(int(now_low or low), int(now_high or high)) for low, high, now_low, now_high in found]
    except (TypeError, ValueError):
        kinds = ", ".join(f"{d.name} {d.type}" for d in array.dims)
        raise InvalidError(
            f"{array.uri} has dimensions that aren't integers ({kinds}): read it with SQL, and use to_xarray(dims=…)"
        ) from None
    if all(high - low < _LONGEST for low, high in ranges):
        return ranges
    written = array.nonempty_domain
    if written is None:
        return [(low, low - 1) for low, _ in ranges]
    return [(int(low), int(high)) for low, high in written.values()]


def _schema(array: Array) -> Any:
    import pyarrow

    return pyarrow.schema(array.scan([attribute.name for attribute in array.attrs]))


def _labels(array: Array) -> list[tuple[str, str]]:
    """The dimension labels that can be read, with their dimensions."""
    found = array._describe("tiledb_schema", "name, label_dimension", "WHERE role = 'label' AND problem IS NULL ORDER BY position")
    return [(name, dimension) for name, dimension in found if name is not None]


def _label_values(array: Array, label: str, dimension: str, ranges: list[tuple[int, int]]) -> Any:
    """The values of a label: those of the first line of cells along its dimension."""
    conditions = ["true"]
    for d, (low, high) in zip(array.dims, ranges):
        last = high if d.name == dimension else low
        conditions.append(f"{name_in_sql(d.name)} BETWEEN {low} AND {last}")
    cells = array._call("tiledb_scan", {"empty_cells": "'domain'"})
    query = array._session.sql(
        f"SELECT {name_in_sql(label)} FROM {cells} WHERE {' AND '.join(conditions)} ORDER BY {name_in_sql(dimension)}"
    )
    return column_values(query.to_arrow().column(0))


__all__ = ["TileDbBackend", "TileDbCells", "open_dataset"]
