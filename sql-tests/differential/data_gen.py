"""The life of a random array: writes at distinct timestamps, deletes, consolidations, vacuums. Every step may be refused by libtiledb and is then skipped."""

import itertools
import math
import os

import numpy as np

import values
from ctiledb import DELETE, ROW_MAJOR, UNORDERED, WRITE, Buffer, OpenArray, TileDBError, condition, consolidate, vacuum
from fieldtypes import FLOATS, TEXTS, size_of


class Life:
    """What happened to an array: timestamps used, those of deletes, boxes of dense writes with their times, cells written (an upper bound of its rows), notes."""

    def __init__(self):
        self.timestamps, self.deletes, self.boxes, self.cells, self.notes, self.features = [], [], [], 0, [], set()

    def note(self, what, feature=None):
        self.notes.append(what)
        if feature:
            self.features.add(feature)


def live(rng, ctx, uri, schema):
    """Fills a created array; returns its `Life`."""
    life = Life()
    pools = [coordinate_pool(rng, d) for d in schema.dims] if schema.sparse else None
    windows = None if schema.sparse else [place_window(rng, d) for d in schema.dims]
    writes, often = rng.choice([0, 1, 1, 2, 2, 3, 4, 6]), 0.15
    if rng.random() < 0.3:
        writes, often = rng.choice([4, 7, 12]), 0.25
        pools = pools and crowd(rng, pools)
        life.features.add("crowded")
    time = rng.choice([0, 1, 10, 1_700_000_000_000])
    for _ in range(writes):
        time += rng.choice([1, 5, 10, 100])
        try:
            cells = write_sparse(rng, ctx, uri, schema, pools, time) if schema.sparse else write_dense(rng, ctx, uri, schema, windows, time, life)
            life.timestamps.append(time)
            life.cells += cells
            life.note(f"write of {cells} cells at {time}")
        except TileDBError as refusal:
            life.note(f"write at {time} refused: {refusal}", "refused write")
        if schema.sparse and life.timestamps and rng.random() < 0.15:
            time += rng.choice([0, 1, 5])
            delete(rng, ctx, uri, schema, pools, time, life)
        if rng.random() < often:
            tidy(rng, ctx, uri, life)
    if rng.random() < 0.35:
        tidy(rng, ctx, uri, life)
    life.features.add(f"{len(life.timestamps)} fragments written")
    return life


# --- coordinates ------------------------------------------------------------------------------------------------------------------------

def coordinate_pool(rng, dim):
    """Raw coordinates (bytes) the cells of a sparse array draw from: edges, neighbours, clusters, anything."""
    if dim.is_var:
        texts = [values.random_text(rng, 30, values.ASCII_PIECES) + rng.choice(["", "", "\0", str(rng.randint(0, 99))]) for _ in range(rng.choice([1, 4, 40]))]
        return sorted({t.encode() for t in texts})
    lo, hi = dim.domain
    count = rng.choice([1, 3, 12, 60, 300])
    if dim.datatype in FLOATS:
        low, high = np.array([lo, hi], dim.dtype)
        picks = [low, high, np.nextafter(low, high), np.nextafter(high, low)] + [dim.dtype.type(rng.uniform(lo, hi)) for _ in range(count)]
        picks = [min(max(p, low), high) for p in picks[rng.choice([0, 4]):]]
        return sorted({dim.dtype.type(p + 0.0).tobytes() for p in picks})
    middle = rng.randint(lo, hi)
    picks = [lo, hi, lo + 1, hi - 1, 0, 1, -1] if rng.random() < 0.5 else []
    picks += [rng.randint(lo, hi) if rng.random() < 0.5 else middle + rng.randint(-20, 20) for _ in range(count)]
    kept = sorted({p for p in picks if lo <= p <= hi} | {middle})
    return [np.array([p], dim.dtype).tobytes() for p in kept]


def crowd(rng, pools):
    """Few places for many cells: writes hit each other."""
    places = rng.choice([1, 10, 60, 300, 1000])
    share = max(1, round(places ** (1 / len(pools))))
    return [rng.sample(pool, min(len(pool), share)) for pool in pools]


def place_window(rng, dim):
    """The part of a dense dimension that writes may touch."""
    lo, hi = dim.domain
    size = min(dim.window, hi - lo + 1)
    start = rng.choice([lo, hi - size + 1, rng.randint(lo, hi - size + 1)])
    return start, start + size - 1


# --- writes -----------------------------------------------------------------------------------------------------------------------------

def write_sparse(rng, ctx, uri, schema, pools, time):
    wanted = rng.choice([1, 3, 20, 100, 400, 1500])
    cells = [tuple(rng.choice(pool) for pool in pools) for _ in range(wanted)]
    if not schema.allows_dups:
        cells = list(dict.fromkeys(cells))
    if rng.random() < 0.7:
        cells.sort(key=lambda c: tuple(p if d.is_var else np.frombuffer(p, d.dtype)[0] for p, d in zip(c, schema.dims)))
    buffers = {d.name: pack(d, [c[i] for c in cells], None) for i, d in enumerate(schema.dims)}
    buffers |= {a.name: random_column(rng, a, len(cells)) for a in schema.attrs}
    with OpenArray(ctx, uri, WRITE, end=time) as array:
        array.query(UNORDERED, None, buffers)
    return len(cells)


