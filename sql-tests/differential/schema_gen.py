"""Random legal array schemas: dimensions, attributes, filters, orders, enumerations.

Legal means: libtiledb accepts it and its own defects are avoided (a dense dimension reaching its type's maximum loops for ever; one of more tiles than a signed
type's maximum reads as fill values; string RLE over 255 bytes corrupts
memory; xor after bit-width reduction and float scale before it cannot be read back; dimension strings beyond ASCII are sorted by signed bytes).
"""

import ctypes as ct
import math
import struct
from dataclasses import dataclass, field as dc_field

import numpy as np

import values
from ctiledb import COL_MAJOR, HILBERT, ROW_MAJOR, VAR, Context, has
from fieldtypes import DATATYPES, DATETIMES, FLOATS, INTEGERS, TIMES, Enumeration, Field, int_range, size_of

GZIP, ZSTD, LZ4, RLE, BZIP2, DOUBLE_DELTA, BWR, BITSHUFFLE, BYTESHUFFLE, POSITIVE_DELTA = range(1, 11)
MD5, SHA256, DICTIONARY, SCALE_FLOAT, XOR = 12, 13, 14, 15, 16
DELTA, NOOP = 19, 0
NAMES = ["a", "B", "c c", "d\"q", "select", "é", "x.y", "Temp", "_v", "v9", "from", "K", "per%cent", "n'q", "long_name_" * 4]
DIM_NAMES = ["d0", "X", "y dim", "rows", "order", "Ü", "t", "group"]


@dataclass
class Schema:
    sparse: bool
    dims: list
    attrs: list
    cell_order: int
    tile_order: int
    capacity: int = 10000
    allows_dups: bool = False
    coords: list = dc_field(default_factory=list)
    offsets: list = dc_field(default_factory=list)
    validity: list = dc_field(default_factory=list)
    features: set = dc_field(default_factory=set)

    @property
    def fields(self):
        return self.dims + self.attrs


def random_schema(rng, totals=(1, 10, 100, 600, 2000)):
    """`totals`: how many cells of a dense array the data may touch."""
    sparse = rng.random() < 0.6
    ndim = rng.choice([1, 1, 2, 2, 2, 3, 4])
    names = rng.sample(DIM_NAMES, ndim)
    if sparse:
        hilbert = rng.random() < 0.25
        dims = [sparse_dim(rng, n, hilbert) for n in names]
    else:
        hilbert = False
        datatype = rng.choice(INTEGERS + INTEGERS + DATETIMES + TIMES)
        sizes = dense_sizes(rng, ndim, totals)
        dims = [dense_dim(rng, n, datatype, s) for n, s in zip(names, sizes)]
        shrink_tiles(dims)
    count = rng.choice([0, 1, 1, 2, 3, 4, 5] if sparse else [1, 1, 2, 3, 4, 5])
    attrs = [random_attr(rng, n) for n in rng.sample(NAMES, count)]
    if attrs and rng.random() < 0.08:
        attrs[0].name = ""
    share_enumeration(rng, attrs)
    order = rng.choice([ROW_MAJOR, ROW_MAJOR, COL_MAJOR])
    schema = Schema(sparse, dims, attrs, HILBERT if hilbert else order, rng.choice([ROW_MAJOR, COL_MAJOR]))
    schema.capacity = rng.choice([1, 2, 3, 7, 10, 50, 100, 1000, 10000])
    schema.allows_dups = sparse and rng.random() < 0.35
    schema.coords = rng.choice([[(ZSTD, {})], [(ZSTD, {"level": 3})], [], [(GZIP, {})], [(BYTESHUFFLE, {}), (LZ4, {})], [(BITSHUFFLE, {}), (MD5, {})]])
    offsets = Field("offsets", "UINT64", sorted_values=True)
    schema.offsets = rng.choice([[(ZSTD, {})], [(POSITIVE_DELTA, {}), (BWR, {}), (ZSTD, {})], random_pipeline(rng, offsets), [(DOUBLE_DELTA, {}), (LZ4, {})]])
    schema.validity = rng.choice([[(RLE, {})], [(ZSTD, {})], [], [(BITSHUFFLE, {}), (GZIP, {})], [(RLE, {}), (LZ4, {})]])
    for dim in dims:
        dim.pipeline = [] if rng.random() < 0.5 else dim_pipeline(rng, dim, schema)
    schema.features = describe(schema)
    return schema


