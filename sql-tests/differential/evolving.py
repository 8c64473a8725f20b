"""Evolution, metadata and groups: what tiledb-sql changes, libtiledb must find as if it had changed it itself, and the other way round.

    python evolving.py BINARY [--seed N] [--cases N] [--first N] [--seconds N] [--keep DIR]

For each random schema of schema_gen.py there are three arrays with the same cells, on which the same random steps are taken: attributes come and go, enumerations grow, the current domain is set and grows,
metadata are set and deleted, and libtiledb writes cells between the steps.

    own        libtiledb takes every step
    ours       tiledb-sql takes every step, by ALTER TABLE or its functions
    turns      one or the other does

libtiledb must then find the same schema, cells and metadata in all of them, and so must tiledb-sql. A group is edited by one or the other, too, and both must list the members that a plain model has.
`tiledb-sql check` must find no error. Needs tiledb and numpy. Exit status 1 if anything differs.
"""

import argparse
import collections
import copy
import ctypes as ct
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import time

import numpy as np

import data_gen
import history
import oracle
import schema_gen
from creation import Looked, alone, attribute_options, declared, literal, members, number, quoted, shell
from ctiledb import READ, WRITE, Context, OpenArray, TileDBError
from fieldtypes import DATATYPES, FLOATS, INTEGERS

ARRAYS = ["own", "ours", "turns"]
LATER = 2_000_000_000_000  # when cells are written: after every schema
END = 9_000_000_000_000


# --- steps --------------------------------------------------------------------------------------------------------------------------------

def next_steps(rng, schema, limits, taken):
    """One evolution: (steps, the schema after it, the current domain after it)."""
    fresh, steps = copy.copy(schema), []
    fresh.attrs = [copy.copy(a) for a in schema.attrs]
    for kind in rng.sample(["add", "add", "drop", "extend", "domain"], rng.choice([1, 1, 2, 3])):
        enumerated = [a for a in fresh.attrs if a.enumeration]
        if kind == "add":
            attr = history.lossless(schema_gen.random_attr(rng, f"new {len(taken)}"))
            if attr.enumeration:
                attr.enumeration.name = f"values {len(taken)}"
            taken.append(attr.name)
            fresh.attrs.append(attr)
            steps.append(("add", attr))
        elif kind == "drop" and len(schema.attrs) > 1 and not any(step[0] == "drop" for step in steps):
            attr = rng.choice([a for a in fresh.attrs if a.name in [b.name for b in schema.attrs]])
            if not attr.name or any(step[0] == "extend" for step in steps):
                continue
            fresh.attrs.remove(attr)
            values = attr.enumeration
            orphan = values.name if values and not any(a.enumeration and a.enumeration.name == values.name for a in fresh.attrs) else None
            steps.append(("drop", attr.name, orphan))
        elif kind == "extend" and [a for a in enumerated if a.name in [b.name for b in schema.attrs]]:
            attr = rng.choice([a for a in enumerated if a.name in [b.name for b in schema.attrs]])
            old = attr.enumeration
            longer = history.extended(rng, old)
            if longer is old or len(longer.values) > 100:
                continue
            for other in fresh.attrs:
                if other.enumeration and other.enumeration.name == old.name:
                    other.enumeration = longer
            steps.append(("extend", attr.column, old, longer))
        elif kind == "domain" and all(not d.is_var and d.datatype not in FLOATS for d in schema.dims):
            limits = [history.grown(rng, d, limit) for d, limit in zip(schema.dims, limits)] if limits else [d.domain for d in schema.dims]
            steps.append(("domain", schema.dims, limits))
    return steps, fresh, limits


def by_libtiledb(uri, steps):
    ctx = Context()
    evolution = ctx.new("array_schema_evolution_alloc")
    for kind, *step in steps:
        if kind == "add":
            (attr,) = step
            if attr.enumeration:
                ctx.call("array_schema_evolution_add_enumeration", evolution, schema_gen.make_enumeration(ctx, attr.enumeration))
            ctx.call("array_schema_evolution_add_attribute", evolution, schema_gen.make_attribute(ctx, attr))
        elif kind == "drop":
            name, orphan = step
            ctx.call("array_schema_evolution_drop_attribute", evolution, name.encode())
            if orphan:
                ctx.call("array_schema_evolution_drop_enumeration", evolution, orphan.encode())
        elif kind == "extend":
            _, old, longer = step
            tail = longer.pieces()[len(old.values):]
            raw, offsets = b"".join(tail), np.cumsum([0] + [len(p) for p in tail[:-1]]).astype(np.uint64)
            var = old.offsets is not None
            made = ctx.new("enumeration_extend", schema_gen.make_enumeration(ctx, old), ct.c_char_p(raw), ct.c_uint64(len(raw)), ct.c_void_p(offsets.ctypes.data) if var else None,
                           ct.c_uint64(offsets.nbytes if var else 0))
            ctx.call("array_schema_evolution_extend_enumeration", evolution, made)
        else:
            dims, limits = step
            ctx.call("array_schema_evolution_expand_current_domain", evolution, schema_gen.make_current_domain(ctx, dims, limits))
    ctx.call("array_evolve", uri.encode(), evolution)


