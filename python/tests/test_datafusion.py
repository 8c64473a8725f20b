"""Arrays, queries and groups in sessions of datafusion-python."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tiledb_sql as ts

datafusion = pytest.importorskip("datafusion")

EXAMPLES = Path(__file__).parents[2] / "examples/data"
WEATHER = str(EXAMPLES / "weather_stations")


@pytest.fixture
def host() -> Iterator[Any]:
    yield datafusion.SessionContext()


def rows(frame: Any) -> list[tuple[Any, ...]]:
    table = pa.Table.from_batches(frame.collect(), schema=frame.schema())
    return [tuple(row.values()) for row in table.to_pylist()]


def canonical(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in an order of their own. NaN equals itself here."""
    return sorted((tuple("NaN" if value != value else value for value in row) for row in found), key=repr)


QUERIES = [
    "SELECT count(*) FROM {t}",
    "SELECT * FROM {t} WHERE station = 'Nuuk' AND temperature < -14",
    "SELECT station, count(*), min(temperature), max(time) FROM {t} GROUP BY station ORDER BY station",
    "SELECT DISTINCT condition FROM {t}",
    "SELECT time, note FROM {t} WHERE note IS NOT NULL ORDER BY time, note LIMIT 3",
    "SELECT count(*) FROM {t} WHERE time >= '2024-01-15' AND station IN ('Bergen', 'Cairo')",
    "SELECT count(*) FROM {t} WHERE NOT (wind > 3 OR temperature IS NULL)",
    "SELECT count(*) FROM {t} WHERE upper(station) LIKE 'N%'",
    "SELECT count(*) FROM {t} WHERE station BETWEEN 'C' AND 'O' AND temperature / 2 > 1",
    "SELECT a.station, count(*) FROM {t} a JOIN {t} b USING (station, time) GROUP BY 1 ORDER BY 1",
    "SELECT station FROM (SELECT * FROM {t} ORDER BY temperature LIMIT 5) ORDER BY 1",
    "SELECT station, time, row_number() OVER (PARTITION BY station ORDER BY time) AS n FROM {t} WHERE temperature > 30",
    "SELECT count(*) FROM {t} WHERE temperature > (SELECT avg(temperature) FROM {t})",
    "SELECT station FROM {t} WHERE false",
]


@pytest.mark.parametrize("query", QUERIES)
def test_queries_of_the_host_are_those_of_rows_in_memory(host: Any, query: str) -> None:
    weather = ts.open(WEATHER)
    assert isinstance(weather, ts.Array)
    host.register_table("array", weather)
    host.register_table("asked", ts.sql(f"SELECT * FROM '{WEATHER}'"))
    host.register_record_batches("memory", [weather.scan().to_arrow().to_batches()])
    expected = canonical(rows(host.sql(query.format(t="memory"))))
    for table in ["array", "asked"]:
        assert canonical(rows(host.sql(query.format(t=table)))) == expected


def test_conditions_on_values_at_the_edge(host: Any, tmp_path: Path) -> None:
    """NaN, -0.0, NULL, empty text and the limits of types, against the same rows in memory."""
    table = pa.table(
        {
            "x": pa.array(range(8), pa.int64()),
            "f": pa.array([float("nan"), -0.0, 0.0, None, float("inf"), float("-inf"), 1.5, -1.5], pa.float64()),
            "i": pa.array([2**63 - 1, -(2**63), 0, None, 1, -1, 2, -2], pa.int64()),
            "s": pa.array(["", None, "a", "é", "A", "b", "\u0000", "zz"], pa.string()),
        }
    )
    host.register_table("a", ts.write(table, tmp_path / "a", ["x"], choose_by="types", capacity=2))
    host.register_table("empty", ts.write(table.slice(0, 0), tmp_path / "e", ["x"], choose_by="types"))
    host.register_record_batches("memory", [table.to_batches()])
    host.register_record_batches("none", [[pa.record_batch({name: pa.array([], kind) for name, kind in zip(table.schema.names, table.schema.types)})]])
    values = {
        "f": ["0.0", "-0.0", "'NaN'::DOUBLE", "'Infinity'::DOUBLE", "1.5", "NULL"],
        "i": ["0", "9223372036854775807", "-9223372036854775808", "NULL"],
        "s": ["''", "'a'", "'é'", "NULL"],
    }
    for column, literals in values.items():
        conditions = [f"{column} {op} {literal}" for op in ["=", "<>", "<", "<=", ">", ">="] for literal in literals]
        conditions += [f"{column} IS DISTINCT FROM {literal}" for literal in literals]
        conditions += [f"{column} IS NULL", f"{column} IN ({literals[0]}, {literals[1]})", f"{column} NOT IN ({', '.join(literals)})"]
        for condition in conditions + [f"NOT ({condition})" for condition in conditions]:
            for array, memory in [("a", "memory"), ("empty", "none")]:
                query = f"SELECT x FROM {{}} WHERE {condition} ORDER BY x"
                assert rows(host.sql(query.format(array))) == rows(host.sql(query.format(memory))), condition