def describe(schema):
    out = {"sparse" if schema.sparse else "dense", f"{len(schema.dims)}d", "hilbert" if schema.cell_order == HILBERT else "row/col order"}
    if schema.sparse:
        out.add("duplicates" if schema.allows_dups else "no duplicates")
    out |= {"dim " + d.datatype for d in schema.dims}
    for attr in schema.attrs:
        shape = "var" if attr.is_var else ("fixed" if attr.ncell > 1 else "")
        out.add(" ".join(filter(None, ["attr", attr.datatype, shape])))
        out |= {"nullable"} if attr.nullable else set()
        out |= {"enumeration " + attr.enumeration.datatype} if attr.enumeration else set()
    for pipeline in [f.pipeline for f in schema.fields] + [schema.coords, schema.offsets, schema.validity]:
        out |= {f"filter {number}" for number, _ in pipeline}
    return out


# --- dimensions -------------------------------------------------------------------------------------------------------------------------

def sparse_dim(rng, name, hilbert):
    datatype = rng.choice(INTEGERS * 2 + FLOATS * 2 + ["STRING_ASCII"] * 5 + DATETIMES + TIMES)
    dim = Field(name, datatype, is_dim=True)
    if datatype == "STRING_ASCII":
        dim.ncell = VAR
        return dim
    if datatype in FLOATS:
        lo, hi = rng.choice([(0.0, 1.0), (-1000.0, 1000.0), (-1e30, 1e30), (-0.5, 123.25)])
        dim.domain = (lo, hi)
        dim.extent = None if hilbert or rng.random() < 0.3 else rng.choice([(hi - lo) / 3.0, (hi - lo) / 10.0, hi - lo])
        return dim
    low, high = legal_bounds(datatype)
    width = rng.choice([1, 2, 5, 20, 100, 1000, 10**6, high - low - 1])
    lo, hi = place(rng, low, high, width)
    dim.domain = (lo, hi)
    dim.extent = None if hilbert or (rng.random() < 0.2 and hi - lo < int_range_of(datatype)[1]) else integer_extent(rng, lo, hi, datatype)
    return dim


