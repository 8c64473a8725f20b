"""What all tests share."""

from pathlib import Path

import pytest

import tiledb_sql as ts

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def con() -> ts.Session:
    return ts.connect(memory_limit="1g")


@pytest.fixture
def weather() -> str:
    """An array of the examples: 3 stations, hourly in 2024."""
    return str(ROOT / "examples/data/weather_stations")
