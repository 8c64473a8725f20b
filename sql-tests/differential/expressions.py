"""Random SQL beyond what `predicates.py` gives a meaning in Python: casts, arithmetic, patterns, functions, subqueries, joins, TopK.

There is no expectation: DataFusion is asked the same question over the oracle's rows in memory, and both answers must agree. What is at stake is the translation of
conditions into ranges of coordinates, pruning, and filters that tighten while a query runs.
"""

from predicates import OPS, LiteralSource, quote, random_predicate

INT_TYPES = ["TINYINT", "SMALLINT", "INT", "BIGINT", "TINYINT UNSIGNED", "SMALLINT UNSIGNED", "INT UNSIGNED", "BIGINT UNSIGNED"]
ORDERED = ("int", "date", "time", "str", "bool")


def random_expression(rng, fields, columns):
    """A condition as text."""
    shape = rng.random()
    if shape < 0.25:
        return random_predicate(rng, fields, columns, 1).sql()
    if shape < 0.4:
        parts = [random_expression(rng, fields, columns) for _ in range(2)]
        return f" {rng.choice(['AND', 'OR'])} ".join(f"({p})" for p in parts)
    if shape < 0.45:
        return f"NOT ({random_expression(rng, fields, columns)})"
    if shape < 0.5:
        return f"CASE WHEN {random_predicate(rng, fields, columns, 0).sql()} THEN {random_predicate(rng, fields, columns, 0).sql()} ELSE {rng.choice(['true', 'false', 'NULL'])} END"
    if shape < 0.54:
        return f"({random_predicate(rng, fields, columns, 0).sql()}) IS {rng.choice(['', 'NOT '])}{rng.choice(['TRUE', 'FALSE', 'UNKNOWN'])}"
    return leaf(rng, fields, columns)


def leaf(rng, fields, columns):
    usable = [i for i, f in enumerate(fields) if f.kind != "list" and not (f.kind == "fixedbin")]
    dims = [i for i in usable if fields[i].is_dim]
    index = rng.choice(dims if dims and rng.random() < 0.75 else usable or [0])
    field, name = fields[index], quote(fields[index].column)
    if field.kind in ("list", "fixedbin"):
        return f"{name} IS NOT NULL"
    source, op = LiteralSource(rng, field, columns[index]), rng.choice(list(OPS))
    if rng.random() < 0.15:
        return rng.choice([
            f"{name} IS DISTINCT FROM {source().sql}", f"{name} IS NOT DISTINCT FROM {source().sql}", f"{name} IS NOT DISTINCT FROM NULL", f"{name} {op} NULL",
            f"coalesce({name}, {source().sql}) {op} {source().sql}", f"nullif({name}, {source().sql}) {op} {source().sql}", f"{name} {op} {name}"])
    if field.enumeration:
        return f"CAST({name} AS VARCHAR) {op} '{rng.choice(['red', 'green-', 'x', '1', ''])}'"
    maker = {"int": integer, "str": text, "date": date, "time": time, "f32": floating, "f64": floating}.get(field.kind, timestamp if field.kind.startswith("ts_") else plain)
    return maker(rng, field, name, op, source)


def plain(rng, field, name, op, source):
    return f"{name} {op} {source().sql}"


def integer(rng, field, name, op, source):
    value = lambda: source.value()
    small = rng.randint(1, 9)
    return rng.choice([
        lambda: f"TRY_CAST({name} AS {rng.choice(INT_TYPES)}) {op} {value()}",
        lambda: f"TRY_CAST({name} AS {rng.choice(INT_TYPES)}) IN ({value()}, {value()}, {value()})",
        lambda: f"TRY_CAST({name} AS {rng.choice(INT_TYPES)}) IS {rng.choice(['', 'NOT '])}NULL",
        lambda: f"CAST({name} AS DOUBLE) {op} {value()}",
        lambda: f"CAST({name} AS REAL) {op} {rng.choice([f'{value()}', f'{value()}.5', '1e30', '-1e30'])}",
        lambda: f"CAST({name} AS VARCHAR) {rng.choice([op, 'LIKE'])} '{value()}'",
        lambda: f"CAST({name} AS DECIMAL(25, 2)) {op} {value()}.25",
        lambda: f"{name} {op} {value()}.{rng.choice(['0', '5', '25'])}",
        lambda: f"{name} {op} '{value()}'",
        lambda: f"{name} BETWEEN {value()} AND {value()}.5",
        lambda: f"{name} % {small} = {rng.randint(0, small)}",
        lambda: f"CAST({name} AS DOUBLE) / {small} {op} {rng.randint(-100, 100)}",
        lambda: f"{name} {op} {source().sql} + {small}",
    ])()


