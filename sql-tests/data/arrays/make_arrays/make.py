"""Writes every golden array with libtiledb and, beside it, what libtiledb reads back, in `sql-tests/data/unpacked/arrays`. See README.md.

    python make.py                 all arrays, INDEX.md and manifest.json
    python make.py NAME_PREFIX …   only some arrays (the others keep their lines in INDEX.md and manifest.json)
    python make.py --check         read the arrays that are there again; fail if an expected file would change
"""

import json
import pathlib
import shutil
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import capi  # noqa: E402
from cases import load_all  # noqa: E402
from oracle import expected_files, in_child, scratch  # noqa: E402

PAGES = HERE.parent
ROOT = HERE.parents[1] / "unpacked" / "arrays"


def forget(case):
    shutil.rmtree(ROOT / case.name, ignore_errors=True)
    for old in [*ROOT.glob(f"{case.name}.expected.jsonl"), *ROOT.glob(f"{case.name}[@+]*.expected.jsonl")]:
        old.unlink()


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
    out = ["# Golden arrays", "", f"Written by libtiledb {capi.version()} (and `ours_…` by `tiledb-sql`) with `make_arrays/make.py`, which also wrote this page; `<name>.expected.jsonl`",
           "is what libtiledb reads back. `arrays.tar.zst` holds both, `make_arrays/README.md` explains the form.", "", "| Array | Kind | Rows | Proves |", "|---|---|---|---|"]
    for f in facts:
        more = f"; windows {', '.join(f'{a}–{b}' for a, b in f['windows'])}" if f["windows"] else ""
        more += f"; **refused**: {f['error']}" if "error" in f else ""
        out.append(f"| `{f['name']}` | {'dense' if f['dense'] else 'sparse'} | {f['rows']} | {proves[f['name']]}{more} |")
    return "\n".join(out) + "\n"


def main(args):
    ROOT.mkdir(parents=True, exist_ok=True)
    cases, work = load_all(), build
    if args == ["--check"]:
        work, args = recheck, []
    chosen = [c for c in cases if not args or any(c.name.startswith(a) for a in args)]
    manifest, known = PAGES / "manifest.json", {c.name for c in cases}
    facts = {f["name"]: f for f in json.loads(manifest.read_text()) if f["name"] in known} if manifest.exists() else {}
    failed = []
    for c in chosen:
        result = in_child(lambda c=c: work(c))
        if "error" in result:
            failed.append(c)
            print(f"FAILED {c.name}: {result['error']}", flush=True)
            if work is build:
                facts.pop(c.name, None)
                in_child(lambda c=c: forget(c))
        else:
            facts[c.name] = result["ok"]
    facts = [facts[n] for n in sorted(facts)]
    if work is build:
        (PAGES / "INDEX.md").write_text(index(facts, cases))
        manifest.write_text("[\n" + ",\n".join(json.dumps(f) for f in facts) + "\n]\n")
    print(f"{len(facts)} arrays, {sum(f['rows'] for f in facts)} rows, {len(failed)} failed: {[c.name for c in failed]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
