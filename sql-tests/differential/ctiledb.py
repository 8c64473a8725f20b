"""A thin door to the C API of the libtiledb that ships inside the `tiledb` wheel.

The Python classes of tiledb-py hide what a differential test needs: every datatype, raw validity bytes, exact float bits, embedded NULs.
So arrays are made and read through the C API, with raw buffers both ways. Every call is checked; a refusal raises `TileDBError`.
Nothing is loaded at import: callers fork one process per array, because libtiledb may crash, its threads do not survive a fork, and another process may want another release.
"""

import ctypes as ct
import glob
import importlib.util
import os

import numpy as np

U64_MAX = 2**64 - 1
READ, WRITE, DELETE = 0, 1, 2
ROW_MAJOR, COL_MAJOR, GLOBAL_ORDER, UNORDERED, HILBERT = 0, 1, 2, 3, 4
VAR = 2**32 - 1
COMPLETED = 1

FILTER_OPTIONS = {"level": (0, ct.c_int32), "bwr_window": (1, ct.c_uint32), "pd_window": (2, ct.c_uint32), "bytewidth": (3, ct.c_uint64),
                  "factor": (4, ct.c_double), "offset": (5, ct.c_double), "reinterpret": (9, ct.c_uint8)}


class TileDBError(Exception):
    """libtiledb refused a call."""


def load(path=None):
    """Loads libtiledb: the one inside the installed wheel, or another release's. Once per process, before the first context."""
    global _lib
    _lib = ct.CDLL(path or installed())


def has(name):
    """Whether this release has a call."""
    return hasattr(_lib, "tiledb_" + name)


def version():
    numbers = [ct.c_int() for _ in range(3)]
    _lib.tiledb_version(*[ct.byref(n) for n in numbers])
    return tuple(n.value for n in numbers)


def installed():
    package = os.path.dirname(importlib.util.find_spec("tiledb").origin)
    found = glob.glob(os.path.join(package + ".libs", "libtiledb*")) + glob.glob(os.path.join(package, "libtiledb.so*"))
    if not found:
        raise RuntimeError("no libtiledb shared library beside the tiledb package in " + package)
    return found[0]


_lib = None


class Context:
    """A libtiledb context with its own configuration; `call` checks every return code."""

    def __init__(self, settings=None):
        if _lib is None:
            load()
        self.ptr, self.settings = ct.c_void_p(), {"sm.compute_concurrency_level": "1", "sm.io_concurrency_level": "1", **(settings or {})}
        config = make_config(self.settings)
        if _lib.tiledb_ctx_alloc(config, ct.byref(self.ptr)) != 0:
            raise TileDBError("cannot make a context")

    def call(self, name, *args):
        if not has(name):
            raise TileDBError(f"this release has no {name}")
        if getattr(_lib, "tiledb_" + name)(self.ptr, *args) != 0:
            error, message = ct.c_void_p(), ct.c_char_p()
            _lib.tiledb_ctx_get_last_error(self.ptr, ct.byref(error))
            _lib.tiledb_error_message(error, ct.byref(message))
            raise TileDBError(f"{name}: {(message.value or b'?').decode(errors='replace')}")

    def new(self, name, *args):
        """Calls an allocating function whose last argument is the handle to fill."""
        handle = ct.c_void_p()
        self.call(name, *args, ct.byref(handle))
        return handle

    def filter_list(self, pipeline, chunk_size=None):
        handle = self.new("filter_list_alloc")
        for filter_id, options in pipeline:
            item = self.new("filter_alloc", ct.c_int(filter_id))
            for key, value in options.items():
                number, kind = FILTER_OPTIONS[key]
                self.call("filter_set_option", item, ct.c_int(number), ct.byref(kind(value)))
            self.call("filter_list_add_filter", handle, item)
        if chunk_size:
            self.call("filter_list_set_max_chunk_size", handle, ct.c_uint32(chunk_size))
        return handle


def make_config(settings):
    config, error = ct.c_void_p(), ct.c_void_p()
    _lib.tiledb_config_alloc(ct.byref(config), ct.byref(error))
    for key, value in settings.items():
        if _lib.tiledb_config_set(config, key.encode(), str(value).encode(), ct.byref(error)) != 0:
            raise TileDBError("bad setting " + key)
    return config


