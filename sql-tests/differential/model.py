"""What an array holds at any time, by first principles: the cells of every fragment in memory, and the rules of the format for putting them together.

It knows the raw cells each write put down; what consolidation and vacuum did it learns from names alone: which fragments exist and which a `.vac` file lists as replaced. It is the second
opinion beside libtiledb, and the only one where libtiledb crashes or is known to be wrong. What the rules leave open is a *doubt*: with a doubt, the model alone convinces nobody.
"""

import itertools
import math
import os
from dataclasses import dataclass, field as dc_field

import numpy as np

from conditions import MISSING, shape_of
from data_gen import pack

NEVER = math.inf
MANY = 17  # so many fragments libtiledb sorts in a way that is not stable
LEGACY = "__array_schema.tdb"  # before format 10
MOVED = 12  # the first format whose fragments lie in a folder of their own
STAMPED = 15  # the first format whose consolidated sparse fragments carry the time of each cell
# Releases 2.0 to 2.16 filter the coordinates they append to an array of format 4 or below, those from 2.18 on do not, and cannot read what the others wrote.
COORDS_FILTERED = "coordinates of formats 5 to 19 in an array of format below 5"
KNOWN_WRONG = {COORDS_FILTERED}  # where libtiledb 2.30 does not read back what was written, and the model is right
FOLDERS = {"__schema", "__fragments", "__commits", "__meta", "__fragment_meta", "__labels"}


class Refused(Exception):
    """The array cannot be read there, by the rules."""


class Unknown(Exception):
    """The model was not told enough."""


@dataclass
class Version:
    """A schema: its name on disk and what is in it."""

    name: str
    schema: object
    limits: list = None  # the current domain

    @property
    def time(self):
        return 0 if self.name == LEGACY else int(self.name.split("_")[3])

    @property
    def order(self):
        """libtiledb compares schema names as text; the one of old arrays comes first."""
        return "" if self.name == LEGACY else self.name


@dataclass
class Delete:
    time: int
    condition: object


@dataclass
class Sparse:
    """A cell. `dead`: the time of the first delete that a consolidation found to hit it."""

    time: int
    coords: tuple
    values: dict  # name -> (raw, valid)
    dead: float = NEVER


@dataclass
class Fragment:
    name: str
    schema: object
    cells: list = None  # sparse: of Sparse
    box: list = None  # dense: (lo, hi) per dimension
    columns: dict = None  # dense: name -> [(raw, valid)] in row-major order of the box
    processed: set = dc_field(default_factory=set)
    merged: bool = False
    doubts: set = dc_field(default_factory=set)
    inputs: list = None  # dense, consolidated: the oldest first

    def fit(self, box):
        """The columns of a consolidated dense fragment whose box is this; old releases widen it to whole tiles."""
        self.box, self.columns = box, overlay(self.inputs, box, self.schema, self.doubts)

    @property
    def times(self):
        return fragment_times(self.name)


def fragment_times(name):
    """First and last time, from a name of any format: `__uuid_t`, `__uuid_now_t`, `__t_t_uuid`, `__t_t_uuid_version`."""
    parts = name.split("_")[2:]
    return (int(parts[-1]), int(parts[-1])) if len(parts[0]) == 32 else (int(parts[0]), int(parts[1]))


def format_of(name):
    parts = name.split("_")[2:]
    return int(parts[3]) if len(parts) == 4 else 2 if len(parts[0]) == 32 else 4


