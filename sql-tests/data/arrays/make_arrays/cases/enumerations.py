"""Enumerations and current domains."""

import numpy as np

from cases import case
from capi import VAR
from tdbarray import Array, Attr, Dim, Enum, Spec


def line(hi=99):
    return [Dim("d", "INT32", 0, hi, 10)]


COLOURS = ["red", "grün", "", "blue", "日本"]


@case("enum_strings", "string enumerations behind every integer type, codes out of range and negative, ordered and not", "sparse", "enumeration", rows=20)
def enum_strings(path):
    types = ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64"]
    attrs = [Attr("e_" + t.lower(), t, enum="ordered" if i % 2 else "colours") for i, t in enumerate(types)]
    spec = Spec(line(), attrs, sparse=True, capacity=7, enums=[Enum("colours", "STRING_UTF8", COLOURS), Enum("ordered", "STRING_ASCII", ["low", "mid", "high"], True)])
    codes = [0, 1, 2, 3, 4, 5, 100, 127, 1, 0] * 2
    a = Array(path).create(spec, 1000)
    a.write({"d": np.arange(20), **{"e_" + t.lower(): [-1 if t.startswith("I") and i == 9 else c for i, c in enumerate(codes)] for t in types}}, 1000)


@case("enum_values", "enumerations of integers, floats, dates, bytes and fixed-size text", "sparse", "enumeration", rows=12)
def enum_values(path):
    enums = [Enum("years", "INT64", [[1999], [-5], [2**62]], n=1), Enum("shares", "FLOAT64", [[0.25], [-0.0], [1e300]], n=1), Enum("small", "UINT8", [[3], [200]], n=1),
             Enum("days", "DATETIME_DAY", [[0], [-1], [19000]], n=1), Enum("codes", "STRING_ASCII", ["abc", "xyz"], n=3), Enum("blobs", "BLOB", [b"\0\xff", b"", b"x"])]
    attrs = [Attr(e.name, "INT8", enum=e.name) for e in enums] + [Attr("again", "UINT16", nullable=True, enum="years")]
    a = Array(path).create(Spec(line(), attrs, sparse=True, enums=enums), 1000)
    a.write({"d": np.arange(12), **{e.name: [i % (len(e.values) + 1) for i in range(12)] for e in enums}, "again": [None if i % 3 == 0 else i % 4 for i in range(12)]}, 1000)


def bits(*words):
    return [[float(np.array([w], "<u8").view("<f8")[0])] for w in words]


NAT = -(2**63)


