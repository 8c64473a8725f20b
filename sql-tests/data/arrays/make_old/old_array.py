"""`Array` for libraries of any age: the C API as it was, and names that do not depend on the clock.

Old libraries cannot be told a timestamp, and all of them draw random identifiers. So each write is followed by renaming what it left:
the timestamp asked for, an identifier counted up. Nothing inside the files repeats those names, except in `.vac` files and consolidated metadata,
which are only made after the renaming.
"""

import ctypes as C
import hashlib
import pathlib
import re

import numpy as np

from capi import LAYOUTS, LIB, WRITE, ptr
from tdbarray import VAR, Array, element


def has(function):
    """Whether the loaded library has that function."""
    try:
        getattr(LIB, "tiledb_" + function)
    except AttributeError:
        return False
    return True


class OldArray(Array):
    """An array on disk, written with whatever library is loaded."""

    def __init__(self, path, **config):
        super().__init__(path, **config)
        self.path, self.seen, self.key = pathlib.Path(str(path)), set(), None
        self.seen = self.names()

    # --- names ------------------------------------------------------------------------------------------------------

    def names(self):
        folders = [self.path, self.path / "__fragments", self.path / "__commits", self.path / "__schema", self.path / "__meta"]
        return {p for f in folders if f.is_dir() for p in f.iterdir() if re.match(r"__[0-9a-f]+_[0-9a-f]+", p.name)}

    def identifier(self):
        """The next identifier: the same in every run."""
        self.count = getattr(self, "count", len(self.seen)) + 1
        return hashlib.md5(f"{self.path.name} {self.count}".encode()).hexdigest()

    def settle(self, ts=None):
        """Renames what is new: to the timestamp given (else it keeps its own) and to an identifier of ours."""
        fresh = sorted(self.names() - self.seen, key=lambda p: p.name)
        stems = {}
        for p in fresh:
            stem, dot, ending = p.name.partition(".")
            if stem not in stems:
                stems[stem] = self.renamed(stem, ts)
            p.rename(p.with_name(stems[stem] + dot + ending))
        self.seen = self.names()
        return list(stems.values())

    def renamed(self, stem, ts):
        parts = stem[2:].split("_")
        if len(parts[0]) == 32:  # __uuid_t, __uuid_t_t
            times = [str(ts)] if ts is not None else parts[1:]
            return "__" + "_".join([self.identifier(), *times])
        times = [str(ts)] * 2 if ts is not None else parts[:2]
        return "__" + "_".join([*times, self.identifier(), *parts[3:]])

    # --- the C API as it was ----------------------------------------------------------------------------------------

    def new_schema(self, spec, ts):
        return self.ctx.new("array_schema_alloc", C.c_int(1 if spec.sparse else 0))

    def with_key(self, key):
        """The same array, encrypted: by functions of their own while they exist, later by the configuration."""
        if has("array_open_with_key"):
            self.key = (C.c_int(1), key.encode(), C.c_uint32(len(key)))
            return self
        return OldArray(self.path, **{"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": key})

    def save(self, schema):
        if self.key:
            self.ctx("array_create_with_key", self.uri, schema, *self.key)
        else:
            super().save(schema)

    def create(self, spec, ts=1):
        super().create(spec, ts)
        self.settle(ts)
        return self

    def open(self, mode, start=None, end=None):
        arr = self.ctx.new("array_alloc", self.uri)
        if self.key:
            self.ctx("array_open_with_key", arr, C.c_int(mode), *self.key)
        else:
            self.ctx("array_open", arr, C.c_int(mode))
        return arr

    def write(self, data, ts, box=None, layout=None, sparse=None):
        """One fragment at time `ts`; `sparse`: in a dense array, cells with their coordinates (only possible up to libtiledb 2.5)."""
        ctx, fields = self.ctx, {f.name: f for f in [*self.spec.dims, *self.spec.attrs]}
        sparse = self.spec.sparse if sparse is None else sparse
        arr = self.open(WRITE)
        query = ctx.new("query_alloc", arr, C.c_int(WRITE))
        ctx("query_set_layout", query, C.c_int(LAYOUTS[layout or ("unordered" if sparse else "row")]))
        if box is not None:
            self.subarray(arr, query, box)
        keep = []
        if sparse and not has("dimension_set_filter_list"):  # coordinates by dimension came with libtiledb 2.0
            zipped = np.stack([self.buffers(d, data[d.name])["data"] for d in self.spec.dims], axis=1).ravel()
            size = C.c_uint64(zipped.nbytes)
            keep += [zipped, size]
            ctx("query_set_buffer", query, b"__coords", ptr(zipped), C.byref(size))
            data = {k: v for k, v in data.items() if k in {a.name for a in self.spec.attrs}}
        keep += [self._set_buffers(query, name, fields[name], cells) for name, cells in data.items()]
        ctx("query_submit", query)
        ctx("query_finalize", query)
        self.close(arr)
        del keep
        return self.settle(ts)

    def subarray(self, arr, query, box):
        if has("query_set_subarray_t"):
            sub = self.ctx.new("subarray_alloc", arr)
            for i, (lo, hi) in enumerate(box):
                r = [element(self.spec.dims[i].type, v) for v in (lo, hi)]
                self.ctx("subarray_add_range", sub, C.c_uint32(i), ptr(r[0]), ptr(r[1]), None)
            self.ctx("query_set_subarray_t", query, sub)
        else:
            flat = np.concatenate([element(d.type, v) for d, ends in zip(self.spec.dims, box) for v in ends])
            self.ctx("query_set_subarray", query, ptr(flat))

    def bind(self, query, key, buffers, sizes):
        if has("query_set_data_buffer"):
            # libtiledb 2.4 to 2.14 count the cells of text dimensions only when the data come first, and write nothing otherwise.
            data_first = {kind: buffers[kind] for kind in ("data", "offsets", "validity") if kind in buffers}
            return super().bind(query, key, data_first, sizes)
        name = "query_set_buffer" + ("_var" if "offsets" in buffers else "") + ("_nullable" if "validity" in buffers else "")
        args = [a for kind in ("offsets", "data", "validity") if kind in buffers for a in (ptr(buffers[kind]), C.byref(sizes[kind]))]
        return self.ctx(name, query, key, *args)

    def put_metadata(self, ts, **items):
        super().put_metadata(ts, **items)
        self.settle(ts)

    def consolidate(self, mode="fragments", **config):
        super().consolidate(mode, **config)
        return self.settle()


__all__ = ["VAR", "OldArray", "has"]
