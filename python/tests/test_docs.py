"""The examples of the documentation and the docstrings are run."""

import doctest
import importlib
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("module", ["tiledb_sql", "tiledb_sql._array", "tiledb_sql._query", "tiledb_sql._session"])
def test_docstrings(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = doctest.testmod(importlib.import_module(module), optionflags=OPTIONS)
    assert result.failed == 0
    assert result.attempted > 0


def test_the_page_on_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.symlink(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "python.md"
    log = logging.getLogger("tiledb_sql")
    level = log.level
    try:
        result = doctest.testfile(str(page), module_relative=False, optionflags=OPTIONS)
    finally:
        log.setLevel(level)
    assert result.failed == 0
    assert result.attempted > 15


def test_the_page_on_tiledb_py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last column of its tables, from the first row to the last."""
    import numpy as np
    import pandas as pd
    import pyarrow

    import tiledb_sql as ts

    os.symlink(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "from-tiledb-py.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ") and line.count(" | ") == 2]
    assert len(rows) > 30
    ts.sql(
        """CREATE EXTERNAL TABLE d (y BIGINT NOT NULL, x BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (y, x)) STORED AS TILEDB LOCATION './d'
        OPTIONS ('tiledb.array_type' 'dense', 'tiledb.dim.y.domain' '[0, 3]', 'tiledb.dim.x.domain' '[0, 1]')"""
    )
    names = {
        "d": ts.open("./d"),
        "df": pd.DataFrame({"x": [1, 2], "v": [0.5, 1.5]}),
        "m": ts.open("./examples/data/metadata"),
        "pyarrow": pyarrow,
        "ts": ts,
        "values": np.array([[1, 2], [3, 4]]),
        "w": ts.open("./examples/data/weather_stations"),
    }
    ran = 0
    for code in (code for row in rows[1:] for code in re.findall("`([^`]+)`", row[2])):
        if code != "tiledb_sql":
            exec(code, names)  # noqa: S102
            ran += 1
    assert ran > 40
    ts.sql("DROP TABLE d")


@pytest.mark.skipif(sys.platform == "win32", reason="the README quotes as a Unix shell does")
def test_the_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^\$ python (-c .*)\n((?:[^`$].*\n)+)", readme, re.MULTILINE)
    assert found is not None
    ran = subprocess.run(f"'{sys.executable}' {found[1]}", shell=True, cwd=ROOT, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == (found[2], "")
