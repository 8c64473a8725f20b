"""Every datatype of each release, as attributes and as dimensions; NaN and dates among coordinates, as each release writes them."""

import numpy as np

from capi import TYPES
from releases import each
from releases.basics import ALL, FEW, SOME
from tdbarray import VAR, Attr, Dim, Spec

# A UTF-8 array of one type per word: those that came later, with the format of the first release here that has them.
SINCE = {"DATETIME": 3, "TIME": 9, "BLOB": 11, "BOOL": 14, "GEOM": 21}


def known(v):
    """The types of a release; of the younger ones each has a quarter of them, in turn (their footers are large)."""
    types = [t for t in TYPES if v >= SINCE.get(t.split("_")[0], 1)]
    return types if v < 11 else [t for i, t in enumerate(types) if i % 4 == v % 4]


def cell(t, i):
    """The i-th value of a type; text and bytes have four elements."""
    width, kind = TYPES[t][1], t.split("_")[0]
    if kind in ("STRING", "CHAR") or t == "GEOM_WKT":
        text = ["wxyz", "abcd", "TU V", "1234"][i % 4]
        return text.encode({1: "ascii", 2: "utf-16-le", 4: "utf-32-le"}[width])
    if kind in ("BLOB", "GEOM", "ANY"):
        return bytes([i, 255 - i, 0, 128])
    if kind.startswith("FLOAT"):
        return [0.0, -1.5, 1e30, float("inf"), 3.25][i % 5]
    if kind == "BOOL":
        return i % 2
    if kind == "TIME":
        return 3 + i if t != "TIME_HR" else i % 24
    if kind == "DATETIME":
        return i * 5 - 10
    info = np.iinfo(np.dtype(TYPES[t][2]))
    return [info.min + 1, info.max - 1, 0, 1, 77][i % 5]


def fixed(t):
    return 4 if cell(t, 0).__class__ is bytes else 1


def attribute(t, var):
    return Attr(f"{'v' if var else 'f'}_{t.lower()}", t, VAR if var else fixed(t))


def var_cell(t, i):
    one = cell(t, i)
    if isinstance(one, bytes):
        w = TYPES[t][1]
        return one[: w * (1 + i % 4)]
    return [cell(t, i + k) for k in range(1 + i % 3)]


@each("types_dense", ALL, "every datatype, fixed-size, in a dense array", "dense", "types")
def types_dense(v):
    def build(a):
        types = [t for t in known(v) if t != "ANY"]  # always var-sized
        a.create(Spec([Dim("x", "INT32", 1, 6, 4)], [attribute(t, False) for t in types]))
        a.write({attribute(t, False).name: [cell(t, i) for i in range(6)] for t in types}, 1000, box=[(1, 6)])

    return build


@each("types_var", ALL, "every datatype, var-sized, in a sparse array", "sparse", "types", "var")
def types_var(v):
    def build(a):
        types = [t for t in known(v) if t != "BOOL"]
        a.create(Spec([Dim("x", "INT32", 1, 20, 4)], [attribute(t, True) for t in types], sparse=True, capacity=4))
        a.write({"x": [2, 3, 5, 7, 11, 13], **{attribute(t, True).name: [var_cell(t, i) for i in range(6)] for t in types}}, 1000)

    return build


@each("multi", FEW, "several values per cell", "sparse", "types")
def multi(v):
    def build(a):
        attrs = [Attr("i", "INT16", 3), Attr("f", "FLOAT64", 2), Attr("c", "CHAR", 5), Attr("u", "UINT64", 4)]
        a.create(Spec([Dim("x", "INT32", 1, 20, 4)], attrs, sparse=True, capacity=3))
        n = range(8)
        a.write({"x": [2 * i + 1 for i in n], "i": [[i, -i, 100 * i] for i in n], "f": [[i / 2, -i] for i in n], "c": ["abcdefghijkl"[i:i + 5] for i in n], "u": [[i, i * i, 2**63 + i, 0] for i in n]}, 1000)

    return build


def dimension_pair(kind, v):
    """Two dimensions of one type (releases before 2.0 know no other arrays)."""
    if kind == "DATETIME_DAY":
        return [Dim("y", kind, -400, 400, 50), Dim("x", kind, -5, 50, 7)]
    info = np.iinfo(np.dtype(TYPES[kind][2]))
    lo = max(info.min + 1, -100)
    return [Dim("y", kind, lo, 100, 9), Dim("x", kind, lo, 60, 20)]


