"""Sparse arrays: duplicates, overwrites, strings, floats, nulls, many fragments, consolidation with and without vacuum."""

import shutil

import numpy as np

from cases import case
from capi import VAR
from tdbarray import Array, Attr, Dim, Spec

W4 = [(0, 1000), (0, 2000), (2000, 2000), (3000, 9000)]


def xy(n, seed, span=30):
    rng = np.random.default_rng(seed)
    cells = rng.choice(span * span, n, replace=False)
    return {"x": cells // span, "y": cells % span}


def square(span=30, extent=7):
    return [Dim("x", "INT32", 0, span - 1, extent), Dim("y", "INT32", 0, span - 1, extent)]


def overlapping(path, fragments=3, n=200, **more):
    """`fragments` writes of `n` cells each into 900 places; `a` tells fragment and cell."""
    spec = Spec(square(), [Attr("a", "INT64"), Attr("s", "STRING_UTF8", VAR), Attr("n", "FLOAT32", nullable=True)], sparse=True, capacity=32, **more)
    a = Array(path).create(spec, 1000)
    for k in range(1, fragments + 1):
        add(a, k, n)
    return a


def add(a, k, n=200):
    a.write({**xy(n, 40 + k), "a": np.arange(n) + 10_000 * k, "s": [f"f{k}–{i}" * (i % 3) for i in range(n)], "n": [None if i % 5 == k else i / 4 for i in range(n)]}, 1000 * k)


@case("sparse_overwrite", "three overlapping fragments without duplicates: the newest cell wins", "sparse", "dedup", windows=W4)
def sparse_overwrite(path):
    overlapping(path)


@case("sparse_overwrite_hilbert", "the same in Hilbert order", "sparse", "dedup", "hilbert", windows=W4)
def sparse_overwrite_hilbert(path):
    overlapping(path, cell_order="hilbert")


@case("sparse_duplicates", "three overlapping fragments with duplicates allowed: every cell stays", "sparse", "duplicates", windows=W4, rows=600)
def sparse_duplicates(path):
    overlapping(path, dups=True)


@case("sparse_duplicates_inside", "duplicates inside one fragment and across two", "sparse", "duplicates", rows=24)
def sparse_duplicates_inside(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 9, 3)], [Attr("a", "INT32")], sparse=True, capacity=5, dups=True), 1000)
    a.write({"d": [3] * 8 + [4, 4, 0, 9], "a": np.arange(12)}, 1000)
    a.write({"d": [3] * 8 + [4, 4, 0, 9], "a": np.arange(12) + 100}, 2000)


@case("sparse_same_timestamp", "two fragments written at the same millisecond: the later name wins", "sparse", "dedup", "tie")
def sparse_same_timestamp(path):
    while True:  # names are random: written anew until the second fragment's name is the later one
        a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("a", "INT32")], sparse=True), 1000)
        a.write({"d": np.arange(0, 20), "a": np.arange(20)}, 1000)
        (first,) = (path / "__fragments").iterdir()
        a.write({"d": np.arange(10, 30), "a": np.arange(20) + 100}, 1000)
        if max(p.name for p in (path / "__fragments").iterdir()) != first.name:
            return
        shutil.rmtree(path)


@case("sparse_null_overwrites", "a newer null hides an older value", "sparse", "dedup", "nullable", windows=[(0, 1000)], rows=6)
def sparse_null_overwrites(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 9, 5)], [Attr("a", "INT32", nullable=True), Attr("s", "STRING_UTF8", VAR, nullable=True)], sparse=True), 1000)
    a.write({"d": range(6), "a": [0, 1, 2, 3, 4, 5], "s": list("abcdef")}, 1000)
    a.write({"d": [1, 3], "a": [None, 33], "s": ["new", None]}, 2000)


@case("sparse_value_gone", "the newer cell fails a predicate that the older one passes: it must not come back", "sparse", "dedup", "resurrection", windows=[(0, 1000)], rows=100)
def sparse_value_gone(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("a", "INT32")], sparse=True, capacity=10), 1000)
    a.write({"d": np.arange(100), "a": np.full(100, 1000)}, 1000)
    a.write({"d": np.arange(0, 100, 2), "a": np.full(50, 1)}, 2000)


