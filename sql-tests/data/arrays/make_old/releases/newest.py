"""Format 23, which no release writes yet: arrays of format 22 with the footers that its specification describes."""

from forge import to_version_23
from releases import BUNDLED, CASES, Case
from releases.basics import NULLABLE, ints, text, with_nulls
from tdbarray import VAR, Attr, Dim, Spec


def newest(name, spec, proves, *features, **more):
    def register(build):
        case = Case(f"v23_{name}", proves, list(features), [(BUNDLED, lambda a: build(a.create(spec())))], version=23, forge=lambda path: to_version_23(path, spec()), **more)
        CASES.append(case)
        return build

    return register


@newest("dense_2d", lambda: Spec([Dim("y", "INT32", 1, 10, 4), Dim("x", "INT32", -3, 4, 3)], [Attr("a", "INT32"), Attr("s", "STRING_ASCII", VAR)]),
        "dense fragments have no optional section", "dense", "overlap", windows=[(0, 1000)])
def dense_2d(a):
    a.write({"a": ints(64), "s": text(64)}, 1000, box=[(1, 8), (-3, 4)])
    a.write({"a": ints(16, 1), "s": text(16, 1)}, 2000, box=[(3, 6), (-1, 2)])


@newest("sparse_2d", lambda: Spec([Dim("y", "INT32", 1, 12, 5), Dim("x", "INT32", -8, 8, 6)], [Attr("a", "INT32"), Attr("s", "CHAR", VAR)], sparse=True, capacity=7, coords_filters=["none"]),
        "the bounds of tiles in global order, of two dimensions", "sparse", "overlap", windows=[(0, 1000), (2000, 2000)])
def sparse_2d(a):
    for ts, n in ((1000, 40), (2000, 25)):
        a.write({"y": [(i * 5 + ts // 1000) % 12 + 1 for i in range(n)], "x": [i % 17 - 8 for i in range(n)], "a": ints(n, ts), "s": text(n, ts)}, ts)


@newest("strings", lambda: Spec([Dim("k", "STRING_ASCII", filters=["none"]), Dim("i", "INT64", 0, 99, 10, filters=["none"])], [Attr("a", "INT32")], sparse=True, capacity=4, offsets_filters=["none"]),
        "the bounds of tiles in global order, of text and numbers", "sparse", "string_dim", windows=[(0, 1000)])
def strings(a):
    for ts, n in ((1000, 15), (2000, 9)):
        a.write({"k": ["abc"[i % 3] * (1 + i % 4) for i in range(n)], "i": [i * 3 for i in range(n)], "a": ints(n, ts)}, ts)


@newest("nullable_sparse", lambda: Spec([Dim("x", "INT64", 0, 99, 10, filters=["none"])], NULLABLE, sparse=True, capacity=8), "nullable attributes", "sparse", "nullable", windows=[(0, 1000)])
def nullable_sparse(a):
    a.write({"x": list(range(0, 24)), **with_nulls(24, 1)}, 1000)
    a.write({"x": list(range(16, 40, 2)), **with_nulls(12, 2)}, 2000)


@newest("hilbert", lambda: Spec([Dim("y", "INT32", 1, 12, 5), Dim("x", "INT32", -8, 8, 6)], [Attr("a", "INT32")], sparse=True, cell_order="hilbert", capacity=7, coords_filters=["none"]),
        "the bounds of tiles in Hilbert order", "sparse", "hilbert", "orders")
def hilbert(a):
    a.write({"y": [(i * 5) % 12 + 1 for i in range(40)], "x": [i % 17 - 8 for i in range(40)], "a": ints(40)}, 1000)


@newest("with_timestamps", lambda: Spec([Dim("x", "INT32", 1, 40, 6, filters=["none"])], [Attr("a", "INT32"), Attr("s", "STRING_ASCII", VAR)], sparse=True, capacity=5),
        "consolidated with the time of each cell", "sparse", "consolidated", "timestamps", windows=[(0, 1000), (2000, 2000)])
def with_timestamps(a):
    a.write({"x": list(range(1, 14)), "a": ints(13), "s": text(13)}, 1000)
    a.write({"x": list(range(8, 22, 2)), "a": ints(7, 2), "s": text(7, 2)}, 2000)
    a.consolidate()
    a.vacuum()


