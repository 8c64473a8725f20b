"""Random arrays of libtiledb, changed by random statements of tiledb-sql, which libtiledb must read alike.

    python changing.py BINARY [--seed N] [--cases N] [--first N] [--keep DIR]

The array of a case is that of run.py. A few INSERT, DELETE, UPDATE, MERGE, INSERT OVERWRITE and TRUNCATE statements change it; some of them give NULL to a column that is NOT NULL,
and some change rows at 0.0 and -0.0. Then its rows, as tiledb-sql reads them, are inserted into a new array of the same schema. The case fails if libtiledb reads other cells from the
two, also after it has consolidated and vacuumed the changed one; if libtiledb, as of an instant between two statements or just before one's commit, reads other cells than it read at
that time; if tiledb-sql reads other cells as of such an instant; if NULL gets into a column that is NOT NULL; if two cells differ in the sign of zero alone; if tiledb-sql check finds
an error; or if a statement fails for another reason than those below. Exit status 1 if a case failed.
"""
import csv
import io
import os
import random
import re
import shutil
import sys
import time

import inserting
import oracle
import tiledb

# What is refused, and rightly so, besides what INSERT refuses.
REFUSED = inserting.REFUSED | {
    "single rows of an array with duplicates": "the array allows duplicates",
    "rows of a dense array": "a dense array has a cell at every coordinate",
    "a part of a dense array": "do not give every cell of the dense array",
    "a row onto another": "would take the coordinates",
    "one row twice": "more than once",
    "a column that cannot be compared": "Cannot infer common argument type",
    "a literal that is none of the type": "Cast error",
    "a literal that is none of the type ": "Cannot cast",
    "a key written late": "later than this statement",
    "times of the future": "a change hides only what is older",
    "NULL of a subquery without rows": "is declared as non-nullable but contains null values",
    "a year of six digits": "Error parsing timestamp",
    "no order": "does not support",
    "a coordinate outside the domain": "outside the domain",
    "a coordinate outside the domain ": "outside its domain",
    "a value that the column would change": "would become",
}


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def rows_of(binary, query):
    printed, error = inserting.shell(binary, query)
    return ([], error) if error else (list(csv.reader(io.StringIO(printed)))[1:], "")


