"""What libtiledb says about some golden arrays: schema, fragments, tiles, metadata. Writes `<name>.facts.json` beside them. See README.md.

    python facts.py            all of the arrays named below
    python facts.py --check    fail if a file would change

Values are text in the form of the table functions: numbers, dates in ISO 8601, opaque bytes in hexadecimal. The library tells no
statistics of tiles, so those of arrays with one fragment are computed from the cells it returns, cut into tiles in global order.
"""

import ctypes as C
import json
import math
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import numpy as np  # noqa: E402

from capi import FILTERS, LIB, READ, TYPE_NAMES, TYPES, VAR, ptr  # noqa: E402
from tdbarray import Array  # noqa: E402

ROOT = HERE.parents[1] / "unpacked" / "arrays"
FILTER_NAMES = {code: name for name, code in FILTERS.items()}
FILTER_NAMES.update({7: "bit_width_reduction", 12: "checksum_md5", 13: "checksum_sha256", 18: "webp"})
LAYOUT_NAMES = {0: "row-major", 1: "col-major", 4: "hilbert"}
DATE_UNITS = dict(zip("YEAR MONTH WEEK DAY HR MIN SEC MS US NS".split(), "Y M W D h m s ms us ns".split()))

# Arrays whose schema, fragments and metadata are told; with (True) those whose tiles are, too.
ARRAYS = {
    "capacity_one": True, "commits_consolidated": False, "commits_ignored": False, "commits_twice": False, "commits_vacuumed": False,
    "current_domain_dense": False, "current_domain_sparse": False, "dense_anonymous": False, "dense_consolidated": False,
    "dense_consolidated_kept": False, "dense_custom_fills": False, "dense_datetime": False, "dense_ragged": False,
    "dim_sparse_dates_coarse": True, "dim_sparse_everything": True, "dim_sparse_floats": True, "dim_sparse_uint64": True,
    "dimension_labels": False, "elevation": False, "enum_extended": False, "quickstart_dense": False, "quickstart_sparse": True,
    "ours_consolidated": False, "ours_consolidated_dense": False, "ours_dates": True, "ours_dense": False, "ours_domains": False,
    "ours_evolved": False, "ours_fills": False, "ours_filters": False, "ours_floats": False, "ours_integers": False, "ours_metadata": False,
    "ours_texts": False, "rtree_three_levels": True, "sparse_consolidated_kept": False, "sparse_consolidated_twice": False, "sparse_empty": False,
    "sparse_nullable": True, "stack_everything_once": False, "stack_float_scale_double_delta": False,
    "types_bytes_var_sparse": False, "types_dates_single_sparse": True, "types_floats_single_sparse": True,
    "types_integers_single_sparse": True, "types_text_var_sparse": True, "weather_stations": False,
}


