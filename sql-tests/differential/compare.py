"""Arrow ↔ canonical rows, the check of column types, and the difference of two multisets of rows."""

from collections import Counter

import pyarrow as pa
import pyarrow.ipc

STRINGS = {pa.string(), pa.large_string(), pa.string_view()}


def read_file(path):
    with pa.memory_map(path) as source:
        return pa.ipc.open_file(source).read_all()


def rows_of(table):
    columns = [canonical_column(c) for c in table.columns]
    return list(zip(*columns)) if columns else []


def canonical_column(chunked):
    out = []
    for chunk in chunked.chunks:
        out.extend(canonical(chunk))
    return out


def canonical(array):
    kind = array.type
    if pa.types.is_dictionary(kind):
        members = canonical(array.dictionary)
        return [None if i is None else members[i] for i in array.indices.to_pylist()]
    if pa.types.is_float32(kind):
        return array.view(pa.uint32()).to_pylist()
    if pa.types.is_float64(kind):
        return array.view(pa.uint64()).to_pylist()
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_duration(kind):
        return array.view(pa.int64()).to_pylist()
    if pa.types.is_date32(kind):
        return array.view(pa.int32()).to_pylist()
    if pa.types.is_fixed_size_list(kind):
        flat, step = canonical(array.values), kind.list_size
        starts = [(array.offset + i) * step for i in range(len(array))]
        return [tuple(flat[s : s + step]) if ok else None for s, ok in zip(starts, array.is_valid().to_pylist())]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        flat, bounds = canonical(array.values), array.offsets.to_pylist()
        return [tuple(flat[a:b]) if ok else None for a, b, ok in zip(bounds, bounds[1:], array.is_valid().to_pylist())]
    return array.to_pylist()


def same_type(promised, got):
    """Types as the design promises them; names of list items and the flavour of a dictionary's strings are free."""
    if pa.types.is_dictionary(promised):
        return pa.types.is_dictionary(got) and promised.index_type == got.index_type and (promised.value_type == got.value_type or {promised.value_type, got.value_type} <= STRINGS)
    if pa.types.is_list(promised) or pa.types.is_fixed_size_list(promised):
        return promised.id == got.id and same_type(promised.value_type, got.value_type) and (pa.types.is_list(promised) or promised.list_size == got.list_size)
    return promised == got


def type_difference(fields, schema):
    if schema is None:  # an answer without rows may leave no file
        return None
    names = [f.column for f in fields]
    if names != schema.names:
        return f"columns {schema.names} instead of {names}"
    wrong = [f"{f.column!r} ({f.datatype}) is {g.type}, not {f.canonical_type()}" for f, g in zip(fields, schema) if not same_type(f.canonical_type(), g.type)]
    return "; ".join(wrong) or None


def row_difference(expected, got, shown=5):
    """None when both multisets are equal, otherwise a short text."""
    missing, extra = Counter(expected), Counter(got)
    missing, extra = missing - extra, extra - missing
    if not missing and not extra:
        return None
    lines = [f"expected {len(expected)} rows, got {len(got)}; {sum(missing.values())} missing, {sum(extra.values())} unexpected"]
    lines += [f"  missing    x{n} {row!r}" for row, n in missing.most_common(shown)]
    lines += [f"  unexpected x{n} {row!r}" for row, n in extra.most_common(shown)]
    return "\n".join(lines)


def write_model(path, fields, columns, nullable=False):
    """The oracle's rows as an Arrow file, so that DataFusion itself can be asked the same question. What may be NULL decides how it simplifies."""
    arrays = [arrow_column(f.canonical_type(), c) for f, c in zip(fields, columns)]
    may_be_null = [not f.is_dim and (nullable or f.nullable or f.enumeration is not None or "TIME_" in f.datatype) for f in fields]
    table = pa.Table.from_arrays(arrays, schema=pa.schema([pa.field(f.column, a.type, n) for f, a, n in zip(fields, arrays, may_be_null)]))
    with pa.OSFile(path, "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)


def arrow_column(kind, column):
    if pa.types.is_dictionary(kind):
        return _encode(arrow_column(kind.value_type, column), kind)
    if pa.types.is_float32(kind):
        return pa.array(column, pa.uint32()).view(kind)
    if pa.types.is_float64(kind):
        return pa.array(column, pa.uint64()).view(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return pa.array(column, pa.int64()).view(kind)
    if pa.types.is_date32(kind):
        return pa.array(column, pa.int32()).view(kind)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(kind, column)
    return pa.array(column, kind)


def _encode(plain, kind):
    encoded = plain.cast(pa.string()).dictionary_encode() if plain.type in STRINGS else plain.dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), encoded.dictionary)


def _lists(kind, column):
    mask = pa.array([v is None for v in column], pa.bool_())
    if pa.types.is_fixed_size_list(kind):
        flat = [x for v in column for x in (v if v is not None else [None] * kind.list_size)]
        return pa.FixedSizeListArray.from_arrays(arrow_column(kind.value_type, flat), kind.list_size, mask=mask)
    bounds = [0]
    for v in column:
        bounds.append(bounds[-1] + len(v or ()))
    flat = [x for v in column for x in (v or ())]
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), arrow_column(kind.value_type, flat), mask=mask)