@case("enum_numbers", "enumerations of numbers, booleans, dates and times, their codes in order: NaNs of three kinds, both zeros, NaT; each in tiles of its own", "sparse", "enumeration", "nullable", rows=80)
def enum_numbers(path):
    floats = [[1.5], *bits(0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001), [0.0], [-0.0], [float("-inf")], [2.5]]
    enums = [Enum("f", "FLOAT64", floats, n=1), Enum("s", "FLOAT32", [[0.5], [-0.5], [float("inf")]], n=1), Enum("i", "INT32", [[7], [-7], [0], [2**31 - 1], [5]], n=1),
             Enum("u", "UINT64", [[2**64 - 1], [0], [3]], n=1), Enum("b", "BOOL", [[1], [0]], n=1), Enum("day", "DATETIME_DAY", [[10], [NAT], [-10], [0]], n=1),
             Enum("at", "DATETIME_MS", [[1000], [NAT], [-1]], n=1), Enum("hour", "TIME_HR", [[23], [0], [5]], n=1), Enum("span", "DATETIME_AS", [[3], [NAT], [1]], n=1)]
    attrs = [Attr(e.name, t, enum=e.name) for e, t in zip(enums, ["INT8", "UINT8", "INT32", "UINT64", "INT16", "UINT16", "INT64", "UINT32", "INT8"])]
    attrs += [Attr("n", "INT32", nullable=True, enum="i"), Attr("days", "INT8", nullable=True, enum="day"), Attr("plain", "INT32")]
    a = Array(path).create(Spec(line(), attrs, sparse=True, capacity=8, enums=enums), 1000)
    rows = range(80)
    codes = {e.name: [r * (len(e.values) + 1) // 80 for r in rows] for e in enums}  # the last code is outside
    a.write({"d": np.arange(80), **codes, "n": [None if r % 8 == 5 else r * 6 // 80 for r in rows], "days": [None if r < 10 else r * 5 // 80 for r in rows], "plain": [r % 9 - 3 for r in rows]}, 1000)


@case("enum_boolean_codes", "attributes of booleans that index enumerations of numbers and of text", "sparse", "enumeration", "nullable", rows=40)
def enum_boolean_codes(path):
    enums = [Enum("sizes", "INT64", [[40], [10]], n=1), Enum("sides", "STRING_UTF8", ["left", "right"]), Enum("only", "FLOAT32", [[0.5]], n=1)]
    attrs = [Attr("n", "BOOL", enum="sizes"), Attr("t", "BOOL", nullable=True, enum="sides"), Attr("o", "BOOL", enum="only")]
    a = Array(path).create(Spec(line(), attrs, sparse=True, capacity=8, enums=enums), 1000)
    a.write({"d": np.arange(40), "n": [i // 20 for i in range(40)], "t": [None if i % 7 == 3 else i // 16 % 2 for i in range(40)], "o": [i // 30 for i in range(40)]}, 1000)


@case("enum_numbers_extended", "an enumeration of numbers, extended, added and overwritten: fragments older than its values, and than its attribute", "sparse", "enumeration", "evolution", "overlap", windows=[(0, 1000), (0, 3000)])
def enum_numbers_extended(path):
    spec = Spec(line(), [Attr("n", "UINT8", enum="sizes")], sparse=True, capacity=4, enums=[Enum("sizes", "INT64", [[40], [10]], n=1)])
    a = Array(path).create(spec, 1000)
    a.write({"d": range(12), "n": [i % 4 for i in range(12)]}, 1000)
    a.evolve(2000, extend=[Enum("sizes", "INT64", [[20], [-30]], n=1)], add_enums=[Enum("late", "FLOAT32", [[-0.0], [0.25]], n=1)], add=[Attr("l", "INT8", enum="late", fill=b"\1"), Attr("m", "INT16", nullable=True, enum="late")])
    a.write({"d": range(8, 24), "n": [i % 5 for i in range(16)], "l": [i % 3 for i in range(16)], "m": [None if i % 5 == 0 else i % 2 for i in range(16)]}, 3000)


@case("enum_numbers_dense", "enumerations of numbers in a dense array: cells never written are no member, or are one", "dense", "enumeration", "fill")
def enum_numbers_dense(path):
    enums = [Enum("sizes", "INT64", [[40], [10], [-5]], n=1), Enum("shares", "FLOAT64", [[0.5], [-0.0]], n=1)]
    attrs = [Attr("n", "UINT8", enum="sizes"), Attr("f", "INT32", enum="shares", fill=b"\1\0\0\0"), Attr("o", "INT16", nullable=True, enum="sizes")]
    a = Array(path).create(Spec(line(39), attrs, enums=enums), 1000)
    a.write({"n": [i % 4 for i in range(20)], "f": [i // 10 for i in range(20)], "o": [None if i % 3 else i % 4 for i in range(20)]}, 1000, [(2, 21)])
    a.write({"n": [i // 3 for i in range(6)], "f": [0] * 6, "o": [1] * 6}, 2000, [(30, 35)])


@case("enum_nullable", "a nullable enumerated attribute; null cells carry code -1", "sparse", "enumeration", "nullable", rows=30)
def enum_nullable(path):
    spec = Spec(line(), [Attr("c", "INT32", nullable=True, enum="colours"), Attr("same", "UINT8", enum="colours")], sparse=True, capacity=8, enums=[Enum("colours", "STRING_UTF8", COLOURS)])
    Array(path).create(spec, 1000).write({"d": np.arange(30), "c": [None if i % 4 == 1 else i % 5 for i in range(30)], "same": [i % 5 for i in range(30)]}, 1000)


@case("enum_dense", "enumerated attribute in a dense array: the fill value is no member", "dense", "enumeration", "fill")
def enum_dense(path):
    a = Array(path).create(Spec(line(29), [Attr("c", "UINT8", enum="colours"), Attr("n", "INT16", nullable=True, enum="colours")], enums=[Enum("colours", "STRING_UTF8", COLOURS)]), 1000)
    a.write({"c": [i % 5 for i in range(6)], "n": [None if i % 2 else i % 5 for i in range(6)]}, 1000, [(2, 7)])
    a.write({"c": [i % 5 for i in range(6)], "n": [None if i % 2 else i % 5 for i in range(6)]}, 2000, [(15, 20)])


@case("enum_empty", "an enumeration without values", "sparse", "enumeration", rows=3)
def enum_empty(path):
    a = Array(path).create(Spec(line(), [Attr("c", "INT32", enum="none")], sparse=True, enums=[Enum("none", "STRING_ASCII", [])]), 1000)
    a.write({"d": [1, 2, 3], "c": [0, 1, -1]}, 1000)


@case("enum_extended", "an enumeration extended by schema evolution; older fragments keep their codes", "sparse", "enumeration", "evolution", windows=[(0, 1000), (0, 3000)])
def enum_extended(path):
    spec = Spec(line(), [Attr("c", "UINT8", enum="colours")], sparse=True, enums=[Enum("colours", "STRING_UTF8", ["red", "green"])])
    a = Array(path).create(spec, 1000)
    a.write({"d": [0, 1, 2], "c": [0, 1, 2]}, 1000)
    a.evolve(2000, extend=[Enum("colours", "STRING_UTF8", ["blue", "violet"])])
    a.write({"d": [2, 3, 4], "c": [3, 2, 9]}, 3000)
    a.evolve(4000, extend=[Enum("colours", "STRING_UTF8", ["white"])])


@case("enum_added", "an enumerated attribute added by schema evolution", "sparse", "enumeration", "evolution", windows=[(0, 1000)])
def enum_added(path):
    a = Array(path).create(Spec(line(), [Attr("a", "INT32")], sparse=True), 1000)
    a.write({"d": [0, 1], "a": [5, 6]}, 1000)
    a.evolve(2000, add_enums=[Enum("kind", "STRING_ASCII", ["x", "y"])], add=[Attr("k", "UINT16", nullable=True, enum="kind"), Attr("k2", "INT8", enum="kind")])
    a.write({"d": [1, 2, 3], "a": [7, 8, 9], "k": [0, None, 1], "k2": [1, 0, 1]}, 3000)


# --- current domain -----------------------------------------------------------------------------------------------------


@case("current_domain_dense", "a current domain smaller than the domain", "dense", "current_domain", rows=16)
def current_domain_dense(path):
    dims = [Dim("y", "INT32", -1000, 1000, 4), Dim("x", "INT32", -1000, 1000, 4)]
    a = Array(path).create(Spec(dims, [Attr("a", "INT32")], current={"y": ([-5], [5]), "x": ([0], [9])}), 1000)
    a.write({"a": range(16)}, 1000, [(-2, 1), (3, 6)])


@case("current_domain_expanded", "the current domain expanded by schema evolution, then written into the new part", "dense", "current_domain", "evolution", windows=[(0, 1000)])
def current_domain_expanded(path):
    a = Array(path).create(Spec([Dim("d", "UINT64", 0, 10**9, 10)], [Attr("a", "INT32")], current={"d": ([0], [9])}), 1000)
    a.write({"a": range(10)}, 1000, [(0, 9)])
    a.evolve(2000, current={"d": ([0], [29])})
    a.write({"a": range(100, 110)}, 3000, [(15, 24)])


@case("current_domain_sparse", "current domains on integer, float, date and string dimensions", "sparse", "current_domain", rows=5)
def current_domain_sparse(path):
    dims = [Dim("i", "INT16", -100, 100, 10), Dim("f", "FLOAT64", -1e3, 1e3, 10.0), Dim("t", "DATETIME_DAY", -10**6, 10**6, 30), Dim("s", "STRING_ASCII")]
    a = Array(path).create(Spec(dims, [Attr("a", "INT32")], sparse=True, current={"i": ([0], [9]), "f": ([-0.5], [99.5]), "t": ([-7], [7]), "s": ("a", "m")}), 1000)
    a.write({"i": [0, 9, 3, 4, 5], "f": [-0.5, 99.5, 0, 1, 2], "t": [-7, 7, 0, 1, 2], "s": ["a", "m", "abc", "lzz", "b"], "a": range(5)}, 1000)


@case("current_domain_hilbert", "a current domain in a Hilbert array: the order is by the domain, not by it", "sparse", "current_domain", "hilbert", rows=60)
def current_domain_hilbert(path):
    rng = np.random.default_rng(70)
    dims = [Dim("x", "INT32", -10_000, 10_000), Dim("y", "INT32", 0, 50_000)]
    a = Array(path).create(Spec(dims, [Attr("a", "INT32")], sparse=True, capacity=8, cell_order="hilbert", current={"x": ([-50], [50]), "y": ([0], [99])}), 1000)
    a.write({"x": rng.choice(np.arange(-50, 51), 60, replace=False), "y": rng.integers(0, 100, 60), "a": np.arange(60)}, 1000)
