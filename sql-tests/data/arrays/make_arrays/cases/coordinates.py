"""Coordinates that bounding boxes do not show: NaN, zeros of either sign, and those that a filter changes."""

import numpy as np

from cases import case
from tdbarray import Array, Attr, Dim, Spec

NAN = float("nan")


def of_bits(bits):
    """A float64 by its bits: there are many NaN."""
    return np.array([bits], dtype="<u8").view("<f8")[0]


NEGATIVE_NAN, OTHER_NAN, THIRD_NAN = of_bits(0xFFF8000000000000), of_bits(0x7FF8000000000001), of_bits(0x7FF800000000BEEF)


def sparse(path, dims, capacity=4, attrs=(Attr("v", "INT32"),), **spec):
    return Array(path).create(Spec(dims, list(attrs), sparse=True, capacity=capacity, **spec), 1)


def put(a, first, ts, **columns):
    """Cells with the values `first`, `first + 1` and so on."""
    count = len(next(iter(columns.values())))
    a.write({**columns, "v": list(range(first, first + count))}, ts)


def line(path, tdb_type="FLOAT64", **spec):
    return sparse(path, [Dim("f", tdb_type, -1000, 1000, spec.pop("extent", None))], **spec)


@case("nan_line", "NaN as a coordinate, which no bounding box shows", "sparse", "nan", rows=8)
def nan_line(path):
    put(line(path), 0, 1000, f=[1, 2, NAN, 3, 4, 5, -1, -2])


@case("nan_single", "NaN as a coordinate of float32, in an array with duplicates and an extent", "sparse", "nan", "duplicates", rows=9)
def nan_single(path):
    put(line(path, "FLOAT32", dups=True, extent=10), 0, 1000, f=[1, 2, NAN, 3, 4, 5, -1, -2, NAN])


@case("nan_fragments", "NaN of several kinds in several fragments: copies are those with the same bits", "sparse", "nan", "overwrites", windows=[(0, 1000), (0, 2000)], layouts=False, rows=11)
def nan_fragments(path):
    a = line(path)
    put(a, 0, 1000, f=[1, NAN, 2, 50, 51, 52])
    put(a, 10, 2000, f=[5, NAN, NEGATIVE_NAN, 2, 70])
    put(a, 20, 3000, f=[OTHER_NAN, 1, NEGATIVE_NAN, THIRD_NAN])


@case("nan_first", "tiles that begin with NaN, whose boxes are NaN; the non-empty domain forgets the tiles before them", "sparse", "nan", "duplicates", rows=107)
def nan_first(path):
    numbers = np.random.default_rng(5).permutation(100).astype("<f8")
    put(line(path, dups=True), 0, 1000, f=np.concatenate([[NAN, NAN, NEGATIVE_NAN], numbers[:50], [NAN, OTHER_NAN], numbers[50:], [NAN, NAN]]))


@case("nan_plane", "NaN in either of two dimensions or in both, in fragments that meet nowhere else", "sparse", "nan", "overwrites", windows=[(0, 1000)], layouts=False, rows=12)
def nan_plane(path):
    a = sparse(path, [Dim("x", "FLOAT64", -1000, 1000), Dim("y", "FLOAT32", -1000, 1000)], capacity=3)
    put(a, 0, 1000, x=[1, 2, NAN, 3, NAN, 4, 5], y=[1, 2, 1, NAN, NAN, 4, 5])
    put(a, 10, 2000, x=[101, NAN, 3, NAN, 102, 103, NAN, 104], y=[1, 1, NAN, NAN, 2, 3, 700, NAN])


@case("nan_track", "NaN behind a leading dimension of whole numbers", "sparse", "nan", "overwrites", windows=[(0, 1000)], layouts=False, rows=25)
def nan_track(path):
    a = sparse(path, [Dim("t", "INT64", 0, 1000, 100), Dim("lon", "FLOAT64", -180, 180), Dim("lat", "FLOAT64", -90, 90)], capacity=5)
    t = list(range(20))
    put(a, 0, 1000, t=t, lon=[NAN if i == 7 else i - 5 for i in t], lat=[i / 2 for i in t])
    put(a, 100, 2000, t=[7, 8, 30, 31, 32, 33, 34], lon=[NAN, 3, NAN, 1, 2, 3, 4], lat=[3.5, 4, NAN, 1, 2, 3, 4])


@case("nan_hilbert", "NaN in an array in Hilbert order", "sparse", "nan", "hilbert", rows=20)
def nan_hilbert(path):
    a = sparse(path, [Dim("x", "FLOAT64", -1000, 1000), Dim("y", "FLOAT64", -1000, 1000)], cell_order="hilbert", dups=True)
    i = np.arange(20)
    put(a, 0, 1000, x=np.where(i % 7 == 3, NAN, i * 37 % 100), y=np.where(i % 9 == 2, NAN, i * 53 % 100))


@case("nan_consolidated", "copies of NaN and of numbers in a consolidated fragment: where other cells lie between copies of NaN libtiledb shows both, so the twin is written without them",
      "sparse", "nan", "consolidated", "timestamps", layouts=False, twin=True, rows=9)
