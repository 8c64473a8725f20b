"""The benchmark arrays, and libtiledb's times for scanning them.

    python arrays.py make FOLDER      write dense50m and sparse10m into FOLDER (about 200 MB)
    python arrays.py time FOLDER      print one JSON line per scan: {"scan": ..., "way": ..., "seconds": ...}

Needs tiledb==0.36.1 (libtiledb 2.30), numpy and pyarrow. Times are the best of five of the fastest way the Python
package offers to bring a whole array into Arrow (or numpy where that is faster), with two threads.
"""
import json
import os
import shutil
import sys
import time

import numpy as np
import tiledb
import tiledb.multirange_indexing

# Arrow results need no pandas; the package asks for one all the same.
tiledb.multirange_indexing.check_dataframe_deps = lambda: None

SIDE, TILE = 7072, 256
CELLS = 10_000_000
THREADS = {"sm.compute_concurrency_level": 2, "sm.io_concurrency_level": 2}


def make_dense(uri):
    """50 M cells of float32: two waves and the noise of an instrument with two decimals."""
    dims = [tiledb.Dim(name=n, domain=(0, SIDE - 1), tile=TILE, dtype=np.int32) for n in ("y", "x")]
    filters = tiledb.FilterList([tiledb.ByteShuffleFilter(), tiledb.ZstdFilter(level=3)])
    attr = tiledb.Attr(name="v", dtype=np.float32, filters=filters)
    tiledb.Array.create(uri, tiledb.ArraySchema(domain=tiledb.Domain(*dims), attrs=[attr]))
    rng = np.random.default_rng(1)
    y = np.arange(SIDE, dtype=np.float32)[:, None]
    x = np.arange(SIDE, dtype=np.float32)[None, :]
    v = 15 + 10 * np.sin(y / 500) + 8 * np.cos(x / 300) + rng.normal(0, 0.5, (SIDE, SIDE)).astype(np.float32)
    with tiledb.open(uri, "w", timestamp=1) as a:
        a[:] = (np.round(v * 100) / 100).astype(np.float32)


def make_sparse(uri):
    """10 M cells at random places of a square, one fragment, 100 tiles."""
    side = 1_000_000
    dims = [tiledb.Dim(name=n, domain=(0, side - 1), tile=10_000, dtype=np.int64) for n in ("d0", "d1")]
    zstd = tiledb.FilterList([tiledb.ZstdFilter(level=3)])
    attrs = [tiledb.Attr(name="a", dtype=np.float64, filters=zstd), tiledb.Attr(name="b", dtype=np.int32, filters=zstd)]
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(*dims), attrs=attrs, sparse=True, capacity=100_000,
        coords_filters=tiledb.FilterList([tiledb.ZstdFilter()]),
    )
    tiledb.Array.create(uri, schema)
    rng = np.random.default_rng(2)
    key = rng.permutation(np.unique(rng.integers(0, side * side, int(CELLS * 1.01))))[:CELLS]
    a = np.round(rng.normal(100, 15, CELLS), 3)
    b = rng.integers(0, 1000, CELLS).astype(np.int32)
    with tiledb.open(uri, "w", timestamp=1) as w:
        w[key // side, key % side] = {"a": a, "b": b}


def context(**settings):
    return tiledb.Ctx({**THREADS, **{k.replace("__", "."): v for k, v in settings.items()}})


def whole(uri, ctx, **query):
    def scan():
        with tiledb.open(uri, ctx=ctx) as a:
            return a.query(return_arrow=True, **query).df[:].num_rows
    return scan


def streamed(uri, ctx, **query):
    def scan():
        with tiledb.open(uri, ctx=ctx) as a:
            return sum(t.num_rows for t in a.query(return_arrow=True, return_incomplete=True, **query).df[:])
    return scan


def blocks(uri, ctx, rows):
    """A dense array cannot be streamed by incomplete queries: blocks of whole tiles, as numpy."""
    def scan():
        n = 0
        with tiledb.open(uri, ctx=ctx) as a:
            for y in range(0, SIDE, rows):
                part = a[y:min(y + rows, SIDE)]
                n += (part["v"] if isinstance(part, dict) else part).size
        return n
    return scan


def measure(scan, cells, ways):
    best = None
    for way, run in ways.items():
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            rows = run()
            times.append(time.perf_counter() - begin)
            assert rows == cells, (scan, way, rows, cells)
        if best is None or min(times) < best[1]:
            best = (way, min(times))
    print(json.dumps({"scan": scan, "way": best[0], "seconds": round(best[1], 4)}), flush=True)


def time_all(folder):
    dense, sparse = os.path.join(folder, "dense50m"), os.path.join(folder, "sparse10m")
    big = context(py__init_buffer_bytes=1 << 30)
    small = context(py__init_buffer_bytes=16 << 20)
    middle = context(py__init_buffer_bytes=64 << 20)
    measure("dense, attribute", SIDE * SIDE, {
        "df[:] arrow": whole(dense, big, dims=False),
        "numpy blocks of 256 rows": blocks(dense, context(), 256),
        "numpy blocks of 1024 rows": blocks(dense, context(), 1024),
    })
    measure("dense, coordinates and attribute", SIDE * SIDE, {"df[:] arrow": whole(dense, big, dims=["y", "x"])})
    measure("sparse, coordinates and attributes", CELLS, {
        "df[:] arrow, unordered": whole(sparse, big, order="U"),
        "streamed arrow, unordered, 16 MiB": streamed(sparse, small, order="U"),
        "streamed arrow, unordered, 64 MiB": streamed(sparse, middle, order="U"),
    })
    measure("sparse, attributes", CELLS, {
        "streamed arrow, unordered, 16 MiB": streamed(sparse, small, order="U", dims=False),
        "streamed arrow, unordered, 64 MiB": streamed(sparse, middle, order="U", dims=False),
    })


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("make", "time"):
        sys.exit(__doc__)
    if sys.argv[1] == "time":
        time_all(sys.argv[2])
    else:
        for name, make in (("dense50m", make_dense), ("sparse10m", make_sparse)):
            uri = os.path.join(sys.argv[2], name)
            shutil.rmtree(uri, ignore_errors=True)
            make(uri)
