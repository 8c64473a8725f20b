"""Indexes and ranges of arrays, as coordinates and as conditions in SQL."""

from __future__ import annotations

from typing import Any

from ._text import name_in_sql


def is_array(key: Any) -> bool:
    return type(key).__module__ == "numpy" and hasattr(key, "shape") and bool(key.shape)


def expanded(key: Any, dims: int, uri: str) -> list[Any]:
    """One key for each dimension."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(k is Ellipsis for k in keys):
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        keys[at : at + 1] = [slice(None)] * max(dims - len(keys) + 1, 0)
    if len(keys) > dims:
        raise IndexError(f"{len(keys)} indexes for {uri}, which has {dims} dimensions")
    for k in keys:
        if isinstance(k, slice) and k.step is not None:
            raise IndexError(f"the index {k.start}:{k.stop}:{k.step} has a step, which arrays don't take: read the range, then take steps of it")
    return keys + [slice(None)] * (dims - len(keys))


def range_of(name: str, low: int, high: int, key: Any, included: bool) -> tuple[int, int, bool]:
    """The first and the last coordinate, and whether the key is a single one."""
    if isinstance(key, slice):
        first = low if key.start is None else _integer(name, key.start)
        last = high if key.stop is None else _integer(name, key.stop) - (0 if included else 1)
    else:
        first = last = _integer(name, key)
    if first > last:
        return first, last, not isinstance(key, slice)
    if first < low or last > high:
        raise IndexError(f"the index {key} of the dimension {name} is outside of its domain, {low} to {high}")
    return first, last, not isinstance(key, slice)


def _integer(name: str, value: Any) -> int:
    try:
        return int(value.__index__())
    except AttributeError:
        raise IndexError(f"the index {value!r} of the dimension {name} isn't an integer") from None


def check_integers(name: str, domain: tuple[int, int], key: Any, included: bool) -> None:
    """Fails for a coordinate outside of the domain of a dimension of integers, and for what isn't one."""
    keys = key if isinstance(key, (list, tuple, set)) or is_array(key) else [key]
    for k in keys:
        range_of(name, *domain, k, included)


def condition(name: str, key: Any, included: bool, used: int) -> tuple[list[str], list[Any]]:
    column = name_in_sql(name)
    if isinstance(key, slice):
        parts, params = [], []
        if key.start is not None:
            params.append(key.start)
            parts.append(f"{column} >= ${used + len(params)}")
        if key.stop is not None:
            params.append(key.stop)
            parts.append(f"{column} {'<=' if included else '<'} ${used + len(params)}")
        return parts, params
    if isinstance(key, (list, tuple, set)) or is_array(key):
        values = list(key)
        if not values:
            return ["false"], []
        marks = ", ".join(f"${used + i + 1}" for i in range(len(values)))
        return [f"{column} IN ({marks})"], values
    return [f"{column} = ${used + 1}"], [key]


__all__ = ["check_integers", "condition", "expanded", "is_array", "range_of"]
