"""Delete conditions in depth: every operator on every kind of field, one delete a step and a window after each; NULLs, trees, history.

What survives follows from libtiledb alone. Where its answer is odd (a fixed-size CHAR compared by its first byte, a field that a
fragment lacks) the case says so, because readers must agree with it.
"""

import struct

import numpy as np

from cases import case
from cases.encrypted import CONFIG, OPTIONS
from capi import VAR
from tdbarray import Array, Attr, Dim, Enum, Spec

NAN, INF = float("nan"), float("inf")
STEPS = [(0, t) for t in range(2000, 2900, 100)]


def steps(a, *conditions):
    """One delete each at 2000, 2100, …; `STEPS` are windows that end between them."""
    for i, condition in enumerate(conditions):
        a.delete(2000 + 100 * i, condition)


def every_operator(name, p):
    """Each takes a little away from the pool `p` of eleven rising values, the last nearly everything."""
    return [(name, "==", p[4]), (name, "<", p[1]), (name, ">", p[9]), (name, "<=", p[1]), (name, ">=", p[9]), (name, "in", [p[3], p[6]]),
            ("and", (name, "!=", p[2]), (name, "not in", [p[7], p[8]])), (name, "not in", [p[7], p[8]]), (name, "!=", p[8])]


def by_attribute(path, attr, pool, dups=False, order="row", nulls=False):
    """Three rounds through the pool in tiles of 8, with a NULL after each round when asked for."""
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 999, 50)], [attr, Attr("n", "INT32")], sparse=True, capacity=8, dups=dups, cell_order=order), 1000)
    cells = ([*pool, None] if nulls else list(pool)) * 3
    a.write({"d": np.arange(len(cells)) * 7 % 101, attr.name: cells, "n": range(len(cells))}, 1000)
    steps(a, *every_operator(attr.name, pool))


