"""Makes the arrays of the benchmarks, and beside each a Parquet twin: the same rows in the same order.

    python arrays.py FOLDER           make all in FOLDER (about 600 MB, three minutes)
    python arrays.py FOLDER NAME …    make these

Needs tiledb==0.36.1 (libtiledb 2.30), numpy and pyarrow. Data are random but the same every time. Duplicates are what one
would keep without arrays: zstd, row groups of pyarrow's size, statistics of pages, and the cells that are seen when
all fragments are merged. libtiledb.py times libtiledb on the arrays. The arrays of special_ways, which compares us
with ourselves, have no duplicates: climate, ships, genes, calls.
"""
import os
import shutil
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tiledb

# libtiledb.py and the benches know these numbers.
SIDE, TILE = 7072, 256
SPARSE_SIDE, SPARSE_TILE, SPARSE_CELLS = 1_000_000, 10_000, 10_000_000
FRAGMENTS, FRAGMENT_CELLS = 500, 2_000
OVERLAPPING, OVERLAPPING_CELLS = 20, 5_000_000
CLIMATE_SHAPE, CLIMATE_TILE = (48, 360, 576), (2, 90, 144)
SHIPS, SHIP_DAYS, SHIP_CELLS = 3_000, 28, 4_000_000
CELLS, GENES, GENES_PER_CELL = 80_000, 30_000, 100
CALLS, SAMPLES = 3_000_000, 200

ZSTD = tiledb.FilterList([tiledb.ZstdFilter(level=3)])
SHUFFLED = tiledb.FilterList([tiledb.ByteShuffleFilter(), tiledb.ZstdFilter(level=3)])


class Twin:
    """A Parquet file, written piece by piece."""

    def __init__(self, path):
        self.path, self.writer = path, None

    def write(self, **columns):
        table = pa.table(columns)
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.path, table.schema, compression="zstd", write_page_index=True)
        self.writer.write_table(table)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.writer.close()


def dense50m(uri, twin):
    """50 M cells of float32: two waves and the noise of an instrument with two decimals."""
    dims = [tiledb.Dim(name=n, domain=(0, SIDE - 1), tile=TILE, dtype=np.int32) for n in ("y", "x")]
    attr = tiledb.Attr(name="v", dtype=np.float32, filters=SHUFFLED)
    tiledb.Array.create(uri, tiledb.ArraySchema(domain=tiledb.Domain(*dims), attrs=[attr]))
    rng = np.random.default_rng(1)
    y = np.arange(SIDE, dtype=np.float32)[:, None]
    x = np.arange(SIDE, dtype=np.float32)[None, :]
    v = 15 + 10 * np.sin(y / 500) + 8 * np.cos(x / 300) + rng.normal(0, 0.5, (SIDE, SIDE)).astype(np.float32)
    v = (np.round(v * 100) / 100).astype(np.float32)
    with tiledb.open(uri, "w", timestamp=1) as a:
        a[:] = v
    # Tile by tile, as the array has it: so pages of the twin, too, are narrow in both coordinates.
    with Twin(twin) as out:
        numbers = np.arange(SIDE, dtype=np.int32)
        for top in range(0, SIDE, TILE):
            rows = slice(top, min(top + TILE, SIDE))
            tiles = [slice(left, min(left + TILE, SIDE)) for left in range(0, SIDE, TILE)]
            grids = [np.meshgrid(numbers[rows], numbers[columns], indexing="ij") for columns in tiles]
            out.write(
                y=np.concatenate([g[0].ravel() for g in grids]),
                x=np.concatenate([g[1].ravel() for g in grids]),
                v=np.concatenate([v[rows, columns].ravel() for columns in tiles]),
            )


def create_sparse(uri):
    dims = [
        tiledb.Dim(name=n, domain=(0, SPARSE_SIDE - 1), tile=SPARSE_TILE, dtype=np.int64) for n in ("d0", "d1")
    ]
    attrs = [tiledb.Attr(name="a", dtype=np.float64, filters=ZSTD), tiledb.Attr(name="b", dtype=np.int32, filters=ZSTD)]
    tiledb.Array.create(uri, tiledb.ArraySchema(
        domain=tiledb.Domain(*dims), attrs=attrs, sparse=True, capacity=100_000,
        coords_filters=tiledb.FilterList([tiledb.ZstdFilter()]),
    ))


def places(rng, count):
    """So many different places of the square, in no order."""
    keys = np.unique(rng.integers(0, SPARSE_SIDE * SPARSE_SIDE, int(count * 1.01)))
    return rng.permutation(keys)[:count]


