"""AES-256-GCM: arrays that need a key. The key stands in the manifest; it protects nothing."""

from cases import case
from capi import VAR
from tdbarray import Array, Attr, Dim, Spec

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
