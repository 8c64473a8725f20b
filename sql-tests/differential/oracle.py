"""What libtiledb says an array contains, as a row model; and the making of one case in a process of its own, because libtiledb may crash.

The model of a time window: one list of canonical values per column. A dense array has one row per cell of the bounding box of its visible fragments.
"""

import itertools
import math
import os
import pickle
import random
import shutil
import traceback

import numpy as np

import data_gen
import schema_gen
from ctiledb import READ, ROW_MAJOR, UNORDERED, Buffer, Context, OpenArray, TileDBError

MAX_ROWS = 12_000


class Dropped(Exception):
    """The case says nothing: libtiledb refused, or it grew too large."""


def read_window(ctx, uri, schema, cells_written, start, end):
    """Columns (lists of canonical values, dimensions first) of the array in the inclusive window [start, end]."""
    with OpenArray(ctx, uri, READ, start, end) as array:
        first = schema.dims[0]
        if array.is_empty(0, first.is_var, first.dtype):
            return [[] for _ in schema.fields]
        if schema.sparse:
            return read_sparse(array, schema, cells_written)
        return read_dense(array, schema)


def read_sparse(array, schema, cells_written):
    buffers = {f.name: room(f, cells_written + 1) for f in schema.fields}
    if not array.query(UNORDERED, None, buffers):
        raise Dropped("incomplete read")
    return [f.cells(*buffers[f.name].filled()) for f in schema.fields]


def read_dense(array, schema):
    box = [tuple(int(v) for v in array.non_empty_domain(i, d.dtype)) for i, d in enumerate(schema.dims)]
    count = math.prod(hi - lo + 1 for lo, hi in box)
    if count > MAX_ROWS:
        raise Dropped("bounding box too large")
    buffers = {f.name: room(f, count) for f in schema.attrs}
    ranges = [(i, d.dtype.type(lo), d.dtype.type(hi)) for i, (d, (lo, hi)) in enumerate(zip(schema.dims, box))]
    if not array.query(ROW_MAJOR, ranges, buffers):
        raise Dropped("incomplete read")
    coordinates = list(zip(*itertools.product(*[range(lo, hi + 1) for lo, hi in box])))
    dims = [d.cells(np.array(c, d.dtype).tobytes(), None, None) for d, c in zip(schema.dims, coordinates)]
    return dims + [f.cells(*buffers[f.name].filled()) for f in schema.attrs]


def room(field, rows):
    """Buffers large enough for any column of `rows` rows (untouched memory costs nothing)."""
    rows += 16  # libtiledb insists that all buffers of a field hold the same number of cells
    data = np.empty(rows * (1000 if field.is_var else field.cell_size), np.uint8)
    return Buffer(data, np.empty(rows, np.uint64) if field.is_var else None, np.empty(rows, np.uint8) if field.nullable else None)


def random_windows(rng, timestamps):
    """The whole history and up to two random windows of it."""
    windows = [(0, None)]
    if timestamps:
        edges = [t + d for t in timestamps for d in (-1, 0, 0, 1) if t + d >= 0]
        windows += [(rng.choice([0, 0, rng.choice(edges)]), rng.choice([None, *edges])) for _ in range(rng.choice([0, 1, 2]))]
    return list(dict.fromkeys(w for w in windows if w[1] is None or w[0] <= w[1]))


def never_written(rng, schema, life, start, end, columns, _):
    """The same window with never-written cells as NULLs or left out, where the writes say which these are: consolidation writes fill values."""
    boxes = [box for time, box in life.boxes if start <= time and (end is None or time <= end)]
    if schema.sparse or not boxes or any(f.startswith(("consolidated", "refused")) for f in life.features):
        return []
    mode, whole = rng.choice(["null", "skip"]), [(min(lo), max(hi)) for lo, hi in (zip(*(box[i] for box in boxes)) for i in range(len(schema.dims)))]
    cells = itertools.product(*[range(lo, hi + 1) for lo, hi in whole])
    written = [any(all(lo <= v <= hi for v, (lo, hi) in zip(cell, box)) for box in boxes) for cell in cells]
    if mode == "skip":
        columns = [list(itertools.compress(column, written)) for column in columns]
    else:
        columns = columns[: len(schema.dims)] + [[v if w else None for v, w in zip(column, written)] for column in columns[len(schema.dims) :]]
    life.features.add("empty cells " + mode)
    return [(start, end, columns, {"tiledb.empty_cells": mode})]


def make_case(seed, folder):
    """Makes the array of a seed under `folder` and pickles its model beside it. Runs in a forked child."""
    rng = random.Random(seed)
    uri, ctx = os.path.join(folder, "array"), Context()
    try:
        schema = schema_gen.random_schema(rng)
        schema_gen.create(ctx, uri, schema)
        life = data_gen.live(rng, ctx, uri, schema)
        ctx = Context()
        windows = [(start, end, read_window(ctx, uri, schema, life.cells, start, end), {}) for start, end in random_windows(rng, life.timestamps)]
        windows += never_written(rng, schema, life, *windows[-1])
        answer = {"schema": schema, "life": life, "windows": windows, "rng": rng.getstate()}
    except (TileDBError, Dropped) as refusal:
        answer = {"dropped": str(refusal)}
    except Exception:  # a fault of this tool: shown as such, never hidden
        answer = {"broken": traceback.format_exc()}
    with open(os.path.join(folder, "case.pkl"), "wb") as out:
        pickle.dump(answer, out)


def case_in_child(seed, folder, timeout=60):
    """The case of a seed, or {"dropped": reason} when libtiledb crashes, hangs or refuses."""
    import multiprocessing

    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    child = multiprocessing.get_context("fork").Process(target=make_case, args=(seed, folder))
    child.start()
    child.join(timeout)
    if child.is_alive():
        child.kill()
        child.join()
        return {"dropped": "libtiledb hangs"}
    if child.exitcode != 0:
        return {"dropped": f"libtiledb crashes ({child.exitcode})"}
    with open(os.path.join(folder, "case.pkl"), "rb") as source:
        return pickle.load(source)
