"""What every release can do: dense and sparse arrays, orders, overlaps, types, var-sized attributes."""

import numpy as np

from releases import each
from tdbarray import VAR, Attr, Dim, Spec

ALL = range(1, 22)
# What depends little on the version is not repeated for the younger ones that changed nothing near it.
SOME = [*range(1, 13), 15, 16, 21]
FEW = [1, 2, 3, 4, 5, 7, 9, 11, 16, 21]
LETTERS = "abcdefghijklmnopqrstuvwxyzäöü"


def text(n, seed=0):
    """A text per cell, never empty: releases before 2.0 refuse empty cells."""
    return ["".join(LETTERS[(seed + i * 7 + j) % len(LETTERS)] for j in range(1 + (i * 5 + seed) % 6)) for i in range(n)]


def ints(n, seed=0):
    return [(i * 37 + seed * 1009) % 2003 - 1000 for i in range(n)]


def floats(n, seed=0):
    return [x / 8 for x in ints(n, seed)]


def boxes(a, attrs, parts):
    """Dense writes, one per (time, box): each attribute gets its values by its type."""
    for ts, box in parts:
        n = int(np.prod([hi - lo + 1 for lo, hi in box]))
        a.write({f.name: values(f, n, ts // 1000) for f in attrs}, ts, box=box)


def values(f, n, seed):
    if f.n == VAR:
        return text(n, seed)
    if f.type.startswith("FLOAT"):
        return floats(n, seed)
    return ints(n, seed)


@each("dense_1d", FEW, "one dimension, whole tiles and a shorter one at the end, two fragments", "dense", windows=[(0, 1000), (2000, 3000)])
def dense_1d(v):
    attrs = [Attr("i", "INT32"), Attr("f", "FLOAT64"), Attr("s", "CHAR", VAR)]

    def build(a):
        a.create(Spec([Dim("x", "UINT64", 0, 21, 5)], attrs))
        boxes(a, attrs, [(1000, [(0, 21)]), (2000, [(3, 11)])])

    return build


@each("dense_2d", ALL, "two dimensions, tiles over the edge of the domain, two overlapping fragments", "dense", "overlap", windows=[(0, 1000), (2000, 2000)])
def dense_2d(v):
    attrs = [Attr("a", "FLOAT32"), Attr("s", "STRING_ASCII", VAR)]

    def build(a):
        a.create(Spec([Dim("y", "INT32", 1, 10, 4), Dim("x", "INT32", -3, 4, 3)], attrs))
        boxes(a, attrs, [(1000, [(1, 8), (-3, 3)]), (2000, [(3, 6), (-1, 2)])])

    return build


@each("dense_3d", FEW, "three dimensions with tiles over the edges of the domain", "dense")
def dense_3d(v):
    attrs = [Attr("a", "INT64"), Attr("s", "STRING_UTF8", VAR)]

    def build(a):
        a.create(Spec([Dim("z", "INT32", 0, 4, 2), Dim("y", "INT32", 1, 5, 3), Dim("x", "INT32", -2, 2, 2)], attrs))
        boxes(a, attrs, [(1000, [(0, 4), (1, 5), (-2, 2)]), (2000, [(1, 2), (2, 4), (-1, 2)])])

    return build


@each("dense_col", FEW, "tiles and cells in column order, extents that do not divide the domain", "dense", "orders")
def dense_col(v):
    attrs = [Attr("a", "UINT16"), Attr("s", "STRING_ASCII", VAR)]

    def build(a):
        a.create(Spec([Dim("y", "INT64", 10, 17, 3), Dim("x", "INT64", 5, 11, 4)], attrs, tile_order="col", cell_order="col"))
        for ts, box in [(1000, [(10, 17), (5, 11)]), (2000, [(12, 14), (6, 9)])]:
            n = int(np.prod([hi - lo + 1 for lo, hi in box]))
            a.write({"a": [x % 60000 for x in ints(n, ts // 1000)], "s": [f"{ts}.{i}" for i in range(n)]}, ts, box=box)

    return build


@each("dense_mixed_orders", FEW, "tiles in column order, cells in row order", "dense", "orders")
def dense_mixed_orders(v):
    attrs = [Attr("a", "INT64"), Attr("s", "STRING_UTF8", VAR)]

    def build(a):
        a.create(Spec([Dim("y", "INT32", 1, 5, 3), Dim("x", "INT32", -2, 5, 2)], attrs, tile_order="col"))
        boxes(a, attrs, [(1000, [(1, 5), (-2, 5)]), (2000, [(2, 4), (-1, 2)])])

    return build


@each("dense_gaps", FEW, "two boxes apart: the cells between them were never written", "dense", "fill")
def dense_gaps(v):
    attrs = [Attr("i", "INT32"), Attr("u", "UINT8"), Attr("f", "FLOAT64"), Attr("s", "STRING_ASCII", VAR), Attr("w", "INT16", VAR), Attr("m", "INT16", 3)]

    def build(a):
        a.create(Spec([Dim("y", "INT32", 1, 8, 4), Dim("x", "INT32", 1, 8, 4)], attrs))
        for ts, box, n in [(1000, [(2, 3), (2, 4)], 6), (2000, [(6, 7), (5, 7)], 6)]:
            a.write({"i": ints(n, ts), "u": [i + 1 for i in range(n)], "f": floats(n, ts), "s": [f"{ts}.{i}" for i in range(n)],
                     "w": [[i] * (1 + i % 3) for i in range(n)], "m": [[i, -i, ts % 1000] for i in range(n)]}, ts, box=box)

    return build


def points(n, seed, box):
    """`n` different cells of a box, in no order."""
    rng = np.random.default_rng(seed)
    shape = [hi - lo + 1 for lo, hi in box]
    chosen = rng.permutation(int(np.prod(shape)))[:n]
    return [[int(c) + lo for c in axis] for axis, (lo, _) in zip(np.unravel_index(chosen, shape), box)]


SPARSE = [Attr("a", "INT32"), Attr("s", "CHAR", VAR)]


def sparse_parts(a, parts, layout=None):
    for ts, n in parts:
        y, x = points(n, ts, [(1, 12), (-8, 8)])
        if layout == "global":
            y, x = zip(*sorted(zip(y, x), key=lambda c: ((c[0] - 1) // 5, (c[1] + 8) // 6, c)))
        a.write({"y": list(y), "x": list(x), "a": ints(n, ts // 1000), "s": text(n, ts // 1000)}, ts, layout=layout)


def sparse_spec(**more):
    return Spec([Dim("y", "INT32", 1, 12, 5), Dim("x", "INT32", -8, 8, 6)], SPARSE, sparse=True, capacity=7, **more)


@each("sparse_2d", ALL, "sparse cells, three overlapping fragments of several tiles", "sparse", "overlap", windows=[(0, 2000), (2000, 3000)])
def sparse_2d(v):
    def build(a):
        a.create(sparse_spec())
        sparse_parts(a, [(1000, 22), (2000, 16), (3000, 5)])

    return build


@each("sparse_col", SOME, "sparse cells with tiles and cells in column order", "sparse", "orders")
def sparse_col(v):
    def build(a):
        a.create(sparse_spec(tile_order="col", cell_order="col"))
        sparse_parts(a, [(1000, 20), (2000, 14)])

    return build


@each("sparse_global", [2, 5, 9, 12, 17, 21], "sparse cells written in global order", "sparse", "orders")
def sparse_global(v):
    def build(a):
        a.create(sparse_spec())
        sparse_parts(a, [(1000, 20), (2000, 14)], layout="global")

    return build


@each("sparse_dups", [v for v in SOME if v >= 5], "an array that allows duplicates", "sparse", "duplicates", windows=[(2000, 2000)])
def sparse_dups(v):
    def build(a):
        a.create(sparse_spec(dups=True))
        sparse_parts(a, [(1000, 16), (2000, 16)])
        a.write({"y": [3, 3, 3], "x": [2, 2, 2], "a": [1, 2, 3], "s": ["x", "y", "z"]}, 3000)

    return build


@each("sparse_floats", FEW, "float dimensions", "sparse", "dimension_type")
def sparse_floats(v):
    def build(a):
        a.create(Spec([Dim("y", "FLOAT64", -100.0, 100.0, 12.5), Dim("x", "FLOAT64", 0.0, 1.0, 0.25)], [Attr("a", "INT64")], sparse=True, capacity=6))
        rng = np.random.default_rng(7)
        for ts in (1000, 2000):
            a.write({"y": np.round(rng.uniform(-100, 100, 15), 3), "x": np.round(rng.uniform(0, 1, 15), 3), "a": ints(15, ts)}, ts)

    return build


@each("strings", range(5, 22), "a string dimension, cells overwritten", "sparse", "string_dim", windows=[(0, 1000), (2000, 2000)])
def strings(v):
    words = ["a", "aa", "ab", "b", "ba", "bab", "c", "ccc", "d", "dd", "e", "f", "fa", "g", "h"]

    def build(a):
        a.create(Spec([Dim("k", "STRING_ASCII")], [Attr("a", "INT32"), Attr("s", "STRING_UTF8", VAR)], sparse=True, capacity=4))
        a.write({"k": words[::-1], "a": ints(15), "s": text(15)}, 1000)
        a.write({"k": words[3:9] + ["zz", "B"], "a": ints(8, 2), "s": text(8, 2)}, 2000)

    return build


@each("empty_strings", range(5, 10), "empty strings as coordinates: up to 2.2 the bounds of their tiles end too early", "sparse", "string_dim", "empty")
def empty_strings(v):
    def build(a):
        a.create(Spec([Dim("i", "INT32", 0, 99, 10), Dim("k", "STRING_ASCII")], [Attr("a", "INT32")], sparse=True, capacity=4))
        a.write({"i": list(range(16)), "k": ["", "b", "a", "c", "d", "", "a", "b", "z", "y", "", "x", "m", "n", "o", ""], "a": ints(16)}, 1000)

    return build


@each("mixed", [v for v in SOME if v >= 5], "dimensions of different types: text, integer, float", "sparse", "string_dim", "dimension_type")
def mixed(v):
    def build(a):
        dims = [Dim("k", "STRING_ASCII"), Dim("i", "INT16", -100, 100, 10), Dim("f", "FLOAT32", -1.0, 1.0, 0.5)]
        a.create(Spec(dims, [Attr("a", "UINT32"), Attr("s", "STRING_ASCII", VAR)], sparse=True, capacity=5))
        for ts in (1000, 2000):
            n = 14
            a.write({"k": ["xyz"[i % 3] * (1 + i % 4) for i in range(n)], "i": [(i * 13) % 90 - 45 for i in range(n)], "f": [(i % 9 - 4) / 4 for i in range(n)],
                     "a": [i * ts for i in range(n)], "s": text(n, ts)}, ts)

    return build


NULLABLE = [Attr("i", "INT32", nullable=True), Attr("s", "STRING_ASCII", VAR, nullable=True), Attr("m", "INT16", 2, nullable=True)]


def with_nulls(n, seed):
    def holes(cells, step):
        return [None if (i + seed) % step == 0 else c for i, c in enumerate(cells)]

    return {"i": holes(ints(n, seed), 3), "s": holes([""] + text(n, seed)[1:], 5), "m": holes([[i, -i] for i in range(n)], 2)}


@each("nullable_sparse", range(7, 22), "nullable attributes, fixed and var-sized, in a sparse array", "sparse", "nullable")
def nullable_sparse(v):
    def build(a):
        a.create(Spec([Dim("x", "INT64", 0, 99, 10)], NULLABLE, sparse=True, capacity=8))
        layout = "global" if v == 7 else None  # libtiledb 2.2.2 writes too many cells otherwise
        a.write({"x": list(range(0, 24)), **with_nulls(24, 1)}, 1000, layout=layout)
        a.write({"x": list(range(16, 40, 2)), **with_nulls(12, 2)}, 2000, layout=layout)

    return build


@each("nullable_dense", [v for v in SOME if v >= 7], "nullable attributes in a dense array, cells never written are null", "dense", "nullable", "fill")
def nullable_dense(v):
    def build(a):
        a.create(Spec([Dim("x", "INT64", 0, 49, 8)], NULLABLE))
        a.write(with_nulls(16, 1), 1000, box=[(2, 17)])
        a.write(with_nulls(10, 2), 2000, box=[(30, 39)])

    return build


@each("fills", range(6, 22), "fill values of one's own", "dense", "fill")
def fills(v):
    def build(a):
        attrs = [Attr("i", "INT32", fill=(-7).to_bytes(4, "little", signed=True)), Attr("s", "STRING_ASCII", VAR, fill=b"none"), Attr("m", "INT16", 2, fill=b"\1\0\2\0")]
        if v >= 7:
            attrs += [Attr("n", "INT32", nullable=True, fill=(5).to_bytes(4, "little"), fill_valid=1), Attr("z", "STRING_ASCII", VAR, nullable=True, fill=b"null", fill_valid=0)]
        a.create(Spec([Dim("x", "INT32", 1, 20, 6)], attrs))
        for ts, box in [(1000, [(3, 5)]), (2000, [(14, 16)])]:
            data = {"i": [1, 2, 3], "s": ["p", "qq", "rrr"], "m": [[1, 2], [3, 4], [5, 6]], "n": [1, None, 3], "z": ["x", None, "z"]}
            a.write({k: data[k] for k in [f.name for f in attrs]}, ts, box=box)

    return build


@each("anonymous", ALL, "one attribute without a name", "dense", "names")
def anonymous(v):
    def build(a):
        a.create(Spec([Dim("x", "INT32", 1, 6, 4)], [Attr("", "INT32")]))
        a.write({"": ints(6)}, 1000, box=[(1, 6)])

    return build


# libtiledb 2.2 sorts otherwise along the curve than its successors, which then find only some of the cells written twice.
@each("hilbert", [v for v in SOME if v >= 7], "cells in Hilbert order", "sparse", "hilbert", "orders", same_as=lambda v: 9 if v < 9 else None)
def hilbert(v):
    def build(a):
        a.create(sparse_spec(cell_order="hilbert"))
        sparse_parts(a, [(1000, 20), (2000, 14)])

    return build
