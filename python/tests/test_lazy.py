"""Lazy frames of Polars."""

import datetime as dt
import os
import random
import re
from pathlib import Path
from typing import Any, Callable

import polars as pl
import pyarrow as pa
import pytest

import tiledb_sql as ts
from tiledb_sql import _lazy

ROWS = 200
NAN = float("nan")
FLOATS = [NAN, -NAN, 0.0, -0.0, float("inf"), float("-inf"), 1.5, -1.5, 0.1]
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [-(2**31), 2**31 - 1, 0, 5, 70000]),
    "u": (pa.uint64(), [0, 2**64 - 1, 2**63, 7]),
    "f32": (pa.float32(), FLOATS),
    "f64": (pa.float64(), FLOATS),
    "s": (pa.string(), ["", "a", "ab", "é", "b", "zz"]),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
    "ns": (pa.timestamp("ns"), [dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 1, 2, 3, 456789)]),
    "ms": (pa.timestamp("ms"), [dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 1, 2, 3)]),
}


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> ts.Array:
    """A sparse array in tiles of 10 rows."""
    rng = random.Random(5)
    columns = {"id": pa.array(range(ROWS), pa.int64())}
    for name, (kind, values) in VALUES.items():
        drawn = [*values, None] + [rng.choice([*values, None]) for _ in range(ROWS - len(values) - 1)]
        columns[name] = pa.array(drawn, kind)
    uri = tmp_path_factory.mktemp("arrays") / "types"
    con = ts.connect(memory_limit="1g")
    con.register("rows", pa.table(columns))
    con.sql(
        f"COPY (SELECT * FROM rows) TO '{uri}' STORED AS TILEDB PARTITIONED BY (id) "
        "OPTIONS ('tiledb.capacity' '10', 'tiledb.attr.s.enumeration' 'none')"
    )
    array = con.open(uri)
    assert isinstance(array, ts.Array)
    return array


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[ts.Query]:
    """What the engine is asked for."""
    asked: list[ts.Query] = []

    class Batches:
        @staticmethod
        def of(query: Any, rows: int) -> Any:
            asked.append(ts.Query(query))
            return batches.of(query, rows)

    batches = _lazy.EngineBatches
    monkeypatch.setattr(_lazy, "EngineBatches", Batches)
    return asked


def condition(rng: random.Random, depth: int) -> pl.Expr:
    if depth > 0 and rng.random() < 0.6:
        left, right = condition(rng, depth - 1), condition(rng, depth - 1)
        return rng.choice([left & right, left | right, ~left, pl.all_horizontal(left, right), pl.any_horizontal(left, right)])
    name = rng.choice(list(VALUES))
    kind, values = VALUES[name]
    column, value = pl.col(name), rng.choice(values)
    low, high = rng.choice(values), rng.choice(values)
    choices: list[Callable[[], pl.Expr]] = [
        lambda: column == value,
        lambda: column != value,
        lambda: column < value,
        lambda: column <= value,
        lambda: column > value,
        lambda: column >= value,
        lambda: column.is_null(),
        lambda: column.is_not_null(),
        lambda: column.is_in(rng.sample(values, 2), nulls_equal=rng.random() < 0.5),
        lambda: column.is_in([value, None], nulls_equal=rng.random() < 0.5),
        lambda: column.is_between(pl.lit(low), pl.lit(high), closed=rng.choice(["both", "left", "right", "none"])),  # type: ignore[arg-type]
        lambda: column.eq_missing(value),
    ]
    if kind == pa.string():
        choices += [lambda: column.str.starts_with(value), lambda: column.str.len_chars() > 1]
    if kind == pa.bool_():
        choices += [lambda: column, lambda: ~column]
    if pa.types.is_floating(kind):
        choices += [lambda: column.is_nan(), lambda: column > 1, lambda: column * 2 > 1]
    return rng.choice(choices)()


def test_random_conditions_mean_the_same_as_in_memory(array: ts.Array) -> None:
    memory = array.lazy().collect()
    assert memory.height == ROWS
    rng = random.Random(int(os.environ.get("CONDITIONS_SEED", "1")))
    found = 0
    for _ in range(int(os.environ.get("CONDITIONS", "300"))):
        asked = condition(rng, rng.randrange(3))
        expected = sorted(memory.filter(asked)["id"])
        assert sorted(array.lazy().filter(asked).select("id").collect()["id"]) == expected, str(asked)
        found += bool(expected)
    assert found > 100


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ((pl.col("id") >= 50) & (pl.col("id") < 60), "tiles=1/20"),
        (pl.col("id").is_in([5, 195]), "tiles=2/20"),
        (pl.col("id").is_between(50, 59) & (pl.col("s").str.len_chars() > 0), "tiles=1/20"),
        (pl.col("ns") == dt.datetime(2024, 2, 29, 1, 2, 3, 456789), "predicate=.*ns"),
        (pl.col("s").str.starts_with("a"), "predicate=.*s"),
        (pl.col("f64") > 1.0, "predicate=.*f64"),
    ],
)
def test_conditions_arrive(array: ts.Array, scans: list[ts.Query], condition: pl.Expr, words: str) -> None:
    frame = array.lazy().filter(condition).select("id").collect()
    assert frame["id"].sort().to_list() == array.lazy().collect().filter(condition)["id"].sort().to_list()
    plan = scans[0].explain(analyze=True)
    assert re.search(words, plan), plan


def test_columns_and_limits_arrive(array: ts.Array, scans: list[ts.Query]) -> None:
    assert array.lazy().select("s", "id").head(3).collect().shape == (3, 2)
    assert sorted(scans[-1].columns) == ["id", "s"]
    assert re.search("(limit|fetch|skip)=3", scans[-1].explain()), scans[-1].explain()
    assert array.lazy().filter(pl.col("id") >= 150).head(7).collect().height == 7
    assert array.lazy().select(pl.len()).collect().item() == ROWS
    assert array.lazy().collect_schema() == array.scan().to_polars().schema


def test_queries_are_lazy_frames(con: ts.Session, tmp_path: Path) -> None:
    frame = con.sql("SELECT value AS n, 'x' AS t FROM generate_series(1, 250000)").lazy()
    assert frame.filter(pl.col("n") > 249_998).collect().to_dict(as_series=False) == {"n": [249_999, 250_000], "t": ["x", "x"]}
    assert frame.group_by("t").agg(pl.col("n").sum()).collect()["n"].to_list() == [250000 * 250001 // 2]
    # Nobody reads what a limit leaves out.
    assert con.sql("SELECT value FROM generate_series(1, 1000000000000)").lazy().head(5).collect().height == 5
    copied = con.sql(f"COPY (SELECT 1 AS n) TO '{tmp_path / 'n.csv'}'")
    assert copied.lazy().collect().height == 1
    with pytest.raises(Exception, match="(?i)divide by zero"):
        con.sql("SELECT 10 / (value - 9999) AS q FROM generate_series(1, 10000)").lazy().collect()
