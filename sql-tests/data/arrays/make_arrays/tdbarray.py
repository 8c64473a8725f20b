"""An array as the cases describe it: create, write, evolve, consolidate – and read everything back as raw cells."""

import ctypes as C
from dataclasses import dataclass, field

import numpy as np

from capi import DELETE, FILTERS, LAYOUTS, LIB, OPTIONS, READ, TYPE_NAMES, TYPES, UPDATE, VAR, WRITE, Ctx, Range, make_config, ptr, raw


@dataclass
class Dim:
    """A dimension; `STRING_ASCII` has neither domain nor extent. `filters=None` leaves libtiledb's default."""

    name: str
    type: str
    lo: object = None
    hi: object = None
    extent: object = None
    filters: list = None
    cell_val_num: int = 1

    def __post_init__(self):
        if self.type == "STRING_ASCII":
            self.cell_val_num = VAR


@dataclass
class Attr:
    """An attribute; `n` is the number of values per cell or `VAR`."""

    name: str
    type: str
    n: int = 1
    nullable: bool = False
    filters: list = None
    fill: bytes = None
    fill_valid: int = 0
    enum: str = None


@dataclass
class Enum:
    """An enumeration: values as Python strings, bytes or numbers; `n` as for attributes."""

    name: str
    type: str
    values: list
    ordered: bool = False
    n: int = VAR


@dataclass
class Label:
    name: str
    dim: int
    type: str
    order: str = "increasing"


def element(tdb_type, value):
    """One value of a numeric type as a one-element numpy array of its raw form."""
    return np.array([value], dtype=TYPES[tdb_type][2])


