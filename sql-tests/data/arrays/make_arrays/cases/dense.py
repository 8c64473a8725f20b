"""Dense arrays: tiles sticking out of the domain, partial and overlapping writes, fill values, consolidation.

A dense dimension never reaches its type's maximum here: libtiledb 2.30 loops forever on it.
"""

import struct

import numpy as np

from cases import case
from capi import TYPES, VAR
from tdbarray import Array, Attr, Dim, Spec


def grid(lo, hi, extent, lo2=None, hi2=None, extent2=None, t="INT32"):
    dims = [Dim("y", t, lo, hi, extent)]
    return dims if lo2 is None else [*dims, Dim("x", t, lo2, hi2, extent2)]


def numbered(box, base):
    n = int(np.prod([hi - lo + 1 for lo, hi in box]))
    return np.arange(base, base + n)


@case("dense_ragged", "domain not a multiple of the extents, negative bounds", "dense", "ragged", rows=77)
def dense_ragged(path):
    box = [(-5, 5), (-3, 3)]
    Array(path).create(Spec(grid(-5, 5, 4, -3, 3, 5), [Attr("a", "INT64")]), 1000).write({"a": numbered(box, 0)}, 1000, box)


@case("dense_extent_is_domain", "one tile larger than what is written", "dense", rows=6)
def dense_extent_is_domain(path):
    Array(path).create(Spec(grid(0, 99, 100), [Attr("a", "INT64")]), 1000).write({"a": numbered([(0, 5)], 0)}, 1000, [(47, 52)])


@case("dense_extent_one", "tiles of one cell", "dense", rows=12)
def dense_extent_one(path):
    box = [(2, 4), (1, 4)]
    Array(path).create(Spec(grid(0, 9, 1, 0, 9, 1), [Attr("a", "UINT8")]), 1000).write({"a": numbered(box, 0)}, 1000, box)


for _t in ("INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64"):
    @case(f"dense_limits_{_t.lower()}", f"a dense {_t} dimension from the type's minimum to just below its maximum, one fragment at each end", "dense", "limits")
    def dense_limits(path, t=_t):
        i = np.iinfo(np.dtype(TYPES[t][2]))
        lo, hi = int(i.min), int(i.max) - 8
        wide = t not in ("INT8", "UINT8")  # the bounding box of both ends would be too many rows
        a = Array(path).create(Spec([Dim("d", t, lo, hi, 7)], [Attr("a", "INT32")]), 1000)
        a.write({"a": np.arange(5)}, 1000, [(hi - 9, hi - 5)])
        a.write({"a": np.arange(10, 15)}, 2000, [(hi - 5, hi - 1)] if wide else [(lo, lo + 4)])


@case("dense_minimum_int64", "the cells at the minimum of int64", "dense", "limits", rows=9)
def dense_minimum_int64(path):
    lo = -(2**63)
    Array(path).create(Spec([Dim("d", "INT64", lo, lo + 1000, 4)], [Attr("a", "INT32")]), 1000).write({"a": np.arange(9)}, 1000, [(lo, lo + 8)])


@case("dense_one_cell", "one cell in a domain of one cell", "dense", rows=1)
def dense_one_cell(path):
    Array(path).create(Spec(grid(7, 7, 1, -1, -1, 1), [Attr("a", "FLOAT32")]), 1000).write({"a": [1.5]}, 1000, [(7, 7), (-1, -1)])


@case("dense_partial_unaligned", "a write that is not aligned with tiles", "dense", "partial", rows=30)
def dense_partial_unaligned(path):
    box = [(3, 7), (2, 7)]
    Array(path).create(Spec(grid(1, 12, 4, 1, 12, 5), [Attr("a", "INT32"), Attr("s", "STRING_UTF8", VAR)]), 1000).write(
        {"a": numbered(box, 100), "s": [f"ü{i}" for i in range(30)]}, 1000, box)


