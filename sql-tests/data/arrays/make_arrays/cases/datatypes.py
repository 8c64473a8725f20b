"""Every datatype as attribute (one value, several values, var-sized; nullable and not; sparse and dense) and as dimension."""

import struct

import numpy as np

from cases import case
from capi import TYPES, VAR
from tdbarray import Array, Attr, Dim, Spec

N = 16  # rows of every array of attributes; tiles of 5 cells, so the last tile is a rest
NAT = -(2**63)


def bits32(*words):
    return np.array(words, "<u4").view("<f4")


def bits64(*words):
    return np.array(words, "<u8").view("<f8")


def int_values(name):
    info = np.iinfo(np.dtype(TYPES[name][2]))
    lo, hi = int(info.min), int(info.max)
    mid = [2**63 - 1, 2**63, 2**63 + 1] if hi == 2**64 - 1 else [-1, 0, 1] if lo else [hi // 2, hi // 2 + 1]
    return [lo, lo + 1, hi, hi - 1, 0, 1, *mid, 2, 3, 42, 99, 100, 7, 8][:N]


# signalling and quiet NaNs with payloads, both zeros, infinities, subnormals, limits
FLOATS32 = bits32(0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x7FA5A5A5, 1, 0x807FFFFF, 0x7F7FFFFF, 0xFF7FFFFF,
                  0x3F800000, 0x3DCCCCCD, 0xC2280000, 0x4B000001)
FLOATS64 = bits64(0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0xFFF8000000000001, 0x7FF0000000000001, 0x7FF4A5A5A5A5A5A5, 1,
                  0x800FFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x3FF0000000000000, 0x3FB999999999999A, 0xC045000000000000, 0x4340000000000001)

# Within what Arrow's Timestamp / Date32 / Time64 can hold; beyond that: the `refused_…` arrays.
DATE_LIMITS = {"YEAR": 5_000_000, "MONTH": 60_000_000, "WEEK": (2**31 - 1) // 7, "DAY": 2**31 - 1, "HR": (2**63 - 1) // 3600, "MIN": (2**63 - 1) // 60}


def date_values(unit):
    """Around the epoch, before it, NaT, leap days and the limits."""
    top = DATE_LIMITS.get(unit, 2**63 - 1)
    some = {"YEAR": [54, 30, -1970], "MONTH": [649, 361, -13], "WEEK": [2817, -5], "DAY": [19782, -25509, 11016], "HR": [474_000, -7]}.get(unit, [1_709_208_000, -1, -86_401])
    return (some + [0, 1, -1, NAT, top, -top, 59, -60, 1000, 12, 23, -24, 365])[:N - 1] + [NAT]


def time_values(unit):
    if unit in ("PS", "FS", "AS"):
        return [0, 1, 2**63 - 1, NAT, -1, 10**15, -(2**63) + 1, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    day = {"HR": 24, "MIN": 1440, "SEC": 86400, "MS": 86400 * 10**3, "US": 86400 * 10**6, "NS": 86400 * 10**9}[unit]
    return [0, 1, day - 1, NAT, day // 2, day // 3, day // 4, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def fixed_values(name):
    if name == "FLOAT32":
        return FLOATS32
    if name == "FLOAT64":
        return FLOATS64
    if name == "BOOL":
        return [0, 1, 1, 0] * 4
    if name.startswith("DATETIME_"):
        return date_values(name[9:])
    if name.startswith("TIME_"):
        return time_values(name[5:])
    if name in ("BLOB", "GEOM_WKB"):
        return [bytes([(i * 37 + 128) % 256]) for i in range(N)]
    if name.startswith("STRING") or name in ("CHAR", "GEOM_WKT"):
        return list("aZ0~ \x00\x7f\tq\"'\\{b!c")
    return int_values(name) + [5] * (N - len(int_values(name)))


STRINGS = ["", "a", "NUL\0inside", "\0", "trailing\0", "grüße", "日本語", "🦀🚀", "\"quoted\" \\ back", "line\nbreak\ttab", "", "e\u0301", "\ufeffbom", "zz" * 40, "\x7f\x01", "end"]
ASCII = ["", "a", "NUL\0inside", "\0", "trailing\0", "~", "Z", "zz", "\"quoted\" \\ back", "line\nbreak\ttab", "", "'", "-", "zz" * 40, "\x7f\x01", "end"]


def wkb(i):
    return struct.pack("<BIdd", 1, 1, float(i), -float(i) / 2)


def var_values(name):
    if name in ("STRING_ASCII", "CHAR"):
        return ASCII
    if name == "GEOM_WKT":
        return [f"POINT ({i} {-i / 2})" for i in range(N - 2)] + ["", "POLYGON ((0 0, 1 0, 1 1, 0 0))"]
    if name in ("STRING_UCS2",):
        return [s.replace("🦀🚀", "ﬀ") for s in STRINGS]
    if name.startswith("STRING"):
        return STRINGS
    if name == "GEOM_WKB":
        return [wkb(i) for i in range(N)]
    if name in ("BLOB", "ANY"):
        return [bytes((i * 7 + j * 31) % 256 for j in range(i % 6)) for i in range(N - 1)] + [bytes(range(256))]
    values = list(np.asarray(fixed_values(name), TYPES[name][2]))
    return [np.array([values[(i + j) % N] for j in range((i * 5) % 4)], TYPES[name][2]) for i in range(N)]


GROUPS = {
    "integers": ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64"],
    "floats": ["FLOAT32", "FLOAT64"],
    "text": ["CHAR", "STRING_ASCII", "STRING_UTF8", "STRING_UTF16", "STRING_UTF32", "STRING_UCS2", "STRING_UCS4", "GEOM_WKT"],
    "bytes": ["BOOL", "BLOB", "GEOM_WKB"],
    "dates": [t for t in TYPES if t.startswith("DATETIME_")],
    "times": [t for t in TYPES if t.startswith("TIME_")],
}
VALUES_PER_CELL = {"INT8": 2, "UINT8": 3, "INT16": 4, "UINT16": 2, "INT32": 3, "UINT32": 4, "INT64": 2, "UINT64": 3, "FLOAT32": 3, "FLOAT64": 2, "BOOL": 3, "BLOB": 4, "GEOM_WKB": 21}


def multi(name):
    """(values per cell, cells) of a fixed attribute with several values per cell."""
    if name in GROUPS["text"]:
        k = 3
        return k, [s for s in ("abc", "x\0y", "\0\0\0", "~~~", "ZZZ", "a b", "123", "q\"q") * 2] if name in ("CHAR", "STRING_ASCII", "STRING_UTF8", "GEOM_WKT") else \
            [s for s in ("日本語", "abc", "é\0ü", "\0\0\0", "ÀÉÎ", "xyz", "€uro"[:3], "ΑΒΓ") * 2]
    k = VALUES_PER_CELL.get(name, 2)
    if name == "GEOM_WKB":
        return k, [wkb(i) for i in range(N)]
    if name == "BLOB":
        return k, [bytes([i, 255 - i, 0, 128]) for i in range(N)]
    v = np.asarray(fixed_values(name), TYPES[name][2])
    return k, np.stack([np.roll(v, -j) for j in range(k)], axis=1)


def with_nulls(cells, period):
    return [None if i % period == period - 1 else c for i, c in enumerate(cells)]


def columns(names, shape):
    """Attributes `x` (not nullable) and `x_null` (every third cell null) for every type, with their cells."""
    attrs, data = [], {}
    for t in names:
        if shape == "multi":
            n, cells = multi(t)
        else:
            n, cells = (1, fixed_values(t)) if shape == "single" else (VAR, var_values(t))
        low = t.lower()
        attrs += [Attr(low, t, n), Attr(low + "_null", t, n, nullable=True)]
        data[low], data[low + "_null"] = cells, with_nulls(list(cells), 3)
    return attrs, data


def build(path, names, shape, sparse):
    attrs, data = columns(names, shape)
    a = Array(path).create(Spec([Dim("d", "INT32", 0, N - 1, 5)], attrs, sparse=sparse, capacity=5), 1000)
    if sparse:
        a.write({"d": np.arange(N), **data}, 1000)
    else:
        a.write(data, 1000, [(0, N - 1)])


def declare():
    for group, names in GROUPS.items():
        for shape in ("single", "multi", "var"):
            types = names + ["ANY"] if (group, shape) == ("bytes", "var") else names
            for sparse in (True, False):
                kind = "sparse" if sparse else "dense"
                case(f"types_{group}_{shape}_{kind}", f"{group} as attributes, {shape} values, nullable and not, at the limits of the types",
                     kind, "types", group, shape, durations=group == "times", rows=N)(
                    lambda path, types=types, shape=shape, sparse=sparse: build(path, types, shape, sparse))


declare()

# --- dimensions ---------------------------------------------------------------------------------------------------------


def dense_box(t):
    """(domain lo, hi, written lo, hi): 20 cells not aligned with tiles of 6, around zero where the type is signed."""
    if t.startswith("UINT"):
        return 3, 40, 5, 24
    if t == "TIME_HR":
        return 0, 23, 2, 21
    if t.startswith("TIME_"):
        return 0, 1000, 5, 24
    return -30, 60, -9, 10


def dense_dimension(path, t):
    lo, hi, a, b = dense_box(t)
    arr = Array(path).create(Spec([Dim("d", t, lo, hi, 6)], [Attr("a", "INT32"), Attr("s", "STRING_ASCII", VAR)]), 1000)
    arr.write({"a": np.arange(20), "s": [f"c{i}" * (i % 3) for i in range(20)]}, 1000, [(a, b)])


for _t in GROUPS["integers"] + GROUPS["dates"] + GROUPS["times"]:
    case(f"dim_dense_{_t.lower()}", f"a dense dimension of type {_t}, extent that does not divide the domain", "dense", "dimension_type", rows=20)(
        lambda path, t=_t: dense_dimension(path, t))


def sparse_dims(path, dims, cells, **more):
    spec = Spec(dims, [Attr("a", "INT32")], sparse=True, capacity=4, **more)
    n = len(next(iter(cells.values())))
    Array(path).create(spec, 1000).write({**cells, "a": np.arange(n)}, 1000)


def info(t):
    i = np.iinfo(np.dtype(TYPES[t][2]))
    return int(i.min), int(i.max)


for _group, _types in {"signed": ["INT8", "INT16", "INT32", "INT64"], "unsigned": ["UINT8", "UINT16", "UINT32", "UINT64"]}.items():
    for _t in _types:
        @case(f"dim_sparse_{_t.lower()}", f"two sparse dimensions of type {_t}: [min, max-1] and [min+1, max], extent 1, cells at both ends", "sparse", "dimension_type", "limits")
        def sparse_int(path, t=_t):  # libtiledb refuses [min, max]: the number of values does not fit the unsigned type
            lo, hi = info(t)
            vals = sorted({lo, lo + 1, hi - 1, hi - 2, 0, 1, 2, 50, 100, hi // 2, hi // 2 + 1, lo // 2})
            sparse_dims(path, [Dim("d", t, lo, hi - 1, 1), Dim("e", t, lo + 1, hi, 1)],
                        {"d": np.array(vals, TYPES[t][2]), "e": np.array([v + 1 for v in reversed(vals)], TYPES[t][2])})

    @case(f"dim_sparse_{_group}_mixed", f"four sparse dimensions of the {_group} integer types", "sparse", "dimension_type")
    def sparse_ints(path, types=_types):
        rng = np.random.default_rng(5)
        dims = [Dim(t.lower(), t, -100 if info(t)[0] else 0, 100, 7) for t in types]
        sparse_dims(path, dims, {t.lower(): rng.integers(-100 if info(t)[0] else 0, 101, 50).astype(TYPES[t][2]) for t in types})


@case("dim_sparse_floats", "float32 and float64 dimensions: negative values, -0.0, subnormals, limits", "sparse", "dimension_type", "negative_zero")
def dim_sparse_floats(path):
    big = float(np.finfo("f4").max)
    f4 = np.array([-0.0, 0.0, 1e-45, -1e-45, big, -big, 1.5, -1.5, np.inf, 3, -7, 0.1], "f4")
    f4[8] = 12.0
    f8 = np.array([0.0, -0.0, 5e-324, -5e-324, 1e300, -1e300, 0.1, -0.1, 2, 3, 4, 5], "f8")
    sparse_dims(path, [Dim("x", "FLOAT32", -big, big, None), Dim("y", "FLOAT64", -1e300, 1e300, None)], {"x": f4, "y": f8}, dups=False)


for _half, _units in {"coarse": ["YEAR", "MONTH", "WEEK", "DAY"], "middle": ["HR", "MIN", "SEC", "MS"], "fine": ["US", "NS", "PS", "FS", "AS"]}.items():
    @case(f"dim_sparse_dates_{_half}", f"sparse date and time dimensions {', '.join(_units)}, before and after 1970", "sparse", "dimension_type", "datetime_dim")
    def sparse_dates(path, units=_units):
        rng = np.random.default_rng(6)
        sparse_dims(path, [Dim("t_" + u.lower(), "DATETIME_" + u, -1000, 1000, 10) for u in units],
                    {"t_" + u.lower(): rng.integers(-1000, 1001, 30) for u in units})


@case("dim_sparse_times", "sparse TIME_* dimensions of all units", "sparse", "dimension_type")
def dim_sparse_times(path):
    rng = np.random.default_rng(7)
    units = [t for t in TYPES if t.startswith("TIME_")]
    tops = {"TIME_HR": 23, "TIME_MIN": 1439}
    sparse_dims(path, [Dim(t.lower(), t, 0, tops.get(t, 86399), 5) for t in units], {t.lower(): rng.integers(0, tops.get(t, 86399) + 1, 30) for t in units})


@case("dim_sparse_everything", "string, float, date and integer dimensions together", "sparse", "dimension_type", "string_dim")
def dim_sparse_everything(path):
    rng = np.random.default_rng(8)
    n = 60
    dims = [Dim("s", "STRING_ASCII"), Dim("f", "FLOAT64", -10.0, 10.0, 2.5), Dim("t", "DATETIME_MS", -10**6, 10**6, 1000), Dim("i", "INT16", -50, 50, 10), Dim("u", "UINT8", 0, 200, 50)]
    sparse_dims(path, dims, {"s": ["k%d" % k for k in rng.integers(0, 9, n)], "f": np.round(rng.uniform(-10, 10, n), 2), "t": rng.integers(-10**6, 10**6, n),
                             "i": rng.integers(-50, 51, n), "u": rng.integers(0, 201, n)})


# --- values the type mapping must refuse ----------------------------------------------------------------------------------


def refuse(name, attr, values, why):
    @case(name, "a value that the Arrow type cannot hold is an error naming it", "sparse", "refused", refused=why, layouts=False)
    def refused(path):
        a = Array(path).create(Spec([Dim("d", "INT32", 0, 9, 5)], [attr], sparse=True), 1000)
        a.write({"d": np.arange(len(values)), attr.name: values}, 1000)


refuse("refused_utf8", Attr("s", "STRING_UTF8", VAR), [b"fine", b"\xff\xfe", b"cut \xe6\x97"], "bytes of attribute s that are not UTF-8")
refuse("refused_ascii", Attr("s", "STRING_ASCII", VAR), [b"fine", b"caf\xe9"], "bytes of attribute s that are not UTF-8")
refuse("refused_utf16", Attr("s", "STRING_UTF16", VAR), [b"a\0", b"\x00\xd8"], "an unpaired surrogate in attribute s")
refuse("refused_utf32", Attr("s", "STRING_UTF32", VAR), [b"a\0\0\0", b"\0\0\x11\0"], "a code point above U+10FFFF in attribute s")
refuse("refused_hours", Attr("t", "DATETIME_HR"), [0, 2**62], "hours that overflow Timestamp(s)")
refuse("refused_minutes", Attr("t", "DATETIME_MIN"), [0, -(2**62)], "minutes that overflow Timestamp(s)")
refuse("refused_days", Attr("t", "DATETIME_DAY"), [0, 2**31], "days outside Date32")
refuse("refused_years", Attr("t", "DATETIME_YEAR"), [0, 10_000_000], "years outside Date32")


@case("refused_time_of_day", "TIME_* outside the day: an error unless durations are asked for", "sparse", "refused",
      refused="a time outside the day in attribute t", durations=True, layouts=False)
def refused_time_of_day(path):
    spec = Spec([Dim("d", "INT32", 0, 9, 5)], [Attr("t", "TIME_SEC"), Attr("h", "TIME_HR")], sparse=True)
    Array(path).create(spec, 1000).write({"d": [0, 1, 2], "t": [86399, 86400, -1], "h": [0, 100, -3]}, 1000)
