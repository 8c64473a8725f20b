"""Random delete conditions: a tree that is handed to libtiledb and evaluated in Python as the format specification says.

What is stored is the negation of what was asked to be deleted; a cell survives when the stored condition holds. A comparison with NULL or with an attribute that the cell's fragment
does not have never holds, so such cells are deleted.
"""

import operator
import struct

import numpy as np

import values
from ctiledb import combined, condition, membership, negated
from fieldtypes import BINARIES, FLOATS, TEXTS, WIDE_TEXTS

LT, LE, GT, GE, EQ, NE, IN, NOT_IN = range(8)
OPS = {LT: operator.lt, LE: operator.le, GT: operator.gt, GE: operator.ge, EQ: operator.eq, NE: operator.ne}
OPPOSITE = {LT: GE, GE: LT, GT: LE, LE: GT, EQ: NE, NE: EQ, IN: NOT_IN, NOT_IN: IN}
MISSING = object()


def shape_of(field):
    """What must agree for one schema's cells to be read by another's attribute."""
    return field.datatype, field.ncell


class Leaf:
    """`field op value`. `raw`: the bytes given to libtiledb (labels for an enumerated field); `stored`: what cells are compared with."""

    def __init__(self, field, op, raw, stored):
        self.field, self.op, self.raw, self.stored = field, op, raw, [comparable(field, s) for s in stored]

    def handle(self, ctx):
        if self.op in (IN, NOT_IN):
            return membership(ctx, self.field.name, self.op, self.raw)
        return condition(ctx, self.field.name, self.op, self.raw[0])

    def holds(self, look_up, negate):
        cell = look_up(self.field)
        if cell is MISSING or cell is None:
            return False
        op, value = OPPOSITE[self.op] if negate else self.op, comparable(self.field, cell)
        if op in (IN, NOT_IN):
            return (value in self.stored) == (op == IN)
        return OPS[op](value, self.stored[0])

    def leaves(self):
        return [self]

    def __repr__(self):
        return f"{self.field.name!r} {'< <= > >= = <> IN NOT_IN'.split()[self.op]} {self.raw}"


class Both:
    def __init__(self, parts, word):
        self.parts, self.word = parts, word

    def handle(self, ctx):
        return combined(ctx, self.parts[0].handle(ctx), self.parts[1].handle(ctx), 0 if self.word == "AND" else 1)

    def holds(self, look_up, negate):
        every = (self.word == "AND") != negate
        return (all if every else any)([part.holds(look_up, negate) for part in self.parts])

    def leaves(self):
        return [leaf for part in self.parts for leaf in part.leaves()]

    def __repr__(self):
        return f" {self.word} ".join(f"({p!r})" for p in self.parts)


class Not:
    def __init__(self, inner):
        self.inner = inner

    def handle(self, ctx):
        return negated(ctx, self.inner.handle(ctx))

    def holds(self, look_up, negate):
        return self.inner.holds(look_up, not negate)

    def leaves(self):
        return self.inner.leaves()

    def __repr__(self):
        return f"NOT ({self.inner!r})"


def comparable(field, raw):
    """A raw cell as Python compares it: numbers by value (IEEE for floats), strings by their bytes."""
    if field.datatype in FLOATS:
        return struct.unpack("<f" if field.datatype == "FLOAT32" else "<d", raw)[0]
    if field.datatype in TEXTS:
        return raw
    return int(np.frombuffer(raw, field.dtype)[0])


def usable(field):
    single = field.ncell == 1 and field.datatype not in TEXTS + BINARIES and field.datatype not in WIDE_TEXTS
    return bool(field.name) and field.datatype != "BOOL" and (single or (field.is_var and field.datatype in ("STRING_ASCII", "STRING_UTF8")))


def random_condition(rng, schema, pools, seen):
    """A tree over the fields of a schema, or None. `seen(field)`: raw cells that were written."""
    fields = [f for f in schema.fields if usable(f)]
    if not fields:
        return None
    return random_tree(rng, fields, schema, pools, seen, rng.choice([0, 0, 0, 1, 1, 2]))


def random_tree(rng, fields, schema, pools, seen, depth):
    if depth == 0:
        return random_leaf(rng, rng.choice(fields), schema, pools, seen)
    if rng.random() < 0.15:
        return Not(random_tree(rng, fields, schema, pools, seen, depth - 1))
    return Both([random_tree(rng, fields, schema, pools, seen, rng.randint(0, depth - 1)) for _ in range(2)], rng.choice(["AND", "AND", "OR"]))


