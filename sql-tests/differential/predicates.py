"""Random WHERE conditions: a tree that is rendered to DataFusion SQL and evaluated in Python with SQL's three-valued logic.

Floats have one NaN, which is above everything, and -0.0 equals 0.0. Strings and
binaries compare by bytes. Literals are typed with `arrow_cast` wherever a bare literal would bring in a lossy coercion, so that the meaning is never in doubt.
"""

import datetime
import operator
import struct

import values
from fieldtypes import DAY_NS, int_range

OPS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def quote(name):
    return '"' + name.replace('"', '""') + '"'


# --- ordering keys ----------------------------------------------------------------------------------------------------------------------

def float_key(bits, width):
    """An integer that orders float bits as arrow's kernels do."""
    sign = 1 << (width - 1)
    if bits == sign:
        return 0
    return -(bits - sign) - 1 if bits & sign else bits


def widen(bits):
    """The bits of a float32 after conversion to float64 (signalling NaNs become quiet)."""
    if bits & 0x7F800000 == 0x7F800000 and bits & 0x7FFFFF:
        return (bits >> 31) << 63 | 0x7FF8000000000000 | (bits & 0x7FFFFF) << 29
    return struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", bits))[0]))[0]


def key_of(kind, value):
    if kind in ("f32", "f64"):
        return float_key(value, int(kind[1:]))
    return value.encode() if kind == "str" else value


def keys(kind, value, literals):
    """The keys of a column's value and of the literals it meets; a FLOAT among doubles is widened first, which makes signalling NaNs quiet."""
    if kind == "f32" and any(lit.kind == "f64" for lit in literals):
        return [key_of("f64", widen(value)), *[key_of("f64", widen(lit.value)) if lit.kind == "f32" else lit.key for lit in literals]]
    return [key_of(kind, value), *[lit.key for lit in literals]]


# --- literals ---------------------------------------------------------------------------------------------------------------------------

class Literal:
    """A constant of a kind; `sql` is how it is written."""

    def __init__(self, kind, value, sql):
        self.kind, self.value, self.key, self.sql = kind, value, key_of(kind, value), sql


def literal(rng, field, value):
    """Renders a canonical value of a field's kind."""
    kind = field.kind
    if kind == "int":
        return Literal(kind, value, str(value))
    if kind == "bool":
        return Literal(kind, value, "true" if value else "false")
    if kind in ("f32", "f64"):
        return float_literal(kind, value)
    if kind == "str":
        return Literal(kind, value, "'" + value.replace("'", "''") + "'")
    if kind in ("bin", "fixedbin"):
        return Literal(kind, value, f"X'{value.hex()}'" if kind == "bin" else f"arrow_cast(X'{value.hex()}', 'FixedSizeBinary({len(value)})')")
    if kind == "date":
        return Literal(kind, value, date_sql(rng, value))
    if kind == "time":
        return Literal(kind, value, time_sql(rng, value))
    return Literal(kind, value, timestamp_sql(rng, kind[3:], value))


def float_literal(kind, bits):
    code, uint, name = ("f", "I", "Float32") if kind == "f32" else ("d", "Q", "Float64")
    value = struct.unpack("<" + code, struct.pack("<" + uint, bits))[0]
    if value != value:  # only the canonical NaN can be written
        bits, text = (0x7FC00000 if kind == "f32" else 0x7FF8000000000000), "NaN"
    else:
        text = repr(value)
    return Literal(kind, bits, f"arrow_cast('{text}', '{name}')" if kind == "f32" else f"CAST('{text}' AS DOUBLE)")


def date_sql(rng, days):
    if -719162 <= days <= 2932896 and rng.random() < 0.6:
        return f"DATE '{datetime.date(1970, 1, 1) + datetime.timedelta(days=days)}'"
    return f"arrow_cast(arrow_cast({days}, 'Int32'), 'Date32')"


def time_sql(rng, ns):
    if 0 <= ns < DAY_NS and rng.random() < 0.6:
        seconds, rest = divmod(ns, 10**9)
        return f"TIME '{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:09}'"
    return f"arrow_cast({ns}, 'Time64(Nanosecond)')"


def timestamp_sql(rng, unit, value):
    if unit == "ns" and abs(value) < 9 * 10**18 and rng.random() < 0.5:
        seconds, rest = divmod(value, PER_SECOND[unit])
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
        return f"TIMESTAMP '{moment.isoformat(sep=' ')}.{rest:09}'"
    return f"arrow_cast({value}, 'Timestamp({UNITS[unit]}, None)')"


