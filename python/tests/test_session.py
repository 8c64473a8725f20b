"""Statements and sessions."""

import datetime as dt
import decimal
import threading
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tiledb_sql as ts


def test_an_array_is_a_table(con: ts.Session, weather: str) -> None:
    rows = con.sql(f"SELECT station, count(*) AS n FROM '{weather}' GROUP BY station ORDER BY station").fetchall()
    assert len(rows) > 2
    assert sum(n for _, n in rows) == con.sql(f"SELECT count(*) FROM '{weather}'").fetchone()[0]


def test_the_life_of_an_array(con: ts.Session, tmp_path: Path) -> None:
    uri = tmp_path / "readings"
    create = f"""
        CREATE EXTERNAL TABLE r (station VARCHAR NOT NULL, time TIMESTAMP NOT NULL, value DOUBLE, PRIMARY KEY (station, time))
        STORED AS TILEDB LOCATION '{uri}'"""
    assert con.sql(create).columns == []
    inserted = con.sql("INSERT INTO r VALUES ('a', '2024-01-01', 1.5), ('b', '2024-01-02', NULL)")
    assert inserted.fetchall() == [(2,)]
    # The statement has run. Reading its rows again inserts nothing.
    assert inserted.fetchall() == [(2,)]
    assert repr(inserted).count("2") >= 1
    assert con.sql("SELECT count(*) FROM r").fetchall() == [(2,)]
    assert con.sql("UPDATE r SET value = $1 WHERE station = $2", [7, "b"]).fetchall() == [(1,)]
    con.sql("ALTER TABLE r ADD COLUMN note VARCHAR DEFAULT 'none'")
    found = con.sql("SELECT station, time, value, note FROM r ORDER BY station").fetchall()
    assert found == [
        ("a", dt.datetime(2024, 1, 1), 1.5, "none"),
        ("b", dt.datetime(2024, 1, 2), 7.0, "none"),
    ]
    assert con.sql(f"SELECT count(*) FROM tiledb_fragments('{uri}')").fetchone()[0] >= 2
    report = con.sql(f"SELECT outcome FROM tiledb_consolidate('{uri}')")
    assert "done" in {outcome for (outcome,) in report}
    # Neither does reading this report again, or showing it, consolidate anew.
    assert report.fetchall() == report.fetchall()
    assert con.sql("DELETE FROM r WHERE station = 'a'").fetchall() == [(1,)]
    assert con.sql("SELECT count(*) FROM r").fetchall() == [(1,)]


def test_a_query_runs_again(con: ts.Session, tmp_path: Path) -> None:
    con.sql(
        f"CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{tmp_path / 't'}'"
    )
    count = con.sql("SELECT count(*), sum(v) FROM t")
    assert count.fetchall() == [(0, None)]
    con.sql("INSERT INTO t VALUES (1, 10)")
    assert count.fetchall() == [(1, 10)]


@pytest.mark.parametrize(
    ("value", "sql_type", "found"),
    [
        (None, "BIGINT", None),
        (pd.NaT, "TIMESTAMP", None),
        (np.datetime64("NaT"), "DATE", None),
        (np.timedelta64("NaT"), "BIGINT", None),
        (True, "BOOLEAN", True),
        (-(2**63), "BIGINT", -(2**63)),
        (2**64 - 1, "BIGINT UNSIGNED", 2**64 - 1),
        (1.5, "DOUBLE", 1.5),
        ("café ∑", "VARCHAR", "café ∑"),
        ("", "VARCHAR", ""),
        (b"\x00\xff", "BYTEA", b"\x00\xff"),
        (dt.date(1969, 12, 31), "DATE", dt.date(1969, 12, 31)),
        (dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), "TIMESTAMP(6)", dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)),
        (dt.time(23, 59, 59, 1), "TIME", dt.time(23, 59, 59, 1)),
        (decimal.Decimal("-12.50"), "DECIMAL(10, 2)", decimal.Decimal("-12.50")),
        (np.int32(-7), "BIGINT", -7),
        (np.float64(0.25), "DOUBLE", 0.25),
        (np.bool_(True), "BOOLEAN", True),
        (np.str_("x"), "VARCHAR", "x"),
        (np.datetime64("2024-02-29"), "DATE", dt.date(2024, 2, 29)),
        (np.datetime64("2024-02-29T01:02:03", "ms"), "TIMESTAMP(6)", dt.datetime(2024, 2, 29, 1, 2, 3)),
        (pd.Timestamp("2024-02-29T01:02:03.000004"), "TIMESTAMP(6)", dt.datetime(2024, 2, 29, 1, 2, 3, 4)),
    ],
)
def test_parameters(con: ts.Session, value: object, sql_type: str, found: object) -> None:
    rows = con.sql(f"SELECT CAST($1 AS {sql_type}) AS v", [value]).fetchall()
    assert rows == [(found,)]
    assert type(rows[0][0]) is type(found)


def test_parameters_by_name_and_time_zones(con: ts.Session) -> None:
    berlin = dt.datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    (row,) = con.sql("SELECT $when AS w, $n + 1 AS n", {"when": berlin, "n": 1}).fetchall()
    assert row == (berlin, 2)
    assert str(row[0].tzinfo) == "Europe/Berlin"


@pytest.mark.parametrize("value", [2**64, object(), {1: 2}, float, decimal.Decimal("1e60"), decimal.Decimal("NaN")])
def test_values_without_a_type(con: ts.Session, value: object) -> None:
    with pytest.raises((TypeError, OverflowError, ValueError), match="parameter"):
        con.sql("SELECT $1", [value])


