"""Arrays that statements create: libtiledb must find in them what it finds in arrays of its own.

    python creation.py BINARY [--seed N] [--arrays N] [--keep DIR]

For each random schema of schema_gen.py there are four arrays:

    own        made by libtiledb
    told       made by the statement that `tiledb_array('own')` tells
    written    made by a statement that is written here from the schema, with every option in so many words
    plain      made by a statement with no more than the columns, their types and the domains

The first three must agree on every property that libtiledb's C API knows: type, orders, capacity, filters with all their options, domains, extents, values per cell, fill values, enumerations with their
values, the current domain. Then the same random cells are written by libtiledb to `own`, `told` and `plain`, and read back: so it can work with them, whatever filters are the defaults. Needs tiledb and
numpy. Exit status 1 if anything differs.
"""

import argparse
import collections
import ctypes as ct
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np

import ctiledb
import data_gen
import oracle
import schema_gen
from ctiledb import HILBERT, READ, VAR, Context, OpenArray, TileDBError
from fieldtypes import BINARIES, DATATYPES, FLOATS, TEXTS, WIDE_TEXTS

SQL = {"INT8": "TINYINT", "INT16": "SMALLINT", "INT32": "INT", "INT64": "BIGINT", "UINT8": "TINYINT UNSIGNED", "UINT16": "SMALLINT UNSIGNED", "UINT32": "INT UNSIGNED",
       "UINT64": "BIGINT UNSIGNED", "FLOAT32": "REAL", "FLOAT64": "DOUBLE", "BOOL": "BOOLEAN"}
UNITS = {"YEAR": "DATE", "MONTH": "DATE", "WEEK": "DATE", "DAY": "DATE", "HR": "TIMESTAMP(0)", "MIN": "TIMESTAMP(0)", "SEC": "TIMESTAMP(0)", "MS": "TIMESTAMP(3)", "US": "TIMESTAMP(6)", "NS": "TIMESTAMP"}
FILTERS = {0: "none", 1: "gzip", 2: "zstd", 3: "lz4", 4: "rle", 5: "bzip2", 6: "double_delta", 7: "bit_width_reduction", 8: "bitshuffle", 9: "byteshuffle", 10: "positive_delta", 12: "checksum_md5",
           13: "checksum_sha256", 14: "dictionary", 15: "float_scale", 16: "xor", 19: "delta"}
ORDERS = {0: "row-major", 1: "col-major", 4: "hilbert"}


# --- a schema as a statement ------------------------------------------------------------------------------------------------------------

def base_type(datatype):
    """What SQL declares for one value."""
    if datatype in SQL:
        return SQL[datatype]
    if datatype in TEXTS or datatype in WIDE_TEXTS:
        return "VARCHAR"
    if datatype in BINARIES:
        return "BYTEA"
    kind, unit = datatype.split("_")
    if unit in ("PS", "FS", "AS"):
        return "BIGINT"
    return "TIME" if kind == "TIME" else UNITS[unit]


def declared(field):
    if field.enumeration:
        return base_type(field.enumeration.datatype)
    base = base_type(field.datatype)
    if base in ("VARCHAR", "BYTEA") or field.ncell == 1:
        return base
    return base + ("[]" if field.is_var else f"[{field.ncell}]")


def stored(datatype, count):
    return f"{datatype}[{'var' if count == VAR else count}]"


def number(field, value):
    """A bound of a domain: floats in full, dates as bytes, because four digits may be a year."""
    if field.datatype in FLOATS:
        return repr(float(value))
    return f"x'{np.array([value], field.dtype).tobytes().hex()}'" if "_" in field.datatype else str(value)


def spelled(pipeline, chunk_size=None):
    out = []
    for kind, options in pipeline:
        argument = options.get("level", options.get("bwr_window", options.get("pd_window")))
        if kind == schema_gen.SCALE_FLOAT:
            argument = f"{options['factor']}, {options['offset']}, {options['bytewidth']}"
        out.append(FILTERS[kind] + ("" if argument is None else f"({argument})"))
    return ", ".join(out + ([f"max_chunk_bytes({chunk_size})"] if chunk_size and pipeline else []))