def test_conditions_arrive(host: Any) -> None:
    host.register_table("w", ts.open(WEATHER))
    plan = "\n".join(row[1] for row in rows(host.sql("EXPLAIN ANALYZE SELECT temperature FROM w WHERE station = 'Nuuk'")))
    # Nothing is left to the host, and no other row leaves the scan.
    assert "FilterExec" not in plan and "rows_out=250," in plan, plan


def test_the_number_of_rows_is_known_without_reading(host: Any) -> None:
    host.register_table("e", ts.open(str(EXAMPLES / "elevation")))
    counted = host.sql("SELECT count(*) FROM e")
    plan = counted.execution_plan().display_indent()
    assert "TileDbBorderExec" not in plan, plan
    assert rows(counted) == [(64 * 64,)]


def test_functions_that_differ_each_time_stay_with_the_host(host: Any) -> None:
    host.register_table("w", ts.open(WEATHER))
    plan = host.sql("SELECT count(*) FROM w WHERE random() < 2 AND station = 'Nuuk'").execution_plan().display_indent()
    assert "random()" in plan.split("TileDbBorderExec")[0], plan


def test_functions_of_python_stay_with_the_host(host: Any) -> None:
    def is_cold(temperature: pa.Array) -> pa.Array:
        import pyarrow.compute as pc

        return pc.less(temperature, -14.0)

    host.register_udf(datafusion.udf(is_cold, [pa.float64()], pa.bool_(), "immutable", "is_cold"))
    weather = ts.open(WEATHER)
    assert isinstance(weather, ts.Array)
    host.register_table("w", weather)
    expected = weather.scan(["temperature"], where="temperature < -14 AND station = 'Nuuk'").fetchall()
    assert canonical(rows(host.sql("SELECT temperature FROM w WHERE is_cold(temperature) AND station = 'Nuuk'"))) == canonical(expected)


def test_rows_are_inserted(host: Any, tmp_path: Path) -> None:
    array = ts.write({"x": [1], "v": ["a"]}, tmp_path / "a", ["x"])
    host.register_table("a", array)
    assert rows(host.sql("INSERT INTO a VALUES (2, 'b'), (3, NULL)")) == [(2,)]
    assert sorted(array.scan().fetchall()) == [(1, "a"), (2, "b"), (3, None)]
    assert rows(host.sql("SELECT * FROM a ORDER BY x")) == [(1, "a"), (2, "b"), (3, None)]


def test_a_group_is_a_catalog(host: Any) -> None:
    group = ts.open(str(EXAMPLES / "experiment"))
    assert isinstance(group, ts.Group)
    host.register_catalog_provider("experiment", group)
    expected = ts.sql(f"SELECT count(*) FROM '{EXAMPLES}/experiment/obs'").fetchall()
    assert rows(host.sql("SELECT count(*) FROM experiment.public.obs")) == expected


def test_create_external_table_and_table_functions(host: Any, tmp_path: Path) -> None:
    ts.register(host)
    host.sql(f"CREATE EXTERNAL TABLE weather STORED AS TILEDB LOCATION '{WEATHER}'")
    assert rows(host.sql("SELECT count(*) FROM weather WHERE station = 'Nuuk'")) == [(250,)]
    host.sql(
        "CREATE EXTERNAL TABLE made (x BIGINT NOT NULL, v DOUBLE, PRIMARY KEY (x)) "
        f"STORED AS TILEDB LOCATION '{tmp_path}/made' OPTIONS ('tiledb.capacity' '7')"
    )
    host.sql("INSERT INTO made VALUES (1, 0.5)").collect()
    assert rows(host.sql("SELECT * FROM made")) == [(1, 0.5)]
    assert rows(host.sql(f"SELECT count(*) FROM tiledb_scan('{WEATHER}') WHERE station = 'Nuuk'")) == [(250,)]
    assert rows(host.sql(f"SELECT name FROM tiledb_schema('{tmp_path}/made') WHERE role = 'dimension'")) == [("x",)]
    with pytest.raises(Exception, match="not found"):
        host.sql("SELECT * FROM tiledb_scan('./missing')").collect()


def test_errors_while_reading_stand_alone(host: Any, tmp_path: Path) -> None:
    array = ts.write({"x": [1, 2], "v": ["a", "1"]}, tmp_path / "a", ["x"])
    host.register_table("a", array)
    with pytest.raises(Exception, match="'a'"):
        host.sql("SELECT * FROM a WHERE CAST(v AS BIGINT) > 0").collect()


def test_other_versions_are_refused(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    weather = ts.open(WEATHER)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "56.1.0")
    with pytest.raises(ts.UnsupportedError, match=r"datafusion 56.1.0 is installed, and this package takes datafusion 55: pip install"):
        host.register_table("w", weather)


def test_settings_of_our_session_count(host: Any) -> None:
    con = ts.connect()
    weather = con.open(WEATHER)
    host.register_table("w", weather)
    assert rows(host.sql("SELECT count(note) FROM w"))[0][0] > 0
    con.sql("SET datafusion.runtime.memory_limit = '1K'")
    with pytest.raises(Exception, match="memory limit"):
        host.sql("SELECT count(note) FROM w").collect()
