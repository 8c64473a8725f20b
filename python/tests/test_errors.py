"""Errors: what they say, what Python takes them for, and that nothing is written."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tiledb_sql as ts

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def table(con: ts.Session, tmp_path: Path) -> str:
    uri = tmp_path / "t"
    con.sql(
        f"""CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, v DOUBLE, note VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{uri}'
        OPTIONS ('tiledb.dim.x.domain' '[0, 99]')"""
    )
    con.sql("INSERT INTO t VALUES (1, 0.5, 'a')")
    return str(uri)


def opened(con: ts.Session, uri: "str | Path") -> ts.Array:
    array = con.open(uri)
    assert isinstance(array, ts.Array)
    return array


def test_what_python_takes_errors_for(con: ts.Session, table: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        con.open(tmp_path / "nothing")
    assert isinstance(missing.value, ts.Error) and missing.value.kind == "not_found"
    assert "nothing" in str(missing.value)
    with pytest.raises(FileExistsError) as exists:
        con.sql(f"COPY (SELECT 1 AS x, 2 AS v) TO '{table}' STORED AS TILEDB PARTITIONED BY (x)")
    assert isinstance(exists.value, ts.Error) and exists.value.kind == "already_exists"
    with pytest.raises(ValueError) as invalid:
        con.sql(f"SELECT * FROM tiledb_consolidate('{table}', mode => 'sideways')").fetchall()
    assert isinstance(invalid.value, ts.Error) and invalid.value.kind == "invalid"
    assert "sideways" in str(invalid.value)
    with pytest.raises(MemoryError) as memory:
        ts.connect(memory_limit="8m").sql("SELECT array_agg(value) FROM generate_series(1, 3000000)").fetchall()
    assert isinstance(memory.value, ts.Error) and memory.value.kind == "out_of_memory"
    for error in (missing, exists, invalid, memory):
        # No number of the system, and no file name, but the text of the engine.
        assert str(error.value) == error.value.args[0]


@pytest.mark.skipif(sys.platform == "win32", reason="folders have other permissions there")
def test_permission(con: ts.Session, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from tiledb_sql._errors import make

    error = make("permission_denied", "no access to 't'")
    assert isinstance(error, PermissionError) and isinstance(error, ts.Error)
    if os.geteuid() == 0:
        pytest.skip("the administrator may read everything")
    os.chmod(table, 0)
    try:
        with pytest.raises(PermissionError):
            con.sql(f"SELECT * FROM '{table}'").fetchall()
    finally:
        os.chmod(table, 0o755)


def test_unknown_columns_name_the_known_ones(con: ts.Session, table: str) -> None:
    array = opened(con, table)
    with pytest.raises(ts.Error) as raised:
        con.sql("SELECT vv FROM t")
    assert raised.value.kind == "plan"
    assert all(name in str(raised.value) for name in ["vv", "x", "v", "note"])
    with pytest.raises(ts.Error, match="nothing"):
        array.scan(["nothing"])
    with pytest.raises(ts.Error, match="nothing"):
        array.scan(where="nothing > 1")
    with pytest.raises(KeyError) as key:
        array["vv"]
    assert all(name in str(key.value) for name in ["vv", "v", "note"])
    group = con.open(ROOT / "examples/data/experiment")
    with pytest.raises(KeyError, match="obs"):
        group["nothing"]


def test_indexes_outside_the_domain(con: ts.Session) -> None:
    height = opened(con, ROOT / "examples/data/elevation")["height"]
    low, high = (int(bound) for bound in opened(con, ROOT / "examples/data/elevation").dims[0].domain or ())
    for key in [high + 1, low - 1, slice(low, high + 2)]:
        with pytest.raises(IndexError) as raised:
            height[key]
        named = key.stop if isinstance(key, slice) else key
        assert "y" in str(raised.value)
        assert f"{low} to {high}" in str(raised.value)
        assert str(named) in str(raised.value) or str(named - 1) in str(raised.value)
    with pytest.raises(IndexError, match="step"):
        height[low : low + 4 : 2]
    with pytest.raises(IndexError, match="step"):
        height[low, low : low + 4 : -1]
    # Steps are refused in sparse arrays as well, with and without ends.
    weather = opened(con, ROOT / "examples/data/weather_stations")
    for key in [slice(None, None, 2), slice("Bergen", "Nuuk", 2)]:
        with pytest.raises(IndexError, match="step"):
            weather[key]
        with pytest.raises(IndexError, match="step"):
            weather.loc[key]


def test_indexes_of_sparse_arrays(con: ts.Session, table: str) -> None:
    array = opened(con, table)
    for read in [lambda: array[100], lambda: array[-1:3], lambda: array["v"][0:101], lambda: array.loc[[1, 100]], lambda: array.loc[5:100]]:
        with pytest.raises(IndexError, match=r"-1|10[01]") as raised:
            read()
        assert "the dimension x" in str(raised.value) and "0 to 99" in str(raised.value)
    for read in [lambda: array[1.5], lambda: array["a":]]:
        with pytest.raises(IndexError, match="dimension x isn't an integer"):
            read()
    assert list(array[0:100]["x"]) == list(array.loc[0:99]["x"]) == list(array[np.int8(1)]["x"]) == list(array.loc[[1, 2]]["x"]) == [1]
    assert list(array[50:20]["x"]) == []


def test_missing_libraries_name_their_extra(con: ts.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    query = con.sql("SELECT 1 AS n")
    elevation = opened(con, ROOT / "examples/data/elevation")
    uses = {
        "pyarrow": [("arrow", query.to_arrow)],
        "pandas": [("pandas", query.to_pandas)],
        "polars": [("polars", query.to_polars)],
        "numpy": [("numpy", query.to_numpy), ("numpy", lambda: elevation["height"][0:1, 0:1])],
    }
    for module, calls in uses.items():
        for extra, call in calls:
            with monkeypatch.context() as without:
                without.setitem(sys.modules, module, None)
                if module == "numpy":
                    without.setitem(sys.modules, "pyarrow", None)
                    without.setitem(sys.modules, "pyarrow.compute", None)
                with pytest.raises(ImportError) as raised:
                    call()
            assert f"pip install 'tiledb-sql[{extra}]'" in str(raised.value)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(ImportError, match=r"tiledb-sql\[arrow\]"):
            con.register("n", {"n": [1]})


def test_nothing_is_committed_by_what_fails(con: ts.Session, table: str) -> None:
    array = opened(con, table)
    wrong = [
        lambda: array.append({"x": [2, 1000], "v": [1.0, 2.0], "note": ["a", "b"]}),
        lambda: array.append({"x": [2], "w": [1.0]}),
        lambda: array.append(pd.DataFrame({"x": [2, None], "v": [1.0, 2.0], "note": ["a", "b"]})),
        lambda: array.append({"x": ["text"], "v": [1.0], "note": ["a"]}),
        lambda: con.sql("INSERT INTO t SELECT value, value / (value - 150), NULL FROM generate_series(2, 200)"),
        lambda: array.delete("nothing = 1"),
    ]
    for write in wrong:
        with pytest.raises(Exception) as raised:
            write()
        assert isinstance(raised.value, (ts.Error, ValueError, TypeError)), raised.value
        assert array.scan().fetchall() == [(1, 0.5, "a")]
        assert len(array.fragments) == 1


def panics(con: ts.Session) -> bool:
    try:
        con.sql("SELECT panic_for_tests(value) FROM generate_series(1, 0)")
    except ts.Error:
        return False
    return True


def test_a_panic_is_an_error(con: ts.Session, capfd: pytest.CaptureFixture[str]) -> None:
    if not panics(con):
        pytest.skip("only builds for tests have a function that panics")
    query = con.sql("SELECT panic_for_tests(value) AS n FROM generate_series(1, 100000)")
    reads = [query.fetchall, query.to_arrow, query.to_pandas, query.to_polars, query.to_numpy, query.fetchone, query.show]
    reads += [lambda: query.explain(analyze=True), lambda: repr(query), lambda: list(query)]
    # It panics while it is planned, or while it writes.
    reads += [lambda: con.sql("SELECT panic_for_tests(1)").fetchall(), lambda: con.sql("CREATE TABLE m AS SELECT panic_for_tests(5)")]
    for read in reads:
        with pytest.raises(ts.Error) as raised:
            read()
        assert raised.value.kind == "internal"
        assert "a panic on purpose" in str(raised.value)
        assert "report it" in str(raised.value)
    assert con.sql("SELECT 1").fetchall() == [(1,)]
    assert "panicked" not in capfd.readouterr().err


def test_a_panic_in_a_stream_is_not_its_end(con: ts.Session) -> None:
    import pyarrow as pa

    if not panics(con):
        pytest.skip("only builds for tests have a function that panics")
    late = con.sql("SELECT CASE WHEN value > 90000 THEN panic_for_tests(value) ELSE value END AS n FROM generate_series(1, 100000)")
    reader = pa.RecordBatchReader.from_stream(late)
    with pytest.raises(Exception, match="a panic on purpose"):
        reader.read_all()


def test_text_of_engine_and_numpy_scalars(con: ts.Session) -> None:
    # An index of NumPy is an index.
    assert opened(con, ROOT / "examples/data/elevation")["height"][np.int32(1), np.int64(1)].shape == ()
