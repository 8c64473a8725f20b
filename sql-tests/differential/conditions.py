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