class OpenArray:
    """An array opened for one kind of query in one time window (context manager)."""

    def __init__(self, ctx, uri, kind, start=0, end=None):
        self.ctx = ctx
        self.ptr = ctx.new("array_alloc", uri.encode())
        if has("array_set_open_timestamp_end"):
            ctx.call("array_set_open_timestamp_start", self.ptr, ct.c_uint64(start))
            if end is not None:
                ctx.call("array_set_open_timestamp_end", self.ptr, ct.c_uint64(end))
            ctx.call("array_open", self.ptr, ct.c_int(kind))
        else:  # before 2.3, which writes at the time of the clock
            ctx.call("array_open", self.ptr, ct.c_int(kind))
        self.kind = kind

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ctx.call("array_close", self.ptr)

    def non_empty_domain(self, dim_index, dtype):
        """(lo, hi) of a fixed-size dimension as numpy scalars, or None for an empty array."""
        bounds, empty = np.zeros(2, dtype), ct.c_int32()
        self.ctx.call("array_get_non_empty_domain_from_index", self.ptr, ct.c_uint32(dim_index), _address(bounds), ct.byref(empty))
        return None if empty.value else (bounds[0], bounds[1])

    def is_empty(self, dim_index, is_string, dtype=None):
        if not is_string:
            return self.non_empty_domain(dim_index, dtype) is None
        lo, hi, empty = ct.c_uint64(), ct.c_uint64(), ct.c_int32()
        self.ctx.call("array_get_non_empty_domain_var_size_from_index", self.ptr, ct.c_uint32(dim_index), ct.byref(lo), ct.byref(hi), ct.byref(empty))
        return bool(empty.value)

    def query(self, layout, ranges, buffers):
        """Runs one query. `ranges`: (dimension, lo, hi) numpy scalars or bytes; `buffers`: {name: Buffer}. True when the query completed."""
        query = self.ctx.new("query_alloc", self.ptr, ct.c_int(self.kind))
        self.ctx.call("query_set_layout", query, ct.c_int(layout))
        if ranges and not has("query_set_subarray_t"):
            bounds = np.array([[lo, hi] for _, lo, hi in ranges], type(ranges[0][1]))
            self.ctx.call("query_set_subarray", query, _address(bounds))
        elif ranges:
            subarray = self.ctx.new("subarray_alloc", self.ptr)
            for dim_index, lo, hi in ranges:
                if isinstance(lo, bytes):
                    self.ctx.call("subarray_add_range_var", subarray, ct.c_uint32(dim_index), ct.c_char_p(lo), ct.c_uint64(len(lo)), ct.c_char_p(hi), ct.c_uint64(len(hi)))
                    continue
                lo, hi = np.array([lo]), np.array([hi])
                self.ctx.call("subarray_add_range", subarray, ct.c_uint32(dim_index), _address(lo), _address(hi), None)
            self.ctx.call("query_set_subarray_t", query, subarray)
        for name, buffer in buffers.items():
            buffer.attach(self.ctx, query, name)
        self.ctx.call("query_submit", query)
        status = ct.c_int()
        self.ctx.call("query_get_status", query, ct.byref(status))
        if self.kind == WRITE:
            self.ctx.call("query_finalize", query)
        return status.value == COMPLETED

    def delete_where(self, condition):
        """Writes a delete condition, made by one of the functions below."""
        query = self.ctx.new("query_alloc", self.ptr, ct.c_int(DELETE))
        self.ctx.call("query_set_condition", query, condition)
        self.ctx.call("query_submit", query)

    def put_metadata(self, key, datatype, count, value):
        self.ctx.call("array_put_metadata", self.ptr, key.encode(), ct.c_int(datatype), ct.c_uint32(count), ct.c_char_p(value) if count else None)

    def delete_metadata(self, key):
        self.ctx.call("array_delete_metadata", self.ptr, key.encode())

    def metadata(self):
        """{key: (datatype, count, raw value)} as far as the window shows it."""
        number, out = ct.c_uint64(), {}
        self.ctx.call("array_get_metadata_num", self.ptr, ct.byref(number))
        for index in range(number.value):
            key, key_size, datatype, count, value = ct.c_char_p(), ct.c_uint32(), ct.c_int(), ct.c_uint32(), ct.c_void_p()
            self.ctx.call("array_get_metadata_from_index", self.ptr, ct.c_uint64(index), ct.byref(key), ct.byref(key_size), ct.byref(datatype), ct.byref(count), ct.byref(value))
            size = _lib.tiledb_datatype_size(datatype) * count.value
            # An empty value is told as one element at no address.
            out[ct.string_at(key, key_size.value).decode()] = (datatype.value, count.value, ct.string_at(value, size)) if value.value else (datatype.value, 0, b"")
        return out