def by_dimension(path, dim, pool, order="row", dups=False):
    a = Array(path).create(Spec([dim, Dim("e", "UINT8", 0, 99, 10)], [Attr("n", "INT32")], sparse=True, capacity=5, cell_order=order, dups=dups), 1000)
    cells = list(pool) * 3
    data = {dim.name: cells, "e": [i // len(pool) * 3 for i in range(len(cells))], "n": range(len(cells))}
    a.write(data, 1000)
    steps(a, *every_operator(dim.name, pool))


POOLS = {
    "int8": ("INT8", [-128, -127, -100, -5, -1, 0, 1, 5, 100, 126, 127]),
    "uint8": ("UINT8", [0, 1, 2, 5, 100, 127, 128, 129, 200, 254, 255]),
    "int16": ("INT16", [-2**15, -2**15 + 1, -300, -5, -1, 0, 1, 255, 256, 2**15 - 2, 2**15 - 1]),
    "uint16": ("UINT16", [0, 1, 2, 255, 256, 2**15 - 1, 2**15, 2**15 + 1, 60000, 2**16 - 2, 2**16 - 1]),
    "int32": ("INT32", [-2**31, -2**31 + 1, -70000, -5, -1, 0, 1, 255, 65536, 2**31 - 2, 2**31 - 1]),
    "uint32": ("UINT32", [0, 1, 2, 255, 65536, 2**31 - 1, 2**31, 2**31 + 1, 4 * 10**9, 2**32 - 2, 2**32 - 1]),
    "int64": ("INT64", [-2**63, -2**63 + 1, -2**40, -5, -1, 0, 1, 2**32, 2**53 + 1, 2**63 - 2, 2**63 - 1]),
    "uint64": ("UINT64", [0, 1, 2, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1]),
    "float32": ("FLOAT32", [-INF, -3e38, -1.5, -1e-45, 0.0, 1e-45, 0.1, 0.25, 1.5, 3e38, INF]),
    "float64": ("FLOAT64", [-INF, -1e308, -1.5, -5e-324, 0.0, 5e-324, 0.1, 0.25, 1.5, 1e308, INF]),
    "day": ("DATETIME_DAY", [-40000, -365, -2, -1, 0, 1, 2, 365, 20000, 40000, 60000]),
    "ns": ("DATETIME_NS", [-2**62, -10**9, -2, -1, 0, 1, 2, 10**9, 10**18, 2**62 - 1, 2**62]),
    "time": ("TIME_SEC", [0, 1, 2, 59, 60, 61, 3599, 3600, 40000, 86398, 86399]),
}
TEXT = ["", "A", "B\0", "B\0\0", "B\0a", "Ba", "a", "aa", "ab", "é", "日本"]
FIXED = [b"\0\0\0", b"\0aa", b"A\0\0", b"Aaa", b"BBB", b"a\0a", b"aaa", b"aab", b"abb", b"z\0\0", b"zzz"]


for key, (tdb_type, pool) in POOLS.items():
    for nullable in (False, True) if key in ("uint8", "int32", "float32", "day") else (False,):
        name = f"delete_by_{key}{'_nullable' if nullable else ''}"
        features = ["sparse", "deletes", *(["nullable"] if nullable else [])]

        @case(name, f"every operator on a{' nullable' if nullable else 'n'} {tdb_type} attribute", *features, windows=STEPS)
        def by_number(path, tdb_type=tdb_type, pool=pool, nullable=nullable):
            by_attribute(path, Attr("a", tdb_type, nullable=nullable), pool, nulls=nullable)


for key, tdb_type in (("ascii", "STRING_ASCII"), ("utf8", "STRING_UTF8"), ("char", "CHAR")):
    for nullable in (False, True):

        @case(f"delete_by_{key}{'_nullable' if nullable else ''}", f"every operator on a var-sized {tdb_type} attribute: empty, with NUL bytes, beyond ASCII",
              "sparse", "deletes", "strings", *(["nullable"] if nullable else []), windows=STEPS)
        def by_text(path, tdb_type=tdb_type, nullable=nullable):
            by_attribute(path, Attr("a", tdb_type, VAR, nullable=nullable), TEXT, nulls=nullable)

    @case(f"delete_by_fixed_{key}", f"every operator on a {tdb_type} attribute of three bytes" + ("; libtiledb orders by the first byte only" if key == "char" else ""),
          "sparse", "deletes", "strings", windows=STEPS)
    def by_fixed(path, tdb_type=tdb_type):
        by_attribute(path, Attr("a", tdb_type, 3), FIXED)


@case("delete_by_one_char", "every operator on single CHARs, which compare as signed bytes", "sparse", "deletes", "strings", windows=STEPS)
def by_one_char(path):
    by_attribute(path, Attr("a", "CHAR", 1), [bytes([c]) for c in b"\x00\x01 09AZ_az~"])


@case("delete_by_bool", "deletes by a BOOL attribute", "sparse", "deletes", windows=STEPS[:2])
def by_bool(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("a", "BOOL", nullable=True)], sparse=True, capacity=4), 1000)
    a.write({"d": range(12), "a": [0, 1, None] * 4}, 1000)
    steps(a, ("and", ("a", "==", 1), ("d", "<", 6)), ("a", "!=", 1))


@case("delete_by_odd_floats", "NaN, both zeros and infinities: comparisons by IEEE, sets by bytes", "sparse", "deletes", "floats", windows=STEPS)
def by_odd_floats(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("f", "FLOAT64"), Attr("g", "FLOAT32", nullable=True)], sparse=True, capacity=4), 1000)
    odd = [NAN, -0.0, 0.0, 1.0, -1.0, INF, -INF, 2.0, -NAN, 3.0]
    a.write({"d": range(40), "f": odd * 4, "g": [*odd[:9], None] * 4}, 1000)
    few = ("d", "<", 10)
    steps(a, ("and", few, ("f", "<", 0.0)), ("and", few, ("f", "==", 0.0)), ("and", few, ("g", "!=", 3.0)),
          ("and", ("d", ">=", 10), ("d", "<", 20), ("f", "in", [0.0, NAN])), ("and", ("d", ">=", 10), ("d", "<", 20), ("g", ">=", -1.0)),
          ("and", ("d", ">=", 20), ("f", "not in", [-0.0, 1.0, 2.0, NAN])), ("f", ">", NAN), ("f", "==", NAN), ("g", "<=", 1.0))