@case("sparse_many_fragments", "30 small fragments, overlapping", "sparse", "many_fragments", windows=[(1000, 1010), (1015, 1015)])
def sparse_many_fragments(path):
    a = Array(path).create(Spec(square(10, 3), [Attr("a", "INT32")], sparse=True, capacity=4), 1000)
    for k in range(30):
        a.write({**xy(6, 100 + k, 10), "a": np.arange(6) + 100 * k}, 1000 + k)


@case("sparse_no_attributes", "an array that is only its coordinates", "sparse", "zero_attributes", rows=25)
def sparse_no_attributes(path):
    Array(path).create(Spec(square(), [], sparse=True, capacity=10), 1000).write(xy(25, 50), 1000)


@case("sparse_no_attributes_strings", "only string coordinates, two fragments", "sparse", "zero_attributes", "string_dim")
def sparse_no_attributes_strings(path):
    a = Array(path).create(Spec([Dim("k", "STRING_ASCII")], [], sparse=True, capacity=4), 1000)
    a.write({"k": ["b", "a", "", "c"]}, 1000)
    a.write({"k": ["a", "zz", "c", "d"]}, 2000)


@case("sparse_strings", "a string dimension with empty strings, NUL bytes and prefixes of one another", "sparse", "string_dim", "nul", windows=[(0, 1000)])
def sparse_strings(path):
    a = Array(path).create(Spec([Dim("k", "STRING_ASCII")], [Attr("a", "INT32")], sparse=True, capacity=4), 1000)
    first = ["", "\0", "\0\0", "a", "a\0", "a\0b", "ab", "abc", "abcd", "b", "~", "\x7f", "zz\0zz"]
    a.write({"k": first, "a": np.arange(len(first))}, 1000)
    a.write({"k": ["a", "a\0", "\0", "new"], "a": [100, 101, 102, 103]}, 2000)


@case("sparse_strings_high_bytes", "a string dimension with non-ASCII UTF-8 (one fragment, one tile; libtiledb sorts these bytes as signed when writing)", "sparse", "string_dim", "non_ascii", layouts=False, rows=8)
def sparse_strings_high_bytes(path):
    a = Array(path).create(Spec([Dim("k", "STRING_ASCII")], [Attr("a", "INT32")], sparse=True), 1000)
    a.write({"k": ["zebra", "Ärger", "日本", "apple", "é", "🦀", "\x7f", "ß"], "a": np.arange(8)}, 1000)