@dataclass
class Disk:
    """The names that decide: fragments that exist, those with a commit file, the inputs each `.vac` lists, delete files, what `.con` files list (without what `.ign` files take back)."""

    fragments: set
    committed: set
    replaced: dict
    deletes: set
    listed: set

    @staticmethod
    def look(uri):
        """Both layouts: `__fragments` and `__commits`, and everything beside the schema before format 12."""
        folder, commits = os.path.join(uri, "__fragments"), os.path.join(uri, "__commits")
        beside = [n for n in os.listdir(uri) if n.startswith("__") and n not in FOLDERS and n != LEGACY]
        names = set(os.listdir(folder)) if os.path.isdir(folder) else set()
        names |= {n for n in beside if os.path.isdir(os.path.join(uri, n))}
        files = {n: os.path.join(commits, n) for n in (os.listdir(commits) if os.path.isdir(commits) else [])}
        files |= {n: os.path.join(uri, n) for n in beside if n.endswith(".vac")}
        replaced = {}
        for name, path in files.items():
            if name.endswith(".vac"):
                with open(path, encoding="utf-8") as source:
                    replaced[name[:-4]] = {line.strip().rstrip("/").rsplit("/", 1)[-1] for line in source if line.strip()}
        listed, ignored = (set().union(*(listed_in(path) for name, path in files.items() if name.endswith(suffix))) for suffix in (".con", ".ign"))
        return Disk(names, {n[:-4] for n in files if n.endswith(".wrt")}, replaced, {n for n in files if n.endswith(".del")}, listed - ignored)

    def age(self, fragment):
        """What fragments are sorted by: among those of one start time, the order in which libtiledb comes across them."""
        new_layout = format_of(fragment.name) >= MOVED
        return fragment.times[0], new_layout, new_layout and fragment.name not in self.listed, fragment.name


def listed_in(path):
    """The names of fragments in a `.con` or `.ign` file. In the former, the condition of a delete follows its line: its length and that many bytes."""
    with open(path, "rb") as source:
        rest, names = source.read(), set()
    while rest:
        line, _, rest = rest.partition(b"\n")
        if line.endswith((b".wrt", b".ok")):
            names.add(os.path.basename(line.decode()).rsplit(".", 1)[0])
        elif line.endswith(b".del") and path.endswith(".con"):
            rest = rest[8 + int.from_bytes(rest[:8], "little") :]
    return names


