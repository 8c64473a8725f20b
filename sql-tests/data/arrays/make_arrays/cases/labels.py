"""Dimension labels: of every type and order, on every kind of dimension, written in parts, rewritten, never written, external.

libtiledb asks for labels in strict order within one write, and for no more: across writes, and with NaN, they may be in any order.
It writes labels of a sparse array only beside consecutive coordinates, so those are written into the label's own array here.
"""

import gzip
import struct

import numpy as np

from cases import case
from capi import TYPES
from tdbarray import Array, Attr, Dim, Label, Spec


@case("dimension_labels", "increasing float and decreasing int labels on a dense array", "dense", "dimension_labels", rows=10)
def dimension_labels(path):
    labels = [Label("depth", 0, "FLOAT64"), Label("rank", 0, "INT32", "decreasing")]
    a = Array(path).create(Spec([Dim("d", "INT32", 1, 10, 4)], [Attr("a", "INT32")], labels=labels), 1000)
    a.write({"a": range(10), "depth": np.arange(10) * 0.5, "rank": np.arange(10, 0, -1).astype("i4")}, 1000, [(1, 10)])


@case("dimension_labels_sparse", "a label declared on a sparse array and never written", "sparse", "dimension_labels", rows=2)
def dimension_labels_sparse(path):
    a = Array(path).create(Spec([Dim("x", "INT32", 0, 99, 10), Dim("y", "INT32", 0, 99, 10)], [Attr("a", "INT32")], sparse=True, labels=[Label("name", 1, "STRING_ASCII")]), 1000)
    a.write({"x": [1, 2], "y": [3, 4], "a": [5, 6]}, 1000)


def label_array(path, number, dim, tdb_type):
    """The array behind a label of an array, to be written on its own."""
    a = Array(path / "__labels" / f"l{number}")
    a.spec = Spec([Dim("index", dim.type, dim.lo, dim.hi, dim.extent)], [Attr("label", tdb_type, *([0xFFFFFFFF] if tdb_type == "STRING_ASCII" else []))])
    return a


NUMBERS = ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "FLOAT32", "FLOAT64"]
DATES = [f"DATETIME_{u}" for u in "YEAR MONTH WEEK DAY HR MIN SEC MS US NS PS FS AS".split()]
TIMES = [f"TIME_{u}" for u in "HR MIN SEC MS US NS PS FS AS".split()]


@case("labels_types", "one label of every type a label can have, increasing and decreasing by turns", "dense", "dimension_labels", rows=12, durations=True)
def labels_types(path):
    types = NUMBERS + DATES + TIMES
    labels = [Label(t.lower(), 0, t, "decreasing" if i % 2 else "increasing") for i, t in enumerate(types)]
    labels += [Label("up", 0, "STRING_ASCII"), Label("down", 0, "STRING_ASCII", "decreasing")]
    a = Array(path).create(Spec([Dim("d", "INT32", 1, 12, 5)], [Attr("a", "INT32")], labels=labels), 1000)
    data = {}
    for label, t in zip(labels, types):
        signed = t.startswith(("INT", "FLOAT", "DATETIME"))
        values = np.arange(12) * (1.25 if t.startswith("FLOAT") else 1) - (6 if signed else 0)
        data[label.name] = np.ascontiguousarray((values[::-1] if label.order == "decreasing" else values).astype(TYPES[t][2]))
    words = ["", "a", "a b", "ab", "b", "ba", "c", "n'n", "x" * 40, "x" * 40 + "y", "z", "~"]
    a.write({"a": range(12), **data, "up": words, "down": words[::-1]}, 1000, [(1, 12)])


@case("labels_grid", "labels on both dimensions of a column-major grid with a negative domain, two on one of them", "dense", "dimension_labels", rows=120)
def labels_grid(path):
    labels = [Label("column", 1, "STRING_ASCII"), Label("northing", 0, "FLOAT64", "decreasing"), Label("easting", 1, "INT64")]
    a = Array(path).create(Spec([Dim("y", "INT16", -5, 6, 5), Dim("x", "INT16", 0, 9, 4)], [Attr("a", "INT32"), Attr("s", "STRING_UTF8", 0xFFFFFFFF)],
                                cell_order="col", tile_order="col", labels=labels), 1000)
    a.write({"a": range(120), "s": [str(i) for i in range(120)], "column": [chr(65 + i) * 3 for i in range(10)], "northing": np.linspace(60.5, 50, 12), "easting": np.arange(10) ** 3}, 1000,
            [(-5, 6), (0, 9)])