@case("sparse_strings_high_bytes_tiles", "the same over several tiles, duplicates allowed: order inside the fragment cannot be relied on", "sparse", "string_dim", "non_ascii", "duplicates", layouts=False, rows=40)
def sparse_strings_high_bytes_tiles(path):
    words = ["zebra", "Ärger", "日本", "apple", "é", "🦀", "mitte", "ß"]
    a = Array(path).create(Spec([Dim("k", "STRING_ASCII")], [Attr("a", "INT32")], sparse=True, capacity=3, dups=True), 1000)
    a.write({"k": [words[i % 8] + str(i // 8) for i in range(40)], "a": np.arange(40)}, 1000)


@case("sparse_two_strings", "two string dimensions, two fragments", "sparse", "string_dim", windows=[(0, 1000)])
def sparse_two_strings(path):
    a = Array(path).create(Spec([Dim("s", "STRING_ASCII"), Dim("t", "STRING_ASCII")], [Attr("a", "INT32")], sparse=True, capacity=6), 1000)
    for k in (1, 2):
        pairs = sorted({(f"s{(i * k) % 5}", "t" * ((i * 3) % 4)) for i in range(40)})[: 12 + k]
        a.write({"s": [p[0] for p in pairs], "t": [p[1] for p in pairs], "a": np.arange(len(pairs)) + 100 * k}, 1000 * k)


@case("sparse_floats", "two float dimensions with negative values; -0.0 overwrites 0.0", "sparse", "float_dim", "negative_zero", windows=[(0, 1000)])
def sparse_floats(path):
    a = Array(path).create(Spec([Dim("x", "FLOAT64", -1000.0, 1000.0, 125.5), Dim("y", "FLOAT32", -10.0, 10.0, 2.5)], [Attr("a", "INT32")], sparse=True, capacity=5), 1000)
    rng = np.random.default_rng(60)
    a.write({"x": np.append(np.round(rng.uniform(-1000, 1000, 30), 3), [0.0, 1.0, -1000.0, 1000.0]), "y": np.append(np.round(rng.uniform(-10, 10, 30), 2), [0.0, 0.0, -10.0, 10.0]).astype("f4"), "a": np.arange(34)}, 1000)
    a.write({"x": np.array([-0.0, 1.0]), "y": np.array([-0.0, 5.0], "f4"), "a": [500, 501]}, 2000)


@case("sparse_dates", "nanosecond dates before and after 1970 as a dimension, date attributes with NaT", "sparse", "datetime_dim", "nat", rows=12)
def sparse_dates(path):
    top = 2**62
    a = Array(path).create(Spec([Dim("t", "DATETIME_NS", -top, top, 10**15)], [Attr("d", "DATETIME_DAY"), Attr("m", "DATETIME_MIN", nullable=True)], sparse=True, capacity=5), 1000)
    t = np.array([-top, -10**18, -1, 0, 1, 10**9, 10**18, 1_700_000_000_000_000_000, top, 5, 6, 7])
    a.write({"t": t, "d": [-(2**63), -719162, -1, 0, 1, 2932896, 19000, 19001, -(2**63), 3, 4, 5], "m": [None, -1, 0, -(2**63), 60, None, 7, 8, 9, 10, 11, 12]}, 1000)


@case("sparse_null_extents", "no extent given for any dimension", "sparse", "null_extent", rows=40)
def sparse_null_extents(path):
    a = Array(path).create(Spec([Dim("x", "INT32", -100, 100), Dim("y", "FLOAT64", -1.0, 1.0)], [Attr("a", "INT32")], sparse=True, capacity=7), 1000)
    rng = np.random.default_rng(61)
    a.write({"x": rng.choice(np.arange(-100, 101), 40, replace=False), "y": rng.uniform(-1, 1, 40), "a": np.arange(40)}, 1000)


@case("sparse_null_extents_hilbert", "no extents in a Hilbert array, where they stay null on disk", "sparse", "null_extent", "hilbert", rows=40)
def sparse_null_extents_hilbert(path):
    a = Array(path).create(Spec([Dim("x", "INT32", -100, 100), Dim("y", "UINT64", 0, 2**40)], [Attr("a", "INT32")], sparse=True, capacity=7, cell_order="hilbert"), 1000)
    rng = np.random.default_rng(62)
    a.write({"x": rng.choice(np.arange(-100, 101), 40, replace=False), "y": rng.integers(0, 2**40, 40), "a": np.arange(40)}, 1000)


@case("sparse_empty", "an array without fragments", "sparse", "empty", rows=0)
def sparse_empty(path):
    Array(path).create(Spec([Dim("k", "STRING_ASCII"), Dim("x", "INT32", 0, 9, 5)], [Attr("a", "INT32"), Attr("s", "STRING_UTF8", VAR, nullable=True)], sparse=True), 1000)


@case("sparse_one_cell", "one cell", "sparse", rows=1)
def sparse_one_cell(path):
    Array(path).create(Spec(square(), [Attr("s", "STRING_UTF8", VAR)], sparse=True), 1000).write({"x": [29], "y": [0], "s": ["only"]}, 1000)


@case("sparse_anonymous", "an attribute without a name", "sparse", "anonymous", rows=5)
def sparse_anonymous(path):
    Array(path).create(Spec([Dim("d", "UINT8", 0, 99, 10)], [Attr("", "STRING_UTF8", VAR)], sparse=True), 1000).write({"d": range(5), "": ["a", "", "b", "ç", "d"]}, 1000)


for _name, _pipe in {"none": [], "gzip": ["gzip"], "lz4": ["lz4"], "zstd": ["zstd"], "bzip2": ["bzip2"], "rle": ["rle"], "dictionary": ["dictionary"], "byteshuffle_zstd": ["byteshuffle", "zstd"], "md5": ["md5"], "bitshuffle": ["bitshuffle"]}.items():
    @case(f"empty_strings_{_name}", "var tiles of zero bytes: every string is empty", "sparse", "empty_strings", "filters", rows=30)
    def empty_strings(path, p=_pipe):
        attrs = [Attr("ascii", "STRING_ASCII", VAR, filters=p), Attr("utf8", "STRING_UTF8", VAR, nullable=True, filters=p)]
        if _ok_for_numbers(p):
            attrs.append(Attr("ints", "INT32", VAR, filters=p))
        a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], attrs, sparse=True, capacity=10), 1000)
        # the first tile is empty throughout, in the second only one cell is not
        text = [""] * 15 + ["x"] + [""] * 14
        data = {"d": np.arange(30), "ascii": text, "utf8": [None if i % 4 == 0 else t for i, t in enumerate(text)], "ints": [[7] if t else [] for t in text]}
        a.write({k: v for k, v in data.items() if k == "d" or k in {x.name for x in attrs}}, 1000)


def _ok_for_numbers(pipeline):
    return "dictionary" not in pipeline


@case("sparse_large_values", "single values larger than a 64 KiB chunk between small and empty ones", "sparse", "large_var", rows=9)
def sparse_large_values(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("s", "STRING_UTF8", VAR, filters=["zstd"]), Attr("b", "BLOB", VAR, filters=["byteshuffle", "gzip"]), Attr("i", "UINT16", VAR)], sparse=True, capacity=5), 1000)
    big = [140_000, 0, 3, 66_000, 1, 20_000, 10, 0, 8_769]
    a.write({"d": np.arange(9), "s": [("abcd" * k)[: k // 2] for k in big], "b": [bytes(k // 4) + b"end" * (k > 0) for k in big], "i": [[i] * (k // 10) for i, k in enumerate(big)]}, 1000)


@case("sparse_var_chunks", "var data cut at many places into chunks: cells never split, a trailing empty cell", "sparse", "large_var", "chunks", rows=36)
def sparse_var_chunks(path):
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("raw", "BLOB", VAR, filters=["lz4"])], sparse=True), 1000)
    sizes = [3000, 500, 4000, 0, 2500, 3500] * 6
    a.write({"d": np.arange(36), "raw": [bytes([i]) * k for i, k in enumerate(sizes[:-1])] + [b""]}, 1000)


@case("sparse_nullable", "nullable fixed, multi-value and var-sized attributes; a tile of nothing but nulls", "sparse", "nullable", rows=50)
def sparse_nullable(path):
    types = [("i", "INT32", 1), ("u", "UINT64", 1), ("f", "FLOAT64", 1), ("p", "INT16", 3), ("s", "STRING_ASCII", VAR), ("t", "STRING_UTF8", VAR), ("v", "FLOAT32", VAR), ("b", "BLOB", VAR), ("flag", "BOOL", 1), ("c", "CHAR", 2)]
    attrs = [Attr(n, t, k, nullable=True) for n, t, k in types]
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], attrs, sparse=True, capacity=10), 1000)
    value = {"i": lambda i: -i, "u": lambda i: 2**64 - 1 - i, "f": lambda i: i / 7, "p": lambda i: [i, 0, -i], "s": lambda i: "s" * (i % 5), "t": lambda i: "ü" * (i % 3), "v": lambda i: [i] * (i % 4),
             "b": lambda i: bytes([i] * (i % 3)), "flag": lambda i: i % 2, "c": lambda i: "ab"}
    a.write({"d": np.arange(50), **{n: [None if 20 <= i < 30 or (i * 7 + k) % 4 == 0 else value[n](i) for i in range(50)] for k, (n, _, _) in enumerate(types)}}, 1000)


