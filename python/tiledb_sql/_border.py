"""Arrays, queries and groups in sessions of datafusion-python."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from . import _engine
from ._errors import InvalidError, UnsupportedError, missing_extra
from ._text import literal_in_sql

if TYPE_CHECKING:
    from ._query import Query
    from ._session import Session

# Objects cross the border as structures of C, which each major version of DataFusion lays out anew.
_MAJOR = 55


def check_version() -> None:
    """Fails unless datafusion-python has the major version that the engine was built for."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("datafusion")
    except PackageNotFoundError:
        raise missing_extra("datafusion", "datafusion") from None
    if found.split(".")[0] != str(_MAJOR):
        raise UnsupportedError(
            f"datafusion {found} is installed, and this package takes datafusion {_MAJOR}: "
            f"pip install 'datafusion=={_MAJOR}.*', or use tiledb_sql.connect() instead of its session"
        )


class _TableFactory:
    """Makes the tables of ``CREATE EXTERNAL TABLE … STORED AS TILEDB``."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __datafusion_table_provider_factory__(self, host: Any) -> Any:
        return _engine.factory_for_datafusion(self._session._engine, host)


def register(host: Any, session: Session) -> None:
    """Adds ``STORED AS TILEDB`` and the table functions to a session of datafusion-python."""
    check_version()
    from datafusion import udtf

    host.register_table_factory("TILEDB", _TableFactory(session))
    for name in session._engine.table_functions():
        host.register_udtf(udtf(partial(_call, session, name), name))


def _call(session: Session, name: str, *arguments: Any) -> Query:
    values = ", ".join(_literal(name, argument) for argument in arguments)
    return session.sql(f"SELECT * FROM {name}({values})")


def _literal(name: str, argument: Any) -> str:
    try:
        value = argument.python_value()
    except (TypeError, ValueError):
        raise InvalidError(f"{name} takes literals, not {argument}") from None
    # A scalar of pyarrow, in some releases.
    return literal_in_sql(value.as_py() if hasattr(value, "as_py") else value)


__all__ = ["check_version", "register"]