def by_statement(rng, uri, steps):
    """The statements that take the steps: one ALTER TABLE, and functions for the rest."""
    operations, calls = [], []
    for kind, *step in steps:
        if kind == "add":
            (attr,) = step
            options = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in attribute_options(attr, False).items())
            operations.append(f"ADD COLUMN {quoted(attr.column)} {declared(attr)}{'' if attr.nullable else ' NOT NULL'} OPTIONS ({options})")
        elif kind == "drop":
            operations.append(f"DROP COLUMN {quoted(step[0])}")
        elif kind == "extend":
            column, old, longer = step
            tail = longer.values[len(old.values):]
            if old.datatype == "FLOAT64":
                tail = [struct.unpack("<d", struct.pack("<Q", v))[0] for v in tail]
            told = ", ".join(literal(v) if isinstance(v, str) else repr(v) for v in tail)
            calls.append(f"SELECT * FROM tiledb_extend_enumeration({literal(uri)}, {literal(column)}, [{told}])")
        else:
            dims, limits = step
            told = literal(", ".join(f"[{number(d, lo)}, {number(d, hi)}]" for d, (lo, hi) in zip(dims, limits)))
            if rng.random() < 0.5:
                operations.append(f"SET TBLPROPERTIES ('tiledb.current_domain' = {told})")
            else:
                calls.append(f"SELECT * FROM tiledb_evolve({literal(uri)}, current_domain => {told})")
    return ([f"ALTER TABLE {literal(uri)} {', '.join(operations)}"] if operations else []) + calls


def metadata_step(rng, known):
    """{key: None, or (datatype, elements)}: what is set or deleted at once."""
    out = {}
    for key in rng.sample(["a", "b b", "é", "long" * 20, "it's"], rng.choice([1, 1, 2])):
        if key in known and rng.random() < 0.4:
            out[key] = None
            continue
        datatype = rng.choice(INTEGERS + FLOATS + ["STRING_UTF8", "STRING_ASCII", "BLOB", "BOOL", "DATETIME_MS", "DATETIME_DAY"])
        count = rng.choice([1, 1, 3])
        if datatype in ("STRING_UTF8", "STRING_ASCII"):
            out[key] = datatype, rng.choice(["", "text", "it's", "a" * 50] + (["grün"] if datatype == "STRING_UTF8" else []))
        elif datatype == "BLOB":
            out[key] = datatype, bytes(rng.randrange(256) for _ in range(count))
        elif datatype in FLOATS:
            out[key] = datatype, [float(np.dtype(DATATYPES[datatype][1]).type(rng.choice([0.0, -0.0, 1e-30, rng.uniform(-1e6, 1e6)]))) for _ in range(count)]
        elif datatype == "BOOL":
            out[key] = datatype, [rng.random() < 0.5 for _ in range(count)]
        else:
            low, high = (0, 100) if "_" in datatype else schema_gen.int_range_of(datatype)
            out[key] = datatype, [rng.choice([low, high, rng.randint(low, high)]) for _ in range(count)]
    return out


def put_metadata(uri, changes, time):
    with OpenArray(Context(), uri, WRITE, end=time) as array:
        for key, change in changes.items():
            if change is None:
                array.delete_metadata(key)
                continue
            datatype, value = change
            code, dtype = DATATYPES[datatype][0], DATATYPES[datatype][1]
            raw = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else np.array(value, dtype).tobytes()
            array.put_metadata(key, code, len(raw) if isinstance(value, (str, bytes)) else len(value), raw)


def metadata_calls(uri, changes, when):
    """`when`: further arguments."""
    for key, change in changes.items():
        if change is None:
            yield f"SELECT * FROM tiledb_delete_metadata({literal(uri)}, {literal(key)}{when})"
            continue
        datatype, value = change
        if isinstance(value, str):
            told = literal(value)
        elif isinstance(value, bytes):
            told = f"X'{value.hex()}'"
        elif datatype in FLOATS or datatype == "UINT64":
            told = "[" + ", ".join(literal(repr(v)) for v in value) + "]"
        elif datatype.startswith("DATETIME"):
            told = "[" + ", ".join(literal(str(np.datetime64(v, "ms" if datatype.endswith("MS") else "D"))) for v in value) + "]"
        else:
            told = "[" + ", ".join(str(v).lower() for v in value) + "]"
        yield f"SELECT * FROM tiledb_set_metadata({literal(uri)}, {literal(key)}, {told}, type => '{datatype}'{when})"