def float_text(value, single=False):
    """The shortest text that reads back, as Rust writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    value = np.float32(value) if single else np.float64(value)
    if value and not 1e-4 <= abs(value) < 1e16:
        return np.format_float_scientific(value, trim="-", exp_digits=1).replace("e+", "e")
    return np.format_float_positional(value, trim="0")


def element_text(tdb_type, raw):
    value = np.frombuffer(raw, TYPES[tdb_type][2])[0]
    if tdb_type == "BOOL":
        return "true" if value else "false"
    if tdb_type.startswith("FLOAT"):
        return float_text(value, tdb_type == "FLOAT32")
    if not tdb_type.startswith(("DATETIME", "TIME")):
        return str(value)
    if value == np.iinfo("i8").min:
        return "NaT"
    kind, unit = tdb_type.split("_")
    if unit not in DATE_UNITS:
        return str(value)
    date = np.datetime64(int(value), DATE_UNITS[unit])
    if unit in ("WEEK", "HR", "MIN"):
        date = date.astype("M8[D]" if unit == "WEEK" else "M8[s]")
    if kind == "TIME":
        day = np.datetime64(0, "D") <= date < np.datetime64(1, "D")
        return str(date).split("T")[1] if day else str(value)
    return str(date) if 0 <= date.astype("M8[Y]").astype(int) + 1970 <= 9999 else str(value)


def text(tdb_type, raw):
    """One cell."""
    if tdb_type in ("BLOB", "GEOM_WKB", "ANY"):
        return raw.hex()
    if tdb_type.startswith(("STRING", "CHAR", "GEOM")):
        encoding = {2: "utf-16-le", 4: "utf-32-le"}.get(TYPES[tdb_type][1], "utf-8")
        return raw.decode(encoding, "backslashreplace")
    width = TYPES[tdb_type][1]
    elements = [element_text(tdb_type, raw[i:i + width]) for i in range(0, len(raw), width)]
    return elements[0] if len(elements) == 1 else f"[{', '.join(elements)}]"


class Facts:
    def __init__(self, path):
        self.array = Array(path)
        self.ctx, self.uri = self.array.ctx, self.array.uri

    def number(self, name, handle, ctype=C.c_uint64):
        out = ctype()
        self.ctx(name, handle, C.byref(out))
        return out.value

    def indexed(self, name, handle, index, ctype=C.c_uint64):
        out = ctype()
        self.ctx(name, handle, C.c_uint32(index), C.byref(out))
        return out.value

    def filters(self, fl):
        count, names = C.c_uint32(), []
        self.ctx("filter_list_get_nfilters", fl, C.byref(count))
        for i in range(count.value):
            f, code = self.ctx.new("filter_list_get_filter_from_index", fl, C.c_uint32(i)), C.c_int()
            self.ctx("filter_get_type", f, C.byref(code))
            name = FILTER_NAMES[code.value]
            option = lambda o, t: self._option(f, o, t)  # noqa: E731
            if name in ("gzip", "zstd", "bzip2") and option(0, C.c_int32) != -1:
                name += f"({option(0, C.c_int32)})"
            elif name == "bit_width_reduction" and option(1, C.c_uint32) != 256:
                name += f"({option(1, C.c_uint32)})"
            elif name == "positive_delta" and option(2, C.c_uint32) != 1024:
                name += f"({option(2, C.c_uint32)})"
            elif name == "float_scale":
                name += f"({float_text(option(4, C.c_double))}, {float_text(option(5, C.c_double))}, {option(3, C.c_uint64)})"
            elif name in ("delta", "double_delta") and TYPE_NAMES[option(9, C.c_uint8)] != "ANY":
                name += f"({TYPE_NAMES[option(9, C.c_uint8)]})"
            names.append(name)
        return ", ".join(names)

    def _option(self, f, option, ctype):
        out = ctype()
        self.ctx("filter_get_option", f, C.c_int(option), C.byref(out))
        return out.value

    # --- schema -----------------------------------------------------------------------------------------------------

    def schema(self, arr):
        ctx, schema = self.ctx, self.ctx.new("array_get_schema", arr)
        code = lambda name: self.number(name, schema, C.c_int)  # noqa: E731
        coords = self.filters(ctx.new("array_schema_get_coords_filter_list", schema))
        whole = {
            "array_type": ["dense", "sparse"][code("array_schema_get_array_type")],
            "cell_order": LAYOUT_NAMES[code("array_schema_get_cell_order")],
            "tile_order": LAYOUT_NAMES[code("array_schema_get_tile_order")],
            "capacity": str(self.number("array_schema_get_capacity", schema)),
            "allows_duplicates": ["false", "true"][code("array_schema_get_allows_dups")],
            "format_version": str(self.number("array_schema_get_version", schema, C.c_uint32)),
            "coords_filters": coords,
            "offsets_filters": self.filters(ctx.new("array_schema_get_offsets_filter_list", schema)),
            "validity_filters": self.filters(ctx.new("array_schema_get_validity_filter_list", schema)),
        }
        fields, domain, current = [], ctx.new("array_schema_get_domain", schema), self.current_domain(schema)
        names, _ = self.array.fields(arr)
        for i, (name, tdb_type, n, nullable, is_dim, enum) in enumerate(names):
            if is_dim:
                d = ctx.new("domain_get_dimension_from_index", domain, C.c_uint32(i))
                own = self.filters(ctx.new("dimension_get_filter_list", d))
                lo, hi, extent = self.domain(d, tdb_type)
                low, high = self.current_range(current, name, tdb_type) if current else (None, None)
                row = {"name": name or f"__dim_{i}", "role": "dimension", "domain_low": lo, "domain_high": hi, "extent": extent,
                       "current_domain_low": low, "current_domain_high": high, "fill_value": None, "filters": own or coords}
            else:
                a = ctx.new("array_schema_get_attribute_from_index", schema, C.c_uint32(i - self.dims(names)))
                row = {"name": name or "attr", "role": "attribute", "domain_low": None, "domain_high": None, "extent": None,
                       "current_domain_low": None, "current_domain_high": None, "fill_value": self.fill(a, tdb_type, nullable),
                       "filters": self.filters(ctx.new("attribute_get_filter_list", a))}
            row |= {"type": tdb_type, "cell_val_num": None if n == VAR else str(n), "nullable": str(nullable).lower(), "enumeration": enum}
            fields.append(row)
        return whole, fields

    @staticmethod
    def dims(names):
        return sum(f[4] for f in names)

    def domain(self, d, tdb_type):
        if tdb_type == "STRING_ASCII":
            return None, None, None
        width = TYPES[tdb_type][1]
        box, extent = C.c_void_p(), C.c_void_p()
        self.ctx("dimension_get_domain", d, C.byref(box))
        self.ctx("dimension_get_tile_extent", d, C.byref(extent))
        raw = C.string_at(box, 2 * width)
        steps = None
        if extent:
            raw_extent = C.string_at(extent, width)
            unsigned = str(int.from_bytes(raw_extent, "little"))
            steps = text(tdb_type, raw_extent) if tdb_type.startswith("FLOAT") else unsigned
        return text(tdb_type, raw[:width]), text(tdb_type, raw[width:]), steps

    def current_domain(self, schema):
        cd, empty = self.ctx.new("array_schema_get_current_domain", schema), C.c_uint32()
        self.ctx("current_domain_get_is_empty", cd, C.byref(empty))
        return None if empty.value else self.ctx.new("current_domain_get_ndrectangle", cd)

    def current_range(self, rectangle, name, tdb_type):
        from capi import Range
        r = Range()
        self.ctx("ndrectangle_get_range_from_name", rectangle, name.encode(), C.byref(r))
        return text(tdb_type, C.string_at(r.lo, r.lo_size)), text(tdb_type, C.string_at(r.hi, r.hi_size))

    def fill(self, a, tdb_type, nullable):
        value, size, valid = C.c_void_p(), C.c_uint64(), C.c_uint8(1)
        if nullable:
            self.ctx("attribute_get_fill_value_nullable", a, C.byref(value), C.byref(size), C.byref(valid))
        else:
            self.ctx("attribute_get_fill_value", a, C.byref(value), C.byref(size))
        return text(tdb_type, C.string_at(value, size.value)) if valid.value else None

    # --- metadata ---------------------------------------------------------------------------------------------------

    def metadata(self, start=None, end=None):
        arr, out = self.array.open(READ, start, end), []
        for i in range(self.number("array_get_metadata_num", arr)):
            key, length, code, num, value = C.c_void_p(), C.c_uint32(), C.c_int(), C.c_uint32(), C.c_void_p()
            self.ctx("array_get_metadata_from_index", arr, C.c_uint64(i), C.byref(key), C.byref(length), C.byref(code), C.byref(num), C.byref(value))
            tdb_type = TYPE_NAMES[code.value]
            count = num.value if value else 0  # libtiledb tells an empty value as one element at no address
            raw = C.string_at(value, count * TYPES[tdb_type][1]) if count else b""
            key = C.string_at(key, length.value)
            out.append({"key": key, "type": tdb_type, "count": str(count), "value": text(tdb_type, raw), "bytes": raw.hex()})
        self.array.close(arr)
        out.sort(key=lambda e: e["key"])
        return [e | {"key": e["key"].decode("utf-8", "backslashreplace")} for e in out]

    # --- fragments --------------------------------------------------------------------------------------------------

    def fragments(self, dims):
        ctx, info = self.ctx, self.ctx.new("fragment_info_alloc", self.uri)
        ctx("fragment_info_load", info)
        out = []
        for f in range(self.number("fragment_info_get_fragment_num", info, C.c_uint32)):
            start, end = C.c_uint64(), C.c_uint64()
            ctx("fragment_info_get_timestamp_range", info, C.c_uint32(f), C.byref(start), C.byref(end))
            name, schema = C.c_void_p(), C.c_char_p()
            ctx("fragment_info_get_fragment_name_v2", info, C.c_uint32(f), C.byref(name))
            ctx("fragment_info_get_array_schema_name", info, C.c_uint32(f), C.byref(schema))
            dense = self.indexed("fragment_info_get_dense", info, f, C.c_int32)
            box = [self.range(info, "non_empty_domain", f, i, d) for i, d in enumerate(dims)]
            fragment = {"fragment": self.array._string(name).rsplit("/", 1)[-1], "t1": str(start.value), "t2": str(end.value),
                        "format_version": str(self.indexed("fragment_info_get_version", info, f, C.c_uint32)),
                        "dense": "true" if dense else "false", "bytes": str(self.indexed("fragment_info_get_fragment_size", info, f)),
                        "schema": schema.value.decode(), "non_empty_domain": box}
            if not dense:
                fragment["cells"] = str(self.indexed("fragment_info_get_cell_num", info, f))
                count = self.indexed("fragment_info_get_mbr_num", info, f)
                fragment["mbrs"] = [[self.range(info, "mbr", f, i, d, m) for i, d in enumerate(dims)] for m in range(count)]
            out.append(fragment)
        replaced = []
        for i in range(self.number("fragment_info_get_to_vacuum_num", info, C.c_uint32)):
            uri = C.c_char_p()
            ctx("fragment_info_get_to_vacuum_uri", info, C.c_uint32(i), C.byref(uri))
            replaced.append(uri.value.decode().rstrip("/").rsplit("/", 1)[-1])
        return out, sorted(replaced)

    def range(self, info, what, fragment, index, dim, *mbr):
        name, tdb_type = dim
        at = [C.c_uint32(fragment), *[C.c_uint32(m) for m in mbr], C.c_uint32(index)]
        if tdb_type == "STRING_ASCII":
            a, b = C.c_uint64(), C.c_uint64()
            self.ctx(f"fragment_info_get_{what}_var_size_from_index", info, *at, C.byref(a), C.byref(b))
            lo, hi = np.zeros(a.value + 1, "u1"), np.zeros(b.value + 1, "u1")
            self.ctx(f"fragment_info_get_{what}_var_from_index", info, *at, ptr(lo), ptr(hi))
            lo, hi = lo.tobytes()[:a.value], hi.tobytes()[:b.value]
        else:
            box = np.zeros(2, TYPES[tdb_type][2])
            self.ctx(f"fragment_info_get_{what}_from_index", info, *at, ptr(box))
            lo, hi = box[:1].tobytes(), box[1:].tobytes()
        return [name, text(tdb_type, lo), text(tdb_type, hi)]

    # --- tiles ------------------------------------------------------------------------------------------------------

    def tiles(self, capacity):
        """Per tile and attribute: cells, min, max, sum, null count, of a sparse array with one fragment."""
        fields, sparse, rows, _ = self.array.read(layout="global")
        assert sparse
        out = []
        for tile, start in enumerate(range(0, len(rows), capacity)):
            cells = rows[start:start + capacity]
            for i, (name, tdb_type, n, nullable, is_dim, _) in enumerate(fields):
                values = [row[i] for row in cells]
                row = {"tile": str(tile), "field": name, "cells": str(len(cells)),
                       "null_count": null_count(tdb_type, n, values) if nullable else None}
                row |= statistics(tdb_type, n, is_dim, [v for v in values if v is not None])
                out.append(row)
        return out


def null_count(tdb_type, n, values):
    """Of variable-sized fields libtiledb counts the nulls only where it computes a minimum; elsewhere it stores 0."""
    counted = n != VAR or tdb_type in ("CHAR", "STRING_ASCII")
    return str(sum(v is None for v in values) if counted else 0)


def is_number(tdb_type):
    return not tdb_type.startswith(("STRING", "GEOM", "BLOB", "ANY"))


def statistics(tdb_type, n, is_dim, values):
    text_like = tdb_type in ("CHAR", "STRING_ASCII")
    ordered = text_like or (n == 1 and is_number(tdb_type))
    summed = n == 1 and is_number(tdb_type)
    row = {"min": None, "max": None, "sum": None}
    if not (ordered or summed):
        return row
    if not values:
        return row | {"unknown": "true"}
    if any(b"\0" in v for v in values) and text_like:
        return row | {"unknown": "true"}
    key = (lambda raw: raw) if text_like else (lambda raw: np.frombuffer(raw, TYPES[tdb_type][2])[0])
    keys = [key(v) for v in values]
    if tdb_type.startswith("FLOAT") and any(np.isnan(k) for k in keys):
        return row | {"unknown": "true"}
    if ordered and not is_dim:
        row |= {"min": text(tdb_type, min(values, key=key)), "max": text(tdb_type, max(values, key=key))}
    if summed and tdb_type != "CHAR":
        row["sum"] = total(tdb_type, keys)
    elif summed:
        row["sum"] = str(sum(int(np.frombuffer(v, "i1")[0]) for v in values))
    return row


def total(tdb_type, keys):
    """Sums stop at the limits of their type."""
    if tdb_type.startswith("FLOAT"):
        sum_ = 0.0
        for k in keys:
            sum_ += float(k)
        limit = np.finfo("f8").max
        return float_text(max(-limit, min(limit, sum_)))
    low, high = (0, 2**64 - 1) if tdb_type.startswith(("UINT", "BOOL")) else (-2**63, 2**63 - 1)
    sum_ = 0
    for k in keys:
        sum_ += int(k)
        if not low <= sum_ <= high:
            return str(low if sum_ < low else high)
    return str(sum_)


def facts_of(name):
    path = ROOT / name
    facts = Facts(path)
    arr = facts.array.open(READ)
    whole, fields = facts.schema(arr)
    facts.array.close(arr)
    dims = [(f["name"], f["type"]) for f in fields if f["role"] == "dimension"]
    fragments, replaced = facts.fragments(dims)
    out = {"array": whole, "fields": fields, "fragments": fragments, "replaced": replaced, "metadata": {"": facts.metadata()}}
    for start, end in WINDOWS.get(name, []):
        out["metadata"][f"{start}-{end}"] = facts.metadata(start, end)
    if ARRAYS.get(name):
        assert len(fragments) == 1
        out["tiles"] = facts.tiles(int(whole["capacity"]))
    return out


# Arrays whose metadata is of interest, and the windows of time at which it is told, too.
METADATA_ONLY = ["metadata", "metadata_consolidated", "metadata_history", "metadata_types"]
WINDOWS = {"metadata": [(0, 1000)], "metadata_consolidated": [(0, 2000), (0, 3000), (4000, 4000)],
           "metadata_history": [(0, 1000), (0, 2000), (0, 3000), (2000, 3000), (0, 4000), (5000, 5000)]}


def main(args):
    changed = []
    for name in sorted([*ARRAYS, *METADATA_ONLY]):
        file = ROOT / f"{name}.facts.json"
        document = json.dumps(facts_of(name), ensure_ascii=True, indent=None, separators=(",", ":")) + "\n"
        if not file.exists() or file.read_text() != document:
            changed.append(name)
            if args != ["--check"]:
                file.write_text(document)
    print(f"{len(ARRAYS) + len(METADATA_ONLY)} arrays, changed: {changed}")
    return 1 if changed and args == ["--check"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
