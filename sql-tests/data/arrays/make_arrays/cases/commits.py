"""The array's directory: consolidated commits, ignore files, consolidated fragment metadata, leftovers."""

import shutil

import numpy as np

from cases import case
from capi import VAR
from tdbarray import Array, Attr, Dim, Spec

WINDOWS = [(0, 1000), (0, 2000), (2000, 3000)]


def four(path, sparse=True, count=4):
    spec = Spec([Dim("d", "INT32", 0, 49, 10)], [Attr("a", "INT32"), Attr("s", "STRING_UTF8", VAR)], sparse=sparse, capacity=8)
    a = Array(path).create(spec, 1000)
    for k in range(1, count + 1):
        add(a, k)
    return a


def add(a, k):
    n = np.arange(5 * k, 5 * k + 15)
    data = {"a": n + 100 * k, "s": [f"ä{k}" * (int(i) % 2) for i in n]}
    if a.spec.sparse:
        a.write({"d": n, **data}, 1000 * k)
    else:
        a.write(data, 1000 * k, [(int(n[0]), int(n[-1]))])


@case("commits_consolidated", "commits consolidated into a .con file, the .wrt files still there", "sparse", "commits", "con", windows=WINDOWS)
def commits_consolidated(path):
    four(path).consolidate("commits")


@case("commits_vacuumed", "commits only in a .con file, one newer .wrt beside it", "sparse", "commits", "con", windows=WINDOWS)
def commits_vacuumed(path):
    a = four(path)
    a.consolidate("commits")
    a.vacuum("commits")
    add(a, 5)


@case("commits_vacuumed_dense", "the same for a dense array", "dense", "commits", "con", windows=WINDOWS)
def commits_vacuumed_dense(path):
    a = four(path, sparse=False)
    a.consolidate("commits")
    a.vacuum("commits")


@case("commits_ignored", "fragments consolidated and vacuumed after their commits went into a .con: an .ign file takes them out", "sparse", "commits", "con", "ign", "consolidated", windows=WINDOWS)
def commits_ignored(path):
    a = four(path)
    a.consolidate("commits")
    a.vacuum("commits")
    a.consolidate("fragments")
    a.vacuum("fragments")


@case("commits_twice", "two .con files that overlap", "sparse", "commits", "con", windows=WINDOWS)
def commits_twice(path):
    a = four(path)
    a.consolidate("commits")
    add(a, 5)
    a.consolidate("commits")


def written_after_its_con(path, sparse):
    """A write, its commit in a .con file, and another write of the same millisecond whose name is the earlier one."""
    while True:  # names are random: written anew until the second fragment's name is the earlier one
        a = four(path, sparse, 1)
        a.consolidate("commits")
        (first,) = (path / "__fragments").iterdir()
        n = np.arange(10, 25)
        data = {"a": n + 1000, "s": ["later"] * 15}
        a.write({"d": n, **data}, 1000) if sparse else a.write(data, 1000, [(10, 24)])
        if max(p.name for p in (path / "__fragments").iterdir()) == first.name:
            return
        shutil.rmtree(path)


@case("commits_same_time", "two fragments of one millisecond, one of them in a .con file: the other is newer, though its name is the earlier one", "sparse", "commits", "con", "dedup", "tie", rows=20)
def commits_same_time(path):
    written_after_its_con(path, True)


@case("commits_same_time_dense", "the same for a dense array", "dense", "commits", "con", "tie", rows=20)
def commits_same_time_dense(path):
    written_after_its_con(path, False)


@case("fragment_metadata_consolidated", "footers consolidated into a .meta file", "sparse", "fragment_meta", windows=WINDOWS)
def fragment_metadata_consolidated(path):
    four(path).consolidate("fragment_meta")


@case("fragment_metadata_consolidated_dense", "the same for a dense array, and a newer fragment it does not know", "dense", "fragment_meta", windows=WINDOWS)
def fragment_metadata_consolidated_dense(path):
    a = four(path, sparse=False)
    a.consolidate("fragment_meta")
    add(a, 5)


@case("fragment_metadata_stale", "a .meta file that still names vacuumed fragments", "sparse", "fragment_meta", "consolidated", windows=WINDOWS)
def fragment_metadata_stale(path):
    a = four(path)
    a.consolidate("fragment_meta")
    a.consolidate("fragments")
    a.vacuum("fragments")


@case("everything_consolidated", "fragments, commits, footers and metadata consolidated and vacuumed", "sparse", "commits", "con", "fragment_meta", "array_metadata", "consolidated", windows=WINDOWS)
def everything_consolidated(path):
    a = four(path)
    a.put_metadata(1000, one=1)
    a.put_metadata(2000, two="zwei")
    for mode in ("fragments", "array_meta", "commits", "fragment_meta"):
        a.consolidate(mode)
        a.vacuum(mode)


@case("leftover_fragment", "a fragment directory without commit (a write that did not finish) is invisible", "sparse", "leftovers", windows=WINDOWS)
def leftover_fragment(path):
    four(path)
    (commit,) = (path / "__commits").glob("__3000_*.wrt")
    commit.unlink()


@case("leftover_files", "stray files and folders in the root, and an empty fragment folder without commit", "sparse", "leftovers", windows=WINDOWS)
def leftover_files(path):
    four(path)
    (path / "README.txt").write_text("not part of the array\n")
    (path / "data.bin").write_bytes(bytes(100))
    (path / "my_notes").mkdir()
    (path / "my_notes" / "todo.md").write_text("x\n")
    (path / ".hidden").write_text("x\n")
    stray = path / "__fragments" / "__1500_1500_0123456789abcdef0123456789abcdef_22"
    stray.mkdir()
    (stray / "a0.tdb").write_bytes(b"\1\2\3")


@case("missing_folders", "the folders that object stores do not have when empty are gone", "sparse", "leftovers", windows=WINDOWS)
def missing_folders(path):
    four(path)
    for name in ("__meta", "__labels", "__fragment_meta", "__schema/__enumerations"):
        shutil.rmtree(path / name)