def nan_consolidated(path, config=None):
    a = line(path, capacity=3)
    if config is not None:  # the twin
        a.write({"f": [1, 2, 3, 5, 6, 9, NEGATIVE_NAN, OTHER_NAN, NAN], "v": [0, 10, 20, 21, 12, 23, 13, 22, 24]}, 1000)
        return
    put(a, 0, 1000, f=[1, NAN, 5, 9])
    put(a, 10, 2000, f=[2, NAN, 6, NEGATIVE_NAN])
    put(a, 20, 3000, f=[3, 5, OTHER_NAN, 9, NAN])
    a.consolidate()
    a.vacuum()


@case("nan_nowhere", "floats without NaN in fragments that meet nowhere: their tiles are known by their boxes", "sparse", "nan", rows=60)
def nan_nowhere(path):
    a = sparse(path, [Dim("x", "FLOAT64", -1000, 1000), Dim("y", "FLOAT32", -1000, 1000)], capacity=5)
    for write in range(3):
        put(a, 100 * write, 1000 * (write + 1), x=[write * 100 + i for i in range(20)], y=[i / 2 for i in range(20)])


@case("nan_infinite", "the largest floats beside NaN: sums that say nothing", "sparse", "nan", "duplicates", rows=16)
def nan_infinite(path):
    large = np.finfo("<f8").max
    a = sparse(path, [Dim("f", "FLOAT64", -large, large)], dups=True)
    put(a, 0, 1000, f=[large, large, NAN, -large, 1, 2, 3, NAN, large / 2, large / 2, large / 4, NAN, -large, -large, 0, 4])


@case("zeros_line", "zeros of either sign as coordinates and as values, some at the ends of tiles", "sparse", "zeros", "duplicates", rows=16)
def zeros_line(path):
    a = sparse(path, [Dim("f", "FLOAT64", -10, 10)], attrs=[Attr("v", "INT32"), Attr("a", "FLOAT64"), Attr("b", "FLOAT32")], dups=True)
    a.write({"f": [0.0, -0.0, 1, 2, 3, 4, 5, 6, -0.0, 0.0, 7, 8, -3, -2, -1, -4], "v": list(range(16)),
             "a": [0.0, -0.0, 1, 2, -0.0, 0.0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], "b": [-1, -0.0, 0.0, -2, -3, 0.0, -0.0, -4, -5, -6, -7, -8, -9, -10, -11, -12]}, 1000)


def scaled(factor, offset=0.0, bytewidth=4):
    return [("float_scale", {"bytewidth": bytewidth, "factor": factor, "offset": offset}), "zstd"]


@case("lossy_line", "float scaling of a dimension: the bounding boxes are of what was written", "sparse", "lossy", "overwrites", windows=[(0, 1000)], layouts=False)
def lossy_line(path):
    a = sparse(path, [Dim("f", "FLOAT64", -1000, 1000, filters=scaled(1.0))], capacity=3)
    put(a, 0, 1000, f=[1.04, 2.3, 3.6, 4.4, 5.5, -6.5, -7.2, 8.49])
    put(a, 10, 2000, f=[0.96, 30.2, 31.7, 5.51, 12.49, 12.4])


@case("lossy_plane", "float scaling by a negative factor, and of too few bytes for some values", "sparse", "lossy", "duplicates", rows=12)
def lossy_plane(path):
    a = sparse(path, [Dim("x", "FLOAT32", -1000, 1000, filters=scaled(-0.5, 3.0)), Dim("y", "FLOAT64", -1000, 1000, filters=scaled(0.25, 0.0, 1))], capacity=3, dups=True)
    i = np.arange(12)
    put(a, 0, 1000, x=i * 7.13 - 40, y=i * 9.61 - 50)


@case("lossy_coords", "float scaling by the filters of all coordinates", "sparse", "lossy", "duplicates", rows=8)
def lossy_coords(path):
    a = sparse(path, [Dim("x", "FLOAT64", -1000, 1000), Dim("y", "FLOAT64", -1000, 1000)], coords_filters=scaled(10.0), capacity=4, dups=True)
    put(a, 0, 1000, x=[1.0, 14.9, 15.1, 26, 37, 44.4, 58, 61], y=[4.9, 5.1, -4.9, -5.1, 100, 101, 102, 109])


@case("lossy_whole", "float scaling over the bytes of whole numbers", "sparse", "lossy", "duplicates", rows=6)
def lossy_whole(path):
    a = sparse(path, [Dim("d", "INT64", 0, (1 << 62) + (1 << 61), 1 << 40, filters=scaled(2.0, 0.0, 8)), Dim("e", "INT32", 0, 100, 10)], capacity=3, dups=True)
    one = int(np.array([1.0]).view("<i8")[0])
    put(a, 0, 1000, d=[one + (i << 50) for i in range(6)], e=[1, 2, 3, 4, 5, 6])


@case("lossy_nan", "NaN under float scaling is read back as a number", "sparse", "lossy", "nan", "duplicates", rows=6)
def lossy_nan(path):
    a = sparse(path, [Dim("f", "FLOAT64", -1000, 1000, filters=scaled(0.5))], capacity=3, dups=True)
    put(a, 0, 1000, f=[1.0, 2.1, NAN, 3.3, 4.4, 5.6])
