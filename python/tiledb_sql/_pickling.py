"""Sessions, arrays and queries in other processes: what makes them again there, without keys and passwords."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from . import _engine

if TYPE_CHECKING:
    from ._session import Session

# The sessions that were unpickled here: a thousand pickled arrays of one session still share one.
_restored: weakref.WeakValueDictionary[tuple[Any, ...], Session] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def session_recipe(session: Session) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """What makes a session again: a name of its own, its options, and its statements."""
    return session._token, session._options, tuple(session._engine.recipe())


def restore_session(token: str, options: dict[str, Any], statements: tuple[str, ...]) -> Session:
    """Makes a session again, or returns the one that was made already."""
    from ._session import SHARED, _shared_session, connect

    key = (os.getpid(), token, statements)
    with _lock:
        known = _restored.get(key)
        if known is not None:
            return known
        if token == SHARED and not statements:
            return _shared_session()
        session = connect(**options)
        session._token = token
        for statement in statements:
            session._engine.sql(statement)
        _restored[key] = session
        return session


def portable(uri: str) -> str:
    """The location of an array as another process finds it."""
    if _engine.may_hold_secret(uri):
        raise TypeError(
            "an array whose location holds a password or a signature can't be pickled: give the secret to the other process in its "
            "environment"
        )
    if "://" in uri or uri.startswith("~"):
        return uri
    return os.path.abspath(uri)


def query_recipe(session: Session, statement: str, params: Any, tables: list[str], has_run: bool) -> tuple[Any, ...]:
    """What makes a query again."""
    if has_run:
        raise TypeError("a statement that has run can't be pickled, because it would run again: pickle its rows, as to_arrow() returns them")
    if tables:
        raise TypeError(
            f"a query of Python's variables ({', '.join(tables)}) can't be pickled: pickle its rows, as to_arrow() returns them"
        )
    if _engine.may_hold_secret(statement):
        raise TypeError("a query with a key, a password or a signature in its text can't be pickled")
    return session, statement, params


def restore_query(session: Session, statement: str, params: Any) -> Any:
    """Plans a query again."""
    return session._sql(statement, params, None)
