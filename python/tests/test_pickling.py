"""Sessions, arrays and queries in other processes."""

import concurrent.futures
import copy
import multiprocessing
import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tiledb_sql as ts

ROOT = Path(__file__).resolve().parents[2]
KEY = "hunter2hunter2hunter2hunter2hunt"


def is_known(con: ts.Session, table: str) -> bool:
    return con.sql(f"SELECT count(*) FROM information_schema.tables WHERE table_name = '{table}'").fetchall() == [(1,)]


def create(con: ts.Session, name: str, uri: Path) -> None:
    con.sql(
        f"""CREATE EXTERNAL TABLE {name} (x BIGINT NOT NULL, v DOUBLE, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{uri}'
        OPTIONS ('tiledb.dim.x.domain' '[0, 99]')"""
    )


def test_a_session_is_its_recipe(tmp_path: Path) -> None:
    con = ts.connect(memory_limit="8m", python_variables=False)
    create(con, "t", tmp_path / "t")
    create(con, '"My Table"', tmp_path / "mine")
    con.sql("INSERT INTO t VALUES (1, 0.5), (2, 1.5)")
    con.sql("SET datafusion.execution.batch_size = 123")
    con.sql("SET datafusion.execution.batch_size = 321")
    con.sql("SET tiledb.retries = 7")
    con.sql("SET datafusion.execution.target_partitions = 7")
    con.sql("RESET datafusion.execution.target_partitions")
    con.sql(f"ATTACH '{ROOT / 'examples/data/experiment'}' AS exp")
    con.sql("CREATE VIEW big AS SELECT * FROM t WHERE v > 1")
    con.sql("PREPARE twice AS SELECT $1 * 2 AS n")
    copied = pickle.loads(pickle.dumps(con))
    assert copied is not con
    assert copied.sql("SELECT * FROM big").fetchall() == [(2, 1.5)]
    assert copied.sql('SELECT count(*) FROM "My Table"').fetchall() == [(0,)]
    assert copied.sql("SHOW datafusion.execution.batch_size").fetchall()[0][1] == "321"
    assert copied.sql("SHOW tiledb.retries").fetchall()[0][1] == "7"
    assert copied.sql("SHOW datafusion.execution.target_partitions").fetchall()[0][1] != "7"
    assert copied.sql("SELECT count(*) > 0 FROM exp.obs").fetchall() == [(True,)]
    assert copied.sql("EXECUTE twice(4)").fetchall() == [(8,)]
    with pytest.raises(ts.MemoryLimitError):
        copied.sql("SELECT array_agg(value) FROM generate_series(1, 3000000)").fetchall()
    numbers = pa.table({"n": [1]})  # noqa: F841
    with pytest.raises(ts.Error, match="numbers"):
        copied.sql("SELECT * FROM numbers")
    # A read-only session stays one.
    readonly = pickle.loads(pickle.dumps(ts.connect(readonly=True)))
    with pytest.raises(ts.Error, match="read-only"):
        readonly.sql(f"DELETE FROM '{tmp_path / 't'}'")


def test_what_is_gone_is_not_made_again(tmp_path: Path) -> None:
    con = ts.connect()
    create(con, "t", tmp_path / "t")
    con.sql("DROP TABLE t")
    con.sql(f"ATTACH '{ROOT / 'examples/data/experiment'}' AS exp")
    con.sql("DETACH exp")
    con.sql("CREATE TABLE rows_in_memory AS SELECT 1 AS n")
    con.sql("DROP TABLE rows_in_memory")
    con.register("numbers", pa.table({"n": [1]}))
    con.unregister("numbers")
    con.sql("PREPARE p AS SELECT 1")
    con.sql("DEALLOCATE p")
    copied = pickle.loads(pickle.dumps(con))
    assert copied.sql("SELECT count(*) FROM information_schema.tables WHERE table_schema <> 'information_schema'").fetchall() == [(0,)]


def test_a_table_is_not_created_where_there_is_no_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    con = ts.connect()
    create(con, "t", Path("./t"))
    con.sql("INSERT INTO t VALUES (7, 0.5)")
    array = con.open("./t")
    pickled = pickle.dumps([con, array])
    monkeypatch.chdir(tmp_path / "there")
    copied, copied_array = pickle.loads(pickled)
    assert copied.sql("SELECT x FROM t").fetchall() == [(7,)]
    assert copied_array.scan(["x"]).fetchall() == [(7,)]
    assert os.listdir(tmp_path / "there") == []


def test_what_cannot_be_pickled_is_named(tmp_path: Path) -> None:
    con = ts.connect()
    con.register("numbers", pa.table({"n": [1]}))
    with pytest.raises(TypeError, match="can't be pickled: the table numbers has rows in the memory"):
        pickle.dumps(con)
    con.unregister("numbers")
    con.sql("CREATE TABLE mine AS SELECT 1 AS n")
    with pytest.raises(TypeError, match="the table mine"):
        pickle.dumps(con)
    con.sql("DROP TABLE mine")
    variable = pa.table({"n": [1]})  # noqa: F841
    with pytest.raises(TypeError, match="variables.*variable"):
        pickle.dumps(con.sql("SELECT * FROM variable"))
    create(con, "t", tmp_path / "t")
    with pytest.raises(TypeError, match="has run"):
        pickle.dumps(con.sql("INSERT INTO t VALUES (1, 1.0)"))
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError), match="lambda"):
        pickle.dumps(ts.connect(progress=lambda _: None))


