"""Rows of other libraries, written to arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._array import Array
from ._errors import InvalidError
from ._text import literal_in_sql, name_in_sql, text_in_sql

if TYPE_CHECKING:
    from ._session import Session

# The options of stores. All others are those of arrays.
_STORES = ("aws.", "azure.", "gcp.", "http.", "tiledb.")


def write(
    session: Session,
    data: Any,
    uri: str,
    dims: Sequence[str],
    options: Mapping[str, Any],
) -> Array:
    """Creates an array of the rows of data."""
    if isinstance(dims, str) or not dims:
        raise InvalidError(f"dims must be a list of the columns that become dimensions, such as ['station', 'time'], not {dims!r}")
    pairs = [f"{text_in_sql(_key(key))} {text_in_sql(_value(key, value))}" for key, value in options.items()]
    given = f" OPTIONS ({', '.join(pairs)})" if pairs else ""
    columns = ", ".join(map(name_in_sql, dims))
    with session._named(data) as name:
        statement = f"COPY (SELECT * FROM {name}) TO {text_in_sql(uri)} STORED AS TILEDB PARTITIONED BY ({columns}){given}"
        copied = session.sql(statement)
    array = session.open(uri)
    assert isinstance(array, Array)
    array.choices = copied.choices
    return array


def _key(key: str) -> str:
    return key if key.startswith(_STORES) else f"tiledb.{key}"


def _value(key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return literal_in_sql(value)
    except InvalidError:
        raise InvalidError(f"the option {key} takes a bool, int, float or str, not {type(value).__name__}") from None


__all__ = ["write"]
