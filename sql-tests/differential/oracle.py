"""What libtiledb says an array contains, as a row model; and the making of one case in a process of its own, because libtiledb may crash.

The model of a time window: one list of canonical values per column. A dense array has one row per cell of the bounding box of its visible fragments.
"""

import copy
import itertools
import math
import os
import pickle
import random
import re
import shutil
import traceback
from collections import Counter
from dataclasses import replace

import numpy as np

import compare
import data_gen
import history
import model
import schema_gen
from ctiledb import READ, ROW_MAJOR, UNORDERED, VAR, Buffer, Context, OpenArray, TileDBError
from fieldtypes import DATATYPES, WIDE_TEXTS

MAX_ROWS = 12_000


class Dropped(Exception):
    """The case says nothing: libtiledb refused, or it grew too large."""


class View:
    """One look at one array: where, the time window, further table options, and what must be seen there."""

    def __init__(self, uri, start, end, fields, columns, more=None):
        self.uri, self.start, self.end, self.fields, self.columns, self.more = uri, start, end, fields, columns, more or {}
        self.must_refuse, self.must_say = None, ""  # a reason why there is nothing to be seen, and what the error must mention
        self.rival, self.quarrel = None, None  # another opinion on the columns, and why it may be right
        self.metadata = None  # rows (key, type, count, bytes), where that is asked


def read_window(ctx, uri, schema, cells_written, start, end, by_ranges=False):
    """Columns (lists of canonical values, dimensions first) of the array in the inclusive window [start, end]."""
    with OpenArray(ctx, uri, READ, start, end) as array:
        first = schema.dims[0]
        if array.is_empty(0, first.is_var, first.dtype):
            return [[] for _ in schema.fields]
        if schema.sparse:
            return read_sparse(array, schema, cells_written, by_ranges)
        return read_dense(array, schema)


def read_sparse(array, schema, cells_written, by_ranges):
    buffers = {f.name: room(f, cells_written + 1) for f in schema.fields}
    ranges = [(i, *([b"", b"\x7f" * 99] if d.is_var else map(d.dtype.type, d.domain))) for i, d in enumerate(schema.dims)] if by_ranges else None
    if not array.query(UNORDERED, ranges, buffers):
        raise Dropped("incomplete read")
    return [f.cells(*buffers[f.name].filled()) for f in schema.fields]


def read_dense(array, schema):
    box = [tuple(int(v) for v in array.non_empty_domain(i, d.dtype)) for i, d in enumerate(schema.dims)]
    count = math.prod(hi - lo + 1 for lo, hi in box)
    if count > MAX_ROWS:
        raise Dropped("bounding box too large")
    ranges = [(i, d.dtype.type(lo), d.dtype.type(hi)) for i, (d, (lo, hi)) in enumerate(zip(schema.dims, box))]
    for times in (1, 100):  # libtiledb may ask for room for whole tiles
        buffers = {f.name: room(f, times * count) for f in schema.attrs}
        if array.query(ROW_MAJOR, ranges, buffers):
            break
    else:
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


def never_written(rng, schema, life, view):
    """The same window with never-written cells as NULLs or left out, where the writes say which these are: consolidation writes fill values."""
    start, end, columns = view.start, view.end, view.columns
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
    return [View(view.uri, start, end, view.fields, columns, {"tiledb.empty_cells": mode})]


def as_text(rng, views, features):
    """Each view as text shows; where some cell of a text field isn't a text, first that it is refused, then the view as the option `tiledb.invalid_utf8` shows it."""
    for stored in views:
        view = copy.copy(stored)
        view.columns, view.rival = ([unpadded(f, c) for f, c in zip(stored.fields, columns)] if columns else columns for columns in (stored.columns, stored.rival))
        strange = [isinstance(v, str) and not v.isascii() and any("\udc80" <= c <= "\udcff" for c in v) for column in view.columns or () for v in column]
        if not any(strange):
            yield view
            continue
        features.add("invalid text")
        if not view.quarrel:
            refused = View(view.uri, view.start, view.end, view.fields, view.columns, view.more)
            refused.must_refuse, refused.must_say = "bytes that aren't text", "tiledb.invalid_utf8"
            yield refused
        mode = "lossy" if any(f.enumeration for f in view.fields) else rng.choice(["lossy", "binary"])
        shown = copy.copy(view)
        shown.more = view.more | {"tiledb.invalid_utf8": mode}
        shown.fields = view.fields if mode == "lossy" else [replace(f, datatype="BLOB", ncell=VAR) if f.kind == "str" else f for f in view.fields]
        source = view if mode == "lossy" else stored  # bytes show as they are stored
        shown.columns, shown.rival = ([text_column(f, c, mode) for f, c in zip(view.fields, columns)] if columns else columns for columns in (source.columns, source.rival))
        yield shown


