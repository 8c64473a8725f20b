"""How far statements are, shown while they run."""

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import tiledb_sql as ts

# About two seconds in any build: rows of an array, joined with many numbers.
SLOW = """SELECT sum(temperature * (b.value % 7)) FROM '{weather}' AS w CROSS JOIN generate_series(1, {rows}) b WHERE b.value % 3 < 2"""


@pytest.fixture(scope="module")
def rows() -> int:
    """Numbers that keep the machine busy for more than two seconds."""
    return 10_000 if is_debug() else 400_000


def is_debug() -> bool:
    try:
        ts.sql("SELECT panic_for_tests(value) FROM generate_series(1, 0)")
    except ts.Error:
        return False
    return True


def test_a_function_gets_reports(con: ts.Session, weather: str, rows: int) -> None:
    reports: "list[tuple[ts.Progress, int]]" = []

    def report(progress: ts.Progress) -> None:
        reports.append((progress, threading.get_ident()))

    query = con.sql(SLOW.format(weather=weather, rows=rows), progress=report)
    assert reports == []
    query.fetchall()
    assert len(reports) > 1
    assert {thread for _, thread in reports} == {threading.get_ident()}
    assert [progress.done for progress, _ in reports] == [False] * (len(reports) - 1) + [True]
    seconds = [progress.seconds for progress, _ in reports]
    assert seconds == sorted(seconds) and seconds[0] >= 1
    fractions = [progress.fraction for progress, _ in reports]
    # The plan scans an array, whose share of work is known.
    assert any(fraction is not None for fraction in fractions)
    assert all(0 <= fraction <= 1 for fraction in fractions if fraction is not None)
    assert " s" in reports[0][0].text


def test_fast_statements_report_nothing(weather: str) -> None:
    reports: "list[ts.Progress]" = []
    con = ts.connect(progress=reports.append)
    con.sql(f"SELECT count(*) FROM '{weather}'").fetchall()
    assert reports == []


def test_an_exception_ends_the_statement(con: ts.Session) -> None:
    def report(progress: ts.Progress) -> None:
        raise LookupError("enough")

    endless = con.sql("SELECT count(*) FROM generate_series(1, 100000) a CROSS JOIN generate_series(1, 100000000) b WHERE a.value % 2 = 0", progress=report)
    with pytest.raises(LookupError, match="enough"):
        endless.fetchall()
    assert con.sql("SELECT 1").fetchall() == [(1,)]
    with pytest.raises(TypeError, match="progress"):
        ts.connect(progress=5)  # type: ignore[arg-type]


def run_in_terminal(code: str) -> "tuple[str, str]":
    """What a program prints on stdout, and what a terminal gets from its stderr."""
    import pty

    main, side = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=side)
    os.close(side)
    shown = b""
    while True:
        try:
            more = os.read(main, 4096)
        except OSError:
            break
        if not more:
            break
        shown += more
    os.close(main)
    assert child.stdout is not None
    printed = child.stdout.read().decode()
    assert child.wait() == 0, shown
    return printed, shown.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_terminal_shows_one_line(weather: str, rows: int) -> None:
    query = SLOW.format(weather=weather, rows=rows)
    for option, is_shown in [("True", True), ("None", True), ("False", False)]:
        printed, shown = run_in_terminal(
            f"""
            import tiledb_sql as ts
            print(len(ts.connect(progress={option}).sql({query!r}).fetchall()))
            """
        )
        assert printed == "1\n"
        assert ("%" in shown and " s" in shown) == is_shown, shown
        assert "\n" not in shown
        # The line is cleared.
        assert not is_shown or shown.endswith("\r" + " " * 79 + "\r")


def test_a_file_gets_nothing(weather: str, rows: int, tmp_path: Path) -> None:
    query = SLOW.format(weather=weather, rows=rows)
    code = f"import tiledb_sql as ts; print(len(ts.sql({query!r}).fetchall()))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("1\n", "")


def test_notebooks_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import types

    from tiledb_sql import _progress

    class ZMQInteractiveShell:
        pass

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: None))
    assert _progress.reporter(None) is None
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=ZMQInteractiveShell))
    report = _progress.reporter(None)
    assert report is not None
    report(0.5, 2.0, "2 s", False)
    report(0.5, 2.0, "2 s", True)
    assert "50 %  2 s" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert sys.stderr.getvalue().endswith(" \r")  # type: ignore[attr-defined]


def test_maintenance_reports_its_own_progress(con: ts.Session, tmp_path: Path) -> None:
    # What it has merged is shown where the statement takes longer than a second, which this one does not.
    con.sql(f"CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{tmp_path / 't'}'")
    for x in range(3):
        con.sql(f"INSERT INTO t VALUES ({x})")
    reports: "list[ts.Progress]" = []
    assert con.sql("SELECT * FROM tiledb_consolidate('t')", progress=reports.append).fetchall()
    assert reports == []
    assert con.sql("SELECT count(*) FROM t").fetchall() == [(3,)]
