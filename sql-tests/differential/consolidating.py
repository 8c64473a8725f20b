"""Random histories of libtiledb, consolidated and vacuumed by tiledb-sql: libtiledb and tiledb-sql must read afterwards what they read before, at every time.

    python consolidating.py BINARY [--seed N] [--cases N] [--first N] [--keep DIR]

Seeds that do not begin with h are the reverse: statements of tiledb-sql write an array like that of run.py in several fragments, libtiledb consolidates it, and both read what they read
before.

The history of a case is that of run.py (seeds that begin with h): writes, deletes, schema evolution, consolidations and vacuums of libtiledb, leftovers of crashed writers, encrypted or
not. Then tiledb-sql consolidates and vacuums, with random options; in some cases libtiledb consolidates what has come of it once more. The case fails if
anybody reads other cells or metadata than before, if tiledb-sql check finds an error that was not there, if a dry run tells something else than is done, or if a statement fails for
another reason than those below. Exit status 1 if a case failed.
"""
import collections
import csv
import io
import os
import random
import re
import shutil
import subprocess
import tempfile

import history
import inserting
import oracle
import schema_gen
from compare import read_file, rows_of
from ctiledb import Context, TileDBError, consolidate

# What is refused, and rightly so: the reason, and a part of the message.
REFUSED = {
    "a filter that is not written": "cannot be written by this release",
    "NaN as a coordinate": "has NaN as its coordinate",
    "the attribute of a delete was dropped": "which the array's schema no longer has",
    "NULLs that the schema no longer allows": "no longer allows them",
    "old schemas have no lists of commits": "commits can be listed since format",
    "a crashed writer's fragment, which may still be committed": "is about to be committed by another writer",
}

# The environment variable with the key of encrypted arrays.
KEY_VARIABLE = "KEY_OF_THE_ARRAY"


def shell(binary, *statements):
    command = [binary, "-q", "--format", "csv"]
    for statement in statements:
        command += ["-c", statement]
    # A key isn't an argument of a function, so it comes by an environment variable.
    variables = os.environ | {KEY_VARIABLE: history.KEY}
    ran = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", timeout=300, env=variables)
    return ran.stdout, ran.stderr.strip()


def call(function, uri, options):
    pairs = "".join(f", '{key}', '{value}'" for key, value in options.items())
    return f"{function}('{uri}'{pairs})"


def report(binary, function, uri, options):
    """The rows of a report without what is not known before; and an error."""
    printed, error = shell(binary, f"SELECT mode, action, object, inputs, outcome FROM {call(function, uri, options)}")
    rows = list(csv.reader(io.StringIO(printed)))[1:]
    return rows, error


def key_of(case):
    return {"tiledb.encryption_key_env": KEY_VARIABLE} if case["settings"] else {}


def ours(binary, case, windows):
    """What tiledb-sql reads through each window, in a neutral order."""
    answers = []
    for window in windows:
        options = key_of(case) | {"timestamp_start": window.start, "tiledb.invalid_utf8": "lossy"}
        if window.end is not None:
            options["timestamp_end"] = window.end
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "rows.arrow")
            _, error = shell(binary, f"COPY (SELECT * FROM {call('tiledb_scan', window.uri, options)}) TO '{file}' STORED AS ARROW")
            answers.append(("error", error) if error else ("rows", sorted(map(repr, rows_of(read_file(file))))))
    return answers


def errors(binary, case, uri):
    printed, error = shell(binary, f"SELECT rule, object, found FROM {call('tiledb_check', uri, key_of(case))} WHERE severity = 'error'")
    assert not error, error
    rows = [row for row in list(csv.reader(io.StringIO(printed)))[1:] if not (row[0] == "unreadable-tile" and any(name in row[1] for name in case.get("theirs", ())))]
    # In a list of commits there are copies of deletes, of which the same is found.
    findings = {(rule, re.split("[/ ]", object)[-1].removesuffix(".del"), found) for rule, object, found in rows}
    # Statistics of libtiledb that are wrong are gone with its fragments.
    return collections.Counter(rule for rule, _, _ in findings)


def steps(rng):
    """What is done: functions, options, and whether all of the history remains."""
    plan, whole = [], True
    for _ in range(rng.choice([1, 1, 2, 3])):
        mode = rng.choice(["fragments"] * 4 + ["commits", "fragment_metadata", "array_metadata"])
        options = {"mode": mode}
        if mode == "fragments":
            options["verify"] = "true"
            options |= rng.choice([{}] * 4 + [{"max_fragments": rng.choice([2, 3, 5])}, {"size_ratio": 0.5}, {"max_bytes": 5000}, {"steps": 1, "max_fragments": 2}])
            if rng.random() < 0.15:
                options |= rng.choice([{"timestamps": "false"}, {"purge_deleted": "true"}])
                whole = False
        plan.append(("tiledb_consolidate", options))
        if rng.random() < 0.5:
            plan.append(("tiledb_vacuum", {"mode": mode, "min_age": "0"}))
            whole = whole and mode not in ("fragments", "array_metadata")
    if rng.random() < 0.2:
        plan.append(("tiledb_vacuum", {"mode": "leftovers", "min_age": "0"}))
    return plan, whole


