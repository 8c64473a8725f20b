"""Random arrays of libtiledb, copied by statements into new arrays, which libtiledb must read alike.

    python inserting.py BINARY [--seed N] [--cases N] [--first N] [--keep DIR]

The array of a case is that of run.py. tiledb-sql creates another one by the statement that tiledb_array gives, and fills it by INSERT … SELECT. The case
fails if libtiledb reads other cells from the copy, if tiledb-sql check finds an error in it, or if a statement fails for another reason than those below.
Exit status 1 if a case failed.
"""
import argparse
import collections
import csv
import glob
import io
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

import oracle
import schema_gen
from ctiledb import Context, TileDBError

# What is refused, and rightly so: the reason, and a part of the message.
REFUSED = {
    "a value that a filter cannot hold": "does not fit the filter float_scale",
    "NaN isn't a coordinate": "which isn't a coordinate",
    "zeros of both signs, or a lossy filter": "the array allows no duplicates",
    "a lossy filter": "lies outside its domain",
    "a filter that is not written": "cannot be written by this release",
    "no code means NULL": "the value is NULL, and the field is not nullable",
    "text that is not UTF-8": "UTF-8",
    "an enumeration that cannot be read": "cannot be read",
    "a time outside the day": "no time of day",
    "a date out of range": "outside the range of Arrow",
    "dimension labels": "dimension label",
}


def shell(binary, *statements):
    command = [binary, "-q", "--format", "csv"]
    for statement in statements:
        command += ["-c", statement]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return ran.stdout, ran.stderr.strip()


def copy(binary, array, target, shown=""):
    """Copies an array, or what it shows with some options in its URL, by statements; returns what went wrong."""
    printed, error = shell(binary, f"SELECT create_statement FROM tiledb_array('{array}')")
    if error:
        return error
    rows = list(csv.reader(io.StringIO(printed)))
    statement = rows[1][0]
    statement = re.sub(r"CREATE EXTERNAL TABLE (\"(?:[^\"]|\"\")*\"|\S+)", "CREATE EXTERNAL TABLE copied", statement, count=1)
    statement = statement.replace(f"'{array}'", f"'{target}'")
    _, error = shell(binary, statement, f"INSERT INTO copied SELECT * FROM '{array}{shown}'")
    return error


def compare(seed, array, target, answer, until=(1 << 62, 1 << 62)):
    """Writes what differs between libtiledb's readings of both arrays, each up to a time. Runs in a forked child."""
    schema = schema_gen.random_schema(random.Random(seed))
    ctx = Context()
    try:
        expected = oracle.read_window(ctx, array, schema, oracle.MAX_ROWS, 0, until[0])
    except (TileDBError, oracle.Dropped) as error:
        told = f"unread {error}"
    else:
        found = oracle.read_window(ctx, target, schema, oracle.MAX_ROWS, 0, until[1])
        told = differing(found, expected)
    with open(answer, "w") as out:
        out.write(told)


def differing(found, expected):
    found, expected = [sorted(map(repr, zip(*columns))) for columns in (found, expected)]
    if found == expected:
        return ""
    pairs = [pair for pair in zip(found, expected) if pair[0] != pair[1]][:2]
    return f"{len(found)} rows, expected {len(expected)}: {pairs}"


def judged(binary, array, crashed, answer):
    """(what libtiledb or the auditor says against an array, whether libtiledb could not read at all)"""
    told = open(answer).read() if os.path.exists(answer) else f"libtiledb ended in {crashed}"
    if told.startswith("unread"):
        return None, True
    checked = subprocess.run([binary, "check", array], capture_output=True, text=True).stdout
    errors = re.findall(r"^error .*\n.*\n.*$", checked, re.MULTILINE)
    return told or "\n".join(errors[:3]) or None, False


def rounds(binary, array):
    """Whether a filter of the array stores other values than it is given: it rounds fill values that are written, and those that it has rounded once, of 32 bits, again."""
    printed, error = shell(binary, f"SELECT count(*) FROM tiledb_schema('{array}') WHERE filters LIKE '%float_scale%'")
    return not error and list(csv.reader(io.StringIO(printed)))[1] != ["0"]


def one_case(options, seed, folder, array, counts):
    """Returns what is wrong, if anything."""
    target = os.path.join(folder, "copied_array")
    error = copy(options.binary, array, target)
    if error:
        reason = next((reason for reason, part in REFUSED.items() if part in error), None)
        counts[f"refused: {reason}"] += 1
        return None if reason else error
    answer = os.path.join(folder, "answer.txt")
    crashed = oracle.in_child(compare, (seed, array, target, answer))
    wrong, unread = judged(options.binary, target, crashed, answer)
    if wrong and rounds(options.binary, array):
        counts["not compared: float_scale rounds"] += 1
        return None
    counts["not read by libtiledb" if unread else "copied"] += 1
    return wrong


def run_each(one, seed="1"):
    """Tries `one(options, seed, folder, counts)` for every case that the command line asks for, tells how they ended, and exits."""
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--seed", default=seed)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep")
    options = parser.parse_args()
    counts, failed = collections.Counter(), 0
    for number in range(options.first, options.first + options.cases):
        seed = f"{options.seed}:{number}"
        with tempfile.TemporaryDirectory() as folder:
            wrong = one(options, seed, folder, counts)
            if wrong:
                failed += 1
                print(f"{seed}: {wrong[:1500]}", flush=True)
                if options.keep:
                    shutil.copytree(folder, os.path.join(options.keep, seed.replace(":", "_")), dirs_exist_ok=True)
    for reason, count in sorted(counts.items()):
        print(f"{count:6} {reason}")
    print(f"{options.cases} cases, {failed} failed")
    sys.exit(failed > 0)


def run(one_case):
    """Tries `one_case(options, seed, folder, array, counts)` on random arrays of libtiledb, and exits."""

    def one(options, seed, folder, counts):
        trouble = oracle.in_child(oracle.make_case, (seed, folder))
        arrays = [path for path in sorted(glob.glob(os.path.join(folder, "*"))) if os.path.isdir(os.path.join(path, "__schema"))]
        if trouble or not arrays:
            counts["not made by libtiledb"] += 1
            return None
        return one_case(options, seed, folder, arrays[0], counts)

    run_each(one)


if __name__ == "__main__":
    run(one_case)