def write_sparse_twin(twin, key, a, b):
    """In the order of the array: tile by tile, row by row in each."""
    d0, d1 = key // SPARSE_SIDE, key % SPARSE_SIDE
    tile = d0 // SPARSE_TILE * (SPARSE_SIDE // SPARSE_TILE) + d1 // SPARSE_TILE
    order = np.argsort((tile * SPARSE_TILE + d0 % SPARSE_TILE) * SPARSE_TILE + d1 % SPARSE_TILE)
    with Twin(twin) as out:
        out.write(d0=d0[order], d1=d1[order], a=a[order], b=b[order])


def sparse10m(uri, twin):
    """10 M cells at random places of a square, one fragment, 100 tiles; and a file of the same rows as they come."""
    create_sparse(uri)
    rng = np.random.default_rng(2)
    key = places(rng, SPARSE_CELLS)
    a = np.round(rng.normal(100, 15, SPARSE_CELLS), 3)
    b = rng.integers(0, 1000, SPARSE_CELLS).astype(np.int32)
    with tiledb.open(uri, "w", timestamp=1) as w:
        w[key // SPARSE_SIDE, key % SPARSE_SIDE] = {"a": a, "b": b}
    write_sparse_twin(twin, key, a, b)
    with Twin(uri + "_unordered.parquet") as out:
        out.write(d0=key // SPARSE_SIDE, d1=key % SPARSE_SIDE, a=a, b=b)


def overlapping20(uri, twin):
    """5 M cells in 20 fragments that each lie all over the square; a cell in five is written a second time."""
    create_sparse(uri)
    rng = np.random.default_rng(3)
    key = places(rng, OVERLAPPING_CELLS)
    a, b = np.empty(len(key)), np.empty(len(key), np.int32)
    each = len(key) // OVERLAPPING
    for fragment in range(OVERLAPPING):
        cells = np.arange(fragment * each, (fragment + 1) * each)
        if fragment > 0:
            cells = np.concatenate([cells, rng.choice(fragment * each, each // 5, replace=False)])
        a[cells], b[cells] = np.round(rng.normal(100, 15, len(cells)), 3), fragment
        with tiledb.open(uri, "w", timestamp=fragment + 1) as w:
            w[key[cells] // SPARSE_SIDE, key[cells] % SPARSE_SIDE] = {"a": a[cells], "b": b[cells]}
    write_sparse_twin(twin, key, a, b)


def fragments500(uri, twin):
    """1 M cells, 2,000 a fragment, as a log grows. The twin is a folder with a file for each fragment."""
    dim = tiledb.Dim(name="id", domain=(0, 10**9), tile=10_000, dtype=np.int64, filters=ZSTD)
    attrs = [tiledb.Attr(name="a", dtype=np.float64, filters=ZSTD), tiledb.Attr(name="b", dtype=np.int32, filters=ZSTD)]
    tiledb.Array.create(uri, tiledb.ArraySchema(domain=tiledb.Domain(dim), attrs=attrs, sparse=True))
    os.mkdir(twin)
    rng = np.random.default_rng(4)
    for fragment in range(FRAGMENTS):
        key = np.arange(fragment * FRAGMENT_CELLS, (fragment + 1) * FRAGMENT_CELLS)
        a = np.round(rng.normal(100, 15, len(key)), 3)
        b = rng.integers(0, 1000, len(key)).astype(np.int32)
        # Consolidating commits takes fragments by name, and fails where the first of them is not the oldest: so all
        # times have as many digits.
        with tiledb.open(uri, "w", timestamp=1_700_000_000_000 + fragment) as w:
            w[key] = {"a": a, "b": b}
        with Twin(os.path.join(twin, f"{fragment:03}.parquet")) as out:
            out.write(id=key, a=a, b=b)


def fragments500_consolidated(uri, twin):
    """The same after its commits and the metadata of its fragments were consolidated; cells stay where they are."""
    fragments500(uri, twin)
    for what in ("fragment_meta", "commits"):
        settings = {"sm.consolidation.mode": what, "sm.vacuum.mode": what}
        tiledb.consolidate(uri, config=tiledb.Config(settings))
        tiledb.vacuum(uri, config=tiledb.Config(settings))


def climate(uri):
    """10 M cells by time, latitude and longitude: a temperature with seasons, and what the ground is, which has a name."""
    rng = np.random.default_rng(5)
    times, lats, lons = CLIMATE_SHAPE
    dims = [
        tiledb.Dim(name=name, domain=(0, size - 1), tile=tile, dtype=np.int32)
        for name, size, tile in zip(("time", "lat", "lon"), CLIMATE_SHAPE, CLIMATE_TILE)
    ]
    grounds = ["sea", "ice", "forest", "grass", "crops", "sand", "rock", "city"]
    attrs = [
        tiledb.Attr(name="t", dtype=np.float32, filters=SHUFFLED),
        tiledb.Attr(name="ground", dtype=np.uint8, enum_label="ground", filters=ZSTD),
    ]
    tiledb.Array.create(uri, tiledb.ArraySchema(
        domain=tiledb.Domain(*dims), attrs=attrs, enums=[tiledb.Enumeration("ground", False, values=grounds)],
    ))
    time_, lat, lon = np.ogrid[:times, :lats, :lons]
    t = 250 + 50 * np.sin(np.pi * lat / lats) ** 2 + 5 * np.cos(2 * np.pi * lon / lons)
    t = t - 10 * np.cos(2 * np.pi * time_ / times)
    t = np.round((t + rng.normal(0, 0.3, CLIMATE_SHAPE)) * 100) / 100
    # Patches of 6 × 6 cells, with a few others in between.
    ground = rng.integers(0, len(grounds), (lats // 6, lons // 6)).repeat(6, 0).repeat(6, 1)
    ground = np.where(rng.random(CLIMATE_SHAPE) < 0.1, rng.integers(0, len(grounds), CLIMATE_SHAPE), ground)
    with tiledb.open(uri, "w", timestamp=1) as w:
        w[:] = {"t": t.astype(np.float32), "ground": ground.astype(np.uint8)}


def ships(uri):
    """4 M positions of 3,000 ships in four weeks, a fragment a week: times, names, what a ship is doing."""
    rng = np.random.default_rng(6)
    day = 86_400
    begin = np.datetime64("2024-01-01T00:00:00", "s")
    dims = [
        tiledb.Dim(name="time", domain=(np.datetime64("2023-01-01", "s"), np.datetime64("2030-01-01", "s")),
                   tile=np.timedelta64(day, "s"), dtype="datetime64[s]",
                   filters=tiledb.FilterList([tiledb.DoubleDeltaFilter(), tiledb.ZstdFilter()])),
        tiledb.Dim(name="lon", domain=(-180.0, 180.0), tile=10.0, dtype=np.float64, filters=SHUFFLED),
        tiledb.Dim(name="lat", domain=(-90.0, 90.0), tile=10.0, dtype=np.float64, filters=SHUFFLED),
    ]
    doing = ["under way", "at anchor", "moored", "aground", "fishing", "sailing", "towing", "unknown"]
    attrs = [
        tiledb.Attr(name="ship", dtype=np.int64, filters=SHUFFLED),
        tiledb.Attr(name="speed", dtype=np.float32, filters=SHUFFLED),
        tiledb.Attr(name="doing", dtype=np.uint8, enum_label="doing", filters=ZSTD),
        tiledb.Attr(name="name", dtype="U0", var=True, filters=ZSTD),
    ]
    tiledb.Array.create(uri, tiledb.ArraySchema(
        domain=tiledb.Domain(*dims), attrs=attrs, enums=[tiledb.Enumeration("doing", False, values=doing)],
        sparse=True, capacity=100_000, allows_duplicates=True,
    ))
    first, second = ["EVER", "NORDIC", "PACIFIC", "GOLDEN", "BLUE", "ISLAND"], ["GIVEN", "STAR", "QUEEN", "DAWN", "PEARL"]
    names = np.array([f"{rng.choice(first)} {rng.choice(second)} {number}" for number in range(SHIPS)])
    home = rng.uniform((-170, -60), (170, 60), (SHIPS, 2))
    count = SHIP_CELLS // 4
    for week in range(4):
        ship = rng.integers(0, SHIPS, count)
        seconds = rng.integers(week * 7 * day, (week + 1) * 7 * day, count)
        place = np.round(home[ship] + rng.normal(0, 2, (count, 2)), 5)
        with tiledb.open(uri, "w", timestamp=week + 1) as w:
            w[begin + seconds.astype("timedelta64[s]"), place[:, 0], place[:, 1]] = {
                "ship": 200_000_000 + 37 * ship,
                "speed": np.round(rng.gamma(4.5, 2.0, count), 1).astype(np.float32),
                "doing": rng.choice(8, count, p=[0.45, 0.1, 0.3, 0.01, 0.07, 0.03, 0.01, 0.03]).astype(np.uint8),
                "name": names[ship],
            }


def genes(uri):
    """8 M values of a sparse matrix: 100 genes of each of 80,000 cells of an organism."""
    rng = np.random.default_rng(7)
    filters = tiledb.FilterList([tiledb.DeltaFilter(), tiledb.ByteShuffleFilter(), tiledb.ZstdFilter()])
    dims = [
        tiledb.Dim(name=n, domain=(0, 2**31 - 2), tile=2048, dtype=np.int64, filters=filters) for n in ("cell", "gene")
    ]
    attr = tiledb.Attr(name="value", dtype=np.float32, filters=SHUFFLED)
    tiledb.Array.create(uri, tiledb.ArraySchema(
        domain=tiledb.Domain(*dims), attrs=[attr], sparse=True, capacity=100_000,
    ))
    # Some genes are found much more often than others.
    often = rng.permutation(GENES)[(rng.random(int(CELLS * GENES_PER_CELL * 1.1)) ** 3 * GENES).astype(np.int64)]
    key = np.unique(rng.integers(0, CELLS, len(often)) * GENES + often)
    value = np.log1p(rng.geometric(0.45, len(key)) * 50).astype(np.float32)
    with tiledb.open(uri, "w", timestamp=1) as w:
        w[key // GENES, key % GENES] = value


def calls(uri):
    """3 M variants of 200 samples: the letters of the reference and those found, and two numbers of which was inherited."""
    rng = np.random.default_rng(8)
    dims = [
        tiledb.Dim(name="pos", domain=(0, 2**32 - 2), tile=10**7, dtype=np.uint32,
                   filters=tiledb.FilterList([tiledb.DoubleDeltaFilter(), tiledb.ZstdFilter()])),
        tiledb.Dim(name="sample", domain=(0, SAMPLES - 1), tile=SAMPLES, dtype=np.int32, filters=ZSTD),
    ]
    pair = np.dtype([("", np.int8), ("", np.int8)])
    attrs = [
        tiledb.Attr(name="ref", dtype="ascii", var=True, filters=tiledb.FilterList([tiledb.RleFilter()])),
        tiledb.Attr(name="alt", dtype="ascii", var=True,
                    filters=tiledb.FilterList([tiledb.DictionaryFilter(), tiledb.ZstdFilter()])),
        tiledb.Attr(name="gt", dtype=pair, filters=ZSTD),
        tiledb.Attr(name="quality", dtype=np.float32, filters=SHUFFLED),
    ]
    tiledb.Array.create(uri, tiledb.ArraySchema(
        domain=tiledb.Domain(*dims), attrs=attrs, sparse=True, capacity=20_000, allows_duplicates=True,
    ))
    position = np.unique(rng.integers(0, 2 * 10**8, CALLS // 15))
    letters = np.array(["A", "C", "G", "T"] * 5 + ["AT", "CAG", "GTTC", "TCAAC"], dtype="O")
    ref, alt = rng.choice(letters, len(position)), rng.choice(letters, len(position))
    key = np.unique(rng.integers(0, len(position) * SAMPLES, CALLS))
    site, count = key // SAMPLES, len(key)
    inherited = np.zeros(count, pair)
    for name, share in zip(pair.names, (0.6, 0.95)):
        inherited[name] = rng.random(count) < share
    with tiledb.open(uri, "w", timestamp=1) as w:
        w[position[site].astype(np.uint32), (key % SAMPLES).astype(np.int32)] = {
            "ref": ref[site],
            "alt": alt[site],
            "gt": inherited,
            "quality": np.round(rng.gamma(6, 60, count), 1).astype(np.float32),
        }


ARRAYS = [dense50m, sparse10m, overlapping20, fragments500, fragments500_consolidated]
WITHOUT_TWINS = [climate, ships, genes, calls]


def main(folder, names):
    os.makedirs(folder, exist_ok=True)
    for make in ARRAYS + WITHOUT_TWINS:
        if names and make.__name__ not in names:
            continue
        begin = time.perf_counter()
        uri = os.path.join(folder, make.__name__)
        twin = uri + ".parquet"
        for old in (uri, twin):
            if os.path.isdir(old):
                shutil.rmtree(old)
            elif os.path.exists(old):
                os.remove(old)
        make(uri, twin) if make in ARRAYS else make(uri)
        print(f"{make.__name__}: {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= {make.__name__ for make in ARRAYS + WITHOUT_TWINS}:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