def random_leaf(rng, field, schema, pools, seen):
    op = rng.choice([LT, LE, GT, GE, EQ, EQ, EQ, NE, IN, IN, NOT_IN])
    if field.enumeration:
        return enumerated_leaf(rng, field, op)
    known = pools[schema.dims.index(field)] if field.is_dim else seen(field)

    def one():
        for _ in range(20):
            value = rng.choice(known) if known and rng.random() < 0.85 else stranger(rng, field)
            number = comparable(field, value)
            if value and number == number and (number != 0 or field.datatype not in FLOATS):  # no NaN, no zeros of either sign, no empty text
                return value
        return b"z" if field.is_var else np.array([1], field.dtype).tobytes()

    count = rng.choice([1, 2, 3, 10]) if op in (IN, NOT_IN) else 1
    picks = list(dict.fromkeys(one() for _ in range(count)))
    return Leaf(field, op, picks, picks)


def stranger(rng, field):
    if field.is_var:
        return values.random_text(rng, 10, values.ASCII_PIECES).encode()
    return values.random_scalar(rng, field.datatype, nat=False)


def enumerated_leaf(rng, field, op):
    """By label; only ordered enumerations know less and more."""
    members = field.enumeration.pieces()
    if op in (LT, LE, GT, GE) and not field.enumeration.ordered:
        op = EQ
    codes = rng.sample(range(len(members)), min(len(members), rng.choice([1, 2, 3]) if op in (IN, NOT_IN) else 1))
    codes = [c for c in codes if members[c]] or [next(i for i, m in enumerate(members) if m)]
    return Leaf(field, op, [members[c] for c in codes], [np.array([c], field.dtype).tobytes() for c in codes])


# The command: deletes of tiledb-sql read by libtiledb, and deletes of libtiledb read by tiledb-sql.

SQL_OPS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Column:
    """A column of the command's arrays: how its values are drawn, written in SQL and in a condition of libtiledb, and ordered."""

    def __init__(self, name, draw, sql=repr, own=repr, nullable=False):
        self.name, self.draw, self.sql, self.own, self.nullable = name, draw, sql, own, nullable

    def key(self, value):
        # NaN is above all numbers and equal to itself; zeros of both signs are equal.
        return (1, 0) if value != value else (0, value)


def columns_of(rng):
    """Dimensions and attributes; libtiledb and numpy take them by these types."""
    letter = lambda rng: rng.choice(["a", "b", "bb", "c", "d", "e"])
    text = dict(draw=letter, sql=lambda v: f"'{v}'", own=lambda v: f"'{v}'")
    number = lambda rng: rng.randrange(10)
    real = lambda rng: rng.choice([-2.5, -1.0, 0.5, 1.0, 2.0, 3.25, 7.0])
    odd = lambda rng: rng.choice([float("nan"), 0.0, -0.0, 1.0, 2.5, float("inf"), -3.0])
    show = lambda v: "'NaN'" if v != v else f"'{v}'" if abs(v) == float("inf") else repr(v)
    dims = rng.choice([[("x", np.int32, number), ("y", np.int64, number)], [("k", "ascii", letter), ("x", np.int32, number)], [("f", np.float64, real), ("y", np.int64, number)]])
    kinds = {"ascii": text, np.float64: dict(draw=real)}
    made = [(Column(name, **kinds.get(kind, dict(draw=draw))), kind) for name, kind, draw in dims]
    attributes = [(Column("a", number), np.int32), (Column("b", number), np.uint64), (Column("s", **text), "ascii"), (Column("n", number, nullable=True), np.int32), (Column("g", odd, sql=show), np.float64)]
    return made, attributes


