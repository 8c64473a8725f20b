"""AES-256-GCM: arrays that need a key. The key stands in the manifest; it protects nothing."""

from cases import case
from capi import VAR
from tdbarray import Array, Attr, Dim, Enum, Spec

KEY = "0123456789abcdeF0123456789abcdeF"
CONFIG = {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": KEY}
OPTIONS = {"tiledb.encryption_key": KEY}


@case("encrypted_dense", "an encrypted dense array: with and without filters, var-sized, nullable", "dense", "encryption", config=CONFIG, options=OPTIONS, rows=30)
def encrypted_dense(path):
    attrs = [Attr("a", "INT32"), Attr("z", "FLOAT64", filters=["byteshuffle", "zstd"]), Attr("s", "STRING_UTF8", VAR, nullable=True, filters=["gzip", "md5"])]
    a = Array(path, **CONFIG).create(Spec([Dim("d", "INT32", 0, 49, 8)], attrs), 1000)
    a.write({"a": range(30), "z": [i / 4 for i in range(30)], "s": [None if i % 7 == 0 else "é" * (i % 4) for i in range(30)]}, 1000, [(5, 34)])


@case("encrypted_sparse", "an encrypted sparse array with overlapping fragments, consolidated", "sparse", "encryption", "dedup", "consolidated", config=CONFIG, options=OPTIONS, windows=[(0, 1000)])
def encrypted_sparse(path):
    spec = Spec([Dim("k", "STRING_ASCII"), Dim("x", "INT64", 0, 99, 10, filters=["double_delta"])], [Attr("a", "INT32", nullable=True), Attr("s", "STRING_ASCII", VAR, filters=["rle"])], sparse=True, capacity=6)
    a = Array(path, **CONFIG).create(spec, 1000)
    for k in (1, 2):
        a.write({"k": [f"k{i % 3}" for i in range(20)], "x": [i * k for i in range(20)], "a": [None if i % 4 == k else i + 100 * k for i in range(20)], "s": ["" if i % 2 else f"v{k}" for i in range(20)]}, 1000 * k)
    a.consolidate()
    a.vacuum()


@case("encrypted_strings", "string dimensions and attributes under run lengths and dictionaries: their offsets tiles are plain stubs", "sparse", "encryption", "strings", "duplicates", config=CONFIG, options=OPTIONS, rows=80)
def encrypted_strings(path):
    dims = [Dim("r", "STRING_ASCII", filters=["rle", "zstd"]), Dim("k", "STRING_ASCII", filters=["dictionary"])]
    attrs = [Attr("rle", "STRING_ASCII", VAR, filters=["rle"]), Attr("dict", "STRING_UTF8", VAR, nullable=True, filters=["dictionary", "gzip"]), Attr("empty", "STRING_UTF8", VAR, filters=["zstd"]),
             Attr("plain", "STRING_ASCII", VAR), Attr("list", "INT16", VAR, filters=["byteshuffle"])]
    a = Array(path, **CONFIG).create(Spec(dims, attrs, sparse=True, capacity=9, dups=True), 1000)
    for ts in (1000, 2000):
        cells = range(40)
        a.write({"r": [f"r{i // 10}" for i in cells], "k": [f"key{i % 4}" for i in cells], "rle": [f"run{i // 7}" for i in cells], "dict": [None if i % 6 == 1 else "é" * (i % 3) for i in cells],
                 "empty": [""] * 40, "plain": [f"{ts}:{i}" for i in cells], "list": [list(range(i % 4)) for i in cells]}, ts)


@case("encrypted_enumerations", "enumerations and array metadata of an encrypted array are encrypted too", "sparse", "encryption", "enumeration", "metadata", config=CONFIG, options=OPTIONS, rows=20)
def encrypted_enumerations(path):
    enums = [Enum("colours", "STRING_UTF8", ["red", "grün", "", "blue"]), Enum("years", "INT64", [[1999], [-5]], True, n=1)]
    spec = Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("c", "UINT8", enum="colours"), Attr("y", "INT16", nullable=True, enum="years")], sparse=True, capacity=6, enums=enums)
    a = Array(path, **CONFIG).create(spec, 1000)
    a.write({"d": range(20), "c": [i % 5 for i in range(20)], "y": [None if i % 5 == 2 else i % 3 for i in range(20)]}, 1000)
    a.put_metadata(1000, title="secret", count=42)
    a.put_metadata(2000, share=0.25)