def test_no_secret_is_pickled(tmp_path: Path) -> None:
    con = ts.connect()
    con.sql(
        f"""CREATE EXTERNAL TABLE locked (x BIGINT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{tmp_path / 'locked'}'
        OPTIONS ('tiledb.encryption_key' '{KEY}')"""
    )
    with pytest.raises(TypeError, match="the table locked has a secret") as raised:
        pickle.dumps(con)
    assert KEY not in str(raised.value)
    from tiledb_sql._pickling import portable, query_recipe

    signed = "https://example.org/a?sig=0123hush"
    with pytest.raises(TypeError, match="signature"):
        query_recipe(con, f"SELECT * FROM '{signed}'", None, [], False)
    with pytest.raises(TypeError, match="signature") as raised:
        portable(signed)
    assert "0123hush" not in str(raised.value)
    # Settings with secrets are left out.
    con = ts.connect()
    con.sql("SET datafusion.execution.batch_size = 5")
    assert len(con._engine.recipe()) == 1
    # The name of a variable with the key is no secret.
    os.environ["KEY_OF_THE_TEST"] = KEY
    try:
        con = ts.connect()
        con.sql(
            f"""CREATE EXTERNAL TABLE locked STORED AS TILEDB LOCATION '{tmp_path / 'locked'}'
            OPTIONS ('tiledb.encryption_key_env' 'KEY_OF_THE_TEST')"""
        )
        pickled = pickle.dumps(con)
        assert KEY.encode() not in pickled
        assert pickle.loads(pickled).sql("SELECT count(*) FROM locked").fetchall() == [(0,)]
    finally:
        del os.environ["KEY_OF_THE_TEST"]


def test_arrays_and_groups(con: ts.Session, weather: str) -> None:
    now, earlier = con.open(weather), con.open(weather, at=1000)
    group = con.open(ROOT / "examples/data/experiment")
    assert isinstance(now, ts.Array) and isinstance(earlier, ts.Array)
    copies = pickle.loads(pickle.dumps([now, earlier, group, now.meta, now.loc, now["wind"]]))
    assert copies[0].scan().fetchall() == now.scan().fetchall()
    assert copies[1].scan().fetchall() == earlier.scan().fetchall()
    assert copies[2].members == group.members  # type: ignore[union-attr]
    assert dict(copies[3]) == dict(now.meta)
    assert len(copies[4][["Nuuk"], :]["station"]) > 0
    np.testing.assert_array_equal(copies[5]["Nuuk", :].data, now["wind"]["Nuuk", :].data)
    # They share one session, also if they come one by one.
    assert copies[0]._session is copies[1]._session is copies[2]._session
    assert pickle.loads(pickle.dumps(now))._session is copies[0]._session
    assert copy.deepcopy(now).uri == now.uri


def test_queries(con: ts.Session, weather: str) -> None:
    query = con.sql(f"SELECT count(*) FROM '{weather}' WHERE station = $1", ["Nuuk"])
    assert pickle.loads(pickle.dumps(query)).fetchall() == query.fetchall()
    array = con.open(weather)
    assert isinstance(array, ts.Array)
    scan = array.scan(["station"], where="temperature < $1", params=[-15.7])
    assert pickle.loads(pickle.dumps(scan)).fetchall() == [("Nuuk",)]


def test_the_session_of_a_process_is_that_of_the_other(weather: str) -> None:
    array = ts.open(weather)
    assert pickle.loads(pickle.dumps(array))._session is array._session
    ts.sql("SET datafusion.execution.batch_size = 77")
    copied = pickle.loads(pickle.dumps(array))._session
    assert copied is not array._session
    assert copied.sql("SHOW datafusion.execution.batch_size").fetchall()[0][1] == "77"
    ts.sql("RESET datafusion.execution.batch_size")


def rows_of(thing: "ts.Array | ts.Query | ts.Session") -> int:
    """What a child does."""
    if isinstance(thing, ts.Array):
        return len(thing.scan().fetchall())
    if isinstance(thing, ts.Query):
        return len(thing.fetchall())
    return len(thing.sql("SELECT value FROM generate_series(1, 5)").fetchall())


@pytest.mark.parametrize("method", sorted({"spawn", "forkserver"} & set(multiprocessing.get_all_start_methods())))
def test_children(con: ts.Session, weather: str, method: str) -> None:
    array = con.open(weather)
    query = con.sql(f"SELECT * FROM '{weather}' WHERE station = $1", ["Nuuk"])
    assert isinstance(array, ts.Array)
    expected = [len(array.scan().fetchall()), len(query.fetchall()), 5]
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(rows_of, [array, query, con])) == expected
    assert con.sql("SELECT 1").fetchall() == [(1,)]
