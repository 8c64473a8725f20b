"""Boxes of dense arrays: read tile by tile, and written by assignment."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledb_sql as ts

COLUMNS = "a DOUBLE NOT NULL, i SMALLINT NOT NULL, t TIMESTAMP(3) NOT NULL"


def create(
    uri: Path,
    dims: dict[str, tuple[int, int, int]],
    columns: str = COLUMNS,
    kind: str = "BIGINT",
    **options: str,
) -> ts.Array:
    """A dense array with the domains and tile extents of its dimensions."""
    settings = {"array_type": "dense", **options}
    for name, (low, high, tile) in dims.items():
        settings |= {f"dim.{name}.domain": f"[{low}, {high}]", f"dim.{name}.tile": str(tile)}
    pairs = ", ".join(f"'tiledb.{key}' '{value}'" for key, value in settings.items())
    named = ", ".join(f"{name} {kind}" for name in dims)
    con = ts.connect()
    con.sql(
        f"CREATE EXTERNAL TABLE made ({named}, {columns}, PRIMARY KEY ({', '.join(dims)})) "
        f"STORED AS TILEDB LOCATION '{uri}' OPTIONS ({pairs})"
    )
    array = con.open(str(uri))
    assert isinstance(array, ts.Array)
    return array


def values(shape: tuple[int, ...], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    times = rng.integers(-(10**12), 10**12, shape).astype("datetime64[ms]")
    return {"a": rng.random(shape), "i": rng.integers(-99, 99, shape).astype(np.int16), "t": times}


@pytest.mark.parametrize("cell_order", ["row-major", "col-major"])
@pytest.mark.parametrize("tile_order", ["row-major", "col-major"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_boxes_are_what_was_assigned(tmp_path: Path, cell_order: str, tile_order: str, dims: int) -> None:
    """Random boxes are assigned over each other, and read back, against an array in memory."""
    rnd = random.Random(f"{cell_order} {tile_order} {dims}")
    domains = {}
    for name in "xyz"[:dims]:
        low = rnd.randint(-20, 20)
        high = low + rnd.randint(3, 17)
        domains[name] = (low, high, rnd.randint(1, high - low + 1))
    array = create(tmp_path / "a", domains, cell_order=cell_order, tile_order=tile_order)
    shape = tuple(high - low + 1 for low, high, _ in domains.values())
    lows = [low for low, _, _ in domains.values()]
    expected = {
        "a": np.full(shape, np.nan),
        "i": np.full(shape, np.iinfo(np.int16).min, np.int16),
        "t": np.full(shape, np.datetime64("NaT", "ms")),
    }

    def random_box() -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        places = []
        for side in shape:
            start = rnd.randint(0, side - 1)
            places.append(slice(start, rnd.randint(start + 1, side)))
        keys = tuple(slice(place.start + low, place.stop + low) for place, low in zip(places, lows))
        return keys, tuple(places)

    for step in range(4):
        keys, places = random_box()
        given = values(tuple(place.stop - place.start for place in places), step)
        array[keys] = given
        for name, cells in given.items():
            expected[name][places] = cells
        for _ in range(5):
            keys, places = random_box()
            found = array[keys]
            for name, cells in found.items():
                assert cells.dtype == expected[name].dtype
                np.testing.assert_array_equal(cells, expected[name][places])
    whole = array[...]
    for name, cells in whole.items():
        np.testing.assert_array_equal(cells, expected[name])
        np.testing.assert_array_equal(array[name][:], expected[name])


def test_each_type_keeps_its_values(tmp_path: Path) -> None:
    types = {
        "TINYINT": "int8", "SMALLINT": "int16", "INT": "int32", "BIGINT": "int64",
        "TINYINT UNSIGNED": "uint8", "SMALLINT UNSIGNED": "uint16", "INT UNSIGNED": "uint32", "BIGINT UNSIGNED": "uint64",
        "REAL": "float32", "DOUBLE": "float64",
    }  # fmt: skip
    for number, (sql, dtype) in enumerate(types.items()):
        array = create(tmp_path / str(number), {"x": (0, 5, 4)}, f"v {sql} NOT NULL")
        if dtype.startswith("float"):
            cells = np.array([np.nan, -0.0, np.inf, -np.inf, np.finfo(dtype).max, np.finfo(dtype).tiny], dtype)
        else:
            limits = np.iinfo(dtype)
            cells = np.array([limits.min, limits.max, 0, 1, limits.min + 1, limits.max - 1], dtype)
        array["v"][:] = cells
        found = array["v"][:]
        assert found.dtype == cells.dtype
        assert found.flags.writeable
        assert found.tobytes() == cells.tobytes()


def test_domains_at_the_limits_of_types(tmp_path: Path) -> None:
    for number, (kind, low, high) in enumerate(
        [("BIGINT", -(2**63), -(2**63) + 9), ("BIGINT", 2**63 - 20, 2**63 - 11), ("TINYINT", -128, 126), ("TINYINT UNSIGNED", 1, 255), ("BIGINT UNSIGNED", 2**64 - 30, 2**64 - 21)]
    ):
        array = create(tmp_path / str(number), {"x": (low, high, 5 if high - low < 99 else 1)}, "v INT NOT NULL", kind)
        cells = np.arange(array.shape[0], dtype=np.int32)
        array["v"][:] = cells
        np.testing.assert_array_equal(array["v"][:], cells)
        np.testing.assert_array_equal(array.loc[low + 2 : high]["v"], cells[2:])


@pytest.mark.parametrize("cell_order", ["row-major", "col-major"])
def test_nullable_numbers_are_masked(tmp_path: Path, cell_order: str) -> None:
    array = create(tmp_path / "a", {"x": (0, 6, 3), "y": (0, 8, 4)}, "v INT, t TIMESTAMP(3)", cell_order=cell_order)
    rng = np.random.default_rng(1)
    cells = np.ma.MaskedArray(rng.integers(-9, 9, (7, 9)).astype(np.int32), mask=rng.random((7, 9)) < 0.4)
    times = np.ma.MaskedArray(cells.data.astype("datetime64[ms]"), mask=cells.mask)
    array[...] = {"v": cells, "t": times}
    for key in [(slice(None), slice(None)), (slice(2, 6), slice(3, 4)), (slice(6, 7), 8), (1, slice(0, 9))]:
        found = array[key]
        for name, expected in [("v", cells), ("t", times)]:
            assert isinstance(found[name], np.ma.MaskedArray)
            np.testing.assert_array_equal(np.ma.getmaskarray(found[name]), expected[key].mask)
            np.testing.assert_array_equal(found[name].compressed(), expected[key].compressed())
    # Nothing was written here, so the cells are NULL, the fill value of what may be NULL.
    empty = create(tmp_path / "b", {"x": (0, 6, 3)}, "v INT")
    assert np.ma.getmaskarray(empty["v"][:]).all()


def test_nullable_text_and_enumerated_attributes(tmp_path: Path) -> None:
    array = create(tmp_path / "a", {"x": (0, 3, 2)}, "s VARCHAR, n INT NOT NULL")
    array[0:3] = {"s": np.array(["", None, "é"], object), "n": [1, 2, 3]}
    found = array[0:3]
    assert found["s"].tolist() == ["", None, "é"]
    assert found["n"].tolist() == [1, 2, 3]


def test_tiles_without_values(tmp_path: Path) -> None:
    """The first tiles hold nothing but NULL, and masks hide numbers that the type doesn't hold."""
    array = create(tmp_path / "a", {"x": (0, 7, 2)}, "s VARCHAR, n SMALLINT")
    text = np.array([None, None, None, "a", "", None, None, None], object)
    numbers = np.ma.MaskedArray([10**6, 1, 2, 3, 4, 5, 6, -(10**6)], mask=[1, 0, 1, 1, 0, 0, 0, 1])
    array[...] = {"s": text, "n": numbers}
    assert array["s"][:].tolist() == text.tolist()
    assert array["n"][:].tolist() == numbers.tolist()
    array[0:4] = {"s": np.array([None] * 4, object), "n": np.ma.masked_all(4, np.int64)}
    assert array["s"][:].tolist() == [None] * 4 + ["", None, None, None]
    assert array["n"][:].tolist() == [None] * 4 + [4, 5, 6, None]