def statements(rng, binary, array, copied):
    """Random statements over the columns that the array has."""
    columns, error = rows_of(binary, f"SELECT name, role, nullable, arrow_type FROM tiledb_schema('{array}') WHERE role IN ('dimension', 'attribute')")
    if error:
        return []
    floats = [quoted(row[0]) for row in columns if row[1] == "dimension" and row[3].startswith("Float")]
    required = [quoted(row[0]) for row in columns if row[1] == "attribute" and row[2] == "false"]
    names = [quoted(row[0]) for row in columns]
    dims = [quoted(row[0]) for row in columns if row[1] == "dimension"]
    attributes = [quoted(row[0]) for row in columns if row[1] == "attribute"]
    nullable = [quoted(row[0]) for row in columns if row[1] == "attribute" and row[2] == "true"]

    def condition():
        column = rng.choice(dims * 3 + attributes)
        kind = rng.randrange(4)
        if kind == 0 and nullable:
            return f"{rng.choice(nullable)} IS {rng.choice(['', 'NOT '])}NULL"
        some = f"(SELECT {column} FROM t WHERE {column} IS NOT NULL LIMIT 1 OFFSET {rng.randrange(40)})"
        if kind == 1:
            found, error = rows_of(binary, f"SELECT CAST({column} AS VARCHAR) FROM '{array}' WHERE {column} IS NOT NULL LIMIT 1 OFFSET {rng.randrange(40)}")
            if found and not error and found[0] and "\0" not in found[0][0]:
                some = "'" + found[0][0].replace("'", "''") + "'"
        return f"{column} {rng.choice(['=', '<', '<=', '>', '>=', '<>'])} {some}"

    if not attributes:
        return []
    on = " AND ".join(f"t.{dim} = s.{dim}" for dim in dims)
    target = f"CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{array}'"
    source = f"CREATE EXTERNAL TABLE s STORED AS TILEDB LOCATION '{copied}'"
    made = []
    for _ in range(rng.randint(1, 5)):
        kind = rng.randrange(16)
        column = rng.choice(attributes)
        if kind >= 14 and floats:
            zero, place = rng.choice(["0.0", "-0.0", "CAST('-0' AS DOUBLE)"]), rng.choice(floats)
            values = ", ".join(zero if name == place else name for name in names)
            made.append(rng.choice([
                f"INSERT INTO t ({', '.join(names)}) SELECT {values} FROM (SELECT * FROM s LIMIT 1)",
                f"DELETE FROM t WHERE {place} = {zero}",
                f"UPDATE t SET {column} = (SELECT {column} FROM s LIMIT 1) WHERE {place} = {zero}",
                f"UPDATE t SET {place} = {zero} WHERE {place} = {zero}",
            ]))
        elif kind >= 12 and required:
            column = rng.choice(required)
            values = ", ".join("NULL" if name == column else name for name in names)
            made.append(rng.choice([
                f"/* NULL */ UPDATE t SET {column} = NULL WHERE {condition()}",
                f"/* NULL */ UPDATE t SET {column} = (SELECT {column} FROM s WHERE {dims[0]} IS NULL) WHERE {condition()}",
                f"/* NULL */ INSERT INTO t ({', '.join(names)}) SELECT {values} FROM s",
                f"/* NULL */ MERGE INTO t USING s ON {on} WHEN MATCHED THEN UPDATE SET {column} = NULL",
            ]))
        elif kind < 4:
            made.append(f"DELETE FROM t WHERE {condition()}")
        elif kind < 7:
            value = "NULL" if column in nullable and rng.random() < 0.5 else f"(SELECT {column} FROM s LIMIT 1 OFFSET {rng.randrange(9)})"
            made.append(f"UPDATE t SET {column} = {value} WHERE {condition()}")
        elif kind < 10:
            values = ", ".join(f"s.{name}" for name in names)
            made.append(f"MERGE INTO t USING s ON {on} WHEN MATCHED AND s.{condition()} THEN DELETE WHEN MATCHED THEN UPDATE SET {column} = s.{column} "
                        f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({values})")
        elif kind == 10:
            made.append(f"INSERT OVERWRITE t SELECT * FROM s WHERE {condition().replace('FROM t', 'FROM s')}")
        else:
            made.append("TRUNCATE TABLE t")
    return [(target, source, statement) for statement in made]


def tidy(array):
    """libtiledb consolidates and vacuums the array. Runs in a forked child."""
    sys.stderr = open(os.devnull, "w")
    for mode in ("commits", "fragment_meta", "fragments"):
        config = tiledb.Config({"sm.consolidation.mode": mode, "sm.vacuum.mode": mode})
        try:
            tiledb.consolidate(array, config=config)
        except tiledb.TileDBError as error:
            # libtiledb sorts commits by name, so it can't list its own where times have different numbers of digits.
            if mode != "commits" or "start timestamp cannot be after" not in str(error):
                raise
        tiledb.vacuum(array, config=config)


def null_was_stored(statement, printed):
    """Whether a statement that gives NULL to a column that is NOT NULL changed a row."""
    counts = printed.split()[1:]
    return statement.startswith("/* NULL */") and counts not in ([], ["0"])


def now():
    """A time that no statement before shares, and none after it."""
    time.sleep(0.003)
    millis = int(time.time() * 1000)
    time.sleep(0.003)
    return millis


def instants(array, since):
    """The times of commits since a time."""
    names = os.listdir(os.path.join(array, "__commits"))
    times = {int(match[1]) for name in names for match in [re.match(r"__(\d+)_", name)] if match}
    return sorted(time for time in times if time > since)


class History:
    """The states of an array, each with the time of which it is."""

    def __init__(self, array, folder):
        self.array, self.folder, self.states = array, folder, []

    def keep(self):
        place = os.path.join(self.folder, f"state_{len(self.states)}")
        millis = now()
        shutil.copytree(self.array, place)
        self.states.append((millis, place))

    def moments(self):
        """Pairs of a time and the state that the array had at it."""
        for (begin, place), (end, _) in zip(self.states, [*self.states[1:], (1 << 62, "")]):
            yield begin, place
            yield from ((time - 1, place) for time in instants(self.array, begin)[:1] if time - 1 >= begin and time <= end)


def reason_of(error):
    return next((reason for reason, part in REFUSED.items() if part in error), None)


def past_differs(options, seed, history, answer, counts):
    """What libtiledb or tiledb-sql reads otherwise as of an earlier time."""
    moments = list(history.moments())
    for millis, place in moments:
        crashed = oracle.in_child(inserting.compare, (seed, place, history.array, answer, (1 << 62, millis)))
        told = open(answer).read() if os.path.exists(answer) else f"libtiledb ended in {crashed}"
        if told.startswith("unread"):
            return None
        counts["instants compared"] += 1
        if told:
            return f"as of {millis}, of {place}: {told}"
    millis, place = random.Random(seed).choice(moments)
    shown = os.path.join(history.folder, "shown")
    error = inserting.copy(options.binary, history.array, shown, f"?timestamp={millis}")
    if error:
        return None if reason_of(error) else f"as of {millis}: {error}"
    crashed = oracle.in_child(inserting.compare, (seed, place, shown, answer))
    told = open(answer).read() if os.path.exists(answer) else f"libtiledb ended in {crashed}"
    if inserting.rounds(options.binary, history.array):
        return None
    counts["instants read by tiledb-sql"] += 1
    return told and not told.startswith("unread") and f"tiledb-sql, as of {millis}: {told}"


def kind_of(binary, array):
    """Whether an array is dense or sparse, and whether it allows duplicates."""
    rows, _ = rows_of(binary, f"SELECT array_type, allows_duplicates FROM tiledb_array('{array}')")
    return rows[0]


def zeros_of_both_signs(options, array):
    """Two cells whose coordinates are equal, in an array without duplicates."""
    columns, error = rows_of(options.binary, f"SELECT name FROM tiledb_schema('{array}') WHERE role = 'dimension'")
    if error or kind_of(options.binary, array) != ["sparse", "false"]:
        return None
    dims = ", ".join(quoted(row[0]) for row in columns)
    rows, error = rows_of(options.binary, f"SELECT {dims}, count(*) FROM '{array}' GROUP BY {dims} HAVING count(*) > 1")
    return error or (f"cells that are there twice: {rows[:3]}" if rows else None)


def one_case(options, seed, folder, array, counts):
    """Returns what is wrong, if anything."""
    rng = random.Random(seed)
    before, pivot = os.path.join(folder, "before"), os.path.join(folder, "pivot")
    error = inserting.copy(options.binary, array, before)
    if error:
        counts[f"not copied: {reason_of(error)}"] += 1
        return None if reason_of(error) else error
    answer = os.path.join(folder, "answer.txt")
    crashed = oracle.in_child(inserting.compare, (seed, array, before, answer))
    if crashed or open(answer).read().startswith("unread"):
        counts["not read by libtiledb"] += 1
        return None
    history = History(array, folder)
    history.keep()
    for target, source, statement in statements(rng, options.binary, array, before):
        printed, error = inserting.shell(options.binary, target, source, statement)
        kind = statement.replace("/* NULL */ ", "NULL by ").split(" t ")[0]
        if not error:
            if null_was_stored(statement, printed):
                return f"{statement}: {printed}"
            counts[f"done: {kind}"] += 1
            history.keep()
            continue
        counts[f"refused: {reason_of(error)}"] += 1
        if not reason_of(error):
            return f"{statement}: {error}"
    if len(history.states) == 1:
        return None
    counts["changed"] += 1
    wrong = past_differs(options, seed, history, answer, counts) or zeros_of_both_signs(options, array)
    if wrong:
        return wrong
    error = inserting.copy(options.binary, array, pivot)
    if error:
        counts[f"not copied afterwards: {reason_of(error)}"] += 1
        # A dense array shows NULL where it has no cell.
        is_null = reason_of(error) == "no code means NULL" and kind_of(options.binary, array)[0] == "sparse"
        return None if reason_of(error) and not is_null else error
    for when in ("", "after libtiledb consolidated it: "):
        if when:
            crashed = oracle.in_child(tidy, (array,))
            if crashed:
                counts["not consolidated by libtiledb"] += 1
                return None
            counts["consolidated by libtiledb"] += 1
        if os.path.exists(answer):
            os.remove(answer)
        crashed = oracle.in_child(inserting.compare, (seed, pivot, array, answer))
        wrong, unread = inserting.judged(options.binary, array, crashed, answer)
        if unread:
            counts["not read by libtiledb"] += 1
            return None
        if wrong and inserting.rounds(options.binary, array):
            counts["not compared: fill values that were written are rounded by float_scale"] += 1
            return None
        if wrong:
            return when + wrong
    return None


if __name__ == "__main__":
    inserting.run(one_case)