def members(enumeration):
    return "[" + ", ".join(f"x'{p.hex()}'" for p in enumeration.pieces()) + "]" + (" ordered" if enumeration.ordered else "")


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def literal(text):
    return "'" + text.replace("'", "''") + "'"


def statement(schema, location, limits, plain):
    columns = [f"{quoted(d.name)} {declared(d)}" for d in schema.dims]
    columns += [f"{quoted(a.column)} {declared(a)}{'' if a.nullable else ' NOT NULL'}" for a in schema.attrs]
    columns.append(f"PRIMARY KEY ({', '.join(quoted(d.name) for d in schema.dims)})")
    options = {"array_type": "sparse" if schema.sparse else "dense", "cell_order": ORDERS[schema.cell_order], "allows_duplicates": str(schema.allows_dups).lower()}
    if not plain:
        options |= {"tile_order": ORDERS[schema.tile_order], "capacity": str(schema.capacity)}
        options |= {f"{which}_filters": spelled(getattr(schema, which)) for which in ("coords", "offsets", "validity")}
        if limits:
            options["current_domain"] = ", ".join(f"[{number(d, lo)}, {number(d, hi)}]" for d, (lo, hi) in zip(schema.dims, limits))
    for dim in schema.dims:
        options[f"dim.{dim.name}.type"] = stored(dim.datatype, dim.ncell)
        if not dim.is_var:
            options[f"dim.{dim.name}.domain"] = f"[{number(dim, dim.domain[0])}, {number(dim, dim.domain[1])}]"
        if not plain:
            options[f"dim.{dim.name}.filters"] = spelled(dim.pipeline)
            extent = dim.extent
            if extent is None and not dim.is_var and schema.cell_order == HILBERT:  # libtiledb chose one before it knew of the order
                extent = dim.dtype.type(dim.domain[1]) - dim.dtype.type(dim.domain[0]) if dim.datatype in FLOATS else dim.domain[1] - dim.domain[0] + 1
            if extent is not None:
                options[f"dim.{dim.name}.tile"] = repr(float(extent)) if dim.datatype in FLOATS else str(extent)
    for attr in schema.attrs:
        options |= {f"attr.{attr.column}.{key}": value for key, value in attribute_options(attr, plain).items()}
    told = ", ".join(f"{literal('tiledb.' + key)} {literal(value)}" for key, value in options.items())
    return f"CREATE EXTERNAL TABLE t ({', '.join(columns)}) STORED AS TILEDB LOCATION {literal(location)} OPTIONS ({told})"


def attribute_options(attr, plain):
    options = {"type": stored(attr.datatype, attr.ncell)}
    if attr.enumeration:
        values = attr.enumeration
        options |= {"enumeration": members(values), "enumeration_name": values.name, "enumeration_type": stored(values.datatype, VAR if values.offsets is not None else 1)}
    if not attr.name:
        options["anonymous"] = "true"
    if attr.fill is not None:
        options["fill"] = f"x'{attr.fill.hex()}'"
        if attr.nullable:
            options["fill_valid"] = "true" if attr.fill_valid else "false"
    if not plain:
        options["filters"] = spelled(attr.pipeline, attr.chunk_size)
    return options


# --- what libtiledb knows of an array ---------------------------------------------------------------------------------------------------

