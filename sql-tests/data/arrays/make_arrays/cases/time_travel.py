"""Windows of time over changing schemas: evolution, array metadata. (Windows over plain overwrites stand beside their arrays.)

All timestamps have four digits: libtiledb picks the schema by the string order of names.
"""

import struct

import numpy as np

from cases import case
from capi import VAR
from tdbarray import Array, Attr, Dim, Spec


def line(extent=5):
    return [Dim("d", "INT32", 0, 19, extent)]


@case("history_sparse", "five writes over the same cells, a window for each", "sparse", "time_travel", "dedup",
      windows=[(0, 999), (0, 1000), (1000, 1000), (2000, 3000), (3000, 3000), (0, 4000), (5000, 5000), (5001, 9999)])
def history_sparse(path):
    a = Array(path).create(Spec(line(), [Attr("a", "INT32")], sparse=True, capacity=3), 1000)
    for k in range(1, 6):
        n = np.arange(k, 20, k)
        a.write({"d": n, "a": n + 100 * k}, 1000 * k)


@case("history_dense", "five dense writes, a window for each", "dense", "time_travel",
      windows=[(0, 999), (0, 1000), (1000, 1000), (2000, 3000), (3000, 3000), (0, 4000), (5000, 5000), (5001, 9999)])
def history_dense(path):
    a = Array(path).create(Spec(line(), [Attr("a", "INT32")]), 1000)
    for k in range(1, 6):
        lo, hi = k, 20 - 2 * k
        a.write({"a": np.arange(lo, hi + 1) + 100 * k}, 1000 * k, [(lo, hi)])