def test_one_value_stands_for_all_cells(tmp_path: Path) -> None:
    array = create(tmp_path / "a", {"x": (0, 9, 4), "y": (0, 9, 3)}, "v INT NOT NULL")
    array[...] = 7
    array[2:4, 5] = 1
    array[0, 0] = -1
    expected = np.full((10, 10), 7)
    expected[2:4, 5] = 1
    expected[0, 0] = -1
    np.testing.assert_array_equal(array["v"][:], expected)
    # Each assignment is one commit.
    assert len(array.fragments) == 3


@pytest.mark.parametrize(
    "key, given, message",
    [
        (slice(0, 3), np.zeros(4), "have the shape (4,), but the cells of {uri} have the shape (3,)"),
        (slice(0, 3), np.zeros((3, 1)), "have the shape (3, 1)"),
        (slice(0, 3), np.array(["a", "b", "c"]), "have the type <U1, but the attribute has the type int16"),
        (slice(0, 3), np.array([0.5, 1, 2]), "have the type float64, but the attribute has the type int16"),
        (slice(0, 3), np.array([0, 1, 70000]), "lie between 0 and 70000, which the type int16 doesn't hold"),
        (slice(0, 3), {"w": [1, 2, 3]}, "values were given for w, but {uri} has the attributes v"),
        (slice(0, 3), {}, "values were given for nothing"),
    ],
)
def test_what_does_not_fit_changes_nothing(tmp_path: Path, key: Any, given: Any, message: str) -> None:
    array = create(tmp_path / "a", {"x": (0, 9, 4)}, "v SMALLINT NOT NULL")
    with pytest.raises(ValueError, match=".*") as refused:
        array[key] = given
    assert message.format(uri=array.uri) in str(refused.value)
    assert array.fragments == []


