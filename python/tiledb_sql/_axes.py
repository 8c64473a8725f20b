"""The dimensions of dense arrays as axes of xarray: integers, or times counted in their unit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from ._array import Array
from ._errors import InvalidError

# Longer dimensions are those of arrays that grow. Their datasets are the box around the written cells.
LONGEST = 2**27

# The units of NumPy for TileDB's. Finer ones don't reach the present.
_UNITS = {
    "DATETIME_YEAR": "Y",
    "DATETIME_MONTH": "M",
    "DATETIME_WEEK": "W",
    "DATETIME_DAY": "D",
    "DATETIME_HR": "h",
    "DATETIME_MIN": "m",
    "DATETIME_SEC": "s",
    "DATETIME_MS": "ms",
    "DATETIME_US": "us",
    "DATETIME_NS": "ns",
}


class Axis(NamedTuple):
    """A dimension, with its first and last coordinate. Those of times are counts of the unit since 1970."""

    name: str
    low: int
    high: int
    unit: str | None

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.high - self.low + 1

    def coordinates(self) -> Any:
        """All coordinates, or None if they are only numbers from 0 on, or too many."""
        if self.size > LONGEST or (self.unit is None and self.low == 0):
            return None
        counts = numpy.arange(self.low, self.high + 1)
        if self.unit is None:
            return counts
        times = counts.astype(f"datetime64[{self.unit}]")
        # xarray has no units above seconds.
        return times if self.unit in ("s", "ms", "us", "ns") else times.astype("datetime64[s]")

    def at(self, position: int) -> Any:
        """The coordinate of a position, as a parameter in SQL."""
        count = self.low + position
        if self.unit is None:
            return count
        time: Any = numpy.int64(count).astype(f"datetime64[{self.unit}]")
        return time if self.unit in ("D", "ns") else time.astype("datetime64[us]")


def axes_of(array: Array) -> list[Axis]:
    """The dimensions of a dense array."""
    found = array._describe(
        "tiledb_schema",
        "domain_low, domain_high, current_domain_low, current_domain_high",
        "WHERE role = 'dimension' ORDER BY position",
    )
    units = [_UNITS.get(dimension.type) for dimension in array.dims]
    try:
        axes = [
            Axis(d.name, _count(now_low or low, unit), _count(now_high or high, unit), unit)
            for d, unit, (low, high, now_low, now_high) in zip(array.dims, units, found)
        ]
        if any(axis.size > LONGEST for axis in axes):
            written = array.nonempty_domain
            bounds = [written[axis.name] for axis in axes] if written else [(axis.low, axis.low - 1) for axis in axes]
            axes = [Axis(a.name, _count(low, a.unit), _count(high, a.unit), a.unit) for a, (low, high) in zip(axes, bounds)]
    except (TypeError, ValueError):
        kinds = ", ".join(f"{d.name} {d.type}" for d in array.dims)
        raise InvalidError(
            f"{array.uri} has dimensions that are neither integers nor dates ({kinds}): read it with SQL, and use to_xarray(dims=…)"
        ) from None
    return axes


def _count(bound: Any, unit: str | None) -> int:
    if unit is None or isinstance(bound, int):
        return int(bound)
    return int(numpy.datetime64(bound).astype(f"datetime64[{unit}]").astype(numpy.int64))
