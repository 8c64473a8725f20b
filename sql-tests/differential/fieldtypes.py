"""TileDB datatypes, and the column each one becomes in SQL.

A `Field` is a dimension or an attribute. It knows how its raw bytes become a *canonical value* (what the comparison sees):
integers, dates and times are Python ints in the Arrow unit, floats are their IEEE bits, strings are str, binaries are bytes, lists are tuples, NULL is None.
"""

from dataclasses import dataclass, field as dc_field

import numpy as np
import pyarrow as pa

from ctiledb import VAR

# name -> (id, numpy code)
DATATYPES = {
    "INT32": (0, "<i4"), "INT64": (1, "<i8"), "FLOAT32": (2, "<f4"), "FLOAT64": (3, "<f8"), "CHAR": (4, "u1"), "INT8": (5, "i1"), "UINT8": (6, "u1"),
    "INT16": (7, "<i2"), "UINT16": (8, "<u2"), "UINT32": (9, "<u4"), "UINT64": (10, "<u8"), "STRING_ASCII": (11, "u1"), "STRING_UTF8": (12, "u1"),
    "STRING_UTF16": (13, "<u2"), "STRING_UTF32": (14, "<u4"), "STRING_UCS2": (15, "<u2"), "STRING_UCS4": (16, "<u4"), "ANY": (17, "u1"),
    "BLOB": (40, "u1"), "BOOL": (41, "u1"), "GEOM_WKB": (42, "u1"), "GEOM_WKT": (43, "u1"),
}
for _i, _unit in enumerate("YEAR MONTH WEEK DAY HR MIN SEC MS US NS PS FS AS".split()):
    DATATYPES["DATETIME_" + _unit] = (18 + _i, "<i8")
for _i, _unit in enumerate("HR MIN SEC MS US NS PS FS AS".split()):
    DATATYPES["TIME_" + _unit] = (31 + _i, "<i8")

INTEGERS = ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64"]
FLOATS = ["FLOAT32", "FLOAT64"]
DATETIMES = [t for t in DATATYPES if t.startswith("DATETIME_")]
TIMES = [t for t in DATATYPES if t.startswith("TIME_")]
TEXTS = ["CHAR", "STRING_ASCII", "STRING_UTF8", "GEOM_WKT"]
WIDE_TEXTS = {"STRING_UTF16": "utf-16-le", "STRING_UCS2": "utf-16-le", "STRING_UTF32": "utf-32-le", "STRING_UCS4": "utf-32-le"}
BINARIES = ["BLOB", "GEOM_WKB", "ANY"]
NS_PER = {"HR": 3600 * 10**9, "MIN": 60 * 10**9, "SEC": 10**9, "MS": 10**6, "US": 10**3, "NS": 1}
NAT = -(2**63)
DAY_NS = 86400 * 10**9


def size_of(datatype):
    return np.dtype(DATATYPES[datatype][1]).itemsize


def int_range(datatype):
    info = np.iinfo(DATATYPES[datatype][1])
    return int(info.min), int(info.max)


def days_from_civil(year, month):
    """Days from 1970-01-01 to the first of a month, proleptic Gregorian, any year."""
    year -= month <= 2
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468


