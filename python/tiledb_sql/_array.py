"""Arrays without SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _boxes, _engine
from ._border import check_version
from ._errors import Error, InvalidError
from ._indexing import check_integers, condition, expanded, is_array
from ._metadata import Metadata
from ._pickling import portable
from ._query import Query
from ._recipes import array_dataset
from ._rows import numpy_columns
from ._text import literal_in_sql, name_in_sql, text_in_sql, time_text

if TYPE_CHECKING:
    import anndata as _anndata
    import numpy as _numpy
    import polars as _polars
    import pyarrow.dataset as _dataset

    from ._session import Session


class Dimension(NamedTuple):
    """A dimension: its name, its TileDB type, its domain, the extent of its tiles and its current domain, as SQL shows them."""

    name: str
    type: str
    domain: tuple[str, str] | None
    extent: str | None
    current_domain: tuple[str, str] | None


class Attribute(NamedTuple):
    """An attribute: its name, its TileDB type, and what its cells may hold."""

    name: str
    type: str
    nullable: bool
    enumeration: str | None
    filters: str | None
    values_per_cell: int | None


class Array:
    """An array, as :func:`open` returns it. Each read sees the array as it is then, or as of the time that it was opened at.

    Indexes are coordinates, and ends are excluded, as in TileDB-Py; those of :attr:`loc` are included.

    >>> import tiledb_sql as ts
    >>> elevation = ts.open("./examples/data/elevation")
    >>> elevation.is_dense
    True
    >>> [dimension.name for dimension in elevation.dims]
    ['y', 'x']
    """

    def __init__(self, session: Session, uri: str, at: Any = None) -> None:
        self._session = session
        self.uri = uri
        self._at = None if at is None else time_text(at)
        #: What :func:`write` chose from the rows, as options with their values.
        self.choices: list[str] = []
        facts = self._describe("tiledb_array", "array_type")
        self.is_dense: bool = facts[0][0] == "dense"
        self.dims: list[Dimension] = []
        self.attrs: list[Attribute] = []
        for name, role, kind, low, high, extent, first, last, nullable, enumeration, filters, values in self._describe(
            "tiledb_schema",
            "name, role, type, domain_low, domain_high, extent, current_domain_low, current_domain_high, nullable, "
            "enumeration, filters, cell_val_num",
            "ORDER BY position",
        ):
            if role == "dimension":
                domain = None if low is None else (low, high)
                self.dims.append(Dimension(name, kind, domain, extent, None if first is None else (first, last)))
            elif role == "attribute":
                self.attrs.append(Attribute(name, kind, nullable, enumeration, filters, values))

    def __reduce__(self) -> tuple[Any, ...]:
        return Array, (self._session, portable(self.uri), self._at)

    def _call(self, function: str, options: Mapping[str, str] | None = None) -> str:
        arguments = [text_in_sql(self.uri)]
        if self._at is not None:
            arguments.append(f"timestamp => {text_in_sql(self._at)}")
        arguments += [f"{name} => {value}" for name, value in (options or {}).items()]
        return f"{function}({', '.join(arguments)})"

    def _describe(self, function: str, columns: str, rest: str = "") -> list[tuple[Any, ...]]:
        return self._session.sql(f"SELECT {columns} FROM {self._call(function)} {rest}").fetchall()

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of coordinates of each dimension, which must be integers; those of the current domain, if there is one."""
        return tuple(high - low + 1 for low, high in self._domain())

    def _domain(self, whole: bool = False) -> list[tuple[int, int]]:
        """The current domain, or the whole one."""
        found = []
        try:
            for dimension in self.dims:
                low, high = (None if whole else dimension.current_domain) or dimension.domain or ("", "")
                found.append((int(low), int(high)))
            return found
        except ValueError:
            kinds = ", ".join(f"{d.name} {d.type}" for d in self.dims)
            raise InvalidError(f"{self.uri} has dimensions that aren't integers ({kinds}): read it with scan()") from None

    @property
    def nonempty_domain(self) -> dict[str, tuple[Any, Any]] | None:
        """The box around all cells, with the first and the last coordinate of each dimension; None without cells."""
        bounds = ", ".join(f"min({name_in_sql(d.name)}), max({name_in_sql(d.name)})" for d in self.dims)
        found = self._session.sql(f"SELECT {bounds} FROM {self._call('tiledb_scan')}").fetchall()[0]
        if found[0] is None:
            return None
        return {d.name: pair for d, pair in zip(self.dims, zip(found[::2], found[1::2]))}

    @property
    def fragments(self) -> list[dict[str, Any]]:
        """The fragments that reads see, oldest first."""
        query = self._session.sql(f"SELECT * FROM {self._call('tiledb_fragments')} WHERE visible")
        return [dict(zip(query.columns, row)) for row in query]

    @property
    def meta(self) -> Metadata:
        """The metadata, which can be set and deleted."""
        return Metadata(self)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Query:
        """Selects columns, and rows by a condition in SQL with parameters, at most ``limit`` of them. They come in no particular order.

        >>> import tiledb_sql as ts
        >>> weather = ts.open("./examples/data/weather_stations")
        >>> weather.scan(["station"], where="temperature < $1", params=[-15.7]).fetchall()
        [('Nuuk',)]
        """
        shown = "*" if columns is None else ", ".join(map(name_in_sql, columns)) or "1"
        condition = "" if where is None else f" WHERE {where}"
        rows = "" if limit is None else f" LIMIT {int(limit)}"
        return self._session.sql(f"SELECT {shown} FROM {self._call('tiledb_scan')}{condition}{rows}", params)

    def dataset(self, time_unit: str | None = None) -> _dataset.Dataset:
        """The array as a ``pyarrow.dataset.Dataset``; see :meth:`Query.dataset`."""
        return array_dataset(self, time_unit)

    def lazy(self) -> _polars.LazyFrame:
        """The array as a LazyFrame of Polars, which reads only the columns and rows that it needs."""
        return self.scan().lazy()

    def __datafusion_table_provider__(self, host: Any) -> Any:
        """The array as a table of a session of datafusion-python: ``ctx.register_table("weather", array)``."""
        check_version()
        return _engine.array_for_datafusion(self._session._engine, self.uri, self._at, host)

    def __getitem__(self, key: Any) -> Any:
        """Cells: ``a["height"][10:20, 5]`` of one attribute, ``a[10:20, 5]`` of all of them in a dict."""
        if isinstance(key, str) and any(attribute.name == key for attribute in self.attrs):
            return AttributeCells(self, [key])
        if isinstance(key, str) and not self._takes_text():
            known = ", ".join(attribute.name for attribute in self.attrs)
            raise KeyError(f"{self.uri} has no attribute {key!r}; it has {known}")
        return self._cells(key, [attribute.name for attribute in self.attrs], included=False)

    def _takes_text(self) -> bool:
        return bool(self.dims) and self.dims[0].domain is None

    @property
    def loc(self) -> Locations:
        """Cells by ranges whose ends are included, and by lists of coordinates."""
        return Locations(self)

    def _cells(self, key: Any, columns: list[str], included: bool) -> dict[str, Any]:
        keys = expanded(key, len(self.dims), self.uri)
        if self.is_dense and not any(isinstance(k, (list, tuple, set)) or is_array(k) for k in keys):
            return _boxes.read(self, _boxes.DenseRange(self, keys, included), columns)
        conditions: list[str] = []
        params: list[Any] = []
        for dimension, k in zip(self.dims, keys):
            if dimension.domain and dimension.type.startswith(("INT", "UINT")):
                low, high = dimension.domain
                check_integers(dimension.name, (int(low), int(high)), k, included)
            more, values = condition(dimension.name, k, included, len(params))
            conditions += more
            params += values
        shown = [dimension.name for dimension in self.dims] + columns
        query = self.scan(shown, " AND ".join(conditions) or None, params or None)
        return numpy_columns(query)

    def __setitem__(self, key: Any, values: Any) -> None:
        """Writes the cells of a box of a dense array in one commit: ``a[0:10, :] = values``, or a dict with an array for each
        attribute. One value stands for all cells.
        """
        if not self.is_dense:
            raise InvalidError(f"{self.uri} is sparse: write its cells with append()")
        if self._at is not None:
            raise InvalidError(f"{self.uri} was opened as of {self._at}: open it without a time to write")
        keys = expanded(key, len(self.dims), self.uri)
        _boxes.write(self, _boxes.DenseRange(self, keys, False), values)

    def append(self, data: Any) -> int:
        """Writes cells in one commit, and returns their number.

        ``data`` is anything that has ``__arrow_c_stream__``, a mapping of columns, or an iterator of record batches. A stream may be
        larger than memory.
        """
        with self._session._named(data) as name:
            columns = ", ".join(map(name_in_sql, self._session.sql(f"SELECT * FROM {name} LIMIT 0").columns))
            inserted = self._session.sql(f"INSERT INTO {text_in_sql(self.uri)} ({columns}) SELECT {columns} FROM {name}")
        return int(inserted.fetchall()[0][0])

    def delete(self, where: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> int:
        """Deletes the cells that meet a condition in SQL. Returns their number."""
        return int(self._session.sql(f"DELETE FROM {text_in_sql(self.uri)} WHERE {where}", params).fetchall()[0][0])

    def consolidate(self, **options: Any) -> Query:
        """Merges fragments. The options are those of ``tiledb_consolidate``: ``dry_run=True``, ``mode="commits"``, …"""
        return self._maintain("tiledb_consolidate", options)

    def vacuum(self, **options: Any) -> Query:
        """Removes what consolidations have replaced. The options are those of ``tiledb_vacuum``: ``min_age="1 day"``, …"""
        return self._maintain("tiledb_vacuum", options)

    def check(self, **options: Any) -> Query:
        """Reads everything, and returns what is wrong or left over."""
        return self._maintain("tiledb_check", options)

    def _maintain(self, function: str, options: Mapping[str, Any]) -> Query:
        arguments = "".join(f", {name} => {literal_in_sql(value)}" for name, value in options.items())
        return self._session.sql(f"SELECT * FROM {function}({text_in_sql(self.uri)}{arguments})")

    def __repr__(self) -> str:
        kind = "dense" if self.is_dense else "sparse"
        dims = ", ".join(f"{d.name} {d.type}" for d in self.dims)
        attrs = ", ".join(f"{a.name} {a.type}" for a in self.attrs)
        return f"<tiledb_sql.Array {self.uri!r}: {kind}, ({dims}) -> ({attrs})>"


class Group:
    """A group of arrays, as :func:`open` returns it.

    >>> import tiledb_sql as ts
    >>> experiment = ts.open("./examples/data/experiment")
    >>> experiment["ms/RNA"].members
    ['X', 'var']
    """

    def __init__(self, session: Session, uri: str, at: Any = None) -> None:
        self._session = session
        self.uri = uri
        self._at = at
        found = session.sql(f"SELECT path, uri, type FROM tiledb_members({text_in_sql(uri)}) ORDER BY path").fetchall()
        self._paths: dict[str, str] = {path: member for path, member, _ in found}

    def __reduce__(self) -> tuple[Any, ...]:
        return Group, (self._session, portable(self.uri), self._at)

    @property
    def members(self) -> list[str]:
        """The names of its members."""
        return [path for path in self._paths if "/" not in path]

    def __getitem__(self, path: str) -> Array | Group:
        """A member, or a member of a member: ``g["ms/RNA/X/data"]``."""
        if path not in self._paths:
            raise KeyError(f"{self.uri} has no member {path!r}; it has {', '.join(self._paths)}")
        return open_object(self._session, self._paths[path], self._at)

    def to_anndata(
        self,
        obs: str | None = None,
        var: str | None = None,
        X: str | None = "data",
        *,
        measurement: str | None = None,
        layers: Sequence[str] = (),
        obsm: Sequence[str] = (),
        varm: Sequence[str] = (),
    ) -> _anndata.AnnData:
        """The cells and genes of a SOMA experiment that meet conditions in SQL, as AnnData.

        ``X``, ``layers``, ``obsm`` and ``varm`` are names of arrays. ``measurement`` is needed if several have values.
        """
        from ._anndata import anndata_of

        return anndata_of(self, obs, var, X, measurement, layers, obsm, varm)

    def __datafusion_catalog_provider__(self, host: Any) -> Any:
        """The group as a catalog of a session of datafusion-python: ``ctx.register_catalog_provider("experiment", group)``."""
        check_version()
        at = None if self._at is None else time_text(self._at)
        return _engine.group_for_datafusion(self._session._engine, self.uri, at, host)

    def __repr__(self) -> str:
        return f"<tiledb_sql.Group {self.uri!r}: {', '.join(self.members)}>"


def open_object(session: Session, uri: str, at: Any = None) -> Array | Group:
    """Opens an array or a group."""
    try:
        return Array(session, uri, at)
    except Error as error:
        if error.kind != "is_a_group":
            raise
        return Group(session, uri, at)


class AttributeCells:
    """The cells of one attribute."""

    def __init__(self, array: Array, columns: list[str]) -> None:
        self._array = array
        self._columns = columns

    def __getitem__(self, key: Any) -> _numpy.ndarray[Any, Any]:
        cells = self._array._cells(key, self._columns, included=False)
        found: _numpy.ndarray[Any, Any] = cells[self._columns[0]]
        return found

    def __setitem__(self, key: Any, values: Any) -> None:
        """Writes cells of a dense array with one attribute."""
        self._array[key] = {self._columns[0]: values}


class Locations:
    """Cells by ranges whose ends are included."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> dict[str, Any]:
        return self._array._cells(key, [a.name for a in self._array.attrs], included=True)


__all__ = ["Array", "Attribute", "AttributeCells", "Dimension", "Group", "Locations", "Metadata", "open_object"]
