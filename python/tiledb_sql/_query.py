"""Queries, and the forms that their rows take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _engine
from ._border import check_version
from ._errors import missing_extra
from ._pickling import query_recipe, restore_query

if TYPE_CHECKING:
    import numpy as _numpy
    import pandas as _pandas
    import polars as _polars
    import pyarrow as _pyarrow
    import pyarrow.dataset as _dataset
    import xarray as _xarray

    from ._engine import EngineQuery
    from ._session import Session

_SHOWN_ROWS = 20


class Query:
    """A statement, as :meth:`Session.sql` returns it.

    Its rows are made when you ask for them, and made again when you ask again. A statement that changes something has run, and keeps
    its rows. Whoever takes an Arrow stream (``__arrow_c_stream__``) takes a query: DuckDB, Polars, pandas, pyarrow.

    >>> import tiledb_sql as ts
    >>> q = ts.sql("SELECT value AS n, value * value AS square FROM generate_series(1, 3)")
    >>> q.columns
    ['n', 'square']
    >>> q.fetchall()
    [(1, 1), (2, 4), (3, 9)]
    """

    __slots__ = ("_engine", "_origin")

    def __init__(self, engine: EngineQuery, origin: tuple[Session, str, Any, list[str]] | None = None) -> None:
        self._engine = engine
        # The session, the statement, its parameters, and the names of the variables that are its tables. The scan of a dataset has none.
        self._origin = origin

    def __reduce__(self) -> tuple[Any, ...]:
        if self._origin is None:
            raise TypeError("the scan of a dataset can't be pickled: pickle the dataset")
        return restore_query, query_recipe(*self._origin, self._engine.has_run)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._engine.columns

    @property
    def types(self) -> list[str]:
        """The types of the columns, as Arrow calls them."""
        return self._engine.types

    @property
    def choices(self) -> list[str]:
        """What a ``COPY`` chose for the array that it made, as options with their values."""
        return self._engine.choices

    def __arrow_c_schema__(self) -> Any:
        return self._engine.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._engine.__arrow_c_stream__(requested_schema)

    def __datafusion_table_provider__(self, host: Any) -> Any:
        """The rows as a table of a session of datafusion-python."""
        check_version()
        if self._origin is None:
            raise TypeError("the scan of a dataset isn't a table: register the dataset")
        return _engine.query_for_datafusion(self._origin[0]._engine, self._engine, host)

    def to_arrow(self) -> _pyarrow.Table:
        """All rows as a pyarrow table."""
        try:
            import pyarrow
        except ImportError:
            raise missing_extra("pyarrow", "arrow") from None
        return pyarrow.table(self._engine.collect(plain=True))

    def to_pandas(self, **options: Any) -> _pandas.DataFrame:
        """All rows as a pandas DataFrame. The options are those of ``pyarrow.Table.to_pandas``."""
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise missing_extra("pandas", "pandas") from None
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> _polars.DataFrame:
        """All rows as a Polars DataFrame."""
        try:
            import polars
        except ImportError:
            raise missing_extra("polars", "polars") from None
        return polars.DataFrame(self._engine.collect())

    def to_numpy(self) -> dict[str, _numpy.ndarray[Any, Any]]:
        """All rows as one NumPy array for each column."""
        try:
            import numpy  # noqa: F401
        except ImportError:
            raise missing_extra("numpy", "numpy") from None
        table = self.to_arrow()
        arrays = {}
        for name, column in zip(table.column_names, table.columns):
            if name in arrays:
                raise ValueError(f"two columns are called {name!r}: give one another name with AS")
            arrays[name] = column.to_numpy()
        return arrays

    def dataset(self, time_unit: str | None = None) -> _dataset.Dataset:
        """The query as a ``pyarrow.dataset.Dataset``, for libraries that choose columns and conditions: DuckDB, Polars, Ibis.

        ``time_unit`` is ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``: all times have this unit, and those that have finer parts are refused.
        DuckDB pushes conditions on times only in microseconds.
        """
        try:
            from ._dataset import dataset_of
        except ImportError:
            raise missing_extra("pyarrow", "arrow") from None
        return dataset_of(self, time_unit)

    def lazy(self) -> _polars.LazyFrame:
        """The query as a LazyFrame of Polars, which reads only the columns and rows that it needs."""
        from ._lazy import lazy_frame

        return lazy_frame(self)

    def to_xarray(self, dims: Sequence[str]) -> _xarray.Dataset:
        """All rows as a Dataset of xarray whose dimensions are the columns ``dims``.

        The rows must be a grid: one row for each combination of the values of these columns, in any order.

        >>> import tiledb_sql as ts
        >>> grid = ts.sql("SELECT y, x, height FROM './examples/data/elevation' WHERE y < 2 AND x < 3").to_xarray(["y", "x"])
        >>> dict(grid.sizes)
        {'y': 2, 'x': 3}
        """
        from ._grid import grid_of

        return grid_of(self, dims)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples."""
        return self._engine.tuples()

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row, or None."""
        return next(iter(self._engine.tuples(1)), None)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._engine.tuples())

    def explain(self, analyze: bool = False) -> str:
        """The plan as text. With ``analyze``, the query runs, and the plan has its counters."""
        plan = self._engine.explain(analyze)
        return "The statement has run." if plan is None else plan

    def show(self, rows: int = _SHOWN_ROWS) -> None:
        """Prints the first rows."""
        print(self._engine.shown(rows))

    def __repr__(self) -> str:
        if not self.columns:
            return "<tiledb_sql.Query without rows>"
        return self._engine.shown(_SHOWN_ROWS)

