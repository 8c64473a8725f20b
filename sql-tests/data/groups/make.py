"""Makes the golden groups in `sql-tests/data/unpacked/groups`, and `expected.jsonl` with their members as libtiledb sees them.

    cargo test --test sql-tests -- --unpack groups
    python make.py <libtiledb 2.8 .so>
    cargo test --test sql-tests -- --pack groups

Needs tiledb-py 0.36.1 (libtiledb 2.30) and numpy. The library of the argument, out of the wheel of tiledb-py 0.14.4, writes
the groups of version 1. Every time is given, so that only the UUIDs in names differ from run to run.
"""

import ctypes as C
import json
import os
import shutil
import sys

import numpy as np
import tiledb

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(os.path.dirname(HERE), "unpacked", "groups")


def path(name):
    return os.path.join(ROOT, name)


def array(name, dims, attrs, data, at, meta=None):
    """A sparse array with one fragment; `data` maps fields to columns."""
    uri = path(name)
    if not os.path.exists(uri):
        domain = tiledb.Domain(*[tiledb.Dim(name=d, domain=(0, 999), tile=100, dtype=np.int64) for d in dims])
        attrs = [tiledb.Attr(name=a, dtype=t, var=t == "ascii") for a, t in attrs.items()]
        tiledb.Array.create(uri, tiledb.ArraySchema(domain=domain, attrs=attrs, sparse=True))
        # The schema is of a time of its own: the first of the array.
        (schema,) = [n for n in os.listdir(os.path.join(uri, "__schema")) if n != "__enumerations"]
        uuid = schema.rsplit("_", 1)[1]
        os.rename(os.path.join(uri, "__schema", schema), os.path.join(uri, "__schema", f"__{at}_{at}_{uuid}"))
    with tiledb.open(uri, "w", timestamp=at) as a:
        columns = {k: np.array(v, dtype=None if k in dims or not isinstance(v[0], str) else "O") for k, v in data.items()}
        a[tuple(columns.pop(d) for d in dims)] = columns
        for key, value in (meta or {}).items():
            a.meta[key] = value


def group(name):
    tiledb.Group.create(path(name))


def change(name, at, add=(), remove=(), meta=None):
    """One write to a group: `add` holds (uri, name) of relative members."""
    config = tiledb.Config({"sm.group.timestamp_end": str(at)})
    g = tiledb.Group(path(name), "w", config=config)
    for uri, member in add:
        g.add(uri, name=member, relative=True)
    for member in remove:
        g.remove(member)
    for key, value in (meta or {}).items():
        g.meta[key] = value
    g.close()


def small(name, at=1000):
    array(name, ["d"], {"a": "int32"}, {"d": [1, 2], "a": np.array([10, 20], dtype=np.int32)}, at)


def experiment():
    """The layout of a SOMA experiment: what tiledbsoma calls obs, ms, X, var and uns."""
    for g in ("", "/ms", "/ms/RNA", "/ms/RNA/X", "/ms/protein", "/uns"):
        group("experiment" + g)
    soma = lambda kind: {"soma_object_type": kind, "soma_encoding_version": "1.1.0"}
    obs = {"soma_joinid": [0, 1, 2], "cell_type": ["B", "T", "T"], "n_genes": np.array([2, 1, 2], dtype=np.int64)}
    array("experiment/obs", ["soma_joinid"], {"cell_type": "ascii", "n_genes": "int64"}, obs, 1000, soma("SOMADataFrame"))
    more = {"soma_joinid": [3], "cell_type": ["NK"], "n_genes": np.array([1], dtype=np.int64)}
    array("experiment/obs", ["soma_joinid"], {}, more, 2000)
    var = {"soma_joinid": [0, 1], "gene": ["CD3E", "MS4A1"]}
    array("experiment/ms/RNA/var", ["soma_joinid"], {"gene": "ascii"}, var, 1000, soma("SOMADataFrame"))
    x = {"soma_dim_0": [0, 0, 1, 2, 2], "soma_dim_1": [0, 1, 0, 0, 1]}
    x["soma_data"] = np.array([1.5, 4, 7, 8, 0.5], dtype=np.float32)
    dims = ["soma_dim_0", "soma_dim_1"]
    array("experiment/ms/RNA/X/data", dims, {"soma_data": "float32"}, x, 1000, soma("SOMASparseNDArray"))
    protein = {"soma_joinid": [0], "protein": ["CD20"]}
    array("experiment/ms/protein/var", ["soma_joinid"], {"protein": "ascii"}, protein, 3000, soma("SOMADataFrame"))
    change("experiment/ms/RNA/X", 1000, [("data", "data")], meta=soma("SOMACollection"))
    change("experiment/ms/RNA", 1000, [("var", "var"), ("X", "X")], meta=soma("SOMAMeasurement"))
    change("experiment/ms/protein", 3000, [("var", "var")], meta=soma("SOMAMeasurement"))
    change("experiment/ms", 1000, [("RNA", "RNA")], meta=soma("SOMACollection"))
    change("experiment/ms", 3000, [("protein", "protein")])
    change("experiment/uns", 1000, meta=soma("SOMACollection"))
    change("experiment", 1000, [("obs", "obs"), ("ms", "ms"), ("uns", "uns")], meta=soma("SOMAExperiment"))


