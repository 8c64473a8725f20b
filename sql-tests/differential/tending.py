"""Arrays that tiledb-sql writes, tended by libtiledb and by tiledb-sql in turns: nothing fails, and no row changes.

    python tending.py BINARY [--seed N] [--cases N] [--first N] [--keep DIR]

Each case is one array, dense or sparse, with or without duplicates, and some twenty random events: statements of every kind (several of which commit several fragments, or fragments and a
delete, in one file), writes of libtiledb, and the four consolidations and vacuums of both sides. After each event libtiledb and tiledb-sql read the same rows; a consolidation or vacuum
leaves them as they were; sometimes so does every instant before. A commit of libtiledb that misses the file of a delete, which a vacuum of commits has removed, is libtiledb's own defect
and counted. Exit status 1 if a case failed.
"""
import csv
import io
import json
import os
import random
import shutil
import time

import inserting
import numpy as np
import tiledb

MODES = ("fragments", "commits", "fragment_meta", "array_meta")
OURS = {"fragments": "fragments", "commits": "commits", "fragment_meta": "fragment_metadata", "array_meta": "array_metadata"}
# Our vacuum leaves replaced fragments for ten minutes unless it is given another age.
AT_ONCE = {"ours vacuum": ", min_age => '0'"}
LAST = 40
# What is refused, and rightly so.
REFUSED = ("would take the coordinates", "changes the row")


def libtiledb_rows(array, at=None):
    with tiledb.open(array, timestamp=at) as opened:
        found = opened[:]
        if opened.schema.sparse:
            columns = [found["x"].tolist(), found["v"].tolist()]
        else:
            domain = opened.nonempty_domain()
            if domain is None:
                return []
            low, high = (int(end) for end in domain[0])
            columns = [list(range(low, high + 1)), opened[low:high + 1]["v"].tolist()]
    return sorted(zip(*columns))


def our_rows(binary, array, at=None):
    where = f"{array}?timestamp={at}" if at else array
    printed, error = inserting.shell(binary, f"SELECT x, v FROM '{where}'")
    if error:
        return error
    return sorted(tuple(map(int, row)) for row in list(csv.reader(io.StringIO(printed)))[1:])


def create(rng, binary, array):
    kind = rng.choice(["dense", "sparse", "duplicates"])
    options = f"'tiledb.dim.x.domain' '[1, {LAST}]', 'tiledb.dim.x.tile' '{rng.choice([2, 5, LAST])}', "
    options += {"dense": "'tiledb.array_type' 'dense'", "sparse": "'tiledb.capacity' '7'", "duplicates": "'tiledb.allows_duplicates' 'true'"}[kind]
    statement = f"CREATE EXTERNAL TABLE t (x INT NOT NULL, v INT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{array}' OPTIONS ({options})"
    _, error = inserting.shell(binary, statement)
    return kind, error


def statement(rng, kind, columns):
    few = sorted(rng.sample(range(1, LAST + 1), rng.randint(1, 4)))
    names = ", ".join(["x", "v"] + columns)
    values = lambda xs: ", ".join(f"({x}, {rng.randrange(1000)}{', 1' * len(columns)})" for x in xs)
    made = [f"INSERT INTO t ({names}) VALUES {values(few)}"] * 4
    made += [f"UPDATE t SET v = v + 1 WHERE x IN ({', '.join(map(str, few))})", "TRUNCATE TABLE t",
             "SELECT uri FROM tiledb_set_metadata('t', 'k', %d)" % rng.randrange(99)]
    if kind == "dense":
        made += [f"INSERT OVERWRITE t SELECT value, {rng.randrange(99)}{', 1' * len(columns)} FROM generate_series(1, {LAST})"]
        made += ["MERGE INTO t USING (VALUES (%d, 7)) AS n(x, v) ON t.x = n.x WHEN MATCHED THEN UPDATE SET v = n.v" % few[0]]
    else:
        made += [f"INSERT OVERWRITE t ({names}) VALUES {values(few)}"] * 2
        made += [f"DELETE FROM t WHERE x BETWEEN {few[0]} AND {few[-1]}", f"DELETE FROM t WHERE v < {rng.randrange(300)}",
                 f"UPDATE t SET v = 5 WHERE v > {rng.randrange(1000)}"]
    if kind == "sparse":
        made += [f"UPDATE t SET x = {LAST + 1} - x WHERE x < {few[0]} AND x % 2 = 0", "DELETE FROM t WHERE v % 3 = 0 AND v + 0 < 500",
                 f"MERGE INTO t USING (VALUES ({few[0]}, 1), ({few[-1]}, 2)) AS n(x, v) ON t.x = n.x WHEN MATCHED AND n.v = 1 THEN DELETE "
                 f"WHEN MATCHED THEN UPDATE SET v = n.v WHEN NOT MATCHED THEN INSERT (x, v{''.join(', ' + c for c in columns)}) VALUES (n.x, n.v{', 1' * len(columns)})"]
    if not columns:
        made.append("ALTER")
    return rng.choice(made)