for key, dim in (
    ("int32", Dim("d", "INT32", -2**31, 2**31 - 1001, 1000)), ("uint64", Dim("d", "UINT64", 0, 2**64 - 1 - 2**60, 2**60)), ("int8", Dim("d", "INT8", -128, 126, 10)),
    ("float64", Dim("d", "FLOAT64", -1e308, 1e307, 1e300)), ("day", Dim("d", "DATETIME_DAY", -50000, 70000, 365)), ("string", Dim("d", "STRING_ASCII")),
):
    for order in ("row", "hilbert"):
        if order == "hilbert" and key in ("uint64", "int8"):
            continue

        @case(f"delete_by_dimension_{key}{'_hilbert' if order == 'hilbert' else ''}", f"every operator on a dimension of type {dim.type}{' in Hilbert order' if order == 'hilbert' else ''}",
              "sparse", "deletes", *(["hilbert"] if order == "hilbert" else []), windows=STEPS)
        def on_dimension(path, dim=dim, order=order):
            pool = {"INT32": [-2**31, -2**31 + 1, -9, -5, -1, 0, 1, 9, 99, 2**31 - 1002, 2**31 - 1001], "UINT64": [0, 1, 2, 5, 2**53, 2**53 + 1, 2**60, 2**63, 2**63 + 1, 2**63 + 2**62, 2**64 - 1 - 2**60],
                    "INT8": [-128, -127, -9, -5, -1, 0, 1, 9, 99, 125, 126], "FLOAT64": [-1e308, -1e307, -2.5, -1e-300, 0.0, 1e-300, 0.5, 1.5, 2.5, 1e306, 1e307],
                    "DATETIME_DAY": POOLS["day"][1], "STRING_ASCII": ["", "A", "B", "B!", "Ba", "a", "aa", "ab", "b", "y", "z"]}[dim.type]
            by_dimension(path, dim, pool, order)


def tree(path, config=(), **spec):
    a = Array(path, **dict(config)).create(Spec([Dim("x", "INT32", 0, 99, 10), Dim("y", "INT32", 0, 99, 10)],
                                [Attr("a", "INT32", nullable=True), Attr("b", "FLOAT64"), Attr("s", "STRING_ASCII", VAR, nullable=True)], sparse=True, capacity=10, **spec), 1000)
    field(a, 1000, 0, 120)
    return a


def field(a, ts, lo, hi):
    n = np.arange(lo, hi)
    a.write({"x": n % 10, "y": n // 10, "a": [None if i % 7 == 3 else int(i) % 11 for i in n], "b": (n % 13) / 2,
             "s": [None if i % 5 == 4 else ["", "x", "yy", "zzz"][int(i) % 4] for i in n]}, ts)


TREES = [
    ("and", ("a", ">", 8), ("s", "==", "x")),
    ("or", ("and", ("a", "==", 0), ("b", "<", 2.0)), ("and", ("s", "==", "zzz"), ("x", "==", 3))),
    ("and", ("or", ("a", "<", 3), ("b", ">", 5.0)), ("or", ("s", "!=", "yy"), ("y", "<", 2)), ("or", ("x", "in", [1, 2, 3]), ("s", "in", ["", "zzz"]))),
    ("or", ("and", ("or", ("x", "==", 9), ("y", "==", 9)), ("and", ("a", ">=", 5), ("or", ("b", "<=", 1.0), ("b", ">=", 4.5)))), ("and", ("s", "not in", ["", "x", "yy"]), ("a", "!=", 7), ("y", ">", 8))),
    ("or", ("a", "==", 4), ("a", "==", 6), ("a", "==", 8), ("and", ("b", ">=", 3.0), ("b", "<=", 3.5))),
]


@case("delete_trees", "AND and OR nested up to four levels over dimensions, nullable numbers, floats and nullable strings", "sparse", "deletes", "nullable", windows=STEPS[:5])
def trees(path):
    steps(tree(path), *TREES)


@case("delete_trees_duplicates", "the same where cells may double, over two fragments", "sparse", "deletes", "nullable", "duplicates", windows=STEPS[:5])
def trees_duplicates(path):
    a = tree(path, dups=True)
    field(a, 1500, 60, 160)
    steps(a, *TREES)


@case("delete_trees_hilbert", "the same in Hilbert order", "sparse", "deletes", "nullable", "hilbert", windows=STEPS[:5])
def trees_hilbert(path):
    steps(tree(path, cell_order="hilbert"), *TREES)


@case("delete_trees_overwritten", "the same over cells written two and three times; windows that begin after the first write", "sparse", "deletes", "nullable", "dedup",
      windows=[*STEPS[:5], (1200, 2400), (1500, 2100), (2050, 2400)])
def trees_overwritten(path):
    a = tree(path)
    field(a, 1500, 60, 160)
    a.write({"x": [*range(10)] * 3, "y": np.repeat([2, 6, 9], 10), "a": [1, None, 9] * 10, "b": [0.5] * 30, "s": ["x", None, "zzz"] * 10}, 2050)
    steps(a, *TREES)


