"""Writes golden arrays with the libtiledb releases of each format version and, beside each, what libtiledb 2.30 reads back,
in `sql-tests/data/unpacked/arrays/old`. See README.md.

    python make.py WHEELS                 all arrays, with INDEX.md and manifest.json
    python make.py WHEELS NAME_PREFIX …   only some arrays (INDEX.md and manifest.json are made anew from what is there)
    python make.py WHEELS --check         read the arrays that are there again; fail if an expected file would change
"""

import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import struct
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "make_arrays")]

import libraries  # noqa: E402
from oracle import expected_files, in_child  # noqa: E402
from old_array import OldArray  # noqa: E402
from releases import BUNDLED, load_all  # noqa: E402

PAGES = HERE.parent / "old"
ROOT = HERE.parents[1] / "unpacked" / "arrays" / "old"
# `.vac` files of old releases hold absolute names: always the same ones. In memory, because libtiledb syncs every file.
WORKSHOP = pathlib.Path("/dev/shm" if os.path.isdir("/dev/shm") else "/tmp") / "golden"


def in_child_with(wheels, version, work):
    """Runs `work` in a process in which nothing but that version's library is loaded."""

    def child():
        if version != BUNDLED:
            os.environ["LIBTILEDB"] = libraries.path(wheels, version)
        return work()

    return in_child(child)


def build(wheels, case):
    path = WORKSHOP / case.name
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(exist_ok=True)
    for version, step in case.steps:

        def work(step=step):
            step(OldArray(path))

        result = in_child_with(wheels, version, work)
        if "error" in result:
            return result
    target = ROOT / case.name
    shutil.rmtree(target, ignore_errors=True)
    result = read(case, path)
    if "ok" in result:
        if case.forge:
            case.forge(path)
            result["ok"][1]["formats"] = formats(path)
        shutil.copytree(path, target)
        for old in [*ROOT.glob(f"{case.name}.expected.jsonl"), *ROOT.glob(f"{case.name}@*.expected.jsonl")]:
            old.unlink()
        for name, text in result["ok"][0]:
            (ROOT / name).write_text(text)
    shutil.rmtree(path)
    return result


def read(case, path):
    """What libtiledb 2.30 reads: the expected files and the facts for the manifest."""

    def work():
        files, facts = expected_files(case, ROOT / case.same_as if case.same_as else path)
        if not facts["rows"] and not case.fails:
            raise AssertionError("nothing was written")
        if case.same_as:
            facts["same_as"] = case.same_as
        facts["formats"] = formats(path)
        return files, facts

    return in_child(work)


def formats(path):
    """The format versions of an array's fragments."""
    found = set()
    for footer in path.glob("**/__fragment_metadata.tdb"):
        ending = re.search(r"^__[0-9]+_[0-9]+_[0-9a-f]{32}_([0-9]+)$", footer.parent.name)  # the oldest end with a time instead
        if "__labels" not in footer.parts:
            found.add(int(ending[1]) if ending else struct.unpack("<I", footer.read_bytes()[:4])[0])
    return sorted(found)


def recheck(case):
    if case.forge:
        return {"skip": "libtiledb cannot read it"}
    result = read(case, ROOT / case.name)
    changed = [n for n, text in result.get("ok", [[]])[0] if not (ROOT / n).exists() or (ROOT / n).read_text() != text]
    return {"error": f"would change: {changed}"} if changed else result


def index(facts, cases):
    """One line per kind of array, with the versions it exists for."""
    kinds = {}
    for f in facts:
        kinds.setdefault(f["name"].split("_", 1)[1], []).append(f)
    proves = {c.name.split("_", 1)[1]: c.proves for c in cases}
    out = ["# Golden arrays of old releases", "", "Written by the libtiledb of each format version with `make_old/make.py`, which also wrote this page; `<name>.expected.jsonl` is",
           "what libtiledb 2.30 reads. `v05_hilbert` is the array `hilbert` of format 5. `old.tar.zst` holds them, `make_old/README.md` explains how they are made.", "", "| Array | Formats | Proves |", "|---|---|---|"]
    for kind, found in sorted(kinds.items()):
        out.append(f"| `{kind}` | {', '.join(str(int(f['name'][1:3])) for f in found)} | {proves[kind]} |")
    return "\n".join(out) + "\n"


def work(wheels, cases, check):
    """(case, result) of each; those who take another's answer last."""
    with concurrent.futures.ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("fork")) as pool:
        for late in (False, True):
            running = {pool.submit(one, wheels, c.name, check): c for c in cases if (c.same_as is not None) == late}
            for done in concurrent.futures.as_completed(running):
                yield running[done], done.result()


def one(wheels, name, check):
    (case,) = [c for c in load_all() if c.name == name]
    return recheck(case) if check else build(wheels, case)


def main(wheels, *args):
    libraries.fetch(wheels)
    ROOT.mkdir(parents=True, exist_ok=True)
    cases, check = load_all(), args == ("--check",)
    chosen = [c for c in cases if check or not args or any(c.name.startswith(a) for a in args)]
    manifest = PAGES / "manifest.json"
    known = {c.name for c in cases}
    facts = {f["name"]: f for f in json.loads(manifest.read_text()) if f["name"] in known} if manifest.exists() else {}
    failed = []
    for c, result in work(wheels, chosen, check):
        if "skip" in result:
            print(f"not checked: {c.name}: {result['skip']}")
        elif "error" in result:
            failed.append(c.name)
            facts.pop(c.name, None)
            print(f"FAILED {c.name}: {result['error'].strip().splitlines()[-1]}", flush=True)
        else:
            facts[c.name] = result["ok"][1]
    facts = [facts[n] for n in sorted(facts)]
    if not check:
        for left in [p for p in ROOT.glob("v*") if p.name.split(".")[0].split("@")[0] not in {f["name"] for f in facts}]:
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        manifest.write_text("[\n" + ",\n".join(json.dumps(f) for f in facts) + "\n]\n")
        (PAGES / "INDEX.md").write_text(index(facts, cases))
    print(f"{len(facts)} arrays, {sum(f['rows'] for f in facts)} rows, {len(failed)} failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
