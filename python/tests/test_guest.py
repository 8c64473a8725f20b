"""A guest in somebody else's process: signals, forks, threads, the end of the interpreter."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import tiledb_sql as ts

ROOT = Path(__file__).resolve().parents[2]
ENDLESS = "SELECT count(*) FROM generate_series(1, 100000) a CROSS JOIN generate_series(1, 100000000) b WHERE a.value % 2 = 0"


def run(code: str, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=timeout, cwd=ROOT
    )


@pytest.mark.parametrize("read", ["fetchall", "to_arrow", "to_pandas", "to_polars", "__repr__"])
def test_ctrl_c(con: ts.Session, read: str) -> None:
    query = con.sql(ENDLESS)
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        getattr(query, read)()
    assert time.monotonic() - began < 3
    assert con.sql("SELECT 1").fetchall() == [(1,)]


def test_ctrl_c_while_an_operator_never_pauses() -> None:
    ran = run(
        """
        import os, signal, threading, time
        import tiledb_sql as ts
        con = ts.connect()
        # No pair of rows meets the condition, so the join computes without a pause.
        stuck = con.sql(
            "SELECT count(*) FROM generate_series(1, 1000000) a JOIN generate_series(1, 1000000) b ON a.value + b.value < 0"
        )
        for _ in range(2):
            threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            began = time.monotonic()
            try:
                stuck.fetchall()
            except KeyboardInterrupt:
                print("interrupted", time.monotonic() - began < 3)
            print(con.sql("SELECT 1").fetchall())
        """
    )
    assert (ran.stdout, ran.stderr) == ("interrupted True\n[(1,)]\n" * 2, "")


def test_import_needs_nothing() -> None:
    ran = run(
        """
        import sys
        import tiledb_sql as ts
        assert ts.sql("SELECT 1 AS n, 'x' AS t").fetchall() == [(1, "x")]
        print(sorted({"numpy", "pyarrow", "pandas", "polars"} & set(sys.modules)))
        """
    )
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_fork() -> None:
    ran = run(
        """
        import os, pickle, sys, time, warnings
        warnings.simplefilter("ignore")
        import tiledb_sql as ts
        WEATHER = "./examples/data/weather_stations"
        con = ts.connect()
        query = con.sql("SELECT 1")
        array, group = con.open(WEATHER), con.open("./examples/data/experiment")
        array.scan().fetchall()
        pickled = pickle.dumps(array)
        assert query.fetchall() == [(1,)]
        child = os.fork()
        if child == 0:
            uses = [
                lambda: con.sql("SELECT 1"), query.fetchall, lambda: query.__arrow_c_stream__(), query.explain, lambda: repr(query),
                lambda: con.register("n", query), lambda: con.unregister("n"), lambda: pickle.dumps(con), lambda: con.open(WEATHER),
                lambda: array.scan(), lambda: array["Nuuk", :], lambda: array.meta["x"], lambda: array.fragments, array.check,
                lambda: group["obs"], ts.connect, lambda: ts.sql("SELECT 2"), lambda: ts.open(WEATHER),
                lambda: pickle.loads(pickled),
            ]
            for number, use in enumerate(uses):
                began = time.monotonic()
                try:
                    use()
                    os._exit(100 + number)
                except RuntimeError as error:
                    if "spawn" not in str(error) or time.monotonic() - began > 1:
                        os._exit(200)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status))
        assert con.sql("SELECT 1").fetchall() == [(1,)]
        # A child that ends as usual drops the objects of the parent, among them a stream that the parent goes on with.
        import pyarrow as pa
        stream = pa.RecordBatchReader.from_stream(con.sql("SELECT value FROM generate_series(1, 1000000)"))
        rows = stream.read_next_batch().num_rows
        child = os.fork()
        if child == 0:
            sys.exit(7)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), rows + stream.read_all().num_rows)
        """
    )
    assert (ran.stdout, ran.stderr) == ("0\n7 1000000\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_children_work_if_the_parent_has_only_imported_the_package() -> None:
    ran = run(
        """
        import os
        import tiledb_sql as ts
        for _ in range(2):
            child = os.fork()
            if child == 0:
                rows = ts.sql("SELECT * FROM './examples/data/weather_stations'").fetchall()
                os._exit(0 if len(rows) == 2000 else 1)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert (ran.stdout, ran.stderr) == ("0\n0\n", "")


def test_the_interpreter_ends_with_open_streams() -> None:
    ran = run(
        """
        import pyarrow as pa
        import tiledb_sql as ts
        reader = pa.RecordBatchReader.from_stream(ts.sql("SELECT value FROM generate_series(1, 100000000000)"))
        print(reader.read_next_batch().num_rows > 0)
        """
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "True\n", "")


def test_the_interpreter_ends_while_threads_wait() -> None:
    ran = run(
        f"""
        import threading, time
        import tiledb_sql as ts
        con = ts.connect()
        for _ in range(4):
            threading.Thread(target=lambda: con.sql("{ENDLESS}").fetchall(), daemon=True).start()
        time.sleep(0.5)
        print("the end")
        """
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "the end\n", "")


def test_the_shell() -> None:
    def shell(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "tiledb_sql._shell", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    ran = shell("-q", "--format", "csv", "-c", "SELECT 6 * 7 AS answer")
    assert (ran.returncode, ran.stdout) == (0, "answer\n42\n")
    failed = shell("-q", "-c", "SELECT nothing")
    assert failed.returncode == 1
    assert failed.stderr.startswith("Error")


def test_other_threads_run_meanwhile(con: ts.Session) -> None:
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    con.sql("SELECT sum(value % 7) FROM generate_series(1, 3000000)").fetchall()
    done.set()
    thread.join()
    assert ticks > 5


def test_many_reads_leave_nothing(con: ts.Session) -> None:
    numbers = pa.table({"n": list(range(10_000))})  # noqa: F841

    def resident() -> int:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    if not os.path.exists("/proc/self/statm"):
        pytest.skip("there is no /proc")
    for _ in range(100):
        con.sql("SELECT sum(n) FROM numbers").fetchall()
    before = resident()
    for _ in range(500):
        con.sql("SELECT * FROM numbers WHERE n % 2 = 0").to_arrow()
    assert resident() - before < 20 << 20