# --- one case -----------------------------------------------------------------------------------------------------------------------------

def begin(seed, folder):
    rng = random.Random(seed)
    schema = schema_gen.random_schema(rng)
    for attr in schema.attrs:
        history.lossless(attr)
    os.makedirs(folder)
    for which in ARRAYS:
        schema_gen.create(Context(), os.path.join(folder, which), schema)
    return None


def fill(state, folder, schema, limits, time):
    """Writes the same random cells to all arrays; returns how many, at most."""
    for which in ARRAYS:
        rng = random.Random()
        rng.setstate(state)
        ctx, uri = Context(), os.path.join(folder, which)
        if schema.sparse:
            pools = [history.within(data_gen.coordinate_pool(rng, d), d, limit) for d, limit in zip(schema.dims, limits or [None] * len(schema.dims))]
            count = data_gen.write_sparse(rng, ctx, uri, schema, pools, time)
        else:
            windows = [data_gen.place_window(rng, d) for d in schema.dims]
            count = data_gen.write_dense(rng, ctx, uri, schema, windows, time, data_gen.Life())
    return count


def found_by_libtiledb(folder, schema, count):
    out = {}
    for which in ARRAYS:
        uri = os.path.join(folder, which)
        properties = Looked(uri).properties()
        ctx = Context()
        columns = oracle.read_window(ctx, uri, schema, count, 0, 2**63)
        with OpenArray(ctx, uri, READ, 0, 2**63) as array:
            metadata = array.metadata()
        out[which] = {"schema": properties, "cells": sorted(map(repr, zip(*columns))), "metadata": metadata}
    return out


def run_case(binary, seed, folder, counts):
    rng = random.Random(f"{seed}:steps")
    schema = schema_gen.random_schema(random.Random(seed))
    for attr in schema.attrs:
        history.lossless(attr)
    _, refusal = alone(begin, seed, folder)
    if refusal:
        return "not created by libtiledb", []
    limits, taken, annotated, written, wrong = None, [], set(), 0, []
    for turn in range(rng.choice([1, 2, 3, 5])):
        if rng.random() < 0.7:
            count, refusal = alone(fill, rng.getstate(), folder, schema, limits, LATER + turn)
            rng.random()
            if refusal:
                return "not written by libtiledb", []
            written += count
        steps, fresh, grown = next_steps(rng, schema, limits, taken)
        if not steps:
            continue
        _, refusal = alone(by_libtiledb, os.path.join(folder, "own"), steps)
        if refusal:
            counts["refused by libtiledb"] += 1
            continue
        schema, limits = fresh, grown
        counts.update(step[0] for step in steps)
        mine = ["ours"] + (["turns"] if rng.random() < 0.5 else [])
        if "turns" not in mine:
            alone(by_libtiledb, os.path.join(folder, "turns"), steps)
        statements = [s for which in mine for s in by_statement(rng, os.path.join(folder, which), steps)]
        changes = metadata_step(rng, annotated) if rng.random() < 0.5 else {}
        annotated |= set(changes)
        if changes:
            counts["metadata"] += len(changes)
            alone(put_metadata, os.path.join(folder, "own"), changes, LATER + turn)
            if "turns" not in mine:
                alone(put_metadata, os.path.join(folder, "turns"), changes, LATER + turn)
            statements += [s for which in mine for s in metadata_calls(os.path.join(folder, which), changes, f", write_timestamp => '{LATER + turn}'")]
        _, errors = shell(binary, statements)
        if errors:
            return "failed", [f"{message}\n    {statements[at]}" for at, message in errors.items()]
    found, refusal = alone(found_by_libtiledb, folder, schema, written + 1)
    if refusal:
        return f"not read by libtiledb: {refusal[:60]}", []
    for which in ARRAYS[1:]:
        for what, expected in found["own"].items():
            if found[which][what] != expected:
                wrong.append(f"{what} of {which}: {str(found[which][what])[:1500]} instead of {str(expected)[:1500]}")
    asked = [f"FROM tiledb_scan('{folder}/{which}', timestamp => '{END}')" for which in ARRAYS]
    asked += [f"FROM tiledb_metadata('{folder}/{which}', timestamp => '{END}')" for which in ARRAYS]
    asked = [f"SELECT {i} AS asked, {'*' if i < 3 else 'key, type, count, value'} {source}" for i, source in enumerate(asked)]
    asked += [f"SELECT {6 + i} AS asked, rule, object, found FROM tiledb_check('{folder}/{which}') WHERE severity = 'error'" for i, which in enumerate(ARRAYS[1:])]
    printed, errors = shell(binary, asked)
    answers = collections.defaultdict(list)
    for line in printed.splitlines():
        number, row = line.split(",", 1) if "," in line else (line, "")
        answers[int(number.removeprefix('{"asked":').rstrip("}"))].append(row)
    for first in (0, 3):
        for i in (1, 2):
            mine, theirs = (sorted(answers[first + which]) + [errors.get(first + which, "").replace(ARRAYS[which], "?")] for which in (i, 0))
            if mine != theirs:
                wrong.append(f"{asked[first + i]}: {str(mine)[:1000]} instead of {str(theirs)[:1000]}")
    wrong += [row for number in (6, 7) for row in answers[number][:3]]
    return "compared", wrong


