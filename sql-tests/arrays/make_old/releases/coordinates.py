"""NaN and dates among coordinates, as each release writes them.

NaN: whether sums tell of it, since format 11."""

from releases import each
from releases.basics import ALL
from tdbarray import Attr, Dim, Spec

NAN = float("nan")


@each("nan", [v for v in ALL if v > 1], "NaN as a coordinate, which no bounding box shows, beside a fragment without", "sparse", "nan", rows=14)
def nan(v):
    def build(a):
        a.create(Spec([Dim("x", "FLOAT64", -100, 100, 10), Dim("y", "FLOAT64", -100, 100, 10)], [Attr("v", "INT32")], sparse=True, capacity=3))
        a.write({"x": [1, 2, NAN, -3, 4, 5, -1], "y": [1, NAN, 3, 4, 5, 6, 7], "v": list(range(7))}, 1000)
        a.write({"x": [31, 32, 33, 34, 35, 36, 37], "y": [31, 32, 33, 34, 35, 36, 37], "v": list(range(100, 107))}, 2000)

    return build


# Dates on both sides of 1970, which libtiledb 1.6 and 1.7 sorted and bounded as unsigned numbers.

UNITS = ["YEAR", "MONTH", "WEEK", "DAY", "HR", "MIN", "SEC", "MS", "US", "NS", "PS", "FS", "AS"]
SINCE_1970, BEFORE, ACROSS, ACROSS_MORE = [0, 3, 7, 12, 40], [-9, -44, -3, -17], [-1, 0, -90, 80, 5, -6, 61, -30, -2, 1], [-44, 7, 81, -91, 33, -34]


def line(unit, writes):
    def build(a):
        a.create(Spec([Dim("t", f"DATETIME_{unit}", -100, 99, 20)], [Attr("v", "INT32")], sparse=True, capacity=3))
        for i, dates in enumerate(writes):
            a.write({"t": dates, "v": [100 * i + k for k in range(len(dates))]}, 1000 * (i + 1))

    return build


for name in UNITS:
    versions = (3, 4, 5) if name in ("DAY", "NS", "YEAR") else (4,)

    @each(f"dates_{name.lower()}", versions, "dates on both sides of 1970: fragments after, before, and across it", "sparse", "dates", "overwrites", rows=22)
    def dates(v, unit=name):
        return line(unit, [SINCE_1970, BEFORE, ACROSS, ACROSS_MORE])


@each("dates_across", (3, 4), "one fragment of dates across 1970, whose non-empty domain leaves out both ends", "sparse", "dates", rows=10)
def dates_across(v):
    return line("DAY", [ACROSS])


@each("dates_one_tile", (3, 4), "a single tile of dates across 1970", "sparse", "dates", rows=2)
def dates_one_tile(v):
    return line("DAY", [[-50, 50]])


@each("dates_plane", (3, 4, 5), "two dimensions of dates on both sides of 1970", "sparse", "dates", "overwrites", rows=24)
def dates_plane(v):
    def build(a):
        dims = [Dim("t", "DATETIME_DAY", -100, 99, 20), Dim("u", "DATETIME_DAY", -100, 99, 30)]
        a.create(Spec(dims, [Attr("v", "INT32")], sparse=True, capacity=3))
        a.write({"t": [i - 6 for i in range(12)], "u": [(i * 5) % 12 - 6 for i in range(12)], "v": list(range(12))}, 1000)
        a.write({"t": [i - 2 for i in range(15)], "u": [((i + 4) * 5) % 12 - 6 if i < 3 else i - 8 for i in range(15)], "v": list(range(100, 115))}, 2000)

    return build