def new_array(rng, path):
    """An array of libtiledb, and its cells as it shows them: [{column: value, "id": number, "t": time}]"""
    import pyarrow
    import tiledb

    dims, attributes = columns_of(rng)
    domain = {np.int32: (-5, 20), np.int64: (0, 15), np.float64: (-10.0, 10.0), "ascii": (None, None)}
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(*[tiledb.Dim(c.name, domain=domain[kind], tile=None if kind in ("ascii", np.float64) else 4, dtype=kind) for c, kind in dims]),
        attrs=[tiledb.Attr(c.name, dtype=kind, var=kind == "ascii" or None, nullable=c.nullable) for c, kind in attributes] + [tiledb.Attr("id", dtype=np.int32)],
        sparse=True, allows_duplicates=rng.random() < 0.5, capacity=rng.choice([3, 8, 1000]), cell_order=rng.choice(["row-major", "hilbert"]))
    tiledb.Array.create(path, schema)
    shown, number = {}, 0
    for time in range(10, 10 * rng.randint(2, 4), 10):
        written = {}
        for _ in range(rng.randint(15, 50)):
            number += 1
            cell = {c.name: c.draw(rng) for c, _ in dims} | {c.name: None if c.nullable and rng.random() < 0.3 else c.draw(rng) for c, _ in attributes} | {"id": number, "t": time}
            place = tuple(cell[c.name] for c, _ in dims)
            written[place if not schema.allows_duplicates else number] = cell
        cells = list(written.values())
        arrays = {c.name: pyarrow.array([cell[c.name] for cell in cells], pyarrow.from_numpy_dtype(kind)) if c.nullable else np.array([cell[c.name] for cell in cells], "S" if kind == "ascii" else kind) for c, kind in attributes}
        with tiledb.open(path, "w", timestamp=time) as array:
            coordinates = tuple(np.array([cell[c.name] for cell in cells], "S" if kind == "ascii" else kind) for c, kind in dims)
            array[coordinates] = arrays | {"id": np.array([cell["id"] for cell in cells], np.int32)}
        shown |= written
    if rng.random() < 0.4:
        tiledb.consolidate(path)
        tiledb.vacuum(path)
    return [c for c, _ in dims + attributes], list(shown.values())


def random_where(rng, columns, depth):
    """(SQL, a function of a cell that says True, False or None)"""
    if depth and rng.random() < 0.15:
        sql, meaning = random_where(rng, columns, depth - 1)
        return f"NOT ({sql})", lambda cell: None if meaning(cell) is None else not meaning(cell)
    if depth:
        parts = [random_where(rng, columns, rng.randint(0, depth - 1)) for _ in range(rng.choice([2, 2, 3, 4]))]
        word = rng.choice(["AND", "OR"])
        return f" {word} ".join(f"({sql})" for sql, _ in parts), lambda cell: joined([meaning(cell) for _, meaning in parts], word == "OR")
    column = rng.choice(columns)
    a, b, c = (column.draw(rng) for _ in range(3))
    known = lambda test: lambda cell: None if cell[column.name] is None else test(column.key(cell[column.name]))
    keys, shown = [column.key(v) for v in (a, b, c)], [column.sql(v) for v in (a, b, c)]
    negated, kind = rng.random() < 0.4, rng.randrange(10)
    if kind == 0:
        return f"{column.name} {'NOT ' * negated}BETWEEN {shown[0]} AND {shown[1]}", known(lambda key: (keys[0] <= key <= keys[1]) != negated)
    if kind < 3:
        return f"{column.name} {'NOT ' * negated}IN ({', '.join(shown)})", known(lambda key: (key in keys) != negated)
    if kind == 3 and column.nullable:
        return f"{column.name} IS {'NOT ' * negated}NULL", lambda cell: (cell[column.name] is None) != negated
    op = rng.choice(list(SQL_OPS))
    return f"{column.name} {op} {shown[0]}", known(lambda key: SQL_OPS[op](key, keys[0]))


def joined(parts, ruling):
    """AND or OR of three values; `ruling` is the one that decides it."""
    return ruling if ruling in parts else None if None in parts else not ruling


def own_condition(rng, columns, depth):
    """A condition as TileDB-Py takes it."""
    if depth:
        parts = [own_condition(rng, columns, rng.randint(0, depth - 1)) for _ in range(rng.choice([2, 2, 3]))]
        return rng.choice([" and ", " or "]).join(f"({part})" for part in parts)
    column = rng.choice([c for c in columns if c.name != "g"])
    # TileDB-Py knows sets of some types only.
    if rng.random() < 0.2 and column.name in "aknsx":
        return f"{column.name} {rng.choice(['in', 'not in'])} [{', '.join(sorted({column.own(column.draw(rng)) for _ in range(3)}))}]"
    return f"{column.name} {rng.choice(['==', '!=', '<', '<=', '>', '>='])} {column.own(column.draw(rng))}"