@case("dense_overlapping", "six fragments over one another, none tile-aligned", "dense", "overlap", windows=[(0, 1000), (0, 3000), (2000, 4000), (6000, 6000), (7000, 8000)])
def dense_overlapping(path):
    a = Array(path).create(Spec(grid(0, 15, 5, 0, 15, 6), [Attr("a", "INT32"), Attr("v", "INT16", VAR)]), 1000)
    boxes = [[(0, 15), (0, 15)], [(2, 9), (3, 11)], [(8, 14), (0, 5)], [(5, 5), (0, 15)], [(0, 15), (7, 7)], [(3, 12), (3, 12)]]
    for k, box in enumerate(boxes, 1):
        n = numbered(box, 1000 * k)
        a.write({"a": n, "v": [[k] * (int(i) % 3) for i in n]}, 1000 * k, box)


@case("dense_disjoint", "two fragments far apart: fill values inside the bounding box", "dense", "fill", windows=[(0, 1000)])
def dense_disjoint(path):
    attrs = [Attr("a", "INT32"), Attr("f", "FLOAT64"), Attr("n", "INT16", nullable=True), Attr("s", "STRING_ASCII", VAR), Attr("t", "DATETIME_MS"), Attr("b", "UINT8", 3), Attr("u", "STRING_UTF8", VAR, nullable=True)]
    a = Array(path).create(Spec(grid(0, 19, 6, 0, 9, 4), attrs), 1000)
    for ts, box in ((1000, [(1, 3), (1, 2)]), (2000, [(9, 11), (4, 6)])):
        n = numbered(box, ts)
        k = len(n)
        a.write({"a": n, "f": n / 2, "n": [None if i % 2 else int(i) for i in n], "s": [f"s{i}" for i in n], "t": n, "b": np.stack([n % 250] * 3, 1), "u": [None if i % 3 == 0 else "é" for i in range(k)]}, ts, box)


@case("dense_default_fills", "the default fill value of every datatype that has a readable one", "dense", "fill")
def dense_default_fills(path):
    types = [t for t in TYPES if t not in ("CHAR", "ANY")]
    attrs, cells = [], {}
    for t in types:
        text = t.startswith("STRING") or t in ("BLOB", "GEOM_WKB", "GEOM_WKT")
        attrs.append(Attr(t.lower(), t))
        cells[t.lower()] = ["a"] * 2 if text else [1, 1]
        attrs.append(Attr("var_" + t.lower(), t, VAR))
        cells["var_" + t.lower()] = ["ab"] * 2 if text else [[1, 0], []]
    a = Array(path).create(Spec(grid(0, 9, 4), attrs), 1000)
    a.write(cells, 1000, [(0, 1)])
    a.write(cells, 2000, [(6, 7)])


@case("dense_custom_fills", "fill values of one's own, also for nullable, multi-value and var-sized attributes", "dense", "fill", "nullable")
def dense_custom_fills(path):
    attrs = [Attr("i", "INT32", fill=struct.pack("<i", -99)), Attr("f", "FLOAT32", fill=struct.pack("<I", 0x7FC0BEEF)), Attr("p", "UINT16", 2, fill=struct.pack("<HH", 7, 8)),
             Attr("s", "STRING_UTF8", VAR, fill="fehlt–".encode()), Attr("v", "INT64", VAR, fill=struct.pack("<qq", 1, -1)), Attr("c", "CHAR", 4, fill=b"none"),
             Attr("null", "INT32", nullable=True, fill=struct.pack("<i", 5), fill_valid=0), Attr("valid", "INT32", nullable=True, fill=struct.pack("<i", 6), fill_valid=1),
             Attr("svalid", "STRING_ASCII", VAR, nullable=True, fill=b"default", fill_valid=1), Attr("t", "DATETIME_DAY", fill=struct.pack("<q", 365)), Attr("flag", "BOOL", fill=b"\1")]
    a = Array(path).create(Spec(grid(0, 19, 5), attrs), 1000)
    for ts, lo in ((1000, 2), (2000, 14)):
        a.write({"i": [1, 2, 3], "f": [1, 2, 3], "p": [[1, 2], [3, 4], [5, 6]], "s": ["a", "", "b"], "v": [[1], [], [2, 3]], "c": ["abcd"] * 3, "null": [1, None, 3], "valid": [None, 2, 3],
                 "svalid": [None, "", "x"], "t": [0, 1, 2], "flag": [0, 1, 0]}, ts, [(lo, lo + 2)])


