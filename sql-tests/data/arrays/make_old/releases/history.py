"""What happens to arrays over time: consolidation, vacuum, leftovers, metadata, evolution, deletes, appends by newer libraries."""


from releases import BUNDLED, each, theirs
from releases.basics import ALL, SOME, ints, text
from tdbarray import VAR, Attr, Dim, Enum, Label, Spec

WINDOWS = [(0, 1000), (2000, 2000), (2000, 3000)]


def dense_parts(a, parts):
    for ts, lo, hi in parts:
        n = hi - lo + 1
        a.write({"a": ints(n, ts // 1000), "s": text(n, ts // 1000)}, ts, box=[(lo, hi)])


def line(sparse=False, **more):
    return Spec([Dim("x", "INT32", 1, 40, 6)], [Attr("a", "INT32"), Attr("s", "STRING_ASCII", VAR)], sparse=sparse, capacity=5, **more)


def number():
    return Spec([Dim("x", "INT32", 1, 40, 6)], [Attr("a", "INT32")], sparse=True, capacity=5)


def numbers(a, ts, xs):
    return a.write({"x": xs, "a": ints(len(xs), ts // 1000)}, ts)


def cells(a, ts, xs):
    a.write({"x": xs, "a": ints(len(xs), ts // 1000), "s": text(len(xs), ts // 1000)}, ts)


@each("consolidated_dense", SOME, "dense fragments consolidated (the inputs gone at once before 5, else vacuumed)", "dense", "consolidated", windows=WINDOWS)
def consolidated_dense(v):
    def build(a):
        a.create(line())
        dense_parts(a, [(1000, 1, 12), (2000, 7, 24), (3000, 13, 18)])
        a.consolidate()
        if v >= 5:
            a.vacuum()
        dense_parts(a, [(4000, 14, 18)])

    return build


@each("consolidated_sparse", SOME, "sparse fragments consolidated (the inputs gone at once before 5, else vacuumed)", "sparse", "consolidated", windows=WINDOWS)
def consolidated_sparse(v):
    def build(a):
        a.create(line(True))
        cells(a, 1000, list(range(1, 14)))
        cells(a, 2000, list(range(8, 22, 2)))
        cells(a, 3000, [4, 5, 6, 33])
        a.consolidate()
        if v >= 5:
            a.vacuum()
        cells(a, 4000, [5, 7, 35])

    return build


@each("kept_dense", [v for v in SOME if v >= 5], "dense fragments consolidated, not vacuumed: the .vac file (absolute names before 19) hides them", "dense", "consolidated", "vac", windows=WINDOWS)
def kept_dense(v):
    def build(a):
        a.create(line())
        dense_parts(a, [(1000, 2, 15), (2000, 8, 22), (3000, 5, 8)])
        a.consolidate()

    return build


@each("kept_sparse", range(5, 22), "sparse fragments consolidated, not vacuumed, twice over", "sparse", "consolidated", "vac", windows=[*WINDOWS, (4000, 4000)])
def kept_sparse(v):
    def build(a):
        a.create(number())
        numbers(a, 1000, list(range(1, 14)))
        numbers(a, 2000, list(range(8, 22, 2)))
        a.consolidate()
        numbers(a, 4000, [5, 7, 35])
        a.consolidate()

    return build


@each("kept_dups", [5, 9, 15, 21], "the same with duplicates allowed", "sparse", "consolidated", "vac", "duplicates", windows=WINDOWS)
def kept_dups(v):
    def build(a):
        a.create(line(True, dups=True))
        cells(a, 1000, list(range(1, 12)))
        cells(a, 2000, list(range(5, 20, 2)))
        a.consolidate()
        cells(a, 3000, [4, 5, 6, 33])

    return build


@each("with_timestamps", range(15, 22), "consolidated with the time of each cell: history answers after the vacuum", "sparse", "consolidated", "timestamps", windows=WINDOWS)
def with_timestamps(v):
    def build(a):
        a.create(number())
        numbers(a, 1000, list(range(1, 14)))
        numbers(a, 2000, list(range(8, 22, 2)))
        numbers(a, 3000, [4, 5, 6, 33])
        a.consolidate(with_timestamps="true")
        a.vacuum()

    return build


@each("metadata_merged", [v for v in SOME if v >= 5], "fragment metadata consolidated into one .meta file, and a newer fragment", "sparse", "fragment_meta", windows=WINDOWS)
def metadata_merged(v):
    def build(a):
        a.create(number())
        numbers(a, 1000, list(range(1, 14)))
        numbers(a, 2000, list(range(8, 22, 2)))
        a.consolidate("fragment_meta")
        numbers(a, 3000, [4, 5, 6, 33])

    return build


@each("commits_merged", range(12, 22), "commits consolidated into a .con file, the files vacuumed, a newer fragment", "sparse", "con", "commits", windows=WINDOWS)
def commits_merged(v):
    def build(a):
        a.create(number())
        numbers(a, 1000, list(range(1, 14)))
        numbers(a, 2000, list(range(8, 22, 2)))
        a.consolidate("commits")
        a.vacuum("commits")
        numbers(a, 3000, [4, 5, 6, 33])

    return build


@each("array_metadata", [v for v in SOME if v >= 4], "array metadata of several types, overwritten, (5+) consolidated", "dense", "array_metadata", windows=[(0, 1000)])
def array_metadata(v):
    def build(a):
        a.create(line())
        dense_parts(a, [(1000, 2, 6)])
        a.put_metadata(1000, title="first", version=1, scale=0.5)
        a.put_metadata(2000, title="second", more=7)
        if v >= 5:
            a.consolidate("array_meta")
        a.put_metadata(3000, last="größe")

    return build


@each("leftovers", SOME, "a write that never finished, stray files and folders", "sparse", "leftovers", windows=[(0, 1000)])
def leftovers(v):
    def build(a):
        a.create(number())
        numbers(a, 1000, list(range(1, 14)))
        numbers(a, 2000, list(range(8, 22, 2)))
        (name,) = numbers(a, 3000, [4, 5, 6, 33])
        if v <= 4:
            (a.path / name / "__fragment_metadata.tdb").unlink()
        elif v <= 11:
            (a.path / f"{name}.ok").unlink()
        else:
            (a.path / "__commits" / f"{name}.wrt").unlink()
        (a.path / "data.bin").write_bytes(bytes(10))
        (a.path / "my_notes").mkdir()
        (a.path / "my_notes" / "todo.md").write_text("not part of the array\n")

    return build


def blank(n):
    return {"a": [-i - 1 for i in range(n)], "s": [f"sparse {i}" for i in range(n)]}


# No dense fragment lies over an older sparse cell: there libtiledb contradicts itself. From 1.6 to 2.30, a read of the whole array shows the sparse cell
# and a read of that cell alone the newer dense one, which is what the format says and what we show.
@each("sparse_in_dense", range(1, 11), "sparse fragments in a dense array, among overlapping dense ones", "dense", "sparse_in_dense", windows=[(0, 2000), (2000, 3000), (2000, 5000), (3000, 4000)])
def sparse_in_dense(v):
    def build(a):
        a.create(Spec([Dim("y", "INT32", 1, 8, 3), Dim("x", "INT32", 1, 9, 4)], [Attr("a", "INT32"), Attr("s", "STRING_ASCII", VAR)], capacity=4))
        a.write({"a": ints(42, 1), "s": text(42, 1)}, 1000, box=[(1, 6), (2, 8)])
        a.write({"y": [1, 2, 3, 4, 5, 6, 6], "x": [2, 2, 5, 8, 4, 3, 6], **blank(7)}, 2000, sparse=True)
        a.write({"a": ints(8, 3), "s": text(8, 3)}, 3000, box=[(2, 3), (6, 9)])
        a.write({"y": [5, 1, 8, 3], "x": [4, 2, 9, 3], **blank(4)}, 4000, sparse=True)
        a.write({"a": ints(4, 5), "s": text(4, 5)}, 5000, box=[(5, 6), (7, 8)])

    return build


@each("only_sparse_in_dense", range(1, 11), "a sparse fragment alone in a dense array", "dense", "sparse_in_dense")
def only_sparse_in_dense(v):
    def build(a):
        a.create(Spec([Dim("y", "INT32", 1, 8, 3), Dim("x", "INT32", 1, 9, 4)], [Attr("a", "INT32"), Attr("s", "STRING_ASCII", VAR)], capacity=4))
        a.write({"y": [2, 2, 3, 4, 5, 6, 6], "x": [2, 3, 5, 8, 4, 3, 6], **blank(7)}, 2000, sparse=True)

    return build


@each("appended", SOME, "written on by libtiledb 2.30", "sparse", "mixed_versions", windows=[(2000, 3000)])
def appended(v):
    def build(a):
        a.create(line(True))
        cells(a, 1000, list(range(1, 14)))
        cells(a, 2000, list(range(8, 22, 2)))

    def append(a):
        a.spec = line(True)
        cells(a, 3000, [4, 5, 6, 33])

    return [(v, build), (BUNDLED, append)]


@each("consolidated_by_newest", [v for v in SOME if v < 7], "consolidated by libtiledb 2.30: before 5 the filters of coordinates run over the times of cells, too", "sparse", "consolidated", "timestamps", "coords", windows=WINDOWS)
def consolidated_by_newest(v):
    def spec():
        return Spec([Dim("x", "INT16", 1, 40, 6)], [Attr("a", "INT32")], sparse=True, capacity=20, coords_filters=["bitshuffle", "byteshuffle"])

    def build(a):
        a.create(spec())
        numbers(a, 1000, list(range(1, 17)))
        numbers(a, 2000, list(range(8, 24)))

    def consolidate(a):
        a.spec = spec()
        numbers(a, 3000, [4, 5, 6, 33])
        a.consolidate()
        a.vacuum()

    return [(v, build), (BUNDLED, consolidate)]


@each("appended_dense", SOME, "a dense array written on by libtiledb 2.30", "dense", "mixed_versions", windows=[(2000, 3000)])
def appended_dense(v):
    def build(a):
        a.create(line())
        dense_parts(a, [(1000, 2, 15), (2000, 8, 22)])

    def append(a):
        a.spec = line()
        dense_parts(a, [(3000, 5, 12)])

    return [(v, build), (BUNDLED, append)]


def unreadable(v):
    """Whose evolved arrays libtiledb 2.30 cannot open: it takes their footers by the newest schema. Another version's answer is right."""
    return 10 if 3 <= v <= 9 else None


@each("upgraded", range(1, 22), "evolved by libtiledb 2.30 (an attribute added, one dropped) and written on", "sparse", "mixed_versions", "evolution", windows=[(0, 1000), (0, 2000)], same_as=unreadable)
def upgraded(v):
    def build(a):
        a.create(line(True))
        cells(a, 1000, list(range(1, 14)))

    def evolve(a):
        a.spec = line(True)
        a.evolve(2000, add=[Attr("n", "INT16", nullable=True), Attr("t", "STRING_UTF8", VAR, fill="leer".encode())], drop=["s"])
        a.settle()
        a.write({"x": [4, 5, 6, 33], "a": [1, 2, 3, 4], "n": [None, 7, None, 9], "t": ["", "ä", "b", "c"]}, 3000)

    return [(v, build), (BUNDLED, evolve)]


@each("upgraded_dense", SOME, "a dense array evolved by libtiledb 2.30 and written on", "dense", "mixed_versions", "evolution", windows=[(0, 1000)], same_as=unreadable)
def upgraded_dense(v):
    def build(a):
        a.create(line())
        dense_parts(a, [(1000, 2, 20)])

    def evolve(a):
        a.spec = line()
        a.evolve(2000, add=[Attr("n", "INT16", nullable=True)])
        a.settle()
        a.write({"a": [1, 2, 3, 4], "s": ["p", "o", "q", "r"], "n": [None, 7, None, 9]}, 3000, box=[(18, 21)])

    return [(v, build), (BUNDLED, evolve)]


@each("evolved", [v for v in SOME if v >= 10], "attributes added and dropped by the library of that version", "sparse", "evolution", windows=[(0, 1000), (3000, 4000)])
def evolved(v):
    def build(a):
        a.create(line(True))
        cells(a, 1000, list(range(1, 10)))
        evolve(a, 2000, add=[Attr("n", "INT16", nullable=True), Attr("u", "UINT8"), Attr("w", "STRING_ASCII", VAR)])
        a.write({"x": [4, 5, 33], "a": [1, 2, 3], "s": ["p", "q", "r"], "n": [None, 7, 8], "u": [1, 2, 3], "w": ["", "yy", "z"]}, 3000)
        evolve(a, 4000, drop=["s"])
        a.write({"x": [5, 6], "a": [10, 20], "n": [1, None], "u": [9, 8], "w": ["A", "B"]}, 5000)

    return build


def evolve(a, ts, add=(), drop=()):
    """Schema evolution without a timestamp (releases before 2.9 have none), renamed afterwards."""
    evo = a.ctx.new("array_schema_evolution_alloc")
    for f in add:
        a.ctx("array_schema_evolution_add_attribute", evo, a.attribute(f))
    for name in drop:
        a.ctx("array_schema_evolution_drop_attribute", evo, name.encode())
    a.ctx("array_evolve", a.uri, evo)
    a.settle(ts)
    a.spec.attrs = [f for f in a.spec.attrs if f.name not in drop] + list(add)


@each("deletes", range(16, 22), "delete conditions before, between and after writes", "sparse", "deletes", windows=[(0, 1500), (0, 2500), (2000, 4000)])
def deletes(v):
    def build(a):
        a.create(line(True))
        cells(a, 1000, list(range(1, 14)))
        delete(a, 1500, ("a", "<", -500))
        cells(a, 2000, list(range(8, 22, 2)))
        delete(a, 3000, ("and", ("a", ">", 0), ("s", "!=", "h")))

    return build


def delete(a, ts, condition):
    a.delete(ts, condition)
    a.settle(ts)


@each("deletes_consolidated", range(16, 22), "deletes, then consolidation: deleted cells stay with their time", "sparse", "deletes", "consolidated", "timestamps", windows=[(0, 1000), (0, 1500), (2000, 4000)])
def deletes_consolidated(v):
    def build(a):
        a.create(line(True))
        cells(a, 1000, list(range(1, 14)))
        delete(a, 1500, ("a", "<", -500))
        cells(a, 2000, list(range(8, 22, 2)))
        a.consolidate()
        a.vacuum()
        delete(a, 3000, ("a", ">", 600))

    return build


@each("enumerations", range(20, 22), "enumerations of text and numbers", "dense", "enumeration")
def enumerations(v):
    def build(a):
        enums = [Enum("colour", "STRING_UTF8", ["rot", "grün", "blau"]), Enum("size", "INT64", [10, 20, 400], ordered=True, n=1)]
        a.create(Spec([Dim("x", "INT32", 1, 12, 5)], [Attr("c", "INT8", enum="colour"), Attr("z", "UINT16", enum="size", nullable=True)], enums=enums))
        a.write({"c": [i % 3 for i in range(12)], "z": [None if i % 4 == 3 else i % 3 for i in range(12)]}, 1000, box=[(1, 12)])

    return build


@each("labels", range(18, 22), "dimension labels on a dense array", "dense", "dimension_labels")
def labels(v):
    def build(a):
        a.create(Spec([Dim("d", "INT32", 1, 10, 4)], [Attr("a", "INT32")], labels=[Label("depth", 0, "FLOAT64"), Label("rank", 0, "INT32", "decreasing")]))
        a.write({"a": range(10)}, 1000, box=[(1, 10)])

    return build


RESERVED = "!#$%&'()*+,:;=?@[]<>|\"\\"


@each("names", SOME, "names with spaces, punctuation and other letters (percent-encoded in 8)", "sparse", "names")
def names(v):
    def build(a):
        dims = [Dim("di m", "INT32", 1, 20, 4), Dim("größe", "INT32", 1, 20, 4)]
        attrs = [Attr(n, "INT32" if i % 2 else "STRING_ASCII", 1 if i % 2 else VAR) for i, n in enumerate(["a b", "größe²", "100%", "%41", f"q{RESERVED}", "x.tdb", "x_var", "日本"] + (["a/b", "../c"] if v >= 8 else []))]
        a.create(Spec(dims, attrs, sparse=True, capacity=4))
        n = 6
        a.write({"di m": list(range(1, 1 + n)), "größe": list(range(10, 10 + n)), **{f.name: ints(n, i) if f.n == 1 else text(n, i) for i, f in enumerate(attrs)}}, 1000)

    return build


KEY = "0123456789abcdeF0123456789abcdeF"
ENCRYPTION = {"config": {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": KEY}, "options": {"tiledb.encryption_key": KEY}}


@each("encrypted", ALL[1:], "AES-256-GCM", "sparse", "encryption", **ENCRYPTION)
def encrypted(v):
    def build(a):
        a = a.with_key(KEY)
        a.create(line(True))
        cells(a, 1000, list(range(1, 14)))

    return build




theirs("v01_non_split_coords", "written by libtiledb 1.4.0: coordinates without compressor are not split", "sparse", "coords")
theirs("v10_zero_var_chunks", "a var-sized tile of no chunks: the empty text as a coordinate", "sparse", "string_dim", "empty")
