"""Consolidation in all its stages: partial, repeated, evolved, interrupted; fragments deleted; windows over all of it."""

import numpy as np

from cases import case
from capi import VAR
from cases.commits import WINDOWS, add, four
from tdbarray import Array, Attr, Dim, Enum, Spec

MANY = [(0, 999), (0, 1000), (0, 1500), (1000, 2000), (1500, 2500), (2000, 2000), (2000, 3000), (3000, 3000), (0, 3999), (4000, 9000)]


def dense(path, parts, extent=6):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 49, extent)], [Attr("a", "INT32"), Attr("s", "STRING_ASCII", VAR, nullable=True)]), 1000)
    for ts, lo, hi in parts:
        put(a, ts, lo, hi)
    return a


def put(a, ts, lo, hi):
    n = range(lo, hi + 1)
    a.write({"a": [i + ts for i in n], "s": [None if i % 4 == 3 else f"{ts}" * (i % 3) for i in n]}, ts, [(lo, hi)])


@case("dense_consolidated_twice", "dense fragments consolidated, then again with a later one; nothing vacuumed", "dense", "consolidated", "vac", "time_travel", windows=MANY)
def dense_consolidated_twice(path):
    a = dense(path, [(1000, 3, 20), (2000, 10, 27)])
    a.consolidate()
    put(a, 3000, 1, 12)
    a.consolidate()
    put(a, 4000, 15, 30)


@case("dense_consolidated_middle", "only the fragments of the middle consolidated, vacuumed; an older and a newer one beside them", "dense", "consolidated", "time_travel", windows=MANY)
def dense_consolidated_middle(path):
    a = dense(path, [(1000, 0, 5), (2000, 12, 23), (3000, 18, 35), (4000, 20, 25)])
    a.consolidate(timestamp_start=2000, timestamp_end=3000)
    a.vacuum()


@case("sparse_consolidated_middle", "only the fragments of the middle consolidated, with timestamps, kept", "sparse", "consolidated", "timestamps", "vac", "time_travel", windows=MANY)
def sparse_consolidated_middle(path):
    four(path).consolidate(timestamp_start=2000, timestamp_end=3000)


@case("sparse_consolidated_chain", "three generations of consolidated fragments, nothing vacuumed", "sparse", "consolidated", "timestamps", "vac", "time_travel", windows=MANY)
def sparse_consolidated_chain(path):
    a = four(path, count=2)
    for k in (3, 4):
        a.consolidate()
        add(a, k)
    a.consolidate()


@case("sparse_consolidated_chain_vacuumed", "three generations of consolidated fragments, vacuumed each time", "sparse", "consolidated", "timestamps", "time_travel", windows=MANY)
def sparse_consolidated_chain_vacuumed(path):
    a = four(path, count=2)
    for k in (3, 4):
        a.consolidate()
        a.vacuum()
        add(a, k)
    a.consolidate()
    a.vacuum()


@case("sparse_consolidated_nullable", "nullable and multi-value attributes consolidated with timestamps", "sparse", "consolidated", "timestamps", "nullable", windows=MANY)
def sparse_consolidated_nullable(path):
    spec = Spec([Dim("k", "STRING_ASCII"), Dim("d", "INT16", -50, 50, 9)], [Attr("n", "INT32", nullable=True), Attr("s", "STRING_UTF8", VAR, nullable=True), Attr("m", "FLOAT32", 2)], sparse=True, capacity=5)
    a = Array(path).create(spec, 1000)
    for ts in (1000, 2000, 3000):
        n = range(14)
        a.write({"k": ["abc"[i % 3] for i in n], "d": [i * (ts // 1000) - 20 for i in n], "n": [None if i % 3 == ts // 1000 - 1 else i + ts for i in n],
                 "s": [None if i % 4 == 1 else "é" * (i % 3) for i in n], "m": [[i, ts] for i in n]}, ts)
    a.consolidate()
    a.vacuum()


@case("dense_without_timestamps", "a dense array whose consolidation swallowed cells that only an older window could see", "dense", "consolidated", "time_travel", windows=[(0, 1000), (0, 2000), (0, 3000)])
def dense_without_timestamps(path):
    a = dense(path, [(1000, 0, 17), (2000, 0, 17), (3000, 6, 11)])
    a.consolidate()
    a.vacuum()


@case("commits_twice_vacuumed", "a .con file replaced by a later one that holds everything", "sparse", "commits", "con", windows=WINDOWS)
def commits_twice_vacuumed(path):
    a = four(path)
    a.consolidate("commits")
    a.vacuum("commits")
    add(a, 5)
    a.consolidate("commits")
    a.vacuum("commits")


@case("commits_half_vacuumed", "commits consolidated; of the files it lists only some are gone, as after a crash", "sparse", "commits", "con", "leftovers", windows=WINDOWS)
def commits_half_vacuumed(path):
    four(path).consolidate("commits")
    for commit in sorted((path / "__commits").glob("*.wrt"))[:2]:
        commit.unlink()


@case("commits_of_consolidated", "fragments consolidated and kept, then the commits consolidated: the .vac files stay beside", "sparse", "commits", "con", "vac", "consolidated", "timestamps", windows=MANY)
def commits_of_consolidated(path):
    a = four(path)
    a.consolidate()
    a.consolidate("commits")
    a.vacuum("commits")
    add(a, 5)


@case("fragment_metadata_twice", "footers consolidated twice, the older file vacuumed", "dense", "fragment_meta", windows=WINDOWS)
def fragment_metadata_twice(path):
    a = four(path, sparse=False)
    a.consolidate("fragment_meta")
    add(a, 5)
    a.consolidate("fragment_meta")
    a.vacuum("fragment_meta")
    add(a, 6)


@case("fragment_metadata_of_consolidated", "footers of consolidated fragments in one file, with those they replace", "sparse", "fragment_meta", "consolidated", "timestamps", "vac", windows=MANY)
def fragment_metadata_of_consolidated(path):
    a = four(path)
    a.consolidate()
    a.consolidate("fragment_meta")


@case("metadata_consolidated_kept", "array metadata consolidated, not vacuumed: the .vac file hides what it replaces", "dense", "array_metadata", "consolidated", "vac", rows=4)
def metadata_consolidated_kept(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 3, 4)], [Attr("a", "INT32")]), 1000)
    a.write({"a": range(4)}, 1000, [(0, 3)])
    for k in range(1, 4):
        a.put_metadata(1000 * k, last=k, **{f"key{k}": f"value {k}"})
    a.consolidate("array_meta")
    a.put_metadata(4000, last=4)


