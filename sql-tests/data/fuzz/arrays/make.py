"""Arrays for the fuzzer of SQL: some hundreds of cells in several fragments and many tiles, with values that repeat, so
that joins meet, groups fill, and limits end in the midst of tiles.

    cargo test --test sql-tests -- --unpack fuzz
    python make.py        # writes the arrays in sql-tests/data/unpacked/fuzz/arrays; tiledb==0.36.1 (libtiledb 2.30) and numpy
    cargo test --test sql-tests -- --pack fuzz

Columns of one name hold values of one range in all of them. What an array is for stands above it.
"""
import os
import shutil

import numpy as np
import tiledb

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "unpacked", "fuzz", "arrays")
ZSTD = tiledb.FilterList([tiledb.ZstdFilter(level=9)])
WORDS = ["", "a", "ab", "abc", "b", "Berg", "zoo", "Zürich", "日本", "z%_"]
STATES = ["closed", "open", "ajar", "locked"]


def path_of(name):
    path = os.path.join(ROOT, name)
    shutil.rmtree(path, ignore_errors=True)
    return path


def attr(name, dtype, nullable=False, **more):
    return tiledb.Attr(name, dtype=dtype, nullable=nullable, filters=ZSTD, **more)


def create(path, dims, attrs, **more):
    tiledb.Array.create(path, tiledb.ArraySchema(domain=tiledb.Domain(*dims), attrs=attrs, **more))


def words(random, n):
    return np.array([WORDS[i] for i in random.integers(0, len(WORDS), n)], dtype=object)


def nulled(random, values, share=0.2):
    """Values and which of them are there, as tiledb-py takes a nullable attribute."""
    import pyarrow as pa

    return pa.array(list(values), mask=random.random(len(values)) < share)


def write(path, time, coords, cells):
    with tiledb.open(path, "w", timestamp=time) as array:
        array[coords] = cells


def line():
    """40 fragments of 10 cells, many of them written over again: overlapping tiles and versions."""
    path, random = path_of("line"), np.random.default_rng(1)
    create(path, [tiledb.Dim("id", domain=(0, 9_999), tile=50, dtype="int64")],
           [attr("a", "int32"), attr("k", "int64", True), attr("s", "U", True), attr("x", "float64")],
           sparse=True, capacity=10)
    for fragment in range(40):
        ids = np.sort(random.choice(300, 10, replace=False)) + (0 if fragment % 2 else 3 * fragment)
        write(path, 1000 + fragment, ids, {
            "a": random.integers(-2, 8, 10).astype("int32"),
            "k": nulled(random, random.integers(0, 10, 10)),
            "s": nulled(random, words(random, 10)),
            "x": random.choice([-1.5, -0.0, 0.0, 0.25, 2.0, 100.0], 10)})


def plane(name, cell_order):
    """Six fragments that overlap in two dimensions, without duplicates."""
    path, random = path_of(name), np.random.default_rng(2)
    create(path, [tiledb.Dim(d, domain=(-20, 19), tile=None if cell_order == "hilbert" else 8, dtype="int32")
                  for d in ("row", "col")],
           [attr("a", "int32"), attr("k", "uint8", True), attr("f", "float32", True), attr("s", "U")],
           sparse=True, capacity=16, cell_order=cell_order)
    for fragment in range(6):
        cells = np.sort(random.choice(1600, 80, replace=False))
        low = -20 if fragment % 3 else -10
        row, col = cells // 40 + low, cells % 40 - 20
        inside = row <= 19
        row, col = row[inside].astype("int32"), col[inside].astype("int32")
        n = len(row)
        write(path, 1000 * (fragment + 1), (row, col), {
            "a": random.integers(-2, 8, n).astype("int32"),
            "k": nulled(random, random.integers(0, 10, n).astype("uint8")),
            "f": nulled(random, random.choice([-0.5, 0.5, 1.5, np.nan, np.inf], n).astype("float32"), 0.1),
            "s": words(random, n)})


