"""Datasets of pyarrow, as DuckDB, Polars and Ibis use them."""

import datetime as dt
import math
import os
import pickle
import random
import re
from decimal import Decimal
from pathlib import Path
from typing import Any, Callable

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

import tiledb_sql as ts
from tiledb_sql._dataset import QueryDataset

FIELD = pc.field
NAN = float("nan")
INF = float("inf")
ROWS = 200

# Values of each kind of column. Limits and whatever compares in a special way come first.
FLOATS = [NAN, -NAN, 0.0, -0.0, INF, -INF, 1.5, -1.5, 1e-310, 0.1, 2.0**53, 16777217.0]
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [-128, 127, 0, -1, 5]),
    "i16": (pa.int16(), [-(2**15), 2**15 - 1, 0, 300]),
    "i32": (pa.int32(), [-(2**31), 2**31 - 1, 0, 70000, 16777217]),
    "i64": (pa.int64(), [-(2**63), 2**63 - 1, 0, 2**53 + 1, 7]),
    "u8": (pa.uint8(), [0, 255, 7]),
    "u16": (pa.uint16(), [0, 2**16 - 1, 300]),
    "u32": (pa.uint32(), [0, 2**32 - 1, 70000]),
    "u64": (pa.uint64(), [0, 2**64 - 1, 2**63, 7]),
    "f32": (pa.float32(), [*FLOATS[:8], 0.1, 16777216.0]),
    "f64": (pa.float64(), FLOATS),
    "s": (pa.string(), ["", "a", "ab", "abc", "b", "é", "A", "a%", "zz"]),
    "bin": (pa.binary(), [b"", b"a", b"\x00", b"\xff\xfe"]),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "ts_s": (pa.timestamp("s"), [0, -1, 1_700_000_000, 5]),
    "ts_ms": (pa.timestamp("ms"), [0, -1, 1_700_000_000_001, 1500]),
    "ts_us": (pa.timestamp("us"), [0, -1, 1_700_000_000_000_001, 1_000_000]),
    "ts_ns": (pa.timestamp("ns"), [0, -1, 1_700_000_000_000_000_001, 1000, 2**63 - 1]),
    "color": (pa.string(), ["red", "green", "", "blue"]),
}
# Columns that arrays don't have, or have as other types.
MORE: dict[str, tuple[pa.DataType, list[Any]]] = {
    "view": (pa.string_view(), ["", "a", "ab", "a string that is longer than twelve bytes"]),
    "large": (pa.large_string(), ["", "a", "zz"]),
    "dict": (pa.dictionary(pa.int8(), pa.string()), ["x", "", "y"]),
    "money": (pa.decimal128(10, 2), [Decimal("0.00"), Decimal("-1.50"), Decimal("99999999.99")]),
    "clock": (pa.time64("ns"), [0, 1000, 86_399_999_999_999]),
    "wait": (pa.duration("ms"), [0, -1, 86_400_000]),
    "zoned": (pa.timestamp("us", "Europe/Berlin"), [0, 1_700_000_000_000_000]),
    "list": (pa.list_(pa.int32()), [[], [1], [1, 2]]),
}