def test_assignments_outside_the_domain(tmp_path: Path) -> None:
    array = create(tmp_path / "a", {"x": (0, 9, 4)}, "v SMALLINT NOT NULL")
    with pytest.raises(IndexError, match="the dimension x is outside of its domain, 0 to 9"):
        array[5:11] = 1
    with pytest.raises(IndexError, match="has a step"):
        array[0:9:2] = 1
    assert array.fragments == []


def test_assignments_to_what_takes_none(tmp_path: Path) -> None:
    array = create(tmp_path / "a", {"x": (0, 9, 4)})
    with pytest.raises(ValueError, match="assign a dict with an array for each of them"):
        array[0:2] = 1
    with pytest.raises(ValueError, match="has the attributes a, i, t"):
        array["a"][0:2] = 1.5
    past = ts.open(array.uri, at=1)
    assert isinstance(past, ts.Array)
    with pytest.raises(ValueError, match="open it without a time"):
        past[0:2] = 1
    sparse = ts.open(str(Path(__file__).parents[2] / "examples/data/weather_stations"))
    assert isinstance(sparse, ts.Array)
    with pytest.raises(ValueError, match="is sparse"):
        sparse["Nuuk"] = 1


def test_a_current_domain_bounds_the_cells(tmp_path: Path) -> None:
    array = create(tmp_path / "a", {"x": (0, 99, 10)}, "v INT NOT NULL", current_domain="[0, 14]")
    assert array.shape == (15,)
    array[...] = np.arange(15)
    assert array["v"][:].tolist() == list(range(15))
    with pytest.raises(IndexError, match="outside of its domain, 0 to 14"):
        array[0:16]


def test_an_array_as_it_was(tmp_path: Path) -> None:
    con = ts.connect()
    uri = create(tmp_path / "a", {"x": (0, 3, 2)}, "v INT NOT NULL", write_timestamp="500").uri
    for at, value in [(1000, 1), (2000, 2)]:
        con.sql(f"CREATE EXTERNAL TABLE t{at} STORED AS TILEDB LOCATION '{uri}' OPTIONS ('tiledb.write_timestamp' '{at}')")
        con.sql(f"INSERT INTO t{at} SELECT value, {value} FROM generate_series(0, 3)")
    for at, expected in [(999, -(2**31)), (1500, 1), ("1970-01-01T00:00:01.500", 1), (2000, 2)]:
        past = ts.open(uri, at=at)
        assert isinstance(past, ts.Array)
        assert past["v"][1] == expected


def test_little_memory_is_enough(tmp_path: Path) -> None:
    """A box of 32 MB, in tiles of 8 MB, in a session that may use 24."""
    array = create(tmp_path / "a", {"x": (0, 3, 1), "y": (0, 999_999, 1_000_000)}, "v DOUBLE NOT NULL")
    cells = np.random.default_rng(1).random((4, 1_000_000))
    array[...] = cells
    small = ts.connect(memory_limit="24m").open(array.uri)
    assert isinstance(small, ts.Array)
    np.testing.assert_array_equal(small["v"][:], cells)


def test_all_orders_of_keys(tmp_path: Path) -> None:
    array = create(tmp_path / "a", {"x": (1, 4, 2), "y": (1, 4, 3)}, "v INT NOT NULL")
    cells = np.arange(16).reshape(4, 4)
    array[...] = cells
    keys = [1, 3, slice(None), slice(2, 4), slice(2, 2), Ellipsis]
    for first, second in itertools.product(keys, keys):
        if first is Ellipsis and second is Ellipsis:
            continue
        shifted = tuple(
            k if k is Ellipsis else k - 1 if isinstance(k, int) else slice(k.start and k.start - 1, k.stop and k.stop - 1)
            for k in (first, second)
        )
        np.testing.assert_array_equal(array["v"][first, second], cells[shifted])
