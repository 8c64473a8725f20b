"""Sessions."""

from __future__ import annotations

import datetime as dt
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from . import _engine
from ._array import Array, Group, open_object
from ._errors import InvalidError, missing_extra
from ._query import Query

_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


class Session:
    """Tables, settings and attached groups, and a limit of memory. :func:`connect` makes one. Threads may share it."""

    __slots__ = ("_engine", "_process", "_python_variables")

    def __init__(self, engine: _engine.EngineSession, python_variables: bool) -> None:
        self._engine = engine
        self._process = os.getpid()
        self._python_variables = python_variables

    def sql(
        self,
        statement: str,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
    ) -> Query:
        """Plans a statement, and runs it if it changes something.

        ``params`` are the values of ``$1``, ``$2``, …, or a mapping for ``$name``. A table that no catalog knows is looked up among the
        variables of the caller: DataFrames of pandas and Polars, tables of pyarrow, whatever has ``__arrow_c_stream__``.

        >>> import tiledb_sql as ts
        >>> con = ts.connect()
        >>> con.sql("SELECT $1 + 1 AS n", [41]).fetchall()
        [(42,)]
        """
        return self._sql(statement, params, sys._getframe(1))

    def _sql(self, statement: str, params: Any, frame: FrameType) -> Query:
        tables = None
        if self._python_variables:
            unknown = self._engine.unknown_tables(statement)
            tables = {name: data for name in unknown if (data := _variable(name, frame)) is not None}
        return Query(self._engine.sql(statement, params, tables))

    def open(self, uri: str | os.PathLike[str], at: int | str | dt.date | None = None) -> Array | Group:
        """Opens an array or a group, as it is or as of a time: milliseconds since 1970, or a date in any form that SQL takes."""
        return open_object(self, os.fspath(uri), at)

    def register(self, name: str, data: Any) -> None:
        """Gives data a name: anything that has ``__arrow_c_stream__``, or a mapping of columns."""
        self._engine.register(name, _stream(data, f"the data of {name!r}"))

    def unregister(self, name: str) -> None:
        """Forgets the name of a table."""
        self._engine.unregister(name)

    def __repr__(self) -> str:
        return "<tiledb_sql.Session>"


def connect(
    *,
    memory_limit: int | str | None = None,
    readonly: bool = False,
    python_variables: bool = True,
) -> Session:
    """Makes a session.

    ``memory_limit`` is what queries may take, in bytes or as in ``"2g"``; by default 75 % of the memory of the machine. A ``readonly``
    session refuses statements that write.
    """
    limit = None if memory_limit is None else _bytes(memory_limit)
    return Session(_engine.EngineSession(limit, readonly), python_variables)


_shared: Session | None = None
_shared_lock = threading.Lock()


def _shared_session() -> Session:
    """The session that the whole process shares."""
    global _shared
    with _shared_lock:
        if _shared is None or _shared._process != os.getpid():
            _shared = connect()
        return _shared


def sql(statement: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Query:
    """Like :meth:`Session.sql`, in a session that the whole process shares."""
    return _shared_session()._sql(statement, params, sys._getframe(1))


def open(uri: str | os.PathLike[str], at: int | str | dt.date | None = None) -> Array | Group:
    """Like :meth:`Session.open`, in the session that the whole process shares."""
    return _shared_session().open(uri, at)


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
    raise TypeError(
        f"{what} must have __arrow_c_stream__, as a DataFrame or an Arrow table has, or be a mapping of columns; "
        f"it is of the type {type(data).__name__}"
    )
