"""Random arrays of libtiledb: sound ones, which tiledb-sql check must find sound, and damaged ones, which both read or refuse.

    python check.py BINARY [--seed N] [--cases N] [--first N] [--libraries DIR] [--keep DIR] [--damage N]

Arrays are those of run.py: seeds that begin with a letter make the same histories as there (h: one array's life, o: begun by an old release). A case
fails if the check finds an error, or fails itself. Warnings are counted by rule. Exit status 1 if a case failed.

With --damage, each array (of a seed without a letter) is damaged in so many ways instead, in its fragments and commits; what is compressed there is
damaged first and compressed afterwards. libtiledb reads it in a process of its own, which may crash. A case fails if tiledb-sql panics or takes too long.
Rows that differ where both read are told, for somebody to judge: libtiledb believes statistics and sizes that contradict the cells.
"""
import argparse
import collections
import glob
import os
import pickle
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

import compare
import data_gen
import history
import oracle
import schema_gen
import shell
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


NUMBERS = [0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 36, 1 << 48, (1 << 63) - 1, 1 << 63, (1 << 64) - 8, (1 << 64) - 1]


def contents(data, start):
    """The header and the contents of the gzipped generic tile at `start`, and where it ends; `None` if there is none."""
    try:
        version, persisted, size, datatype, cell, encrypted, pipeline = struct.unpack_from("<IQQBQBI", data, start)
        position = start + 34 + pipeline
        end = position + persisted
        if encrypted or version > 99 or end > len(data):
            return None
        (chunks,) = struct.unpack_from("<Q", data, position)
        position, out = position + 8, b""
        for _ in range(chunks):
            _, filtered, metadata = struct.unpack_from("<III", data, position)
            position += 12 + metadata
            out += zlib.decompress(data[position : position + filtered])
            position += filtered
        return (data[start : start + 34 + pipeline], out, end) if position == end and len(out) == size else None
    except (struct.error, zlib.error):
        return None


def boxed(header, plain):
    """The opposite of `contents`, in one chunk."""
    packed = zlib.compress(plain)
    metadata = struct.pack("<IIII", 0, 1, len(plain), len(packed))
    chunk = struct.pack("<III", len(plain), len(packed), len(metadata)) + metadata + packed
    tile = struct.pack("<Q", 1) + chunk if plain else struct.pack("<Q", 0)
    return header[:4] + struct.pack("<QQ", len(tile), len(plain)) + header[20:] + tile


def change(rng, data):
    """Changes a few bytes; the size stays."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2]) if data else 0):
        at = rng.randrange(len(data))
        if rng.random() < 0.5:
            data[at] ^= 1 << rng.randrange(8)
        else:
            width = rng.choice([1, 2, 4, 8])
            at = at // width * width
            value = rng.choice(NUMBERS).to_bytes(8, "little")[:width]
            data[at : at + width] = value[: len(data) - at]
    return bytes(data)


def damage(rng, array):
    """Damages one file of an array, and says which."""
    paths = sorted(p for p in glob.glob(os.path.join(array, "__*", "**"), recursive=True) if os.path.isfile(p) and "__schema" not in p)
    path = rng.choice(paths)
    with open(path, "rb") as file:
        data = file.read()
    starts, tiles, position = [], [], 0
    while path.endswith("__fragment_metadata.tdb") and (tile := contents(data, position)):
        starts.append(position)
        tiles.append(tile[:2])
        position = tile[2]
    if tiles:
        number = rng.randrange(len(tiles) + 1)
        footer = data[position:]
        if number == len(tiles):
            footer = change(rng, footer[:-8]) + footer[-8:]
        else:
            header, plain = tiles[number]
            tiles[number] = header, change(rng, plain)
        body, moved = b"", {}
        for start, (header, plain) in zip(starts, tiles):
            moved[start] = len(body)
            body += boxed(header, plain)
        # The offsets of the sections are the last numbers of the footer.
        words, at = bytearray(footer), len(footer) - 16
        while at >= 0 and (offset := struct.unpack_from("<Q", words, at)[0]) in moved:
            struct.pack_into("<Q", words, at, moved[offset])
            at -= 8
        data = body + bytes(words)
    else:
        data = change(rng, data)
    with open(path, "wb") as file:
        file.write(data)
    return os.path.relpath(path, array)


def make_plain(seed, folder):
    """Makes the array of a seed, and leaves its schema and the number of its cells. Runs in a forked child."""
    rng, uri, ctx = random.Random(seed), os.path.join(folder, "array"), Context()
    try:
        schema = schema_gen.random_schema(rng)
        schema_gen.create(ctx, uri, schema)
        life = data_gen.live(rng, ctx, uri, schema)
    except (TileDBError, oracle.Dropped):
        os._exit(3)
    with open(os.path.join(folder, "plain.pkl"), "wb") as out:
        pickle.dump((schema, life.cells), out)


def read_damaged(array, schema, cells, out):
    """What libtiledb reads. Runs in a forked child with little memory."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    try:
        columns = oracle.read_window(Context(), array, schema, 2 * cells + 20, 0, 1 << 62)
        answer = list(zip(*columns))
    except Exception as refusal:
        answer = str(refusal)[:200]
    with open(out, "wb") as file:
        pickle.dump(answer, file)


