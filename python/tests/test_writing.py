"""Arrays of the rows of other libraries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tiledb_sql as ts

ROWS = {"station": ["Nuuk", "Oslo", "Oslo"], "hour": [3, 1, 2], "level": [0.5, None, -1.0]}
TUPLES = [("Nuuk", 3, 0.5), ("Oslo", 1, None), ("Oslo", 2, -1.0)]


def batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    for start in range(table.num_rows):
        yield from table.slice(start, 1).to_batches()


def forms() -> dict[str, Any]:
    """The same rows in every form that is taken."""
    table = pa.table(ROWS)
    return {
        "mapping": ROWS,
        "pyarrow.Table": table,
        "pyarrow.RecordBatch": table.to_batches()[0],
        "pyarrow.RecordBatchReader": pa.RecordBatchReader.from_batches(table.schema, batches(table)),
        "iterator": batches(table),
        "pandas": pd.DataFrame(ROWS),
        "polars": pl.DataFrame(ROWS),
        "duckdb": duckdb.sql("SELECT unnest(['Nuuk', 'Oslo', 'Oslo']) AS station, unnest([3, 1, 2]) AS hour, unnest([0.5::DOUBLE, NULL, -1]) AS level"),
        "query": ts.sql("SELECT * FROM (VALUES ('Nuuk', 3, 0.5), ('Oslo', 1, NULL), ('Oslo', 2, -1.0)) AS t(station, hour, level)"),
    }


@pytest.mark.parametrize("form", list(forms()))
def test_each_form_can_be_written_and_appended(tmp_path: Path, form: str) -> None:
    written = ts.write(forms()[form], tmp_path / "a", dims=["station", "hour"])
    assert sorted(written.scan().fetchall()) == TUPLES
    assert len(written.fragments) == 1
    written.delete("true")
    assert written.append(forms()[form]) == 3
    assert sorted(written.scan().fetchall()) == TUPLES
    assert len(written.fragments) == 2


def test_options_and_choices(tmp_path: Path) -> None:
    rows = {"x": range(1000), "v": range(1000)}
    a = ts.write(rows, tmp_path / "a", ["x"], {"attr.v.filters": "zstd(3)"}, capacity=10, domains_from="rows")
    assert a.attrs[0].filters == "zstd(3)"
    assert a.dims[0].domain == ("0", "999")
    assert any(choice.startswith("dim.x.domain = ") for choice in a.choices), a.choices
    assert not any("capacity" in choice for choice in a.choices)
    dense = ts.write(rows, tmp_path / "b", ["x"], array_type="dense")
    assert dense.is_dense and dense["v"][5:8].tolist() == [5, 6, 7]
    assert ts.open(str(tmp_path / "b")).choices == []  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "dims, options, message",
    [
        ("x", {}, "dims must be a list of the columns"),
        ([], {}, "dims must be a list of the columns"),
        (["y"], {}, "y"),
        (["x"], {"capacty": 1}, "unknown option \"capacty\"; did you mean tiledb.capacity"),
        (["x"], {"capacity": [1]}, "the option capacity takes a bool, int, float or str, not list"),
        (["x"], {"capacity": 0}, "capacity"),
    ],
)
def test_requests_that_make_no_sense_leave_nothing(tmp_path: Path, dims: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ts.Error, match=message):
        ts.write({"x": [1], "v": [2]}, tmp_path / "a", dims, options)
    assert list(tmp_path.iterdir()) == []


def test_data_that_fail_leave_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"x": [1, 2]})
        raise RuntimeError("the sensor broke")

    with pytest.raises(ts.Error, match="the sensor broke"):
        ts.write(failing(), tmp_path / "a", ["x"])
    assert list(tmp_path.iterdir()) == []
    a = ts.write({"x": [7]}, tmp_path / "b", ["x"])
    with pytest.raises(ts.Error, match="the sensor broke"):
        a.append(failing())
    assert a.scan().fetchall() == [(7,)]
    with pytest.raises(ValueError, match="an iterator without batches"):
        a.append(iter([]))
    with pytest.raises(TypeError, match="must be an iterator of pyarrow's record batches; its first item is of the type int"):
        a.append(iter([1]))
    with pytest.raises(TypeError, match="it is of the type int"):
        a.append(3)


def test_batches_with_other_columns_are_refused(tmp_path: Path) -> None:
    """Their bytes would be taken for those of the first batch's columns."""
    a = ts.write({"x": [7], "v": [1]}, tmp_path / "a", ["x"])
    first = pa.record_batch({"x": [1, 2], "v": [1, 2]})
    for other in [{"x": [3], "v": ["text"]}, {"x": [3], "v": pa.array([1], pa.int8())}, {"x": [3]}, {"v": [1], "x": [3]}]:
        with pytest.raises(ts.Error, match="batches of different columns: x int64, v int64, and later"):
            a.append(iter([first, pa.record_batch(other)]))
    assert a.scan().fetchall() == [(7, 1)]


def test_a_stream_serves_one_statement(tmp_path: Path) -> None:
    con = ts.connect()
    table = pa.table(ROWS)
    con.register("once", batches(table))
    assert con.sql("SELECT count(*) FROM once").fetchall() == [(3,)]
    with pytest.raises(ts.Error, match="has been read already"):
        con.sql("SELECT count(*) FROM once").fetchall()
    # What gives the same rows again may be read again, also twice in one statement.
    for again in [duckdb.sql("SELECT 1 AS x UNION ALL SELECT 2"), ts.sql("SELECT 1 AS x UNION ALL SELECT 2")]:
        con.register("again", again)
        for _ in range(2):
            assert con.sql("SELECT count(*) FROM again a CROSS JOIN again b").fetchall() == [(4,)]


BOUNDED = """
import resource, sys
import numpy as np, pyarrow as pa
import tiledb_sql as ts

def batches(megabytes):
    rng = np.random.default_rng(1)
    for number in range(megabytes):
        x = np.arange(number * 65536, (number + 1) * 65536)
        yield pa.record_batch({"x": x, "v": rng.random(65536)})

con = ts.connect(memory_limit="50m")
a = con.write(batches(4), sys.argv[1] + "/small", ["x"], choose_by="types")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
a = con.write(batches(int(sys.argv[2])), sys.argv[1] + "/large", ["x"], choose_by="types")
rows = 0
for batch in pa.RecordBatchReader.from_stream(a.scan()):
    rows += batch.num_rows
assert rows == int(sys.argv[2]) * 65536, rows
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_streams_larger_than_memory(tmp_path: Path) -> None:
    """150 MB are written from a stream and read as one, in a session that may use 50 MB."""
    run = subprocess.run([sys.executable, "-c", BOUNDED, str(tmp_path), "150"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 120, run.stdout