@case("delete_null_tests", "IS NULL and IS NOT NULL of text: libtiledb stores an empty value, and then compares with the empty string", "sparse", "deletes", "nullable", windows=[(0, 2000)])
def null_tests(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("s", "STRING_ASCII", VAR, nullable=True), Attr("t", "STRING_UTF8", VAR, nullable=True)], sparse=True), 1000)
    a.write({"d": range(12), "s": ["x", None, ""] * 4, "t": ["y"] * 4 + [None] * 4 + [""] * 4}, 1000)
    steps(a, ("s", "==", None), ("and", ("t", "!=", None), ("d", "<", 6)))


def seasons(path, ordered, nullable=True):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("e", "UINT8", nullable=nullable, enum="season"), Attr("f", "INT16", enum="grade")], sparse=True, capacity=8,
                                enums=[Enum("season", "STRING_ASCII", ["winter", "spring", "summer", "autumn"], ordered=ordered), Enum("grade", "INT64", [10, -20, 30], ordered=ordered, n=1)]), 1000)
    a.write({"d": range(48), "e": [0, 1, 2, 3, 4, None if nullable else 255] * 8, "f": [0, 1, 2, -1] * 12}, 1000)
    return a


@case("delete_by_labels", "enumerated attributes compared by label: codes outside, and NULL", "sparse", "deletes", "enumerations", "nullable", windows=STEPS[:4])
def labels(path):
    low = ("d", "<", 24)
    steps(seasons(path, False), ("and", low, ("e", "==", "spring")), ("and", low, ("f", "in", [10, 30, 77])), ("and", ("d", ">", 36), ("e", "!=", "summer")), ("e", "not in", ["winter", "autumn", "fifth"]))


@case("delete_by_ordered_labels", "ordered enumerations compared by the order of their labels", "sparse", "deletes", "enumerations", windows=STEPS[:4])
def ordered_labels(path):
    steps(seasons(path, True, False), ("and", ("e", "<", "spring"), ("d", "<", 20)), ("and", ("e", ">=", "autumn"), ("d", ">", 30)), ("f", ">", -20), ("e", "<=", "winter"))


@case("delete_by_codes", "enumerated attributes compared by code", "sparse", "deletes", "enumerations", "nullable", windows=STEPS[:4])
def codes(path):
    steps(seasons(path, False), ("code", "e", "==", 4), ("code", "f", "<", 0), ("code", "e", ">", 2), ("code", "f", "in", [2, 7]))


@case("delete_enumeration_extended", "a delete by a label that a later schema added, and one before", "sparse", "deletes", "enumerations", "evolved", windows=[(0, 1200), (0, 1500), (0, 2000)])
def enumeration_extended(path):
    a = seasons(path, False)
    a.delete(1200, ("e", "==", "winter"))
    a.evolve(1300, extend=[Enum("season", "STRING_ASCII", ["monsoon", "harvest"])])
    a.spec.enums[0].values += ["monsoon", "harvest"]
    a.write({"d": range(40, 60), "e": [0, 4, 5, None] * 5, "f": [0] * 20}, 1400)
    steps(a, ("e", "==", "monsoon"), ("e", "in", ["harvest", "spring"]))


def grown(path, **more):
    """`y` and `z` come later than the first fragment."""
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("x", "INT32")], sparse=True, capacity=5, **more), 1000)
    a.write({"d": range(20), "x": range(20)}, 1000)
    a.evolve(1100, add=[Attr("y", "INT32", nullable=True), Attr("z", "STRING_ASCII", VAR)])
    a.write({"d": range(15, 40), "x": range(15, 40), "y": [None if i % 4 == 0 else i for i in range(25)], "z": ["a", "bb", "", "c", "d"] * 5}, 1200)
    return a


for i, (condition, why) in enumerate([
    (("y", "==", 3), "alone: all its cells go"),
    (("or", ("x", "==", 3), ("y", "==", 3)), "in an AND of what is stored: all its cells go"),
    (("and", ("y", "==", 3), ("x", "<", 9)), "first in a stored OR: the other comparison decides"),
    (("and", ("x", "<", 9), ("y", "==", 3)), "last in a stored OR: libtiledb forgets the comparison before it, all cells go"),
    (("and", ("x", "<", 9), ("or", ("z", "==", "bb"), ("d", "<", 2))), "in an AND inside a stored OR: the other side decides"),
    (("and", ("x", "<", 9), ("y", "==", 3), ("z", "!=", "a"), ("d", "<", 6)), "in the middle of a stored OR: what follows decides"),
]):
    @case(f"delete_evolved_{i + 1}", f"a delete by an attribute that the first fragment lacks, {why}", "sparse", "deletes", "evolved", "nullable", windows=[(0, 1000), (0, 1999)])
    def evolved(path, condition=condition):
        grown(path).delete(2000, condition)