ROTATING = ["INT8", "UINT8", "UINT16", "UINT64", "UINT32"]
for _i, _t in enumerate(ROTATING):

    @each(f"dims_{_t.lower()}", [v for v in ALL if v <= 5 or v % len(ROTATING) == _i], f"dimensions of type {_t}", "sparse", "dimension_type")
    def dims(v, t=_t):
        def build(a):
            pair = dimension_pair(t, v)
            a.create(Spec(pair, [Attr("a", "INT32")], sparse=True, capacity=4))
            n = 12
            a.write({"y": [pair[0].lo + i * 7 for i in range(n)], "x": [pair[1].lo + (i * 17) % 50 for i in range(n)], "a": list(range(n))}, 1000)

        return build


@each("dims_dates", [v for v in SOME if v >= 3], "date dimensions, dense", "dense", "dimension_type", "dates", windows=[(0, 1000)])
def dims_dates(v):
    def build(a):
        a.create(Spec([Dim("d", "DATETIME_DAY", -10, 30, 7)], [Attr("a", "INT32"), Attr("t", "DATETIME_MS")]))
        a.write({"a": list(range(20)), "t": [i * 1000 - 5 for i in range(20)]}, 1000, box=[(-8, 11)])
        a.write({"a": list(range(5)), "t": [i for i in range(5)]}, 2000, box=[(0, 4)])

    return build


# NaN among coordinates: whether sums tell of it, since format 11.

NAN = float("nan")


@each("nan", [v for v in ALL if v > 1], "NaN as a coordinate, which no bounding box shows, beside a fragment without", "sparse", "nan", rows=14)
def nan(v):
    def build(a):
        a.create(Spec([Dim("x", "FLOAT64", -100, 100, 10), Dim("y", "FLOAT64", -100, 100, 10)], [Attr("v", "INT32")], sparse=True, capacity=3))
        a.write({"x": [1, 2, NAN, -3, 4, 5, -1], "y": [1, NAN, 3, 4, 5, 6, 7], "v": list(range(7))}, 1000)
        a.write({"x": [31, 32, 33, 34, 35, 36, 37], "y": [31, 32, 33, 34, 35, 36, 37], "v": list(range(100, 107))}, 2000)

    return build


# Dates on both sides of 1970, which libtiledb 1.6 and 1.7 sorted and bounded as unsigned numbers.

UNITS = ["YEAR", "MONTH", "WEEK", "DAY", "HR", "MIN", "SEC", "MS", "US", "NS", "PS", "FS", "AS"]
SINCE_1970, BEFORE, ACROSS, ACROSS_MORE = [0, 3, 7, 12, 40], [-9, -44, -3, -17], [-1, 0, -90, 80, 5, -6, 61, -30, -2, 1], [-44, 7, 81, -91, 33, -34]


def line(unit, writes):
    def build(a):
        a.create(Spec([Dim("t", f"DATETIME_{unit}", -100, 99, 20)], [Attr("v", "INT32")], sparse=True, capacity=3))
        for i, dates in enumerate(writes):
            a.write({"t": dates, "v": [100 * i + k for k in range(len(dates))]}, 1000 * (i + 1))

    return build


for name in UNITS:
    versions = (3, 4, 5) if name in ("DAY", "NS", "YEAR") else (4,)

    @each(f"dates_{name.lower()}", versions, "dates on both sides of 1970: fragments after, before, and across it", "sparse", "dates", "overwrites", rows=22)
    def dates(v, unit=name):
        return line(unit, [SINCE_1970, BEFORE, ACROSS, ACROSS_MORE])


@each("dates_across", (3, 4), "one fragment of dates across 1970, whose non-empty domain leaves out both ends", "sparse", "dates", rows=10)
def dates_across(v):
    return line("DAY", [ACROSS])


@each("dates_one_tile", (3, 4), "a single tile of dates across 1970", "sparse", "dates", rows=2)
def dates_one_tile(v):
    return line("DAY", [[-50, 50]])


@each("dates_plane", (3, 4, 5), "two dimensions of dates on both sides of 1970", "sparse", "dates", "overwrites", rows=24)
def dates_plane(v):
    def build(a):
        dims = [Dim("t", "DATETIME_DAY", -100, 99, 20), Dim("u", "DATETIME_DAY", -100, 99, 30)]
        a.create(Spec(dims, [Attr("v", "INT32")], sparse=True, capacity=3))
        a.write({"t": [i - 6 for i in range(12)], "u": [(i * 5) % 12 - 6 for i in range(12)], "v": list(range(12))}, 1000)
        a.write({"t": [i - 2 for i in range(15)], "u": [((i + 4) * 5) % 12 - 6 if i < 3 else i - 8 for i in range(15)], "v": list(range(100, 115))}, 2000)

    return build
