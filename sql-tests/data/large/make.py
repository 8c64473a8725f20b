"""Arrays with large tiles, whose contents follow from a formula: for tests that need several chunks in a tile.

    python make.py        # writes the arrays beside this file; tiledb==0.36.1 (libtiledb 2.30), numpy and pyarrow

matrix   sparse (x, y), 512 x 300 cells, v = 1000 x + y; space tiles of 128 x 20, tiles of 14 of them: from one row of
         space tiles on into the next
slope    sparse (y, x), y = 0 .. 255, x a float, 0.5, 1.5 .. 299.5, v = 1000 y + 2 x; space tiles of 256 x 10, tiles of 15
line     sparse (id), ids 0, 3, .. 299,997, v = id / 3; six chunks in a tile
hours    sparse (ts), 240 hours from 2024-01-01 on, v = 7 h modulo 24; 24 tiles
seldom   sparse (d), d = 0 .. 1,999,999, c = d modulo 1000, b = d where d is 999,999 or 1,999,999 and else NULL;
         200 tiles
"""
import os
import shutil

import numpy as np
import pyarrow as pa
import tiledb

HERE = os.path.dirname(os.path.abspath(__file__))
FILTERS = tiledb.FilterList([tiledb.DoubleDeltaFilter(), tiledb.ZstdFilter(level=9)])


def dim(name, high, extent):
    return tiledb.Dim(name, domain=(0, high), tile=extent, dtype="int64", filters=FILTERS)


def write(name, dims, capacity, coords, values):
    path = os.path.join(HERE, name)
    shutil.rmtree(path, ignore_errors=True)
    attr = tiledb.Attr("v", dtype="int64", filters=FILTERS)
    tiledb.Array.create(path, tiledb.ArraySchema(
        domain=tiledb.Domain(*dims), attrs=[attr], sparse=True, capacity=capacity))
    with tiledb.open(path, "w", timestamp=1000) as array:
        array[coords] = values


x, y = (c.ravel() for c in np.meshgrid(np.arange(512), np.arange(300), indexing="ij"))
write("matrix", [dim("x", 511, 128), dim("y", 299, 20)], 14 * 128 * 20, (x, y), 1000 * x + y)
y, x = (c.ravel() for c in np.meshgrid(np.arange(256), np.arange(300) + 0.5, indexing="ij"))
floats = tiledb.FilterList([tiledb.ByteShuffleFilter(), tiledb.ZstdFilter(level=9)])
slopes = [dim("y", 255, 256), tiledb.Dim("x", domain=(0.0, 300.0), tile=10.0, dtype="float64", filters=floats)]
write("slope", slopes, 256 * 150, (y, x), 1000 * y + (2 * x).astype("int64"))
ids = 3 * np.arange(100_000)
write("line", [dim("id", 299_999, 1_000)], 50_000, (ids,), ids // 3)

hours = np.arange(240)
path = os.path.join(HERE, "hours")
shutil.rmtree(path, ignore_errors=True)
tiledb.Array.create(path, tiledb.ArraySchema(
    domain=tiledb.Domain(tiledb.Dim(
        "ts", domain=(np.datetime64("2000-01-01", "s"), np.datetime64("2050-01-01", "s")), tile=np.timedelta64(86_400, "s"),
        dtype="datetime64[s]", filters=FILTERS)),
    attrs=[tiledb.Attr("v", dtype="int64", filters=FILTERS)], sparse=True, capacity=10))
with tiledb.open(path, "w", timestamp=1000) as array:
    array[np.datetime64("2024-01-01", "s") + hours * np.timedelta64(3_600, "s")] = hours * 7 % 24

path = os.path.join(HERE, "seldom")
shutil.rmtree(path, ignore_errors=True)
tiledb.Array.create(path, tiledb.ArraySchema(
    domain=tiledb.Domain(dim("d", 9_999_999, 10_000)),
    attrs=[tiledb.Attr("c", dtype="int64", filters=FILTERS), tiledb.Attr("b", dtype="int64", nullable=True, filters=FILTERS)],
    sparse=True, capacity=10_000))
d = np.arange(2_000_000)
with tiledb.open(path, "w", timestamp=1000) as array:
    array[d] = {"c": d % 1000, "b": pa.array(d, mask=d % 1_000_000 != 999_999)}