def nullable(path, names):
    kinds = {"i": ("INT32", 1), "f": ("FLOAT64", 1), "p": ("INT8", 3), "s": ("STRING_ASCII", VAR), "v": ("FLOAT32", VAR)}
    value = {"i": lambda i: i, "f": lambda i: i / 3, "p": lambda i: [i, -i, 0], "s": lambda i: "s" * (i % 4), "v": lambda i: [i] * (i % 3)}
    a = Array(path).create(Spec(grid(0, 39, 10), [Attr(n, *kinds[n], nullable=True) for n in names]), 1000)
    a.write({n: [None if 10 <= i < 20 or i % 7 == 3 else value[n](i) for i in range(40)] for n in names}, 1000, [(0, 39)])


# All five attributes in one array: libtiledb 2.30 crashes while writing (any four of them are fine).
for _name, _attrs in {"fixed": "ifp", "var": "sv"}.items():
    case(f"dense_nullable_{_name}", f"nullable {_name}-sized attributes, an all-null tile among them", "dense", "nullable", rows=40)(lambda path, a=_attrs: nullable(path, a))


@case("dense_all_null", "nothing but nulls, nothing but empty strings", "dense", "nullable", rows=12)
def dense_all_null(path):
    a = Array(path).create(Spec(grid(0, 11, 5), [Attr("i", "INT32", nullable=True), Attr("s", "STRING_UTF8", VAR, nullable=True), Attr("e", "STRING_ASCII", VAR, filters=["gzip"])]), 1000)
    a.write({"i": [None] * 12, "s": [None] * 12, "e": [""] * 12}, 1000, [(0, 11)])


@case("dense_var_2d", "var-sized attributes in a 2-D array, written in two overlapping slabs", "dense", "var")
def dense_var_2d(path):
    a = Array(path).create(Spec(grid(0, 8, 4, 0, 8, 3), [Attr("s", "STRING_UTF8", VAR), Attr("l", "UINT32", VAR), Attr("b", "BLOB", VAR)]), 1000)
    for k, box in ((1, [(0, 8), (0, 8)]), (2, [(3, 6), (2, 5)])):
        n = numbered(box, 0)
        a.write({"s": ["ä€" * ((int(i) + k) % 4) for i in n], "l": [[k * 100 + int(i)] * (int(i) % 3) for i in n], "b": [bytes([k, int(i) % 256]) * (int(i) % 2) for i in n]}, 1000 * k, box)


@case("dense_empty", "an array without fragments has no rows", "dense", "empty", rows=0)
def dense_empty(path):
    Array(path).create(Spec(grid(0, 9, 5, 0, 9, 5), [Attr("a", "INT32")]), 1000)


@case("dense_anonymous", "one attribute without a name", "dense", "anonymous", rows=8)
def dense_anonymous(path):
    Array(path).create(Spec(grid(1, 8, 3), [Attr("", "FLOAT64")]), 1000).write({"": np.arange(8) / 4}, 1000, [(1, 8)])


@case("dense_anonymous_taken", "an attribute without a name beside one that is called attr", "dense", "anonymous", rows=4)
def dense_anonymous_taken(path):
    Array(path).create(Spec(grid(1, 4, 3), [Attr("", "INT32"), Attr("attr", "INT32")]), 1000).write({"": [1, 2, 3, 4], "attr": [5, 6, 7, 8]}, 1000, [(1, 4)])


@case("odd_names", "field names with spaces, quotes, slashes, percent signs, capitals and non-ASCII letters", "sparse", "names", rows=2)
def odd_names(path):
    names = ["with space", "Größe", "a/b", "100%", "quote\"d", "Upper", "upper", "semi;colon", "select", "dot.ted", "日本", "x'y", "c:\\d"]
    spec = Spec([Dim("dim ension", "INT32", 0, 9, 5)], [Attr(n, "INT32") for n in names], sparse=True)
    Array(path).create(spec, 1000).write({"dim ension": [1, 2], **{n: [i, i + 100] for i, n in enumerate(names)}}, 1000)