@case("sparse_nan_statistics", "NaN, infinities and limits per tile, where stored minima and maxima are wrong", "sparse", "statistics", "nan", rows=40)
def sparse_nan_statistics(path):
    nan, inf, top = np.nan, np.inf, 1.7e308
    f = [1, nan, 5, 2, 3, 4, 6, 7] + [nan] * 8 + [inf, -inf, 0, -0.0, 1, 2, 3, 4] + [top, top, -1, nan, 1, 2, 3, 4] + [nan, 10, 20, 30, 40, 50, 60, 70]
    i = [2**63 - 1] * 4 + [1] * 4 + [-(2**63)] * 4 + [-1] * 4 + list(range(24))
    a = Array(path).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("f", "FLOAT64"), Attr("g", "FLOAT32"), Attr("i", "INT64"), Attr("n", "FLOAT64", nullable=True), Attr("s", "STRING_ASCII", VAR)], sparse=True, capacity=8), 1000)
    a.write({"d": np.arange(40), "f": f, "g": np.clip(np.array(f), -3e38, 3e38).astype("f4"), "i": i, "n": [None if k % 3 == 0 or 8 <= k < 16 else v for k, v in enumerate(f)],
             "s": [["b\0z", "b\0a", "b", "a\0", "a", "", "\0", "c"][k % 8] for k in range(40)]}, 1000)