@case("delete_evolved_consolidated", "such a delete between the times of a consolidated fragment, which then has the attribute", "sparse", "deletes", "evolved", "timestamps", "consolidated", "nullable",
      windows=[(0, 1000), (0, 1150), (0, 1999), (1100, 1999)])
def evolved_consolidated(path):
    a = grown(path)
    a.consolidate()
    a.vacuum()
    a.delete(1150, ("x", "in", [1, 16, 17]))
    steps(a, ("and", ("x", "<", 9), ("y", "==", 3)))


@case("delete_evolved_dropped_other", "an attribute is dropped that no delete looks at; those behind it move up", "sparse", "deletes", "evolved", windows=[(0, 1000), (0, 1499), (0, 1600)])
def evolved_dropped_other(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("gone", "FLOAT64"), Attr("a", "INT32"), Attr("s", "STRING_ASCII", VAR)], sparse=True, capacity=5), 1000)
    a.write({"d": range(20), "gone": np.arange(20) / 2, "a": range(20), "s": ["p", "q"] * 10}, 1000)
    a.delete(1300, ("a", "==", 7))
    a.evolve(1500, drop=["gone"])
    a.delete(1600, ("s", "==", "p"))
    a.write({"d": range(10, 30), "a": range(20), "s": ["p", "r"] * 10}, 1700)


@case("delete_consolidated_twice", "delete, consolidate, delete again, write, consolidate again, delete once more; every state on the way", "sparse", "deletes", "consolidated", "timestamps", "dedup", "nullable",
      windows=[(0, 1000), (0, 1100), (0, 1200), (0, 1300), (0, 1400), (0, 1500), (0, 1600), (1000, 1100), (1100, 1300), (1200, 1500), (1300, 1300), (1450, 1600)])
def consolidated_twice(path):
    a = tree(path)
    a.delete(1100, ("a", "<", 3))
    field(a, 1200, 80, 160)
    a.delete(1300, ("s", "==", "x"))
    a.consolidate()
    a.vacuum()
    a.delete(1400, ("b", ">", 5.0))
    field(a, 1500, 0, 30)
    a.consolidate()
    a.vacuum()
    a.delete(1600, ("x", "==", 5))


@case("delete_consolidated_kept", "deletes and consolidation without vacuum: history answers from the originals", "sparse", "deletes", "consolidated", "timestamps", "dedup", "nullable",
      windows=[(0, 1000), (0, 1100), (0, 1200), (0, 1300), (1100, 1200), (1200, 1300), (1200, 1200)])
def consolidated_kept(path):
    a = tree(path)
    a.delete(1100, ("a", "<", 3))
    field(a, 1200, 80, 160)
    a.delete(1300, ("s", "==", "x"))
    a.consolidate()


@case("delete_purged", "consolidated with the option that drops deleted cells for good, then deleted from again", "sparse", "deletes", "consolidated", "timestamps", "dedup", "nullable",
      windows=[(0, 1000), (0, 1100), (0, 1200), (0, 1300), (0, 1350), (1200, 1300)])
def purged(path):
    a = tree(path)
    a.delete(1100, ("a", "<", 3))
    field(a, 1200, 80, 160)
    a.delete(1300, ("s", "==", "x"))
    a.consolidate(purge_deleted_cells="true")
    a.vacuum()
    a.delete(1150, ("x", "==", 1))
    a.delete(1400, ("b", ">", 5.0))


@case("delete_consolidated_duplicates", "deletes and consolidation where cells may double", "sparse", "deletes", "consolidated", "timestamps", "duplicates", "nullable",
      windows=[(0, 1000), (0, 1100), (0, 1200), (0, 1300), (0, 1400), (1100, 1300), (1200, 1400)])
def consolidated_duplicates(path):
    a = tree(path, dups=True)
    a.delete(1100, ("a", "<", 3))
    field(a, 1200, 80, 160)
    a.delete(1300, ("s", "==", "x"))
    field(a, 1300, 100, 120)
    a.consolidate()
    a.vacuum()
    a.delete(1250, ("y", "==", 10))
    a.delete(1400, ("b", ">", 5.0))


