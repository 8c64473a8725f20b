"""Key-value metadata beyond text and numbers: every type, no text at all, keys deleted and set again, consolidations kept."""

import ctypes as C

import numpy as np

from cases import case
from capi import TYPES, WRITE, ptr, raw
from tdbarray import Array, Attr, Dim, Spec, to_bytes


def put(array, ts, *items):
    """One write of metadata: `(key, type, value)`, or `(key,)` to delete it."""
    arr = array.open(WRITE, end=ts)
    for key, *rest in items:
        if not rest:
            array.ctx("array_delete_metadata", arr, key)
            continue
        tdb_type, value = rest
        data = raw(to_bytes(tdb_type, value))
        count = len(data) // TYPES[tdb_type][1]
        array.ctx("array_put_metadata", arr, key, C.c_int(TYPES[tdb_type][0]), C.c_uint32(count), ptr(data))
    array.close(arr)


def small(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 3, 4)], [Attr("a", "INT32")]), 1000)
    a.write({"a": range(4)}, 1000, [(0, 3)])
    return a


@case("metadata_types", "metadata of every type: limits, NaN, several values, none, bytes that are not text, keys that are not text", "dense", "array_metadata", rows=4)
def metadata_types(path):
    items = []
    for name, (_, _, form) in TYPES.items():
        key = name.lower().encode()
        if name in ("ANY",):
            continue
        if form in ("<f4", "<f8"):
            items += [(key, name, [1.5]), (key + b".many", name, [np.nan, -0.0, np.inf, -np.inf, 0.1, 1e300 if form == "<f8" else 1e30])]
        elif name.startswith("STRING") or name in ("CHAR", "GEOM_WKT"):
            items.append((key, name, "h\u00e9" if name not in ("STRING_ASCII", "CHAR") else "he"))
        elif name in ("BLOB", "GEOM_WKB"):
            items.append((key, name, b"\x00\xff\x10"))
        elif name == "BOOL":
            items += [(key, name, [1]), (key + b".many", name, [0, 1, 1])]
        elif name.startswith("DATETIME"):
            items += [(key, name, [19782 if name.endswith(("DAY", "WEEK", "MONTH", "HR")) else 54]), (key + b".many", name, [-1, 0, np.iinfo("i8").min])]
        elif name.startswith("TIME"):
            items += [(key, name, [5]), (key + b".many", name, [-1, 10**18])]
        else:
            limits = np.iinfo(form)
            items += [(key, name, [limits.max]), (key + b".many", name, [limits.min, 0, limits.max])]
    items += [
        (b"empty.int32", "INT32", b""), (b"empty.utf8", "STRING_UTF8", b""), (b"", "INT32", [7]), (b"\xff key", "INT32", [8]),
        (b"broken utf8", "STRING_UTF8", b"a\xffb"), (b"nul", "STRING_ASCII", b"a\x00b"), ("clé 😀".encode(), "STRING_UTF8", "värde"),
    ]
    put(small(path), 1000, *items)


@case("metadata_history", "metadata keys set, deleted and set again; a consolidation that is kept, one more write", "dense", "array_metadata", "consolidated", rows=4)
def metadata_history(path):
    a = small(path)
    put(a, 1000, (b"a", "INT32", [1]), (b"b", "INT32", [1]), (b"c", "STRING_UTF8", "first"))
    put(a, 2000, (b"a",), (b"b", "FLOAT64", [2.5]))
    put(a, 3000, (b"a", "STRING_UTF8", "again"), (b"c",), (b"never there",))
    a.consolidate("array_meta")
    put(a, 5000, (b"b",), (b"d", "UINT64", [2**64 - 1]))