@dataclass
class Model:
    sparse: bool
    allows_dups: bool
    zipped: bool = False  # a sparse array of a format below 5
    versions: list = dc_field(default_factory=list)
    fragments: dict = dc_field(default_factory=dict)
    deletes: dict = dc_field(default_factory=dict)  # file name -> Delete; nothing ever removes one
    strangers: set = dc_field(default_factory=set)  # directories without a commit

    def version(self, end):
        ordered = sorted(self.versions, key=lambda v: v.order)
        return next((v for v in reversed(ordered) if v.time <= end), ordered[0])

    def visible(self, disk, start, end):
        """Fragments inside the window, in their order, without those a consolidation that is itself inside replaced."""

        def inside(name):
            first, last = fragment_times(name)
            overlaps = self.sparse and format_of(name) >= STAMPED
            return first <= end and last >= start if overlaps else start <= first and last <= end

        hidden = set().union(*(names for stem, names in disk.replaced.items() if inside(stem)))
        names = [n for n in disk.fragments - hidden - self.strangers if inside(n)]
        if any(inside(n) for n in disk.committed - disk.fragments - hidden):
            raise Refused("a commit without its fragment")  # libtiledb 2.16 leaves some when it vacuums after consolidating commits
        if missing := [n for n in names if n not in self.fragments]:
            raise Unknown(f"fragment {missing[0]} came from nowhere")
        return sorted((self.fragments[n] for n in names), key=disk.age)

    def read(self, disk, start, end):
        """(schema, columns of canonical values, doubts)"""
        end = NEVER if end is None else end
        version, doubts = self.version(end), set()
        schema, fragments = version.schema, self.visible(disk, start, end)
        for fragment in fragments:
            doubts |= fragment.doubts
        if self.zipped and any(f.schema is self.versions[0].schema and 5 <= format_of(f.name) < 20 for f in fragments):
            doubts.add("coordinates of formats 5 to 19 appended to an array of format below 5" if any(f.merged and format_of(f.name) >= 20 for f in fragments) else COORDS_FILTERED)
        if version.limits and any(outside(f, schema.dims, version.limits) for f in fragments):
            doubts.add("cells outside the current domain of that time")
        rows = (self.sparse_rows if self.sparse else self.dense_rows)(disk, fragments, schema, start, end, doubts)
        columns = list(zip(*rows)) or [()] * len(schema.fields)
        return schema, [canonical(f, column) for f, column in zip(schema.fields, columns)], doubts

    # --- sparse -------------------------------------------------------------------------------------------------------------------------

    def sparse_rows(self, disk, fragments, schema, start, end, doubts):
        deletes = [(n, d) for n, d in self.deletes.items() if start <= d.time <= end]
        oldest = min((f.times[0] for f in fragments), default=NEVER)
        for _, delete in deletes:
            if delete.time >= oldest:  # libtiledb looks at the others' fields, too
                check_fields(delete, schema, doubts)
        cells = [(cell, fragment) for fragment in fragments for cell in fragment.cells if start <= cell.time <= end]
        if not self.allows_dups:
            cells = newest(cells, len(fragments), doubts)
        alive = [(c, f) for c, f in cells if (c.dead > end or c.dead == NEVER) and not any(hits(d, c, f, doubts) for n, d in deletes if n not in f.processed)]
        return [[(raw, 1) for raw in c.coords] + [value_for(a, f.schema, c.values, doubts) for a in schema.attrs] for c, f in alive]

    def consolidate_sparse(self, name, inputs, schema, purge, window):
        merged = Fragment(name, schema, cells=[], merged=True)
        first = min(f.times[0] for f in inputs)
        deletes = {n: d for n, d in self.deletes.items() if window[0] <= d.time <= window[1]}
        marks = any(d.time >= first for d in deletes.values()) or any(f.processed for f in inputs)
        merged.processed = set(deletes) if marks else set()
        for fragment in inputs:
            merged.doubts |= fragment.doubts
            for cell in fragment.cells:
                dead = min([cell.dead] + [d.time for n, d in deletes.items() if n not in fragment.processed and hits(d, cell, fragment, merged.doubts)])
                if not (purge and dead < NEVER):
                    values = {a.name: value_for(a, fragment.schema, cell.values, merged.doubts) for a in schema.attrs}
                    merged.cells.append(Sparse(cell.time, cell.coords, values, dead))
        if format_of(name) < STAMPED:
            if not self.allows_dups:
                pairs = [(c, merged) for c in merged.cells]
                merged.cells = [c for c, _ in newest(pairs, MANY, merged.doubts)]
            for cell in merged.cells:
                cell.time = merged.times[0]
        return merged

    # --- dense --------------------------------------------------------------------------------------------------------------------------

    def dense_rows(self, disk, fragments, schema, start, end, doubts):
        if not fragments:
            return []
        box = union(fragments)
        if len(fragments) >= MANY and len({f.times[0] for f in fragments}) < len(fragments):
            doubts.add("two fragments of one time")
        columns = overlay(fragments, box, schema, doubts)
        coords = itertools.product(*[[(d.dtype.type(v).tobytes(), 1) for v in range(lo, hi + 1)] for d, (lo, hi) in zip(schema.dims, box)])
        return [[*place, *(columns[a.name][i] for a in schema.attrs)] for i, place in enumerate(coords)]

    def consolidate_dense(self, name, inputs, schema):
        merged = Fragment(name, schema, box=union(inputs), merged=True, inputs=inputs)
        for fragment in inputs:
            merged.doubts |= fragment.doubts
        merged.fit(merged.box)
        return merged


def outside(fragment, dims, limits):
    """Whether a fragment reaches beyond a current domain, which only a writer of the past with the schema of the future can do."""
    box = fragment.box
    if box is None:
        columns = [np.frombuffer(b"".join(c.coords[i] for c in fragment.cells), d.dtype).tolist() for i, d in enumerate(dims)]
        box = [(min(c), max(c)) for c in columns] if fragment.cells else limits
    return any(lo < low or hi > high for (lo, hi), (low, high) in zip(box, limits))