class Buffer:
    """The up to three buffers of one field: data bytes, u64 offsets, validity bytes. After a read the sizes say how much was filled."""

    def __init__(self, data, offsets=None, validity=None):
        self.data, self.offsets, self.validity = data, offsets, validity
        self.sizes = [ct.c_uint64(b.nbytes if b is not None else 0) for b in (data, offsets, validity)]

    def attach(self, ctx, query, name):
        name = name.encode()
        if not has("query_set_data_buffer"):  # before 2.4
            parts = [(b, size) for b, size in ((self.offsets, self.sizes[1]), (self.data, self.sizes[0]), (self.validity, self.sizes[2])) if b is not None]
            kind = "query_set_buffer" + ("_var" if self.offsets is not None else "") + ("_nullable" if self.validity is not None else "")
            ctx.call(kind, query, name, *[x for b, size in parts for x in (_address(b), ct.byref(size))])
            return
        ctx.call("query_set_data_buffer", query, name, _address(self.data), ct.byref(self.sizes[0]))
        if self.offsets is not None:
            ctx.call("query_set_offsets_buffer", query, name, _address(self.offsets), ct.byref(self.sizes[1]))
        if self.validity is not None:
            ctx.call("query_set_validity_buffer", query, name, _address(self.validity), ct.byref(self.sizes[2]))

    def filled(self):
        """(data bytes, offsets or None, validity or None) as far as they were filled."""
        cut = [None if b is None else b.view(np.uint8)[: s.value] for b, s in zip((self.data, self.offsets, self.validity), self.sizes)]
        return cut[0].tobytes(), None if cut[1] is None else cut[1].view(np.uint64), cut[2]


def _address(array):
    return ct.c_void_p(array.ctypes.data)


def condition(ctx, field, op, value):
    """`field op value`, the value as raw bytes."""
    handle = ctx.new("query_condition_alloc")
    ctx.call("query_condition_init", handle, field.encode(), ct.c_char_p(value), ct.c_uint64(len(value)), ct.c_int(op))
    return handle


def membership(ctx, field, op, values):
    """`field IN (…)` or NOT IN, the members as raw bytes."""
    data, offsets = b"".join(values), np.cumsum([0] + [len(v) for v in values[:-1]]).astype(np.uint64)
    return ctx.new("query_condition_alloc_set_membership", field.encode(), ct.c_char_p(data), ct.c_uint64(len(data)), _address(offsets), ct.c_uint64(offsets.nbytes), ct.c_int(op))


def combined(ctx, left, right, op):
    """AND is 0, OR is 1."""
    return ctx.new("query_condition_combine", left, right, ct.c_int(op))


def negated(ctx, inner):
    return ctx.new("query_condition_negate", inner)


def fragment_facts(ctx, uri, dims):
    """{fragment name: (name of the schema it was written with, its box)}; `dims`: the numpy types of the dimensions, all of fixed size, or nothing."""
    info, number, out = ctx.new("fragment_info_alloc", uri.encode()), ct.c_uint32(), {}
    ctx.call("fragment_info_load", info)
    ctx.call("fragment_info_get_fragment_num", info, ct.byref(number))
    for index in range(number.value):
        where, schema, box = ct.c_char_p(), ct.c_char_p(), []
        ctx.call("fragment_info_get_fragment_uri", info, ct.c_uint32(index), ct.byref(where))
        ctx.call("fragment_info_get_array_schema_name", info, ct.c_uint32(index), ct.byref(schema))
        for dim, dtype in enumerate(dims):
            bounds = np.zeros(2, dtype)
            ctx.call("fragment_info_get_non_empty_domain_from_index", info, ct.c_uint32(index), ct.c_uint32(dim), _address(bounds))
            box.append(tuple(bounds.tolist()))
        out[where.value.decode().rstrip("/").rsplit("/", 1)[1]] = schema.value.decode(), box
    return out


def consolidate(ctx, uri, settings, fragments=None):
    small = {"sm.consolidation.total_buffer_size": 2**25, "sm.consolidation.buffer_size": 2**20, "sm.mem.total_budget": 2**28}
    config = make_config({**ctx.settings, **small, **settings})
    if fragments:
        names = (ct.c_char_p * len(fragments))(*[f.encode() for f in fragments])
        ctx.call("array_consolidate_fragments", uri.encode(), names, ct.c_uint64(len(fragments)), config)
    else:
        ctx.call("array_consolidate", uri.encode(), config)


def vacuum(ctx, uri, settings):
    ctx.call("array_vacuum", uri.encode(), make_config({**ctx.settings, **settings}))
