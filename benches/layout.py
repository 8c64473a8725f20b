"""What the layout of an array costs SQL: the tables of docs/fast-layout.md.

    python layout.py FOLDER TILEDB_SQL [SECTION ...]

Writes arrays into FOLDER (about 5 GB in all; a section's arrays are removed before they are written), asks them with
the binary TILEDB_SQL and prints the tables as Markdown. Without SECTION all sections run, in about ten minutes:
dense, chunks, appends, capacity, order, clusters, overlap, fragments, numbers, strings, statistics, aggregates.

Needs tiledb==0.36.1 (libtiledb 2.30) and numpy. Times are milliseconds of warm statements, the least of seven, without
starting the shell. "12 t, 3.1 MB, 5 ms" means: 12 tiles decoded, 3.1 MB fetched, 5 ms. A scan is to be a scan, so sums are
not taken from the statistics of tiles (`tiledb.aggregate_from`), except for `count(*)` of fragments and in the last section.
"""
import filecmp
import glob
import os
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import tiledb

RUNS = 7
CELLS = 10_000_000  # of one-dimensional dense arrays
SPARSE = 5_000_000  # of sparse arrays, which libtiledb sorts when they are written
SIDE = 1_000_000  # of the domain of sparse arrays
CELLS_ONLY = "OPTIONS ('tiledb.aggregate_from' 'cells')"

ByteShuffle, BitShuffle, Delta = tiledb.ByteShuffleFilter, tiledb.BitShuffleFilter, tiledb.DeltaFilter
DoubleDelta, PositiveDelta, BitWidth = tiledb.DoubleDeltaFilter, tiledb.PositiveDeltaFilter, tiledb.BitWidthReductionFilter
Zstd, Lz4, Rle, Dictionary = tiledb.ZstdFilter, tiledb.LZ4Filter, tiledb.RleFilter, tiledb.DictionaryFilter


# The shell

def shell(path, options, statements):
    """What the shell prints for statements about the array `a`."""
    create = f"CREATE EXTERNAL TABLE a STORED AS TILEDB LOCATION '{path}' {options}"
    command = [BINARY, "--maxrows", "inf"]
    for statement in [create, *statements]:
        command += ["-c", statement]
    # The times go to stderr.
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return ran.stdout


def seconds(output):
    return [float(s) for s in re.findall(r"Elapsed ([0-9.]+) seconds", output)]


def warm(path, sql, options=CELLS_ONLY):
    """Milliseconds of the fastest of some runs."""
    return 1000 * min(seconds(shell(path, options, [sql] * (RUNS + 1)))[2:])


def fresh(path, sql, options=CELLS_ONLY):
    """Milliseconds of naming the table and asking once, in a new process: metadata are read, nothing is cached by us."""
    return 1000 * min(sum(seconds(shell(path, options, [sql]))) for _ in range(RUNS))


def counters(path, sql, options=CELLS_ONLY):
    """The counters of the scan, as EXPLAIN ANALYZE shows them in a new process."""
    output = shell(path, options, ["EXPLAIN ANALYZE " + sql])
    line = next(line for line in output.splitlines() if "TileDbScan" in line)
    unit = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9}
    plan, metrics = line.split("metrics=")
    found = {name: float(n) * unit[u] for name, n, u in re.findall(r"(\w+)=([0-9.]+) ?([KMB]?)[,\]]", metrics)}
    return found | {"tiles_planned": int(re.search(r"tiles=(\d+)/", plan)[1]), "sparse": "array=sparse" in plan}


def asked(path, sql, options=CELLS_ONLY):
    c = counters(path, sql, options)
    tiles = c["tiles_decoded"]
    # Counters have three digits, and tiles of sparse arrays that are read in two rounds count twice.
    if tiles > 0.995 * c["tiles_planned"] and (c["sparse"] or tiles < 1.005 * c["tiles_planned"]):
        tiles = c["tiles_planned"]
    return f"{tiles:,.0f} t, {size(c['bytes_fetched'])}, {ms(warm(path, sql, options))}"


def csv(path, sql):
    """The rows of an answer."""
    command = [BINARY, "-q", "--format", "csv", "-c", f"CREATE EXTERNAL TABLE a STORED AS TILEDB LOCATION '{path}'", "-c", sql]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line.split(",") for line in output.splitlines()[1:]]


