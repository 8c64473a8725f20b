"""Slices of sparse arrays whose tiles have many chunks: a search by the order of cells must miss none.

    python slices.py BINARY [--seed N] [--arrays N]

The arrays of run.py are small, and so are their tiles. Here are 60,000 to 200,000 cells in tiles of 35,000 to 120,000,
so a tile's coordinates take several chunks, of which the reader decodes only those that can hold a wanted cell. Needs
tiledb and numpy. The expected answers are counted in numpy. Exit status 1 if one differs, or if nothing was skipped.
"""
import argparse
import re
import subprocess
import sys
import tempfile

import numpy as np
import tiledb

ORDERS = ["row-major", "col-major"]
TYPES = ["int64", "int64", "int32", "uint16", "float64", "datetime64[s]"]
SPANS = [50, 300, 2_000, 40_000]
QUERIES = 25


def dimension(random, name, cells, span):
    """A dimension of random type and extent, and random coordinates."""
    kind = str(random.choice(TYPES))
    low = int(random.integers(0 if kind == "uint16" else -1_000, 1_000))
    if kind == "float64":
        values = random.random(cells) * span + low
        domain, extent = (float(low), float(low + span)), [None, span / 7, float(span), span / 40][random.integers(4)]
    else:
        values = random.integers(low, low + span + 1, cells).astype(kind)
        domain, extent = (low, low + span), int(random.choice([max(1, span // 13), max(1, span // 3), span, 1 if span < 400 else 37]))
        if kind == "datetime64[s]":
            domain, extent = tuple(np.datetime64(end, "s") for end in domain), np.timedelta64(extent, "s")
    filters = [tiledb.ZstdFilter(level=1)] if random.random() < 0.6 else [tiledb.ByteShuffleFilter(), tiledb.LZ4Filter()]
    return tiledb.Dim(name, domain=domain, tile=extent, dtype=values.dtype, filters=tiledb.FilterList(filters)), values


def write(random, path):
    """An array of one to three dimensions in one or two fragments: its coordinates and values."""
    ndim, cells = int(random.choice([1, 2, 2, 2, 3])), int(random.integers(60_000, 200_000))
    spans = [SPANS[-1] if ndim == 1 else int(random.choice(SPANS)) for _ in range(ndim)]
    dims, coords = zip(*(dimension(random, f"d{d}", cells, span) for d, span in enumerate(spans)))
    tiledb.Array.create(path, tiledb.ArraySchema(
        domain=tiledb.Domain(*dims), attrs=[tiledb.Attr("v", dtype="int64")], sparse=True, allows_duplicates=True,
        capacity=int(random.integers(35_000, 120_000)), cell_order=str(random.choice(ORDERS)), tile_order=str(random.choice(ORDERS))))
    values = random.integers(0, 1 << 40, cells)
    first = cells // int(random.choice([1, 2]))
    for part in (slice(0, first), slice(first, cells)):
        if part.start < part.stop:
            with tiledb.open(path, "w") as array:
                array[tuple(c[part] for c in coords)] = values[part]
    return coords, values


def sql(value):
    """A coordinate in SQL."""
    return f"'{value}'" if isinstance(value, np.datetime64) else repr(value.item())


def condition(random, coords):
    """A condition on some dimensions, and the cells that meet it."""
    inside, terms = np.ones(len(coords[0]), bool), []
    for d in random.permutation(len(coords))[:int(random.integers(1, len(coords) + 1))]:
        x = coords[d]
        if random.random() < 0.35 and x.dtype.kind in "iu":
            points = random.choice(x, int(random.integers(1, 5)))
            inside &= np.isin(x, points)
            terms.append(f"d{d} IN ({', '.join(map(sql, points))})")
            continue
        if random.random() < 0.6:  # a narrow range
            at = int(random.integers(0, len(x)))
            low, high = np.sort(x)[[at, min(len(x) - 1, at + int(random.integers(0, len(x) // 50)))]]
        else:
            low, high = np.sort(random.choice(x, 2))
        inside &= (x >= low) & (x <= high)
        terms.append(f"d{d} BETWEEN {sql(low)} AND {sql(high)}")
    return " AND ".join(terms), inside


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arrays", type=int, default=40)
    options = parser.parse_args()
    failed = searched = 0
    for seed in range(options.seed, options.seed + options.arrays):
        random = np.random.default_rng(seed)
        with tempfile.TemporaryDirectory() as folder:
            coords, values = write(random, f"{folder}/a")
            asked = [condition(random, coords) for _ in range(QUERIES)]
            statements = [f"SELECT count(*), sum(v), min(d0) FROM a WHERE {where}" for where, _ in asked]
            command = [options.binary, "--format", "csv", "-c", f"CREATE EXTERNAL TABLE a STORED AS TILEDB LOCATION '{folder}/a'"]
            for statement in [*statements, "EXPLAIN ANALYZE " + statements[0]]:
                command += ["-c", statement]
            output = subprocess.run(command, capture_output=True, text=True).stdout
        found = [(int(n), int(v or 0)) for n, v in re.findall(r"^(\d+),(\d*),", output, re.MULTILINE)]
        expected = [(int(inside.sum()), int(values[inside].sum())) for _, inside in asked]
        searched += re.search(r"chunks_skipped=[1-9]", output) is not None
        for statement, e, f in zip(statements, expected, found + [None] * QUERIES):
            if e != f:
                failed += 1
                print(f"array {seed}: {statement}: expected {e}, found {f}")
    print(f"{options.arrays * QUERIES} questions, {failed} wrong answers; chunks were skipped in {searched} of {options.arrays} arrays")
    sys.exit(failed > 0 or searched == 0)


if __name__ == "__main__":
    main()
