"""Arrays without SQL."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tiledb_sql as ts

ROOT = Path(__file__).resolve().parents[2]
ELEVATION = ROOT / "examples/data/elevation"
EXPERIMENT = ROOT / "examples/data/experiment"


@pytest.fixture
def grid(con: ts.Session, tmp_path: Path) -> ts.Array:
    """A dense array of 6 x 4 cells, of which one row was never written: a = 10 y + x, and b is NULL where x is 2."""
    uri = tmp_path / "grid"
    con.sql(
        f"""CREATE EXTERNAL TABLE grid (y BIGINT NOT NULL, x BIGINT NOT NULL, a BIGINT NOT NULL, b DOUBLE, PRIMARY KEY (y, x))
        STORED AS TILEDB LOCATION '{uri}' OPTIONS ('tiledb.array_type' 'dense', 'tiledb.dim.y.domain' '[-1, 4]',
        'tiledb.dim.y.tile' '2', 'tiledb.dim.x.domain' '[0, 3]', 'tiledb.dim.x.tile' '3', 'tiledb.attr.a.fill' '-7')"""
    )
    rows = [f"({y}, {x}, {10 * y + x}, {'NULL' if x == 2 else x / 2})" for y in range(-1, 4) for x in range(4)]
    con.sql(f"INSERT INTO grid VALUES {', '.join(rows)}")
    array = con.open(uri)
    assert isinstance(array, ts.Array)
    return array


def expected(ys: range, xs: range) -> "np.ndarray":
    return np.array([[10 * y + x if y < 4 else -7 for x in xs] for y in ys])


def test_what_an_array_is(grid: ts.Array) -> None:
    assert grid.is_dense
    assert grid.shape == (6, 4)
    assert [d.name for d in grid.dims] == ["y", "x"]
    assert grid.dims[0].domain == ("-1", "4")
    assert [(a.name, a.nullable) for a in grid.attrs] == [("a", False), ("b", True)]
    assert len(grid.fragments) == 1
    assert "dense" in repr(grid)


def test_boxes(grid: ts.Array) -> None:
    a = grid["a"]
    np.testing.assert_array_equal(a[:], expected(range(-1, 5), range(4)))
    np.testing.assert_array_equal(a[0:2, 1:3], expected(range(0, 2), range(1, 3)))
    np.testing.assert_array_equal(a[-1:5, 3], expected(range(-1, 5), range(3, 4))[:, 0])
    np.testing.assert_array_equal(a[2], expected(range(2, 3), range(4))[0])
    np.testing.assert_array_equal(a[..., 1], expected(range(-1, 5), range(1, 2))[:, 0])
    assert a[3, 3] == 33
    assert a[0:0].shape == (0, 4)
    assert a[np.int64(1) : np.int64(3), :].shape == (2, 4)
    assert a[:].dtype == np.int64
    cells = grid[0:2, 1:3]
    assert sorted(cells) == ["a", "b"]
    np.testing.assert_array_equal(cells["b"].mask, [[False, True]] * 2)
    np.testing.assert_array_equal(cells["b"].data[:, 0], [0.5, 0.5])
    # Ends are included here.
    np.testing.assert_array_equal(grid.loc[0:2, 1:3]["a"], expected(range(0, 3), range(1, 4)))


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (7, "y.*-1 to 4"),
        (slice(-2, 1), "y.*-1 to 4"),
        ((0, 4), "x.*0 to 3"),
        ((0, 0, 0), "2 dimensions"),
        (slice(0, 4, 2), "step"),
        (1.5, "isn't an integer"),
    ],
)
def test_wrong_indexes(grid: ts.Array, key: object, words: str) -> None:
    with pytest.raises(IndexError, match=words):
        grid["a"][key]


def test_unknown_attributes(grid: ts.Array) -> None:
    with pytest.raises(KeyError, match="a, b"):
        grid["c"]


def test_sparse_cells(con: ts.Session, weather: str) -> None:
    array = con.open(weather)
    assert isinstance(array, ts.Array)
    first, last = np.datetime64("2024-01-02"), np.datetime64("2024-01-03")
    found = array["Nuuk", first:last]
    count = con.sql(
        f"SELECT count(*) FROM '{weather}' WHERE station = 'Nuuk' AND time >= '2024-01-02' AND time < '2024-01-03'"
    ).fetchone()
    assert count is not None
    assert len(found["temperature"]) == count[0] > 0
    assert set(found["station"]) == {"Nuuk"}
    assert found["time"].dtype == np.dtype("datetime64[ns]")
    assert set(array.loc[["Nuuk", "Bergen"], first:last]["station"]) == {"Nuuk", "Bergen"}
    assert len(array.loc[[], :]["station"]) == 0
    assert array.nonempty_domain is not None
    assert array.nonempty_domain["station"] == ("Bergen", "Zurich")
    with pytest.raises(ts.InvalidError, match="aren't integers"):
        array.shape


def test_scans(con: ts.Session, weather: str) -> None:
    array = con.open(weather)
    assert isinstance(array, ts.Array)
    cold = array.scan(["station", "temperature"], where="temperature < $1 AND station <> $2", params=[-15, "Bergen"])
    assert {station for station, _ in cold} == {"Nuuk"}
    assert array.scan(limit=3).to_pandas().shape == (3, 6)
    # Without the correction that was written later.
    earlier = con.open(weather, at=1000)
    assert isinstance(earlier, ts.Array)
    assert earlier.scan(where="note IS NOT NULL").fetchall() != array.scan(where="note IS NOT NULL").fetchall()


def test_writing(con: ts.Session, tmp_path: Path) -> None:
    uri = str(tmp_path / "it's here")
    quoted = uri.replace("'", "''")
    con.sql(f"CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, v DOUBLE, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{quoted}'")
    array = con.open(uri)
    assert isinstance(array, ts.Array)
    assert array.nonempty_domain is None
    # Rows come in no order, and the keys sort them.
    assert array.append(pd.DataFrame({"v": [0.5, None], "x": [2, 1]})) == 2
    assert array.append({"x": [3], "v": [1.5]}) == 1
    assert sorted(array.scan()) == [(1, None), (2, 0.5), (3, 1.5)]
    assert array.delete("x = $1", [2]) == 1
    assert array.nonempty_domain == {"x": (1, 3)}
    assert array.consolidate(dry_run=True).fetchall()
    assert len(array.fragments) == 2
    assert "done" in repr(array.consolidate())
    array.vacuum(min_age="0")
    assert array.check().fetchall() == []
    assert sorted(array.scan()) == [(1, None), (3, 1.5)]
    with pytest.raises(ts.Error):
        array.append({"x": [4], "w": [1.0]})
    assert sorted(array.scan()) == [(1, None), (3, 1.5)]


def test_metadata(grid: ts.Array) -> None:
    meta = grid.meta
    assert dict(meta) == {}
    meta["title"] = "it's a grid ∑"
    meta["count"] = -5
    meta["scale"] = 0.5
    assert dict(meta) == {"title": "it's a grid ∑", "count": -5, "scale": 0.5}
    meta["count"] = 6
    del meta["scale"]
    assert dict(grid.meta) == {"title": "it's a grid ∑", "count": 6}
    with pytest.raises(KeyError):
        del meta["scale"]
    with pytest.raises(KeyError):
        meta["nothing"]
    with pytest.raises(ts.InvalidError):
        meta["x"] = object()


def test_groups(con: ts.Session) -> None:
    group = con.open(EXPERIMENT)
    assert isinstance(group, ts.Group)
    assert "ms" in group.members
    array = group["ms/RNA/X/data"]
    assert isinstance(array, ts.Array)
    assert not array.is_dense
    with pytest.raises(KeyError, match="ms/RNA"):
        group["nothing"]


def test_missing_arrays(con: ts.Session, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        con.open(tmp_path / "nothing")


def test_times(con: ts.Session, weather: str) -> None:
    for at in [1000, "1970-01-01T00:00:01Z", dt.datetime(1970, 1, 1, 0, 0, 1), dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc)]:
        array = con.open(weather, at=at)
        assert isinstance(array, ts.Array)
        assert len(array.fragments) == 1
    with pytest.raises(ts.InvalidError):
        con.open(weather, at=[])  # type: ignore[arg-type]


def test_elevation_is_what_sql_says(con: ts.Session) -> None:
    array = con.open(ELEVATION)
    assert isinstance(array, ts.Array)
    name = array.attrs[0].name
    low, high = (int(bound) for bound in array.dims[0].domain or ())
    values = array[name][low : low + 5, :]
    rows = con.sql(
        f"SELECT {name} FROM tiledb_scan('{ELEVATION}', empty_cells => 'domain') WHERE y BETWEEN {low} AND {low + 4} ORDER BY y, x"
    ).fetchall()
    np.testing.assert_array_equal(np.ma.getdata(values).ravel(), [value for (value,) in rows])
    assert high > low