def libtiledb_writes(rng, array, kind):
    low = rng.randint(1, LAST - 3)
    with tiledb.open(array, "w") as opened:
        names = [opened.schema.attr(i).name for i in range(opened.schema.nattr)]
        count = 3
        data = {name: np.full(count, rng.randrange(1000), dtype=np.int32) for name in names}
        if kind == "dense":
            opened[low:low + count] = data
        else:
            opened[np.arange(low, low + count, dtype=np.int32)] = data


def libtiledb_tends(array, what, mode):
    key = {"consolidate": "sm.consolidation.mode", "vacuum": "sm.vacuum.mode"}[what]
    getattr(tiledb, what)(array, config=tiledb.Config({key: mode}))


def is_missing_delete(array, error):
    """Whether libtiledb misses the file of a delete that it has put into a list, and removed."""
    return ".del'; No such file" in error and not os.path.exists(error.split("'")[1])


def one_case(options, seed, folder, counts):
    """Returns what is wrong, if anything."""
    rng = random.Random(seed)
    binary, array = options.binary, os.path.join(folder, "array")
    kind, error = create(rng, binary, array)
    if error:
        return error
    table = f"CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{array}'"
    columns, log, instants, truncated = [], [kind], [], False
    rows = []
    for _ in range(rng.randint(10, 24)):
        what = rng.choice(["statement"] * 6 + ["libtiledb writes"] * 2 + ["consolidate", "vacuum"] * 3 + ["ours consolidate", "ours vacuum"])
        mode = rng.choice(MODES)
        event = what
        before, tends = rows, True
        if what == "statement":
            tends = False
            event = statement(rng, kind, columns)
            if event == "ALTER":
                columns.append("c")
                event = "ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 5"
            if event.startswith("TRUNCATE"):
                truncated = True
            _, error = inserting.shell(binary, table, event)
            counts[f"statement {event.split()[0]}"] += 1
        elif what == "libtiledb writes":
            tends = False
            time.sleep(0.002)
            libtiledb_writes(rng, array, kind)
        elif what.startswith("ours"):
            event = f"SELECT * FROM tiledb_{what.split()[1]}('{array}', mode => '{OURS[mode]}'{AT_ONCE.get(what, '')})"
            _, error = inserting.shell(binary, event)
        else:
            event = f"libtiledb {what} {mode}"
            try:
                libtiledb_tends(array, what, mode)
                counts[event] += 1
            except tiledb.TileDBError as failed:
                error = str(failed)
                if is_missing_delete(array, error):
                    counts["not consolidated: libtiledb misses the file of a delete that was vacuumed"] += 1
                    error = ""
        log.append(event)
        history = " | ".join(log)
        if any(reason in error for reason in REFUSED):
            counts["refused"] += 1
            error = ""
        if error:
            return f"{history}: {error}"
        rows, read = our_rows(binary, array), libtiledb_rows(array)
        if rows != read:
            return f"{history}: tiledb-sql reads {rows}, libtiledb {read}"
        if tends and rows != before:
            return f"{history}: {rows}, before {before}"
        if not tends:
            instants.append((int(time.time() * 1000), rows))
            time.sleep(0.003)
        if "vacuum" in event and (kind == "dense" or truncated):
            instants.clear()
    for at, then in instants[-4:]:
        # Attributes that were added later are read as the array had none.
        for found, who in ((our_rows(binary, array, at), "tiledb-sql"), (libtiledb_rows(array, at), "libtiledb")):
            if found != then:
                return f"{' | '.join(log)}: at {at} {who} reads {found}, then it was {then}"
    printed, _ = inserting.shell(binary, f"SELECT rule, object FROM tiledb_check('{array}') WHERE severity = 'error'")
    found = list(csv.reader(io.StringIO(printed)))[1:]
    return f"{' | '.join(log)}: {json.dumps(found)}" if found else None


if __name__ == "__main__":
    inserting.run_each(one_case)