def to_bytes(tdb_type, value):
    """A cell given as text, bytes, number or sequence, as the bytes libtiledb stores."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        wide = {2: "utf-16-le", 4: "utf-32-le"}
        return value.encode(wide.get(TYPES[tdb_type][1], "utf-8"))
    return np.ascontiguousarray(value, dtype=TYPES[tdb_type][2]).tobytes()


@dataclass
class Spec:
    """Everything the schema of an array says."""

    dims: list
    attrs: list
    sparse: bool = False
    cell_order: str = "row"
    tile_order: str = "row"
    capacity: int = 10000
    dups: bool = False
    coords_filters: list = None
    offsets_filters: list = None
    validity_filters: list = None
    enums: list = field(default_factory=list)
    current: dict = None
    labels: list = field(default_factory=list)


class Array:
    """An array on disk. Timestamps are given by the caller, always: nothing here depends on the clock."""

    def __init__(self, path, **config):
        self.uri, self.config, self.ctx, self.spec = str(path).encode(), config, Ctx(**config), None

    # --- schema -----------------------------------------------------------------------------------------------------

    def filter_list(self, filters):
        ctx, fl = self.ctx, self.ctx.new("filter_list_alloc")
        for item in filters:
            name, options = (item, {}) if isinstance(item, str) else item
            f = ctx.new("filter_alloc", C.c_int(FILTERS[name]))
            for key, value in options.items():
                code, ctype = OPTIONS[key]
                value = TYPES[value][0] if isinstance(value, str) else value
                ctx("filter_set_option", f, C.c_int(code), C.byref(ctype(value)))
            ctx("filter_list_add_filter", fl, f)
        return fl

    def _dimension(self, d):
        if d.type == "STRING_ASCII":
            dim = self.ctx.new("dimension_alloc", d.name.encode(), C.c_int(TYPES[d.type][0]), None, None)
        else:
            box = np.array([d.lo, d.hi], dtype=TYPES[d.type][2])
            ext = None if d.extent is None else element(d.type, d.extent)
            dim = self.ctx.new("dimension_alloc", d.name.encode(), C.c_int(TYPES[d.type][0]), ptr(box), ext if ext is None else ptr(ext))
        if d.cell_val_num == VAR:
            self.ctx("dimension_set_cell_val_num", dim, C.c_uint32(VAR))
        if d.filters is not None:
            self.ctx("dimension_set_filter_list", dim, self.filter_list(d.filters))
        return dim

    def attribute(self, a):
        ctx = self.ctx
        attr = ctx.new("attribute_alloc", a.name.encode(), C.c_int(TYPES[a.type][0]))
        if a.type != "ANY":  # always var-sized
            ctx("attribute_set_cell_val_num", attr, C.c_uint32(a.n))
        if a.nullable:
            ctx("attribute_set_nullable", attr, C.c_uint8(1))
        if a.filters is not None:
            ctx("attribute_set_filter_list", attr, self.filter_list(a.filters))
        if a.fill is not None:
            fill = raw(a.fill)
            if a.nullable:
                ctx("attribute_set_fill_value_nullable", attr, ptr(fill), C.c_uint64(len(fill)), C.c_uint8(a.fill_valid))
            else:
                ctx("attribute_set_fill_value", attr, ptr(fill), C.c_uint64(len(fill)))
        if a.enum:
            ctx("attribute_set_enumeration_name", attr, a.enum.encode())
        return attr

    def _enum_buffers(self, e):
        cells = [to_bytes(e.type, v) for v in e.values]
        data = raw(b"".join(cells))
        offsets = np.cumsum([0] + [len(c) for c in cells])[:-1].astype("<u8")
        if e.n != VAR:
            return data, ptr(data), len(data), None, None, 0
        return data, ptr(data), len(data), offsets, ptr(offsets), offsets.nbytes

    def _enumeration(self, e):
        keep, p, size, keep2, op, osize = self._enum_buffers(e)
        if not e.values:
            p, op, size, osize = None, None, 0, 0
        elif size == 0:
            p = None
        return self.ctx.new("enumeration_alloc", e.name.encode(), C.c_int(TYPES[e.type][0]), C.c_uint32(e.n), C.c_int(e.ordered),
                            p, C.c_uint64(size), op, C.c_uint64(osize))

    def _range(self, tdb_type, lo, hi):
        lo, hi = raw(to_bytes(tdb_type, lo)), raw(to_bytes(tdb_type, hi))
        return Range(ptr(lo).value, len(lo), ptr(hi).value, len(hi)), (lo, hi)

    def _current_domain(self, domain, dims, ranges):
        ctx = self.ctx
        rect, cd = ctx.new("ndrectangle_alloc", domain), ctx.new("current_domain_create")
        for d in dims:
            r, keep = self._range(d.type, *ranges[d.name])
            ctx("ndrectangle_set_range_for_name", rect, d.name.encode(), C.byref(r))
            del keep
        ctx("current_domain_set_ndrectangle", cd, rect)
        return cd

    def new_schema(self, spec, ts):
        schema = C.c_void_p()
        self.ctx("array_schema_alloc_at_timestamp", C.c_int(1 if spec.sparse else 0), C.c_uint64(ts), C.byref(schema))
        return schema

    def save(self, schema):
        self.ctx("array_create", self.uri, schema)

    def create(self, spec, ts):
        """Writes the schema with timestamp `ts`."""
        ctx, self.spec = self.ctx, spec
        schema = self.new_schema(spec, ts)
        domain = ctx.new("domain_alloc")
        for d in spec.dims:
            ctx("domain_add_dimension", domain, self._dimension(d))
        ctx("array_schema_set_domain", schema, domain)
        ctx("array_schema_set_capacity", schema, C.c_uint64(spec.capacity))
        ctx("array_schema_set_cell_order", schema, C.c_int(LAYOUTS[spec.cell_order]))
        ctx("array_schema_set_tile_order", schema, C.c_int(LAYOUTS[spec.tile_order]))
        if spec.dups:
            ctx("array_schema_set_allows_dups", schema, C.c_int(1))
        for which in ("coords", "offsets", "validity"):
            filters = getattr(spec, which + "_filters")
            if filters is not None:
                ctx(f"array_schema_set_{which}_filter_list", schema, self.filter_list(filters))
        for e in spec.enums:
            ctx("array_schema_add_enumeration", schema, self._enumeration(e))
        for a in spec.attrs:
            ctx("array_schema_add_attribute", schema, self.attribute(a))
        for label in spec.labels:
            order = {"unordered": 0, "increasing": 1, "decreasing": 2}[label.order]
            ctx("array_schema_add_dimension_label", schema, C.c_uint32(label.dim), label.name.encode(), C.c_int(order), C.c_int(TYPES[label.type][0]))
        if spec.current:
            ctx("array_schema_set_current_domain", schema, self._current_domain(domain, spec.dims, spec.current))
        self.save(schema)
        return self

    def evolve(self, ts, add=(), drop=(), extend=(), add_enums=(), current=None):
        """One schema evolution with timestamp `ts`."""
        ctx = self.ctx
        evo = ctx.new("array_schema_evolution_alloc")
        for e in add_enums:
            ctx("array_schema_evolution_add_enumeration", evo, self._enumeration(e))
        for a in add:
            ctx("array_schema_evolution_add_attribute", evo, self.attribute(a))
        for name in drop:
            ctx("array_schema_evolution_drop_attribute", evo, name.encode())
        for e in extend:  # e.values are the additional values
            keep, p, size, keep2, op, osize = self._enum_buffers(e)
            arr = self.open(READ)
            old = ctx.new("array_get_enumeration", arr, e.name.encode())
            new = ctx.new("enumeration_extend", old, p, C.c_uint64(size), op, C.c_uint64(osize))
            ctx("array_schema_evolution_extend_enumeration", evo, new)
            self.close(arr)
        if current:
            domain = ctx.new("array_schema_get_domain", ctx.new("array_schema_load", self.uri))
            cd = self._current_domain(domain, self.spec.dims, current)
            ctx("array_schema_evolution_expand_current_domain", evo, cd)
        ctx("array_schema_evolution_set_timestamp_range", evo, C.c_uint64(ts), C.c_uint64(ts))
        ctx("array_evolve", self.uri, evo)
        dropped = [a for a in self.spec.attrs if a.name not in drop]
        self.spec.attrs = dropped + list(add)

    # --- open, write, maintain --------------------------------------------------------------------------------------

    def open(self, mode, start=None, end=None):
        arr = self.ctx.new("array_alloc", self.uri)
        if start is not None:
            self.ctx("array_set_open_timestamp_start", arr, C.c_uint64(start))
        if end is not None:
            self.ctx("array_set_open_timestamp_end", arr, C.c_uint64(end))
        self.ctx("array_open", arr, C.c_int(mode))
        return arr

    def close(self, arr):
        self.ctx("array_close", arr)
        LIB.tiledb_array_free(C.byref(arr))

    def write(self, data, ts, box=None, layout=None):
        """One fragment. `data`: field name -> cells (`None` = null). `box`: the subarray of a dense write, [(lo, hi), …].

        Fixed cells come as a numpy array or as a list; var-sized cells as a list of text, bytes or sequences.
        """
        ctx, fields = self.ctx, {f.name: f for f in [*self.spec.dims, *self.spec.attrs]}
        arr = self.open(WRITE, end=ts)
        query = ctx.new("query_alloc", arr, C.c_int(WRITE))
        ctx("query_set_layout", query, C.c_int(LAYOUTS[layout or ("unordered" if self.spec.sparse else "row")]))
        keep = []
        if box is not None:
            sub = ctx.new("subarray_alloc", arr)
            for i, (lo, hi) in enumerate(box):
                r = [element(self.spec.dims[i].type, v) for v in (lo, hi)]
                ctx("subarray_add_range", sub, C.c_uint32(i), ptr(r[0]), ptr(r[1]), None)
            ctx("query_set_subarray_t", query, sub)
        for name, cells in data.items():
            keep.append(self._set_buffers(query, name, fields.get(name), cells))
        ctx("query_submit_and_finalize" if layout == "global" else "query_submit", query)
        if layout != "global":
            ctx("query_finalize", query)
        self.close(arr)
        del keep

    def _set_buffers(self, query, name, f, cells):
        buffers = self.buffers(f, cells)
        sizes = {kind: C.c_uint64(a.nbytes) for kind, a in buffers.items()}
        self.bind(query, name.encode(), buffers, sizes)
        return buffers, sizes

    def bind(self, query, key, buffers, sizes):
        """Hands a field's buffers to a query; they must live until it is finalized."""
        for kind, a in buffers.items():
            self.ctx(f"query_set_{kind}_buffer", query, key, ptr(a), C.byref(sizes[kind]))

    @staticmethod
    def buffers(f, cells):
        """A field's cells as the buffers of a write: `data`, and where it applies `offsets` and `validity`."""
        if f is None:  # a dimension label: fixed numbers or a list of strings
            var, tdb_type = isinstance(cells, list), "STRING_ASCII"
        else:
            var, tdb_type = (f.n if isinstance(f, Attr) else f.cell_val_num) == VAR, f.type
        out = {}
        if getattr(f, "nullable", False):
            out["validity"] = np.array([c is not None for c in cells], dtype="u1")
        if var:
            chunks = [b"" if c is None else to_bytes(tdb_type, c) for c in cells]
            out["offsets"] = np.cumsum([0] + [len(c) for c in chunks])[:-1].astype("<u8")
            out["data"] = np.frombuffer(b"".join(chunks) + b"\0", dtype="u1")[:-1]
            return out
        if not isinstance(cells, np.ndarray):
            if f is not None and (f.type.startswith(("STRING", "CHAR", "BLOB", "GEOM"))):
                width = f.n * TYPES[f.type][1]
                cells = np.frombuffer(b"".join(b"\0" * width if c is None else to_bytes(f.type, c) for c in cells), dtype="u1")
            else:
                blank = [0] * f.n if isinstance(f, Attr) and f.n > 1 else 0
                cells = np.array([blank if c is None else c for c in cells], dtype=TYPES[f.type][2])
        elif f is not None and cells.dtype != np.dtype(TYPES[f.type][2]):
            cells = cells.view(TYPES[f.type][2]) if cells.dtype.kind == "M" else cells.astype(TYPES[f.type][2])
        out["data"] = np.ascontiguousarray(cells)
        return out

    def delete(self, ts, condition):
        """DELETE WHERE: `(field, op, value)` or `("and" | "or", condition, condition)`."""
        arr = self.open(DELETE, end=ts)
        query, keep = self.ctx.new("query_alloc", arr, C.c_int(DELETE)), []
        self.ctx("query_set_condition", query, self._condition(condition, keep))
        self.ctx("query_submit", query)
        self.ctx("query_finalize", query)
        self.close(arr)

    def update(self, ts, condition, **values):
        """UPDATE SET … WHERE: experimental in libtiledb, needs the setting `sm.allow_updates_experimental`."""
        arr = self.open(UPDATE, end=ts)
        query, keep = self.ctx.new("query_alloc", arr, C.c_int(UPDATE)), []
        self.ctx("query_set_condition", query, self._condition(condition, keep))
        for name, value in values.items():
            f = next(f for f in self.spec.attrs if f.name == name)
            keep.append(raw(to_bytes(f.type, value if isinstance(value, str) else [value])))
            self.ctx("query_add_update_value", query, name.encode(), ptr(keep[-1]), C.c_uint64(len(keep[-1])))
        self.ctx("query_submit", query)
        self.ctx("query_finalize", query)
        self.close(arr)

    def _condition(self, condition, keep):
        """A leaf is `(field, op, value)`, `op` one of the six comparisons, `in` or `not in`. Enumerated fields are compared by
        label, with `("code", field, op, value)` by code; `None` as a value is a test for NULL."""
        name, *rest = condition
        if name in ("and", "or"):
            parts = [self._condition(c, keep) for c in rest]
            whole = parts[0]
            for part in parts[1:]:
                whole = self.ctx.new("query_condition_combine", whole, part, C.c_int(["and", "or"].index(name)))
            return whole
        by_code = name == "code"
        name, op, value = rest if by_code else condition
        f = next(f for f in [*self.spec.dims, *self.spec.attrs] if f.name == name)
        tdb_type = f.type
        if getattr(f, "enum", None) and not by_code:
            tdb_type = next(e.type for e in self.spec.enums if e.name == f.enum)

        def as_raw(v):
            return to_bytes(tdb_type, v if isinstance(v, (str, bytes)) else [v])

        code = C.c_int(["<", "<=", ">", ">=", "==", "!=", "in", "not in"].index(op))
        if op in ("in", "not in"):
            members = [as_raw(v) for v in value]
            data = np.frombuffer(b"".join(members) + b"\0", dtype="u1")[:-1]
            starts = np.cumsum([0] + [len(m) for m in members])[:-1].astype("<u8")
            keep += [data, starts]
            leaf = self.ctx.new("query_condition_alloc_set_membership", name.encode(), ptr(data), C.c_uint64(len(data)), ptr(starts), C.c_uint64(starts.nbytes), code)
        else:
            leaf = self.ctx.new("query_condition_alloc")
            data = None if value is None else np.frombuffer(as_raw(value) + b"\0", dtype="u1")[:-1]
            keep.append(data)
            address, size = (None, 0) if data is None else (ptr(data), len(data))
            self.ctx("query_condition_init", leaf, name.encode(), address, C.c_uint64(size), code)
        if by_code:
            self.ctx("query_condition_set_use_enumeration", leaf, C.c_int(0))
        return leaf

    def put_metadata(self, ts, **items):
        """Array metadata: text becomes STRING_UTF8, int INT64, float FLOAT64."""
        arr = self.open(WRITE, end=ts)
        for key, value in items.items():
            tdb_type = {str: "STRING_UTF8", int: "INT64", float: "FLOAT64"}[type(value)]
            buf = raw(to_bytes(tdb_type, value if isinstance(value, str) else [value]))
            num = len(buf) // TYPES[tdb_type][1]
            self.ctx("array_put_metadata", arr, key.encode(), C.c_int(TYPES[tdb_type][0]), C.c_uint32(num), ptr(buf))
        self.close(arr)

    def consolidate(self, mode="fragments", **config):
        cfg = make_config({**self.config, "sm.consolidation.mode": mode, **{f"sm.consolidation.{k}": v for k, v in config.items()}})
        self.ctx("array_consolidate", self.uri, cfg)

    def delete_fragments(self, start, end):
        """Deletes the fragments written within `[start, end]`."""
        self.ctx("array_delete_fragments_v2", self.uri, C.c_uint64(start), C.c_uint64(end))

    def vacuum(self, mode="fragments"):
        self.ctx("array_vacuum", self.uri, make_config({**self.config, "sm.vacuum.mode": mode}))

    # --- read back --------------------------------------------------------------------------------------------------

    def fields(self, arr):
        """(name, type, cell_val_num, nullable, is dimension, enumeration name) of every column, from the open array."""
        ctx, schema, out = self.ctx, self.ctx.new("array_get_schema", arr), []
        domain = ctx.new("array_schema_get_domain", schema)
        ndim, nattr = C.c_uint32(), C.c_uint32()
        ctx("domain_get_ndim", domain, C.byref(ndim))
        ctx("array_schema_get_attribute_num", schema, C.byref(nattr))
        for i in range(ndim.value):
            d = ctx.new("domain_get_dimension_from_index", domain, C.c_uint32(i))
            out.append((*self._common("dimension", d), False, True, None))
        for i in range(nattr.value):
            a = ctx.new("array_schema_get_attribute_from_index", schema, C.c_uint32(i))
            nullable, enum = C.c_uint8(), C.c_void_p()
            ctx("attribute_get_nullable", a, C.byref(nullable))
            ctx("attribute_get_enumeration_name", a, C.byref(enum))
            out.append((*self._common("attribute", a), bool(nullable.value), False, self._string(enum)))
        kind = C.c_int()
        ctx("array_schema_get_array_type", schema, C.byref(kind))
        return out, kind.value == 1

    def _string(self, handle):
        if not handle:
            return None
        data, size = C.c_void_p(), C.c_size_t()
        if LIB.tiledb_string_view(handle, C.byref(data), C.byref(size)) != 0:
            raise RuntimeError("tiledb_string_view")
        return C.string_at(data, size.value).decode()

    def _common(self, kind, obj):
        name, code, n = C.c_char_p(), C.c_int(), C.c_uint32()
        self.ctx(f"{kind}_get_name", obj, C.byref(name))
        self.ctx(f"{kind}_get_type", obj, C.byref(code))
        self.ctx(f"{kind}_get_cell_val_num", obj, C.byref(n))
        return name.value.decode(), TYPE_NAMES[code.value], n.value

    def enumeration(self, arr, name):
        """(type, cell_val_num, [cells as bytes])"""
        ctx, e = self.ctx, self.ctx.new("array_get_enumeration", arr, name.encode())
        code, n, data, size = C.c_int(), C.c_uint32(), C.c_void_p(), C.c_uint64()
        ctx("enumeration_get_type", e, C.byref(code))
        ctx("enumeration_get_cell_val_num", e, C.byref(n))
        ctx("enumeration_get_data", e, C.byref(data), C.byref(size))
        blob = C.string_at(data, size.value) if size.value else b""
        tdb_type = TYPE_NAMES[code.value]
        if n.value != VAR:
            w = n.value * TYPES[tdb_type][1]
            return tdb_type, n.value, [blob[i:i + w] for i in range(0, len(blob), w)]
        offs, osize = C.c_void_p(), C.c_uint64()
        ctx("enumeration_get_offsets", e, C.byref(offs), C.byref(osize))
        o = list(np.frombuffer(C.string_at(offs, osize.value), "<u8")) if osize.value else []
        return tdb_type, n.value, [blob[int(a):int(b)] for a, b in zip(o, [*o[1:], len(blob)])]

    def labels(self, arr):
        """(name, type, cell_val_num, dimension) of every dimension label, from the open array."""
        ctx, schema, out = self.ctx, self.ctx.new("array_get_schema", arr), []
        num = C.c_uint64()
        ctx("array_schema_get_dimension_label_num", schema, C.byref(num))
        for i in range(num.value):
            label = ctx.new("array_schema_get_dimension_label_from_index", schema, C.c_uint64(i))
            name, code, n, dim = C.c_char_p(), C.c_int(), C.c_uint32(), C.c_uint32()
            ctx("dimension_label_get_name", label, C.byref(name))
            ctx("dimension_label_get_label_type", label, C.byref(code))
            ctx("dimension_label_get_label_cell_val_num", label, C.byref(n))
            ctx("dimension_label_get_dimension_index", label, C.byref(dim))
            out.append((name.value.decode(), TYPE_NAMES[code.value], n.value, dim.value))
        return out

    def _label_cells(self, arr, label, fields, coords, room):
        """The cells of a label at coordinates of its dimension, as libtiledb answers for the range around them."""
        name, tdb_type, n, dim = label
        dtype = TYPES[fields[dim][1]][2]
        index = [int(np.frombuffer(c, dtype)[0]) for c in coords]
        ctx, query, sub = self.ctx, self.ctx.new("query_alloc", arr, C.c_int(READ)), self.ctx.new("subarray_alloc", arr)
        lo, hi = np.array([min(index)], dtype), np.array([max(index)], dtype)
        ctx("subarray_add_range", sub, C.c_uint32(dim), ptr(lo), ptr(hi), None)
        ctx("query_set_subarray_t", query, sub)
        ctx("query_set_layout", query, C.c_int(LAYOUTS["row"]))
        field = (name, tdb_type, n, False)
        buffers = self._read_buffers(query, field, room)
        ctx("query_submit", query)
        values = cells(field, buffers)
        if len(values) != max(index) - min(index) + 1:
            raise RuntimeError(f"{len(values)} labels for [{min(index)}, {max(index)}]")
        return [values[i - min(index)] for i in index]

    def _restrict(self, arr, query, fields, sparse):
        """Sets the subarray to the non-empty domain; False when there is none. (A rangeless read of some arrays crashes 2.30.)

        Not in float dimensions of sparse arrays, where it may be NaN or too narrow, nor in those of dates, of which libtiledb 1.6 and 1.7 wrote it wrong.
        """
        ctx, sub, empty = self.ctx, self.ctx.new("subarray_alloc", arr), C.c_int32()
        for i, (_, tdb_type, n, _, is_dim, _) in enumerate(fields):
            if not is_dim:
                break
            idx = C.c_uint32(i)
            if n == VAR:
                a, b = C.c_uint64(), C.c_uint64()
                ctx("array_get_non_empty_domain_var_size_from_index", arr, idx, C.byref(a), C.byref(b), C.byref(empty))
                if empty.value:
                    return False
                lo, hi = np.zeros(a.value + 1, "u1"), np.zeros(b.value + 1, "u1")
                ctx("array_get_non_empty_domain_var_from_index", arr, idx, ptr(lo), ptr(hi), C.byref(empty))
                ctx("subarray_add_range_var", sub, idx, ptr(lo), a, ptr(hi), b)
            else:
                box = np.zeros(2, TYPES[tdb_type][2])
                ctx("array_get_non_empty_domain_from_index", arr, idx, ptr(box), C.byref(empty))
                if empty.value:
                    return False
                if sparse and tdb_type.startswith(("FLOAT", "DATETIME")):
                    continue
                ctx("subarray_add_range", sub, idx, ptr(box), ptr(box[1:]), None)
        ctx("query_set_subarray_t", query, sub)
        return True

    def read(self, start=None, end=None, layout=None, room=1 << 24):
        """All cells of the non-empty domain, labels last: ([field…], is sparse, [rows of raw bytes or None], {enumeration…})."""
        ctx, arr = self.ctx, self.open(READ, start, end)
        fields, sparse = self.fields(arr)
        enums = {e: self.enumeration(arr, e) for *_, e in fields if e}
        query = ctx.new("query_alloc", arr, C.c_int(READ))
        rows = []
        if self._restrict(arr, query, fields, sparse):
            ctx("query_set_layout", query, C.c_int(LAYOUTS[layout or ("unordered" if sparse else "row")]))
            buffers = [self._read_buffers(query, f, room) for f in fields]
            ctx("query_submit", query)
            status = C.c_int()
            ctx("query_get_status", query, C.byref(status))
            if status.value != 1:
                raise RuntimeError(f"query status {status.value}, not completed")
            rows = list(zip(*[cells(f, b) for f, b in zip(fields, buffers)]))
        labels, shown = self.labels(arr), list(fields)
        for label in labels:
            shown.append((*label[:3], False, False, None))
            if rows:
                rows = [(*row, c) for row, c in zip(rows, self._label_cells(arr, label, fields, [r[label[3]] for r in rows], room))]
        self.close(arr)
        return shown, sparse, rows, enums

    def _read_buffers(self, query, f, room):
        ctx, key = self.ctx, f[0].encode()
        bufs = {"data": np.empty(room, "u1")}
        if f[2] == VAR:
            bufs["offsets"] = np.empty(room, "u1")
        if f[3]:
            bufs["validity"] = np.empty(room, "u1")
        out = {}
        for kind, buf in bufs.items():
            size = C.c_uint64(buf.nbytes)
            ctx(f"query_set_{kind}_buffer", query, key, ptr(buf), C.byref(size))
            out[kind] = (buf, size)
        return out


def cells(f, buffers):
    """A field's result buffers as one bytes object (or None) per cell."""
    part = {kind: buf[: size.value].tobytes() for kind, (buf, size) in buffers.items()}
    data = part["data"]
    if f[2] == VAR:
        o = np.frombuffer(part["offsets"], "<u8").tolist()
        out = [data[a:b] for a, b in zip(o, [*o[1:], len(data)])]
    else:
        w = f[2] * TYPES[f[1]][1]
        out = [data[i:i + w] for i in range(0, len(data), w)]
    if f[3]:
        out = [c if v else None for c, v in zip(out, part["validity"])]
    return out

