"""The neutral form of an array's contents: raw cells of libtiledb -> the lines of `<name>.expected.jsonl`.

First line: `{"columns":[{"name","type"},…]}`, then one JSON array per row, the rows sorted as bytes. Types are Arrow's names as
arrow-rs displays them (`Timestamp(ns)`, `FixedSizeList(3 x Int32)`, `Dictionary(Int8, Utf8View)`), without the nullability of list
items. Nothing is rounded: floats are their IEEE bits, binary is hex, dates and times the integer of the Arrow unit.
"""

import json
import struct

from capi import TYPES, VAR

NAT = -(2**63)
INTS = {"INT8": "Int8", "UINT8": "UInt8", "INT16": "Int16", "UINT16": "UInt16", "INT32": "Int32", "UINT32": "UInt32",
        "INT64": "Int64", "UINT64": "UInt64"}
STRUCT = {"INT8": "b", "UINT8": "B", "INT16": "h", "UINT16": "H", "INT32": "i", "UINT32": "I", "INT64": "q", "UINT64": "Q"}
TEXT = {"CHAR": "utf-8", "STRING_ASCII": "utf-8", "STRING_UTF8": "utf-8", "GEOM_WKT": "utf-8", "STRING_UTF16": "utf-16-le",
        "STRING_UCS2": "utf-16-le", "STRING_UTF32": "utf-32-le", "STRING_UCS4": "utf-32-le"}
BINARY = {"BLOB", "GEOM_WKB", "ANY"}
TIMESTAMP = {"HR": ("s", 3600), "MIN": ("s", 60), "SEC": ("s", 1), "MS": ("ms", 1), "US": ("µs", 1), "NS": ("ns", 1)}
TIME = {"HR": 3600 * 10**9, "MIN": 60 * 10**9, "SEC": 10**9, "MS": 10**6, "US": 10**3, "NS": 1}
DURATION = {"HR": ("s", 3600), "MIN": ("s", 60), "SEC": ("s", 1), "MS": ("ms", 1), "US": ("µs", 1), "NS": ("ns", 1)}


class Refused(Exception):
    """The value has no place in the Arrow type: reading it is an error by the project's rules."""


def days_from_civil(year, month):
    """Days since 1970-01-01 of the first day of a month, for any year (proleptic Gregorian)."""
    year -= month <= 2
    era = year // 400
    yoe = year - era * 400
    doy = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5
    return era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468


def _in(value, lo, hi, what):
    if not lo <= value <= hi:
        raise Refused(f"{value} is outside {what}")
    return value


def _date(unit, v):
    if unit == "DAY":
        days = v
    elif unit == "WEEK":
        days = v * 7
    elif unit == "MONTH":
        days = days_from_civil(1970 + v // 12, v % 12 + 1)
    else:
        days = days_from_civil(1970 + v, 1)
    return _in(days, -(2**31), 2**31 - 1, "Date32")


class Codec:
    """Arrow type and cell encoder of one field. `durations` is the option `tiledb.time_as = duration`."""

    def __init__(self, tdb_type, cell_val_num, is_dim=False, durations=False):
        self.t, self.n, self.is_dim, self.durations = tdb_type, cell_val_num, is_dim, durations
        self.size = TYPES[tdb_type][1]

    def arrow(self):
        if self.t in TEXT:
            return "Utf8View"
        if self.t in BINARY:
            return "BinaryView" if self.n == VAR else f"FixedSizeBinary({self.n * self.size})"
        inner = self._element_type()
        if self.n == VAR:
            return f"List({inner})"
        return inner if self.n == 1 else f"FixedSizeList({self.n} x {inner})"

    def is_plain(self):
        """Whether an enumeration of such values is a plain column: one number, boolean, date or time."""
        return self.n == 1 and self.t not in TEXT and self.t not in BINARY

    def _element_type(self):
        if self.t in INTS:
            return INTS[self.t]
        if self.t in ("FLOAT32", "FLOAT64", "BOOL"):
            return {"FLOAT32": "Float32", "FLOAT64": "Float64", "BOOL": "Boolean"}[self.t]
        kind, unit = self.t.split("_")
        if unit in ("PS", "FS", "AS"):
            return "Int64"
        if kind == "TIME":
            return f"Duration({DURATION[unit][0]})" if self.durations else "Time64(ns)"
        return f"Timestamp({TIMESTAMP[unit][0]})" if unit in TIMESTAMP else "Date32"

    def cell(self, data):
        """One cell's bytes as the value that goes into the JSON row."""
        if self.t in TEXT:
            try:
                return data.decode(TEXT[self.t])
            except UnicodeDecodeError as e:
                raise Refused(f"{self.t}: {e}") from e
        if self.t in BINARY:
            return {"x": data.hex()}
        values = [self._element(data[i:i + self.size]) for i in range(0, len(data), self.size)]
        return values[0] if self.n == 1 else values

    def _element(self, b):
        if self.t in STRUCT:
            return struct.unpack("<" + STRUCT[self.t], b)[0]
        if self.t.startswith("FLOAT"):
            return b[::-1].hex()
        if self.t == "BOOL":
            return b != b"\0"
        (v,) = struct.unpack("<q", b)
        if v == NAT and not self.is_dim:
            return None
        kind, unit = self.t.split("_")
        if unit in ("PS", "FS", "AS"):
            return v
        if kind == "TIME":
            if self.durations:
                return _in(v * DURATION[unit][1], -(2**63), 2**63 - 1, "Duration")
            return _in(v * TIME[unit], 0, 86400 * 10**9 - 1, "the day")
        if unit in TIMESTAMP:
            return _in(v * TIMESTAMP[unit][1], -(2**63), 2**63 - 1, "Timestamp(s)")
        return _date(unit, v)


def line(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def document(columns, rows):
    """The whole file: header line, then the rows sorted by bytes."""
    lines = sorted(line(r) for r in rows)
    return "\n".join([line({"columns": [{"name": n, "type": t} for n, t in columns]}), *lines]) + "\n"