def changes():
    """Members that come, go, come back and change their name."""
    group("changes")
    for name in ("a", "b", "c"):
        small("changes/" + name)
    change("changes", 1000, [("a", "first"), ("b", "second")])
    change("changes", 2000, remove=["first"])
    change("changes", 3000, [("a", "renamed"), ("c", None)])
    change("changes", 4000, [("c", "first")], remove=["second"])


def unnamed():
    """Members without names, two of them alike, and names that only quotes can write."""
    group("unnamed")
    group("unnamed/x")
    for name in ("x/data", "data", "y", "z"):
        small("unnamed/" + name)
    change("unnamed", 1000, [("data", None), ("x/data", None), ("y", "x/data_2"), ("z", "a name; with \"quotes\"")])


def cycle():
    """A group that holds itself, and one that holds its parent."""
    group("cycle")
    group("cycle/inner")
    small("cycle/inner/a")
    change("cycle", 1000, [(".", "self"), ("inner", "inner")])
    change("cycle/inner", 1000, [("..", "up"), ("a", "a")])


def missing():
    """Members that are gone, and one that is not what the group says."""
    group("missing")
    for name in ("gone", "here", "swapped"):
        small("missing/" + name)
    group("missing/gone_group")
    group("missing/inner")
    small("missing/inner/gone")
    small("missing/inner/here")
    change("missing/inner", 1000, [("gone", "gone"), ("here", "here")])
    change("missing", 1000, [(n, n) for n in ("gone", "here", "swapped", "gone_group", "inner")])
    for name in ("gone", "gone_group", "inner/gone", "swapped"):
        shutil.rmtree(path("missing/" + name))
    group("missing/swapped")


def version_1(library):
    """Written by libtiledb 2.8, then added to by 2.30, which keeps the version."""
    lib = C.CDLL(library)

    def call(ctx, name, *args):
        if getattr(lib, "tiledb_" + name)(ctx, *args) != 0:
            error, message = C.c_void_p(), C.c_char_p()
            lib.tiledb_ctx_get_last_error(ctx, C.byref(error))
            lib.tiledb_error_message(error, C.byref(message))
            raise RuntimeError(f"{name}: {message.value.decode()}")

    def context(at):
        config, error, ctx = C.c_void_p(), C.c_void_p(), C.c_void_p()
        lib.tiledb_config_alloc(C.byref(config), C.byref(error))
        lib.tiledb_config_set(config, b"sm.group.timestamp_end", str(at).encode(), C.byref(error))
        assert lib.tiledb_ctx_alloc(config, C.byref(ctx)) == 0
        return ctx

    def change_1(name, at, add=(), remove=()):
        ctx, g = context(at), C.c_void_p()
        call(ctx, "group_alloc", path(name).encode(), C.byref(g))
        call(ctx, "group_open", g, 1)
        for uri, member in add:
            call(ctx, "group_add_member", g, uri.encode(), C.c_uint8(1), member and member.encode())
        for member in remove:
            call(ctx, "group_remove_member", g, member.encode())
        call(ctx, "group_close", g)

    ctx = context(0)
    call(ctx, "group_create", path("version_1").encode())
    call(ctx, "group_create", path("version_1/nested").encode())
    for name in ("a", "b", "nested/c"):
        small("version_1/" + name)
    change_1("version_1/nested", 1000, [("c", None)])
    change_1("version_1", 1000, [("a", "A"), ("nested", "nested")])
    change_1("version_1", 2000, [("b", None)], ["A"])
    change("version_1", 3000, [("a", "back")])


def members(uri, at, above=""):
    """All below a group, as libtiledb lists it: path with `?` for want of a name, type, folder below that of all groups."""
    found = []
    with tiledb.Group(uri, config=tiledb.Config({"sm.group.timestamp_end": str(at)})) as g:
        listed = [(m.name or "?", os.path.normpath(m.uri.removeprefix("file://")), m.type.__name__.lower()) for m in g]
    for name, folder, kind in listed:
        found.append([above + name, kind, os.path.relpath(folder, ROOT)])
        in_cycle = (uri + "/").startswith(folder + "/")
        if kind == "group" and not in_cycle and tiledb.object_type(folder) == "group":
            found += members(folder, at, above + name + "/")
    return sorted(found)


def main():
    for name in os.listdir(ROOT):
        if os.path.isdir(path(name)):
            shutil.rmtree(path(name))
    experiment()
    changes()
    unnamed()
    cycle()
    missing()
    version_1(sys.argv[1])
    lines = []
    for name in sorted(n for n in os.listdir(ROOT) if os.path.isdir(path(n))):
        for at in (500, 1000, 2000, 3000, 4000):
            found = json.dumps(members(path(name), at), separators=(",", ":"))
            lines.append(f'["{name}",{at},{found}]\n')
    with open(os.path.join(HERE, "expected.jsonl"), "w") as file:
        file.writelines(lines)


main()
