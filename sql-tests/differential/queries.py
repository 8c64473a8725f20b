"""Random questions about one table: what is asked in SQL (`{T}` stands for the table), and whether an answer is right.

Each question checks one promise: rows (as a multiset, exact bits), counts, LIMIT, ORDER BY on the dimensions, aggregates, groups.
"""

from collections import Counter

import compare
from predicates import key_of, opaque, quote, random_predicate

MIN_MAX = ("int", "date", "time", "str")


class Question:
    """`select` is the SQL text; `check(table)` returns None or what is wrong; `kind` names the class of question; `where` is its condition, if any."""

    def __init__(self, kind, select, check, where=""):
        self.kind, self.select, self.check, self.where = kind, select, check, where

    def literal(self):
        """The question as it stands: its condition taken leaf by leaf, with nothing to simplify. None without a condition."""
        return self.select.replace(self.where, self.where.literal, 1) if self.where else None


class Where(str):
    """A WHERE clause, and the same in a form that no optimizer sees through."""

    literal = ""


def whole_table(fields, columns):
    """All rows, and the promised column types. An Arrow file holds one dictionary per column, so with enumerations the types are asked of one row, the rows by value."""
    expected = list(zip(*columns))

    def types(table):
        return compare.type_difference(fields, table.schema)

    def all_rows(table):
        return compare.row_difference(expected, compare.rows_of(table))

    if not any(f.enumeration for f in fields):
        return [Question("whole table", "SELECT * FROM {T}", lambda t: types(t) or all_rows(t))]
    return [Question("whole table", "SELECT * FROM {T} LIMIT 1", types), Question("whole table", f"SELECT {outputs(fields, range(len(fields)))} FROM {{T}}", all_rows)]


def refusal(reason):
    """There is no right answer, only an error."""
    return Question("must refuse", "SELECT * FROM {T}", lambda t: f"an answer where there can be none ({reason})")


def disputed(fields, columns, rival):
    """libtiledb and the model disagree: the check says whose side the answer takes."""
    sides = {"libtiledb": list(zip(*columns)), "the model": rival and list(zip(*rival))}

    def check(table):
        got = compare.rows_of(table)
        return next((name for name, rows in sides.items() if rows is not None and compare.row_difference(rows, got) is None), "neither")

    return Question("disputed", f"SELECT {outputs(fields, range(len(fields)))} FROM {{T}}", check)


def metadata(view):
    """The array's metadata; an empty value has no bytes."""
    options = {"tiledb.timestamp_start": view.start or None, "tiledb.timestamp_end": view.end} | view.more
    arguments = ", ".join(f"'{text}'" for text in [view.uri, *[str(x) for pair in options.items() if pair[1] is not None for x in pair]])
    return Question("metadata", f"SELECT key, type, count, bytes FROM tiledb_metadata({arguments})", lambda t: compare.row_difference(view.metadata, compare.rows_of(t)))


def random_questions(rng, fields, columns, count):
    rows = list(zip(*columns))
    makers = [selection, selection, selection, selection, counting, limited, aggregates, sorted_by_dimensions, groups, counting_all, counting_limited, distinct]
    return [rng.choice(makers)(rng, fields, columns, rows) for _ in range(count)]


def condition(rng, fields, columns, rows, chance=1.0):
    """(" WHERE …" or "", the rows that pass)."""
    if rng.random() >= chance:
        return "", rows
    predicate = random_predicate(rng, fields, columns)
    where = Where(" WHERE " + predicate.sql())
    where.literal = " WHERE " + opaque(predicate)
    return where, [r for r in rows if predicate.test(r) is True]


def projection(rng, fields, among=None):
    pool = list(range(len(fields))) if among is None else among
    return rng.sample(pool, rng.randint(1, len(pool)))


def names(fields, picks):
    return ", ".join(quote(fields[i].column) for i in picks)


def outputs(fields, picks):
    """The select list: enumerated columns by value."""
    return ", ".join(f"CAST({quote(fields[i].column)} AS {value_type(fields[i])}) AS {quote(fields[i].column)}" if fields[i].enumeration else quote(fields[i].column) for i in picks)


def value_type(field):
    return {"str": "VARCHAR", "f64": "DOUBLE"}.get(field.kind, "BIGINT")


def pick(rows, picks):
    return [tuple(r[i] for i in picks) for r in rows]


def selection(rng, fields, columns, rows):
    where, kept = condition(rng, fields, columns, rows, 0.95)
    picks = list(range(len(fields))) if rng.random() < 0.3 else projection(rng, fields)
    expected = pick(kept, picks)
    return Question("select where", f"SELECT {outputs(fields, picks)} FROM {{T}}{where}", lambda t: compare.row_difference(expected, compare.rows_of(t)), where)


def counting(rng, fields, columns, rows):
    where, kept = condition(rng, fields, columns, rows)
    return Question("count where", f"SELECT count(*) AS n FROM {{T}}{where}", lambda t: compare.row_difference([(len(kept),)], compare.rows_of(t)), where)


