"""Cell and tile orders: dense and sparse, 1 to 4 dimensions, Hilbert, and R-trees of several levels."""

import itertools

import numpy as np

from cases import case
from capi import VAR
from tdbarray import Array, Attr, Dim, Spec

SHAPES = {1: [(1, 23, 5)], 2: [(0, 10, 4), (-3, 5, 3)], 3: [(0, 4, 2), (1, 5, 3), (-2, 1, 2)], 4: [(0, 2, 2), (0, 3, 3), (5, 7, 2), (-1, 1, 1)]}


def dims_of(shape, t="INT32"):
    return [Dim(f"d{i}", t, lo, hi, e) for i, (lo, hi, e) in enumerate(shape)]


def dense_order(path, shape, tile_order, cell_order):
    """Two fragments; the second one is smaller, in the middle and written in the array's other order."""
    spec = Spec(dims_of(shape), [Attr("a", "INT32"), Attr("s", "STRING_ASCII", VAR)], tile_order=tile_order, cell_order=cell_order)
    a = Array(path).create(spec, 1000)

    def fill(ts, box, base, layout):
        n = int(np.prod([hi - lo + 1 for lo, hi in box]))
        a.write({"a": np.arange(n) + base, "s": [f"{base + i}" * (i % 2) for i in range(n)]}, ts, box, layout)

    fill(1000, [(lo, hi) for lo, hi, _ in shape], 0, cell_order)
    fill(2000, [(lo + 1, hi - 1) for lo, hi, _ in shape], 5000, cell_order)


for _d, (_t, _c) in itertools.product(SHAPES, itertools.product(("row", "col"), repeat=2)):
    if _d == 1 and _t != _c:
        continue
    case(f"order_dense_{_d}d_tile_{_t}_cell_{_c}", f"dense, {_d} dimensions, tile order {_t}, cell order {_c}, extents that do not divide the domain", "dense", "orders", windows=[(0, 1000)])(
        lambda path, s=SHAPES[_d], t=_t, c=_c: dense_order(path, s, t, c))


def scattered(shape, n, seed):
    rng = np.random.default_rng(seed)
    every = list(itertools.product(*[range(lo, hi + 1) for lo, hi, _ in shape]))
    picks = rng.choice(len(every), min(n, len(every)), replace=False)
    return np.array([every[i] for i in picks])


def sparse_order(path, shape, tile_order, cell_order):
    """Tiles of 7 cells, two overlapping fragments."""
    spec = Spec(dims_of(shape), [Attr("a", "INT32")], sparse=True, capacity=7, tile_order=tile_order, cell_order=cell_order)
    a = Array(path).create(spec, 1000)
    for k in (0, 1):
        cells = scattered(shape, 40, 20 + k)
        a.write({**{f"d{i}": cells[:, i].astype("i4") for i in range(len(shape))}, "a": np.arange(len(cells)) + 1000 * k}, 1000 * (k + 1))


for _d, (_t, _c) in itertools.product(SHAPES, [("row", "row"), ("row", "col"), ("col", "row"), ("col", "col"), ("row", "hilbert")]):
    case(f"order_sparse_{_d}d_tile_{_t}_cell_{_c}", f"sparse, {_d} dimensions, tile order {_t}, cell order {_c}", "sparse", "orders", _c, windows=[(0, 1000)])(
        lambda path, s=SHAPES[_d], t=_t, c=_c: sparse_order(path, s, t, c))


@case("hilbert_floats", "Hilbert order over two float dimensions, tiles of 16 cells", "sparse", "orders", "hilbert", rows=200)
def hilbert_floats(path):
    rng = np.random.default_rng(30)
    spec = Spec([Dim("x", "FLOAT64", -180.0, 180.0, None), Dim("y", "FLOAT32", -90.0, 90.0, None)], [Attr("a", "INT32")], sparse=True, capacity=16, cell_order="hilbert")
    Array(path).create(spec, 1000).write({"x": rng.uniform(-180, 180, 200), "y": rng.uniform(-90, 90, 200).astype("f4"), "a": np.arange(200)}, 1000)


