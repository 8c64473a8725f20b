"""Filters: each alone and stacked, on attributes, offsets, validity and coordinates, over several chunks, in each version's form."""

import numpy as np

from capi import TYPES
from releases import each
from releases.basics import ALL, FEW, ints, text
from tdbarray import VAR, Attr, Dim, Spec

SINCE = {"md5": 4, "sha256": 4, "dictionary": 13, "float_scale": 15, "xor": 16, "delta": 19}
ALONE = ["none", "gzip", ("gzip", {"level": 9}), "zstd", "lz4", "rle", "bzip2", "double_delta", "bit_width", "bitshuffle", "byteshuffle", "positive_delta", "md5", "sha256", "xor", "delta"]
STACKS = [["byteshuffle", "zstd"], ["bitshuffle", "lz4"], ["positive_delta", "bit_width", "gzip"], ["double_delta", "zstd"], ["bit_width", "byteshuffle", "bzip2"], ["rle", "gzip"],
          ["md5", "gzip", "sha256"], ["xor", "bitshuffle", "zstd"], ["delta", "bit_width", "lz4"], ["byteshuffle", "bitshuffle", "rle"]]


def word(f):
    return f if isinstance(f, str) else f[0] + "_" + "_".join(str(x) for x in f[1].values())


def usable(v, pipeline):
    return all(v >= SINCE.get(f if isinstance(f, str) else f[0], 1) for f in pipeline)


# Filters that refuse a type, or are known to spoil it.
INTEGERS_ONLY = {"bit_width", "positive_delta", "double_delta", "delta"}


def fits(v, pipeline, t):
    names = {f if isinstance(f, str) else f[0] for f in pipeline}
    if t.startswith("FLOAT") and names & INTEGERS_ONLY:
        return False
    return True