class Looked:
    """Every property of an array's schema, asked of the C API."""

    def __init__(self, uri):
        self.ctx = Context()
        self.schema = self.ctx.new("array_schema_load", uri.encode())
        self.uri = uri

    def ask(self, name, handle, kind, *more):
        out = kind()
        self.ctx.call(name, handle, *more, ct.byref(out))
        return out.value

    def text(self, name, handle):
        return (self.ask(name, handle, ct.c_char_p) or b"").decode()

    def handle(self, name, of, *more):
        out = ct.c_void_p()
        self.ctx.call(name, of, *more, ct.byref(out))
        return out

    def filters(self, name, of):
        found = self.handle(name, of)
        out = [self.ask("filter_list_get_max_chunk_size", found, ct.c_uint32)]
        for index in range(self.ask("filter_list_get_nfilters", found, ct.c_uint32)):
            item = ct.c_void_p()
            self.ctx.call("filter_list_get_filter_from_index", found, ct.c_uint32(index), ct.byref(item))
            kind, options = self.ask("filter_get_type", item, ct.c_int), {}
            for option, (number, as_type) in ctiledb.FILTER_OPTIONS.items():
                value = as_type()
                try:
                    self.ctx.call("filter_get_option", item, ct.c_int(number), ct.byref(value))
                    options[option] = repr(value.value)
                except TileDBError:
                    pass  # the filter has no such option
            out.append((kind, options))
        return out

    def dimension(self, index, domain):
        dim = self.handle("domain_get_dimension_from_index", domain, ct.c_uint32(index))
        datatype = self.ask("dimension_get_type", dim, ct.c_int)
        size = ctiledb._lib.tiledb_datatype_size(datatype)
        bounds, extent = self.ask("dimension_get_domain", dim, ct.c_void_p), self.ask("dimension_get_tile_extent", dim, ct.c_void_p)
        return {"name": self.text("dimension_get_name", dim), "type": datatype, "count": self.ask("dimension_get_cell_val_num", dim, ct.c_uint32),
                "domain": bounds and ct.string_at(bounds, 2 * size).hex(), "extent": extent and ct.string_at(extent, size).hex(), "filters": self.filters("dimension_get_filter_list", dim)}

    def attribute(self, index):
        attr = self.handle("array_schema_get_attribute_from_index", self.schema, ct.c_uint32(index))
        nullable = self.ask("attribute_get_nullable", attr, ct.c_uint8)
        value, size, valid = ct.c_void_p(), ct.c_uint64(), ct.c_uint8(0)
        if nullable:
            self.ctx.call("attribute_get_fill_value_nullable", attr, ct.byref(value), ct.byref(size), ct.byref(valid))
        else:
            self.ctx.call("attribute_get_fill_value", attr, ct.byref(value), ct.byref(size))
        return {"name": self.text("attribute_get_name", attr), "type": self.ask("attribute_get_type", attr, ct.c_int), "count": self.ask("attribute_get_cell_val_num", attr, ct.c_uint32),
                "nullable": nullable, "fill": (ct.string_at(value, size.value).hex(), valid.value), "filters": self.filters("attribute_get_filter_list", attr), "enumeration": self.enumeration(attr)}

    def enumeration(self, attr):
        name = self.handle("attribute_get_enumeration_name", attr)
        if not name.value:
            return None
        address, length = ct.c_char_p(), ct.c_size_t()
        ctiledb._lib.tiledb_string_view(name, ct.byref(address), ct.byref(length))
        text = ct.string_at(address, length.value)
        found = ct.c_void_p()
        with OpenArray(self.ctx, self.uri, READ) as array:
            self.ctx.call("array_get_enumeration", array.ptr, text, ct.byref(found))
        out = {"name": text.decode(), "type": self.ask("enumeration_get_type", found, ct.c_int), "count": self.ask("enumeration_get_cell_val_num", found, ct.c_uint32),
               "ordered": self.ask("enumeration_get_ordered", found, ct.c_int)}
        for part in ("data", "offsets"):
            pointer, size = ct.c_void_p(), ct.c_uint64()
            self.ctx.call("enumeration_get_" + part, found, ct.byref(pointer), ct.byref(size))
            out[part] = ct.string_at(pointer, size.value).hex() if size.value else ""
        return out

    def current_domain(self, dims):
        found = self.handle("array_schema_get_current_domain", self.schema)
        if self.ask("current_domain_get_is_empty", found, ct.c_uint32):
            return None
        box, out = self.handle("current_domain_get_ndrectangle", found), []
        for index in range(dims):
            limits = schema_gen.Range()
            self.ctx.call("ndrectangle_get_range", box, ct.c_uint32(index), ct.byref(limits))
            out.append((ct.string_at(limits.min, limits.min_size).hex(), ct.string_at(limits.max, limits.max_size).hex()))
        return out

    def properties(self):
        domain = self.handle("array_schema_get_domain", self.schema)
        dims = self.ask("domain_get_ndim", domain, ct.c_uint32)
        attrs = self.ask("array_schema_get_attribute_num", self.schema, ct.c_uint32)
        out = {name: self.ask("array_schema_get_" + name, self.schema, kind)
               for name, kind in (("array_type", ct.c_int), ("cell_order", ct.c_int), ("tile_order", ct.c_int), ("capacity", ct.c_uint64), ("allows_dups", ct.c_int))}
        out |= {name: self.filters(f"array_schema_get_{name}_filter_list", self.schema) for name in ("coords", "offsets", "validity")}
        out |= {f"dimension {i}": self.dimension(i, domain) for i in range(dims)}
        out |= {f"attribute {i}": self.attribute(i) for i in range(attrs)}
        out["current_domain"] = self.current_domain(dims)
        return out