def unpadded(field, column):
    """Text without the NULs that pad a cell of a fixed size; None for the usual fill value of CHAR, which isn't a text."""
    if field.kind != "str":
        return column
    is_var = field.enumeration.offsets is not None if field.enumeration else field.is_var
    usual = None
    if field.enumeration is None and field.datatype == "CHAR" and field.default_fill() == b"\x80" * max(1, len(field.default_fill())):
        usual = "\udc80" * len(field.default_fill())
    return [None if v is None or v == usual else v if is_var else v.rstrip("\0") for v in column]


def text_column(field, column, mode):
    if field.kind != "str" or field.enumeration:
        return column
    raws = [None if v is None else v.encode(WIDE_TEXTS[field.datatype]) if field.datatype in WIDE_TEXTS else v.encode("utf-8", "surrogateescape") for v in column]
    if mode == "binary":
        return raws
    return [v if raw is None or field.datatype in WIDE_TEXTS else raw.decode("utf-8", "replace") for v, raw in zip(column, raws)]


def story(schema):
    """A schema in words."""
    return [*[repr(f) for f in schema.fields],
            f"cell order {schema.cell_order}, tile order {schema.tile_order}, capacity {schema.capacity}, duplicates {schema.allows_dups}",
            f"coords {schema.coords}, offsets {schema.offsets}, validity {schema.validity}", ""]


def make_case(seed, folder):
    """Makes the array of a seed under `folder` and pickles its model beside it. Runs in a forked child."""
    rng = random.Random(seed)
    uri, ctx = os.path.join(folder, "array"), Context()
    try:
        schema = schema_gen.random_schema(rng)
        schema_gen.create(ctx, uri, schema)
        life = data_gen.live(rng, ctx, uri, schema)
        ctx = Context()
        views = [View(uri, start, end, schema.fields, read_window(ctx, uri, schema, life.cells, start, end)) for start, end in random_windows(rng, life.timestamps)]
        views += never_written(rng, schema, life, views[-1])
        views = list(as_text(rng, views, life.features))
        answer = {"features": schema.features | life.features, "notes": story(schema) + life.notes, "views": views}
    except (TileDBError, Dropped) as refusal:
        answer = {"dropped": str(refusal)}
    except Exception:  # a fault of this tool: shown as such, never hidden
        answer = {"broken": traceback.format_exc()}
    with open(os.path.join(folder, "case.pkl"), "wb") as out:
        pickle.dump(answer, out)


def case_in_child(seed, folder, libraries=()):
    """The case of a seed, or {"dropped": reason} when libtiledb crashes, hangs or refuses. Seeds that begin with h are histories, those with o histories that begin with an old release."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    if seed[0] in "ho":
        case = make_history(seed, folder, libraries)
        return settle(case, folder) if "windows" in case else case
    if trouble := in_child(make_case, (seed, folder)):
        return {"dropped": trouble}
    with open(os.path.join(folder, "case.pkl"), "rb") as source:
        return pickle.load(source)


def in_child(target, args, timeout=60):
    """Runs a function in a forked process; None, or what became of the process."""
    import multiprocessing

    child = multiprocessing.get_context("fork").Process(target=target, args=args)
    child.start()
    for _ in range(timeout):  # of seconds that this process runs: being held up is no hang
        child.join(1)
        if not child.is_alive():
            break
    if child.is_alive():
        child.kill()
        child.join()
        return "libtiledb hangs"
    return f"libtiledb crashes ({child.exitcode})" if child.exitcode else None


# --- histories --------------------------------------------------------------------------------------------------------------------------

def make_history(seed, folder, libraries):
    """The history of a seed with the model's answers, each release in a process of its own."""
    told = history.begin(seed, folder, libraries)
    path = os.path.join(folder, "history.pkl")
    for number in range(len(told.releases) + (told.releases[-1] is not None)):
        with open(path, "wb") as out:
            pickle.dump(told, out)
        if trouble := in_child(one_release, (path, number)):
            return {"dropped": trouble}
        with open(path, "rb") as source:
            told = pickle.load(source)
        if isinstance(told, dict):
            return told
    return {"features": told.features, "notes": story(told.model.versions[0].schema) + told.notes, "windows": told.windows, "cells": told.cells, "settings": told.settings}


def one_release(path, number):
    """Runs in a forked child: a part of a history, from file to file."""
    with open(path, "rb") as source:
        told = pickle.load(source)
    try:
        if number < len(told.releases):
            history.go_on(told, number)
        if number >= len(told.releases) - (told.releases[-1] is None):
            history.finish(told)
    except (TileDBError, Dropped) as refusal:
        told = {"dropped": f"{'libtiledb %s.%s: ' % told.release[:2] if told.releases != [None] and told.release else ''}{plain(str(refusal))}"}
    except Exception:
        told = {"broken": traceback.format_exc()}
    with open(path, "wb") as out:
        pickle.dump(told, out)


