"""The engine's log in Python's ``logging``."""

import logging
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tiledb_sql as ts

ROOT = Path(__file__).resolve().parents[2]
KEY = "hunter2hunter2hunter2hunter2hunt"


@pytest.fixture
def engine_log() -> "Iterator[logging.Logger]":
    logger = logging.getLogger("tiledb_sql")
    yield logger
    logger.setLevel(logging.NOTSET)
    logging.getLogger("tiledb_sql.tiledb_engine.storage").setLevel(logging.NOTSET)
    logging.disable(logging.NOTSET)


def run(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, cwd=ROOT)


def test_records_have_targets_levels_and_places(
    con: ts.Session, weather: str, engine_log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    engine_log.setLevel(logging.DEBUG)
    con.sql(f"SELECT count(*) FROM '{weather}' WHERE wind > 3").fetchall()
    plans = [r for r in caplog.records if r.name.startswith("tiledb_sql.tiledb_engine.scan.plan")]
    assert plans
    assert plans[0].levelno == logging.DEBUG
    assert "units" in plans[0].getMessage()
    assert plans[0].pathname.endswith(".rs") and plans[0].lineno > 0
    assert not any(r.levelno < logging.DEBUG for r in caplog.records)


def test_levels_can_change(con: ts.Session, weather: str, engine_log: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    def logged() -> "set[str]":
        caplog.clear()
        con.sql(f"SELECT count(*) FROM '{weather}' WHERE wind > 3").fetchall()
        return {record.name for record in caplog.records}

    assert logged() == set()
    engine_log.setLevel(logging.DEBUG)
    everything = logged()
    assert any(name.startswith("tiledb_sql.datafusion") for name in everything)
    engine_log.setLevel(logging.WARNING)
    assert logged() == set()
    # One module, in detail.
    logging.getLogger("tiledb_sql.tiledb_engine.storage").setLevel(5)
    only = logged()
    assert only and all(name.startswith("tiledb_sql.tiledb_engine.storage") for name in only)
    assert any(record.levelno == 5 for record in caplog.records)
    logging.disable(logging.CRITICAL)
    assert logged() == set()


def test_no_secret_is_logged(tmp_path: Path, engine_log: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    engine_log.setLevel(5)
    con = ts.connect()
    con.sql(
        f"""CREATE EXTERNAL TABLE locked (x BIGINT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{tmp_path / 'locked'}'
        OPTIONS ('tiledb.encryption_key' '{KEY}')"""
    )
    con.sql("INSERT INTO locked VALUES (1)")
    con.sql("SELECT * FROM locked").fetchall()
    with pytest.raises(ts.Error):
        con.sql(f"SELECT * FROM tiledb_scan('{tmp_path / 'locked'}', encryption_key => '{KEY}')")
    # What DataFusion logs shows the text of statements.
    logging.getLogger("tiledb_sql.datafusion").setLevel(5)
    con.sql(f"SELECT '{KEY}' AS secret, * FROM locked").fetchall()
    assert len(caplog.records) > 20
    assert KEY not in caplog.text


def test_nothing_is_lost_among_threads(con: ts.Session, weather: str, engine_log: logging.Logger) -> None:
    counted: "list[str]" = []

    class Counter(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            # A handler may use the engine itself.
            counted.append(record.getMessage())
            if len(counted) == 3:
                con.sql("SELECT 1").fetchall()

    handler = Counter()
    engine_log.addHandler(handler)
    engine_log.setLevel(logging.DEBUG)
    try:
        def work() -> None:
            for _ in range(5):
                con.sql(f"SELECT sum(wind) FROM '{weather}' WHERE wind > 3").fetchall()

        work()
        alone = sum("units" in text for text in counted)
        assert alone >= 5
        counted.clear()
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        con.sql("SELECT 1").fetchall()
        assert sum("units" in text for text in counted) == 8 * alone
    finally:
        engine_log.removeHandler(handler)


def test_records_of_streams_come_at_the_end_of_the_interpreter() -> None:
    ran = run(
        """
        import logging
        import pyarrow as pa
        import tiledb_sql as ts
        logging.basicConfig(level=logging.DEBUG, format="%(name)s")
        query = ts.sql("SELECT sum(wind) FROM './examples/data/weather_stations' WHERE wind > 3")
        logging.getLogger("tiledb_sql").handlers
        stream = pa.RecordBatchReader.from_stream(query)
        print(stream.read_all().num_rows)
        """
    )
    assert ran.stdout == "1\n"
    assert "tiledb_sql.tiledb_engine.scan.plan" in ran.stderr


def test_warnings_are_seen_without_any_set_up() -> None:
    ran = run(
        """
        import sys
        import tiledb_sql as ts
        ts.sql("SELECT 1").fetchall()
        # Nobody asked for logging, so it isn't imported.
        print("logging" in sys.modules)
        """
    )
    assert (ran.stdout, ran.stderr) == ("False\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_child_repeats_no_record_of_the_parent() -> None:
    ran = run(
        """
        import logging, os, sys, warnings
        warnings.simplefilter("ignore")
        import pyarrow as pa
        import tiledb_sql as ts
        logging.basicConfig(level=logging.WARNING, format="%(process)d %(name)s", stream=sys.stdout)
        logging.getLogger("tiledb_sql").setLevel(logging.DEBUG)
        stream = pa.RecordBatchReader.from_stream(ts.sql("SELECT sum(wind) FROM './examples/data/weather_stations' WHERE wind > 3"))
        stream.read_all()
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            from tiledb_sql._engine import flush_log
            flush_log()
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)
        """
    )
    assert "tiledb_sql.tiledb_engine.scan.plan" in ran.stdout
    lines = [line.split() for line in ran.stdout.splitlines()]
    assert len({process for process, name in lines if name == "tiledb_sql.tiledb_engine.scan.plan"}) == 1