@case("delete_same_times", "deletes at the first, a middle and the last time of a consolidated fragment, each also the time of a write", "sparse", "deletes", "consolidated", "timestamps", "dedup",
      windows=[(0, 1000), (0, 1100), (0, 1200), (1000, 1000), (1100, 1100), (1100, 1200), (0, 1099), (0, 1199), (1001, 1200)])
def same_times(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("a", "INT32")], sparse=True, capacity=6), 1000)
    for ts, lo in ((1000, 0), (1100, 10), (1200, 20)):
        a.write({"d": np.arange(lo, lo + 25), "a": np.arange(25) % 6}, ts)
    a.consolidate()
    a.vacuum()
    for ts, value in ((1000, 1), (1100, 2), (1200, 3)):
        a.delete(ts, ("a", "==", value))


@case("delete_rewritten", "deleted cells written again, deleted again, written again, over many small fragments", "sparse", "deletes", "dedup",
      windows=[(0, t) for t in range(1000, 1900, 50)] + [(1200, 1600), (1250, 1450)])
def rewritten(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("a", "INT32"), Attr("s", "STRING_ASCII", VAR)], sparse=True, capacity=4), 1000)
    for i, ts in enumerate(range(1000, 1900, 100)):
        n = np.arange(i * 3 % 7, 24, 1 + i % 3)
        a.write({"d": n, "a": n * (i + 1) % 10, "s": [f"v{i}"] * len(n)}, ts)
        a.delete(ts + 50, ("and", ("a", "in", [i, i + 1, 9]), ("s", "!=", f"v{i - 1}")))


@case("delete_some_consolidated", "only some neighbours consolidated after deletes; newer and older fragments beside them", "sparse", "deletes", "consolidated", "timestamps", "dedup",
      windows=[(0, t) for t in range(1000, 1600, 50)] + [(1100, 1300), (1250, 1500)])
def some_consolidated(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("a", "INT32")], sparse=True, capacity=4), 1000)
    for i, ts in enumerate((1000, 1100, 1200)):
        a.write({"d": np.arange(i * 5, i * 5 + 20), "a": np.arange(20) % 7}, ts)
        a.delete(ts + 50, ("a", "==", i))
    a.consolidate()
    a.vacuum()
    for i, ts in enumerate((1300, 1400, 1500)):
        a.write({"d": np.arange(i * 5 + 3, i * 5 + 23), "a": np.arange(20) % 7}, ts)
        a.delete(ts + 50, ("a", "==", 3 + i))


@case("delete_con_and_files", "deletes in a .con file, the same as files beside it, and a newer one only as a file", "sparse", "deletes", "con", "nullable", windows=[(0, 1100), (0, 1300), (0, 1400), (1200, 1300)])
def con_and_files(path):
    a = tree(path)
    a.delete(1100, ("a", "<", 3))
    field(a, 1200, 80, 160)
    a.delete(1300, ("s", "in", ["x", "\n\n"]))
    a.consolidate("commits")
    a.delete(1400, ("b", ">", 5.0))


@case("delete_con_consolidated", "fragments consolidated while the deletes lie only in a .con file; the names they go by are processed", "sparse", "deletes", "con", "consolidated", "timestamps", "nullable",
      windows=[(0, 1000), (0, 1100), (0, 1200), (0, 1300), (0, 1400)])
def con_consolidated(path):
    a = tree(path)
    a.delete(1100, ("a", "<", 3))
    field(a, 1200, 80, 160)
    a.delete(1300, ("s", "==", "x"))
    a.consolidate("commits")
    a.vacuum("commits")
    a.consolidate()
    a.vacuum()
    a.delete(1400, ("b", ">", 5.0))


@case("delete_everything", "deletes that leave no cell, and a write afterwards", "sparse", "deletes", windows=[(0, 1000), (0, 1100), (1100, 1200)])
def everything(path):
    a = tree(path)
    a.delete(1100, ("x", ">=", 0))
    field(a, 1200, 0, 5)


@case("delete_nothing", "deletes that hit no cell, or are older than every cell", "sparse", "deletes", windows=[(0, 1000)])
def nothing(path):
    a = tree(path)
    a.delete(600, ("x", ">=", 0))
    a.delete(1100, ("x", ">", 90))