# --- one case -----------------------------------------------------------------------------------------------------------------------------

def seeded(seed, case):
    rng = random.Random(f"{seed}:{case}")
    schema = schema_gen.random_schema(rng)
    limits = None
    if all(not d.is_var for d in schema.dims) and rng.random() < 0.3:
        limits = [d.domain if d.datatype in FLOATS else (d.domain[0], rng.randint(*d.domain)) for d in schema.dims]
    return rng, schema, limits


def make_own(seed, case, folder):
    _, schema, limits = seeded(seed, case)
    os.makedirs(folder)
    schema_gen.create(Context(), os.path.join(folder, "own"), schema, limits)


def fill(rng, ctx, uri, schema):
    """Writes random cells a few times; returns how many, at most."""
    life = data_gen.Life()
    pools = [data_gen.coordinate_pool(rng, d) for d in schema.dims] if schema.sparse else None
    windows = None if schema.sparse else [data_gen.place_window(rng, d) for d in schema.dims]
    return 1 + sum(data_gen.write_sparse(rng, ctx, uri, schema, pools, time) if schema.sparse else data_gen.write_dense(rng, ctx, uri, schema, windows, time, life) for time in (1, 2, 5))


def compare(seed, case, folder):
    """What differs, as text."""
    rng, schema, limits = seeded(seed, case)
    found = {which: Looked(os.path.join(folder, which)).properties() for which in ("own", "told", "written", "plain")}
    wrong = [f"{which} {key}: {found['own'][key]} {found[which].get(key)}" for which in ("told", "written") for key in found["own"] if found[which].get(key) != found["own"][key]]
    chosen = ["array_type", "cell_order", "allows_dups"]
    wrong += [f"plain {key}: {found['own'][key]} {found['plain'].get(key)}" for key in chosen if found["plain"].get(key) != found["own"][key]]
    if limits or wrong:
        return wrong, False
    rows, state = {}, rng.getstate()
    rounded = [any(kind == schema_gen.SCALE_FLOAT for kind, _ in field.pipeline) for field in schema.fields]
    for which in ("own", "told", "plain"):
        rng.setstate(state)
        ctx, uri = Context(), os.path.join(folder, which)
        try:
            count = fill(rng, ctx, uri, schema)
            columns = oracle.read_window(ctx, uri, schema, count, 0, 2**63)
        except TileDBError as refusal:
            if which == "own":
                return wrong, False  # libtiledb cannot work with its own array
            wrong.append(f"libtiledb on {which}: {refusal}")
            continue
        exact = [column for column, is_rounded in zip(columns, rounded) if not is_rounded]
        rows[which] = sorted(map(repr, zip(*exact)))
        if rows[which] != rows["own"]:
            wrong.append(f"cells of {which}: {str(rows[which])[:2000]} instead of {str(rows['own'])[:2000]}")
    return wrong, bool(rows["own"])


