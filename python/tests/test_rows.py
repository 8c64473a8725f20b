"""The forms that rows take."""

import datetime as dt
import decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tiledb_sql as ts

ALL_TYPES = """
    SELECT CAST(1 AS TINYINT) AS i8, CAST(2 AS SMALLINT UNSIGNED) AS u16, CAST(1.5 AS REAL) AS f32, 'é' AS text,
           arrow_cast('view', 'Utf8View') AS view, X'00ff' AS bytes, true AS flag, DATE '1969-07-20' AS day,
           TIMESTAMP '2024-01-02 03:04:05.678' AS moment, CAST(1.25 AS DECIMAL(5, 2)) AS money,
           [1, NULL, 3] AS list, {a: 1, b: 'x'} AS struct, arrow_cast('red', 'Dictionary(Int32, Utf8)') AS color,
           CAST(NULL AS BIGINT) AS nothing
"""


def test_tuples(con: ts.Session) -> None:
    assert con.sql(ALL_TYPES).fetchall() == [
        (
            1,
            2,
            1.5,
            "é",
            "view",
            b"\x00\xff",
            True,
            dt.date(1969, 7, 20),
            dt.datetime(2024, 1, 2, 3, 4, 5, 678_000),
            decimal.Decimal("1.25"),
            [1, None, 3],
            {"a": 1, "b": "x"},
            "red",
            None,
        )
    ]


def test_tuples_are_those_of_pyarrow(con: ts.Session, weather: str) -> None:
    query = con.sql(f"SELECT * FROM '{weather}' ORDER BY station, time LIMIT 500")
    names = query.columns
    assert query.fetchall() == [tuple(row[name] for name in names) for row in query.to_arrow().to_pylist()]


def test_times_that_python_does_not_have(con: ts.Session) -> None:
    nanoseconds = con.sql("SELECT arrow_cast(1, 'Timestamp(Nanosecond, None)') AS t")
    with pytest.raises(ts.InvalidError, match="to_arrow"):
        nanoseconds.fetchall()
    assert nanoseconds.to_pandas()["t"][0] == pd.Timestamp(1, unit="ns")
    with pytest.raises(ts.InvalidError, match="years 1 to 9999"):
        con.sql("SELECT arrow_cast(-1000000, 'Date32') AS d").fetchall()


def test_arrow_without_views(con: ts.Session) -> None:
    table = con.sql(ALL_TYPES).to_arrow()
    assert isinstance(table, pa.Table)
    assert table.schema.field("view").type == pa.string()
    assert pa.types.is_dictionary(table.schema.field("color").type)
    assert table.num_rows == 1


def test_streams(con: ts.Session) -> None:
    query = con.sql("SELECT value AS n, arrow_cast('x', 'Utf8View') AS v FROM generate_series(1, 100000)")
    reader = pa.RecordBatchReader.from_stream(query)
    assert sum(batch.num_rows for batch in reader) == 100_000
    # Again, and with a schema that the reader asks for.
    wanted = pa.schema([("n", pa.float64()), ("v", pa.large_string())])
    reader = pa.RecordBatchReader.from_stream(query, schema=wanted)
    assert reader.schema == wanted
    assert reader.read_all().num_rows == 100_000


def test_a_stream_that_nobody_reads_on_ends(con: ts.Session) -> None:
    reader = pa.RecordBatchReader.from_stream(con.sql("SELECT value FROM generate_series(1, 1000000000000)"))
    assert reader.read_next_batch().num_rows > 0
    del reader
    assert con.sql("SELECT 1").fetchall() == [(1,)]


def test_errors_inside_streams(con: ts.Session) -> None:
    reader = pa.RecordBatchReader.from_stream(
        con.sql("SELECT 10 / (value - 99999) FROM generate_series(1, 100000)")
    )
    with pytest.raises(Exception, match="(?i)divide by zero"):
        reader.read_all()


def test_pandas(con: ts.Session) -> None:
    frame = con.sql(ALL_TYPES).to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame["text"][0] == "é"
    assert frame["day"][0] == dt.date(1969, 7, 20)


def test_polars(con: ts.Session) -> None:
    frame = con.sql("SELECT 1 AS n, arrow_cast('x', 'Utf8View') AS v").to_polars()
    assert frame.equals(pl.DataFrame({"n": [1], "v": ["x"]}))


def test_numpy(con: ts.Session) -> None:
    arrays = con.sql("SELECT value AS n, value / 2.0 AS half FROM generate_series(0, 9)").to_numpy()
    np.testing.assert_array_equal(arrays["n"], np.arange(10))
    np.testing.assert_array_equal(arrays["half"], np.arange(10) / 2)
    with pytest.raises(ValueError, match="'n'"):
        con.sql("SELECT * FROM (SELECT 1 AS n) a CROSS JOIN (SELECT 2 AS n) b").to_numpy()


def test_duckdb(con: ts.Session, weather: str) -> None:
    cold = con.sql(f"SELECT station, min(temperature) AS t FROM '{weather}' GROUP BY station")
    assert cold.columns == ["station", "t"]
    found = duckdb.sql("SELECT * FROM cold ORDER BY t, station").fetchall()
    assert found == sorted(cold.fetchall(), key=lambda row: (row[1], row[0]))


def test_explain_and_repr(con: ts.Session, weather: str) -> None:
    query = con.sql(f"SELECT count(*) AS readings FROM '{weather}' WHERE temperature > 30")
    assert "TileDbScan" in query.explain()
    assert "TileDbScan" in query.explain(analyze=True)
    assert "readings" in repr(query)
    assert query.columns == ["readings"]
    assert query.types == ["Int64"]
    many = con.sql("SELECT value FROM generate_series(1, 1000000000000)")
    assert "20" in repr(many)
    assert con.sql("SET datafusion.execution.batch_size = 100").explain() == "The statement has run."


def test_no_rows_and_no_columns(con: ts.Session) -> None:
    nothing = con.sql("SELECT 1 AS n WHERE 1 = 2")
    assert nothing.fetchall() == []
    assert nothing.fetchone() is None
    assert nothing.to_arrow().num_rows == 0
    assert nothing.to_pandas().columns.tolist() == ["n"]
    done = con.sql("SET datafusion.execution.batch_size = 100")
    assert done.fetchall() == []
    assert "without rows" in repr(done)