@case("history_unordered_writes", "fragments written in another order than their timestamps", "sparse", "time_travel", "dedup", windows=[(0, 2000), (0, 3000), (2500, 9000)])
def history_unordered_writes(path):
    a = Array(path).create(Spec(line(), [Attr("a", "INT32")], sparse=True), 1000)
    for ts in (4000, 2000, 3000, 1500):
        n = np.arange(ts // 500, 20, 2)
        a.write({"d": n, "a": n + ts}, ts)


def evolve_add(path, sparse):
    a = Array(path).create(Spec(line(), [Attr("a", "INT32"), Attr("gone", "STRING_ASCII", VAR)], sparse=sparse, capacity=4), 1000)

    def write(ts, lo, hi, **data):
        n = np.arange(lo, hi + 1)
        data = {"a": n + ts, **{k: [f(int(i)) for i in n] for k, f in data.items()}}
        a.write({"d": n, **data} if sparse else data, ts, None if sparse else [(lo, hi)])

    write(1000, 0, 9, gone=lambda i: "g" * (i % 3))
    a.evolve(2000, add=[Attr("b", "FLOAT64"), Attr("s", "STRING_UTF8", VAR, fill="leer".encode()), Attr("n", "INT16", nullable=True), Attr("p", "UINT8", 2), Attr("t", "DATETIME_SEC"),
                        Attr("dflt", "STRING_ASCII", VAR), Attr("v", "INT32", nullable=True, fill=struct.pack("<i", 77), fill_valid=1)])
    more = {"b": lambda i: i / 2, "s": lambda i: f"é{i}", "n": lambda i: None if i % 2 else i, "p": lambda i: [i, i + 1], "t": lambda i: i, "dflt": lambda i: "", "v": lambda i: None if i % 3 else i}
    write(2500, 7, 13, gone=lambda i: "x", **more)
    a.evolve(3000, drop=["gone"])
    write(3500, 12, 16, **more)


for _kind in ("sparse", "dense"):
    case(f"evolved_{_kind}", "attributes added and one dropped: older fragments answer with fill values or NULL", _kind, "evolution", "time_travel",
         windows=[(0, 1000), (0, 2000), (0, 2500), (0, 3000), (2500, 2500)])(lambda path, s=_kind == "sparse": evolve_add(path, s))


@case("evolved_duplicates", "evolution of an array that allows duplicates", "sparse", "evolution", "duplicates", windows=[(0, 1000)],
      config={"sm.query.sparse_unordered_with_dups.reader": "legacy"})  # the default reader crashes on this array
def evolved_duplicates(path):
    a = Array(path).create(Spec(line(), [Attr("a", "INT32")], sparse=True, dups=True), 1000)
    a.write({"d": [1, 1, 2], "a": [1, 2, 3]}, 1000)
    a.evolve(2000, add=[Attr("b", "UINT16"), Attr("s", "STRING_ASCII", VAR, nullable=True)])
    a.write({"d": [1, 3], "a": [4, 5], "b": [7, 8], "s": ["x", None]}, 3000)


@case("evolved_reordered", "an attribute dropped and others moving up: slot numbers differ between fragments", "sparse", "evolution", windows=[(0, 1000)])
def evolved_reordered(path):
    a = Array(path).create(Spec(line(), [Attr("first", "INT8"), Attr("second", "STRING_UTF8", VAR), Attr("third", "FLOAT32", nullable=True)], sparse=True), 1000)
    a.write({"d": range(5), "first": range(5), "second": list("vwxyz"), "third": [None, 1, 2, 3, None]}, 1000)
    a.evolve(2000, drop=["first"])
    a.evolve(3000, add=[Attr("fourth", "INT64")])
    a.write({"d": range(3, 8), "second": list("abcde"), "third": [1, None, 3, None, 5], "fourth": range(5)}, 4000)


@case("evolved_consolidated", "fragments of two schemas consolidated under the newest", "sparse", "evolution", "consolidated", "timestamps", windows=[(0, 1000), (0, 3000)])
def evolved_consolidated(path):
    a = Array(path).create(Spec(line(), [Attr("a", "INT32")], sparse=True), 1000)
    a.write({"d": range(0, 10), "a": range(10)}, 1000)
    a.evolve(2000, add=[Attr("s", "STRING_UTF8", VAR), Attr("n", "INT8", nullable=True)])
    a.write({"d": range(5, 15), "a": range(10), "s": ["ö"] * 10, "n": [1, None] * 5}, 3000)
    a.consolidate()
    a.vacuum()


@case("evolved_retyped", "a name dropped and added again with another var-ness: older fragments answer with fill values", "sparse", "evolution", rows=10)
def evolved_retyped(path):
    # libtiledb reinterprets the old bytes when only the type changes; from fixed to var-sized it fills, and that is what is tested
    a = Array(path).create(Spec(line(), [Attr("keep", "INT32"), Attr("x", "INT32")], sparse=True), 1000)
    a.write({"d": range(5), "keep": range(5), "x": range(5)}, 1000)
    a.evolve(2000, drop=["x"])
    a.evolve(3000, add=[Attr("x", "STRING_UTF8", VAR)])
    a.write({"d": range(5, 10), "keep": range(5), "x": list("abcde")}, 4000)


@case("metadata", "array metadata of several types, overwritten in a second session", "dense", "array_metadata", rows=4)
def metadata(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 3, 4)], [Attr("a", "INT32")]), 1000)
    a.write({"a": range(4)}, 1000, [(0, 3)])
    a.put_metadata(1000, title="first title", version=1, scale=0.5, unit="größe")
    a.put_metadata(2000, title="second title", empty="")


@case("metadata_consolidated", "array metadata consolidated and vacuumed", "dense", "array_metadata", "consolidated", rows=4)
def metadata_consolidated(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 3, 4)], [Attr("a", "INT32")]), 1000)
    a.write({"a": range(4)}, 1000, [(0, 3)])
    for k in range(1, 4):
        a.put_metadata(1000 * k, last=k, **{f"key{k}": f"value {k}"})
    a.consolidate("array_meta")
    a.vacuum("array_meta")
    a.put_metadata(4000, last=4)