def text(rng, field, name, op, source):
    def pattern():
        out = source.value()[: rng.choice([0, 1, 2, 5, 30])].replace("\0", "").replace("'", "''").replace("\n", "")
        for _ in range(rng.choice([0, 1, 1, 2])):
            at = rng.randint(0, len(out))
            out = out[:at] + rng.choice(["%", "_", "%", "\\%", "\\_", "\\\\"]) + out[at:] if "'" not in out else out + "%"
        return out

    value = lambda: source().sql
    return rng.choice([
        lambda: f"{name} {rng.choice(['LIKE', 'LIKE', 'NOT LIKE', 'ILIKE'])} '{pattern()}'",
        lambda: f"left({name}, {rng.randint(0, 3)}) {op} {value()}",
        lambda: f"substr({name}, 1, 2) {op} {value()}",
        lambda: f"{rng.choice(['upper', 'lower', 'trim'])}({name}) {op} {value()}",
        lambda: f"{rng.choice(['octet_length', 'character_length'])}({name}) {op} {rng.randint(0, 9)}",
        lambda: f"{name} || 'a' {op} {value()}",
        lambda: f"{rng.choice(['starts_with', 'ends_with', 'contains'])}({name}, {value()})",
        lambda: f"TRY_CAST({name} AS {rng.choice(INT_TYPES)}) {op} {rng.randint(-9, 99)}",
        lambda: f"arrow_cast({name}, '{rng.choice(['Utf8', 'LargeUtf8', 'Utf8View', 'Binary', 'Dictionary(Int32, Utf8)'])}') {op} {value()}",
        lambda: f"{name} BETWEEN {value()} AND {value()}",
    ])()


def date(rng, field, name, op, source):
    value = lambda: source().sql
    day = lambda: f"{rng.choice([1969, 1970, 1971, 2024])}-0{rng.randint(1, 9)}-{rng.randint(10, 28)}"
    return rng.choice([
        lambda: f"{name} {op} TIMESTAMP '{day()} {rng.choice(['00:00:00', '12:30:00', '23:59:59.999999999'])}'",
        lambda: f"{name} {op} '{day()}'",
        lambda: f"TRY_CAST({name} AS TIMESTAMP) {op} TIMESTAMP '{day()}'",
        lambda: f"arrow_cast({name}, 'Int32') {op} {source.value()}",
        lambda: f"arrow_cast(arrow_cast({name}, 'Int32'), 'Int64') {op} {source.value()}",
        lambda: f"arrow_cast({name}, 'Date64') {op} arrow_cast({value()}, 'Date64')",
        lambda: f"{name} BETWEEN DATE '{day()}' AND TIMESTAMP '{day()} 10:00:00'",
    ])()


def timestamp(rng, field, name, op, source):
    value = lambda: source().sql
    unit = rng.choice(["Second", "Millisecond", "Microsecond", "Nanosecond"])
    day = lambda: f"{rng.choice([1969, 1970, 1971, 2024])}-0{rng.randint(1, 9)}-{rng.randint(10, 28)}"
    other = rng.randint(-(10**9), 10**9) * 10 ** rng.choice([0, 3, 6, 9])
    return rng.choice([
        lambda: f"{name} {op} DATE '{day()}'",
        lambda: f"{name} {op} '{day()} 10:20:30'",
        lambda: f"{name} {op} arrow_cast({other}, 'Timestamp({unit}, None)')",
        lambda: f"TRY_CAST({name} AS DATE) {op} DATE '{day()}'",
        lambda: f"arrow_cast({name}, 'Int64') {op} {source.value()}",
        lambda: f"TRY_CAST({name} AS TIMESTAMP) {op} TIMESTAMP '{day()} 01:02:03'",
        lambda: f"TRY_CAST({name} AS TIMESTAMP) = {value()}",
    ])()