def columns(v, pipelines, types, n):
    """Attributes, one per pipeline (the type goes round, from version to version), and their cells: rising, as positive delta wants it."""
    attrs, data = [], {}
    for i, p in enumerate(pipelines):
        if v >= 11 and (i + v) % 3:  # a third of them, in turn: the footers of younger releases are large
            continue
        possible = [t for t in types if usable(v, p) and fits(v, p, t)]
        for t in possible if v == 2 else possible[(i + v) % len(possible):][:1] if possible else []:
            a = Attr("_".join(map(word, p)) + "_" + t.lower(), t, filters=p)
            attrs.append(a)
            data[a.name] = [min(i * i // 3, 120) if TYPES[t][1] == 1 else i * i + 3 for i in range(n)]
            if t.startswith("FLOAT"):
                data[a.name] = [x / 4 for x in data[a.name]]
    return attrs, data


@each("filters", ALL, "each filter alone, on attributes of several types", "dense", "filters")
def filters(v):
    def build(a):
        types = ["INT32", "UINT8", "FLOAT64"] + (["DATETIME_MS"] if v >= 3 else [])
        attrs, data = columns(v, [[f] for f in ALONE], types, 24)
        a.create(Spec([Dim("x", "INT32", 1, 24, 12)], attrs))
        a.write(data, 1000, box=[(1, 24)])

    return build


@each("filters_stacked", ALL, "filters one after another", "dense", "filters")
def filters_stacked(v):
    def build(a):
        types = ["INT64", "UINT16", "FLOAT32"] + (["DATETIME_SEC"] if v >= 3 else [])
        attrs, data = columns(v, STACKS, types, 24)
        a.create(Spec([Dim("x", "INT32", 1, 24, 12)], attrs))
        a.write(data, 1000, box=[(1, 24)])

    return build


@each("filters_var", FEW, "filters on var-sized attributes", "sparse", "filters", "var")
def filters_var(v):
    def build(a):
        pipelines = [[f] for f in ("none", "lz4", "bzip2", "md5")] + [["byteshuffle", "zstd"], ["bitshuffle", "gzip"]]
        attrs = [Attr("_".join(p) + "_" + t.lower(), t, VAR, filters=p) for i, p in enumerate(pipelines) if usable(v, p) for t in ["CHAR", "INT32"][(i + v) % 2:][:1]]
        a.create(Spec([Dim("x", "INT32", 1, 50, 10)], attrs, sparse=True, capacity=8))
        n = 20
        a.write({"x": list(range(5, 5 + n)), **{f.name: text(n) if f.type == "CHAR" else [[i] * (1 + i % 3) for i in range(n)] for f in attrs}}, 1000)

    return build


@each("strings_rle", ALL, "run-length and (13+) dictionary encoding on text: by string from 12 (ASCII) and 17 (UTF-8), byte by byte before", "sparse", "filters", "strings", windows=[(0, 1000)])
def strings_rle(v):
    def build(a):
        attrs = [Attr(f"rle_{t.lower()}", t, VAR, filters=["rle"]) for t in ("STRING_ASCII", "STRING_UTF8") + (("CHAR",) if v < 12 else ())]
        if not 12 <= v < 16:  # these releases allow nothing beside the run lengths of text
            attrs += [Attr(f"rle_zstd_{t.lower()}", t, VAR, filters=["rle", "zstd"]) for t in ("STRING_ASCII",)]
        if v >= 13:
            attrs.append(Attr("dict_ascii", "STRING_ASCII", VAR, filters=["dictionary"]))
            if v >= 16:
                attrs.append(Attr("dict_zstd_ascii", "STRING_ASCII", VAR, filters=["dictionary", "zstd"]))
        if v >= 17:
            attrs.append(Attr("dict_utf8", "STRING_UTF8", VAR, filters=["dictionary"]))
        a.create(Spec([Dim("x", "INT32", 1, 60, 10)], attrs, sparse=True, capacity=8))
        for ts, lo, n in ((1000, 1, 20), (2000, 15, 4)):
            a.write({"x": list(range(lo, lo + n)), **{f.name: ["aab" * (1 + i // 5) if f.type != "STRING_UTF8" else "äöä"[: 1 + i // 7] for i in range(n)] for f in attrs}}, ts)

    return build


@each("strings_filtered", range(5, 22), "filters on string dimensions", "sparse", "filters", "string_dim")
def strings_filtered(v):
    def build(a):
        pipelines = [["gzip"], ["none"]] + ([["rle"]] if v >= 12 else []) + ([["dictionary"]] if v >= 13 else [])
        dims = [Dim(f"k{i}", "STRING_ASCII", filters=p) for i, p in enumerate(pipelines)]
        a.create(Spec(dims, [Attr("a", "INT32")], sparse=True, capacity=6, dups=True))
        n = 16
        a.write({**{d.name: ["pqrst"[i % (2 + k)] * (1 + (i + k) % 3) for i in range(n)] for k, d in enumerate(dims)}, "a": list(range(n))}, 1000)

    return build


OFFSETS = [["none"], ["gzip"], ["positive_delta", "bit_width", "zstd"], ["double_delta", "bitshuffle", "lz4"], ["byteshuffle", "rle", "md5"]]
for _i, _p in enumerate(OFFSETS):
    _name = "_".join(_p)

    @each(f"offsets_{_name}", [v for v in ALL if usable(v, _p) and v % len(OFFSETS) in (_i, (_i + 1) % len(OFFSETS))], f"{' + '.join(_p)} on offsets", "sparse", "filters", "offsets")
    def offsets(v, p=_p):
        def build(a):
            attrs = [Attr("s", "CHAR", VAR), Attr("w", "INT16", VAR, filters=["gzip"])]
            a.create(Spec([Dim("x", "INT32", 1, 50, 10)], attrs, sparse=True, capacity=9, offsets_filters=p))
            a.write({"x": list(range(3, 33)), "s": text(30), "w": [[i] * (1 + i % 3) for i in range(30)]}, 1000)

        return build


COORDS = [["none"], ["gzip"], ["double_delta"], ["bit_width", "byteshuffle", "zstd"], ["bitshuffle", "lz4", "md5"]]
for _i, _p in enumerate(COORDS):

    @each(f"coords_{'_'.join(_p)}", [v for v in ALL if usable(v, _p) and (v <= 5 or v % len(COORDS) in (_i, (_i + 2) % len(COORDS)))], f"{' + '.join(_p)} on coordinates", "sparse", "filters", "coords")
    def coords(v, p=_p):
        def build(a):
            a.create(Spec([Dim("y", "INT32", 1, 40, 10), Dim("x", "INT32", -20, 20, 8)], [Attr("a", "INT32")], sparse=True, capacity=9, coords_filters=p))
            a.write({"y": list(range(3, 33)), "x": [(i * 11) % 40 - 20 for i in range(30)], "a": ints(30)}, 1000)

        return build


@each("dims_filtered", [v for v in FEW if v >= 5], "filters of dimensions' own beside the pipeline of coordinates", "sparse", "filters", "coords")
def dims_filtered(v):
    def build(a):
        dims = [Dim("y", "INT64", 1, 40, 10, filters=["double_delta", "gzip"]), Dim("x", "INT64", -20, 20, 8), Dim("z", "INT64", 0, 5, 2, filters=["rle", "md5"])]
        a.create(Spec(dims, [Attr("a", "INT32")], sparse=True, capacity=9, coords_filters=["byteshuffle", "zstd"]))
        a.write({"y": list(range(3, 33)), "x": [(i * 11) % 40 - 20 for i in range(30)], "z": [i % 6 for i in range(30)], "a": ints(30)}, 1000)

    return build


VALIDITY = [["none"], ["rle"], ["rle", "gzip"], ["double_delta"], ["bitshuffle", "zstd", "sha256"]]
# Releases before format 11 always write run lengths, and those of 12 to 15 fail under double delta.
for _i, _p in enumerate(VALIDITY):

    @each(f"validity_{'_'.join(_p)}", [v for v in range(11, 22) if (v > 15 or "double_delta" not in _p) and v % len(VALIDITY) in (_i, (_i + 1) % len(VALIDITY))], f"{' + '.join(_p)} on validity", "dense", "filters", "validity", "nullable")
    def validity(v, p=_p):
        def build(a):
            a.create(Spec([Dim("x", "INT32", 1, 30, 12)], [Attr("a", "INT32", nullable=True), Attr("s", "STRING_ASCII", VAR, nullable=True)], validity_filters=p))
            a.write({"a": [None if i % 3 == 1 else i for i in range(30)], "s": [None if i % 4 == 2 else f"t{i}" for i in range(30)]}, 1000, box=[(1, 30)])

        return build


@each("chunks", [1, 2, 5, 8, 10, 11, 16], "tiles of more than 64 KiB: several chunks, and before 11 cells cut in two", "sparse", "chunks", "var")
def chunks(v):
    def build(a):
        attrs = [Attr("w", "INT64", VAR, filters=["byteshuffle", "zstd"]), Attr("a", "INT32")]
        a.create(Spec([Dim("x", "INT32", 1, 100, 100)], attrs, sparse=True, capacity=100))
        n = 12
        a.write({"x": list(range(2, 2 + n)), "w": [[i % 10] * {3: 1501, 6: 8500, 9: 4001}.get(i, 3) for i in range(n)], "a": ints(n)}, 1000)

    return build


@each("chunks_fixed", [2, 11, 20], "fixed-size tiles of more than 64 KiB under several filters", "dense", "chunks", "filters")
def chunks_fixed(v):
    def build(a):
        stacks = [["bit_width", "zstd"], ["double_delta", "gzip"], ["bitshuffle", "bzip2"]][:2]
        n, m = 12, 700
        attrs = [Attr("_".join(p), "INT64", m, filters=p) for p in stacks]
        a.create(Spec([Dim("x", "INT32", 1, n, n)], attrs))
        a.write({f.name: np.arange(n * m) // 1000 for f in attrs}, 1000, box=[(1, n)])

    return build


@each("float_scale", range(15, 22), "floats as scaled integers", "dense", "filters")
def float_scale(v):
    def build(a):
        attrs = [Attr(f"w{w}", "FLOAT64", filters=[("float_scale", {"bytewidth": w, "factor": 0.5, "offset": 10.0}), "gzip"]) for w in (1, 2, 4, 8)]
        attrs.append(Attr("s", "FLOAT32", filters=[("float_scale", {"bytewidth": 4, "factor": 0.25, "offset": 0.0})]))
        a.create(Spec([Dim("x", "INT32", 1, 20, 8)], attrs))
        a.write({f.name: [i / 2 + 10 for i in range(20)] for f in attrs}, 1000, box=[(1, 20)])

    return build


@each("reinterpret", range(19, 22), "delta and double delta over reinterpreted types", "dense", "filters")
def reinterpret(v):
    def build(a):
        attrs = [Attr(f"{f}_{t.lower()}_{u.lower()}", t, filters=[(f, {"reinterpret": u}), "gzip"])
                 for f in (("delta", "double_delta") if v >= 20 else ("delta",)) for t, u in (("INT64", "INT32"), ("FLOAT64", "INT64"), ("INT32", "UINT8"), ("DATETIME_MS", "INT64"))]
        a.create(Spec([Dim("x", "INT32", 1, 16, 8)], attrs))
        a.write({f.name: [i * 3 for i in range(16)] for f in attrs}, 1000, box=[(1, 16)])

    return build