# --- groups -------------------------------------------------------------------------------------------------------------------------------

def edit_group(binary, seed, folder):
    """Edits by one or the other, and what differs in what both list afterwards."""
    import tiledb  # in a process of its own, because its threads do not survive a fork

    rng = random.Random(seed)
    group = os.path.join(folder, "group")
    if rng.random() < 0.5:
        tiledb.Group.create(group)
    else:
        _, errors = shell(binary, [f"SELECT * FROM tiledb_create_group('{group}')"])
        if errors:
            return list(errors.values())
    for name in "ab":
        tiledb.Group.create(os.path.join(group, name))
    outside = os.path.join(folder, "ours")
    model = {}
    for step in range(rng.choice([2, 4, 8])):
        ours = rng.random() < 0.5
        if model and rng.random() < 0.35:
            name = rng.choice(sorted(model))
            del model[name]
            statement = f"SELECT * FROM tiledb_remove_member('{group}', {literal(name)})"
            edit = lambda g: g.remove(name)
        else:
            name = rng.choice([n for n in ["x", "y y", "é", "it's", "z"] if n not in model] or [f"n{step}"])
            kind, uri = rng.choice([("group", "a"), ("group", "b"), ("array", outside)])
            relative = uri in "ab"
            model[name] = kind, os.path.join(group, uri) if relative else uri
            given = uri if relative else outside
            statement = f"SELECT * FROM tiledb_add_member('{group}', {literal(given)}, name => {literal(name)})"
            edit = lambda g: g.add(given if relative else "file://" + given, name=name, relative=relative)
        if ours:
            _, errors = shell(binary, [statement])
            if errors:
                return [f"{statement}: {message}" for message in errors.values()]
        else:
            with tiledb.Group(group, "w") as opened:
                edit(opened)
    changes = metadata_step(rng, set())
    printed, errors = shell(binary, list(metadata_calls(group, changes, "")))
    wrong = list(errors.values())
    with tiledb.Group(group) as opened:
        seen = {m.name: ("group" if m.type is tiledb.Group else "array", m.uri.removeprefix("file://")) for m in opened}
        keys = set(opened.meta.keys())
    if seen != model:
        wrong.append(f"libtiledb lists {seen} instead of {model}")
    if keys != set(changes):
        wrong.append(f"libtiledb finds the metadata {keys} instead of {set(changes)}")
    printed, errors = shell(binary, [f"SELECT path, type, uri FROM tiledb_members('{group}')", f"SELECT rule, object, found FROM tiledb_check('{group}') WHERE severity = 'error'"])
    rows = [json.loads(line) for line in printed.splitlines()]
    wrong += [str(row) for row in rows if "rule" in row]
    seen = {row["path"]: (row["type"], row["uri"].removeprefix("file://")) for row in rows if "path" in row}
    if errors or seen != model:
        wrong.append(f"tiledb-sql lists {seen} instead of {model}: {errors}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=int, help="begins no more cases after so many")
    parser.add_argument("--keep", help="where the arrays of failures are kept")
    options = parser.parse_args()
    begun = time.monotonic()
    counts, outcomes, failed = collections.Counter(), collections.Counter(), 0
    for case in range(options.first, options.first + options.cases):
        if options.seconds and time.monotonic() > begun + options.seconds:
            break
        seed = f"{options.seed}:{case}"
        with tempfile.TemporaryDirectory() as root:
            folder = os.path.join(root, "case")
            outcome, wrong = run_case(options.binary, seed, folder, counts)
            outcomes[outcome] += 1
            if outcome == "compared":
                found, refusal = alone(edit_group, options.binary, f"{seed}:group", folder)
                wrong = wrong + (found or []) + ([f"group: {refusal}"] if refusal else [])
            if wrong:
                failed += 1
                print(seed, *wrong, sep="\n  ", flush=True)
                if options.keep:
                    shutil.copytree(folder, os.path.join(options.keep, seed.replace(":", "_")), dirs_exist_ok=True)
    print(f"{sum(outcomes.values())} cases, {failed} with differences: {dict(outcomes)}; steps: {dict(counts)}")
    sys.exit(bool(failed) or not outcomes["compared"])


if __name__ == "__main__":
    main()