class Session:
    """One process of the shell, which answers statement by statement."""

    def __init__(self, binary):
        import subprocess

        self.process = subprocess.Popen([binary, "-q", "--format", "csv"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1)

    def ask(self, statement):
        """The lines that a statement prints, its error among them."""
        self.process.stdin.write(f"{statement};\nSELECT 'ready' AS mark;\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.strip() == "ready":
                return lines[:-1]
            lines.append(line.strip())
        raise SystemExit(f"the shell ended after {statement}: {lines}")


def files_below(path):
    import os

    return {os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names}


def ids_in_libtiledb(path):
    import tiledb

    with tiledb.open(path) as array:
        return sorted(array.query(attrs=["id"], dims=[])[:]["id"].tolist())


def tend(path):
    """The four consolidations and vacuums of libtiledb."""
    import tiledb

    for mode in ("commits", "fragment_meta", "array_meta", "fragments"):
        config = tiledb.Config({"sm.consolidation.mode": mode, "sm.vacuum.mode": mode})
        tiledb.consolidate(path, config=config)
        tiledb.vacuum(path, config=config)


def one_array(options, rng, path, session, counts):
    import os
    import shutil

    import tiledb

    columns, cells = new_array(rng, path)
    table = f"DROP TABLE IF EXISTS t; CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{path}'"
    session.ask(table)
    for _ in range(options.deletes):
        before = files_below(path)
        left, statements, tended = cells, [], rng.random() < options.tended
        for _ in range(rng.choice([1, 1, 1, 2])):
            if rng.random() < 0.25:
                condition = own_condition(rng, columns, rng.choice([0, 1, 2, 3]))
                statements.append(f"libtiledb: {condition}")
                with tiledb.open(path, "d") as array:
                    array.query(cond=condition).submit()
                left = None
                counts["deletes of libtiledb"] += 1
                continue
            sql, meaning = random_where(rng, columns, rng.choice([0, 1, 2, 2, 3]))
            statements.append(f"DELETE FROM t WHERE {sql}")
            printed = session.ask(statements[-1])
            gone = None if left is None else [cell for cell in left if meaning(cell) is True]
            if printed[:1] != ["count"]:
                reason = "rows of an array with duplicates" if "the array allows duplicates" in printed[0] else None
                reason = "NaN or a range of floats" if "NaN" in printed[0] else reason
                counts[f"refused: {reason}"] += 1
                if not reason:
                    return f"{statements}: {printed}"
                continue
            counts["deletes of tiledb-sql"] += 1
            if gone is not None and int(printed[1]) != len(gone):
                return f"{statements}: {printed}, expected {len(gone)}"
            left = None if left is None else [cell for cell in left if meaning(cell) is not True]
        for when in ("", "tended by libtiledb") if tended else ("",):
            if when:
                tend(path)
                counts["tended by libtiledb"] += 1
            theirs, ours = ids_in_libtiledb(path), sorted(map(int, session.ask("SELECT id FROM t")[1:]))
            expected = theirs if left is None else sorted(cell["id"] for cell in left)
            if theirs != expected or ours != expected:
                return f"{statements} {when}: expected {expected}, libtiledb {theirs}, tiledb-sql {ours}"
        if tended:
            return None
        made = files_below(path) - before
        counts["stored conditions"] += sum(file.endswith(".del") for file in made)
        # A commit goes first.
        for file in sorted(made, key=lambda file: not file.endswith((".wrt", ".con", ".del"))):
            os.remove(file)
        for folder in {os.path.dirname(file) for file in made} - {os.path.join(path, "__commits")}:
            shutil.rmtree(folder, ignore_errors=True)
    return None


def main():
    import argparse
    import collections
    import os
    import random
    import sys
    import tempfile

    parser = argparse.ArgumentParser(description="Deletes of tiledb-sql read by libtiledb, and the other way round.")
    parser.add_argument("binary")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--arrays", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--deletes", type=int, default=20, help="of each array, each taken back afterwards")
    parser.add_argument("--tended", type=float, default=0.05, help="how often libtiledb consolidates and vacuums afterwards, which ends an array")
    options = parser.parse_args()
    counts, failed, session = collections.Counter(), 0, Session(options.binary)
    for number in range(options.first, options.first + options.arrays):
        with tempfile.TemporaryDirectory() as folder:
            wrong = one_array(options, random.Random(f"{options.seed}:{number}"), os.path.join(folder, "array"), session, counts)
        if wrong:
            failed += 1
            print(f"{options.seed}:{number}: {wrong[:1500]}", flush=True)
    for reason, count in sorted(counts.items()):
        print(f"{count:6} {reason}")
    print(f"{options.arrays} arrays, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
