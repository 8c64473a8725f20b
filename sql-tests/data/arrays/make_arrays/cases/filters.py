"""Every filter alone over many types, over tiles of several 64 KiB chunks, and realistic stacks; filters on dimensions, offsets, validity, coords.

Left out because libtiledb 2.30 cannot read them back or crashes: string RLE with values of 256 bytes and more, XOR after bit-width
reduction, double delta after bit-width reduction, and bit-width reduction or (positive, double) delta over a var tile whose cells are all empty.
"""

import numpy as np

from cases import case
from capi import TYPES, VAR
from tdbarray import Array, Attr, Dim, Spec

INTS = ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64"]
DATES = ["DATETIME_MS", "DATETIME_DAY", "TIME_NS"]
FLOATS = ["FLOAT32", "FLOAT64"]
BYTES = ["CHAR", "BOOL"]
TEXT = ["STRING_ASCII", "STRING_UTF8"]
ROWS = 100


def numbers(t, style, n=ROWS, seed=1):
    """`walk` small steps with repeats; `rising` never decreasing; `wild` the whole range of the type with quiet stretches."""
    rng = np.random.default_rng([seed, TYPES[t][0]])
    dt = np.dtype(TYPES[t][2])
    if t == "BOOL":
        return rng.integers(0, 2, n).astype("u1")
    if t == "CHAR":
        return rng.choice(np.frombuffer(b"aaabz~", "u1"), n)
    if t in FLOATS:
        values = np.round(np.cumsum(rng.normal(0, 1, n)), 2)
        values[5:9] = [np.nan, -0.0, np.inf, -np.inf]
        return values.astype(dt)
    if style == "rising":
        top = 120 if dt.itemsize == 1 else 10_000
        return np.sort(rng.integers(0, top, n)).astype(dt)
    low = 0 if t.startswith("UINT") or t.startswith("TIME") else -60
    values = np.repeat(np.clip(np.cumsum(rng.integers(-5, 6, n // 2 + 1)) + 20, low, 120), 2)[:n].astype(dt)
    if style == "wild" and t in INTS:
        info = np.iinfo(dt)
        values[::9] = rng.integers(info.min, info.max, len(values[::9]), dtype=dt, endpoint=True)
        values[40:43] = [info.min, info.max, info.min]
    return values


def words(n=ROWS, seed=2, unicode=False):
    rng = np.random.default_rng(seed)
    stock = ["", "a", "north", "north-east", "x" * 200, "NUL\0", "tail "] + (["größe", "日本", "🦀"] if unicode else [])
    return [stock[i] for i in np.repeat(rng.integers(0, len(stock), n), rng.integers(1, 4, n))[:n]]


def var_numbers(t, style, n=ROWS):
    flat = numbers(t, style, n * 3, seed=3)
    lengths = [(i * 7) % 4 for i in range(n)]
    ends = np.cumsum(lengths)
    return [flat[e - k:e] for e, k in zip(ends, lengths)]


def widths(path, pipeline, types, style="walk", var=(), text=()):
    """100 rows in tiles of 37 (so 37, 37, 26 cells: nothing divides by 8) for each type, plus var-sized numbers and text."""
    attrs, data = [], {}
    for t in types:
        attrs.append(Attr(t.lower(), t, filters=pipeline))
        data[t.lower()] = numbers(t, style)
    for t in var:
        attrs.append(Attr(f"var_{t.lower()}", t, VAR, filters=pipeline))
        data[f"var_{t.lower()}"] = var_numbers(t, style)
    for t in text:
        attrs.append(Attr(f"text_{t.lower()}", t, VAR, filters=pipeline))
        data[f"text_{t.lower()}"] = words(unicode=t == "STRING_UTF8")
    if "FLOAT32" in types:
        attrs.append(Attr("triple_float32", "FLOAT32", 3, filters=pipeline))
        data["triple_float32"] = numbers("FLOAT32", style, ROWS * 3).reshape(ROWS, 3)
    a = Array(path).create(Spec([Dim("d", "UINT32", 0, 9999, 100)], attrs, sparse=True, capacity=37), 1000)
    a.write({"d": np.arange(ROWS), **data}, 1000)


def chunks(path, pipeline, types, style="walk", text=()):
    """520 cells in one dense tile of more than 64 KiB per attribute; the second chunk is a short rest."""
    attrs, data, n = [], {}, 520
    for t, k in types:
        attrs.append(Attr(f"{t.lower()}_x{k}", t, k, filters=pipeline))
        flat = numbers(t, style, n * k, seed=4)
        data[f"{t.lower()}_x{k}"] = flat.reshape(n, k)
    for t in text:
        attrs.append(Attr(f"text_{t.lower()}", t, VAR, filters=pipeline))
        stock = ["w%03d" % i + "-" * (100 + i) for i in range(100)]
        data[f"text_{t.lower()}"] = [stock[(i * i // 40) % 100] if i % 5 else "" for i in range(n)]
    a = Array(path).create(Spec([Dim("d", "INT32", 0, n - 1, n)], attrs), 1000)
    a.write(data, 1000, [(0, n - 1)])


EVERYTHING = INTS + FLOATS + BYTES + DATES
I64, I16 = ("INT64", 16), ("INT16", 63)
# name -> (pipeline, types, style, var-sized types, text types, wide tiles, text in wide tiles)
ALONE = {
    "none": ([], EVERYTHING, "wild", ["INT32", "FLOAT64"], TEXT, [I64], ()),
    "noop": (["none"], EVERYTHING, "wild", ["INT32"], TEXT, [I64], ()),
    "gzip": (["gzip"], EVERYTHING, "wild", ["INT32", "FLOAT64"], TEXT, [I64], ()),
    "zstd": (["zstd"], EVERYTHING, "wild", ["INT32", "FLOAT64"], TEXT, [I64], TEXT[:1]),
    "zstd_22": ([("zstd", {"level": 22})], EVERYTHING, "wild", ["INT32"], TEXT, [I64], ()),
    "lz4": (["lz4"], EVERYTHING, "wild", ["INT32", "FLOAT64"], TEXT, [I64], ()),
    "bzip2": (["bzip2"], EVERYTHING, "wild", ["INT32", "FLOAT64"], TEXT, [I64], ()),
    "rle": (["rle"], EVERYTHING, "walk", ["INT32", "FLOAT64"], TEXT, [I64], TEXT),
    "dictionary": (["dictionary"], [], "walk", [], TEXT, [], TEXT),
    "delta": (["delta"], INTS + DATES, "wild", ["INT32", "UINT64"], (), [I64], ()),
    "double_delta": (["double_delta"], INTS + DATES, "walk", ["INT32", "UINT64"], (), [I64], ()),
    "positive_delta": (["positive_delta"], INTS + DATES, "rising", ["INT32", "UINT64"], (), [I64, I16], ()),
    "positive_delta_window_20": ([("positive_delta", {"positive_delta_window": 20})], INTS + DATES, "rising", ["INT16"], (), [], ()),
    "bit_width": (["bit_width"], INTS + DATES, "wild", ["INT32", "UINT64"], (), [I64], ()),
    "bit_width_window_100": ([("bit_width", {"bit_width_window": 100})], INTS + DATES, "walk", ["INT16"], (), [], ()),
    "bitshuffle": (["bitshuffle"], EVERYTHING, "wild", ["INT32", "FLOAT64"], TEXT, [I64, I16], TEXT[:1]),
    "byteshuffle": (["byteshuffle"], EVERYTHING, "wild", ["INT32", "FLOAT64"], TEXT, [I64], ()),
    "xor": (["xor"], EVERYTHING, "wild", ["INT32", "FLOAT64"], (), [I64], ()),
    "md5": (["md5"], EVERYTHING, "wild", ["INT32"], TEXT, [I64], ()),
    "sha256": (["sha256"], EVERYTHING, "wild", ["INT32"], TEXT, [I64], ()),
}
for _name, (_pipe, _types, _style, _var, _text, _wide, _wide_text) in ALONE.items():
    case(f"filter_{_name}_widths", f"filter {_name} alone over element sizes 1–8, tiles of 37 and 26 cells", "sparse", "filters", _name, rows=ROWS)(
        lambda path, p=_pipe, t=_types, s=_style, v=_var, x=_text: widths(path, p, t, s, v, x))
    if _wide or _wide_text:
        case(f"filter_{_name}_chunks", f"filter {_name} alone, tiles of several chunks", "dense", "filters", _name, "chunks", rows=520)(
            lambda path, p=_pipe, t=_wide, s=_style, x=_wide_text: chunks(path, p, t, s, x))


@case("filter_reinterpret", "delta and double delta that reinterpret the input as another datatype", "sparse", "filters", "delta", "double_delta")
def filter_reinterpret(path):
    attrs, data = [], {}
    combos = [("delta", "FLOAT64", "INT64"), ("delta", "FLOAT32", "UINT32"), ("double_delta", "FLOAT32", "INT32"), ("delta", "INT64", "INT32"), ("delta", "UINT16", "INT8"),
              ("double_delta", "UINT32", "INT16"), ("double_delta", "INT64", "UINT8"), ("delta", "STRING_ASCII", "INT8"), ("double_delta", "DATETIME_SEC", "INT64")]
    for f, t, r in combos:
        name, var = f"{f}_{t}_as_{r}".lower(), t.startswith("STRING")
        attrs.append(Attr(name, t, VAR if var else 1, filters=[(f, {"reinterpret": r})]))
        data[name] = words() if var else numbers(t, "walk") if t not in FLOATS else (np.arange(ROWS) / 4 + 1000).astype(TYPES[t][2])
    a = Array(path).create(Spec([Dim("d", "UINT32", 0, 9999, 100)], attrs, sparse=True, capacity=37), 1000)
    a.write({"d": np.arange(ROWS), **data}, 1000)


@case("filter_float_scale", "float scale to 1, 2, 4 and 8 bytes, for float32 and float64, negative values and offsets", "sparse", "filters", "float_scale", rows=ROWS)
def filter_float_scale(path):
    attrs, data, rng = [], {}, np.random.default_rng(9)
    for t in FLOATS:
        for width, factor, offset in [(1, 0.5, 10.0), (2, 0.01, -3.5), (4, 0.001, 0.0), (8, 0.1, 1000.0)]:
            name = f"{t.lower()}_{width}"
            steps = rng.integers(-100, 101, ROWS) * (1 if width == 1 else 37)
            attrs.append(Attr(name, t, filters=[("float_scale", {"bytewidth": width, "factor": factor, "offset": offset})]))
            data[name] = (steps * factor + offset + (rng.random(ROWS) - 0.5) * factor * 0.8).astype(TYPES[t][2])
    attrs.append(Attr("pair", "FLOAT64", 2, filters=[("float_scale", {"bytewidth": 4, "factor": 0.25, "offset": 0.0})]))
    data["pair"] = (rng.integers(-1000, 1000, (ROWS, 2)) / 4.0).astype("f8")
    a = Array(path).create(Spec([Dim("d", "UINT32", 0, 9999, 100)], attrs, sparse=True, capacity=37), 1000)
    a.write({"d": np.arange(ROWS), **data}, 1000)


SCALE = ("float_scale", {"bytewidth": 4, "factor": 0.01, "offset": 0.0})
# name -> (pipeline, fixed types, style, var types, text types)
STACKS = {
    "byteshuffle_zstd": (["byteshuffle", "zstd"], EVERYTHING, "wild", ["INT32"], TEXT),
    "bitshuffle_lz4": (["bitshuffle", "lz4"], EVERYTHING, "wild", ["FLOAT64"], TEXT),
    "double_delta_bit_width_zstd": (["double_delta", "bit_width", "zstd"], INTS + DATES, "walk", [], ()),
    "delta_bit_width_lz4": (["delta", "bit_width", "lz4"], INTS, "walk", [], ()),
    "positive_delta_gzip_md5": (["positive_delta", "gzip", "md5"], INTS + DATES, "rising", ["UINT64"], ()),
    "positive_delta_bit_width_zstd": (["positive_delta", "bit_width", "zstd"], INTS, "rising", [], ()),
    "xor_zstd": (["xor", "zstd"], EVERYTHING, "wild", ["FLOAT64"], ()),
    "xor_byteshuffle_lz4": (["xor", "byteshuffle", "lz4"], INTS + FLOATS, "wild", [], ()),
    "float_scale_bitshuffle_bzip2": ([SCALE, "bitshuffle", "bzip2"], FLOATS, "scale", [], ()),
    "float_scale_bit_width_zstd": ([SCALE, "bit_width", "zstd"], FLOATS, "scale", [], ()),
    "float_scale_double_delta": ([SCALE, "double_delta"], FLOATS, "scale", [], ()),
    "checksum_first": (["md5", "byteshuffle", "zstd"], EVERYTHING, "wild", ["INT32"], TEXT),
    "checksum_last": (["bitshuffle", "gzip", "sha256"], EVERYTHING, "wild", ["INT32"], TEXT),
    "checksum_both": (["sha256", "lz4", "md5"], EVERYTHING, "wild", ["INT32"], TEXT),
    "checksum_middle": (["byteshuffle", "md5", "bitshuffle", "sha256", "zstd"], INTS, "wild", [], ()),
    "byteshuffle_bitshuffle_gzip": (["byteshuffle", "bitshuffle", "gzip"], EVERYTHING, "wild", ["INT32"], TEXT),
    "bit_width_byteshuffle_zstd": (["bit_width", "byteshuffle", "zstd"], INTS, "walk", ["INT32"], ()),
    "two_compressors": (["gzip", "zstd"], EVERYTHING, "wild", ["INT32"], TEXT),
    "three_compressors": (["lz4", "bzip2", "gzip"], INTS, "wild", ["INT32"], TEXT),
    "rle_zstd": (["rle", "zstd"], INTS + FLOATS, "walk", ["INT32"], TEXT),
    "rle_bitshuffle_gzip_md5": (["rle", "bitshuffle", "gzip", "md5"], INTS, "walk", [], TEXT),
    "dictionary_zstd": (["dictionary", "zstd"], [], "walk", [], TEXT),
    "dictionary_byteshuffle_lz4_sha256": (["dictionary", "byteshuffle", "lz4", "sha256"], [], "walk", [], TEXT),
    "noop_between": (["none", "byteshuffle", "none", "zstd", "none"], INTS, "wild", [], TEXT),
    "everything_once": (["md5", "positive_delta", "bit_width", "byteshuffle", "bitshuffle", "lz4", "zstd", "sha256"], ["UINT32", "UINT64", "INT64"], "rising", [], ()),
}


def stack(path, pipeline, types, style, var, text):
    if style != "scale":
        return widths(path, pipeline, types, style, var, text)
    rng = np.random.default_rng(11)
    attrs = [Attr(t.lower(), t, filters=pipeline) for t in types]
    data = {t.lower(): (rng.integers(-2000, 2000, ROWS) / 100).astype(TYPES[t][2]) for t in types}
    a = Array(path).create(Spec([Dim("d", "UINT32", 0, 9999, 100)], attrs, sparse=True, capacity=37), 1000)
    a.write({"d": np.arange(ROWS), **data}, 1000)


for _name, (_pipe, _types, _style, _var, _text) in STACKS.items():
    case(f"stack_{_name}", "the pipeline " + " → ".join(f if isinstance(f, str) else f[0] for f in _pipe), "sparse", "filters", "stack", rows=ROWS)(
        lambda path, p=_pipe, t=_types, s=_style, v=_var, x=_text: stack(path, p, t, s, v, x))

for _name in ("byteshuffle_zstd", "bitshuffle_lz4", "byteshuffle_bitshuffle_gzip", "double_delta_bit_width_zstd", "xor_zstd", "checksum_both"):
    case(f"stack_{_name}_chunks", f"the pipeline {_name} over several chunks", "dense", "filters", "stack", "chunks", rows=520)(
        lambda path, p=STACKS[_name][0]: chunks(path, p, [("INT32", 33)]))


# --- where else pipelines apply -----------------------------------------------------------------------------------------


def many_fields(path, n=90, **more):
    """Fixed, var and nullable fields in a sparse array, to put pipelines on offsets, validity and coordinates."""
    attrs = [Attr("a", "INT32"), Attr("s", "STRING_UTF8", VAR), Attr("v", "INT16", VAR, nullable=True), Attr("f", "FLOAT64", nullable=True)]
    dims = [Dim("x", "INT32", 0, 999, 50), Dim("k", "STRING_ASCII")]
    a = Array(path).create(Spec(dims, attrs, sparse=True, capacity=23, **more), 1000)
    a.write({"x": (np.arange(n) * 37) % 1000, "k": [f"key{i % 7}" for i in range(n)], "a": np.arange(n) * 3, "s": words(n, unicode=True),
             "v": [None if i % 4 == 1 else list(range(i % 5)) for i in range(n)], "f": [None if i % 3 == 2 else i / 8 for i in range(n)]}, 1000)


for _name, _pipe in {"none": [], "noop": ["none"], "double_delta": ["double_delta"], "positive_delta_zstd": ["positive_delta", "zstd"], "bit_width_lz4": ["bit_width", "lz4"],
                     "byteshuffle_gzip": ["byteshuffle", "gzip"], "rle": ["rle"], "delta_md5": ["delta", "md5"], "bitshuffle_bzip2": ["bitshuffle", "bzip2"], "xor_lz4": ["xor", "lz4"]}.items():
    case(f"offsets_filter_{_name}", "a pipeline on the offsets of var-sized fields", "sparse", "filters", "offsets", rows=90)(lambda path, p=_pipe: many_fields(path, offsets_filters=p))

for _name, _pipe in {"none": [], "zstd": ["zstd"], "bitshuffle_lz4": ["bitshuffle", "lz4"], "rle_gzip": ["rle", "gzip"], "double_delta": ["double_delta"], "sha256": ["sha256"], "xor_bzip2": ["xor", "bzip2"]}.items():
    case(f"validity_filter_{_name}", "a pipeline on validity bytes", "sparse", "filters", "validity", rows=90)(lambda path, p=_pipe: many_fields(path, validity_filters=p))

for _name, _pipe in {"none": [], "gzip": ["gzip"], "double_delta_zstd": ["double_delta", "zstd"], "lz4": ["lz4"], "sha256": ["sha256"]}.items():
    @case(f"coords_filter_{_name}", "the coords pipeline on dimensions without one of their own, and on the timestamps of a consolidated fragment", "sparse", "filters", "coords", "timestamps", windows=[(0, 1000)])
    def coords_filter(path, p=_pipe):
        dims = [Dim("x", "INT32", -500, 499, 50), Dim("y", "UINT64", 0, 10**12, 10**6), Dim("z", "INT64", 0, 99, 10, filters=["none"]), Dim("w", "INT16", 0, 99, 10, filters=["bitshuffle"])]
        a = Array(path).create(Spec(dims, [Attr("a", "INT32")], sparse=True, capacity=16, coords_filters=p), 1000)
        for k in (0, 1):
            n = np.arange(50) + 25 * k
            a.write({"x": n * 9 - 450, "y": n * 10**7, "z": n % 100, "w": 99 - n, "a": n + 1000 * k}, 1000 * (k + 1))
        a.consolidate()
        a.vacuum()


@case("dimension_filters", "a different pipeline on every dimension, strings with RLE and dictionary among them", "sparse", "filters", "dimensions")
def dimension_filters(path):
    n = 120
    dims = [Dim("s_rle", "STRING_ASCII", filters=["rle"]), Dim("s_dict", "STRING_ASCII", filters=["dictionary", "zstd"]), Dim("s_gzip", "STRING_ASCII", filters=["gzip"]),
            Dim("dd", "INT64", -10**6, 10**6, 1000, filters=["double_delta"]), Dim("xor", "FLOAT64", -100.0, 100.0, 10.0, filters=["xor", "lz4"]),
            Dim("bits", "UINT32", 0, 10**6, 1000, filters=["bit_width", "bzip2"]), Dim("ms", "DATETIME_MS", 0, 10**9, 10**6, filters=["byteshuffle", "zstd", "md5"]), Dim("raw", "INT8", -50, 50, 10, filters=["none"])]
    rng = np.random.default_rng(12)
    a = Array(path).create(Spec(dims, [Attr("a", "INT32")], sparse=True, capacity=50), 1000)
    a.write({"s_rle": [f"group{i // 20}" for i in range(n)], "s_dict": [["x", "", "yy"][i % 3] for i in range(n)], "s_gzip": [f"{i:x}" for i in range(n)],
             "dd": np.arange(n) * 1000 - 50_000, "xor": np.round(rng.uniform(-100, 100, n), 1), "bits": rng.integers(0, 10**6, n), "ms": np.arange(n) * 10**6,
             "raw": rng.integers(-50, 51, n), "a": np.arange(n)}, 1000)


# WebP: tiles as images. Lossy ones restore to what libwebp makes of them, not to what was written.
#
# libtiledb 2.30 sets up the filter of the last attribute alone, so an array has one attribute of images, behind all others.

FORMATS = {"rgb": (1, 3), "bgr": (2, 3), "rgba": (3, 4), "bgra": (4, 4)}


def picture(height, width, seed):
    y, x = np.mgrid[0:height, 0:width]
    smooth = 128 + 90 * np.sin(y / 7.0) * np.cos(x / 11.0)
    return (smooth + np.random.default_rng(seed).integers(0, 30, (height, width))).astype("u1").ravel()


def images(name, quality=None, tile=(7, 5), box=((2, 16), (0, 8)), **orders):
    """`tile` and `box` in pixels; lossless without a quality. Tiles at the edges are written in part."""
    code, depth = FORMATS[name]

    def build(path):
        x0, x1 = box[1][0] * depth, (box[1][1] + 1) * depth - 1
        height, width = box[0][1] - box[0][0] + 1, x1 - x0 + 1
        options = {"format": code, "lossless": int(quality is None), "quality": 100 if quality is None else quality}
        dims = [Dim("y", "INT32", 0, 39, tile[0]), Dim("x", "INT32", 0, 20 * depth - 1, tile[1] * depth)]
        attrs = [Attr("plain", "UINT8"), Attr("image", "UINT8", filters=[("webp", options)])]
        cells = picture(height, width, code)
        Array(path).create(Spec(dims, attrs, **orders), 1000).write({"plain": cells, "image": cells}, 1000, [box[0], (x0, x1)])

    return build


for n in FORMATS:
    case(f"webp_{n}_lossless", f"lossless images of {n} pixels, tiles written in part", "dense", "webp")(images(n))
    for q in (0, 60, 100):
        case(f"webp_{n}_quality_{q}", f"lossy images of {n} pixels at quality {q}", "dense", "webp")(images(n, q))
case("webp_columns", "images in arrays ordered by columns: the lines of the image are the cells as stored", "dense", "webp")(
    images("rgb", 80, tile=(6, 4), box=((0, 11), (0, 7)), cell_order="col", tile_order="col"))
case("webp_larger", "an image of many blocks", "dense", "webp")(images("bgra", 75, tile=(40, 20), box=((0, 39), (0, 19))))