def once_more(settings, uri, mode="fragments"):
    """libtiledb consolidates. Runs in a forked child."""
    try:
        consolidate(Context(settings), uri, settings | {"sm.consolidation.mode": mode})
    except TileDBError:
        os._exit(3)


def fragments(uri):
    folder = os.path.join(uri, "__fragments")
    return set(os.listdir(folder)) if os.path.isdir(folder) else set()


def unfounded(uri):
    """Lists of the fragments that a consolidation replaces, without what replaces them: somebody crashed before its commit. libtiledb does not read any more what is in such a list."""
    folders = [folder for folder in [uri, os.path.join(uri, "__commits")] if os.path.isdir(folder)]
    lists = [(folder, name) for folder in folders for name in os.listdir(folder) if name.endswith(".vac")]
    return [os.path.join(folder, name) for folder, name in lists if name[:-4] not in fragments(uri) and not os.path.isdir(os.path.join(uri, name[:-4]))]


def tend(binary, rng, case, uri, found, counts):
    """Consolidates and vacuums an array in which check `found` errors; what went wrong, and whether all of the history remains."""
    plan, whole = steps(rng)
    for function, options in plan:
        options = options | key_of(case)
        planned, error = report(binary, function, uri, options | {"dry_run": "true"})
        done, failed = ([], error) if error else report(binary, function, uri, options)
        if failed:
            reason = next((reason for reason, part in REFUSED.items() if part in failed), None)
            if found["unreadable-tile"] and "the chunks hold" in failed:
                reason = "a tile that libtiledb wrote too short"
            counts[f"refused: {reason}"] += 1
            if not reason:
                return f"{function} {options}: {failed}", whole
            continue
        counts[f"{function[7:]} {options['mode']}" + ("" if done else ", nothing to do")] += 1
        counts["rows skipped"] += sum(row[4].startswith("skipped") for row in done)
        told = [[*row[:2], row[3]] if function == "tiledb_consolidate" else [*row[:2], re.sub("__[0-9a-f_]+ign", "ign", re.sub(r"[0-9a-f]{32}_\d+\.ign", ".ign", row[2]))] for row in planned]
        made = [[*row[:2], row[3]] if function == "tiledb_consolidate" else [*row[:2], re.sub("__[0-9a-f_]+ign", "ign", re.sub(r"[0-9a-f]{32}_\d+\.ign", ".ign", row[2]))] for row in done]
        if told != made:
            return f"{function} {options}: planned {planned}, did {done}", whole
    if rng.random() < 0.2:
        before = fragments(uri)
        crashed = oracle.in_child(once_more, (case["settings"], uri))
        counts["consolidated by libtiledb afterwards" + (", which failed" if crashed else "")] += 1
        case["again"], case["theirs"] = True, fragments(uri) - before
    return None, whole


def dropped(window, newest):
    """Whether a window shows an attribute that the newest schema lacks, or has with another type: a merged fragment has the newest schema."""
    shape = lambda schema: {(f.name, f.datatype, f.ncell) for f in schema.attrs}
    return bool(shape(window.schema) - shape(newest.schema))


def compare(before, after, windows, whole, who, counts, again):
    for then, now, window in zip(before, after, windows):
        everything = window.start == 0 and window.end is None
        if then[0] != "rows" or (not whole and not everything):
            continue
        if dropped(window, windows[-1]):
            counts["windows that show an attribute that was dropped later"] += 1
            continue
        if again and now[0] != "rows" and who == "libtiledb":
            counts["libtiledb cannot read what it consolidated"] += 1
            continue
        rows = [sorted(map(repr, zip(*answer[1]))) if who == "libtiledb" and answer[0] == "rows" else answer[1] for answer in (then, now)]
        if now[0] != "rows" or rows[0] != rows[1]:
            pairs = [pair for pair in zip(*rows) if pair[0] != pair[1]][:2] if now[0] == "rows" else now[1]
            return f"{who} through {window.start} to {window.end}: {len(rows[0])} rows before, {len(rows[1])} after: {pairs}"
        if whole and then[2:] != now[2:]:
            return f"{who} through {window.start} to {window.end}: metadata {then[2:]} became {now[2:]}"
    return None


def asked_again(case, folder, kept, array, change):
    """What libtiledb reads of the array as it was, after a change of it."""
    ours = os.path.join(folder, "ours")
    shutil.move(array, ours)
    shutil.copytree(kept, array)
    change(array)
    answers = oracle.second_opinions(case, folder)
    shutil.rmtree(array)
    shutil.move(ours, array)
    return answers


def changes(then, now):
    """The rows that came or went through a window; None if there is an error instead."""
    if now[0] != "rows":
        return None
    then, now = (collections.Counter(map(repr, zip(*answer[1]))) for answer in (then, now))
    return collections.Counter({(sign, row): n for sign, rows in (("+", now - then), ("-", then - now)) for row, n in rows.items()})