# --- consolidation ------------------------------------------------------------------------------------------------------


@case("sparse_consolidated", "three fragments consolidated with timestamps and vacuumed: history is in the fragment", "sparse", "consolidated", "timestamps", windows=W4)
def sparse_consolidated(path):
    a = overlapping(path)
    a.consolidate()
    a.vacuum()


@case("sparse_consolidated_kept", "the same without vacuum: the .vac file hides the originals", "sparse", "consolidated", "timestamps", "vac", windows=W4)
def sparse_consolidated_kept(path):
    overlapping(path).consolidate()


@case("sparse_consolidated_then_more", "consolidated, vacuumed, two more overlapping fragments on top", "sparse", "consolidated", "timestamps", windows=[*W4, (4000, 5000), (2000, 4000)])
def sparse_consolidated_then_more(path):
    a = overlapping(path)
    a.consolidate()
    a.vacuum()
    add(a, 4)
    add(a, 5)


@case("sparse_consolidated_twice", "a consolidated fragment consolidated again with a later one, kept in place", "sparse", "consolidated", "timestamps", "vac", windows=[*W4, (4000, 4000)])
def sparse_consolidated_twice(path):
    a = overlapping(path, 2)
    a.consolidate()
    a.vacuum()
    add(a, 3)
    a.consolidate()
    add(a, 4)


@case("sparse_consolidated_duplicates", "consolidated with duplicates allowed: all versions stay rows", "sparse", "consolidated", "timestamps", "duplicates", windows=W4, rows=600)
def sparse_consolidated_duplicates(path):
    a = overlapping(path, dups=True)
    a.consolidate()
    a.vacuum()


@case("sparse_consolidated_hilbert", "consolidated in Hilbert order", "sparse", "consolidated", "timestamps", "hilbert", windows=W4)
def sparse_consolidated_hilbert(path):
    a = overlapping(path, cell_order="hilbert")
    a.consolidate()
    a.vacuum()


@case("sparse_consolidated_strings", "consolidated over a string dimension: many versions of few keys", "sparse", "consolidated", "timestamps", "string_dim", windows=[(0, 1000), (1001, 1003), (0, 1005), (1007, 1009)])
def sparse_consolidated_strings(path):
    a = Array(path).create(Spec([Dim("k", "STRING_ASCII")], [Attr("a", "INT32"), Attr("s", "STRING_UTF8", VAR, nullable=True)], sparse=True, capacity=5), 1000)
    for k in range(10):
        a.write({"k": ["a", f"k{k % 3}", f"k{k}x"], "a": [k, k + 10, k + 20], "s": [None if k % 2 else f"v{k}", "é", ""]}, 1000 + k)
    a.consolidate()
    a.vacuum()


@case("sparse_partial_consolidation", "a consolidated fragment between an older and a newer one", "sparse", "consolidated", "timestamps", windows=[*W4, (0, 3000)])
def sparse_partial_consolidation(path):
    a = overlapping(path, 4)
    a.consolidate(timestamp_start=2000, timestamp_end=3000)
    a.vacuum()
