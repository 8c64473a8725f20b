"""What libtiledb reads: the expected files of an array, made in a process of their own."""

import json
import os
import pathlib
import tempfile
import traceback
from dataclasses import replace

from capi import TileDBError
from encode import Codec, Refused, document
from tdbarray import Array

MEMORY = pathlib.Path("/dev/shm")  # libtiledb syncs every file: built in memory, the arrays take seconds instead of minutes


def column_names(fields):
    """The anonymous attribute is called `attr`, or the first free `attr_N`."""
    taken = {f[0] for f in fields}
    free = next(n for n in ["attr", *(f"attr_{i}" for i in range(1, 100))] if n not in taken)
    return [f[0] or free for f in fields]


def contents(path, window=(None, None), durations=False, layout=None, config=()):
    """The expected document of an array in a window, its kind and its number of rows."""
    fields, sparse, raw_rows, enums = Array(path, **dict(config)).read(*window, layout=layout)
    columns, encoders = [], []
    for name, (_, tdb_type, n, _, is_dim, enum) in zip(column_names(fields), fields):
        codec = Codec(tdb_type, n, is_dim, durations)
        if enum:
            value = Codec(*enums[enum][:2])
            columns.append((name, value.arrow() if value.is_plain() else f"Dictionary({codec.arrow() if tdb_type != 'BOOL' else 'UInt8'}, {value.arrow()})"))
            encoders.append(decode_by(codec, enums[enum]))
        else:
            columns.append((name, codec.arrow()))
            encoders.append(codec.cell)
    rows = [[None if c is None else e(c) for e, c in zip(encoders, row)] for row in raw_rows]
    return document(columns, rows), sparse, len(rows)


def decode_by(codec, enumeration):
    tdb_type, n, members = enumeration
    values = [Codec(tdb_type, n).cell(m) for m in members]

    def decode(cell):
        code = codec.cell(cell)
        return values[code] if 0 <= code < len(values) else None

    return decode


def expected_files(case, path):
    """(file name, text) of all expected files of an array that is on disk, and the facts for the manifest."""
    if case.twin:
        with scratch() as tmp:
            twin = pathlib.Path(tmp) / case.name
            case.build(twin, config={})
            return expected_files(replace(case, twin=False), twin)
    facts = {"name": case.name, "windows": [list(w) for w in case.windows], "dense": None, "rows": None, "features": case.features}
    files = []
    if case.fails:
        try:
            Array(path, **case.config).read()
        except TileDBError:
            facts.update(dense=False, rows=0, error=case.fails)
        else:
            raise AssertionError("libtiledb was meant to fail")
    elif case.refused:
        fields, sparse, rows, _ = Array(path, **case.config).read()
        try:
            contents(path, config=case.config)
        except Refused:
            pass
        else:
            raise AssertionError("a refusal was expected")
        facts.update(dense=not sparse, rows=len(rows), error=case.refused)
    else:
        text, sparse, rows = contents(path, config=case.config)
        facts.update(dense=not sparse, rows=rows)
        files.append((f"{case.name}.expected.jsonl", text))
        if case.layouts:  # the oracle must agree with itself in another order of results
            for layout in ["global"] if sparse else ["col"]:
                if contents(path, layout=layout, config=case.config)[0] != text:
                    raise AssertionError(f"libtiledb answers differently in {layout} order")
        if case.rows is not None and rows != case.rows:
            raise AssertionError(f"{rows} rows, meant to be {case.rows}")
    for start, end in case.windows:
        files.append((f"{case.name}@{start}-{end}.expected.jsonl", contents(path, (start, end), config=case.config)[0]))
    if case.options:
        facts["options"] = case.options
    if case.durations:
        name = f"{case.name}+duration.expected.jsonl"
        facts["variants"] = [{"options": {"tiledb.time_as": "duration"}, "expected": name}]
        files.append((name, contents(path, durations=True)[0]))
    return files, facts


def in_child(work):
    """Runs `work` in a forked child, so that a crash inside libtiledb costs one array; returns its result or an error text."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        try:
            result = {"ok": work()}
        except BaseException:  # noqa: BLE001  (reported by the parent)
            result = {"error": traceback.format_exc()}
        with os.fdopen(w, "w") as out:
            json.dump(result, out)
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status or not text:
        return {"error": f"libtiledb ended the process (status {status})"}
    return json.loads(text)


def scratch():
    return tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
