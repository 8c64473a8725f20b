"""Random arrays of libtiledb, which tiledb-sql check must find sound.

    python check.py BINARY [--seed N] [--cases N] [--first N] [--libraries DIR] [--keep DIR]

Arrays are those of run.py: seeds that begin with a letter make the same histories as there (h: one array's life, o: begun by an old release). A case
fails if the check finds an error, or fails itself. Warnings are counted by rule. Exit status 1 if a case failed.
"""
import argparse
import collections
import glob
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile

import history
import oracle
from ctiledb import Context, TileDBError

# What a history may hold that is an error, and rightly so: libtiledb cannot read it either. For unreadable tiles it is asked: it consolidates dense
# fragments at the limits of int64 into tiles that lack cells.
RIGHTLY = {"delete-field": "an attribute that a delete compares was dropped"}


def make(seed, folder, libraries):
    """Makes the array of a seed; the reason if libtiledb does not."""
    if seed[0] not in "ho":
        trouble = oracle.in_child(oracle.make_case, (seed, folder))
        return trouble, {}
    case = oracle.make_history(seed, folder, libraries)
    return case.get("dropped"), case.get("settings", {})


def ask_libtiledb(array, folder):
    """Ends the process with 3 if libtiledb cannot read the array of a history. Runs in a forked child."""
    with open(os.path.join(folder, "history.pkl"), "rb") as source:
        told = pickle.load(source)
    try:
        oracle.read_window(Context(told.settings), array, told.schema, oracle.MAX_ROWS, 0, 1 << 62)
    except TileDBError:
        os._exit(3)


def check(binary, array, key):
    """The findings as (severity, rule, line), and what went wrong besides."""
    environment = os.environ | ({"TILEDB_ENCRYPTION_KEY": key} if key else {})
    ran = subprocess.run([binary, "check", array], capture_output=True, text=True, env=environment, timeout=120)
    found = re.findall(r"^(error|warning|leftover) ([a-z-]+): (.*\n.*\n.*)$", ran.stdout, re.MULTILINE)
    return found, ran.stderr.strip()


def libraries_in(folder):
    """The old releases, as run.py finds them."""
    paths = glob.glob(os.path.join(folder, "tiledb-*", "**", "libtiledb*.so*"), recursive=True) if folder else []
    return sorted(paths, key=lambda path: [int(n) for n in re.findall(r"\d+", path.split("tiledb-")[1].split("/")[0])])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--libraries")
    parser.add_argument("--keep")
    options = parser.parse_args()
    libraries = libraries_in(options.libraries)
    rules, dropped, failed, checked = collections.Counter(), 0, 0, 0
    for number in range(options.first, options.first + options.cases):
        seed = f"{options.seed}:{number}"
        with tempfile.TemporaryDirectory() as folder:
            trouble, settings = make(seed, folder, libraries)
            arrays = [path for path in sorted(glob.glob(os.path.join(folder, "*"))) if os.path.isdir(os.path.join(path, "__schema")) or os.path.exists(os.path.join(path, "__array_schema.tdb"))]
            if trouble or not arrays:
                dropped += 1
                continue
            for array in arrays:
                found, error = check(options.binary, array, history.KEY if settings else None)
                checked += 1
                for severity, rule, _ in found:
                    rules[severity, rule] += 1
                if any(rule == "unreadable-tile" for _, rule, _ in found) and os.path.exists(os.path.join(folder, "history.pkl")):
                    if oracle.in_child(ask_libtiledb, (array, folder)):
                        print(f"{seed} {os.path.basename(array)}: libtiledb cannot read it either")
                        continue
                wrong = [text for severity, rule, text in found if severity == "error" and rule not in RIGHTLY]
                if wrong or error:
                    failed += 1
                    print(f"{seed} {os.path.basename(array)}: {error}")
                    print("\n".join(wrong[:5]), flush=True)
                    if options.keep:
                        shutil.copytree(array, os.path.join(options.keep, seed.replace(":", "_"), os.path.basename(array)), dirs_exist_ok=True)
    for (severity, rule), count in sorted(rules.items()):
        print(f"{count:6} {severity} {rule}")
    print(f"{options.cases} cases, {dropped} dropped, {checked} arrays checked, {failed} with errors")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