def counting_all(rng, fields, columns, rows):
    return Question("count all", "SELECT count(*) AS n FROM {T}", lambda t: compare.row_difference([(len(rows),)], compare.rows_of(t)))


def counting_limited(rng, fields, columns, rows):
    """Counts what LIMIT lets through: statistics must not answer for more than that."""
    where, kept = condition(rng, fields, columns, rows, 0.3)
    limit, skip = rng.choice([0, 1, 3, 10, 1000]), rng.choice([0, 0, 2])
    some = f"SELECT * FROM {{T}}{where} LIMIT {limit}" + (f" OFFSET {skip}" if skip else "")
    expected = max(0, min(limit, len(kept) - skip))
    return Question("count limit", f"SELECT count(*) AS n FROM ({some})", lambda t: compare.row_difference([(expected,)], compare.rows_of(t)), where)


def distinct(rng, fields, columns, rows):
    usable = [i for i, f in enumerate(fields) if f.kind in MIN_MAX + ("bool", "bin") or f.kind.startswith("ts_")]
    if not usable:
        return counting(rng, fields, columns, rows)
    where, kept = condition(rng, fields, columns, rows, 0.5)
    picks = rng.sample(usable, rng.randint(1, len(usable)))
    expected = list(set(pick(kept, picks)))
    return Question("distinct", f"SELECT DISTINCT {outputs(fields, picks)} FROM {{T}}{where}", lambda t: compare.row_difference(expected, compare.rows_of(t)), where)


def limited(rng, fields, columns, rows):
    where, kept = condition(rng, fields, columns, rows, 0.6)
    limit, skip = rng.choice([0, 1, 3, 10, 1000]), rng.choice([0, 0, 2])
    picks = projection(rng, fields)
    expected = pick(kept, picks)

    def check(table):
        got = compare.rows_of(table)
        wanted = max(0, min(limit, len(expected) - skip))
        strangers = Counter(got) - Counter(expected)
        if len(got) != wanted or strangers:
            return f"expected {wanted} of {len(expected)} rows, got {len(got)}; not in the table: {list(strangers)[:5]!r}"
        return None

    return Question("limit", f"SELECT {outputs(fields, picks)} FROM {{T}}{where} LIMIT {limit}" + (f" OFFSET {skip}" if skip else ""), check, where)


def aggregates(rng, fields, columns, rows):
    where, kept = condition(rng, fields, columns, rows, 0.5)
    parts, expected = ["count(*) AS n"], [len(kept)]
    for index in projection(rng, fields)[:3]:
        field, column = fields[index], [r[index] for r in kept if r[index] is not None]
        name = quote(field.column)
        parts.append(f"count({name}) AS c{index}")
        expected.append(len(column))
        if field.kind in MIN_MAX or field.kind.startswith("ts_"):
            cast = f"CAST({name} AS {value_type(field)})" if field.enumeration else name
            parts += [f"min({cast}) AS lo{index}", f"max({cast}) AS hi{index}"]
            order = lambda v, k=field.kind: key_of(k, v)
            expected += [min(column, key=order, default=None), max(column, key=order, default=None)]
    return Question("aggregate", f"SELECT {', '.join(parts)} FROM {{T}}{where}", lambda t: compare.row_difference([tuple(expected)], compare.rows_of(t)), where)


def sorted_by_dimensions(rng, fields, columns, rows):
    """ORDER BY on dimensions: the scan may declare an order, so the sequence of keys is checked, and the rows as a multiset."""
    where, kept = condition(rng, fields, columns, rows, 0.5)
    dims = [i for i, f in enumerate(fields) if f.is_dim]
    picks = projection(rng, fields, dims)
    descending = rng.random() < 0.3
    limit = rng.choice([None, None, 1, 5, 100])
    expected = pick(kept, picks)
    order = lambda r: tuple(key_of(fields[i].kind, v) for i, v in zip(picks, r))
    expected.sort(key=order, reverse=descending)
    expected = expected[:limit]

    def check(table):
        got = compare.rows_of(table)
        return compare.row_difference(expected, got) or (None if got == expected else f"rows out of order: {got[:10]!r} instead of {expected[:10]!r}")

    by = ", ".join(quote(fields[i].column) + (" DESC" if descending else "") for i in picks)
    return Question("order by", f"SELECT {outputs(fields, picks)} FROM {{T}}{where} ORDER BY {by}" + ("" if limit is None else f" LIMIT {limit}"), check, where)


def groups(rng, fields, columns, rows):
    usable = [i for i, f in enumerate(fields) if f.kind in MIN_MAX + ("bool",) or f.kind.startswith("ts_")]
    if not usable:
        return counting(rng, fields, columns, rows)
    where, kept = condition(rng, fields, columns, rows, 0.5)
    picks = rng.sample(usable, min(len(usable), rng.choice([1, 1, 2])))
    expected = [(*k, n) for k, n in Counter(pick(kept, picks)).items()]
    return Question("group by", f"SELECT {outputs(fields, picks)}, count(*) AS n FROM {{T}}{where} GROUP BY {names(fields, picks)}",
                    lambda t: compare.row_difference(expected, compare.rows_of(t)), where)