def is_its_own(case, folder, kept, before, after, windows, whole):
    """Whether libtiledb's own consolidation of the array as it was makes all of the changes that libtiledb sees, or an error where there is one: cells of fragments of one millisecond have
    another order then."""
    for mode in ["fragments", "commits"]:
        own = asked_again(case, folder, kept, windows[-1].uri, lambda array: oracle.in_child(once_more, (case["settings"], array, mode)))
        answers = [(then, now, theirs) for then, now, theirs, window in zip(before, after, own, windows) if then[0] == "rows" and (whole or (window.start == 0 and window.end is None))]
        made = [(changes(then, now), changes(then, theirs)) for then, now, theirs in answers]
        if all(theirs is None if ours is None else not ours or (theirs is not None and ours <= theirs) for ours, theirs in made):
            return True
    return False


def is_founded(case, folder, kept, after, windows, whole):
    """Whether libtiledb reads of the array as it was what it reads after, once the lists of fragments that nothing replaces are gone."""
    def remove(array):
        for file in unfounded(array):
            os.remove(file)

    founded = asked_again(case, folder, kept, windows[-1].uri, remove)
    return compare(founded, after, windows, whole, "libtiledb", collections.Counter(), False) is None


def one_case(binary, seed, folder, counts):
    case = oracle.make_history(seed, folder, ())
    if "windows" not in case:
        counts["not made by libtiledb"] += 1
        return None
    rng = random.Random(seed + " tended")
    last = case["windows"][-1].uri
    windows = case["windows"] = [w for w in case["windows"] if w.uri == last]
    everything = history.Window(last, 0, None)
    everything.schema = max(windows, key=lambda w: (w.end is None, w.end or 0)).schema
    windows.append(everything)
    counts["windows"] += len(windows)
    before = [oracle.second_opinions(case, folder), ours(binary, case, windows)]
    found = errors(binary, case, last)
    kept = os.path.join(folder, "kept")
    shutil.copytree(last, kept)
    trouble, whole = tend(binary, rng, case, last, found, counts)
    if trouble:
        return trouble
    after = [oracle.second_opinions(case, folder), ours(binary, case, windows)]
    troubles = []
    for then, now, who in zip(before, after, ["libtiledb", "tiledb-sql"]):
        counts[f"windows read by {who}"] += sum(answer[0] == "rows" for answer in then)
        if trouble := compare(then, now, windows, whole, who, counts, case.get("again")):
            troubles.append((who, trouble))
    more = errors(binary, case, last) - found
    if more:
        return f"check: {dict(more)}"
    excused = set()
    for who, trouble in troubles:
        # tiledb-sql orders fragments of one millisecond as libtiledb does, so its answer may change through the windows in which libtiledb's does.
        through = trouble.removeprefix(who).split(":")[0]
        if who == "libtiledb" and unfounded(kept) and is_founded(case, folder, kept, after[0], windows, whole):
            counts["libtiledb did not read what an unfounded .vac names"] += 1
        elif who == "libtiledb" and is_its_own(case, folder, kept, before[0], after[0], windows, whole):
            counts["libtiledb reads other cells after its own consolidation, too"] += 1
            excused.add(through)
        elif "the chunks hold" in trouble and any(name in trouble for name in case.get("theirs", ())):
            counts["libtiledb wrote a tile too short"] += 1
        elif through not in excused:
            return trouble
    return None


def reverse(binary, seed, folder, counts):
    """An array that tiledb-sql writes and libtiledb consolidates."""
    trouble = oracle.in_child(oracle.make_case, (seed, folder))
    array, target = os.path.join(folder, "array"), os.path.join(folder, "copied_array")
    if trouble or not os.path.isdir(os.path.join(array, "__schema")) or (error := inserting.copy(binary, array, target)):
        counts["not copied" if not trouble else "not made by libtiledb"] += 1
        return None
    rng = random.Random(seed + " reversed")
    for _ in range(rng.choice([1, 2, 4])):
        _, error = shell(binary, f"CREATE EXTERNAL TABLE copied STORED AS TILEDB LOCATION '{target}'", f"INSERT INTO copied SELECT * FROM '{array}' LIMIT {rng.choice([1, 5, 50])}")
        assert not error, error
    schema = schema_gen.random_schema(random.Random(seed))
    window = history.Window(target, 0, 1 << 62)
    window.schema = schema
    case = {"windows": [window], "settings": {}, "cells": oracle.MAX_ROWS, "features": set(), "again": True}
    before = [oracle.second_opinions(case, folder), ours(binary, case, [window])]
    crashed = oracle.in_child(once_more, ({}, target))
    counts["consolidated by libtiledb" + (", which failed" if crashed else "")] += 1
    after = [oracle.second_opinions(case, folder), ours(binary, case, [window])]
    for then, now, who in zip(before, after, ["libtiledb", "tiledb-sql"]):
        counts[f"read by {who}"] += then[0][0] == "rows"
        if trouble := compare(then, now, [window], True, who, counts, True):
            return trouble
    return None


def one(options, seed, folder, counts):
    return (one_case if seed.startswith("h") else reverse)(options.binary, seed, folder, counts)


if __name__ == "__main__":
    inserting.run_each(one, seed="h1")
