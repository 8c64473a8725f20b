"""The few dozen functions of libtiledb's C API the golden arrays need, through ctypes.

tiledb-py hides much of what must be covered here (Hilbert order, GEOM and TIME types, NaN payloads, filters on offsets and
validity, schema timestamps), so everything goes through the C library that its wheel bundles. Raw bytes in, raw bytes out.
"""

import ctypes as C
import glob
import importlib.util
import os

import numpy as np

VAR = 0xFFFFFFFF

# name -> (code on disk and in the C API, bytes per element, numpy type of the raw element)
TYPES = {
    "INT32": (0, 4, "<i4"), "INT64": (1, 8, "<i8"), "FLOAT32": (2, 4, "<f4"), "FLOAT64": (3, 8, "<f8"),
    "CHAR": (4, 1, "u1"), "INT8": (5, 1, "i1"), "UINT8": (6, 1, "u1"), "INT16": (7, 2, "<i2"), "UINT16": (8, 2, "<u2"),
    "UINT32": (9, 4, "<u4"), "UINT64": (10, 8, "<u8"), "STRING_ASCII": (11, 1, "u1"), "STRING_UTF8": (12, 1, "u1"),
    "STRING_UTF16": (13, 2, "<u2"), "STRING_UTF32": (14, 4, "<u4"), "STRING_UCS2": (15, 2, "<u2"),
    "STRING_UCS4": (16, 4, "<u4"), "ANY": (17, 1, "u1"),
    **{f"DATETIME_{u}": (18 + i, 8, "<i8") for i, u in enumerate("YEAR MONTH WEEK DAY HR MIN SEC MS US NS PS FS AS".split())},
    **{f"TIME_{u}": (31 + i, 8, "<i8") for i, u in enumerate("HR MIN SEC MS US NS PS FS AS".split())},
    "BLOB": (40, 1, "u1"), "BOOL": (41, 1, "u1"), "GEOM_WKB": (42, 1, "u1"), "GEOM_WKT": (43, 1, "u1"),
}
TYPE_NAMES = {code: name for name, (code, _, _) in TYPES.items()}

FILTERS = {
    "none": 0, "gzip": 1, "zstd": 2, "lz4": 3, "rle": 4, "bzip2": 5, "double_delta": 6, "bit_width": 7, "bitshuffle": 8,
    "byteshuffle": 9, "positive_delta": 10, "md5": 12, "sha256": 13, "dictionary": 14, "float_scale": 15, "xor": 16, "bitsort": 17, "webp": 18, "delta": 19,
}
# option -> (code, ctypes type)
OPTIONS = {
    "level": (0, C.c_int32), "bit_width_window": (1, C.c_uint32), "positive_delta_window": (2, C.c_uint32),
    "bytewidth": (3, C.c_uint64), "factor": (4, C.c_double), "offset": (5, C.c_double), "reinterpret": (9, C.c_uint8),
    "quality": (6, C.c_float), "format": (7, C.c_uint8), "lossless": (8, C.c_uint8),
}
LAYOUTS = {"row": 0, "col": 1, "global": 2, "unordered": 3, "hilbert": 4}
READ, WRITE, DELETE, UPDATE = 0, 1, 2, 3


class TileDBError(Exception):
    """A call of libtiledb failed; the text is libtiledb's own."""


class Range(C.Structure):
    """tiledb_range_t: the two ends of a range with their sizes in bytes."""

    _fields_ = [("lo", C.c_void_p), ("lo_size", C.c_uint64), ("hi", C.c_void_p), ("hi_size", C.c_uint64)]


class Library:
    """libtiledb, loaded at the first call: `make_old` names another one by its path in `LIBTILEDB`, in a process of its own."""

    def __getattr__(self, name):
        if "lib" not in self.__dict__:
            self.lib = C.CDLL(os.environ.get("LIBTILEDB") or self.bundled())
        return getattr(self.lib, name)

    @staticmethod
    def bundled():
        wheel = os.path.dirname(os.path.dirname(importlib.util.find_spec("tiledb").origin))
        (path,) = glob.glob(os.path.join(wheel, "tiledb.libs", "libtiledb*.so*"))
        return path


LIB = Library()


def version():
    parts = [C.c_int32() for _ in range(3)]
    LIB.tiledb_version(*[C.byref(p) for p in parts])
    return ".".join(str(p.value) for p in parts)


class Ctx:
    """A libtiledb context; `ctx("array_open", …)` calls `tiledb_array_open(ctx, …)` and raises when it fails."""

    def __init__(self, **config):
        self.ptr = C.c_void_p()
        cfg = make_config({"sm.compute_concurrency_level": "2", "sm.io_concurrency_level": "2", **config})
        if LIB.tiledb_ctx_alloc(cfg, C.byref(self.ptr)) != 0:
            raise TileDBError("no context")

    def __call__(self, name, *args):
        rc = getattr(LIB, "tiledb_" + name)(self.ptr, *args)
        if rc != 0:
            raise TileDBError(f"tiledb_{name}: {self._last_error()}")

    def _last_error(self):
        err, msg = C.c_void_p(), C.c_char_p()
        LIB.tiledb_ctx_get_last_error(self.ptr, C.byref(err))
        LIB.tiledb_error_message(err, C.byref(msg))
        return (msg.value or b"?").decode()

    def new(self, name, *args):
        """Calls an `…_alloc`-like function whose last parameter receives the new object."""
        out = C.c_void_p()
        self(name, *args, C.byref(out))
        return out


def make_config(values):
    cfg, err = C.c_void_p(), C.c_void_p()
    if LIB.tiledb_config_alloc(C.byref(cfg), C.byref(err)) != 0:
        raise TileDBError("no configuration")
    for key, value in values.items():
        if LIB.tiledb_config_set(cfg, key.encode(), str(value).encode(), C.byref(err)) != 0:
            raise TileDBError(f"configuration {key}={value} refused")
    return cfg


def ptr(array):
    """The address of a numpy array's first element."""
    return array.ctypes.data_as(C.c_void_p)


def raw(values):
    """Bytes as a numpy array that may also be empty (libtiledb refuses null pointers)."""
    buf = np.frombuffer(bytes(values), dtype="u1")
    return buf if len(buf) else np.zeros(1, "u1")[:0]