def newest(cells, many, doubts):
    """One cell per place: the one written last; among equals, that of the later fragment."""
    best = {}
    for cell, fragment in cells:  # fragments come in order, so the later one of two equals wins
        held = best.get(cell.coords)
        if held and held[0].time == cell.time and (held[1].merged or fragment.merged or many >= MANY):
            doubts.add("two cells of one place and one time")
        if not held or cell.time >= held[0].time:
            best[cell.coords] = cell, fragment
    return list(best.values())


def check_fields(delete, schema, doubts):
    """A delete on an attribute that the table does not have (any more) cannot be applied."""
    fields = {f.name: f for f in schema.fields}
    for leaf in delete.condition.leaves():
        if leaf.field.name not in fields:
            raise Refused(f"a delete names {leaf.field.name!r}, which the schema does not have")
        if shape_of(fields[leaf.field.name]) != shape_of(leaf.field):
            doubts.add("a delete on an attribute that changed its type")


def hits(delete, cell, fragment, doubts):
    if cell.time > delete.time:
        return False
    fields = {f.name: f for f in fragment.schema.fields}

    def look_up(field):
        own = fields.get(field.name)
        if own is None or shape_of(own) != shape_of(field):
            if own is not None:
                doubts.add("a delete on an attribute that changed its type")
            if len(delete.condition.leaves()) > 1:
                doubts.add("a delete of many leaves on a missing attribute")
            return MISSING
        if own.is_dim:
            return cell.coords[[d.name for d in fragment.schema.dims].index(own.name)]
        raw, valid = cell.values[own.name]
        return raw if valid else None

    return not delete.condition.holds(look_up, True)


def value_for(attr, own, values, doubts):
    """The (raw, valid) cell of an attribute as another schema wants it; where the fragment has no such thing, the fill value."""
    found = next((a for a in own.attrs if a.name == attr.name), None)
    if found is None or shape_of(found) != shape_of(attr):
        if found is not None:
            doubts.add("an attribute that changed its type")
        return fill_of(attr)
    if found.nullable != attr.nullable:
        doubts.add("an attribute that changed its nullability")
    return values[attr.name]


def fill_of(attr):
    return attr.default_fill(), attr.fill_valid if attr.nullable else 1


def union(fragments):
    return [(min(f.box[i][0] for f in fragments), max(f.box[i][1] for f in fragments)) for i in range(len(fragments[0].box))]


def overlay(fragments, box, schema, doubts):
    """The columns of a box: each cell from the last fragment that covers it."""
    sizes = [hi - lo + 1 for lo, hi in box]
    owner = np.full(sizes, -1)
    inner = np.zeros(sizes, np.int64)
    for number, fragment in enumerate(fragments):
        part = tuple(slice(lo - base, hi - base + 1) for (lo, hi), (base, _) in zip(fragment.box, box))
        owner[part] = number
        inner[part] = np.arange(owner[part].size).reshape(owner[part].shape)
    for attr in schema.attrs:
        has = [any(a.name == attr.name for a in f.schema.attrs) for f in fragments]
        if any(earlier and not later for earlier, later in itertools.combinations(has, 2)):
            doubts.add("a newer fragment lacks an attribute that an older one has")  # libtiledb 2.30: the fill value where it covers a whole tile, else the older value
    sources = [{a.name: found.columns[a.name] if usable(a, found.schema, doubts) else None for a in schema.attrs} for found in fragments]
    places = list(zip(owner.ravel().tolist(), inner.ravel().tolist()))
    out = {}
    for attr in schema.attrs:
        fill = fill_of(attr)
        out[attr.name] = [fill if n < 0 or sources[n][attr.name] is None else sources[n][attr.name][i] for n, i in places]
    return out


def usable(attr, own, doubts):
    return value_for(attr, own, {attr.name: True}, doubts) is True


def canonical(field, column):
    """Canonical values of a column of (raw, valid) cells."""
    if not column:
        return []
    validity = np.array([valid for _, valid in column], np.uint8) if field.nullable else None
    raw = [raw if valid or not field.nullable else field.default_fill() for raw, valid in column]
    buffer = pack(field, raw, None)
    data, offsets, _ = buffer.filled()
    return field.cells(data, offsets, validity)