def grid():
    """Dense, with tiles at the rim, four fragments one over the other, and cells that nobody wrote."""
    path, random = path_of("grid"), np.random.default_rng(3)
    create(path, [tiledb.Dim("row", domain=(1, 40), tile=7, dtype="int32"),
                  tiledb.Dim("col", domain=(1, 30), tile=9, dtype="int32")],
           [attr("a", "int32"), attr("k", "int64"), attr("x", "float64")], sparse=False)
    for fragment, (rows, cols) in enumerate([((1, 21), (1, 15)), ((5, 12), (3, 30)), ((20, 36), (8, 20)), ((9, 9), (9, 9))]):
        shape = (rows[1] - rows[0] + 1, cols[1] - cols[0] + 1)
        n = shape[0] * shape[1]
        write(path, 1000 * (fragment + 1), (slice(rows[0], rows[1] + 1), slice(cols[0], cols[1] + 1)), {
            "a": (np.arange(n) // 40 - 2 + random.integers(0, 2, n)).astype("int32").reshape(shape),
            "k": random.integers(0, 10, n).reshape(shape),
            "x": random.choice([-1.5, 0.0, 0.25, 2.0], n).reshape(shape)})


def hours():
    """Measurements by the hour, each station's in a fragment of its own and some corrected."""
    path, random = path_of("hours"), np.random.default_rng(4)
    start = np.datetime64("2023-12-30T00", "h")
    states = tiledb.Enumeration("states", True, values=STATES)
    tiledb_schema = tiledb.ArraySchema(
        domain=tiledb.Domain(
            tiledb.Dim("time", domain=(np.datetime64("2000-01-01T00", "h"), np.datetime64("2030-01-01T00", "h")),
                       tile=np.timedelta64(48, "h"), dtype="datetime64[h]"),
            tiledb.Dim("station", domain=(0, 99), tile=10, dtype="int16")),
        attrs=[attr("temperature", "float64"), attr("k", "int64"), tiledb.Attr("state", dtype="uint8", enum_label="states")],
        enums=(states,), sparse=True, capacity=32)
    tiledb.Array.create(path, tiledb_schema)
    for fragment in range(5):
        stations = [fragment] if fragment < 4 else range(4)
        times = start + np.arange(150 if fragment < 4 else 20).astype("timedelta64[h]") * (1 if fragment < 4 else 5)
        time = np.repeat(times, len(stations))
        station = np.tile(np.array(stations, dtype="int16"), len(times))
        n = len(time)
        write(path, 1000 * (fragment + 1), (time, station), {
            "temperature": np.round(random.normal(5, 10, n)) / 2,
            "k": random.integers(0, 10, n),
            "state": random.integers(0, 4, n).astype("uint8")})


def names():
    """A dimension of text, with duplicates."""
    path, random = path_of("names"), np.random.default_rng(5)
    create(path, [tiledb.Dim("name", domain=(None, None), dtype="ascii")],
           [attr("a", "int32"), attr("flag", "bool"), attr("day", "datetime64[D]")],
           sparse=True, allows_duplicates=True, capacity=20)
    for fragment in range(4):
        name = np.array(["n%02d" % i for i in random.integers(0, 60, 90)], dtype="S")
        write(path, 1000 * (fragment + 1), name, {
            "a": random.integers(-2, 8, 90).astype("int32"),
            "flag": random.random(90) < 0.5,
            "day": np.datetime64("2023-12-28", "D") + random.integers(0, 40, 90)})


def events():
    """Nanoseconds with duplicates, text of an enumeration, NULLs, and cells deleted."""
    path, random = path_of("events"), np.random.default_rng(6)
    kinds = tiledb.Enumeration("kinds", False, values=WORDS[1:6])
    tiledb.Array.create(path, tiledb.ArraySchema(
        domain=tiledb.Domain(tiledb.Dim(
            "at", domain=(np.datetime64("2000-01-01", "ns"), np.datetime64("2040-01-01", "ns")),
            tile=np.timedelta64(10**15, "ns"), dtype="datetime64[ns]")),
        attrs=[tiledb.Attr("kind", dtype="int8", nullable=True, enum_label="kinds"), attr("a", "int64"),
               attr("k", "uint16", True), attr("sent", "datetime64[s]")],
        enums=(kinds,), sparse=True, allows_duplicates=True, capacity=25))
    for fragment in range(5):
        n = 100
        at = np.datetime64("2024-01-01", "ns") + random.integers(0, 200, n) * np.timedelta64(43_200 * 10**9, "ns")
        write(path, 1000 * (fragment + 1), np.sort(at), {
            "kind": nulled(random, random.integers(0, 5, n).astype("int8")),
            "a": random.integers(-2, 8, n),
            "k": nulled(random, random.integers(0, 10, n).astype("uint16")),
            "sent": np.datetime64("2024-01-01", "s") + random.integers(0, 50, n) * np.timedelta64(7_200, "s")})
    with tiledb.open(path, "d", timestamp=3500) as array:
        array.query(cond="a == 3").submit()


def reals():
    """A dimension of floats with both zeros, and an attribute with NaN and an infinity besides."""
    path, random = path_of("reals"), np.random.default_rng(7)
    limit = np.finfo("float64").max
    create(path, [tiledb.Dim("x", domain=(-limit, limit), tile=None, dtype="float64")],
           [attr("a", "int32"), attr("f", "float32"), attr("s", "U", True)],
           sparse=True, allows_duplicates=True, capacity=12)
    for fragment in range(4):
        x = np.concatenate([random.integers(-20, 20, 50) / 4, [-0.0, 0.0]])
        n = len(x)
        write(path, 1000 * (fragment + 1), x, {
            "a": random.integers(-2, 8, n).astype("int32"),
            "f": random.choice([-0.0, 0.0, 0.5, np.nan, -np.inf], n).astype("float32"),
            "s": nulled(random, words(random, n))})


def evolved():
    """An attribute that came later, one that went, and lists."""
    path, random = path_of("evolved"), np.random.default_rng(8)
    create(path, [tiledb.Dim("id", domain=(0, 999), tile=20, dtype="uint32")],
           [attr("a", "int32"), attr("gone", "int32"),
            tiledb.Attr("few", dtype="int32", var=True), tiledb.Attr("pair", dtype=np.dtype("int32, int32"))],
           sparse=True, capacity=15)

    def cells(n, more):
        few = np.empty(n, dtype=object)
        for i in range(n):
            few[i] = random.integers(0, 9, 1 + i % 3).astype("int32")
        pair = np.zeros(n, dtype=np.dtype("int32, int32"))
        pair["f0"], pair["f1"] = np.arange(n) % 5, np.arange(n) % 3
        return {"a": random.integers(-2, 8, n).astype("int32"), "few": few, "pair": pair, **more}

    for fragment in range(2):
        ids = np.sort(random.choice(200, 60, replace=False)).astype("uint32")
        write(path, 1000 + fragment, ids, cells(60, {"gone": np.arange(60, dtype="int32")}))
    evolution = tiledb.ArraySchemaEvolution()
    evolution.drop_attribute("gone")
    evolution.add_attribute(attr("k", "int64", True))
    evolution.add_attribute(attr("later", "float64"))
    evolution.array_evolve(path)
    for fragment in range(2):
        ids = np.sort(random.choice(300, 60, replace=False)).astype("uint32")
        write(path, 2000 + fragment, ids, cells(60, {
            "k": nulled(random, random.integers(0, 10, 60)), "later": random.integers(-3, 3, 60) / 2}))


def small():
    """A dense table to join with: ten rows."""
    path = path_of("small")
    create(path, [tiledb.Dim("k", domain=(0, 9), tile=4, dtype="int64")],
           [attr("label", "U"), attr("a", "int16")], sparse=False)
    write(path, 1000, slice(None), {"label": np.array(WORDS, dtype="U"), "a": (np.arange(10) % 4).astype("int16")})


def many():
    """More cells than fit into a unit of the scan; the second fragment lies over a part of the first."""
    path = path_of("many")
    delta = tiledb.FilterList([tiledb.DoubleDeltaFilter(), tiledb.ZstdFilter(level=9)])
    create(path, [tiledb.Dim("id", domain=(0, 999_999), tile=10_000, dtype="int64", filters=delta)],
           [attr("a", "int32"), attr("k", "int64"), tiledb.Attr("n", dtype="int64", filters=delta)],
           sparse=True, capacity=10_000)
    for fragment, (low, high, step) in enumerate([(0, 200_000, 1), (150_000, 250_000, 2), (400_000, 430_000, 1)]):
        ids = np.arange(low, high, step)
        write(path, 1000 * (fragment + 1), ids, {
            "a": (ids // 10_000 % 8).astype("int32"), "k": ids // 7 % 10, "n": ids * 3 + fragment})


PADDED = ["", "a", "ab", "abc", "abcde", "b", "Berg", "zoo", "z%_"]


def codes():
    """Text in cells of a fixed size, padded with NULs, some of it as long as its cell."""
    path, random = path_of("codes"), np.random.default_rng(12)
    create(path, [tiledb.Dim("id", domain=(0, 999), tile=50, dtype="int64")],
           [attr("s", "S5"), attr("c", "S1"), attr("t", "S", var=True), attr("a", "int32")], sparse=True, capacity=10)
    for fragment in range(5):
        ids = np.sort(random.choice(200, 30, replace=False))
        write(path, 1000 * (fragment + 1), ids, {
            "s": np.array([PADDED[i] for i in random.integers(0, len(PADDED), 30)], dtype="S5"),
            "c": np.array([["", "a", "b"][i] for i in random.integers(0, 3, 30)], dtype="S1"),
            "t": np.array([PADDED[i] for i in random.integers(0, len(PADDED), 30)], dtype="O"),
            "a": random.integers(-2, 8, 30).astype("int32")})


def tags():
    """Dense, of CHAR, with cells that nobody wrote: their usual fill value is no text."""
    path, random = path_of("tags"), np.random.default_rng(13)
    create(path, [tiledb.Dim("k", domain=(0, 99), tile=8, dtype="int32")],
           [attr("s", "S5"), attr("t", "S", var=True), attr("a", "int32")], sparse=False)
    for fragment, (low, high) in enumerate([(0, 20), (50, 70), (15, 30), (80, 83)]):
        n = high - low
        write(path, 1000 * (fragment + 1), slice(low, high), {
            "s": np.array([PADDED[i] for i in random.integers(0, len(PADDED), n)], dtype="S5"),
            "t": np.array([PADDED[i] for i in random.integers(0, len(PADDED), n)], dtype="O"),
            "a": random.integers(-2, 8, n).astype("int32")})


line()
plane("plane", "row-major")
plane("curve", "hilbert")
grid()
hours()
names()
events()
reals()
evolved()
small()
many()
codes()
tags()
