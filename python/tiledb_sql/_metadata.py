"""The metadata of arrays."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from ._text import literal_in_sql, text_in_sql

if TYPE_CHECKING:
    from ._array import Array


class Metadata(MutableMapping[str, Any]):
    """The metadata of an array."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: str) -> Any:
        found = self._array._session.sql(
            "SELECT type, count, value, int_value, uint_value, float_value, elements, bytes "
            f"FROM {self._array._call('tiledb_metadata')} WHERE key = $1",
            [key],
        ).fetchall()
        if not found:
            raise KeyError(key)
        kind, count, value, integer, unsigned, number, elements, stored = found[0]
        if kind in ("STRING_UTF8", "STRING_ASCII", "CHAR"):
            return value
        if kind == "BLOB" or elements is None:
            return stored
        if kind.startswith(("INT", "UINT")):
            return (integer if integer is not None else unsigned) if count == 1 else tuple(map(int, elements))
        if kind.startswith("FLOAT"):
            return number if count == 1 else tuple(map(float, elements))
        return value if count == 1 else tuple(elements)

    def __setitem__(self, key: str, value: Any) -> None:
        self._change(f"tiledb_set_metadata({text_in_sql(self._array.uri)}, {text_in_sql(key)}, {literal_in_sql(value)})")

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._change(f"tiledb_delete_metadata({text_in_sql(self._array.uri)}, {text_in_sql(key)})")

    def _change(self, call: str) -> None:
        self._array._session.sql(f"SELECT * FROM {call}")

    def __iter__(self) -> Iterator[str]:
        return (key for (key,) in self._array._describe("tiledb_metadata", "key", "ORDER BY key"))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<metadata of {self._array.uri!r}: {', '.join(self)}>"


__all__ = ["Metadata"]