def alone(work, *args):
    """The result of a function in a process of its own, or the reason why there is none: libtiledb may refuse or crash."""
    def run(pipe):
        try:
            pipe.send((work(*args), None))
        except (TileDBError, oracle.Dropped) as refusal:
            pipe.send((None, str(refusal)))

    mine, theirs = multiprocessing.Pipe(False)
    process = multiprocessing.get_context("fork").Process(target=run, args=(theirs,))
    process.start()
    theirs.close()
    try:
        return mine.recv()
    except EOFError:
        return None, "crashed"
    finally:
        process.join()


def shell(binary, statements):
    """Runs statements, each on a line of its own; their output and the errors by number."""
    text = "\n".join(s.replace("\n", " ") + ";" for s in statements) + "\n"
    run = subprocess.run([binary, "-q", "--format", "nd-json"], input=text, capture_output=True, text=True)
    if run.returncode not in (0, 1):
        sys.exit(f"the shell ended with {run.returncode}: {run.stderr[-3000:]}")
    errors = {}
    for line in run.stderr.splitlines():
        if line.startswith("Error (stdin, line "):
            number, message = line.removeprefix("Error (stdin, line ").split("): ", 1)
            errors[int(number) - 1] = message
    return run.stdout, errors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--arrays", type=int, default=100)
    parser.add_argument("--keep", help="where the arrays of failures are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        folders = {case: os.path.join(root, str(case)) for case in range(options.arrays)}
        dropped, features = collections.Counter(), collections.Counter()
        for case, folder in list(folders.items()):
            _, refusal = alone(make_own, options.seed, case, folder)
            if refusal:
                dropped[refusal] += 1
                del folders[case]
        asked = [f"SELECT {case} AS n, create_statement FROM tiledb_array('{folder}/own')" for case, folder in folders.items()]
        output, errors = shell(options.binary, asked)
        failures = collections.defaultdict(list)
        for number, message in errors.items():
            failures[list(folders)[number]].append(f"no statement is told: {message}")
        told = {row["n"]: row["create_statement"] for row in map(json.loads, output.splitlines())}
        statements, owners = [], []
        for case, folder in folders.items():
            _, schema, limits = seeded(options.seed, case)
            features.update(schema.features)
            mirrored = told.get(case, "")
            if mirrored.startswith("--"):
                failures[case].append(mirrored.splitlines()[0])
            for which, text in (("told", mirrored.replace(f"{folder}/own", f"{folder}/told")), ("written", statement(schema, f"{folder}/written", limits, False)),
                                ("plain", statement(schema, f"{folder}/plain", None, True))):
                statements.append(text.replace("CREATE EXTERNAL", "CREATE OR REPLACE EXTERNAL"))
                owners.append((case, which))
        _, errors = shell(options.binary, statements)
        for number, message in errors.items():
            case, which = owners[number]
            failures[case].append(f"{which} is not created: {message}\n    {statements[number]}")
        worked = 0
        for case, folder in folders.items():
            if failures[case]:
                continue
            result, refusal = alone(compare, options.seed, case, folder)
            if refusal:
                failures[case].append(f"libtiledb: {refusal}")
                continue
            wrong, has_rows = result
            failures[case] += wrong
            worked += has_rows
        failures = {case: wrong for case, wrong in failures.items() if wrong}
        for case, wrong in failures.items():
            print(f"{options.seed}:{case}", *wrong, sep="\n  ")
            if options.keep:
                shutil.copytree(folders[case], os.path.join(options.keep, str(case)), dirs_exist_ok=True)
        print(f"{len(folders)} schemas, {3 * len(folders)} arrays created by statements, {len(failures)} schemas with differences; {worked} with cells written and read by libtiledb; "
              f"{len(features)} kinds of things; dropped: {dict(dropped)}")
        sys.exit(bool(failures) or not worked)


if __name__ == "__main__":
    main()
