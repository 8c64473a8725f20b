"""Statements beside writes and deletes of libtiledb: what is there afterwards has a serial explanation.

A session of the shell and libtiledb, in a thread, change one row of an array at the same time, many rows one after the other. An order of the two must explain the count that the
statement reports and the row that is left. libtiledb neither looks at what others do nor waits: what it commits between the last look of a statement and its commit, with an earlier time, is
hidden or spared, as `docs/change.md` says ("Other writers"). These races are counted, and may be few: a run fails if they are more than --most percent, or if anything else happens.

    python racing.py ../../target/release/tiledb-sql --races 2000 --seed 1
"""

import argparse
import collections
import json
import queue
import random
import subprocess
import tempfile
import threading
import time

import numpy as np
import tiledb

LANES = 50  # rows of an array, a race each


class ShellSession:
    """A shell that stays open."""

    def __init__(self, binary):
        self.process = subprocess.Popen(
            [binary, "-q", "--format", "nd-json", "--maxrows", "inf"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
        )
        self.number, self.lines = 0, queue.Queue()
        for name in ("stdout", "stderr"):
            threading.Thread(target=self._read, args=(name,), daemon=True).start()

    def _read(self, name):
        for line in getattr(self.process, name):
            self.lines.put((name, line.rstrip("\n")))

    def run(self, sql):
        """The rows, or the error as text."""
        self.number += 1
        mark = f"mark{self.number}"
        self.process.stdin.write(f"{sql};\nSELECT '{mark}' AS z;\n")
        self.process.stdin.flush()
        rows, errors = [], []
        while True:
            name, line = self.lines.get(timeout=120)
            if name == "stderr":
                errors.append(line)
            elif line == json.dumps({"z": mark}, separators=(",", ":")):
                break
            elif line.strip():
                rows.append(json.loads(line))
        # What was printed to the other stream before the mark may come a moment later.
        if not rows and not errors:
            time.sleep(0.005)
            while not self.lines.empty():
                errors.append(self.lines.get()[1])
        return "\n".join(errors) if errors else rows


# A state is the tuple of the values of the row, sorted: none, one, or several with duplicates.
def update(values, _):
    return tuple(v + 1 for v in values), len(values)


def delete_zero(values, _):
    left = tuple(v for v in values if v != 0)
    return left, len(values) - len(left)


def delete_even(values, _):
    left = tuple(v for v in values if v % 2)
    return left, len(values) - len(left)


def delete_all(values, _):
    return (), len(values)


def insert(value):
    def put(values, duplicates):
        return (tuple(sorted((*values, value))) if duplicates else (value,)), 1

    return put


def merge(values, _):
    return (tuple(v + 5 for v in values) or (5,)), 1


OURS = {
    "UPDATE t SET v = v + 1 WHERE k = {k}": (update, True),
    "DELETE FROM t WHERE k = {k} AND v = 0": (delete_zero, True),
    "DELETE FROM t WHERE k = {k} AND v % 2 = 0": (delete_even, False),
    "DELETE FROM t WHERE k = {k}": (delete_all, True),
    "INSERT INTO t VALUES ({k}, 7)": (insert(7), True),
    "MERGE INTO t USING (VALUES ({k}, 5)) AS n(k, d) ON t.k = n.k WHEN MATCHED THEN UPDATE SET v = t.v + n.d "
    "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (n.k, n.d)": (merge, False),
}


def write(uri, k):
    with tiledb.open(uri, "w") as array:
        array[np.array([k], dtype=np.int64)] = {"v": np.array([100], dtype=np.int64)}


def delete(condition):
    def run(uri, k):
        with tiledb.open(uri, "d") as array:
            array.query(cond=condition.format(k=k)).submit()

    return run


THEIRS = {
    "write": (write, insert(100)),
    "delete k": (delete("k == {k}"), delete_all),
    "delete k and v = 0": (delete("k == {k} and v == 0"), delete_zero),
}


def explained(ours, theirs, count, left, duplicates):
    """Whether an order of both explains the count and the row."""
    first, counted = ours((0,), duplicates)
    if counted == count and theirs(first, duplicates)[0] == left:
        return True
    second, counted = ours(theirs((0,), duplicates)[0], duplicates)
    return counted == count and second == left


def races(binary, seed, number, duplicates, found):
    rng = random.Random(f"{seed}:{number}")
    with tempfile.TemporaryDirectory() as folder:
        uri = f"{folder}/array"
        ours, judge = ShellSession(binary), ShellSession(binary)
        option = " OPTIONS ('tiledb.allows_duplicates' 'true')" if duplicates else ""
        assert isinstance(judge.run(
            f"CREATE EXTERNAL TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '{uri}'{option}"
        ), list)
        judge.run(f"INSERT INTO t SELECT value, 0 FROM generate_series(0, {LANES - 1})")
        ours.run(f"CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{uri}'")
        done = []
        for k in range(LANES):
            sql = rng.choice([sql for sql, (_, any_array) in OURS.items() if any_array or not duplicates])
            name = rng.choice(list(THEIRS))
            wait = rng.choice([0, 0, 1, 2, 4, 8, 12]) / 1000
            thread = threading.Thread(target=lambda: (time.sleep(wait), THEIRS[name][0](uri, k)))
            thread.start()
            outcome = ours.run(sql.format(k=k))
            thread.join()
            done.append((k, sql, name, outcome))
        values = collections.defaultdict(list)
        rows = judge.run("SELECT k, v FROM t")
        for row in rows:
            values[row["k"]].append(row["v"])
        with tiledb.open(uri) as array:
            read = array[:]
        theirs = sorted(zip(read["k"].tolist(), read["v"].tolist()))
        if theirs != sorted((row["k"], row["v"]) for row in rows):
            found["libtiledb reads other rows"].append((number, rows, theirs))
        for k, sql, name, outcome in done:
            left = tuple(sorted(values[k]))
            if isinstance(outcome, str):
                found["failed"].append((number, k, sql, name, outcome))
            elif explained(OURS[sql][0], THEIRS[name][1], outcome[0]["count"], left, duplicates):
                found["explained"].append(k)
            else:
                found["unseen"].append((number, k, sql, name, outcome[0]["count"], left))
        for session in (ours, judge):
            session.process.stdin.close()
            session.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--races", type=int, default=500)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--most", type=float, default=2.0, help="percent of races in which libtiledb may be unseen")
    options = parser.parse_args()
    found = collections.defaultdict(list)
    for number in range(-(-options.races // LANES)):
        races(options.binary, options.seed, number, number % 3 == 2, found)
    for what in ("failed", "libtiledb reads other rows", "unseen"):
        for one in found[what]:
            print(what, *one)
    print({what: len(all_of) for what, all_of in sorted(found.items())})
    unseen = 100 * len(found["unseen"]) / max(1, options.races)
    raise SystemExit(bool(found["failed"] or found["libtiledb reads other rows"] or unseen > options.most))


if __name__ == "__main__":
    main()
