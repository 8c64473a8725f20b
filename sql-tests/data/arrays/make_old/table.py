"""Writes docs/format-support.md: for each format version and feature, the golden arrays that prove it. `sql-tests/house/support_table.rs` checks it."""

import json
import pathlib

ARRAYS = pathlib.Path(__file__).resolve().parent.parent
PAGE = ARRAYS.parents[2] / "docs" / "format-support.md"

# Theme -> [(column, words of the manifest of which an array must have one, first version, last version)]
THEMES = {
    "Arrays": [("dense", ["dense"], 1, 23), ("sparse", ["sparse"], 1, 23), ("orders", ["orders"], 1, 23), ("Hilbert order", ["hilbert"], 7, 23),
               ("overlapping fragments", ["overlap", "dedup"], 1, 23), ("duplicates", ["duplicates"], 5, 23), ("types of dimensions", ["dimension_type"], 1, 23),
               ("text dimensions", ["string_dim"], 5, 23), ("sparse in dense", ["sparse_in_dense"], 1, 10), ("names", ["names"], 1, 23)],
    "Attributes": [("datatypes", ["types"], 1, 23), ("var-sized", ["var"], 1, 23), ("nullable", ["nullable"], 7, 23), ("fill values", ["fill"], 1, 23),
                   ("enumerations", ["enumeration"], 20, 23), ("dimension labels", ["dimension_labels"], 18, 23), ("current domain", ["current_domain"], 22, 23)],
    "Filters": [("on attributes", ["filters"], 1, 23), ("on offsets", ["offsets"], 1, 23), ("on coordinates", ["coords"], 1, 23), ("on validity", ["validity"], 11, 23),
                ("text by runs, dictionary", ["strings", "dictionary", "rle"], 1, 23), ("several chunks", ["chunks"], 1, 23), ("encryption", ["encryption"], 1, 23),
                ("bitsort", ["bitsort"], 16, 17)],
    "History": [("consolidated", ["consolidated"], 1, 23), ("not vacuumed", ["vac"], 5, 23), ("with timestamps", ["timestamps"], 15, 23), ("metadata of fragments merged", ["fragment_meta"], 5, 23),
                ("commits merged", ["con"], 12, 23), ("array metadata", ["array_metadata"], 4, 23), ("evolution", ["evolution"], 1, 23), ("written on by a newer release", ["mixed_versions"], 1, 21),
                ("deletes", ["deletes"], 16, 23), ("leftovers", ["leftovers"], 1, 23)],
}
HEAD = """# What is read, by format version

This crate reads every array that libtiledb ever wrote: format versions 1 (libtiledb 1.4, 2018) to 23 (not released yet). For each version and
feature, the tables name golden arrays that prove it. The libtiledb of that version wrote these arrays, and the answers come from libtiledb 2.30.
`cargo test --test sql-tests -- golden::answers` compares them with the answers of this crate at several windows of time.

In the row of format 5, `dense_2d` is the array `v05_dense_2d` of `sql-tests/data/arrays/old/old.tar.zst`. In the row of format 22, names are those of
`sql-tests/data/arrays/arrays.tar.zst`. Each entry names at most two arrays, often out of many. A dash means that the version doesn't have the
feature. *as 16* means that nothing about the feature changed since version 16 (or the neighbour that is named), and that no array of this version
proves it again. The words in brackets after a feature mark its arrays in the manifests.

Only libtiledb 2.13 and 2.14 had the *bitsort* filter (filter 17), which lost part of the data that it wrote. It lost the coordinates of tiles with
more than 64 KiB of values, and of tiles where bitsort comes after filters that change the size of their input. For cells that share their
coordinates, it lost which value belongs to which value of other attributes. A query that needs such cells returns an error, but libtiledb 2.14
returns other values for them. Everything that the filter didn't touch can be read.

`make_arrays/README.md` and `make_old/README.md` in `sql-tests/data/arrays/` describe how the arrays are made. The arrays of format 1 are made from
arrays of format 2, and those of format 23 from arrays of format 22, as their specifications describe.

`cargo test --test sql-tests -- support_table` checks this page against the arrays. `sql-tests/data/arrays/make_old/table.py` writes the page.
"""


def arrays():
    """version -> [(name in the table, words)], the plainest first."""
    found = {v: [] for v in range(1, 24)}
    for e in json.loads((ARRAYS / "manifest.json").read_text()):
        if "error" not in e:
            found[22].append((e["name"], e["features"]))
    for e in json.loads((ARRAYS / "old" / "manifest.json").read_text()):
        version, name = e["name"][1:].split("_", 1)
        if "error" not in e:
            words = e["features"]
            found[int(version)].append((name, ["bitsort"] if "bitsort" in words else words))  # proves nothing but that
    return {v: sorted(a, key=lambda x: (len(x[1]), x[0])) for v, a in found.items()}


def cell(found, version, words, first, last):
    if not first <= version <= last:
        return "—"
    proven = [(name, features) for name, features in found[version] if set(features) & set(words)]
    # What needs deletes or a key proves nothing else, if there is something plainer.
    plain = [name for name, features in proven if not set(features) & ({"deletes", "encryption"} - set(words))]
    proven = plain or [name for name, _ in proven]
    if proven:
        # The plainest ones, those named for the feature before others.
        proven.sort(key=lambda n: not any(w in n for w in words))
        return ", ".join(f"`{n}`" for n in proven[:2])
    for other in [*range(version - 1, first - 1, -1), *range(version + 1, last + 1)]:
        if any(set(features) & set(words) for _, features in found[other]):
            return f"as {other}"
    raise SystemExit(f"nothing proves {words} in format {version}")


def main():
    found, out = arrays(), [HEAD]
    for theme, columns in THEMES.items():
        out.append(f"\n## {theme}\n")
        out.append("| Format | " + " | ".join(f"{title} ({', '.join(f'`{w}`' for w in words)})" for title, words, *_ in columns) + " |")
        out.append("|---" * (len(columns) + 1) + "|")
        for v in range(1, 24):
            out.append(f"| {v} | " + " | ".join(cell(found, v, *c[1:]) for c in columns) + " |")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