@case("fragments_deleted", "fragments deleted by time", "sparse", "commits", "fragments_deleted", windows=WINDOWS)
def fragments_deleted(path):
    four(path).delete_fragments(2000, 3000)


@case("fragments_deleted_ignored", "fragments deleted whose commits are in a .con file: an .ign file takes them out", "sparse", "commits", "con", "ign", "fragments_deleted", windows=WINDOWS)
def fragments_deleted_ignored(path):
    a = four(path)
    a.consolidate("commits")
    a.vacuum("commits")
    a.delete_fragments(2000, 3000)
    add(a, 5)


@case("fragments_deleted_dense", "the same for a dense array: what lay below shows again", "dense", "commits", "con", "ign", "fragments_deleted", windows=WINDOWS)
def fragments_deleted_dense(path):
    a = four(path, sparse=False)
    a.consolidate("commits")
    a.delete_fragments(3000, 3000)


# --- consolidations that never finished -------------------------------------------------------------------------------


def consolidated(path):
    """The one consolidated fragment's commit, .vac and folder."""
    (vac,) = (path / "__commits").glob("*.vac")
    return vac.with_suffix(".wrt"), vac, path / "__fragments" / vac.stem


@case("crashed_before_commit", "a consolidated fragment without its commit: invisible", "sparse", "consolidated", "leftovers", windows=MANY)
def crashed_before_commit(path):
    four(path).consolidate()
    commit, vac, _ = consolidated(path)
    commit.unlink()
    vac.unlink()


@case("crashed_before_vac", "a consolidated fragment committed, its .vac file not written yet: the same cells twice", "sparse", "consolidated", "timestamps", "leftovers", windows=MANY)
def crashed_before_vac(path):
    four(path).consolidate()
    consolidated(path)[1].unlink()


@case("crashed_before_vac_dense", "the same in a dense array", "dense", "consolidated", "leftovers", windows=MANY)
def crashed_before_vac_dense(path):
    dense(path, [(1000, 3, 20), (2000, 10, 27), (3000, 5, 12)]).consolidate()
    consolidated(path)[1].unlink()


@case("crashed_in_vacuum", "a vacuum that removed some commits, one folder, and stopped; the .vac file is still there", "sparse", "consolidated", "timestamps", "vac", "leftovers", windows=MANY)
def crashed_in_vacuum(path):
    four(path).consolidate()
    _, _, folder = consolidated(path)
    commits = [c for c in sorted((path / "__commits").glob("*.wrt")) if c.stem != folder.name]
    for commit in commits[:2]:
        commit.unlink()
    gone = path / "__fragments" / commits[0].stem
    for file in gone.iterdir():
        file.unlink()
    gone.rmdir()


@case("crashed_in_vacuum_dense", "the same in a dense array", "dense", "consolidated", "vac", "leftovers", windows=MANY)
def crashed_in_vacuum_dense(path):
    dense(path, [(1000, 3, 20), (2000, 10, 27), (3000, 5, 12)]).consolidate()
    _, _, folder = consolidated(path)
    commits = [c for c in sorted((path / "__commits").glob("*.wrt")) if c.stem != folder.name]
    commits[1].unlink()


