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
from ._axes import Axis, axes_of
from ._cells import column_values, dtype_of, without_mask
from ._errors import InvalidError
from ._layout import AXIS_OF_SCALARS, COORDINATES, attribute_metadata, variable_name
from ._metadata import Metadata
from ._recipes import reopen
from ._text import name_in_sql

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
        self._axes: dict[str, tuple[Axis, str]] = {}
        self.variables: dict[Hashable, xarray.Variable] = {}
        self.coordinates: list[str] = []

    def add(self, array: Array, at: Any, dropped: set[str]) -> None:
        """Adds the attributes of an array as variables."""
        axes = axes_of(array)
        dims = [axis.name for axis in axes]
        for own in axes:
            known, elsewhere = self._axes.setdefault(own.name, (own, array.uri))
            if known != own:
                raise InvalidError(
                    f"the arrays of {self._uri} don't share the dimension {own.name}: it goes from {known.low} to {known.high} in "
                    f"{elsewhere}, and from {own.low} to {own.high} in {array.uri}. Open each of them alone"
                )
        plain, of_variables = attribute_metadata(dict(array.meta), [attribute.name for attribute in array.attrs])
        if self._uri == array.uri:
            # This is the metadata of the dataset.
            plain = {}
        schema = _schema(array)
        extents = {d.name: _extent(d.extent) for d in array.dims}
        chunks = {axis.name: min(extents[axis.name] or axis.size, max(axis.size, 1)) for axis in axes}
        for attribute in array.attrs:
            name = variable_name(attribute.name)
            if name in dropped or attribute.name in dropped:
                continue
            if name in self.variables:
                raise InvalidError(f"two arrays of {self._uri} have a variable {name}: leave it out with drop_variables")
            field = schema.field(attribute.name)
            cells = TileDbCells(array, at, attribute.name, axes, dtype_of(field.type, field.nullable))
            attrs = plain | of_variables.get(name, {})
            encoding = {"preferred_chunks": chunks}
            if dims == [AXIS_OF_SCALARS]:
                self.variables[name] = xarray.Variable((), cells._read((0,)), attrs)
                continue
            self.variables[name] = xarray.Variable(dims, indexing.LazilyIndexedArray(cells), attrs, encoding)
        self._add_coordinates(array, axes, dropped)

    def _add_coordinates(self, array: Array, axes: list[Axis], dropped: set[str]) -> None:
        """Adds labels, times, and the coordinates of dimensions that don't begin with 0."""
        for name, dimension in _labels(array):
            if name in dropped or name in self.variables:
                continue
            values = _label_values(array, name, dimension, axes)
            self.variables[name] = xarray.Variable((dimension,), values)
            self.coordinates.append(name)
        for axis in axes:
            if axis.name in dropped or axis.name in self.variables:
                continue
            coordinates = axis.coordinates()
            if coordinates is not None:
                self.variables[axis.name] = xarray.Variable((axis.name,), coordinates)


class TileDbCells(BackendArray):
    """The cells of one attribute, which are read when they are indexed. It can be pickled, without its session."""

    def __init__(self, array: Array, at: Any, attribute: str, axes: list[Axis], dtype: numpy.dtype[Any]) -> None:
        self._array: Array | None = array
        self._process = os.getpid()
        self._place = (array.uri, at)
        self._attribute = attribute
        self._axes = axes
        self.shape = tuple(axis.size for axis in axes)
        self.dtype = dtype

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_array": None}

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        box: list[range] = []
        steps: list[Any] = []
        for k, size in zip(key, self.shape):
            if isinstance(k, slice):
                taken = range(*k.indices(size))
                ends = (min(taken[0], taken[-1]), max(taken[0], taken[-1]) + 1) if taken else (0, 0)
                box.append(range(*ends))
                steps.append(slice(None, None, taken.step))
            else:
                box.append(range(int(k), int(k) + 1))
                steps.append(0)
        shape = tuple(map(len, box))
        if 0 in shape:
            return numpy.empty(shape, self.dtype)[tuple(steps)]
        array = self._opened()
        if all(axis.unit is None for axis in self._axes):
            coordinates = tuple(slice(axis.low + p.start, axis.low + p.stop) for axis, p in zip(self._axes, box))
            cells = without_mask(array[self._attribute][coordinates], self.dtype)
        else:
            places = [(axis, p.start, p.stop - 1) for axis, p in zip(self._axes, box)]
            cells = without_mask(_column(array, self._attribute, places).reshape(shape), self.dtype)
        return cells[tuple(steps)]

    def _opened(self) -> Array:
        if self._array is None or self._process != os.getpid():
            self._array, self._process = reopen(*self._place), os.getpid()
        return self._array


def _schema(array: Array) -> Any:
    import pyarrow

    return pyarrow.schema(array.scan([attribute.name for attribute in array.attrs]))


def _labels(array: Array) -> list[tuple[str, str]]:
    """The dimension labels that can be read, with their dimensions."""
    found = array._describe("tiledb_schema", "name, label_dimension", "WHERE role = 'label' AND problem IS NULL ORDER BY position")
    return [(name, dimension) for name, dimension in found if name is not None]


def _label_values(array: Array, label: str, dimension: str, axes: list[Axis]) -> Any:
    """The values of a label: those of the first line of cells along its dimension."""
    return _column(array, label, [(axis, 0, axis.size - 1 if axis.name == dimension else 0) for axis in axes])


def _column(array: Array, column: str, places: list[tuple[Axis, int, int]]) -> Any:
    """The values of a column in a box, in row-major order. Ends are included."""
    conditions: list[str] = []
    params: list[Any] = []
    for axis, first, last in places:
        conditions.append(f"{name_in_sql(axis.name)} BETWEEN ${len(params) + 1} AND ${len(params) + 2}")
        params += [axis.at(first), axis.at(last)]
    cells = array._call("tiledb_scan", {"empty_cells": "'domain'"})
    order = ", ".join(name_in_sql(axis.name) for axis, _, _ in places)
    query = array._session.sql(
        f"SELECT {name_in_sql(column)} FROM {cells} WHERE {' AND '.join(conditions)} ORDER BY {order}", params
    )
    return column_values(query.to_arrow().column(0))


def _extent(shown: str | None) -> int | None:
    """The number of coordinates in a tile. Some have a unit, as in ``30 days``."""
    number = (shown or "").split(" ")[0]
    return int(number) if number.isdigit() else None


__all__ = ["TileDbBackend", "TileDbCells", "open_dataset"]