for number, (kind, lo) in enumerate([("INT8", -128), ("UINT8", 0), ("UINT64", 2**63), ("INT64", -(2**63)), ("DATETIME_YEAR", -3), ("DATETIME_MONTH", -30), ("DATETIME_WEEK", -2), ("DATETIME_DAY", -5),
                                     ("DATETIME_HR", -100), ("DATETIME_MIN", 7), ("DATETIME_MS", -1), ("DATETIME_AS", 0), ("TIME_HR", 0), ("TIME_SEC", 3), ("TIME_NS", 0)]):

    @case(f"labels_on_{kind.lower()}", f"labels on a dimension of type {kind}", "dense", "dimension_labels", rows=15)
    def labels_on(path, kind=kind, lo=lo):
        dim = Dim("d", kind, lo, lo + 19, 7)
        a = Array(path).create(Spec([dim], [Attr("a", "INT32")], labels=[Label("n", 0, "INT32"), Label("s", 0, "STRING_ASCII", "decreasing")]), 1000)
        a.write({"a": range(15)}, 1000, [(lo, lo + 14)])
        label_array(path, 0, dim, "INT32").write({"label": np.arange(20) * 10}, 1000, [(lo, lo + 19)])
        label_array(path, 1, dim, "STRING_ASCII").write({"label": ["z", "y", "x"]}, 1000, [(lo + 5, lo + 7)])


@case("labels_in_parts", "labels of one part of a dimension, rewritten and continued out of order by later fragments, one never written", "dense", "dimension_labels", rows=20,
      windows=[(0, 1000), (0, 2000), (0, 3000), (2500, 9000), (4000, 4000)])
def labels_in_parts(path):
    dim = Dim("d", "INT32", -10, 20, 4)
    labels = [Label("x", 0, "FLOAT64"), Label("s", 0, "STRING_ASCII"), Label("day", 0, "DATETIME_DAY", "decreasing"), Label("never", 0, "UINT8")]
    a = Array(path).create(Spec([dim], [Attr("a", "INT32")], labels=labels), 1000)
    a.write({"a": range(20)}, 1000, [(-5, 14)])
    x, s, day = (label_array(path, i, dim, labels[i].type) for i in range(3))
    x.write({"label": np.arange(8) * 0.5 + 100}, 1000, [(-10, -3)])
    x.write({"label": np.arange(6) * 1.5}, 2000, [(-4, 1)])
    x.write({"label": np.array([-7.0, -0.0, 1e300])}, 3000, [(5, 7)])
    x.write({"label": np.array([3.0])}, 4000, [(20, 20)])
    s.write({"label": ["b", "bb", "c"]}, 2000, [(0, 2)])
    s.write({"label": ["a", "bc"]}, 3000, [(2, 3)])
    day.write({"label": np.array([19000, -1, -(2**63)])}, 1000, [(0, 2)])
    a.write({"a": [7, 8]}, 4000, [(0, 1)])


@case("labels_sparse", "labels of a sparse array with duplicates, on dimensions of two types, one of them partly written and rewritten", "sparse", "dimension_labels", rows=61,
      windows=[(0, 1000), (0, 2000), (2000, 2000)])
def labels_sparse(path):
    rng = np.random.default_rng(71)
    dims = [Dim("row", "INT64", -100, 100, 10), Dim("t", "DATETIME_HR", 0, 50, 5)]
    labels = [Label("name", 0, "STRING_ASCII"), Label("km", 0, "FLOAT32", "decreasing"), Label("phase", 1, "UINT16")]
    a = Array(path).create(Spec(dims, [Attr("a", "INT32")], sparse=True, capacity=8, dups=True, labels=labels), 1000)
    a.write({"row": rng.integers(-100, 101, 40), "t": rng.integers(0, 51, 40), "a": range(40)}, 1000)
    a.write({"row": [5] * 11 + [-100, 100] + list(range(8)), "t": [3] * 10 + [50, 0, 50] + [4] * 8, "a": range(100, 121)}, 2000)
    names = label_array(path, 0, dims[0], "STRING_ASCII")
    names.write({"label": [f"r{i:03}" for i in range(201)]}, 1000, [(-100, 100)])
    names.write({"label": ["five", "six"]}, 2000, [(5, 6)])
    label_array(path, 1, dims[0], "FLOAT32").write({"label": np.arange(50, 0, -1).astype("f4") / 4}, 1000, [(-20, 29)])
    label_array(path, 2, dims[1], "UINT16").write({"label": np.arange(51) * 1000}, 2000, [(0, 50)])