# What libtiledb says of files that an old release left damaged (2.8 wrote dense fragments with half of their tiles). The model, which knows what was
# written but not what came of it, convinces nobody then.
DAMAGE = ("Unexpected data block", "past end of serialized data", "std::bad_alloc", "Cannot process a single tile requiring")


def settle(case, folder):
    """Asks libtiledb about every window, and decides what must be seen: where it and the model agree, that; where libtiledb fails and the model has no doubt, the model's; where both
    refuse, an error. Where they disagree, both are kept."""
    case["views"], case["tally"] = [], Counter()
    for window, (verdict, said, metadata) in zip(case["windows"], second_opinions(case, folder)):
        schema, answer, doubts = window.schema, window.answer, sorted(window.doubts)
        view = View(window.uri, window.start, window.end, schema.fields, answer, window.more)
        view.metadata = metadata
        if verdict == "rows":
            view.columns = said
            if answer is None:
                view.quarrel = f"the model refuses: {window.silence}"
            elif doubts and set(doubts) <= model.KNOWN_WRONG:
                view.columns = answer
                said = "where libtiledb is known to be wrong: " + ", ".join(doubts)
                case["tally"]["the model alone, " + said] += 1
                case["views"].append(view)
                continue
            elif difference := compare.row_difference(list(zip(*answer)), list(zip(*said))):
                view.rival, view.quarrel = answer, ", ".join(doubts) or "no doubt"
                case["notes"].append(f"window {window.start} to {window.end} of {window.uri}: libtiledb against the model ({view.quarrel}): {difference}")
            case["tally"]["libtiledb and the model agree" if not view.quarrel else "they disagree: " + view.quarrel] += 1
        elif answer is not None and set(doubts) <= model.KNOWN_WRONG and not any(text in said for text in DAMAGE):
            case["tally"]["the model alone: " + said] += 1
        elif answer is None and verdict == "error":
            view.must_refuse = f"libtiledb: {said}; the model: {window.silence}"
            case["tally"]["both refuse"] += 1
        else:
            case["tally"][f"not asked: {said}; {', '.join(doubts) or window.silence}"] += 1
            continue
        case["views"].append(view)
    case["views"] = list(as_text(random.Random(folder.rsplit(os.sep, 1)[-1]), case["views"], case["features"]))
    if case["settings"] and case["views"]:
        wrong = View(case["views"][0].uri, 0, None, [], [], {"tiledb.encryption_key": history.KEY.swapcase()})
        wrong.must_refuse = "a wrong key"
        case["views"].append(wrong)
    del case["windows"]
    return case


def second_opinions(case, folder):
    """Per window ("rows", columns, metadata), ("error", text, …) or ("crash", text, …)."""
    path, out = os.path.join(folder, "answers.pkl"), []
    by_ranges = False
    while len(out) < len(case["windows"]):
        if os.path.exists(path):
            os.remove(path)
        trouble = in_child(read_all, (case, len(out), by_ranges, path), 20)
        fresh = list(pickled(path))
        out += fresh
        if not fresh and (by_ranges or not trouble):
            out.append(("crash", trouble or "no answer", None))
        by_ranges = bool(trouble) and not fresh and not by_ranges
    return out


def read_all(case, first, by_ranges, path):
    """Reads windows one after the other (or one, by explicit ranges) and writes down each answer at once, because the next may be a crash."""
    ctx = Context(case["settings"])
    with open(path, "wb") as out:
        for window in case["windows"][first : first + 1 if by_ranges else None]:
            metadata = None
            try:
                metadata = read_metadata(ctx, window) if "metadata" in case["features"] else None
                answer = "rows", read_window(ctx, window.uri, window.schema, 2 * case["cells"] + 20, window.start, window.end, by_ranges)
            except (TileDBError, Dropped) as refusal:
                answer = "error", plain(str(refusal))
            except Exception as fault:
                answer = "error", f"unreadable answer: {fault}"
            pickle.dump((*answer, metadata), out)
            out.flush()


def read_metadata(ctx, window):
    names = {number: name for name, (number, _) in DATATYPES.items()}
    with OpenArray(ctx, window.uri, READ, window.start, window.end) as array:
        return [(key, names[datatype], count, raw) for key, (datatype, count, raw) in array.metadata().items()]


def pickled(path):
    if os.path.exists(path):
        with open(path, "rb") as source:
            while True:
                try:
                    yield pickle.load(source)
                except (EOFError, pickle.UnpicklingError):
                    return


def plain(message):
    """A message without what differs from case to case."""
    return re.sub(r"\b__[0-9a-f_]+|'[^']*'|\d+|(file://)?/[^ ;]*", "*", message)[:160]
