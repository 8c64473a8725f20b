"""Bitsort: the filter of libtiledb 2.13 and 2.14 that sorts the values of an attribute in each tile and moves the coordinates along.

libtiledb 2.30 does not know it. So each array has a twin, the same writes without the filter, and the twin's answer; before that, the release
itself must read the same cells out of both. Forms of which it reads something else have lost what was written: they are to be refused.
"""

import pathlib

from old_array import OldArray
from releases import CASES, Case
from releases.basics import ints, text
from tdbarray import VAR, Attr, Dim, Spec

VERSION = 17
ENABLED = {"tiledb.sm.bitsort_filter_enabled": "true"}
OLD = pathlib.Path(__file__).resolve().parents[3] / "unpacked" / "arrays" / "old"
KEY = "0123456789abcdeF0123456789abcdeF"


def rows(path, spec, config):
    """What the release that wrote the array reads; it does not know what today's schemas are asked for."""
    a = OldArray(path, **ENABLED, **config)
    columns = [(d.name, d.type, 1, False, True, None) for d in spec.dims] + [(f.name, f.type, f.n, f.nullable, False, None) for f in spec.attrs]
    a.fields, a.labels = lambda arr: (columns, True), lambda arr: []
    return sorted(a.read()[2], key=repr)


def bitsort(name, spec, proves, *features, key=None, fails=None, checked=True, **more):
    """Declares an array and its twin; `spec` is told what to put among the attribute's filters: bitsort, or nothing."""
    config = {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": key} if key else {}
    if key:
        more |= {"config": config, "options": {"tiledb.encryption_key": key}}

    def register(build):
        def write(filters):
            return lambda a: build(OldArray(a.path, **ENABLED, **config).create(spec(filters)))

        def check(a):
            if rows(a.path, spec([]), config) != rows(OLD / twin, spec([]), config):
                raise AssertionError("the release reads something else than was written")

        twin, steps = f"v{VERSION}_unsorted_{name}", [(VERSION, write(["bitsort"]))]
        if fails:
            CASES.append(Case(f"v{VERSION}_bitsort_{name}", proves, ["sparse", "bitsort", *features], steps, version=VERSION, fails=fails))
            return
        if checked:
            steps.append((VERSION, check))
        CASES.append(Case(twin, f"the twin of `bitsort_{name}`", ["sparse"], [(VERSION, write([]))], version=VERSION, **more))
        CASES.append(Case(f"v{VERSION}_bitsort_{name}", proves, ["sparse", "bitsort", *features], steps, version=VERSION, same_as=twin, **more))

    return register


def line(b, n=100, extent=10, type="INT32", dims="INT32", other=(), **more):
    more = {"capacity": 8, **more}
    return Spec([Dim("x", dims, 1, n, extent)], [Attr("a", type, filters=b), *other], sparse=True, **more)


def with_b(b, **more):
    return line(b, other=[Attr("b", "INT32")], **more)


def numbers(a, ts, xs, seed=0):
    data = {"x": xs, "a": ints(len(xs), ts // 1000 + seed), "b": [ts + x for x in xs]}
    a.write({k: v for k, v in data.items() if k == "x" or k in {f.name for f in a.spec.attrs}}, ts)


@bitsort("line", line, "values of one attribute sorted in each tile, their coordinates with them; fragments that overlap", "overlap", windows=[(0, 1000), (2000, 2000)])
def one_dimension(a):
    numbers(a, 1000, list(range(30, 0, -1)))
    numbers(a, 2000, list(range(20, 40, 3)))


def plane(b):
    dims = [Dim("y", "INT32", 1, 12, 5), Dim("x", "INT64", -8, 8, 6, filters=["gzip"])]
    attrs = [Attr("v", "FLOAT64", filters=[*b, "zstd"]), Attr("b", "INT32", filters=["byteshuffle", "lz4"]), Attr("s", "STRING_ASCII", VAR, nullable=True)]
    return Spec(dims, attrs, sparse=True, capacity=7, coords_filters=["double_delta"])


@bitsort("columns", plane, "two dimensions, whose filters are not applied; the other attributes keep the global order", "nullable", "var")
def columns(a):
    n = 40
    odd = [float("nan"), -0.0, 0.0, float("inf"), -float("inf"), 1.5, 1.5, -1.5]
    a.write({"y": [(i * 5) % 12 + 1 for i in range(n)], "x": [i % 17 - 8 for i in range(n)], "v": [odd[i] if i < 8 else (i * 7 % 11) / 4 - 1 for i in range(n)],
             "b": list(range(n)), "s": [None if i % 3 == 0 else t for i, t in enumerate(text(n))]}, 1000)


def solid(b, orders):
    dims = [Dim("y", "FLOAT64", -1.0, 1.0, 0.3), Dim("x", "DATETIME_DAY", -50, 5000, 7), Dim("z", "UINT8", 0, 200)]
    return Spec(dims, [Attr("a", "UINT16", filters=["byteshuffle", *b, "md5"]), Attr("b", "INT32")], sparse=True, capacity=9, cell_order=orders[0], tile_order=orders[1])


for _orders in (("row", "col"), ("col", "row"), ("col", "col")):

    @bitsort(f"{_orders[0]}_of_{_orders[1]}", lambda b, orders=_orders: solid(b, orders), f"cells in {_orders[0]}-major order in tiles in {_orders[1]}-major order; behind a byte shuffle", "orders", "dimension_type")
    def orders(a):
        n = 60
        a.write({"y": [(i * 13 % 21 - 10) / 10 for i in range(n)], "x": [i * 7 % 33 - 3 for i in range(n)], "z": [i % 5 for i in range(n)],
                 "a": [i * 31 % 20 for i in range(n)], "b": list(range(n))}, 1000)


def curve(b):
    dims = [Dim("y", "INT64", 0, 2**45, 1000), Dim("x", "INT64", 0, 2**45, 1000)]
    return Spec(dims, [Attr("a", "INT16", filters=[*b, "rle"]), Attr("b", "INT32")], sparse=True, capacity=16, cell_order="hilbert")


@bitsort("hilbert", curve, "Hilbert order; this release sorts cells of one Hilbert value by their last dimension", "hilbert", "orders")
def hilbert(a):
    near = [(1000 + i // 5, 2000 + i % 5) for i in range(25)]
    cells = near + [(i * 2**39, (i * 7 % 13) * 2**41) for i in range(13)]
    a.write({"y": [y for y, _ in cells], "x": [x for _, x in cells], "a": [i * 17 % 10 - 5 for i in range(len(cells))], "b": list(range(len(cells)))}, 1000)


@bitsort("stacked", lambda b: line(["xor", "bitshuffle", "sha256", *b, "byteshuffle", "zstd"], type="INT64", dims="UINT16", capacity=20), "among other filters", "filters")
def stacked(a):
    numbers(a, 1000, [i * 37 % 50 + 1 for i in range(50)])


@bitsort("encrypted", lambda b: with_b([*b, "gzip"]), "an encrypted attribute; the coordinates beside it are not encrypted", "encryption", key=KEY)
def encrypted(a):
    numbers(a, 1000, [i * 37 % 50 + 1 for i in range(30)])


@bitsort("duplicates", lambda b: line(b, type="CHAR", dups=True), "several cells in one place: without other attributes it does not matter which is which", "duplicates")
def duplicates(a):
    a.write({"x": [1 + i // 3 for i in range(30)], "a": [bytes([97 + i * 7 % 26]) for i in range(30)]}, 1000)


@bitsort("equal_duplicates", lambda b: with_b(b, dups=True), "several cells in one place with the same value", "duplicates")
def equal_duplicates(a):
    a.write({"x": [1 + i // 3 for i in range(30)], "a": [50 - i // 3 for i in range(30)], "b": list(range(30))}, 1000)


@bitsort("full_tile", lambda b: line([*b, "zstd"], n=9000, extent=9000, type="INT64", dims="UINT16", capacity=8192), "the largest tile whose coordinates are kept: 64 KiB of values", "chunks")
def full_tile(a):
    n = 8193
    a.write({"x": list(range(1, n + 1)), "a": [i * 5 % n for i in range(n)]}, 1000)


@bitsort("deleted", with_b, "deletes by the attribute and by the dimension", "deletes", windows=[(0, 1500), (0, 2500)])
def deleted(a):
    numbers(a, 1000, list(range(1, 31)))
    a.delete(2000, ("a", ">", 300))
    a.settle(2000)
    numbers(a, 3000, [5, 6, 31, 32])
    a.delete(4000, ("x", "<=", 3))
    a.settle(4000)


@bitsort("consolidated", with_b, "consolidated with the time of each cell", "consolidated", "timestamps", windows=[(0, 1000), (2000, 2000)])
def consolidated(a):
    numbers(a, 1000, list(range(1, 40, 2)))
    numbers(a, 2000, list(range(2, 30, 2)))
    a.consolidate()
    a.vacuum()
    numbers(a, 3000, [3, 4, 50])


@bitsort("dropped", with_b, "the attribute was dropped: its sorting stays in the fragments", "evolution", windows=[(0, 1000)], checked=False)
def dropped(a):
    from releases.history import evolve

    numbers(a, 1000, list(range(1, 21)))
    evolve(a, 2000, add=[Attr("c", "INT16")], drop=["a"])
    a.write({"x": [4, 5, 33], "b": [1, 2, 3], "c": [7, 8, 9]}, 3000)


LOST = "libtiledb 2.14.0 lost which value belongs to which cell"


@bitsort("lost_chunks", lambda b: line([*b, "zstd"], n=9000, extent=9000, type="INT64", dims="UINT16", capacity=10000, other=[Attr("b", "INT32", filters=["double_delta"])]),
         "a tile of more than 64 KiB of values: coordinates are lost", "chunks", fails=LOST)
def lost_chunks(a):
    n = 8200
    a.write({"x": list(range(1, n + 1)), "a": [i * 5 % n for i in range(n)], "b": list(range(n))}, 1000)


@bitsort("lost_duplicates", lambda b: with_b(b, dups=True), "several cells in one place: whose value is whose is lost", "duplicates", fails=LOST)
def lost_duplicates(a):
    a.write({"x": [1 + i // 3 for i in range(20)], "a": ints(20), "b": list(range(20))}, 1000)


@bitsort("lost_history", with_b, "several versions of a cell in one fragment: which value is the newest is lost", "consolidated", "timestamps", fails=LOST)
def lost_history(a):
    numbers(a, 1000, list(range(1, 11)))
    numbers(a, 2000, [5, 6, 7, 20])
    a.consolidate()
    a.vacuum()


@bitsort("lost_behind_gzip", lambda b: with_b(["gzip", *b]), "bitsort behind a filter that changes the size of its input", "filters", fails=LOST)
def lost_behind_gzip(a):
    numbers(a, 1000, list(range(1, 17)))
