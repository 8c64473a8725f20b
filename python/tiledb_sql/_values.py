"""Dates and times of Python, taken apart into numbers and put together from them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from ._errors import InvalidError

_EPOCH_DATE = dt.date(1970, 1, 1)
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MICROSECOND = dt.timedelta(microseconds=1)


def parts(value: object) -> tuple[str, int, str | None] | None:
    """The kind, the number, and the time zone or scale of a time, a date, a duration or a decimal."""
    # NaT of pandas and NumPy is the value that isn't there, as NULL is.
    if type(value).__name__ in ("NaTType", "datetime64", "timedelta64") and value != value:
        return "null", 0, None
    # A datetime is a date, so it comes first. A Timestamp of pandas has nanoseconds.
    if isinstance(value, dt.datetime):
        zone = None if value.tzinfo is None else _zone(value)
        if hasattr(value, "nanosecond"):
            return "timestamp_ns", value.as_unit("ns").value, zone  # type: ignore[attr-defined]
        since = value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)
        return "timestamp", since // _MICROSECOND, zone
    if isinstance(value, dt.date):
        return "date", (value - _EPOCH_DATE).days, None
    if isinstance(value, dt.time):
        if value.tzinfo is not None:
            return None
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return "time", seconds * 1_000_000 + value.microsecond, None
    if isinstance(value, dt.timedelta):
        return "duration", value // _MICROSECOND, None
    if isinstance(value, Decimal):
        return _decimal(value)
    if type(value).__module__ == "numpy":
        return _numpy(value)
    return None


def _zone(value: dt.datetime) -> str:
    key = getattr(value.tzinfo, "key", None)
    if isinstance(key, str):
        return key
    offset = value.utcoffset() or dt.timedelta()
    minutes = offset // dt.timedelta(minutes=1)
    sign = "-" if minutes < 0 else "+"
    return f"{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _decimal(value: Decimal) -> tuple[str, int, str] | None:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"the parameter {value} isn't a number")
    number = int("".join(map(str, digits)) or "0")
    if exponent > 0:
        number, exponent = number * 10**exponent, 0
    if number >= 10**38 or -exponent > 38:
        raise OverflowError(f"the parameter {value} has more than 38 digits")
    return "decimal", -number if sign else number, str(-exponent)


def _numpy(value: object) -> tuple[str, int, str | None] | None:
    import numpy as np

    if isinstance(value, np.datetime64):
        unit = np.datetime_data(value.dtype)[0]
        if unit == "D":
            return "date", int(value.astype("datetime64[D]").astype(np.int64)), None
        if unit == "ns":
            return "timestamp_ns", int(value.astype(np.int64)), None
        return "timestamp", int(value.astype("datetime64[us]").astype(np.int64)), None
    if isinstance(value, np.timedelta64):
        return "duration", int(value.astype("timedelta64[us]").astype(np.int64)), None
    return None


def date(days: int, _: int) -> dt.date:
    """The date so many days after 1970-01-01."""
    try:
        return _EPOCH_DATE + dt.timedelta(days=days)
    except OverflowError:
        raise _beyond("date", f"{days} days after 1970-01-01") from None


def time(count: int, scale: int) -> dt.time:
    """The time of day after so many parts of a second."""
    since = dt.datetime.min + dt.timedelta(microseconds=_microseconds(count, scale))
    return since.time()


def duration(count: int, scale: int) -> dt.timedelta:
    """So many parts of a second."""
    try:
        return dt.timedelta(microseconds=_microseconds(count, scale))
    except OverflowError:
        raise _beyond("duration", f"{count} / {scale} seconds") from None


def timestamp(count: int, scale: int, zone: str | None) -> dt.datetime:
    """The moment so many parts of a second after 1970-01-01."""
    since = dt.timedelta(microseconds=_microseconds(count, scale))
    try:
        if zone is None:
            return _EPOCH + since
        return (_EPOCH_UTC + since).astimezone(_zone_of(zone))
    except OverflowError:
        raise _beyond("timestamp", f"{count} / {scale} seconds after 1970-01-01") from None


def _microseconds(count: int, scale: int) -> int:
    whole, rest = divmod(count * 1_000_000, scale)
    if rest:
        raise InvalidError(
            f"Python's times have whole microseconds, and {count} nanoseconds aren't: "
            "read them with to_arrow() or to_pandas()"
        )
    return whole


def _zone_of(zone: str) -> dt.tzinfo:
    if zone[:1] in "+-":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        offset = dt.timedelta(hours=hours, minutes=minutes)
        return dt.timezone(-offset if zone[0] == "-" else offset)
    from zoneinfo import ZoneInfo

    return ZoneInfo(zone)


def _beyond(what: str, value: str) -> Exception:
    return InvalidError(
        f"the {what} {value} is outside of what Python has, years 1 to 9999: read it with to_arrow()"
    )