@case("hilbert_string", "Hilbert order over one string dimension", "sparse", "orders", "hilbert", "string_dim", rows=80)
def hilbert_string(path):
    spec = Spec([Dim("k", "STRING_ASCII")], [Attr("a", "INT32")], sparse=True, capacity=9, cell_order="hilbert")
    Array(path).create(spec, 1000).write({"k": [f"{(i * 7919) % 1000:x}-{i}" for i in range(80)], "a": np.arange(80)}, 1000)


@case("hilbert_mixed", "Hilbert order over a string, a date and an integer dimension; duplicates allowed; two fragments", "sparse", "orders", "hilbert", "string_dim", "duplicates", rows=120)
def hilbert_mixed(path):
    rng = np.random.default_rng(31)
    spec = Spec([Dim("k", "STRING_ASCII"), Dim("t", "DATETIME_DAY", -1000, 1000, None), Dim("i", "INT64", -50, 50, None)], [Attr("a", "INT32")], sparse=True, capacity=11,
                cell_order="hilbert", dups=True)
    a = Array(path).create(spec, 1000)
    for k in (0, 1):
        a.write({"k": ["abc"[j] * 2 for j in rng.integers(0, 3, 60)], "t": rng.integers(-3, 3, 60), "i": rng.integers(-2, 3, 60), "a": np.arange(60) + 60 * k}, 1000 * (k + 1))


@case("hilbert_extremes", "Hilbert order over int64 with domain ends far apart, where f64 buckets collide", "sparse", "orders", "hilbert")
def hilbert_extremes(path):
    lo, hi = -(2**62), 2**62
    spec = Spec([Dim("x", "INT64", lo, hi, None), Dim("y", "UINT64", 0, 2**63, None)], [Attr("a", "INT32")], sparse=True, capacity=4, cell_order="hilbert")
    x = np.array([lo, lo + 1, hi, hi - 1, 0, 1, -1, 2**53, 2**53 + 1, 5], "i8")
    y = np.array([0, 1, 2**63, 2**63 - 1, 2**62, 7, 8, 2**53 + 1, 2**53, 9], "u8")
    Array(path).create(spec, 1000).write({"x": x, "y": y, "a": np.arange(10)}, 1000)


@case("rtree_three_levels", "250 tiles of 4 cells: an R-tree with levels of 1, 3, 25 and 250 boxes", "sparse", "orders", "rtree", rows=1000)
def rtree_three_levels(path):
    rng = np.random.default_rng(32)
    cells = rng.choice(1000 * 1000, 1000, replace=False)
    spec = Spec([Dim("x", "UINT32", 0, 999, 50), Dim("y", "UINT32", 0, 999, 50)], [Attr("a", "INT32")], sparse=True, capacity=4)
    Array(path).create(spec, 1000).write({"x": cells // 1000, "y": cells % 1000, "a": np.arange(1000)}, 1000)


@case("rtree_strings", "60 tiles over a string dimension: string boxes in an R-tree", "sparse", "orders", "rtree", "string_dim", rows=300)
def rtree_strings(path):
    spec = Spec([Dim("k", "STRING_ASCII"), Dim("i", "INT32", 0, 999, 100)], [Attr("a", "INT32")], sparse=True, capacity=5)
    Array(path).create(spec, 1000).write({"k": [f"{(i * 31) % 97:02d}{'x' * (i % 4)}" for i in range(300)], "i": np.arange(300), "a": np.arange(300)}, 1000)


@case("capacity_one", "one cell per tile", "sparse", "orders", rows=23)
def capacity_one(path):
    spec = Spec([Dim("x", "INT32", 0, 99, 10)], [Attr("s", "STRING_UTF8", VAR)], sparse=True, capacity=1)
    Array(path).create(spec, 1000).write({"x": np.arange(23) * 4, "s": ["é" * (i % 3) for i in range(23)]}, 1000)
