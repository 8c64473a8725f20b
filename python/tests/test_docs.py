"""The examples of the documentation and the docstrings are run."""

import doctest
import importlib
import os
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
    result = doctest.testfile(str(page), module_relative=False, optionflags=OPTIONS)
    assert result.failed == 0
    assert result.attempted > 15
