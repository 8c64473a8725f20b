"""Sessions."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from . import _border, _engine
from ._array import Array, Group, open_object
from ._errors import InvalidError, missing_extra
from ._pickling import restore_session, session_recipe
from ._progress import ProgressOption, reporter
from ._query import Query
from ._writing import write as write_array

# Numbers the names of data, which threads of a session must not share.
_numbers = itertools.count()

_LIMIT_VARIABLE = "TILEDB_SQL_MEMORY_LIMIT"

# The token of the session that a process shares: in another process, it is that one's.
SHARED = "shared"

_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


class Session:
    """Tables, settings and attached groups, and a limit of memory. :func:`connect` makes one. Threads may share it."""

    __slots__ = ("__weakref__", "_engine", "_options", "_process", "_token")

    def __init__(self, engine: _engine.EngineSession, options: dict[str, Any]) -> None:
        self._engine = engine
        self._options = options
        self._process = os.getpid()
        # The same for all copies in other processes.
        self._token = os.urandom(16).hex()

    def sql(
        self,
        statement: str,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        progress: ProgressOption = None,
    ) -> Query:
        """Plans a statement, and runs it if it changes something.

        ``params`` are the values of ``$1``, ``$2``, …, or a mapping for ``$name``. A table that no catalog knows is looked up among the
        variables of the caller: DataFrames of pandas and Polars, tables of pyarrow, whatever has ``__arrow_c_stream__``. ``progress`` is
        that of :func:`connect`, for this statement and the reads of its rows.

        >>> import tiledb_sql as ts
        >>> con = ts.connect()
        >>> con.sql("SELECT $1 + 1 AS n", [41]).fetchall()
        [(42,)]
        """
        return self._sql(statement, params, sys._getframe(1), progress)

    def _sql(self, statement: str, params: Any, frame: FrameType | None, progress: ProgressOption = None) -> Query:
        tables = None
        if self._options["python_variables"] and frame is not None:
            unknown = self._engine.unknown_tables(statement)
            tables = {name: data for name in unknown if (data := _variable(name, frame)) is not None}
        report = reporter(self._options["progress"] if progress is None else progress)
        return Query(self._engine.sql(statement, params, tables, report), (self, statement, params, list(tables or ())))

    def open(self, uri: str | os.PathLike[str], at: int | str | dt.date | None = None) -> Array | Group:
        """Opens an array or a group, as it is or as of a time: milliseconds since 1970, or a date in any form that SQL takes."""
        return open_object(self, os.fspath(uri), at)

    def write(
        self,
        data: Any,
        uri: str | os.PathLike[str],
        dims: Sequence[str],
        options: Mapping[str, Any] | None = None,
        **more_options: Any,
    ) -> Array:
        """Creates an array of rows, in one commit, and returns it.

        ``data`` is anything that has ``__arrow_c_stream__``, a mapping of columns, or an iterator of record batches; ``dims`` are the
        columns that become dimensions. Options are those of ``COPY``: ``capacity=10_000``, or ``{"dim.time.tile": "30 days"}``. What
        you don't specify is chosen from the rows, and listed in ``choices``.

        >>> import tempfile
        >>> import tiledb_sql as ts
        >>> folder = tempfile.mkdtemp()
        >>> squares = ts.connect().sql("SELECT value AS n, value * value AS square FROM generate_series(1, 1000)")
        >>> a = ts.write(squares, folder + "/squares", dims=["n"], capacity=100)
        >>> a.scan(where="n = 12").fetchall()
        [(12, 144)]
        >>> [choice.split(" = ")[0] for choice in a.choices]
        ['attr.square.filters']
        """
        return write_array(self, data, os.fspath(uri), dims, {**(options or {}), **more_options})

    def register(self, name: str, data: Any) -> None:
        """Gives data a name: anything that has ``__arrow_c_stream__``, a mapping of columns, or an iterator of record batches.

        An iterator or a ``RecordBatchReader`` is read while a statement runs, and serves one.
        """
        self._engine.register(name, _stream(data, f"the data of {name!r}"))

    @contextmanager
    def _named(self, data: Any) -> Iterator[str]:
        """Gives data a name of its own, for one statement."""
        name = f"__data_{next(_numbers)}"
        self._engine.register(name, _stream(data, "the data"), once=True)
        try:
            yield name
        finally:
            self._engine.unregister(name)

    def unregister(self, name: str) -> None:
        """Forgets the name of a table."""
        self._engine.unregister(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_session, session_recipe(self)

    def __repr__(self) -> str:
        return "<tiledb_sql.Session>"


def connect(
    *,
    memory_limit: int | str | None = None,
    readonly: bool = False,
    python_variables: bool = True,
    progress: ProgressOption = None,
) -> Session:
    """Makes a session.

    ``memory_limit`` is what its queries may take, in bytes or as in ``"2g"``. The queries of all sessions together take at most 75 % of the
    memory of the machine, or what the variable ``TILEDB_SQL_MEMORY_LIMIT`` of the environment holds when the first session is made. A
    ``readonly`` session refuses statements that write.

    After a second of waiting, a terminal or a notebook shows how far a statement is. ``progress=False`` turns this off, and a function
    takes it over: it is called ten times a second with a :class:`Progress`, on the thread that waits. If it raises an exception, the
    statement ends.
    """
    limit = None if memory_limit is None else _bytes(memory_limit)
    reporter(progress)
    options = {
        "memory_limit": limit,
        "readonly": readonly,
        "python_variables": python_variables,
        "progress": progress,
    }
    return Session(_engine.EngineSession(limit, readonly, _process_limit()), options)


def _process_limit() -> int | None:
    limit = os.environ.get(_LIMIT_VARIABLE)
    if not limit:
        return None
    try:
        return _bytes(limit)
    except InvalidError as error:
        raise InvalidError(f"the variable {_LIMIT_VARIABLE} of the environment: {error}") from None


_shared: Session | None = None
_shared_lock = threading.Lock()


def _shared_session() -> Session:
    """The session that the whole process shares."""
    global _shared
    with _shared_lock:
        if _shared is None or _shared._process != os.getpid():
            _shared = connect()
            _shared._token = SHARED
        return _shared


def sql(
    statement: str, params: Sequence[Any] | Mapping[str, Any] | None = None, *, progress: ProgressOption = None
) -> Query:
    """Like :meth:`Session.sql`, in a session that the whole process shares."""
    return _shared_session()._sql(statement, params, sys._getframe(1), progress)


def open(uri: str | os.PathLike[str], at: int | str | dt.date | None = None) -> Array | Group:
    """Like :meth:`Session.open`, in the session that the whole process shares."""
    return _shared_session().open(uri, at)


def write(
    data: Any,
    uri: str | os.PathLike[str],
    dims: Sequence[str],
    options: Mapping[str, Any] | None = None,
    **more_options: Any,
) -> Array:
    """Like :meth:`Session.write`, in the session that the whole process shares."""
    return _shared_session().write(data, uri, dims, options, **more_options)


def register(ctx: Any, session: Session | None = None) -> None:
    """Adds ``STORED AS TILEDB`` and the table functions to a session of datafusion-python, served by a session of this package."""
    _border.register(ctx, session or _shared_session())


def _bytes(limit: int | str) -> int:
    if isinstance(limit, str):
        text = limit.strip().lower().removesuffix("ib").removesuffix("b")
        unit = text[-1:] if text[-1:].isalpha() else ""
        try:
            limit = int(float(text.removesuffix(unit)) * _UNITS[unit])
        except (KeyError, ValueError, OverflowError):
            raise InvalidError(f"the memory limit {limit!r} isn't a size such as '2g' or '512m'") from None
    if limit <= 0:
        raise InvalidError(f"the memory limit must be above 0, not {limit}")
    return limit


def _variable(name: str, frame: FrameType) -> Any:
    """The data that a variable of the caller holds, or None."""
    for variables in (frame.f_locals, frame.f_globals):
        if name in variables:
            value = variables[name]
            return value if _is_data(value) else None
    return None


def _is_data(value: Any) -> bool:
    return hasattr(value, "__arrow_c_stream__") and not isinstance(value, type)


def _stream(data: Any, what: str) -> Any:
    if _is_data(data):
        return data
    if isinstance(data, Mapping):
        try:
            import pyarrow
        except ImportError:
            raise missing_extra("pyarrow", "arrow") from None
        return pyarrow.table(dict(data))
    if isinstance(data, Iterator):
        return _reader(data, what)
    raise TypeError(
        f"{what} must have __arrow_c_stream__, as a DataFrame or an Arrow table has, or be a mapping of columns or an iterator of "
        f"record batches; it is of the type {type(data).__name__}"
    )


def _reader(batches: Iterator[Any], what: str) -> Any:
    """A stream of an iterator of record batches. The first one says what its columns are."""
    try:
        import pyarrow
    except ImportError:
        raise missing_extra("pyarrow", "arrow") from None
    first = next(batches, None)
    if first is None:
        raise InvalidError(f"{what} is an iterator without batches, so nothing says what its columns are")
    if not isinstance(first, pyarrow.RecordBatch):
        raise TypeError(f"{what} must be an iterator of pyarrow's record batches; its first item is of the type {type(first).__name__}")
    return pyarrow.RecordBatchReader.from_batches(first.schema, _alike(itertools.chain([first], batches), first.schema, what))


def _alike(batches: Iterator[Any], schema: Any, what: str) -> Iterator[Any]:
    """The batches, if all of them have the same columns. A stream says only once what they are, and pyarrow doesn't check it."""
    for batch in batches:
        if not batch.schema.equals(schema):
            raise InvalidError(f"{what} has batches of different columns: {_columns(schema)}, and later {_columns(batch.schema)}")
        yield batch


def _columns(schema: Any) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
