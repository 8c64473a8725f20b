"""Writes every golden array with libtiledb and, beside it, what libtiledb reads back. See README.md.

    python make.py                 all arrays, INDEX.md and manifest.json
    python make.py NAME_PREFIX …   only some arrays (INDEX.md and manifest.json stay as they are)
    python make.py --index         write INDEX.md and manifest.json anew for the arrays that are there
    python make.py --check         read the arrays that are there again; fail if an expected file would change
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import traceback
from dataclasses import replace

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import capi  # noqa: E402
from capi import TileDBError  # noqa: E402
from tdbarray import Array  # noqa: E402
from cases import load_all  # noqa: E402
from encode import Codec, Refused, document  # noqa: E402

ROOT = HERE.parent
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
            columns.append((name, f"Dictionary({codec.arrow()}, {Codec(*enums[enum][:2]).arrow()})"))
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


def forget(case):
    shutil.rmtree(ROOT / case.name, ignore_errors=True)
    for old in [*ROOT.glob(f"{case.name}.expected.jsonl"), *ROOT.glob(f"{case.name}[@+]*.expected.jsonl")]:
        old.unlink()


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


def build(case):
    with scratch() as tmp:
        path = pathlib.Path(tmp) / case.name
        case.build(path)
        files, facts = expected_files(case, path)
        forget(case)
        shutil.copytree(path, ROOT / case.name)
    for name, text in files:
        (ROOT / name).write_text(text)
    return facts


def recheck(case):
    files, facts = expected_files(case, ROOT / case.name)
    changed = [n for n, text in files if not (ROOT / n).exists() or (ROOT / n).read_text() != text]
    if changed:
        raise AssertionError(f"would change: {changed}")
    return facts


def index(facts, cases):
    proves = {c.name: c.proves for c in cases}
    out = ["# Golden arrays", "", f"Written by libtiledb {capi.version()} with `make_arrays/make.py`, which also wrote this page; `<name>.expected.jsonl`",
           "is what libtiledb reads back. `make_arrays/README.md` explains the form.", "", "| Array | Kind | Rows | Proves |", "|---|---|---|---|"]
    for f in facts:
        more = f"; windows {', '.join(f'{a}–{b}' for a, b in f['windows'])}" if f["windows"] else ""
        more += f"; **refused**: {f['error']}" if "error" in f else ""
        out.append(f"| `{f['name']}` | {'dense' if f['dense'] else 'sparse'} | {f['rows']} | {proves[f['name']]}{more} |")
    return "\n".join(out) + "\n"


def main(args):
    cases, work = load_all(), build
    write_index = args in ([], ["--index"])
    if args in (["--check"], ["--index"]):
        work, args = recheck, []
    chosen = [c for c in cases if not args or any(c.name.startswith(a) for a in args)]
    facts, failed = [], []
    for c in chosen:
        result = in_child(lambda c=c: work(c))
        if "error" in result:
            failed.append(c)
            print(f"FAILED {c.name}: {result['error']}", flush=True)
            if work is build:
                in_child(lambda c=c: forget(c))
        else:
            facts.append(result["ok"])
    if write_index:
        (ROOT / "INDEX.md").write_text(index(facts, cases))
        (ROOT / "manifest.json").write_text("[\n" + ",\n".join(json.dumps(f) for f in facts) + "\n]\n")
    print(f"{len(facts)} arrays, {sum(f['rows'] for f in facts)} rows, {len(failed)} failed: {[c.name for c in failed]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