def rows_of(kinds: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    rng = random.Random(5)
    columns: dict[str, pa.Array] = {"id": pa.array(range(ROWS), pa.int64())}
    for name, (kind, values) in kinds.items():
        # Each value and NULL occur at once, and the rest is drawn.
        drawn = [*values, None] + [rng.choice([*values, None]) for _ in range(ROWS - len(values) - 1)]
        columns[name] = pa.array(drawn, pa.string()).cast(kind) if pa.types.is_dictionary(kind) else pa.array(drawn, kind)
    return pa.table(columns, schema=pa.schema([pa.field(n, c.type, n != "id") for n, c in columns.items()]))


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> ts.Array:
    """A sparse array with each type, in tiles of 10 rows."""
    uri = tmp_path_factory.mktemp("arrays") / "types"
    con = ts.connect(memory_limit="1g")
    con.register("rows", rows_of(VALUES))
    con.sql(
        f"COPY (SELECT * FROM rows) TO '{uri}' STORED AS TILEDB PARTITIONED BY (id) "
        """OPTIONS ('tiledb.capacity' '10', 'tiledb.attr.color.enumeration' '["red", "green", "", "blue"]', 'tiledb.attr.s.enumeration' 'none')"""
    )
    array = con.open(uri)
    assert isinstance(array, ts.Array)
    return array


@pytest.fixture(scope="module")
def query() -> ts.Query:
    """A query with types that arrays don't have."""
    con = ts.connect(memory_limit="1g")
    con.register("rows", rows_of(VALUES | MORE))
    return con.sql("SELECT * FROM rows")


def literals(rng: random.Random, schema: pa.Schema, name: str, kinds: dict[str, tuple[pa.DataType, list[Any]]]) -> Any:
    """A literal for a column: one of its values, a neighbour, or one of another type."""
    kind, values = kinds[name]
    value = rng.choice(values)
    if pa.types.is_integer(kind):
        other = rng.choice([value, value + rng.choice([-1, 1]), 3, 2.5, float(value), -(2**63), 1e300])
        return other if isinstance(other, float) or -(2**63) <= other < 2**64 else value
    if pa.types.is_floating(kind):
        return rng.choice([value, pa.scalar(value, pa.float32()), 3, 0, 1, 16777217, 0.1])
    if pa.types.is_timestamp(kind) and kind.tz is None:
        unit = rng.choice(["s", "ms", "us", "ns"])
        return pa.scalar(rng.choice([0, -1, 1, 1500, 1_000_000, 1_700_000_000]), pa.timestamp(unit))
    if pa.types.is_dictionary(kind):
        return value
    return pa.scalar(value, kind)


def condition(rng: random.Random, schema: pa.Schema, kinds: dict[str, tuple[pa.DataType, list[Any]]], depth: int) -> pc.Expression:
    """A random condition."""
    if depth > 0 and rng.random() < 0.6:
        left = condition(rng, schema, kinds, depth - 1)
        if rng.random() < 0.25:
            return ~left
        right = condition(rng, schema, kinds, depth - 1)
        return rng.choice(
            [
                lambda: left & right,
                lambda: left | right,
                lambda: pc.if_else(left, right, pa.scalar(None, pa.bool_())),
                lambda: pc.if_else(FIELD(rng.choice(list(kinds))).is_valid(), left, right),
                lambda: pc.and_(left, right),
                lambda: pc.or_(left, right),
                lambda: pc.xor(left, right),
            ]
        )()
    name = rng.choice(list(kinds))
    kind, values = kinds[name]
    column = FIELD(name)
    value = literals(rng, schema, name, kinds)
    choices: list[Callable[[], pc.Expression]] = [
        lambda: column == value,
        lambda: column != value,
        lambda: column < value,
        lambda: column <= value,
        lambda: column > value,
        lambda: column >= value,
        lambda: pc.scalar(value) < column,
        column.is_valid,
        lambda: column.is_null(nan_is_null=rng.random() < 0.5),
    ]
    if not pa.types.is_dictionary(kind) and not pa.types.is_nested(kind):
        members = pa.array(rng.sample(values, rng.randrange(len(values) + 1)) + rng.choice([[], [None]]), kind)
        choices += [lambda: column.isin(members), lambda: pc.is_in(column, members, skip_nulls=True)]
        choices.append(lambda: pc.if_else(column.is_valid(), column.isin(members), pa.scalar(None, pa.bool_())))
    if pa.types.is_floating(kind):
        choices += [column.is_nan, lambda: column * 2.0 > 1.0]
    if pa.types.is_string(kind):
        choices += [lambda: pc.starts_with(column, rng.choice(["", "a", "a%", "A", "é"])), lambda: pc.utf8_length(column) > 1]
    if pa.types.is_boolean(kind):
        choices += [lambda: column, lambda: ~column]
    other = rng.choice([n for n, (k, _) in kinds.items() if k == kind])
    choices.append(lambda: column < FIELD(other))
    return rng.choice(choices)()


def ids(dataset: pads.Dataset, filter: pc.Expression) -> "list[int] | str":
    try:
        return sorted(dataset.to_table(columns=["id"], filter=filter)["id"].to_pylist())
    except (pa.ArrowException, TypeError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("source", ["array", "query"])
def test_random_conditions_mean_the_same_as_in_pyarrow(source: str, request: pytest.FixtureRequest) -> None:
    rows = request.getfixturevalue(source)
    ours = rows.dataset()
    kinds = VALUES if source == "array" else VALUES | MORE
    # What pyarrow itself does with the same rows in memory.
    plain = pads.dataset(ours.to_table())
    assert plain.to_table().num_rows == ROWS
    count = int(os.environ.get("CONDITIONS", "400"))
    rng = random.Random(int(os.environ.get("CONDITIONS_SEED", "1")))
    known = found = 0
    for _ in range(count):
        try:
            asked = condition(rng, ours.schema, kinds, rng.randrange(3))
            expected = ids(plain, asked)
        except (pa.ArrowException, TypeError, OverflowError):
            continue
        if isinstance(expected, str):
            # Overflows and unknown functions are errors of pyarrow. They may have a meaning here.
            continue
        assert ids(ours, asked) == expected, str(asked)
        assert ours.count_rows(filter=asked) == len(expected), str(asked)
        pickled = bytes(asked.__reduce__()[1][0])
        known += ours._engine.understood(pickled)[1]
        found += bool(expected)
    # Most conditions are those of the engine, and find something.
    assert known > count / 4, (known, found)
    assert found > count / 4, (known, found)


def test_schemas_have_no_views(query: ts.Query) -> None:
    schema = query.dataset().schema
    assert schema.field("view").type == pa.string()
    assert schema.field("dict").type == pa.dictionary(pa.int8(), pa.string())
    nested = query._engine and ts.sql(
        "SELECT [arrow_cast('x', 'Utf8View')] AS list, {a: arrow_cast('x', 'Utf8View')} AS struct"
    )
    assert nested.dataset().schema.field("struct").type.field("a").type == pa.string()
    assert nested.dataset().schema.field("list").type.value_type == pa.string()
    assert nested.dataset().to_table().to_pylist() == [{"list": ["x"], "struct": {"a": "x"}}]


def test_columns(array: ts.Array) -> None:
    dataset = array.dataset()
    assert isinstance(dataset, pads.Dataset)
    assert dataset.to_table(columns=["s", "id"]).column_names == ["s", "id"]
    assert dataset.to_table(columns=[]).num_rows == ROWS
    assert dataset.to_table(columns=[], filter=FIELD("id") < 5).num_rows == 5
    made = dataset.to_table(columns={"double": FIELD("id") * 2, "i8": FIELD("i8")}, filter=FIELD("id") == 7)
    assert made.column_names == ["double", "i8"]
    assert made["double"].to_pylist() == [14]
    assert dataset.count_rows() == ROWS
    assert dataset.head(3).num_rows == 3
    assert dataset.head(3, filter=pc.utf8_length(FIELD("s")) == 2, columns=["s"]).num_rows == 3
    assert sum(batch.num_rows for batch in dataset.to_batches(batch_size=7)) == ROWS
    assert max(batch.num_rows for batch in dataset.to_batches(batch_size=7)) == 7
    with pytest.raises(ValueError, match="nothing.*id"):
        dataset.to_table(columns=["nothing"])
    with pytest.raises(ValueError, match="nothing"):
        dataset.to_table(filter=FIELD("nothing") == 1)
    with pytest.raises(ValueError, match="expression"):
        dataset.to_table(filter="id = 1")


def test_methods_of_datasets(array: ts.Array) -> None:
    dataset = array.dataset()
    few = dataset.filter(FIELD("id") < 10).filter(FIELD("id") >= 5)
    assert few.count_rows() == 5
    assert few.count_rows(filter=FIELD("id") == 7) == 1
    assert few.sort_by([("id", "descending")]).to_table()["id"].to_pylist() == [9, 8, 7, 6, 5]
    right = pads.dataset(pa.table({"id": [5, 6], "name": ["five", "six"]}))
    assert few.join(right, "id", join_type="inner").to_table().num_rows == 2
    assert [fragment.count_rows() for fragment in few.get_fragments()] == [5]
    assert few.partition_expression.equals(pc.scalar(True))
    with pytest.raises(NotImplementedError, match="numbers"):
        dataset.take([1])
    with pytest.raises(NotImplementedError, match="SQL"):
        dataset.replace_schema(pa.schema([]))
    scanner = dataset.scanner(columns=["id"], filter=FIELD("id") > 190)
    assert scanner.projected_schema.names == ["id"]
    # A scanner can be read again, and is an Arrow stream, too.
    assert scanner.to_reader().read_all().num_rows == scanner.to_table().num_rows == 9
    assert pa.table(scanner).num_rows == 9
    assert "QueryDataset" in repr(dataset)


def test_no_method_of_the_base_is_left() -> None:
    # The base has no dataset of C++ behind it here. A method of it would end the process.
    public = [name for name in vars(pads.Dataset) if not name.startswith("_")]
    assert public
    assert [name for name in public if name not in vars(QueryDataset)] == []


def test_statements_that_have_run_and_columns_of_one_name(con: ts.Session, tmp_path: Path) -> None:
    copied = con.sql(f"COPY (SELECT 1 AS n) TO '{tmp_path / 'n.csv'}'")
    assert copied.dataset().to_table().to_pylist() == [{"count": 1}]
    with pytest.raises(ts.InvalidError, match="'n'"):
        con.sql("SELECT * FROM (SELECT 1 AS n) a CROSS JOIN (SELECT 2 AS n) b").dataset()


def scans(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The scanners that other libraries ask for from now on."""
    made: list[Any] = []
    ours = QueryDataset.scanner

    def scanner(self: QueryDataset, *arguments: Any, **options: Any) -> Any:
        made.append(ours(self, *arguments, **options))
        return made[-1]

    monkeypatch.setattr(QueryDataset, "scanner", scanner)
    return made


def tiles(plan: str) -> int:
    """How many of the 20 tiles a scan read."""
    counted = re.search(r" tiles=(\d+)/20,", plan)
    assert counted, plan
    return int(counted[1])


# Conditions that DuckDB pushes, and the tiles of 10 rows that have to be read.
PUSHED = [
    ("id = 55", 1),
    ("id >= 50 AND id < 60", 1),
    ("id IN (5, 195)", 2),
    ("id < 10 OR id >= 190", 2),
    ("id < 20 AND s = 'a'", 2),
]


@pytest.mark.parametrize(("where", "expected"), PUSHED)
def test_conditions_of_duckdb_arrive(array: ts.Array, where: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = array.dataset()
    made = scans(monkeypatch)
    found = duckdb.sql(f"SELECT id FROM ds WHERE {where} ORDER BY id").fetchall()
    assert found == sorted(array.scan(["id"], where=where).fetchall())
    (scan,) = made
    assert tiles(scan.explain(analyze=True)) == expected


@pytest.mark.parametrize(
    "where",
    ["f64 > 1", "f64 = 0", "f64 = 'nan'", "f32 < 1.5", "s LIKE 'a%'", "flag", "NOT flag", "color = 'red'", "color IN ('red', '')",
     "day > DATE '2000-01-01'", "ts_us >= TIMESTAMP '1970-01-01'", "ts_ns >= TIMESTAMP '1970-01-01'", "u64 > 9223372036854775808",
     "s IS NULL", "i8 IS NOT NULL AND i8 <> 5", "i64 IN (7, NULL)", "NOT (i64 IN (7, 8))", "f64 IN (1.5, 0)", "i8 > 0 OR s = ''"],
)
def test_duckdb_finds_what_it_finds_in_memory(array: ts.Array, where: str) -> None:
    ds = array.dataset()
    memory = pa.table(array.dataset().to_table())  # noqa: F841
    found = duckdb.sql(f"SELECT id FROM ds WHERE {where} ORDER BY id").fetchall()
    assert found == duckdb.sql(f"SELECT id FROM memory WHERE {where} ORDER BY id").fetchall()
    assert ds.schema.field("ts_ns").type == pa.timestamp("ns")


def test_times_in_microseconds(array: ts.Array, weather: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stations = ts.open(weather)
    ds = stations.dataset(time_unit="us")
    assert ds.schema.field("time").type == pa.timestamp("us")
    made = scans(monkeypatch)
    count = duckdb.sql("SELECT count(*) FROM ds WHERE time >= TIMESTAMP '2024-02-01'").fetchall()
    assert count == stations._session.sql(f"SELECT count(*) FROM '{weather}' WHERE time >= '2024-02-01'").fetchall()
    plan = made[0].explain()
    assert "1706745600000000000" in plan or "2024-02-01" in plan
    # All times of the row 0 are whole microseconds, and ts_ns of the row 1 is -1 nanosecond.
    micro = array.dataset(time_unit="us")
    assert micro.to_table(filter=FIELD("id") == 0, columns=["ts_ns"])["ts_ns"].to_pylist() == [dt.datetime(1970, 1, 1)]
    with pytest.raises(Exception, match="'ts_ns' holds 1969-12-31T23:59:59.999999999.*whole microseconds.*time_unit"):
        micro.to_table(filter=FIELD("id") == 1)
    with pytest.raises(ts.InvalidError, match="'m'"):
        array.dataset(time_unit="m")
    seconds = array.dataset(time_unit="ns").to_table(filter=FIELD("id") == 2, columns=["ts_s"])
    assert seconds["ts_s"].cast(pa.int64()).to_pylist() == [1_700_000_000 * 10**9]


def test_conditions_of_polars_arrive(array: ts.Array, monkeypatch: pytest.MonkeyPatch) -> None:
    made = scans(monkeypatch)
    frame = pl.scan_pyarrow_dataset(array.dataset())
    assert frame.filter((pl.col("id") >= 50) & (pl.col("id") < 60)).select("id", "s").collect().height == 10
    assert tiles(made[-1].explain(analyze=True)) == 1
    assert made[-1].projected_schema.names == ["id", "s"]
    found = frame.filter(pl.col("s").str.starts_with("a") & (pl.col("id") < 20)).select("id").collect()
    assert tiles(made[-1].explain(analyze=True)) == 2
    assert found.height == pl.DataFrame(array.dataset().to_table()).filter(
        pl.col("s").str.starts_with("a") & (pl.col("id") < 20)
    ).height


def test_ibis(array: ts.Array, monkeypatch: pytest.MonkeyPatch) -> None:
    ibis = pytest.importorskip("ibis")
    made = scans(monkeypatch)
    table = ibis.memtable(array.dataset())
    found = table.filter((table.id >= 50) & (table.id < 60)).select("id").order_by("id").execute()
    assert found["id"].tolist() == list(range(50, 60))
    assert tiles(made[-1].explain(analyze=True)) == 1


def test_datasets_can_be_pickled(weather: str, con: ts.Session) -> None:
    dataset = ts.open(weather, at=1000).dataset("us").filter(FIELD("station") == "Nuuk")
    again = pickle.loads(pickle.dumps(dataset))
    assert again.schema == dataset.schema
    assert again.count_rows() == dataset.count_rows() > 0
    for other in [con.sql("SELECT 1").dataset(), con.open(weather).dataset()]:  # type: ignore[union-attr]
        with pytest.raises(TypeError, match="tiledb_sql.open"):
            pickle.dumps(other)


def test_deep_conditions_are_left_to_pyarrow(array: ts.Array) -> None:
    asked = FIELD("id") >= 0
    for _ in range(1000):
        asked = ~asked
    assert array.dataset().count_rows(filter=asked) == ROWS
    many = FIELD("id") == 0
    for number in range(1, 300):
        many = many | (FIELD("id") == number)
    assert array.dataset().count_rows(filter=many) == ROWS


def test_a_dropped_stream_ends_its_query() -> None:
    endless = ts.sql("SELECT value FROM generate_series(1, 1000000000000)").dataset()
    assert duckdb.sql("SELECT value FROM endless LIMIT 3").fetchall() == [(1,), (2,), (3,)]
    assert endless.head(5).num_rows == 5
    assert math.isfinite(next(endless.to_batches())["value"][0].as_py())