@case("crashed_ignore", "an .ign file written, the commits and folders it speaks of not removed yet", "sparse", "commits", "con", "ign", "leftovers", windows=WINDOWS)
def crashed_ignore(path):
    a = four(path)
    a.consolidate("commits")
    names = sorted(c.name for c in (path / "__commits").glob("*.wrt"))
    a.vacuum("commits")
    ignore = path / "__commits" / ("__2000_2000_" + "0123456789abcdef" * 2 + "_22.ign")
    ignore.write_text(f"__commits/{names[1]}\n")


# --- evolution --------------------------------------------------------------------------------------------------------


def line():
    return [Dim("d", "INT32", 0, 19, 5)]


@case("evolved_dense_consolidated", "dense fragments of three schemas consolidated under the newest", "dense", "evolution", "consolidated", windows=[(0, 1000), (0, 3000), (3000, 5000)])
def evolved_dense_consolidated(path):
    a = Array(path).create(Spec(line(), [Attr("a", "INT32"), Attr("gone", "INT8")]), 1000)
    a.write({"a": range(10), "gone": range(10)}, 1000, [(0, 9)])
    a.evolve(2000, add=[Attr("n", "INT16", nullable=True), Attr("s", "STRING_UTF8", VAR, fill="leer".encode())])
    a.write({"a": range(5), "gone": range(5), "n": [1, None, 3, None, 5], "s": list("vwxyz")}, 3000, [(5, 9)])
    a.evolve(4000, drop=["gone"])
    a.write({"a": range(10), "n": [None] * 10, "s": [""] * 10}, 5000, [(8, 17)])
    a.consolidate()


@case("evolved_readded", "an attribute dropped and added again with the type it had: its old cells are back", "sparse", "evolution", windows=[(0, 1000), (0, 2500), (0, 3000)])
def evolved_readded(path):
    a = Array(path).create(Spec(line(), [Attr("keep", "INT32"), Attr("x", "INT32")], sparse=True), 1000)
    a.write({"d": range(5), "keep": range(5), "x": range(50, 55)}, 1000)
    a.evolve(2000, drop=["x"])
    a.write({"d": range(3, 8), "keep": range(5)}, 2500)
    a.evolve(3000, add=[Attr("x", "INT32")])
    a.write({"d": range(6, 10), "keep": range(4), "x": range(4)}, 4000)


@case("evolved_many", "eight schemas, a fragment of each, a window for each", "sparse", "evolution", "time_travel", windows=[(0, 1000 * k) for k in range(1, 9)])
def evolved_many(path):
    a = Array(path).create(Spec(line(), [Attr("a0", "INT32")], sparse=True), 1000)
    for k in range(1, 9):
        if k > 1:
            a.evolve(1000 * k, add=[Attr(f"a{k}", ["INT8", "STRING_ASCII", "FLOAT64", "UINT16"][k % 4], VAR if k % 4 == 1 else 1, nullable=k % 3 == 0)], drop=[f"a{k - 3}"] if k > 4 else [])
        data = {f.name: [None if f.nullable and i % 2 else f"{k}{i}" if f.n == VAR else i + k for i in range(6)] for f in a.spec.attrs}
        a.write({"d": [(k * 2 + i) % 20 for i in range(6)], **data}, 1000 * k)


@case("evolved_hilbert", "evolution of an array in Hilbert order", "sparse", "evolution", "hilbert", windows=[(0, 1000)])
def evolved_hilbert(path):
    a = Array(path).create(Spec([Dim("x", "INT32", 0, 99, 10), Dim("y", "INT32", 0, 99, 10)], [Attr("a", "INT32")], sparse=True, cell_order="hilbert", capacity=5), 1000)
    n = np.arange(30)
    a.write({"x": n * 3, "y": (n * 7) % 100, "a": n}, 1000)
    a.evolve(2000, add=[Attr("s", "STRING_ASCII", VAR), Attr("n", "INT8", nullable=True)])
    a.write({"x": n[:12] * 3, "y": (n[:12] * 7) % 100, "a": n[:12] + 100, "s": ["q"] * 12, "n": [None, 1] * 6}, 3000)


@case("enum_extended_consolidated", "an enumeration extended twice, the fragments consolidated", "sparse", "enumeration", "evolution", "consolidated", "timestamps", windows=[(0, 1000), (0, 3000), (3000, 3000)])
def enum_extended_consolidated(path):
    values = ["rot", "grün"]
    a = Array(path).create(Spec(line(), [Attr("c", "UINT8", enum="colour")], sparse=True, enums=[Enum("colour", "STRING_UTF8", values)]), 1000)
    a.write({"d": range(6), "c": [0, 1] * 3}, 1000)
    for ts, more in ((2000, ["blau"]), (4000, ["", "weiß"])):
        a.evolve(ts, extend=[Enum("colour", "STRING_UTF8", more)])
        values = values + more
        a.write({"d": range(4, 10), "c": [i % len(values) for i in range(6)]}, ts + 1000)
    a.consolidate()
    a.vacuum()
