"""Names, text and numbers as SQL has them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from ._errors import InvalidError


def name_in_sql(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text_in_sql(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def literal_in_sql(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and value - value == 0:
        return repr(value)
    if isinstance(value, str):
        return text_in_sql(value)
    raise InvalidError(f"a value of the type {type(value).__name__} can't be written here: pass bool, int, float or str")


def time_text(at: int | str | dt.date) -> str:
    """A time as options of tables take it: milliseconds since 1970, or a date in the form that the caller chose."""
    if isinstance(at, bool) or not isinstance(at, (int, str, dt.date)):
        raise InvalidError(f"a time is a number of milliseconds, a text or a datetime, not {type(at).__name__}")
    if isinstance(at, dt.datetime) and at.tzinfo is not None:
        at = at.astimezone(dt.timezone.utc).replace(tzinfo=None)
    return at.isoformat() if isinstance(at, dt.date) else str(at)


__all__ = ["literal_in_sql", "name_in_sql", "text_in_sql", "time_text"]