@case("encrypted_stacked", "filters of all kinds below the encryption, also on coordinates, offsets and validity", "dense", "encryption", "stacked", config=CONFIG, options=OPTIONS, rows=64)
def encrypted_stacked(path):
    attrs = [Attr("shuffled", "INT32", filters=["bitshuffle", "lz4", "sha256"]), Attr("reduced", "UINT64", filters=["bit_width", "bzip2"]), Attr("differences", "INT64", filters=["double_delta", "zstd"]),
             Attr("xor", "FLOAT64", filters=["xor", "byteshuffle", "gzip"]), Attr("twice", "UINT8", nullable=True, filters=["zstd", "gzip"]), Attr("none", "UINT16", filters=["none"]),
             Attr("text", "STRING_UTF8", VAR, nullable=True, filters=["md5", "bzip2"])]
    spec = Spec([Dim("y", "INT32", 0, 15, 5), Dim("x", "INT32", 0, 15, 5)], attrs, offsets_filters=["delta", "bitshuffle", "zstd"], validity_filters=["rle", "md5"])
    cells = range(64)
    Array(path, **CONFIG).create(spec, 1000).write({"shuffled": [i * 1000 for i in cells], "reduced": [2**40 + i for i in cells], "differences": [i * i - 7 for i in cells], "xor": [i / 8 for i in cells],
        "twice": [None if i % 9 == 0 else i for i in cells], "none": [i * 3 for i in cells], "text": [None if i % 8 == 3 else "é" * (i % 5) for i in cells]}, 1000, [(3, 10), (2, 9)])


@case("encrypted_commits", "consolidated commits, footers and metadata of an encrypted array; coordinates through filters of their own", "sparse", "encryption", "commits", config=CONFIG, options=OPTIONS, windows=[(0, 1000), (2000, 3000)], rows=30)
def encrypted_commits(path):
    dims = [Dim("x", "INT32", 0, 99, 10, filters=["delta", "zstd"]), Dim("y", "FLOAT32", 0, 9, 3)]
    a = Array(path, **CONFIG).create(Spec(dims, [Attr("a", "INT64", nullable=True)], sparse=True, capacity=4, coords_filters=["byteshuffle", "gzip"]), 1000)
    for k in (1, 2, 3):
        a.write({"x": [3 * i + k - 1 for i in range(10)], "y": [i % 9 for i in range(10)], "a": [None if i == k else i * k for i in range(10)]}, 1000 * k)
    a.put_metadata(1000, one=1)
    a.put_metadata(2000, two="2")
    for mode in ("commits", "fragment_meta", "array_meta"):
        a.consolidate(mode)
    a.vacuum("commits")
    a.vacuum("array_meta")


@case("encrypted_deletes", "delete conditions of an encrypted array, in files of their own and among the consolidated commits", "sparse", "encryption", "deletes", "commits", config=CONFIG, options=OPTIONS, windows=[(0, 1000), (0, 2000), (0, 3000)])
def encrypted_deletes(path):
    a = Array(path, **CONFIG).create(Spec([Dim("d", "INT32", 0, 99, 10)], [Attr("a", "INT32", nullable=True), Attr("s", "STRING_ASCII", VAR)], sparse=True, capacity=4), 1000)
    a.write({"d": range(20), "a": [None if i % 6 == 0 else i for i in range(20)], "s": [f"s{i % 3}" for i in range(20)]}, 1000)
    a.delete(2000, ("a", ">=", 15))
    a.delete(3000, ("and", ("s", "==", "s1"), ("d", "<", 10)))
    a.consolidate("commits")
    a.vacuum("commits")
    a.delete(4000, ("d", "==", 2))


@case("encrypted_evolved", "a schema evolved: libtiledb writes the new one in the clear and cannot read the array any more; the answers are those of the same array without encryption", "dense", "encryption", "evolution", options=OPTIONS, windows=[(0, 1000)], twin=True)
def encrypted_evolved(path, config=CONFIG):
    a = Array(path, **config).create(Spec([Dim("d", "INT32", 0, 19, 4)], [Attr("a", "INT32", filters=["zstd"]), Attr("s", "STRING_ASCII", VAR, filters=["rle"])]), 1000)
    a.write({"a": range(10), "s": [f"s{i // 3}" for i in range(10)]}, 1000, [(0, 9)])
    a.write({"a": range(10), "s": [f"t{i // 3}" for i in range(10)]}, 2000, [(5, 14)])
    a.evolve(3000, add=[Attr("n", "FLOAT64")])
