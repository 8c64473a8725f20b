"""Datasets of xarray."""

import json
import pickle
import random
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tiledb_sql as ts

xr = pytest.importorskip("xarray")
dask = pytest.importorskip("dask.array")

from tiledb_sql._xarray import TileDbBackend  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ELEVATION = str(ROOT / "examples/data/elevation")


def opened(uri: Any, **options: Any) -> Any:
    """The entry point is that of an installed package; without one, the class does the same."""
    engine = "tiledb_sql" if "tiledb_sql" in xr.backends.list_engines() else TileDbBackend
    return xr.open_dataset(uri, engine=engine, **options)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Arrays of libtiledb with dimension labels, and what libtiledb reads from them."""
    folder = tmp_path_factory.mktemp("golden")
    archive = ROOT / "sql-tests/data/arrays/arrays.tar.zst"
    with pa.input_stream(str(archive), compression="zstd") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            if member.name.split("/")[0].split(".")[0] in ("labels_grid", "dimension_labels"):
                tar.extract(member, folder, filter="data")
    return folder


@pytest.fixture
def grid(tmp_path: Path) -> str:
    """A dense array of 7 x 5 cells from (-3, 10) on: a = 100 y + x, b is NULL where x is 12, s is text, day is a date."""
    uri = str(tmp_path / "grid")
    con = ts.connect()
    con.sql(
        f"""CREATE EXTERNAL TABLE grid (y BIGINT NOT NULL, x BIGINT NOT NULL, a INT NOT NULL, b SMALLINT, s VARCHAR, day DATE,
        PRIMARY KEY (y, x)) STORED AS TILEDB LOCATION '{uri}' OPTIONS ('tiledb.array_type' 'dense',
        'tiledb.dim.y.domain' '[-3, 3]', 'tiledb.dim.y.tile' '2', 'tiledb.dim.x.domain' '[10, 14]', 'tiledb.dim.x.tile' '3')"""
    )
    rows = [
        f"({y}, {x}, {100 * y + x}, {'NULL' if x == 12 else x}, '{x}', {'NULL' if x == 12 else f'{chr(39)}2024-01-{x}{chr(39)}'})"
        for y in range(-3, 4)
        for x in range(10, 15)
    ]
    con.sql(f"INSERT INTO grid VALUES {', '.join(rows)}")
    con.sql(f"SELECT * FROM tiledb_set_metadata('{uri}', {{'title': 'a grid', '__tiledb_attr.a.units': 'm'}})")
    return uri


def cells() -> np.ndarray:
    return np.array([[100 * y + x for x in range(10, 15)] for y in range(-3, 4)], dtype=np.int32)


def test_a_dense_array(grid: str) -> None:
    ds = opened(grid)
    assert dict(ds.sizes) == {"y": 7, "x": 5}
    assert set(ds.data_vars) == {"a", "b", "s", "day"}
    # Dimensions that don't begin with 0 have their coordinates.
    assert ds["y"].values.tolist() == list(range(-3, 4))
    assert ds["x"].values.tolist() == list(range(10, 15))
    assert (ds.attrs, ds["a"].attrs) == ({"title": "a grid"}, {"units": "m"})
    assert ds["a"].encoding["preferred_chunks"] == {"y": 2, "x": 3}
    assert ds["a"].dtype == np.int32
    np.testing.assert_array_equal(ds["a"].values, cells())
    assert ds["a"].sel(y=2, x=13).item() == 213
    # Integers that may be NULL are floats.
    np.testing.assert_array_equal(ds["b"].isel(y=0).values, [10, 11, np.nan, 13, 14])
    assert ds["s"].isel(y=6).values.tolist() == ["10", "11", "12", "13", "14"]
    assert ds["day"].dtype.kind == "M"
    assert np.isnat(ds["day"].sel(x=12).values).all()
    assert ds["day"].sel(x=11, y=0).values == np.datetime64("2024-01-11")
    assert set(opened(grid, drop_variables=["b", "s"]).data_vars) == {"a", "day"}


def test_times_of_day_are_differences(con: ts.Session, tmp_path: Path) -> None:
    uri = tmp_path / "clock"
    con.sql(
        f"CREATE EXTERNAL TABLE clock (x BIGINT NOT NULL, t TIME, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{uri}' "
        "OPTIONS ('tiledb.array_type' 'dense', 'tiledb.dim.x.domain' '[0, 1]')"
    )
    con.sql("INSERT INTO clock VALUES (0, '00:00:01.000000001'), (1, NULL)")
    for found in [opened(uri)["t"].values, con.sql(f"SELECT * FROM '{uri}'").to_xarray(["x"])["t"].values]:
        assert found.dtype == "timedelta64[ns]"
        assert found[0] == np.timedelta64(1_000_000_001, "ns") and np.isnat(found[1])


def test_reading_is_lazy(grid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    box = ts._array.AttributeCells.__getitem__

    def getitem(self: Any, key: Any) -> Any:
        read.append(key)
        return box(self, key)

    monkeypatch.setattr(ts._array.AttributeCells, "__getitem__", getitem)
    ds = opened(grid)
    part = ds["a"].isel(y=slice(1, 4), x=2)
    assert read == []
    np.testing.assert_array_equal(part.values, cells()[1:4, 2])
    assert read == [(slice(-2, 1), slice(12, 13))]


def test_random_indexes(grid: str) -> None:
    rng = random.Random(3)
    ds = opened(grid)
    expected = xr.DataArray(cells(), dims=("y", "x"))

    def key(size: int) -> Any:
        kind = rng.randrange(4)
        if kind == 0:
            return rng.randrange(-size, size)
        if kind == 1:
            return [rng.randrange(size) for _ in range(rng.randrange(1, 5))]
        ends = [rng.choice([None, rng.randrange(-size - 1, size + 2)]) for _ in range(2)]
        taken = slice(*ends, rng.choice([None, 1, 2, 3, -1, -2]))
        # xarray itself fails on an empty range with a negative step.
        return taken if range(*taken.indices(size)) else slice(*ends)

    for _ in range(200):
        asked = {"y": key(7), "x": key(5)}
        found = ds["a"].isel(asked)
        np.testing.assert_array_equal(found.values, expected.isel(asked).values, err_msg=str(asked))
    points = {"y": xr.DataArray([0, 6, 3], dims="p"), "x": xr.DataArray([4, 0, 2], dims="p")}
    np.testing.assert_array_equal(ds["a"].isel(points).values, expected.isel(points).values)


def test_dask(grid: str) -> None:
    ds = opened(grid, chunks={})
    assert ds["a"].chunks == ((2, 2, 2, 1), (3, 2))
    assert int(ds["a"].sum().compute(scheduler="threads")) == int(cells().sum())
    # Chunks are pickled for other processes, and opened again there.
    assert int(ds["a"].sum().compute(scheduler="processes", num_workers=2)) == int(cells().sum())
    again = pickle.loads(pickle.dumps(opened(grid)))
    np.testing.assert_array_equal(again["a"].values, cells())


def test_labels_are_coordinates(golden: Path) -> None:
    ds = opened(golden / "labels_grid")
    assert set(ds.coords) == {"y", "column", "northing", "easting"}
    facts = (golden / "labels_grid.expected.jsonl").read_text().splitlines()
    assert facts
    rows = [json.loads(line) for line in facts]
    con = ts.connect()
    uri = golden / "labels_grid"
    for name, dimension in [("column", "x"), ("northing", "y"), ("easting", "x")]:
        assert ds[name].dims == (dimension,)
        # The labels of all cells, as SQL has them.
        pairs = con.sql(f"SELECT DISTINCT {dimension}, {name} FROM '{uri}' ORDER BY {dimension}").fetchall()
        low = int(con.open(uri).dims[[d.name for d in con.open(uri).dims].index(dimension)].domain[0])  # type: ignore[union-attr,index]
        assert [ds[name].values[at - low] for at, _ in pairs] == [label for _, label in pairs]
    assert len(rows) > 10
    depth = opened(golden / "dimension_labels")
    assert depth["depth"].dims == ("d",)
    assert depth["d"].values.tolist() == list(range(1, 11))


def test_groups(tmp_path: Path) -> None:
    data = xr.Dataset(
        {
            "temperature": (("time", "x"), np.arange(12.0).reshape(3, 4), {"units": "K", "levels": np.array([1, 2, 4])}),
            "count": (("time", "x"), np.arange(12, dtype="uint8").reshape(3, 4)),
            "name": ("x", np.array(["a", None, "", "é"], dtype=object)),
            "fixed": ("x", np.array(["a", "bc", "", "é"])),
            "flag": ("x", np.array([True, False, True, False])),
            "crs": ((), 7, {"code": "EPSG:4326"}),
        },
        {
            "time": np.array(["2024-01-01", "2024-01-03", "NaT"], dtype="datetime64[ns]")[[0, 1, 1]],
            "x": ("x", [1.5, 2.5, -0.5, np.nan], {"axis": "X"}),
            "lat": (("x",), np.arange(4, dtype="float32")),
            "run": ((), np.datetime64("2024-02-29T01:02:03", "ms")),
        },
        {"title": "it's", "scale": 0.5, "missing": float("nan")},
    )
    uri = tmp_path / "group"
    group = ts.from_xarray(data, uri, tile={"time": 2})
    assert sorted(group.members) == ["crs", "lat", "run", "time", "time_x", "x", "x_"]
    found = opened(uri)
    assert found["temperature"].encoding["preferred_chunks"]["time"] == 2
    assert set(found.coords) == set(data.coords)
    assert {name: variable.dims for name, variable in found.variables.items()} == {n: v.dims for n, v in data.variables.items()}
    assert str(found.attrs.pop("missing")) == str(data.attrs.pop("missing")) == "nan"
    data["fixed"] = data["fixed"].astype(object)
    xr.testing.assert_identical(found.load(), data)
    assert found["count"].dtype == np.uint8 and found["run"].dtype == "datetime64[ms]"
    # It is a table in SQL, too.
    assert ts.sql(f"SELECT sum(temperature), max(count) FROM '{uri}/time_x'").fetchall() == [(66.0, 11)]
    with pytest.raises(FileExistsError):
        ts.from_xarray(data, uri)


def test_chunks_are_written_one_after_another(tmp_path: Path) -> None:
    numbers = dask.arange(10_000, chunks=1_000).reshape(100, 100).rechunk((10, 100))
    data = xr.DataArray(numbers, dims=("y", "x"), name="n")
    ts.from_xarray(data, tmp_path / "n")
    found = opened(tmp_path / "n", chunks={})
    assert found["n"].chunks == ((10,) * 10, (100,))
    np.testing.assert_array_equal(found["n"].values, np.arange(10_000).reshape(100, 100))
    array = ts.open(tmp_path / "n" / "n")
    assert isinstance(array, ts.Array)
    assert len(array.fragments) == 1


@pytest.mark.parametrize(("kind", "unit"), [("DATE", "D"), ("TIMESTAMP(0)", "s"), ("TIMESTAMP(9)", "ns")])
def test_times_as_dimensions(tmp_path: Path, kind: str, unit: str) -> None:
    uri = tmp_path / "rain"
    con = ts.connect()
    times = np.datetime64("2024-02-27", unit) + np.arange(5) * np.timedelta64(1, unit)
    con.sql(
        f"""CREATE EXTERNAL TABLE rain (time {kind} NOT NULL, v DOUBLE NOT NULL, PRIMARY KEY (time)) STORED AS TILEDB
        LOCATION '{uri}' OPTIONS ('tiledb.array_type' 'dense', 'tiledb.dim.time.domain' '[{times[0]}, {times[-1]}]',
        'tiledb.dim.time.tile' '2')"""
    )
    con.sql("INSERT INTO rain VALUES " + ", ".join(f"('{time}', {i})" for i, time in enumerate(times)))
    ds = opened(uri, chunks={})
    assert ds["time"].values.tolist() == times.astype("datetime64[s]" if unit == "D" else times.dtype).tolist()
    assert ds["v"].chunksizes["time"] == (2, 2, 1)
    np.testing.assert_array_equal(ds["v"].values, np.arange(5))
    np.testing.assert_array_equal(ds["v"].isel(time=slice(1, 5, 2)).values, [1, 3])
    assert ds["v"].sel(time=times[3]).values == 3


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (xr.Dataset({"z": ("x", np.zeros(3, "complex64"))}), "z has the type complex64"),
        (xr.Dataset({"z": ("x", np.zeros(3, "timedelta64[s]"))}), "z has the type timedelta64"),
        (xr.Dataset({"z": ("x", np.zeros(0))}), "dimension x has no coordinates"),
        (xr.Dataset({5: ("x", np.zeros(3))}), "5"),
        (xr.Dataset({"a/b": ("x", np.zeros(3))}), "slash"),
    ],
)
def test_what_arrays_do_not_have(tmp_path: Path, data: Any, words: str) -> None:
    with pytest.raises(ts.InvalidError, match=words):
        ts.from_xarray(data, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_cannot_be_opened(tmp_path: Path, weather: str, grid: str) -> None:
    with pytest.raises(FileNotFoundError):
        opened(tmp_path / "nothing")
    with pytest.raises(ts.InvalidError, match="sparse"):
        opened(weather)
    with pytest.raises(ts.InvalidError, match="no dense array"):
        opened(ROOT / "examples/data/experiment")
    group = tmp_path / "both"
    ts.sql(f"SELECT * FROM tiledb_create_group('{group}')")
    ts.sql(f"SELECT * FROM tiledb_add_member('{group}', '{grid}', name => 'one')")
    ts.sql(f"SELECT * FROM tiledb_add_member('{group}', '{grid}', name => 'two')")
    ts.sql("SET tiledb.external_members = 'same_store'")
    try:
        with pytest.raises(ts.InvalidError, match="two arrays.*variable a"):
            opened(group)
        ts.from_xarray(xr.Dataset({"a": ("y", np.arange(7))}), tmp_path / "other")
        ts.sql(f"SELECT * FROM tiledb_remove_member('{group}', 'two')")
        ts.sql(f"SELECT * FROM tiledb_add_member('{group}', '{tmp_path}/other/a', name => 'two')")
        with pytest.raises(ts.InvalidError, match="share the dimension y"):
            opened(group)
    finally:
        ts.sql("SET tiledb.external_members = 'none'")


def test_guessing(weather: str, tmp_path: Path) -> None:
    backend = TileDbBackend()
    assert backend.guess_can_open(ELEVATION)
    assert backend.guess_can_open("s3://bucket/elevation.tdb/")
    assert backend.guess_can_open(ROOT / "examples/data/experiment")
    assert not backend.guess_can_open(tmp_path)
    assert not backend.guess_can_open("file.nc")
    assert not backend.guess_can_open(object())


def test_the_past(con: ts.Session, grid: str) -> None:
    con.sql(f"INSERT INTO '{grid}' (y, x, a) VALUES (0, 10, 7)")
    time = max(f["timestamp_start"] for f in con.open(grid).fragments)  # type: ignore[union-attr]
    before = int(time.timestamp() * 1000) - 1 if time.tzinfo else int((time - type(time)(1970, 1, 1)).total_seconds() * 1000) - 1
    assert opened(grid)["a"].sel(y=0, x=10).item() == 7
    assert opened(grid, at=before)["a"].sel(y=0, x=10).item() == 10


def test_rows_that_are_a_grid(con: ts.Session) -> None:
    rows = con.sql(
        "SELECT b.value AS x, a.value * 10 AS y, a.value + b.value AS v, CASE WHEN a.value = 1 THEN NULL ELSE b.value END AS n "
        "FROM generate_series(0, 2) a CROSS JOIN generate_series(5, 8) b ORDER BY v, n"
    )
    grid = rows.to_xarray(dims=["y", "x"])
    assert dict(grid.sizes) == {"y": 3, "x": 4}
    assert grid["y"].values.tolist() == [0, 10, 20]
    np.testing.assert_array_equal(grid["v"].values, [[y + x for x in range(5, 9)] for y in range(3)])
    np.testing.assert_array_equal(grid["n"].values, [[5, 6, 7, 8], [np.nan] * 4, [5, 6, 7, 8]])
    assert rows.to_xarray(dims=["x", "y"])["v"].dims == ("x", "y")
    assert dict(con.sql("SELECT 1 AS x, 2 AS v WHERE 1 = 2").to_xarray(["x"]).sizes) == {"x": 0}


@pytest.mark.parametrize(
    ("where", "dims", "words"),
    [
        ("NOT (y = 1 AND x = 2) AND NOT (y = 2 AND x = 0)", ["y", "x"], "3 x 4.*no row is at y = 1, x = 2"),
        ("true", ["y"], "two rows are at y = 0"),
        ("true", ["y", "z"], "no column is called 'z'.*y, x, v"),
        ("true", "y", "list of columns"),
        ("true", [], "list of columns"),
    ],
)
def test_rows_that_are_no_grid(con: ts.Session, where: str, dims: Any, words: str) -> None:
    query = con.sql(
        f"SELECT * FROM (SELECT a.value AS y, b.value AS x, 1 AS v FROM generate_series(0, 2) a CROSS JOIN generate_series(0, 3) b) WHERE {where}"
    )
    with pytest.raises(ts.InvalidError, match=words):
        query.to_xarray(dims)


def test_dimensions_without_null(con: ts.Session) -> None:
    with pytest.raises(ts.InvalidError, match="x is NULL.*IS NOT NULL"):
        con.sql("SELECT * FROM (VALUES (1, 2), (NULL, 3)) t(x, v)").to_xarray(["x"])