def dense_sizes(rng, ndim, totals):
    """How many cells of each dimension the data may touch; the product stays small enough for a row model in Python."""
    total = rng.choice(totals)
    sizes = []
    for left in range(ndim, 0, -1):
        cap = max(1, round(total ** (1 / left)))
        size = rng.randint(1, max(1, cap * 2)) if left > 1 else rng.randint(1, max(1, total))
        sizes.append(size)
        total = max(1, total // size)
    return sizes


def dense_dim(rng, name, datatype, size):
    low, high = legal_bounds(datatype)
    slack = rng.choice([0, 0, 3, 50, 10**5])
    size = min(size, high - low - 1)
    lo, hi = place(rng, low, high - 1, max(size - 1 + slack, 0))
    dim = Field(name, datatype, is_dim=True, domain=(lo, hi), window=size)
    limit = int_range_of(datatype)[1]
    for _ in range(20):
        extent = rng.choice([1, 2, 3, 5, size, max(1, size // 2), rng.randint(1, size + 3)])
        extent = max(1, min(extent, hi - lo + 1, 40))
        tiles = -(-(hi - lo + 1) // extent)
        if lo + tiles * extent <= limit and tiles <= limit:
            break
    else:
        extent = 1 if hi - lo < limit else 2
    dim.extent = extent
    return dim


def shrink_tiles(dims):
    """A dense tile is stored whole, so the product of the extents is kept small."""
    while math.prod(d.extent for d in dims) > 4000:
        max(dims, key=lambda d: d.extent).extent = 1


def int_range_of(datatype):
    return int_range(datatype) if datatype in INTEGERS else (-(2**63) + 1, 2**63 - 1)


def legal_bounds(datatype):
    """The largest domain whose every value has a column value (dates fit Date32, times fit the day)."""
    if datatype in INTEGERS:
        return int_range(datatype)
    return values.temporal_bounds(datatype)


def place(rng, low, high, width):
    width = min(width, high - low - 1)
    lo = rng.choice([low, high - width, max(low, min(high - width, -(width // 2))), max(low, min(high - width, 0)), rng.randint(low, high - width)])
    return lo, lo + width


def integer_extent(rng, lo, hi, datatype):
    span, limit = hi - lo + 1, int_range_of(datatype)[1]
    for _ in range(20):
        extent = rng.choice([1, 2, 3, 7, 10, 100, span, max(1, span // 2), max(1, span // 3), rng.randint(1, span)])
        extent = max(1, min(extent, span, limit))
        if lo + -(-span // extent) * extent - 1 <= limit:
            return extent
    return 1


def dim_pipeline(rng, dim, schema):
    if dim.datatype == "STRING_ASCII":
        return rng.choice([[(RLE, {})], [(DICTIONARY, {})], [(ZSTD, {})], [(DICTIONARY, {}), (ZSTD, {})], [(NOOP, {})], [(GZIP, {}), (SHA256, {})]])
    if dim.datatype in FLOATS:
        return random_pipeline(rng, Field("f", dim.datatype))
    alone = schema.sparse and len(schema.dims) == 1 and schema.cell_order != HILBERT
    return random_pipeline(rng, Field("d", dim.datatype, sorted_values=alone and rng.random() < 0.3))


# --- attributes -------------------------------------------------------------------------------------------------------------------------

ATTR_TYPES = INTEGERS * 3 + FLOATS * 6 + ["BOOL"] * 2 + DATETIMES + TIMES + ["STRING_UTF8"] * 6 + ["STRING_ASCII"] * 4 + ["CHAR"] * 3 + ["BLOB"] * 3 + [
    "GEOM_WKB", "GEOM_WKT", "ANY", "STRING_UTF16", "STRING_UTF32", "STRING_UCS2", "STRING_UCS4"]


def random_attr(rng, name):
    attr = Field(name, rng.choice(ATTR_TYPES))
    attr.nullable = rng.random() < 0.4
    if attr.datatype in ("ANY", "STRING_UTF16", "STRING_UTF32", "STRING_UCS2", "STRING_UCS4", "GEOM_WKB", "GEOM_WKT"):
        attr.ncell = VAR
    elif attr.datatype in ("STRING_UTF8", "STRING_ASCII", "CHAR", "BLOB"):
        attr.ncell = rng.choice([VAR, VAR, VAR, 1, 2, 5])
    elif attr.datatype in INTEGERS + FLOATS + ["BOOL"]:
        attr.ncell = rng.choice([1] * 8 + [2, 3, VAR])
    if attr.datatype in INTEGERS and attr.ncell == 1 and rng.random() < 0.3:
        attr.enumeration = random_enumeration(rng, "enum_" + str(rng.randint(0, 999)), attr.datatype)
    attr.pipeline = random_pipeline(rng, attr)
    attr.tame = any(n in (DOUBLE_DELTA, SCALE_FLOAT) for n, _ in attr.pipeline)
    attr.chunk_size = rng.choice([None, None, None, 64, 1000])
    attr.max_length = rng.choice([3, 12, 12, 60, 200])
    needs_text = attr.datatype == "CHAR" and not attr.nullable and rng.random() < 0.7  # the default fill value is none
    if needs_text or rng.random() < 0.3:
        set_fill(rng, attr)
    return attr


def set_fill(rng, attr):
    attr.fill = values.random_cell(rng, attr)
    if not attr.fill:
        attr.fill = values.one_element(attr)
    attr.fill_valid = int(attr.nullable and rng.random() < 0.5)


def random_enumeration(rng, name, index_type):
    datatype = rng.choice(["STRING_UTF8", "STRING_ASCII", "STRING_UTF8", "INT32", "INT64", "FLOAT64", "UINT8"])
    count = rng.choice([1, 2, 5, 30])
    if datatype.startswith("STRING"):
        members = list(dict.fromkeys(rng.choice(["", "red", "green", "blue", "grün", "a" * 20, "it's"]) + rng.choice(["", "-", str(i)]) for i in range(count)))
        pieces = [m.encode() for m in members]
        offsets = np.cumsum([0] + [len(p) for p in pieces[:-1]]).astype(np.uint64)
        raw = b"".join(pieces)
        if not raw:
            members, raw, offsets = ["x"], b"x", np.zeros(1, np.uint64)
        return Enumeration(name, datatype, members, raw, offsets, rng.random() < 0.5)
    stored = rng.sample(range(-100 if datatype != "UINT8" else 0, 200), count)
    if datatype == "FLOAT64":
        return Enumeration(name, datatype, [struct.unpack("<Q", struct.pack("<d", v / 4))[0] for v in stored], struct.pack(f"<{count}d", *[v / 4 for v in stored]))
    return Enumeration(name, datatype, stored, np.array(stored, DATATYPES[datatype][1]).tobytes())


def share_enumeration(rng, attrs):
    """Sometimes two attributes of one type use one enumeration; otherwise names are made different."""
    seen = {}
    for i, attr in enumerate(a for a in attrs if a.enumeration):
        if attr.datatype in seen and rng.random() < 0.5:
            attr.enumeration = seen[attr.datatype]
        attr.enumeration.name = attr.enumeration.name if attr.datatype in seen else f"e{i}_{attr.enumeration.name}"
        seen.setdefault(attr.datatype, attr.enumeration)
    names = {}
    for attr in attrs:
        if attr.enumeration and names.setdefault(attr.enumeration.name, attr.enumeration) is not attr.enumeration:
            attr.enumeration.name += "_" + str(len(names))
            names[attr.enumeration.name] = attr.enumeration


# --- filters ----------------------------------------------------------------------------------------------------------------------------

def random_pipeline(rng, attr):
    """A legal pipeline for a field: at most one special first filter, then shuffles and integer filters, then compressors and checksums."""
    if rng.random() < 0.3:
        return []
    if rng.random() < 0.35:
        return rng.choice([[(ZSTD, {"level": 5})], [(BYTESHUFFLE, {}), (ZSTD, {})], [(GZIP, {"level": 6})], [(LZ4, {})]])
    out = []
    size, text = size_of(attr.datatype), attr.is_var and attr.datatype in ("STRING_ASCII", "STRING_UTF8")
    integer = attr.datatype in INTEGERS or attr.datatype in DATETIMES or attr.datatype in TIMES
    first = ["none", "none", "rle"] + (["dictionary"] * 2 if text else [])
    first += ["double_delta", "delta", "bwr"] if integer else []
    first += ["positive_delta"] if integer and attr.sorted_values else []
    first += ["scale"] if attr.datatype in FLOATS and attr.name != "f" and not attr.is_dim else []
    choice = rng.choice(first)
    simple = {"rle": RLE, "dictionary": DICTIONARY, "double_delta": DOUBLE_DELTA, "delta": DELTA, "bwr": BWR, "positive_delta": POSITIVE_DELTA}
    if choice == "scale":
        out.append((SCALE_FLOAT, {"factor": rng.choice([0.5, 0.01, 2.0]), "offset": rng.choice([0.0, -3.0]), "bytewidth": rng.choice([4, 8])}))
    elif choice != "none":
        options = {"bwr": {"bwr_window": rng.choice([256, 64, 1000])}, "positive_delta": {"pd_window": rng.choice([1024, 64])}}.get(choice, {})
        out.append((simple[choice], options))
    if rng.random() < 0.5:
        middle = [BYTESHUFFLE, BITSHUFFLE] + ([XOR] if size in (1, 2, 4, 8) and choice in ("none", "scale") and not text else [])
        out.append((rng.choice(middle), {}))
    if rng.random() < 0.6:
        out.append((rng.choice([GZIP, ZSTD, LZ4, BZIP2]), {}))
    if rng.random() < 0.25:
        out.append((rng.choice([MD5, SHA256, NOOP]), {}))
    return out


# --- creation ---------------------------------------------------------------------------------------------------------------------------

def create(ctx: Context, uri, schema: Schema, limits=None):
    """`limits`: the current domain, (lo, hi) per dimension."""
    domain = ctx.new("domain_alloc")
    for dim in schema.dims:
        handle = make_dimension(ctx, dim)
        ctx.call("domain_add_dimension", domain, handle)
    made = ctx.new("array_schema_alloc", ct.c_int(int(schema.sparse)))
    ctx.call("array_schema_set_domain", made, domain)
    ctx.call("array_schema_set_cell_order", made, ct.c_int(schema.cell_order))
    ctx.call("array_schema_set_tile_order", made, ct.c_int(schema.tile_order))
    ctx.call("array_schema_set_capacity", made, ct.c_uint64(schema.capacity))
    if schema.allows_dups:
        ctx.call("array_schema_set_allows_dups", made, ct.c_int(1))
    for name in ("coords", "offsets", "validity"):
        if name == "validity" and not has("array_schema_set_validity_filter_list"):
            continue
        ctx.call(f"array_schema_set_{name}_filter_list", made, ctx.filter_list(getattr(schema, name)))
    for enumeration in {id(a.enumeration): a.enumeration for a in schema.attrs if a.enumeration}.values():
        ctx.call("array_schema_add_enumeration", made, make_enumeration(ctx, enumeration))
    for attr in schema.attrs:
        ctx.call("array_schema_add_attribute", made, make_attribute(ctx, attr))
    if limits:
        ctx.call("array_schema_set_current_domain", made, make_current_domain(ctx, schema.dims, limits))
    ctx.call("array_create", uri.encode(), made)


class Range(ct.Structure):
    """tiledb_range_t"""

    _fields_ = [("min", ct.c_void_p), ("min_size", ct.c_uint64), ("max", ct.c_void_p), ("max_size", ct.c_uint64)]


def make_current_domain(ctx, dims, limits):
    domain = ctx.new("domain_alloc")
    for dim in dims:
        ctx.call("domain_add_dimension", domain, make_dimension(ctx, dim))
    box = ctx.new("ndrectangle_alloc", domain)
    for number, (dim, limit) in enumerate(zip(dims, limits)):
        lo, hi = (np.array([v], dim.dtype) for v in limit)
        bounds = Range(lo.ctypes.data, lo.nbytes, hi.ctypes.data, hi.nbytes)
        ctx.call("ndrectangle_set_range", box, ct.c_uint32(number), ct.byref(bounds))
    made = ctx.new("current_domain_create")
    ctx.call("current_domain_set_ndrectangle", made, box)
    return made


def make_dimension(ctx, dim):
    type_id = ct.c_int(DATATYPES[dim.datatype][0])
    if dim.is_var:
        handle = ctx.new("dimension_alloc", dim.name.encode(), type_id, None, None)
    else:
        bounds = np.array(dim.domain, dim.dtype)
        extent = None if dim.extent is None else np.array([dim.extent], dim.dtype)
        address = ct.c_void_p(bounds.ctypes.data)
        handle = ctx.new("dimension_alloc", dim.name.encode(), type_id, address, None if extent is None else ct.c_void_p(extent.ctypes.data))
    if dim.pipeline:
        ctx.call("dimension_set_filter_list", handle, ctx.filter_list(dim.pipeline))
    return handle


def make_attribute(ctx, attr):
    handle = ctx.new("attribute_alloc", attr.name.encode(), ct.c_int(DATATYPES[attr.datatype][0]))
    ctx.call("attribute_set_cell_val_num", handle, ct.c_uint32(attr.ncell))
    if attr.nullable:
        ctx.call("attribute_set_nullable", handle, ct.c_uint8(1))
    if attr.pipeline:
        ctx.call("attribute_set_filter_list", handle, ctx.filter_list(attr.pipeline, attr.chunk_size))
    if attr.enumeration:
        ctx.call("attribute_set_enumeration_name", handle, attr.enumeration.name.encode())
    if attr.fill is not None:
        args = (handle, ct.c_char_p(attr.fill), ct.c_uint64(len(attr.fill)))
        if attr.nullable:
            ctx.call("attribute_set_fill_value_nullable", *args, ct.c_uint8(attr.fill_valid))
        else:
            ctx.call("attribute_set_fill_value", *args)
    return handle


def make_enumeration(ctx, enumeration):
    offsets = enumeration.offsets
    var = offsets is not None
    return ctx.new("enumeration_alloc", enumeration.name.encode(), ct.c_int(DATATYPES[enumeration.datatype][0]), ct.c_uint32(VAR if var else 1), ct.c_int(int(enumeration.ordered)),
                   ct.c_char_p(enumeration.raw), ct.c_uint64(len(enumeration.raw)), ct.c_void_p(offsets.ctypes.data) if var else None, ct.c_uint64(offsets.nbytes if var else 0))