def write_dense(rng, ctx, uri, schema, windows, time, life):
    """A random box, in the layout of the cell order (other layouts crash libtiledb now and then)."""
    box = []
    for lo, hi in windows:
        first = rng.choice([lo, rng.randint(lo, hi)])
        box.append((first, rng.choice([hi, rng.randint(first, hi)])))
    count = math.prod(hi - lo + 1 for lo, hi in box)
    ranges = [(i, d.dtype.type(lo), d.dtype.type(hi)) for i, (d, (lo, hi)) in enumerate(zip(schema.dims, box))]
    buffers = {a.name: random_column(rng, a, count) for a in schema.attrs}
    with OpenArray(ctx, uri, WRITE, end=time) as array:
        array.query(schema.cell_order if schema.cell_order else ROW_MAJOR, ranges, buffers)
    life.boxes.append((time, box))
    return count


def random_column(rng, attr, count):
    """The buffer of one attribute."""
    return pack(attr, *random_cells(rng, attr, count))


def random_cells(rng, attr, count):
    """(raw cells, validity or None) of one attribute: a pool of odd values drawn at random, in runs, in order, or one constant."""
    pool = [values.random_cell(rng, attr) for _ in range(rng.choice([1, 3, 20, 200]))]
    cells = rng.choices(pool, k=count)
    shape = rng.choice(["random", "random", "ordered", "runs"])
    if shape == "ordered":
        numeric = attr.ncell == 1 and attr.datatype not in TEXTS and attr.datatype != "BLOB"
        cells.sort(key=(lambda c: np.frombuffer(c, attr.dtype)[0]) if numeric and attr.datatype not in FLOATS else (lambda c: c))
    elif shape == "runs":
        cells = list(itertools.islice(itertools.chain.from_iterable([c] * rng.randint(1, 40) for c in cells), count))
    validity = None
    if attr.nullable:
        share = rng.choice([0.0, 0.0, 0.1, 0.5, 1.0])
        validity = np.array([int(rng.random() >= share) for _ in range(count)], np.uint8)
    return cells, validity


def pack(field, cells, validity):
    data = np.frombuffer(b"".join(cells) or b"\0" * 8, np.uint8).copy()
    if not field.is_var:
        return Buffer(data, None, validity)
    offsets = np.cumsum([0] + [len(c) for c in cells[:-1]]).astype(np.uint64)
    buffer = Buffer(data, offsets, validity)
    buffer.sizes[0].value = sum(len(c) for c in cells)
    return buffer


# --- deletes, consolidation -------------------------------------------------------------------------------------------------------------

def delete(rng, ctx, uri, schema, pools, time, life):
    """A delete condition on one scalar field: `field op value`."""
    choices = [f for f in schema.fields if f.enumeration is None and (f.is_dim or f.ncell == 1) and f.datatype not in ("BLOB", "BOOL") and f.name and not f.nullable]
    if not choices:
        return
    field = rng.choice(choices)
    value = rng.choice(pools[schema.dims.index(field)]) if field.is_dim else values.random_scalar(rng, field.datatype, nat=False) if size_of(field.datatype) > 1 else None
    op = rng.choice([0, 1, 2, 3, 4, 4, 5])
    if not value:
        return
    try:
        with OpenArray(ctx, uri, DELETE, end=time) as array:
            array.delete_where(condition(ctx, field.name, op, value))
        life.timestamps.append(time)
        life.deletes.append(time)
        life.note(f"delete at {time}: {field.name!r} op {op} {value.hex()}", "delete condition")
    except TileDBError as refusal:
        life.note(f"delete refused: {refusal}")


def tidy(rng, ctx, uri, life):
    """One maintenance step: consolidate fragments (all, by time, or a chosen run), commits or fragment metadata; vacuum or not."""
    what = rng.choice(["all", "all", "window", "chosen", "commits", "fragment_meta"])
    settings, chosen = {"sm.consolidation.mode": "fragments"}, None
    folder = os.path.join(uri, "__fragments")
    names = sorted(os.listdir(folder), key=lambda n: int(n.split("_")[2])) if os.path.isdir(folder) else []
    if what in ("commits", "fragment_meta"):
        settings["sm.consolidation.mode"] = what
    elif what == "window" and life.timestamps:
        first, last = sorted(rng.choices(life.timestamps, k=2))
        settings |= {"sm.consolidation.timestamp_start": first, "sm.consolidation.timestamp_end": last}
    elif what == "chosen" and len(names) >= 2:
        start = rng.randint(0, len(names) - 2)
        chosen = names[start : rng.randint(start + 2, len(names))]
    if rng.random() < 0.2:
        settings["sm.consolidation.purge_deleted_cells"] = "true"
    try:
        consolidate(ctx, uri, settings, chosen)
        life.note(f"consolidate {what} {settings} {chosen}", "consolidated " + what)
        if rng.random() < 0.5:
            vacuum(ctx, uri, {"sm.vacuum.mode": settings["sm.consolidation.mode"]})
            life.note("vacuum", "vacuumed")
    except TileDBError as refusal:
        life.note(f"consolidate {what} refused: {refusal}")
