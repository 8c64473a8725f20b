"""Delete conditions: what libtiledb hides after DELETE, before and after consolidation. Sparse arrays only, as in libtiledb."""

import numpy as np

from cases import case
from capi import VAR
from tdbarray import Array, Attr, Dim, Spec


def readings(path, dups=False, nullable=False):
    spec = Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("a", "INT32", nullable=nullable), Attr("s", "STRING_ASCII", VAR)], sparse=True, capacity=8, dups=dups)
    a = Array(path).create(spec, 1000)
    add(a, 1000, 0, 40)
    return a


def add(a, ts, lo, hi):
    n = np.arange(lo, hi)
    value = [None if a.spec.attrs[0].nullable and i % 4 == 1 else int(i) % 10 for i in n]
    a.write({"d": n, "a": value, "s": ["even" if i % 2 == 0 else "odd" for i in n]}, ts)


@case("delete_simple", "one delete by an int comparison", "sparse", "deletes", windows=[(0, 1000), (0, 2000), (2000, 2000)])
def delete_simple(path):
    readings(path).delete(2000, ("a", "<", 3))


@case("delete_string", "deletes by a string and by a dimension", "sparse", "deletes", windows=[(0, 2000)])
def delete_string(path):
    a = readings(path)
    a.delete(2000, ("s", "==", "odd"))
    a.delete(3000, ("d", ">=", 30))


@case("delete_and_or", "deletes whose condition combines comparisons with AND and OR", "sparse", "deletes", windows=[(0, 2000)])
def delete_and_or(path):
    a = readings(path)
    a.delete(2000, ("and", ("a", ">", 3), ("s", "!=", "even")))
    a.delete(3000, ("or", ("d", "<=", 2), ("a", "==", 8)))


@case("delete_nulls", "a delete by comparison also removes cells whose value is NULL", "sparse", "deletes", "nullable")
def delete_nulls(path):
    readings(path, nullable=True).delete(2000, ("a", "==", 6))


@case("delete_then_write", "cells written after the delete, over deleted and living cells; a delete at the very time of a fragment counts", "sparse", "deletes", "dedup",
      windows=[(0, 2000), (0, 2999), (3000, 9000)])
def delete_then_write(path):
    a = readings(path)
    a.delete(2000, ("a", "<", 5))
    add(a, 3000, 20, 60)
    a.delete(3000, ("a", "==", 9))


@case("delete_newest_only", "the newest version is deleted: the older one below does not come back", "sparse", "deletes", "dedup", "resurrection", windows=[(0, 1000), (0, 2000)])
def delete_newest_only(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("a", "INT32")], sparse=True), 1000)
    a.write({"d": range(10), "a": [1] * 10}, 1000)
    a.write({"d": range(5), "a": [2] * 5}, 2000)
    a.delete(3000, ("a", "==", 2))


@case("delete_duplicates", "deletes in an array that allows duplicates", "sparse", "deletes", "duplicates")
def delete_duplicates(path):
    a = readings(path, dups=True)
    add(a, 2000, 10, 50)
    a.delete(3000, ("a", "<", 5))


@case("delete_consolidated", "deletes, then consolidation (deleted cells stay with their time) and vacuum", "sparse", "deletes", "consolidated", "timestamps",
      windows=[(0, 1000), (0, 2000), (0, 3000), (3000, 9000)])
def delete_consolidated(path):
    a = readings(path)
    a.delete(2000, ("a", "<", 3))
    add(a, 3000, 30, 70)
    a.delete(4000, ("s", "==", "odd"))
    a.consolidate()
    a.vacuum()


@case("delete_after_consolidation", "a delete between the times of a consolidated fragment, one after it, and a new write", "sparse", "deletes", "consolidated", "timestamps",
      windows=[(0, 2000), (0, 3000), (0, 4000)])
def delete_after_consolidation(path):
    a = readings(path)
    add(a, 3000, 30, 70)
    a.consolidate()
    a.vacuum()
    a.delete(2000, ("a", "<", 3))
    a.delete(4000, ("a", ">", 7))
    add(a, 5000, 0, 5)


@case("delete_commits_consolidated", "a delete condition inside a .con file", "sparse", "deletes", "con", windows=[(0, 1000)])
def delete_commits_consolidated(path):
    a = readings(path)
    a.delete(2000, ("a", "<", 3))
    add(a, 3000, 30, 50)
    a.consolidate("commits")
    a.vacuum("commits")
