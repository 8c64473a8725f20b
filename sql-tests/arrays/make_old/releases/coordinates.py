"""NaN among coordinates, as each release writes it: whether sums tell of it, since format 11."""

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