def compare_damaged(options):
    """Damages arrays, and compares what both read of them."""
    outcomes, failed = collections.Counter(), 0
    for number in range(options.first, options.first + options.cases):
        seed = f"{options.seed}:{number}"
        with tempfile.TemporaryDirectory() as folder:
            if oracle.in_child(make_plain, (seed, folder)):
                continue
            with open(os.path.join(folder, "plain.pkl"), "rb") as file:
                schema, cells = pickle.load(file)
            if not os.listdir(os.path.join(folder, "array", "__fragments")):
                continue
            copies, asks, files = [], [], []
            for way in range(options.damage):
                copy = os.path.join(folder, f"damaged_{way}")
                shutil.copytree(os.path.join(folder, "array"), copy)
                files.append(damage(random.Random(f"{seed}:{way}"), copy))
                copies.append(copy)
                prelude = ["DROP TABLE IF EXISTS t", f"CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{copy}'"]
                asks.append(shell.Ask(prelude, "SELECT * FROM t", f"{copy}.arrow"))
            answers = shell.Shell([options.binary]).run(asks, os.path.join(folder, "script.sql"))
            for way, (copy, ask, file) in enumerate(zip(copies, asks, files)):
                outcome, text = judge(schema, cells, copy, answers[ask.out])
                outcomes[outcome] += 1
                failed += outcome.startswith("tiledb-sql: ")
                if text:
                    print(f"{seed}:{way} {file}: {outcome}: {text}", flush=True)
                    if options.keep:
                        shutil.copytree(copy, os.path.join(options.keep, f"{seed}_{way}".replace(":", "_")), dirs_exist_ok=True)
    for outcome, count in outcomes.most_common():
        print(f"{count:6} {outcome}")
    sys.exit(failed > 0)


def judge(schema, cells, array, answer):
    """What became of a damaged array, and a text if somebody should look at it."""
    if answer.failure in ("panic", "timeout"):
        return f"tiledb-sql: {answer.failure}", answer.message
    out = f"{array}.pkl"
    crash = oracle.in_child(read_damaged, (array, schema, cells, out), 20)
    theirs = next(oracle.pickled(out), None)
    ours = "refused" if answer.failure else "read"
    if crash or theirs is None:
        return f"libtiledb crashes or hangs, {ours} here", None
    if isinstance(theirs, str):
        return f"libtiledb refuses, {ours} here", None
    if answer.failure:
        return "libtiledb reads, refused here", None
    try:
        rows = compare.rows_of(answer.table) if answer.table else []
    except UnicodeDecodeError:
        return "both read, text that is not UTF-8", None
    coordinates = [row[: len(schema.dims)] for row in theirs]
    if not schema.allows_dups and len(set(coordinates)) < len(coordinates):
        # libtiledb does not compare the cells of one fragment with each other.
        return "both read, cells of one fragment have the same coordinates", None
    wrong = compare.row_difference(theirs, rows, 2)
    return ("both read, other rows", wrong) if wrong else ("both read the same", None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--libraries")
    parser.add_argument("--keep")
    parser.add_argument("--damage", type=int, default=0)
    options = parser.parse_args()
    if options.damage:
        return compare_damaged(options)
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
