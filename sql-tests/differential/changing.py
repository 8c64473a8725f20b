"""Random arrays of libtiledb, changed by random statements of tiledb-sql, which libtiledb must read alike.

    python changing.py BINARY [--seed N] [--cases N] [--first N] [--keep DIR]

The array of a case is that of run.py. A few DELETE, UPDATE, MERGE, INSERT OVERWRITE and TRUNCATE statements change it. Then its rows, as tiledb-sql reads them, are inserted into a
new array of the same schema. The case fails if libtiledb reads other cells from the two, also after it has consolidated and vacuumed the changed one, if tiledb-sql check finds an
error in it, or if a statement fails for another reason than those below. Exit status 1 if a case failed.
"""
import csv
import io
import os
import random
import sys

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
}


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def rows_of(binary, query):
    printed, error = inserting.shell(binary, query)
    return ([], error) if error else (list(csv.reader(io.StringIO(printed)))[1:], "")


def statements(rng, binary, array, copied):
    """Random statements over the columns that the array has."""
    columns, error = rows_of(binary, f"SELECT name, role, nullable FROM tiledb_schema('{array}') WHERE role IN ('dimension', 'attribute')")
    if error:
        return []
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
        kind = rng.randrange(12)
        column = rng.choice(attributes)
        if kind < 4:
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
        tiledb.consolidate(array, config=config)
        tiledb.vacuum(array, config=config)


def one_case(options, seed, folder, array, counts):
    """Returns what is wrong, if anything."""
    rng = random.Random(seed)
    before, pivot = os.path.join(folder, "before"), os.path.join(folder, "pivot")
    error = inserting.copy(options.binary, array, before)
    if error:
        reason = next((reason for reason, part in REFUSED.items() if part in error), None)
        counts[f"not copied: {reason}"] += 1
        return None if reason else error
    answer = os.path.join(folder, "answer.txt")
    crashed = oracle.in_child(inserting.compare, (seed, array, before, answer))
    if crashed or open(answer).read().startswith("unread"):
        counts["not read by libtiledb"] += 1
        return None
    done = 0
    for target, source, statement in statements(rng, options.binary, array, before):
        _, error = inserting.shell(options.binary, target, source, statement)
        kind = statement.split()[0]
        if not error:
            done += 1
            counts[f"done: {kind}"] += 1
            continue
        reason = next((reason for reason, part in REFUSED.items() if part in error), None)
        counts[f"refused: {reason}"] += 1
        if not reason:
            return f"{statement}: {error}"
    if not done:
        return None
    counts["changed"] += 1
    error = inserting.copy(options.binary, array, pivot)
    if error:
        reason = next((reason for reason, part in REFUSED.items() if part in error), None)
        counts[f"not copied afterwards: {reason}"] += 1
        return None if reason else error
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