def field_bytes(path):
    """Stored bytes of each field."""
    rows = csv(path, "SELECT field, sum(data_bytes + coalesce(var_bytes, 0)) AS bytes FROM tiledb_tiles('a') GROUP BY field")
    return {name: int(n) for name, n in rows}


def size(n):
    return f"{n / 1e6:.1f} MB" if n >= 1e5 else f"{n / 1e6:.2f} MB"


def ms(n):
    return f"{n:.0f} ms"


def table(title, head, rows):
    print(f"\n{title}\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)


# The arrays

def at(name):
    path = os.path.join(FOLDER, name)
    shutil.rmtree(path, ignore_errors=True)
    return path


def chain(*filters):
    return tiledb.FilterList(list(filters))


def dense(name, shape, extents, attrs):
    path = at(name)
    dims = [tiledb.Dim(name=n, domain=(0, s - 1), tile=e, dtype=np.int32) for n, s, e in zip("yx", shape, extents)]
    tiledb.Array.create(path, tiledb.ArraySchema(domain=tiledb.Domain(*dims), attrs=attrs))
    return path


def sparse(name, extents=(100_000, 100_000), capacity=10_000, cell_order="row-major", duplicates=False):
    path = at(name)
    dims = [tiledb.Dim(name=n, domain=(0, SIDE - 1), tile=e, dtype=np.int64, filters=chain(ByteShuffle(), Zstd(3)))
            for n, e in zip(("d0", "d1"), extents)]
    attr = tiledb.Attr(name="v", dtype=np.float64, filters=chain(ByteShuffle(), Zstd(3)))
    tiledb.Array.create(path, tiledb.ArraySchema(domain=tiledb.Domain(*dims), attrs=[attr], sparse=True, capacity=capacity,
                                                 cell_order=cell_order, allows_duplicates=duplicates))
    return path


def write(path, *where, timestamp=1, **values):
    with tiledb.open(path, "w", timestamp=1_700_000_000_000 + timestamp) as a:
        a[where if len(where) > 1 else where[0]] = values if len(values) > 1 else next(iter(values.values()))


def write_cells(path, d0, d1, v, extents=(100_000, 100_000), timestamp=1):
    """Writes cells, in their global order, so that libtiledb has less to sort."""
    (e0, e1), tiles = extents, -(-SIDE // extents[1])
    order = np.argsort(((d0 // e0 * tiles + d1 // e1) * e0 + d0 % e0) * e1 + d1 % e1, kind="stable")
    write(path, d0[order], d1[order], timestamp=timestamp, v=v[order])


def picture(side):
    """Two waves and the noise of an instrument with two decimals."""
    y, x = np.arange(side, dtype=np.float32)[:, None], np.arange(side, dtype=np.float32)[None, :]
    noise = np.random.default_rng(1).normal(0, 0.5, (side, side)).astype(np.float32)
    return np.round(15 + 10 * np.sin(y / 500) + 8 * np.cos(x / 300) + noise, 2)


def scattered():
    """Cells at random places of the square, each place once."""
    rng = np.random.default_rng(2)
    key = rng.permutation(np.unique(rng.integers(0, SIDE * SIDE, SPARSE + SPARSE // 100)))[:SPARSE]
    return key // SIDE, key % SIDE, np.round(rng.normal(100, 15, SPARSE), 3)


def spans(d0, n):
    """The cells cut into n spans of d0, no value of d0 in two of them."""
    order = np.argsort(d0, kind="stable")
    return np.split(order, np.searchsorted(d0[order], np.arange(1, n) * (SIDE // n)))


# The sections

def section_dense():
    side, v = 4096, picture(4096)
    one = side // 100
    questions = {
        "point": "y = 1234 AND x = 2345",
        "1 % of y": f"y BETWEEN 2000 AND {1999 + one}",
        "1 % of x": f"x BETWEEN 2000 AND {1999 + one}",
        "1 % box": f"y BETWEEN 1900 AND {1899 + side // 10} AND x BETWEEN 1900 AND {1899 + side // 10}",
        "all": "TRUE",
        "`v > 33` (0.6 %)": "v > 33",
    }
    rows = []
    for extents in ((32, 32), (128, 128), (512, 512), (2048, 2048), (16, 4096), (4096, 16)):
        path = dense(f"dense_{extents[0]}_{extents[1]}", (side, side), extents,
                     [tiledb.Attr(name="v", dtype=np.float32, filters=chain(ByteShuffle(), Zstd(3)))])
        write(path, slice(None), v=v)
        rows.append([f"{extents[0]} × {extents[1]}", size(sum(field_bytes(path).values()))]
                    + [asked(path, f"SELECT sum(v) FROM a WHERE {w}") for w in questions.values()])
    table("Dense, 4096 × 4096 cells of float32", ["extents y × x", "size", *questions], rows)


def section_chunks():
    """Whether the chunk size of a filter list changes what is written."""
    v, rows, files = picture(4096), [], []
    for kib in (4, 64, 4096):
        filters = tiledb.FilterList([ByteShuffle(), Zstd(3)], chunksize=kib << 10)
        path = dense(f"chunks_{kib}", (4096, 4096), (1024, 1024), [tiledb.Attr(name="v", dtype=np.float32, filters=filters)])
        write(path, slice(None), v=v)
        files.append(next(f for f in glob.glob(path + "/__fragments/*/a0.tdb")))
        rows.append([f"{kib} KiB", size(os.path.getsize(files[-1])), "yes" if filecmp.cmp(files[0], files[-1], shallow=False) else "no"])
    table("Chunk size, dense, extents 1024 × 1024 (4 MiB a tile)", ["chunk size in the schema", "size", "the same bytes as the first"], rows)


def section_appends():
    """Sixty-four writes of 64 rows each, along the tiles and across them."""
    side, v, rows = 4096, picture(4096), []
    for extent, step in ((64, 64), (256, 64), (256, 256)):
        path = dense(f"appends_{extent}_{step}", (side, side), (extent, 256),
                     [tiledb.Attr(name="v", dtype=np.float32, filters=chain(ByteShuffle(), Zstd(3)))])
        for y in range(0, side, step):
            write(path, slice(y, y + step), timestamp=y + 1, v=v[y:y + step])
        name = f"{side // step} writes of {step} rows, extent {extent}"
        for consolidated in (False, True):
            if consolidated:
                tiledb.consolidate(path)
                tiledb.vacuum(path)
            scan = counters(path, "SELECT sum(v) FROM a")
            rows.append([name + (", consolidated" if consolidated else ""), f"{scan['cells_decoded'] / 1e6:.1f} M",
                         asked(path, "SELECT sum(v) FROM a WHERE y = 1234 AND x = 2345"), asked(path, "SELECT sum(v) FROM a")])
    table("Dense, appended rows", ["written as", "cells decoded by `all`", "point", "all"], rows)


def sparse_questions(d0, d1):
    one, ten = SIDE // 100, SIDE // 10
    return {
        "point": f"d0 = {d0} AND d1 = {d1}",
        "1 % of d0": f"d0 BETWEEN 420000 AND {419999 + one}",
        "1 % of d1": f"d1 BETWEEN 420000 AND {419999 + one}",
        "1 % box": f"d0 BETWEEN 420000 AND {419999 + ten} AND d1 BETWEEN 420000 AND {419999 + ten}",
        "all": "TRUE",
    }


def sparse_table(title, first, variants):
    d0, d1, v = scattered()
    questions, rows = sparse_questions(d0[0], d1[0]), []
    for label, settings in variants.items():
        path = sparse(**settings)
        write_cells(path, d0, d1, v, settings.get("extents", (100_000, 100_000)))
        rows.append([label, size(int(csv(path, "SELECT sum(total_bytes) FROM tiledb_fragments('a')")[0][0]))]
                    + [asked(path, f"SELECT sum(v) FROM a WHERE {w}") for w in questions.values()]
                    + [ms(fresh(path, f"SELECT sum(v) FROM a WHERE {questions['point']}"))])
    table(title, [first, "size", *questions, "open + point"], rows)


def section_capacity():
    sparse_table("Sparse, 5 M cells at random, extents 100,000 × 100,000", "capacity",
                 {f"{c:,}": dict(name=f"capacity_{c}", capacity=c) for c in (1_000, 10_000, 100_000, 1_000_000)})


def section_order():
    sparse_table("Sparse, 5 M cells at random, capacity 10,000", "order", {
        "row-major, extents 1 M × 1 M": dict(name="order_whole", extents=(SIDE, SIDE)),
        "row-major, extents 100,000 × 100,000": dict(name="order_square"),
        "row-major, extents 31,250 × 31,250": dict(name="order_full", extents=(31_250, 31_250)),
        "row-major, extents 1,000 × 1,000": dict(name="order_small", extents=(1_000, 1_000)),
        "row-major, extents 1 M × 1,000": dict(name="order_strips", extents=(SIDE, 1_000)),
        "col-major, extents 1 M × 1 M": dict(name="order_col", extents=(SIDE, SIDE), cell_order="col-major"),
        "Hilbert": dict(name="order_hilbert", cell_order="hilbert"),
    })


def section_clusters():
    """Cells around 300 places, as around cities: no extents suit all of them."""
    rng = np.random.default_rng(3)
    centre, spread = rng.integers(50_000, 950_000, (300, 2)), rng.lognormal(7, 1.5, 300)
    which = rng.choice(300, SPARSE, p=(weight := rng.pareto(1.2, 300)) / weight.sum())
    d0, d1 = (np.clip(centre[which, i] + rng.normal(0, 1, SPARSE) * spread[which], 0, SIDE - 1).astype(np.int64) for i in (0, 1))
    v, rows = np.round(rng.normal(100, 15, SPARSE), 3), []
    busiest = np.argmax(np.bincount(which))
    (y, x), half = centre[busiest], int(spread[busiest] / 2)
    box = f"d0 BETWEEN {y - half} AND {y + half} AND d1 BETWEEN {x - half} AND {x + half}"
    for label, settings in {
        "row-major, extents 1 M × 1 M": dict(extents=(SIDE, SIDE)),
        "row-major, extents 100,000 × 100,000": dict(),
        "row-major, extents 1,000 × 1,000": dict(extents=(1_000, 1_000)),
        "Hilbert": dict(cell_order="hilbert"),
    }.items():
        path = sparse(f"clusters_{len(rows)}", duplicates=True, **settings)
        write_cells(path, d0, d1, v, settings.get("extents", (100_000, 100_000)))
        found = int(csv(path, f"SELECT count(*) FROM a WHERE {box}")[0][0])
        rows.append([label, asked(path, f"SELECT sum(v) FROM a WHERE {box}"), asked(path, "SELECT sum(v) FROM a")])
    table(f"Sparse, 5 M cells in clusters, capacity 10,000; the box holds {found:,} cells", ["order", "box", "all"], rows)


def section_overlap():
    """Ten fragments: each scattered over the square; or each a span of d0, neighbours sharing one value of it; or none."""
    d0, d1, v = scattered()
    one = sparse_questions(d0[0], d1[0])
    questions = {"point": one["point"], "1 % of d0": one["1 % of d0"], "all": "TRUE", "`v > 160`": "v > 160"}
    rows = []
    for kind, parts in (("overlapping", np.array_split(np.arange(SPARSE), 10)),
                        ("touching", np.array_split(np.argsort(d0, kind="stable"), 10)), ("apart", spans(d0, 10))):
        for duplicates in (False, True):
            path = sparse(f"overlap_{kind}_{duplicates}", duplicates=duplicates)
            for i, part in enumerate(parts):
                write_cells(path, d0[part], d1[part], v[part], timestamp=i + 1)
            for way in ("", ", consolidated"):
                if way:
                    if kind == "touching":
                        continue
                    tiledb.consolidate(path)
                    tiledb.vacuum(path)
                rows.append([kind + way, str(duplicates).lower()]
                            + [asked(path, f"SELECT sum(v) FROM a WHERE {w}") for w in questions.values()]
                            + [ms(warm(path, "SELECT count(*) FROM a", ""))])
    table("Sparse, 5 M cells in ten fragments", ["fragments", "`allows_duplicates`", *questions, "`count(*)`"], rows)


def section_fragments():
    """A series that grows: d0 is time, each write is the next span of it."""
    d0, d1, v = scattered()
    point = f"SELECT sum(v) FROM a WHERE d0 = {d0[0]} AND d1 = {d1[0]}"
    rows = []

    def measure(label, path):
        files = sum(len(names) for _, _, names in os.walk(path))
        rows.append([label, f"{files:,}", ms(fresh(path, point)), ms(warm(path, point)), ms(warm(path, "SELECT sum(v) FROM a")),
                     ms(warm(path, "SELECT count(*) FROM a", ""))])

    for n in (1, 10, 100, 1000):
        path = sparse(f"fragments_{n}", extents=(1_000, SIDE))
        for i, part in enumerate(spans(d0, n)):
            write_cells(path, d0[part], d1[part], v[part], (1_000, SIDE), timestamp=i + 1)
        measure(f"{n:,}", path)
    for mode, label in (("fragment_meta", "1,000, metadata consolidated"), ("commits", "the same, commits consolidated")):
        config = tiledb.Config({"sm.consolidation.mode": mode, "sm.vacuum.mode": mode})
        tiledb.consolidate(path, config=config)
        tiledb.vacuum(path, config=config)
        measure(label, path)
    tiledb.consolidate(path)
    tiledb.vacuum(path)
    measure("1,000, consolidated and vacuumed", path)
    table("Sparse, 5 M cells in fragments side by side", ["fragments", "files", "open + point", "point", "all", "`count(*)`"], rows)


def columns(name, cells, kinds, sql, extent=100_000, enumerations=()):
    """One dense array with an attribute for each way to store the same values."""
    path = at(name)
    dim = tiledb.Dim(name="i", domain=(0, cells - 1), tile=extent, dtype=np.int64)
    attrs, values = [], {}
    for attr, (data, filters, *rest) in kinds.items():
        attrs.append(tiledb.Attr(name=attr, filters=chain(*filters), **({"dtype": data.dtype} | (rest[0] if rest else {}))))
        values[attr] = data
    schema = tiledb.ArraySchema(domain=tiledb.Domain(dim), attrs=attrs, enums=enumerations,
                                offsets_filters=chain(PositiveDelta(), Zstd(3)))
    tiledb.Array.create(path, schema)
    write(path, slice(None), **values)
    stored = field_bytes(path)
    return [[attr, size(stored[attr])] + [ms(warm(path, s.format(attr))) for s in sql] for attr in kinds]


def section_numbers():
    """1,000 sensors, each with 10,000 readings about every minute: the coordinates (sensor, time) in row-major order."""
    rng = np.random.default_rng(4)
    sensor = np.repeat(np.arange(1000, dtype=np.int32), CELLS // 1000)
    regular = np.tile(np.arange(CELLS // 1000, dtype=np.int64) * 60_000, 1000) + 1_700_000_000_000
    jitter = regular + rng.integers(0, 5000, CELLS)
    drift = np.cumsum(rng.normal(0, 0.02, CELLS))
    value = np.round(20 + drift % 10 + rng.normal(0, 0.1, CELLS), 2)
    data = {"sensor": sensor, "time, regular": regular, "time, jitter": jitter,
            "float32, 2 decimals": value.astype(np.float32), "float64, 2 decimals": value, "float64, all digits": 20 + drift % 10,
            "int32 at random below 1,000": rng.integers(0, 1000, CELLS).astype(np.int32)}
    chains = {
        "none": [], "lz4": [Lz4()], "rle": [Rle()],
        "zstd 1": [Zstd(1)], "zstd 3": [Zstd(3)], "zstd 9": [Zstd(9)],
        "byteshuffle, lz4": [ByteShuffle(), Lz4()], "byteshuffle, zstd 3": [ByteShuffle(), Zstd(3)],
        "byteshuffle, zstd 9": [ByteShuffle(), Zstd(9)],
        "bitshuffle, lz4": [BitShuffle(), Lz4()], "bitshuffle, zstd 3": [BitShuffle(), Zstd(3)],
        "delta, zstd 3": [Delta(), Zstd(3)], "double delta, zstd 3": [DoubleDelta(), Zstd(3)],
        "delta, byteshuffle, zstd 3": [Delta(), ByteShuffle(), Zstd(3)],
        "bit width, zstd 3": [BitWidth(), Zstd(3)],
        "float scale 0.01 (loses digits), bitshuffle, zstd 3": [tiledb.FloatScaleFilter(0.01, 0, 2), BitShuffle(), Zstd(3)],
    }
    sql = ["SELECT avg({0}) FROM a"]
    cells = {}
    for name, values in data.items():
        floats = values.dtype.kind == "f"
        kinds, labels = {}, {}
        for label, filters in chains.items():
            integers_only = "delta" in label or "width" in label
            if floats and integers_only or not floats and "float" in label or label == "rle" and name != "sensor":
                continue
            labels[f"k{len(labels)}"] = label
            kinds[f"k{len(kinds)}"] = (values, filters)
        for attr, stored, took in columns(f"numbers_{len(cells)}", CELLS, kinds, sql):
            cells[labels[attr], name] = f"{stored}, {took}"
    table("10 M cells: stored size, and the time of a scan", ["filters", *data],
          [[label, *(cells.get((label, name), "") for name in data)] for label in chains])


def section_strings():
    rng = np.random.default_rng(5)
    n = 2_000_000
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    names = np.unique(["".join(rng.choice(letters, rng.integers(4, 13))) for _ in range(400)])[:200]
    codes = rng.integers(0, 200, n).astype(np.uint8)
    unique = np.array([f"item-{i:09d}" for i in rng.permutation(n)], dtype=object)
    ascii_ = dict(dtype="ascii", var=True)
    enum = tiledb.Enumeration("names", False, values=names.tolist())
    rows = []
    for label, data, code in (("200 names at random", names[codes].astype(object), codes),
                              ("200 names, sorted", names[np.sort(codes)].astype(object), np.sort(codes)),
                              ("all different", unique, None)):
        kinds = {"plain": (data, [], ascii_), "zstd": (data, [Zstd(3)], ascii_), "lz4": (data, [Lz4()], ascii_),
                 "rle": (data, [Rle()], ascii_), "dictionary": (data, [Dictionary()], ascii_),
                 "dictionary_zstd": (data, [Dictionary(), Zstd(3)], ascii_)}
        if code is not None:
            kinds |= {"enumeration_zstd": (code, [Zstd(3)], dict(enum_label="names"))}
        else:
            del kinds["rle"]
        wanted = names[77] if code is not None else "item-000000077"
        for row in columns(f"strings_{len(rows)}", n, kinds, ["SELECT sum(octet_length({0})) FROM a", f"SELECT count(*) FROM a WHERE {{0}} = '{wanted}'",
                           "SELECT count(*) FROM (SELECT {0} FROM a GROUP BY {0})"], enumerations=[enum] if code is not None else []):
            rows.append([label, row[0].replace("_", ", "), *row[1:]])
    table("2 M strings", ["values", "filters", "size", "scan", "`= 'name'`", "`GROUP BY`"], rows)


def section_statistics():
    """The same values in the order of the cells, nearly in it, and at random."""
    rng = np.random.default_rng(6)
    grows = np.arange(CELLS, dtype=np.float64)
    kinds = {"in order": grows, "nearly": grows + rng.normal(0, CELLS / 100, CELLS), "at random": rng.permutation(grows)}
    rows = []
    for extent in (1_000, 10_000, 100_000, 1_000_000):
        path = at(f"statistics_{extent}")
        attrs = [tiledb.Attr(name=f"v{i}", dtype=np.float64, filters=chain(ByteShuffle(), Zstd(3))) for i in range(3)]
        dim = tiledb.Dim(name="i", domain=(0, CELLS - 1), tile=extent, dtype=np.int64)
        tiledb.Array.create(path, tiledb.ArraySchema(domain=tiledb.Domain(dim), attrs=attrs))
        write(path, slice(None), **{f"v{i}": v for i, v in enumerate(kinds.values())})
        for i, label in enumerate(kinds):
            range_ = f"SELECT count(*), sum(i) FROM a WHERE v{i} BETWEEN 5000000 AND 5009999"
            top = f"SELECT i FROM a ORDER BY v{i} DESC LIMIT 10"
            rows.append([f"{extent:,}", f"{CELLS // extent:,}", label, asked(path, range_), asked(path, top)])
    table("Conditions on an attribute, 10 M cells; the range holds 0.1 % of them",
          ["cells a tile", "tiles", "values", "`v BETWEEN`", "`ORDER BY v DESC LIMIT 10`"], rows)


def section_aggregates():
    rows, path = [], os.path.join(FOLDER, "dense_128_128")
    if not os.path.exists(path):
        return
    for label, where in (("all", "TRUE"), ("along tiles", "y BETWEEN 1024 AND 3071 AND x BETWEEN 1024 AND 3071"),
                         ("across tiles", "y BETWEEN 1000 AND 3000 AND x BETWEEN 1000 AND 3000")):
        sql = f"SELECT count(*), min(v), max(v), avg(v) FROM a WHERE {where}"
        rows.append([label, ms(warm(path, sql, "")), ms(warm(path, sql))])
    table("`count(*), min(v), max(v), avg(v)` of a dense array, extents 128 × 128", ["cells", "from statistics", "from cells"], rows)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    FOLDER, BINARY = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(FOLDER, exist_ok=True)
    sections = {name[8:]: run for name, run in list(globals().items()) if name.startswith("section_")}
    for name in sys.argv[3:] or sections:
        begin = time.perf_counter()
        sections[name]()
        print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