@case("dense_consolidated", "fragments consolidated into one and vacuumed", "dense", "consolidated", windows=[(0, 1000), (0, 3000)])
def dense_consolidated(path):
    a = Array(path).create(Spec(grid(0, 11, 4, 0, 11, 5), [Attr("a", "INT32"), Attr("s", "STRING_ASCII", VAR), Attr("n", "INT8", nullable=True)]), 1000)
    for k, box in enumerate([[(0, 11), (0, 11)], [(2, 7), (2, 7)], [(5, 9), (6, 11)]], 1):
        n = numbered(box, 1000 * k)
        a.write({"a": n, "s": [str(i) * (int(i) % 2) for i in n], "n": [None if i % 5 == k else int(i) % 100 for i in n]}, 1000 * k, box)
    a.consolidate()
    a.vacuum()


@case("dense_consolidated_kept", "consolidated but not vacuumed: the .vac file hides the originals, history still answers", "dense", "consolidated", "vac", windows=[(0, 1000), (2000, 2000), (0, 2000), (0, 3000)])
def dense_consolidated_kept(path):
    a = Array(path).create(Spec(grid(0, 11, 4), [Attr("a", "INT32")]), 1000)
    for k, box in enumerate([[(0, 11)], [(2, 7)]], 1):
        a.write({"a": numbered(box, 1000 * k)}, 1000 * k, box)
    a.consolidate()
    a.write({"a": numbered([(5, 9)], 3000)}, 3000, [(5, 9)])


@case("dense_consolidated_padding", "two separate boxes consolidated: the cells between them now really hold fill values, in statistics too", "dense", "consolidated", "fill")
def dense_consolidated_padding(path):
    a = Array(path).create(Spec(grid(0, 29, 4), [Attr("a", "INT32"), Attr("f", "FLOAT64"), Attr("n", "INT16", nullable=True), Attr("s", "STRING_UTF8", VAR)]), 1000)
    for k, (lo, hi) in enumerate([(1, 5), (11, 13), (22, 27)], 1):
        n = numbered([(lo, hi)], 10 * k)
        a.write({"a": n, "f": n / 2, "n": [None if i % 2 else int(i) for i in n], "s": [f"s{i}" for i in n]}, 1000 * k, [(lo, hi)])
    a.consolidate(**{"amplification": 10.0})
    a.vacuum()


@case("dense_datetime", "a day dimension and a month dimension, before and after 1970", "dense", "datetime_dim", rows=35)
def dense_datetime(path):
    for_days = [(-3, 31)]
    Array(path).create(Spec([Dim("day", "DATETIME_DAY", -36500, 36500, 30)], [Attr("close", "FLOAT64"), Attr("note", "STRING_UTF8", VAR, nullable=True)]), 1000).write(
        {"close": np.round(100 + np.sin(np.arange(35)) * 5, 2), "note": [None if i % 5 else f"n{i}" for i in range(35)]}, 1000, for_days)


@case("dense_datetime_2d", "two time dimensions in seconds", "dense", "datetime_dim", rows=48)
def dense_datetime_2d(path):
    t0 = 1_700_000_000
    box = [(t0 + 10, t0 + 15), (t0 - 4, t0 + 3)]
    Array(path).create(Spec([Dim("seen", "DATETIME_SEC", t0 - 100, t0 + 100, 4), Dim("valid", "DATETIME_SEC", t0 - 100, t0 + 100, 3)], [Attr("a", "INT32")]), 1000).write({"a": numbered(box, 0)}, 1000, box)


@case("dense_global_write", "tiles written in global order", "dense", "global_write", rows=64)
def dense_global_write(path):
    box = [(0, 7), (0, 7)]
    Array(path).create(Spec(grid(0, 7, 4, 0, 7, 4), [Attr("a", "INT32")]), 1000).write({"a": numbered(box, 0)}, 1000, box, "global")


@case("dense_many_fragments", "30 small fragments, each a row of tiles later", "dense", "many_fragments", windows=[(1000, 1015)])
def dense_many_fragments(path):
    a = Array(path).create(Spec(grid(0, 63, 8), [Attr("a", "INT32")]), 1000)
    for k in range(30):
        lo = (k * 11) % 58
        a.write({"a": np.arange(6) + 100 * k}, 1000 + k, [(lo, lo + 5)])