class LiteralSource:
    """Literals for one column: data values, neighbours, domain edges, limits, and values outside the type."""

    def __init__(self, rng, field, column):
        self.rng, self.field = rng, field
        self.seen = [v for v in (rng.sample(column, min(len(column), 40))) if v is not None]

    def value(self):
        rng, field = self.rng, self.field
        kind = field.kind
        base = rng.choice(self.seen) if self.seen and rng.random() < 0.85 else self.stranger()
        if kind in ("int", "date", "time") or kind.startswith("ts_"):
            return self.clamp(base + rng.choice([0, 0, 0, 0, 1, -1, 10, -1000]) if rng.random() < 0.9 else self.edge())
        if kind in ("f32", "f64") and rng.random() < 0.3:
            return base ^ 1
        if kind == "str" and rng.random() < 0.3:
            return rng.choice([base[: len(base) // 2], base + "a", base + "\0", base.upper()])
        if kind == "bin" and rng.random() < 0.3:
            return rng.choice([base[:-1], base + b"\0"])
        return base

    def stranger(self):
        rng, kind = self.rng, self.field.kind
        if kind in ("f32", "f64"):
            raw = values.random_float(rng, "FLOAT32" if kind == "f32" else "FLOAT64", False)
            return int.from_bytes(raw, "little")
        if kind == "str":
            return values.random_text(rng, 20).replace("\n", "")
        if kind in ("bin", "fixedbin"):
            return rng.randbytes(self.field.ncell if kind == "fixedbin" else rng.choice([0, 1, 3]))
        return bool(rng.randint(0, 1)) if kind == "bool" else rng.randint(-1000, 1000)

    def edge(self):
        field = self.field
        limits = [-(2**63), -(2**63) + 1, 2**63 - 1, 2**64 - 1, 0, -1]
        if field.enumeration is None and field.datatype[:3] in ("INT", "UIN"):
            low, high = int_range(field.datatype)
            limits += [low, high, low - 1, high + 1]
        if field.domain and field.kind == "int":
            limits += [field.domain[0], field.domain[1], field.domain[0] - 1, field.domain[1] + 1]
        return self.rng.choice(limits)

    def clamp(self, value):
        low, high = {"int": (-(2**63), 2**64 - 1), "date": (-(2**31), 2**31 - 1), "time": (0, DAY_NS - 1)}.get(self.field.kind, (-(2**63) + 1, 2**63 - 1))
        return max(low, min(high, value))

    def __call__(self):
        if self.field.kind == "int" and self.field.enumeration is None and self.field.dtype.itemsize <= 4 and self.rng.random() < 0.05:
            fraction = self.rng.randint(-400, 400) / 4
            return Literal("int", fraction, f"CAST('{fraction}' AS DOUBLE)")
        if self.field.kind == "f32" and self.rng.random() < 0.25:
            return float_literal("f64", widen(self.value()))
        return literal(self.rng, self.field, self.value())


# --- conditions: each node has sql() and test(row) -> True | False | None -----------------------------------------------------------------

class Compare:
    def __init__(self, index, field, op, lit):
        self.index, self.field, self.op, self.lit = index, field, op, lit

    def sql(self):
        return f"{quote(self.field.column)} {self.op} {self.lit.sql}"

    def test(self, row):
        value = row[self.index]
        if value is None:
            return None
        column, lit = keys(self.field.kind, value, [self.lit])
        return OPS[self.op](column, lit)


class Flipped(Compare):
    """Literal on the left."""

    def sql(self):
        return f"{self.lit.sql} {self.op} {quote(self.field.column)}"

    def test(self, row):
        value = row[self.index]
        if value is None:
            return None
        column, lit = keys(self.field.kind, value, [self.lit])
        return OPS[self.op](lit, column)


class Between:
    def __init__(self, index, field, low, high, negated):
        self.index, self.field, self.low, self.high, self.negated = index, field, low, high, negated

    def sql(self):
        return f"{quote(self.field.column)} {'NOT ' if self.negated else ''}BETWEEN {self.low.sql} AND {self.high.sql}"

    def test(self, row):
        value = row[self.index]
        if value is None:
            return None
        column, low, high = keys(self.field.kind, value, [self.low, self.high])
        return (low <= column <= high) != self.negated


class In:
    def __init__(self, index, field, literals, negated, with_null):
        self.index, self.field, self.literals, self.negated, self.with_null = index, field, literals, negated, with_null

    def sql(self):
        members = [lit.sql for lit in self.literals] + (["NULL"] if self.with_null else [])
        return f"{quote(self.field.column)} {'NOT ' if self.negated else ''}IN ({', '.join(members)})"

    def test(self, row):
        value = row[self.index]
        if value is None:
            return None
        column, *members = keys(self.field.kind, value, self.literals)
        found = True if column in members else None if self.with_null else False
        return found if found is None else found != self.negated


class IsNull:
    def __init__(self, index, field, negated):
        self.index, self.field, self.negated = index, field, negated

    def sql(self):
        return f"{quote(self.field.column)} IS {'NOT ' if self.negated else ''}NULL"

    def test(self, row):
        return (row[self.index] is None) != self.negated


class Prefix:
    def __init__(self, index, field, prefix, form):
        self.index, self.field, self.prefix, self.form = index, field, prefix, form

    def sql(self):
        name, text = quote(self.field.column), self.prefix.replace("'", "''")
        return {"like": f"{name} LIKE '{text}%'", "not like": f"{name} NOT LIKE '{text}%'", "function": f"starts_with({name}, '{text}')"}[self.form]

    def test(self, row):
        value = row[self.index]
        return None if value is None else value.startswith(self.prefix) != (self.form == "not like")


class Truth:
    """A boolean column by itself."""

    def __init__(self, index, field, form):
        self.index, self.field, self.form = index, field, form

    def sql(self):
        return quote(self.field.column) + {"plain": "", "true": " IS TRUE", "not true": " IS NOT TRUE", "false": " IS FALSE"}[self.form]

    def test(self, row):
        value = row[self.index]
        return {"plain": value, "true": value is True, "not true": value is not True, "false": value is False}[self.form]


class Columns:
    """One column against another of the same type."""

    def __init__(self, left, right, op):
        self.left, self.right, self.op = left, right, op

    def sql(self):
        return f"{quote(self.left[1].column)} {self.op} {quote(self.right[1].column)}"

    def test(self, row):
        a, b = row[self.left[0]], row[self.right[0]]
        kind = self.left[1].kind
        return None if a is None or b is None else OPS[self.op](key_of(kind, a), key_of(kind, b))


class Not:
    def __init__(self, inner):
        self.inner = inner

    def sql(self):
        return f"NOT ({self.inner.sql()})"

    def test(self, row):
        answer = self.inner.test(row)
        return None if answer is None else not answer


class Junction:
    def __init__(self, word, parts):
        self.word, self.parts = word, parts

    def sql(self):
        return f" {self.word} ".join(f"({p.sql()})" for p in self.parts)

    def test(self, row):
        decisive, unknown = self.word == "OR", False
        for part in self.parts:
            answer = part.test(row)
            if answer is decisive:
                return decisive
            unknown |= answer is None
        return None if unknown else not decisive


def opaque(node):
    """The SQL of a condition that DataFusion cannot simplify across leaves."""
    if isinstance(node, Not):
        return f"NOT ({opaque(node.inner)})"
    if isinstance(node, Junction):
        return f" {node.word} ".join(f"({opaque(p)})" for p in node.parts)
    return f"CASE WHEN random() >= 0 THEN {node.sql()} END"


# --- random trees -----------------------------------------------------------------------------------------------------------------------

def random_predicate(rng, fields, columns, depth=None):
    depth = rng.choice([0, 0, 1, 1, 2, 3]) if depth is None else depth
    if depth == 0:
        return random_leaf(rng, fields, columns)
    if rng.random() < 0.2:
        return Not(random_predicate(rng, fields, columns, depth - 1))
    parts = [random_predicate(rng, fields, columns, rng.randint(0, depth - 1)) for _ in range(rng.choice([2, 2, 3]))]
    return Junction(rng.choice(["AND", "AND", "OR"]), parts)


def random_leaf(rng, fields, columns):
    index = rng.randrange(len(fields))
    if rng.random() < 0.5:  # dimensions matter most
        index = rng.choice([i for i, f in enumerate(fields) if f.is_dim])
    field = fields[index]
    kind = field.kind
    if kind == "list" or rng.random() < 0.08:
        return IsNull(index, field, rng.random() < 0.5)
    if kind == "bool" and rng.random() < 0.5:
        return Truth(index, field, rng.choice(["plain", "true", "not true", "false"]))
    if kind == "str" and rng.random() < 0.25:
        source = LiteralSource(rng, field, columns[index])
        prefix = "".join(c for c in source.value()[: rng.choice([0, 1, 2, 5, 30])] if c not in "%_\\\0")
        return Prefix(index, field, prefix, rng.choice(["like", "like", "not like", "function"]))
    twins = [(i, f) for i, f in enumerate(fields) if i != index and f.kind == kind and f.datatype == field.datatype and not f.enumeration and not field.enumeration]
    if twins and kind != "fixedbin" and rng.random() < 0.05:
        return Columns((index, field), rng.choice(twins), rng.choice(list(OPS)))
    return literal_leaf(rng, index, field, LiteralSource(rng, field, columns[index]))


def literal_leaf(rng, index, field, source):
    shape = rng.random()
    if shape < 0.6:
        return rng.choice([Compare, Compare, Compare, Flipped])(index, field, rng.choice(list(OPS)), source())
    if shape < 0.8 and field.kind != "bool":
        low, high = source(), source()
        if low.kind == high.kind and high.key < low.key and rng.random() < 0.8:
            low, high = high, low
        return Between(index, field, low, high, rng.random() < 0.2)
    literals = [source() for _ in range(rng.choice([1, 2, 3, 8, 40]))]
    if field.kind in ("f32", "f64"):  # a long list is a set of bits to DataFusion, where the zeros differ; a short one is a chain of equalities
        literals = [lit for lit in literals if lit.key != 0]
    literals = [lit for lit in literals if lit.kind == literals[0].kind and not isinstance(lit.key, float)]
    if not literals:
        return IsNull(index, field, True)
    return In(index, field, literals, rng.random() < 0.3, rng.random() < 0.05)


__all__ = ["random_predicate", "opaque", "quote", "key_of"]