def scale_temporal(datatype, raw):
    """A stored date/time integer in the unit of its Arrow column."""
    kind, unit = datatype.split("_")
    if unit in ("PS", "FS", "AS"):
        return raw
    if kind == "TIME":
        return raw * NS_PER[unit]
    if unit == "YEAR":
        return days_from_civil(1970 + raw, 1)
    if unit == "MONTH":
        return days_from_civil(1970 + raw // 12, raw % 12 + 1)
    return raw * {"WEEK": 7, "HR": 3600, "MIN": 60}.get(unit, 1)


@dataclass
class Enumeration:
    name: str
    datatype: str
    values: list  # canonical values
    raw: bytes
    offsets: object = None  # numpy u64 or None
    ordered: bool = False

    def pieces(self):
        """The members as raw bytes."""
        if self.offsets is None:
            size = size_of(self.datatype)
            return [self.raw[i : i + size] for i in range(0, len(self.raw), size)]
        bounds = [*self.offsets.tolist(), len(self.raw)]
        return [self.raw[a:b] for a, b in zip(bounds, bounds[1:])]


@dataclass
class Field:
    name: str
    datatype: str
    is_dim: bool = False
    ncell: int = 1  # cell_val_num, VAR for variable
    nullable: bool = False
    fill: bytes = None
    fill_valid: int = 0
    pipeline: list = dc_field(default_factory=list)
    chunk_size: int = None
    enumeration: Enumeration = None
    domain: tuple = None  # raw numpy scalars, dimensions only
    extent: object = None
    tame: bool = False  # values must stay small (double delta, scale float)
    sorted_values: bool = False
    max_length: int = 12
    window: int = 1  # dense dimensions: how many cells of it the data may touch

    @property
    def column(self):
        return self.name or "attr"

    @property
    def is_var(self):
        return self.ncell == VAR

    @property
    def dtype(self):
        return np.dtype(DATATYPES[self.datatype][1])

    @property
    def cell_size(self):
        return self.dtype.itemsize * self.ncell

    @property
    def kind(self):
        """The class of canonical values: int, bool, f32, f64, str, bin, date, ts_*, time, or list."""
        return value_kind(self.enumeration.datatype, 1) if self.enumeration else ("list" if self.is_list else value_kind(self.datatype, self.ncell))

    @property
    def is_list(self):
        return self.ncell != 1 and self.datatype not in TEXTS + BINARIES and self.datatype not in WIDE_TEXTS

    def default_fill(self):
        """The fill value where the schema gives none."""
        if self.fill is not None:
            return self.fill
        if self.datatype in FLOATS:
            one = np.array([np.nan], self.dtype).tobytes()
        elif self.datatype in INTEGERS:
            low, high = int_range(self.datatype)
            one = np.array([low or high], self.dtype).tobytes()
        elif "TIME_" in self.datatype:
            one = np.array([NAT], self.dtype).tobytes()
        else:
            one = b"\x80" if self.datatype == "CHAR" else bytes(size_of(self.datatype))
        return one if self.is_var else one * self.ncell

    def canonical_type(self):
        """The Arrow type design promises for this column."""
        if self.enumeration:
            value = _scalar_arrow(self.enumeration.datatype)
            plain = self.enumeration.datatype not in TEXTS + BINARIES and self.enumeration.datatype not in WIDE_TEXTS
            return value if plain else pa.dictionary(pa.from_numpy_dtype(self.dtype), value)
        if self.is_list:
            item = _scalar_arrow(self.datatype)
            return pa.list_(item) if self.is_var else pa.list_(item, self.ncell)
        if self.datatype in BINARIES and not self.is_var:
            return pa.binary(self.ncell)
        return _scalar_arrow(self.datatype)

    def cells(self, data, offsets, validity):
        """Canonical values of a whole raw column."""
        if self.is_var:
            bounds = list(offsets.tolist()) + [len(data)]
            pieces = [data[a:b] for a, b in zip(bounds, bounds[1:])]
            values = [self.cell(p) for p in pieces] if validity is None else [self.cell(p) if ok else None for p, ok in zip(pieces, validity.tolist())]
            return values
        if self.ncell == 1 and self.datatype not in TEXTS + BINARIES and self.datatype not in WIDE_TEXTS:
            values = self.scalars(data)
        else:
            step, ok = self.cell_size, validity
            pieces = [data[i : i + step] for i in range(0, len(data), step)]
            values = [self.cell(p) if ok is None or ok[i] else None for i, p in enumerate(pieces)]
        if validity is not None:
            values = [v if ok else None for v, ok in zip(values, validity.tolist())]
        if self.enumeration:
            members = self.enumeration.values
            values = [members[v] if v is not None and 0 <= v < len(members) else None for v in values]
        return values

    def cell(self, raw):
        if self.datatype in TEXTS:
            return raw.decode("utf-8", "surrogateescape")  # what is no text comes out as lone surrogates
        if self.datatype in WIDE_TEXTS:
            return raw.decode(WIDE_TEXTS[self.datatype])
        if self.datatype in BINARIES:
            return raw
        return tuple(self.scalars(raw))

    def shown(self, bits, infinity, nan):
        """The bits of a float that SQL sees: one NaN, and one zero among coordinates."""
        sign = 1 << (31 if infinity < 1 << 32 else 63)
        magnitude = bits & (sign - 1)
        if magnitude > infinity:
            return nan
        return 0 if self.is_dim and magnitude == 0 else bits

    def scalars(self, data):
        if self.datatype == "FLOAT32":
            return [self.shown(bits, 0x7F800000, 0x7FC00000) for bits in np.frombuffer(data, "<u4").tolist()]
        if self.datatype == "FLOAT64":
            return [self.shown(bits, 0x7FF0000000000000, 0x7FF8000000000000) for bits in np.frombuffer(data, "<u8").tolist()]
        values = np.frombuffer(data, self.dtype).tolist()
        if self.datatype == "BOOL":
            return [v != 0 for v in values]
        if "TIME_" in self.datatype:
            return [None if v == NAT and not self.is_dim else scale_temporal(self.datatype, v) for v in values]
        return values


def value_kind(datatype, ncell):
    if datatype in INTEGERS:
        return "int"
    if datatype in FLOATS:
        return "f32" if datatype == "FLOAT32" else "f64"
    if datatype == "BOOL":
        return "bool"
    if datatype in TEXTS or datatype in WIDE_TEXTS:
        return "str"
    if datatype in BINARIES:
        return "bin" if ncell == VAR else "fixedbin"
    kind, unit = datatype.split("_")
    if unit in ("PS", "FS", "AS"):
        return "int"
    if kind == "TIME":
        return "time"
    return "date" if unit in ("DAY", "WEEK", "MONTH", "YEAR") else "ts_" + {"HR": "s", "MIN": "s", "SEC": "s"}.get(unit, unit.lower())


def _scalar_arrow(datatype):
    kind = value_kind(datatype, VAR)
    if kind == "int":
        return pa.int64() if "TIME_" in datatype else pa.from_numpy_dtype(np.dtype(DATATYPES[datatype][1]))
    simple = {"f32": pa.float32(), "f64": pa.float64(), "bool": pa.bool_(), "str": pa.string_view(), "bin": pa.binary_view(), "date": pa.date32(), "time": pa.time64("ns")}
    return simple[kind] if kind in simple else pa.timestamp(kind[3:])
