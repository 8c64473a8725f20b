"""Libraries that aren't installed."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "code", "extra"),
    [
        ("pyarrow", "ts.sql('SELECT 1').dataset()", "arrow"),
        ("pyarrow", "ts.open('./examples/data/elevation').dataset()", "arrow"),
        ("polars", "ts.sql('SELECT 1').lazy()", "polars"),
        ("xarray", "ts.sql('SELECT 1 AS n').to_xarray(['n'])", "xarray"),
        ("xarray", "ts.from_xarray(None, 'new')", "xarray"),
        ("anndata", "ts.open('./examples/data/experiment').to_anndata()", "anndata"),
    ],
)
def test_the_error_says_how_to_install_them(module: str, code: str, extra: str) -> None:
    from conftest import ROOT

    program = f"""
import sys
sys.modules[{module!r}] = None
import tiledb_sql as ts
try:
    {code}
except ImportError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert ran.stdout == f"this needs {module}, which isn't installed: pip install 'tiledb-sql[{extra}]'\n", ran.stderr
