"""The memory of the process. ``LONG=1`` runs what takes minutes."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tiledb_sql as ts

LONG = bool(os.environ.get("LONG"))


def run(code: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=600, env={**os.environ, **env}
    )


GREEDY = "SELECT array_agg(value) FROM generate_series(1, 3000000)"


def test_all_sessions_of_a_process_share_its_limit() -> None:
    ran = run(
        f"""
        import tiledb_sql as ts
        # Each of them may take more than there is.
        for session in [ts.connect(memory_limit="1g"), ts.connect()]:
            try:
                session.sql("{GREEDY}").fetchone()
            except MemoryError as error:
                print(error.kind)
        small = "SELECT sum(value) FROM generate_series(1, 10)"
        print(session.sql(small).fetchall())
        """,
        TILEDB_SQL_MEMORY_LIMIT="8m",
    )
    assert (ran.stdout, ran.stderr) == ("out_of_memory\nout_of_memory\n[(55,)]\n", "")


def test_the_limit_of_a_session_lies_within_that_of_the_process() -> None:
    ran = run(
        f"""
        import tiledb_sql as ts
        ts.connect().sql("{GREEDY}").fetchone()
        small = ts.connect(memory_limit="8m")
        try:
            small.sql("{GREEDY}").fetchone()
        except ts.MemoryLimitError as error:
            print(error.kind)
        """,
        TILEDB_SQL_MEMORY_LIMIT="1g",
    )
    assert (ran.stdout, ran.stderr) == ("out_of_memory\n", "")


def test_a_limit_that_is_no_size_is_named() -> None:
    ran = run(
        """
        import tiledb_sql as ts
        try:
            ts.sql("SELECT 1")
        except ValueError as error:
            print(error)
        """,
        TILEDB_SQL_MEMORY_LIMIT="much",
    )
    assert "TILEDB_SQL_MEMORY_LIMIT" in ran.stdout and "'much'" in ran.stdout


@pytest.mark.skipif(not LONG, reason="takes minutes: LONG=1 runs it")
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="there is no /proc")
def test_ten_thousand_reads_leave_nothing(con: ts.Session, weather: str) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    array = con.open(weather)
    assert isinstance(array, ts.Array)

    def read(number: int) -> None:
        kind = number % 4
        if kind == 0:
            con.sql(f"SELECT * FROM '{weather}' WHERE extract(hour FROM time) < $1", [5]).to_arrow()
        elif kind == 1:
            array.scan(["temperature"], where="wind > $1", params=[number % 200]).fetchall()
        elif kind == 2:
            array["Nuuk", "2024-01-02":"2024-01-05"]  # type: ignore[misc]
        else:
            con.sql(f"SELECT station, max(wind) FROM '{weather}' GROUP BY station ORDER BY 2").to_pandas()

    for number in range(1_000):
        read(number)
    before = resident()
    for number in range(10_000):
        read(number)
    assert resident() - before < 20 << 20
