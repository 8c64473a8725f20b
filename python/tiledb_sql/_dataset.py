"""Queries as datasets of pyarrow, which DuckDB, Polars and Ibis push columns and conditions into.

This module needs pyarrow. The functions that make a dataset import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.dataset

from ._engine import EngineBatches, EngineDataset
from ._errors import InvalidError
from ._query import Query

# How to make a dataset again in another process: a function and its arguments.
Recipe = tuple[Callable[..., Any], tuple[Any, ...]]


def dataset_of(query: Query, time_unit: str | None, recipe: Recipe | None = None) -> pyarrow.dataset.Dataset:
    """The rows of a query as a dataset. They are read anew by each use, unless the query is a statement that has run."""
    engine = EngineDataset.of(query._engine, time_unit)
    if engine is None:
        return pyarrow.dataset.dataset(query.to_arrow())
    return QueryDataset(engine, recipe)


class QueryDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """A query as a ``pyarrow.dataset.Dataset``. Arrays, queries and sessions make it by ``dataset()``.

    Columns and conditions that the engine has, too, decide what is read; pyarrow filters by all others. The rows come in no particular
    order.
    """

    # The base has no dataset of C++ behind it, so nothing of it may be called.
    def __init__(self, engine: EngineDataset, recipe: Recipe | None = None, condition: Any = None) -> None:
        self._engine = engine
        self._recipe = recipe
        self._condition = condition
        self._schema = pyarrow.schema(engine)

    @property
    def schema(self) -> pyarrow.Schema:
        """The columns."""
        return self._schema

    @property
    def partition_expression(self) -> pyarrow.compute.Expression:
        """A condition that all rows meet."""
        return pyarrow.compute.scalar(True)

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pyarrow.compute.Expression] | None = None,
        filter: pyarrow.compute.Expression | None = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> QueryScanner:
        """The rows that meet a condition, with some of the columns. Other options of pyarrow have no meaning here."""
        return QueryScanner(self._engine, self._schema, columns, self._also(filter), batch_size)

    def _also(self, filter: pyarrow.compute.Expression | None) -> pyarrow.compute.Expression | None:
        if filter is None or self._condition is None:
            return self._condition if filter is None else filter
        return self._condition & filter

    def to_batches(self, *arguments: Any, **options: Any) -> Iterator[pyarrow.RecordBatch]:
        """The rows of :meth:`scanner` as batches."""
        return self.scanner(*arguments, **options).to_batches()

    def to_table(self, *arguments: Any, **options: Any) -> pyarrow.Table:
        """The rows of :meth:`scanner` as a table."""
        return self.scanner(*arguments, **options).to_table()

    def head(self, num_rows: int, *arguments: Any, **options: Any) -> pyarrow.Table:
        """Some of the rows of :meth:`scanner`. No more are read than needed."""
        return self.scanner(*arguments, **options).head(num_rows)

    def count_rows(self, filter: pyarrow.compute.Expression | None = None, **options: Any) -> int:
        """The number of rows that meet a condition."""
        return self.scanner(filter=filter, **options).count_rows()

    def take(self, indices: Any, *arguments: Any, **options: Any) -> pyarrow.Table:
        """Refuses: the rows of an array have no numbers."""
        raise _no_numbers()

    def filter(self, expression: pyarrow.compute.Expression) -> QueryDataset:
        """The dataset of the rows that meet a condition."""
        return QueryDataset(self._engine, self._recipe, self._also(expression))

    def get_fragments(self, filter: pyarrow.compute.Expression | None = None) -> Iterator[Any]:
        """The rows as one fragment in memory."""
        yield from self._in_memory(filter).get_fragments()

    def sort_by(self, sorting: Any, **options: Any) -> pyarrow.dataset.Dataset:
        """The rows in memory, in an order."""
        return self._in_memory().sort_by(sorting, **options)

    def join(self, right_dataset: Any, *arguments: Any, **options: Any) -> pyarrow.dataset.Dataset:
        """The rows in memory, joined with those of another dataset."""
        return self._in_memory().join(_in_memory(right_dataset), *arguments, **options)

    def join_asof(self, right_dataset: Any, *arguments: Any, **options: Any) -> pyarrow.dataset.Dataset:
        """The rows in memory, joined with the nearest ones of another dataset."""
        return self._in_memory().join_asof(_in_memory(right_dataset), *arguments, **options)

    def replace_schema(self, schema: pyarrow.Schema) -> pyarrow.dataset.Dataset:
        """Refuses: select other columns or types in SQL."""
        raise NotImplementedError("the schema of this dataset follows from its query: select other columns or types in SQL")

    def _in_memory(self, filter: pyarrow.compute.Expression | None = None) -> pyarrow.dataset.Dataset:
        return pyarrow.dataset.dataset(self.to_table(filter=filter))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.scanner().to_reader().__arrow_c_stream__(requested_schema)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._recipe is None:
            raise TypeError(
                "this dataset can't be pickled: it is that of a query, or of an array in a session of its own. Make it from an array "
                "that tiledb_sql.open returns"
            )
        return _made_again, (*self._recipe, self._condition)

    def __repr__(self) -> str:
        return f"<tiledb_sql.QueryDataset: {', '.join(self._schema.names)}>"


class QueryScanner:
    """Rows and columns of a dataset, which can be read more than once."""

    def __init__(
        self,
        engine: EngineDataset,
        schema: pyarrow.Schema,
        columns: Sequence[str] | Mapping[str, pyarrow.compute.Expression] | None,
        filter: pyarrow.compute.Expression | None,
        batch_size: int | None,
    ) -> None:
        self._engine = engine
        self._batch_size = batch_size
        self._pickled = None if filter is None else _pickled(filter)
        needed, is_known = set(schema.names), filter is None
        if self._pickled is not None:
            fields, is_known = engine.understood(self._pickled)
            needed = set(fields)
        names = schema.names if columns is None else list(columns)
        is_plain = not isinstance(columns, Mapping) and len(set(names)) == len(names)
        #: The columns and the filter that are left to pyarrow.
        self._left: dict[str, Any] | None = None
        self._columns = names
        if not (is_known and is_plain):
            self._left = {"columns": columns if isinstance(columns, Mapping) else names}
            if not is_known:
                self._left["filter"] = filter
            else:
                needed = set()
            for expression in columns.values() if isinstance(columns, Mapping) else ():
                needed |= _fields(engine, expression, schema)
            if not isinstance(columns, Mapping):
                needed |= set(names)
            self._columns = [name for name in schema.names if name in needed]
        self.dataset_schema = schema
        # An unknown column is an error here, as it is in pyarrow.
        self.projected_schema: pyarrow.Schema = self._scan().schema()

    def _scan(self, limit: int | None = None) -> _Rows:
        query = Query(self._engine.scan(self._columns, self._pickled, None if self._left else limit))
        return _Rows(query, self._left, self._batch_size)

    def to_reader(self) -> pyarrow.RecordBatchReader:
        """The rows as a stream. The query ends when the stream is dropped."""
        return self._scan().reader()

    def to_batches(self) -> Iterator[pyarrow.RecordBatch]:
        """The rows as batches."""
        return self._scan().batches()

    def to_table(self) -> pyarrow.Table:
        """The rows as a table."""
        return self._scan().table()

    def head(self, num_rows: int) -> pyarrow.Table:
        """Some of the rows. No more are read than needed."""
        return self._scan(num_rows).head(num_rows)

    def count_rows(self) -> int:
        """The number of rows."""
        filtered = self._left is not None and "filter" in self._left
        count = None if filtered else self._engine.count(self._pickled)
        return self._scan().count() if count is None else count

    def take(self, indices: Any) -> pyarrow.Table:
        """Refuses: the rows of an array have no numbers."""
        raise _no_numbers()

    def explain(self, analyze: bool = False) -> str:
        """How the engine reads the rows, with its counters if they are read. Conditions that are missing there are left to pyarrow."""
        return Query(self._engine.scan(self._columns, self._pickled)).explain(analyze)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)


class _Rows:
    """The rows of the engine, and the columns and the filter that are left to pyarrow."""

    def __init__(self, query: Query, left: dict[str, Any] | None, batch_size: int | None) -> None:
        self._query = query
        self._left = left
        self._batch_size = batch_size

    def schema(self) -> pyarrow.Schema:
        schema = pyarrow.schema(self._query)
        if self._left is None:
            return schema
        return pyarrow.dataset.Scanner.from_batches(iter([]), schema=schema, **self._left).projected_schema

    def _scanner(self) -> pyarrow.dataset.Scanner:
        reader = pyarrow.RecordBatchReader.from_stream(self._query)
        options = {} if self._batch_size is None else {"batch_size": self._batch_size}
        return pyarrow.dataset.Scanner.from_batches(reader, **(self._left or {}), **options)

    def reader(self) -> pyarrow.RecordBatchReader:
        if self._left is None:
            return pyarrow.RecordBatchReader.from_stream(self._query)
        return self._scanner().to_reader()

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        for batch in self._stream():
            step = self._batch_size or max(batch.num_rows, 1)
            for start in range(0, max(batch.num_rows, 1), step):
                yield batch.slice(start, step)

    def _stream(self) -> Iterator[pyarrow.RecordBatch]:
        if self._left is not None:
            yield from self._scanner().to_batches()
            return
        for rows in EngineBatches.of(self._query._engine, 1) or ():
            yield from pyarrow.table(rows).to_batches()

    def table(self) -> pyarrow.Table:
        # Ctrl-C ends this, unlike the reading of a stream.
        return self._query.to_arrow() if self._left is None else self._scanner().to_table()

    def head(self, rows: int) -> pyarrow.Table:
        return self._query.to_arrow() if self._left is None else self._scanner().head(rows)

    def count(self) -> int:
        return int(self._scanner().count_rows())


def _pickled(expression: pyarrow.compute.Expression) -> bytes | None:
    """The bytes that pyarrow pickles an expression to, or None if it doesn't."""
    if not isinstance(expression, pyarrow.compute.Expression):
        raise InvalidError(
            f"a filter is an expression of pyarrow, as in pyarrow.compute.field('x') > 1, not {type(expression).__name__}"
        )
    try:
        return bytes(expression.__reduce__()[1][0])
    except (pyarrow.ArrowException, TypeError, IndexError):
        return None


def _fields(engine: EngineDataset, expression: pyarrow.compute.Expression, schema: pyarrow.Schema) -> set[str]:
    """The columns that an expression names, or all."""
    pickled = _pickled(expression)
    return set(schema.names) if pickled is None else set(engine.understood(pickled)[0])


def _in_memory(dataset: Any) -> Any:
    return dataset._in_memory() if isinstance(dataset, QueryDataset) else dataset


def _made_again(make: Callable[..., QueryDataset], arguments: tuple[Any, ...], condition: Any) -> QueryDataset:
    made = make(*arguments)
    return made if condition is None else made.filter(condition)


def _no_numbers() -> NotImplementedError:
    return NotImplementedError("the rows of an array have no numbers to take them by: filter by coordinates, or use to_table().take(…)")