@case("delete_many", "forty deletes over twelve fragments", "sparse", "deletes", "dedup", "many fragments", windows=[(0, 1500), (0, 2000), (1300, 2100)])
def many(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 999, 10)], [Attr("a", "INT32"), Attr("b", "UINT8")], sparse=True, capacity=16), 1000)
    for i in range(12):
        n = np.arange(i * 20, i * 20 + 60)
        a.write({"d": n, "a": n * 37 % 101, "b": n % 251 % 256}, 1000 + i * 100)
    for i in range(40):
        a.delete(1020 + i * 30, ("and", ("a", "==", i * 5 % 101), ("b", ">", i)))


UPDATES = {"sm.allow_updates_experimental": "true"}


@case("update_commit", "an update commit, experimental in libtiledb: readers delete the cells it touches", "sparse", "deletes", "updates", windows=[(0, 1000), (0, 2000), (0, 3000), (2000, 3000)])
def update_commit(path):
    a = Array(path, **UPDATES).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("x", "INT32"), Attr("s", "STRING_ASCII", VAR)], sparse=True, capacity=4), 1000)
    a.write({"d": range(20), "x": range(20), "s": ["a", "b"] * 10}, 1000)
    a.update(2000, ("and", ("x", "<", 12), ("s", "==", "a")), x=77, s="updated")
    a.write({"d": range(10, 15), "x": range(5), "s": ["c"] * 5}, 3000)
    a.delete(4000, ("x", "==", 1))


@case("update_consolidated", "an update commit between fragments that were consolidated after it", "sparse", "deletes", "updates", "consolidated", "timestamps", windows=[(0, 1000), (0, 2000), (0, 3000)])
def update_consolidated(path):
    update_commit(path)
    a = Array(path, **UPDATES)
    a.consolidate()
    a.vacuum()


@case("delete_dropped", "a delete by an attribute that was dropped afterwards: libtiledb can read only what was before", "sparse", "deletes", "evolved", windows=[(0, 1000), (0, 2500)],
      fails="the attribute of a delete was dropped")
def dropped(path):
    a = grown(path)
    a.delete(2000, ("x", "<", 9))
    a.evolve(3000, drop=["x"])


def stored(path, ts, tree):
    """A .del file made by hand, in a generic tile without filters: what libtiledb reads but never writes."""
    chunk = struct.pack("<III", len(tree), len(tree), 0) + tree
    tile = struct.pack("<IQQBQBIIIQ", 22, 8 + len(chunk), len(tree), 4, 1, 0, 8, 65536, 0, 1) + chunk
    (path / "__commits" / f"__{ts}_{ts}_{ts:032x}_22.del").write_bytes(tile)


def leaf(op, field, value=b""):
    return struct.pack("<BBI", 1, op, len(field)) + field + struct.pack("<Q", len(value)) + value


def either(*nodes):
    return struct.pack("<BBQ", 0, 1, len(nodes)) + b"".join(nodes)


@case("delete_always", "the operators ALWAYS_TRUE and ALWAYS_FALSE, made by hand: nothing holds for NULL", "sparse", "deletes", "nullable", windows=[(0, 1000), (0, 2000), (0, 2100), (0, 2200)])
def always(path):
    a = tree(path)
    stored(path, 2000, leaf(253, b"a", b"\0\0\0\0"))
    stored(path, 2100, either(leaf(254, b"b", b"\0" * 8), leaf(3, b"x", struct.pack("<i", 3))))
    stored(path, 2200, either(leaf(254, b"x", b"\0" * 4), leaf(253, b"s", b"")))
    stored(path, 2300, leaf(254, b"y", b"\0" * 4))
    field(a, 2400, 0, 9)


@case("delete_encrypted", "deletes in an encrypted array: as files, inside a .con file, and recorded by a consolidation", "sparse", "deletes", "encryption", "con", "consolidated", "nullable",
      config=CONFIG, options=OPTIONS, windows=[(0, 1000), (0, 1100), (0, 1200), (0, 1300), (0, 1400)])
def encrypted(path):
    a = tree(path, config=CONFIG)
    a.delete(1100, ("a", "<", 3))
    field(a, 1200, 80, 160)
    a.consolidate()
    a.vacuum()
    a.delete(1300, ("s", "==", "x"))
    a.consolidate("commits")
    a.vacuum("commits")
    a.delete(1400, ("b", ">", 5.0))
