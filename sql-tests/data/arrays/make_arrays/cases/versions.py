"""Copies of cells inside consolidated fragments: within tiles, across their borders, over whole tiles; and what stands beside them."""

import numpy as np

from capi import VAR
from cases import case
from tdbarray import Array, Attr, Dim, Spec

TIMES = [1000, 1500, 2000, 2500, 3000, 3500]
WINDOWS = [(0, 1000), (0, 1999), (1500, 2500), (2000, 2000), (2001, 3400), (3000, 9000)]
ATTRS = [Attr("a", "INT32"), Attr("s", "STRING_ASCII", VAR), Attr("n", "INT16", nullable=True)]


def values(cells, write):
    """Every write has values of its own, growing with the cells, so that statistics tell tiles of new copies from tiles of old ones."""
    n = len(cells)
    high = [100, 900, 500, 700, 300, 0][write]
    return {"a": [high + i for i in range(n)], "s": [f"{write}{'xyz'[i % 3] * (i % 4)}" for i in range(n)], "n": [None if i % 5 == write else i + write for i in range(n)]}


def rewritten(path, dims, cells, capacity, **spec):
    """`cells` are all cells in any order; each write has some of them, and the one in the middle is in every write."""
    a = Array(path).create(Spec(dims, ATTRS, sparse=True, capacity=capacity, **spec), 1000)
    rng = np.random.default_rng(len(cells) * capacity)
    for write, ts in enumerate(TIMES):
        put(a, cells, sorted({*rng.permutation(len(cells))[: len(cells) * 2 // 5].tolist(), len(cells) // 2}), write, ts)
    return a


def put(a, cells, chosen, write, ts):
    chosen = [cells[i] for i in chosen]
    columns = zip(*chosen)
    a.write({**{dim.name: list(column) for dim, column in zip(a.spec.dims, columns)}, **values(chosen, write)}, ts)


def consolidated(a):
    a.consolidate()
    a.vacuum()


def line(path, capacity):
    return rewritten(path, [Dim("d", "INT32", 0, 99, 10)], [(i * 2,) for i in range(40)], capacity)


@case("versions_line", "copies of cells side by side in tiles of three cells; one cell fills two of them", "sparse", "consolidated", "timestamps", "time_travel", windows=WINDOWS)
def versions_line(path):
    consolidated(line(path, 3))


@case("versions_single", "tiles of one cell: all copies lie across borders", "sparse", "consolidated", "timestamps", "time_travel", windows=WINDOWS)
def versions_single(path):
    consolidated(rewritten(path, [Dim("d", "UINT8", 0, 99, 10)], [(i,) for i in range(12)], 1))


@case("versions_square", "copies in two dimensions, space tiles in row order, where MBRs of neighbours meet although they share no cell", "sparse", "consolidated", "timestamps", "time_travel", windows=WINDOWS)
def versions_square(path):
    dims = [Dim("x", "INT32", 0, 19, 8), Dim("y", "INT64", -9, 10, 6)]
    consolidated(rewritten(path, dims, [(x, y) for x in range(8) for y in range(-4, 4)], 4))


@case("versions_columns", "the same in column order", "sparse", "consolidated", "timestamps", "time_travel", "col_major", windows=WINDOWS)
def versions_columns(path):
    dims = [Dim("x", "INT32", 0, 19, 8), Dim("y", "INT64", -9, 10, 6)]
    consolidated(rewritten(path, dims, [(x, y) for x in range(6) for y in range(-3, 4)], 4, cell_order="col", tile_order="col"))


@case("versions_strings", "copies over a string and a number, some strings prefixes of others", "sparse", "consolidated", "timestamps", "time_travel", "string_dim", windows=WINDOWS)
def versions_strings(path):
    dims = [Dim("k", "STRING_ASCII"), Dim("i", "INT16", -50, 50, 9)]
    consolidated(rewritten(path, dims, [(k, i) for k in ["", "a", "a\0", "ab", "b", "zz"] for i in (-1, 0, 7)], 3))


@case("versions_strings_rle", "copies over strings under RLE, with the number first", "sparse", "consolidated", "timestamps", "time_travel", "string_dim", "filters", windows=WINDOWS)
def versions_strings_rle(path):
    dims = [Dim("i", "INT16", -50, 50, 9), Dim("k", "STRING_ASCII", filters=["rle"])]
    consolidated(rewritten(path, dims, [(i, k) for i in (-1, 0, 7) for k in ["", "a", "ab", "b", "zz"]], 4))


@case("versions_floats", "copies over floats, among them zeros of either sign, which lie mixed", "sparse", "consolidated", "timestamps", "time_travel", "float_dim", "negative_zero", windows=WINDOWS[:4])
def versions_floats(path):
    dims = [Dim("x", "FLOAT64", -8.0, 8.0, 4.0), Dim("y", "FLOAT32", -1.0, 1.0, 1.0)]
    cells = [(x, np.float32(y)) for x in (-7.5, -0.25, 1e-300, 3.0, 8.0) for y in (-1.0, 0.1, 1.0)]
    a = rewritten(path, dims, cells, 3)
    # libtiledb shows a zero twice that one of the other sign was written after, and itself again: so no third write.
    for write, (ts, zero) in enumerate([(1200, -0.0), (2200, 0.0)]):
        put(a, [(zero, np.float32(0.5)), (0.5, np.float32(zero))], [0, 1], write, ts)
    consolidated(a)


@case("versions_hilbert", "copies in Hilbert order, where every cell has a value of its own", "sparse", "consolidated", "timestamps", "time_travel", "hilbert", windows=WINDOWS)
def versions_hilbert(path):
    dims = [Dim("x", "INT32", 0, 19, 8), Dim("y", "INT64", -9, 10, 6)]
    consolidated(rewritten(path, dims, [(x, y) for x in range(7) for y in range(-4, 4)], 4, cell_order="hilbert"))


@case("versions_hilbert_strings", "copies in Hilbert order, where many cells have the same value", "sparse", "consolidated", "timestamps", "time_travel", "hilbert", "string_dim", windows=WINDOWS)
def versions_hilbert_strings(path):
    dims = [Dim("k", "STRING_ASCII"), Dim("l", "STRING_ASCII")]
    consolidated(rewritten(path, dims, [(f"prefix{i}", f"{j}long enough") for i in range(5) for j in range(5)], 4, cell_order="hilbert"))


@case("versions_beside", "a consolidated fragment, newer ones that meet one tile of it, one across many, and older ones that do not", "sparse", "consolidated", "timestamps", "time_travel", windows=[*WINDOWS, (0, 4000), (4000, 5000)])
def versions_beside(path):
    a = line(path, 3)
    consolidated(a)
    put(a, [(20,), (21,), (81,), (83,)], [0, 1, 2, 3], 1, 4000)
    put(a, [(40,), (57,)], [0, 1], 2, 4500)
    put(a, [(90,), (91,), (92,)], [0, 1, 2], 3, 500)


@case("versions_deleted", "copies and deletes: before, between and after the writes, by the attribute and by the dimension; a deleted copy brings no older one back", "sparse", "consolidated", "timestamps", "time_travel", "delete", windows=[*WINDOWS, (0, 4000), (0, 5000)])
def versions_deleted(path):
    a = line(path, 4)
    a.delete(1700, ("a", "<", 905))
    a.delete(2500, ("d", ">", 70))
    a.delete(3500, ("a", ">", 12))
    consolidated(a)
    put(a, [(i * 2,) for i in range(40)], [3, 4, 5, 39], 2, 4000)
    a.delete(4500, ("s", "==", "5"))