def test_missing_parameters(con: ts.Session) -> None:
    with pytest.raises(ts.Error):
        con.sql("SELECT $1 + $2", [1]).fetchall()
    with pytest.raises(TypeError, match=r"\$1"):
        con.sql("SELECT $1", "x")  # type: ignore[arg-type]


def test_variables_of_the_caller(con: ts.Session) -> None:
    people = pd.DataFrame({"id": [1, 2], "name": ["Ada", None]})
    cities = pl.DataFrame({"id": [2, 1], "city": ["Zürich", "London"]})
    ages = pa.table({"id": [1, 2], "age": [36, 40]})
    found = con.sql(
        "SELECT name, city, age FROM people JOIN cities USING (id) JOIN ages USING (id) ORDER BY age"
    ).fetchall()
    assert found == [("Ada", "London", 36), (None, "Zürich", 40)]
    # A query of ours is a table, too.
    young = con.sql("SELECT * FROM ages WHERE age < 40")
    assert con.sql("SELECT count(*) FROM young").fetchall() == [(1,)]
    # Names that the statement defines hide variables.
    assert con.sql("WITH ages AS (SELECT 1 AS one) SELECT * FROM ages").fetchall() == [(1,)]
    del people, cities


def test_variables_are_not_tables_of_the_session(con: ts.Session) -> None:
    mine = pa.table({"n": [1]})
    assert con.sql("SELECT n FROM mine").fetchall() == [(1,)]
    del mine
    with pytest.raises(ts.Error, match="mine"):
        con.sql("SELECT n FROM mine")
    n = 5  # noqa: F841
    with pytest.raises(ts.Error):
        con.sql("SELECT * FROM n")
    other = ts.connect(python_variables=False)
    hidden = pa.table({"n": [1]})  # noqa: F841
    with pytest.raises(ts.Error, match="hidden"):
        other.sql("SELECT n FROM hidden")


def test_registered_data(con: ts.Session) -> None:
    con.register("nums", {"n": [1, 2, 3]})
    assert con.sql("SELECT sum(n) FROM nums").fetchall() == [(6,)]
    con.register("nums", pl.DataFrame({"n": [10]}))
    assert con.sql("SELECT sum(n) FROM nums").fetchall() == [(10,)]
    con.unregister("nums")
    with pytest.raises(ts.Error):
        con.sql("SELECT * FROM nums")
    with pytest.raises(ts.InvalidError, match="nums"):
        con.unregister("nums")
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        con.register("x", 5)


def test_variables_can_be_written(con: ts.Session, tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1, 2, 3], "v": ["a", "b", "c"]})
    con.sql(f"CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, v VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{tmp_path / 't'}'")
    assert con.sql("INSERT INTO t SELECT * FROM frame").fetchall() == [(3,)]
    assert con.sql("SELECT v FROM t WHERE x = 2").fetchall() == [("b",)]
    assert len(frame) == 3


@pytest.mark.parametrize(
    ("statement", "kind", "also"),
    [
        ("SELEC 1", "syntax", Exception),
        ("SELECT nothing", "plan", Exception),
        ("SELECT * FROM tiledb_schema('./no/such/array')", "not_found", FileNotFoundError),
        ("SET tiledb.cache_size = 'much'", None, Exception),
        ("SELECT 1; SELECT 2", None, Exception),
        ("SELECT CAST('x' AS BIGINT)", None, Exception),
    ],
)
def test_errors(con: ts.Session, statement: str, kind: "str | None", also: type) -> None:
    with pytest.raises(ts.Error) as raised:
        con.sql(statement).fetchall()
    assert isinstance(raised.value, also)
    if kind is not None:
        assert raised.value.kind == kind
    assert "panicked" not in str(raised.value)


def test_errors_show_no_secret(con: ts.Session) -> None:
    with pytest.raises(ts.Error) as raised:
        con.sql("CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 'x' OPTIONS ('tiledb.encryption_key' 'abcd4567hush')")
    assert "abcd4567" not in str(raised.value)


def test_memory_limits(tmp_path: Path) -> None:
    small = ts.connect(memory_limit="8m")
    with pytest.raises(ts.MemoryLimitError) as raised:
        small.sql("SELECT array_agg(value) FROM generate_series(1, 3000000)").fetchall()
    assert isinstance(raised.value, MemoryError)
    for limit in ["much", "-1g", 0, "", "nan"]:
        with pytest.raises(ValueError):
            ts.connect(memory_limit=limit)


def test_readonly(weather: str, tmp_path: Path) -> None:
    con = ts.connect(readonly=True)
    assert con.sql(f"SELECT count(*) FROM '{weather}'").fetchone()[0] > 0
    for statement in [
        f"COPY (SELECT 1 AS n) TO '{tmp_path / 'n.csv'}'",
        f"SELECT * FROM tiledb_vacuum('{weather}')",
    ]:
        with pytest.raises(ts.Error, match="read-only"):
            con.sql(statement)


def test_sixteen_threads_share_a_session(con: ts.Session, weather: str) -> None:
    found: list[object] = []

    def work(number: int) -> None:
        mine = pa.table({"n": [number]})  # noqa: F841
        for _ in range(5):
            found.append(con.sql(f"SELECT n, (SELECT count(*) FROM '{weather}') AS c FROM mine").fetchall()[0][0] == number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 80


def test_one_session_for_the_process() -> None:
    ts.sql("CREATE VIEW shared_view AS SELECT 1 AS one")
    assert ts.sql("SELECT * FROM shared_view").fetchall() == [(1,)]
    ts.sql("DROP VIEW shared_view")
    local = pa.table({"n": [3]})  # noqa: F841
    assert ts.sql("SELECT n FROM local").fetchall() == [(3,)]