def time(rng, field, name, op, source):
    return rng.choice([
        lambda: f"{name} {op} '{rng.randint(10, 23)}:{rng.randint(10, 59)}:00'",
        lambda: f"arrow_cast({name}, 'Int64') {op} {source.value()}",
        lambda: f"arrow_cast({name}, 'Time64(Microsecond)') {op} arrow_cast({source.value() // 1000}, 'Time64(Microsecond)')",
        lambda: f"arrow_cast({name}, 'Time32(Second)') {op} arrow_cast({source.value() // 10**9}, 'Time32(Second)')",
    ])()


def floating(rng, field, name, op, source):
    value = lambda: source().sql
    return rng.choice([
        lambda: f"{name} {op} {rng.choice(['0', '-0.0', '1', '0.1', '1e300', '-5.5', '123456789012345678'])}",
        lambda: f"CAST({name} AS DOUBLE) {op} {value()}",
        lambda: f"CAST({name} AS REAL) {op} {value()}",
        lambda: f"TRY_CAST({name} AS {rng.choice(INT_TYPES)}) {op} {rng.randint(-9, 9)}",
        lambda: f"TRY_CAST({name} AS DECIMAL(20, 3)) {op} {rng.randint(-9, 9)}.125",
        lambda: f"isnan({name})",
        lambda: f"{name} IN (0.0, -0.0, 1, {value()})",
        lambda: f"abs({name}) {op} {rng.randint(0, 20)}",
        lambda: f"-{name} {op} {value()}",
        lambda: f"{name} BETWEEN {value()} AND {rng.randint(0, 100)}",
    ])()


# --- whole statements -------------------------------------------------------------------------------------------------------------------

def random_statement(rng, fields, columns):
    """(kind, SQL with {T} for the table); the answer is a multiset of rows that does not depend on the order of evaluation."""
    names = lambda picks: ", ".join(quote(fields[i].column) for i in picks)
    plain_fields = [i for i, f in enumerate(fields) if not f.enumeration]
    ordered = [i for i in plain_fields if fields[i].kind in ORDERED or fields[i].kind.startswith("ts_")]
    where = lambda: f" WHERE {random_expression(rng, fields, columns)}"
    shape = rng.random()
    if shape < 0.6 or not ordered:
        picks = rng.sample(plain_fields, rng.randint(1, len(plain_fields))) if plain_fields else []
        return "expression", f"SELECT {names(picks) or 'count(*) AS n'} FROM {{T}}{where()}"
    key = rng.choice(ordered)
    name = quote(fields[key].column)
    if shape < 0.75:
        first = rng.sample(ordered, min(len(ordered), rng.choice([1, 1, 2])))
        by = ", ".join(quote(fields[i].column) + rng.choice([" ASC", " DESC", " DESC NULLS LAST", " ASC NULLS FIRST"]) for i in first)
        maybe = where() if rng.random() < 0.4 else ""
        return "top", f"SELECT {names(first)} FROM {{T}}{maybe} ORDER BY {by} LIMIT {rng.choice([1, 3, 20])}"
    if shape < 0.82:
        return "subquery", f"SELECT count(*) AS n FROM {{T}} WHERE {name} {rng.choice(['IN', 'NOT IN'])} (SELECT {name} FROM {{T}}{where()})"
    if shape < 0.88:
        return "subquery", f"SELECT count(*) AS n FROM {{T}} WHERE {name} {rng.choice(['=', '<', '>=', '<>'])} (SELECT {rng.choice(['min', 'max'])}({name}) FROM {{T}}{where()})"
    keys = names(rng.sample(ordered, min(len(ordered), rng.choice([1, 2]))))
    some, others = (f"(SELECT DISTINCT {keys} FROM {{T}}{where()})" for _ in range(2))
    kind = rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN"])
    return "join", f"SELECT * FROM {some} AS a {kind} {others} AS b USING ({keys})"


__all__ = ["random_statement", "random_expression"]