@case("labels_strange_floats", "float labels with NaN of both signs, infinities and a negative zero, in the order libtiledb lets pass", "dense", "dimension_labels", rows=12)
def labels_strange_floats(path):
    a = Array(path).create(Spec([Dim("d", "UINT32", 0, 11, 3)], [Attr("a", "INT32")], labels=[Label("f", 0, "FLOAT32"), Label("g", 0, "FLOAT64", "decreasing")]), 1000)
    f = np.array([-np.inf, -5, np.nan, -1, -0.0, np.nan, 2, 3, np.nan, 5, 6, np.inf], "f4")
    f.view("u4")[5] = 0xFFC00001
    a.write({"a": range(12), "f": f, "g": f[::-1].astype("f8")}, 1000, [(0, 11)])


@case("labels_many_tiles", "labels of three types over forty tiles, of which a range of labels needs few", "dense", "dimension_labels", rows=2000)
def labels_many_tiles(path):
    labels = [Label("depth", 0, "FLOAT64"), Label("code", 0, "STRING_ASCII"), Label("rank", 0, "INT64", "decreasing")]
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 1999, 50)], [Attr("a", "INT32")], labels=labels), 1000)
    a.write({"a": range(2000), "depth": np.arange(2000) * 0.25, "code": [f"k{i:05}" for i in range(2000)], "rank": np.arange(2000, 0, -1) * 3}, 1000, [(0, 1999)])


# --- external labels ----------------------------------------------------------------------------------------------------


def plain_tile(data):
    """A generic tile without filters, of one chunk."""
    chunk = struct.pack("<3I", len(data), len(data), 0) + data
    pipeline = struct.pack("<2I", 65536, 0)
    return struct.pack("<IQQBQB", 22, 8 + len(chunk), len(data), 4, 1, 0) + struct.pack("<I", len(pipeline)) + pipeline + struct.pack("<Q", 1) + chunk


def contents(tile):
    """What a generic tile of one gzip chunk holds."""
    pipeline = struct.unpack_from("<I", tile, 30)[0]
    original, filtered, metadata = struct.unpack_from("<3I", tile, 34 + pipeline + 8)
    data = tile[34 + pipeline + 20 + metadata:]
    assert len(data) == filtered
    return gzip.zlib.decompress(data)[:original]


def make_external(path, number, uri, attribute):
    """Lets a label's entry name another array by a relative URI, which no function of libtiledb's C API does."""
    (schema,) = [f for f in (path / "__schema").iterdir() if f.is_file()]
    data, old = contents(schema.read_bytes()), f"__labels/l{number}".encode()
    entry = b"\x01" + struct.pack("<Q", len(old)) + old + struct.pack("<I", 5) + b"label"
    at = data.index(entry)
    end = at + len(entry) + 1 + 1 + 4
    new = b"\x01" + struct.pack("<Q", len(uri)) + uri.encode() + struct.pack("<I", len(attribute)) + attribute.encode()
    schema.write_bytes(plain_tile(data[:at] + new + data[at + len(entry):end] + b"\x01" + data[end + 1:]))


@case("labels_external", "an external label, in the labels of another array that lies inside the labelled one, beside one of the array's own", "dense", "dimension_labels", rows=10)
def labels_external(path):
    dim = Dim("d", "INT32", 1, 10, 4)
    a = Array(path).create(Spec([dim], [Attr("a", "INT32")], labels=[Label("depth", 0, "FLOAT64"), Label("own", 0, "INT32")]), 1000)
    a.write({"a": range(10), "own": np.arange(10, dtype="i4")}, 1000, [(1, 10)])
    other = Array(path / "shared").create(Spec([Dim("i", "INT32", 1, 10, 3)], [Attr("b", "INT8")], labels=[Label("metres", 0, "FLOAT64")]), 1000)
    other.write({"b": np.zeros(7, "i1"), "metres": np.arange(7) * 1.5}, 1000, [(2, 8)])
    make_external(path, 0, "shared/__labels/l0", "label")
