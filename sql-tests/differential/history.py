"""A random history of one array: writes, deletes, schema evolution, consolidation, vacuum, removal of fragments, leftovers of crashed writers, at random times (often equal, sometimes
in the past), encrypted or not; told to libtiledb and to the in-memory model alike. What it leaves: the array (and copies of it as it was in between), and the questions' time windows
with the model's answers.
"""

import copy
import ctypes as ct
import itertools
import math
import os
import random
import shutil
from dataclasses import replace

import numpy as np

import data_gen
import model as mem
import schema_gen
import values
from conditions import random_condition, shape_of
from ctiledb import COL_MAJOR, DELETE, HILBERT, ROW_MAJOR, UNORDERED, WRITE, Buffer, Context, OpenArray, TileDBError, consolidate, fragment_facts, has, load, vacuum, version
from fieldtypes import DATATYPES, FLOATS, INTEGERS

SIDE = ["commits", "fragment_meta", "array_meta"]  # what consolidation and vacuum can be about, besides fragments
BASES = [1_700_000_000_000] * 8 + [1, 7, 95]
KEY = "0123456789abcdeF0123456789abcdeF"


class Window:
    """One view of one array: where, when, and who says what about it."""

    def __init__(self, uri, start, end, more=None):
        self.uri, self.start, self.end, self.more = uri, start, end, more or {}
        self.schema, self.answer, self.doubts, self.silence = None, None, set(), None  # the model's schema, columns, doubts; why it has no answer


class History:
    def __init__(self, rng, folder, releases):
        self.releases = releases
        self.rng, self.folder, self.uri = rng, folder, os.path.join(folder, "array")
        self.notes, self.features, self.times, self.windows, self.cells, self.snapshots = [], set(), [], [], 0, 0
        encrypted = rng.random() < 0.12 and releases == [None]
        self.settings = {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": KEY} if encrypted else {}
        self.more = [{"tiledb.encryption_key": KEY}, {"tiledb.encryption_key": KEY.encode().hex()}, {}] if encrypted else [{}]  # without one: from the environment
        if encrypted:
            self.features.add("encrypted")
        self.ctx, self.release = None, None
        self.annotated = False
        self.seen = {}  # field name -> raw cells written
        self.dropped = []  # attributes that were dropped, to come back
        self.now = self.base = rng.choice(BASES)

    def __getstate__(self):
        return self.__dict__ | {"ctx": None}

    def work_with(self, library):
        """Goes on with a release of libtiledb: the installed one, or a library's path."""
        load(library)
        self.ctx, self.release = Context(self.settings), version()
        if library:
            self.note(f"libtiledb {'.'.join(map(str, self.release))}", f"libtiledb {self.release[0]}.{self.release[1]:02}")

    @property
    def current(self):
        return self.releases == [None]

    def note(self, what, feature=None):
        self.notes.append(what)
        if feature:
            self.features.add(feature)

    # --- creation -----------------------------------------------------------------------------------------------------------------------

    def create(self):
        rng = self.rng
        schema = schema_gen.random_schema(rng, (1, 10, 40, 150))
        schema.attrs = [lossless(a) for a in schema.attrs[:3]]
        if rng.random() < 0.6 and schema.attrs:  # what deletes can name
            attr = schema.attrs[0]
            attr.datatype, attr.ncell, attr.enumeration, attr.pipeline, attr.fill, attr.tame = rng.choice(INTEGERS), 1, None, [], None, False
            attr.fill_valid = 0
        if not self.current:
            modest(rng, schema, self.release)
        self.places = None if schema.sparse else [data_gen.place_window(rng, d) for d in schema.dims]
        self.limits = current_domain(rng, schema, self.places) if self.current and rng.random() < 0.25 else None
        schema_gen.create(self.ctx, self.uri, schema, self.limits)
        self.model = mem.Model(schema.sparse, schema.allows_dups, schema.sparse and self.release < (2, 0))
        self.name_schema(schema, self.base, self.limits)
        if schema.sparse:
            self.pools = [data_gen.coordinate_pool(rng, d) for d in schema.dims]
            if rng.random() < 0.6:
                self.pools = data_gen.crowd(rng, self.pools)
        self.features |= schema.features
        if self.limits:
            self.features.add("current domain")
            self.note(f"current domain {self.limits}")

    def name_schema(self, schema, time, limits):
        """Finds the schema file that just appeared, and renames it: arrays are always created now, and names must follow from the seed."""
        folder = os.path.join(self.uri, "__schema")
        if not os.path.isdir(folder):
            self.model.versions.append(mem.Version(mem.LEGACY, schema))
            return
        known = {v.name for v in self.model.versions}
        (name,) = [n for n in os.listdir(folder) if n != "__enumerations" and n not in known]
        fresh = f"__{time}_{time}_{self.rng.randbytes(16).hex()}"
        os.rename(os.path.join(folder, name), os.path.join(folder, fresh))
        self.model.versions.append(mem.Version(fresh, schema, limits))

    @property
    def schema(self):
        """What a writer sees: the schema whose name is last as text."""
        return max(self.model.versions, key=lambda v: v.order).schema

    # --- the life -----------------------------------------------------------------------------------------------------------------------

    def live(self, many):
        rng = self.rng
        kinds = {self.write: 6, self.delete: 3 if self.model.sparse else 0, self.evolve: 3.5, self.tidy: 3, self.clean: 1.5, self.remove: 0.4 if self.current else 0, self.crash: 0.3, self.snapshot: 0.5, self.annotate: 1.2}
        favour = rng.choice([None, None, self.evolve, self.tidy, self.delete, self.write])
        if favour and kinds[favour]:
            kinds[favour] *= 3
        first = [] if self.model.fragments else [self.write]
        for event in first + rng.choices(list(kinds), list(kinds.values()), k=many):
            if self.times and rng.random() < 0.12:
                self.now = max(1, rng.choice(self.times) + rng.choice([-1, 0, 0, 1]))  # back in time
            else:
                self.now = max(self.now, *self.times, 0) + rng.choice([0, 0, 1, 1, 5, 10, 100]) if self.times else self.now + rng.choice([0, 1, 5])
            try:
                event()
            except TileDBError as refusal:
                self.note(f"{event.__name__} at {self.now} refused: {refusal}", "refused " + event.__name__)
                if event == self.tidy:
                    for fragment in self.model.fragments.values():
                        fragment.doubts.add("a vacuum that failed half-way")

    def write(self):
        rng, schema, known = self.rng, self.schema, mem.Disk.look(self.uri).fragments
        fragment = mem.Fragment("", schema)
        if schema.sparse:
            buffers, ranges, layout = self.sparse_cells(fragment), None, UNORDERED
        else:
            buffers, ranges = self.dense_cells(fragment)
            layout = schema.cell_order if schema.cell_order else ROW_MAJOR
        with OpenArray(self.ctx, self.uri, WRITE, end=self.now) as array:
            array.query(layout, ranges, buffers)
        (name,) = mem.Disk.look(self.uri).fragments - known
        fragment.name = name
        self.model.fragments[name] = fragment
        self.settle_name(name, self.now)
        self.times.append(self.now)
        self.note(f"write of {len(fragment.cells) if fragment.cells is not None else fragment.box} at {self.now}: {fragment.name}")

    def settle_name(self, name, time=None):
        """Gives a fragment a name that follows from the seed: where times are equal, the name decides what is newer. `time`: that of a plain write, where old releases take the clock's."""
        parts = name.split("_")
        random_part = self.rng.randbytes(16).hex()
        if len(parts[2]) == 32:
            fresh = "_".join(["", "", random_part, *(parts[3:] if time is None else [str(time)])])
        else:
            fresh = "_".join(["", "", *(parts[2:4] if time is None else [str(time)] * 2), random_part, *parts[5:]])
        for folder in ("__fragments", "__commits", "."):
            for suffix in ("", ".wrt", ".ok", ".vac"):
                if os.path.exists(path := os.path.join(self.uri, folder, name + suffix)):
                    os.rename(path, os.path.join(self.uri, folder, fresh + suffix))
        fragment = self.model.fragments.pop(name)
        fragment.name = fresh
        self.model.fragments[fresh] = fragment
        self.notes[-1:] = [self.notes[-1].replace(name, fresh)] if self.notes else []

    def columns(self, count):
        """(buffers, {name: [(raw, valid)]}) for random cells of every attribute."""
        buffers, columns = {}, {}
        for attr in self.schema.attrs:
            raw, validity = data_gen.random_cells(self.rng, attr, count)
            if attr.is_var and self.release < (2, 0):
                raw = [cell or values.one_element(attr) for cell in raw]  # refused by these releases
            buffers[attr.name] = data_gen.pack(attr, raw, validity)
            columns[attr.name] = [(r, int(v)) for r, v in zip(raw, itertools.repeat(1) if validity is None else validity.tolist())]
            self.seen.setdefault((attr.name, shape_of(attr)), []).extend(raw[:20])
        return buffers, columns

    def sparse_cells(self, fragment):
        rng, schema = self.rng, self.schema
        pools = [within(pool, d, limit) for pool, d, limit in zip(self.pools, schema.dims, self.limits or [None] * len(schema.dims))]
        places = [tuple(rng.choice(pool) for pool in pools) for _ in range(rng.choice([1, 2, 5, 12, 30, 80]))]
        if not schema.allows_dups:
            places = list(dict.fromkeys(places))
        buffers, columns = self.columns(len(places))
        fragment.cells = [mem.Sparse(self.now, place, {name: column[i] for name, column in columns.items()}) for i, place in enumerate(places)]
        self.cells += len(places)
        if self.release < (2, 0):
            zipped = np.frombuffer(b"".join(raw for place in places for raw in place), np.uint8).copy()
            return {"__coords": Buffer(zipped)} | buffers
        return {d.name: data_gen.pack(d, [p[i] for p in places], None) for i, d in enumerate(schema.dims)} | buffers

    def dense_cells(self, fragment):
        rng, schema, box = self.rng, self.schema, []
        for i, (lo, hi) in enumerate(self.places):
            if self.limits:
                lo, hi = max(lo, self.limits[i][0]), min(hi, self.limits[i][1])
            first = rng.choice([lo, rng.randint(lo, hi)])
            box.append((first, rng.choice([hi, rng.randint(first, hi)])))
        fragment.box = box
        buffers, fragment.columns = self.columns(math.prod(hi - lo + 1 for lo, hi in box))
        if schema.cell_order == COL_MAJOR:
            sizes = [hi - lo + 1 for lo, hi in box]
            order = np.arange(math.prod(sizes)).reshape(sizes, order="F").ravel().tolist()
            fragment.columns = {name: [column[i] for i in order] for name, column in fragment.columns.items()}
        return buffers, [(i, d.dtype.type(lo), d.dtype.type(hi)) for i, (d, (lo, hi)) in enumerate(zip(schema.dims, box))]

    def delete(self):
        condition = random_condition(self.rng, self.schema, self.pools, lambda f: self.seen.get((f.name, shape_of(f)), []))
        if condition is None:
            return
        known = mem.Disk.look(self.uri).deletes
        with OpenArray(self.ctx, self.uri, DELETE, end=self.now) as array:
            array.delete_where(condition.handle(self.ctx))
        for name in mem.Disk.look(self.uri).deletes - known:
            fresh = f"__{self.now}_{self.now}_{self.rng.randbytes(16).hex()}_{name.rsplit('_', 1)[1]}"
            os.rename(os.path.join(self.uri, "__commits", name), os.path.join(self.uri, "__commits", fresh))
            self.model.deletes[fresh] = mem.Delete(self.now, condition)
        self.times.append(self.now)
        self.note(f"delete at {self.now}: {condition!r}", "delete")
        if len(condition.leaves()) > 1:
            self.features.add("delete by a tree")

    # --- evolution ----------------------------------------------------------------------------------------------------------------------

    def evolve(self):
        if self.settings:
            return  # libtiledb writes the evolved schema of an encrypted array unencrypted
        rng, ctx = self.rng, self.ctx
        fresh = replace(self.schema, attrs=[copy.copy(a) for a in self.schema.attrs], dims=list(self.schema.dims))
        evolution, limits, said, features = ctx.new("array_schema_evolution_alloc"), self.limits, [], set()
        gone = []
        for _ in range(rng.choice([1, 1, 1, 2]) if self.current else 1):  # old releases put several additions in any order
            step = rng.choice(["add", "add", "drop", "back", "back", "enumeration", "enumeration", "domain"])
            if step == "add":
                self.add(evolution, fresh, self.new_attribute(fresh), said)
            elif step == "back" and [a for a in self.dropped if a.name not in [x.name for x in fresh.attrs + gone]]:
                old = rng.choice([a for a in self.dropped if a.name not in [x.name for x in fresh.attrs + gone]])
                again = copy.copy(old) if rng.random() < 0.5 else self.attribute(old.name)
                again.enumeration = None
                self.add(evolution, fresh, again, said)
                features.add("attribute back" if shape_of(old) == shape_of(again) else "attribute back with another type")
                step = None
            elif step == "drop" and len(fresh.attrs) > 1:
                attr = rng.choice(fresh.attrs)
                if attr.name and attr in fresh.attrs and not any(s.endswith(repr(attr.name)) for s in said):
                    ctx.call("array_schema_evolution_drop_attribute", evolution, attr.name.encode())
                    fresh.attrs.remove(attr)
                    gone.append(attr)
                    said.append(f"drop {attr.name!r}")
                else:
                    step = None
            elif step == "enumeration" and [a for a in fresh.attrs if a.enumeration] and not any("enumeration" in s for s in said):
                attr = rng.choice([a for a in fresh.attrs if a.enumeration])
                longer = extended(rng, attr.enumeration)
                old = schema_gen.make_enumeration(ctx, attr.enumeration)
                tail = longer.pieces()[len(attr.enumeration.values) :]
                raw, offsets = b"".join(tail), np.cumsum([0] + [len(p) for p in tail[:-1]]).astype(np.uint64)
                var = attr.enumeration.offsets is not None
                made = ctx.new("enumeration_extend", old, ct.c_char_p(raw), ct.c_uint64(len(raw)), ct.c_void_p(offsets.ctypes.data) if var else None, ct.c_uint64(offsets.nbytes if var else 0))
                ctx.call("array_schema_evolution_extend_enumeration", evolution, made)
                previous = attr.enumeration
                for other in fresh.attrs:
                    if other.enumeration is previous:
                        other.enumeration = longer
                said.append(f"extend enumeration {longer.name!r} by {longer.values[len(previous.values):]!r}")
            elif step == "domain" and limits and limits == self.limits:
                limits = [grown(rng, d, limit) for d, limit in zip(fresh.dims, limits)]
                ctx.call("array_schema_evolution_expand_current_domain", evolution, schema_gen.make_current_domain(ctx, fresh.dims, limits))
                said.append(f"expand current domain to {limits}")
            else:
                step = None
            if step:
                features.add({"add": "attribute added", "drop": "attribute dropped", "enumeration": "enumeration extended", "domain": "current domain expanded"}[step])
        if not said:
            return
        if has("array_schema_evolution_set_timestamp_range"):
            ctx.call("array_schema_evolution_set_timestamp_range", evolution, ct.c_uint64(self.now), ct.c_uint64(self.now))
        ctx.call("array_evolve", self.uri.encode(), evolution)
        self.name_schema(fresh, self.now, limits)
        self.limits, self.dropped = limits, self.dropped + gone
        self.features |= features | {"evolved"}
        self.times.append(self.now)
        self.note(f"evolve at {self.now}: {'; '.join(said)}: {self.model.versions[-1].name}")

    def add(self, evolution, fresh, attr, said):
        if attr.name in [a.name for a in fresh.attrs]:
            return
        if attr.enumeration:
            self.ctx.call("array_schema_evolution_add_enumeration", evolution, schema_gen.make_enumeration(self.ctx, attr.enumeration))
        self.ctx.call("array_schema_evolution_add_attribute", evolution, schema_gen.make_attribute(self.ctx, attr))
        fresh.attrs.append(attr)
        said.append(f"add {attr.datatype} x{attr.ncell} nullable={attr.nullable} fill={attr.fill} {attr.name!r}")

    def attribute(self, name):
        attr = lossless(schema_gen.random_attr(self.rng, name))
        if not self.current:
            modest_attribute(self.rng, attr, self.release)
        return attr

    def new_attribute(self, fresh):
        taken = {a.name for version in self.model.versions for a in version.schema.attrs} | {a.name for a in fresh.attrs}
        attr = self.attribute(self.rng.choice([n for n in schema_gen.NAMES + ["n1", "n2", "n3", "n4", "n5", "n6"] * 2 + [f"m{len(taken)}"] if n not in taken]))
        if attr.enumeration:
            attr.enumeration.name = f"late{len(self.model.versions)}_{len(taken)}"
        return attr

    # --- maintenance --------------------------------------------------------------------------------------------------------------------

    def tidy(self):
        """Consolidates fragments (all, a span of time, a chosen run), commits or fragment metadata."""
        rng, before = self.rng, mem.Disk.look(self.uri)
        what = rng.choice(["all", "all", "window", "chosen", "commits", "commits", "fragment_meta"])
        settings, chosen, window = {"sm.consolidation.mode": "fragments"}, None, (0, mem.NEVER)
        names = sorted(before.fragments - self.model.strangers, key=lambda n: (mem.fragment_times(n)[0], n))
        if self.annotated and rng.random() < 0.3:
            what = "array_meta"
        if what in SIDE:
            settings["sm.consolidation.mode"] = what
        elif what == "window" and self.times:
            window = tuple(sorted(rng.choices(self.times, k=2)))
            settings |= {"sm.consolidation.timestamp_start": window[0], "sm.consolidation.timestamp_end": window[1]}
        elif what == "chosen" and len(names) >= 2:
            start = rng.randint(0, len(names) - 2)
            chosen = names[start : rng.randint(start + 2, len(names))]
        purge = rng.random() < 0.15
        if purge:
            settings["sm.consolidation.purge_deleted_cells"] = "true"
        if not self.model.sparse and rng.random() < 0.5:
            settings["sm.consolidation.amplification"] = rng.choice(["2.0", "100.0"])
        if rng.random() < 0.15:
            settings |= {"sm.consolidation.steps": rng.choice([1, 2]), "sm.consolidation.step_min_frags": 2, "sm.consolidation.step_max_frags": rng.choice([2, 3])}
        consolidate(self.ctx, self.uri, settings, chosen)
        self.note(f"consolidate {what} {settings} {chosen}", "consolidated " + what)
        if purge and what not in SIDE:
            self.features.add("purged")
        self.learn(before, purge, window)
        if rng.random() < 0.3:
            self.clean(settings["sm.consolidation.mode"])

    def learn(self, before, purge, window):
        """What consolidation left: each new fragment, by the list of those it replaces."""
        disk = mem.Disk.look(self.uri)
        fresh = disk.fragments - before.fragments
        several = len(fresh) > 1  # a later step's list names the fragment of an earlier one
        dims = [] if self.model.sparse else [d.dtype for d in self.schema.dims]
        facts = fragment_facts(self.ctx, self.uri, dims) if fresh and has("fragment_info_get_array_schema_name") else {}
        if len(fresh) == 1 and before.fragments - disk.fragments:  # the oldest releases remove the inputs at once
            disk.replaced |= {name: before.fragments - disk.fragments for name in fresh}
        while fresh:
            name = next((n for n in fresh if n in disk.replaced and disk.replaced[n] <= set(self.model.fragments)), None)
            if name is None:
                break
            fresh.discard(name)
            inputs = sorted((self.model.fragments[n] for n in disk.replaced[name]), key=before.age)
            own, box = facts.get(name, (None, None))
            schema = next((v.schema for v in self.model.versions if v.name == own), self.schema)
            model = self.model
            merged = model.consolidate_sparse(name, inputs, schema, purge, window) if model.sparse else model.consolidate_dense(name, inputs, schema)
            model.fragments[name] = merged
            if merged.box and not self.current:
                merged.doubts.add("dense consolidation by an old release")  # 2.18 loses cells
            if merged.box and self.limits:
                merged.doubts.add("dense consolidation under a current domain")  # libtiledb 2.30 writes tiles that are too short
            elif merged.box and box and merged.box != box:
                merged.doubts.add("consolidation wrote another box")
            self.note(f"  {name} replaces {sorted(disk.replaced[name])}{'; box ' + str(box) if box else ''}")
            if not several:
                self.settle_name(name)

    def clean(self, mode=None):
        mode = mode or self.rng.choice(["fragments", "fragments", *SIDE])
        settings = {"sm.vacuum.mode": mode}
        vacuum(self.ctx, self.uri, settings)
        self.note(f"vacuum {mode}", "vacuumed " + mode)

    def annotate(self):
        """Puts and deletes array metadata."""
        rng, said = self.rng, []
        with OpenArray(self.ctx, self.uri, WRITE, end=self.now) as array:
            for key in rng.sample(["a", "b b", "é", "long" * 20, "x.y"], rng.choice([1, 1, 2, 3])):
                if self.annotated and rng.random() < 0.3:
                    array.delete_metadata(key)
                    said.append(f"-{key}")
                    continue
                datatype = rng.choice(INTEGERS + FLOATS + ["STRING_UTF8", "STRING_ASCII", "STRING_UTF8"])
                text = values.random_text(rng, 30).encode()
                count = len(text) if "STRING" in datatype else rng.choice([0, 1, 1, 3])
                value = text if "STRING" in datatype else b"".join(values.random_scalar(rng, datatype) for _ in range(count))
                array.put_metadata(key, DATATYPES[datatype][0], count, value)
                said.append(f"{key}: {datatype} x{count} {value!r}")
        self.annotated = True
        self.times.append(self.now)
        self.note(f"metadata at {self.now}: {'; '.join(said)}", "metadata")

    def remove(self):
        """Deletes fragments: those of a span of time, or chosen ones."""
        rng, names = self.rng, sorted(mem.Disk.look(self.uri).fragments - self.model.strangers)
        if self.times and rng.random() < 0.6:
            span = sorted(rng.choices(self.times, k=2))
            self.ctx.call("array_delete_fragments_v2", self.uri.encode(), ct.c_uint64(span[0]), ct.c_uint64(span[1]))
        elif names:
            span = rng.sample(names, 1)
            uris = (ct.c_char_p * 1)(*[os.path.join("file://" + self.uri, "__fragments", n).encode() for n in span])
            self.ctx.call("array_delete_fragments_list", self.uri.encode(), uris, ct.c_size_t(1))
        else:
            return
        self.note(f"fragments {span} deleted", "deleted fragments")

    def crash(self):
        """What a crashed writer leaves: a fragment without its commit, an empty folder, stray files."""
        rng, folder = self.rng, os.path.join(self.uri, "__fragments")
        if not os.path.isdir(folder):
            return
        names = sorted(mem.Disk.look(self.uri).fragments - self.model.strangers)
        stranger = f"__{self.now}_{self.now}_{rng.randbytes(16).hex()}_22"
        names = [n for n in names if os.path.isdir(os.path.join(folder, n))]
        if names and rng.random() < 0.7:
            shutil.copytree(os.path.join(folder, rng.choice(names)), os.path.join(folder, stranger))
        else:
            os.makedirs(os.path.join(folder, stranger))
        self.model.strangers.add(stranger)
        with open(os.path.join(self.uri, "stray.tmp"), "w", encoding="utf-8") as out:
            out.write("nothing")
        self.note(f"crashed writer left {stranger}", "crash leftovers")

    # --- views --------------------------------------------------------------------------------------------------------------------------

    def snapshot(self):
        """A copy of the array as it is now, to be read later."""
        if self.snapshots < 2 and self.current:
            target = os.path.join(self.folder, f"array{self.snapshots}")
            self.snapshots += 1
            shutil.copytree(self.uri, target)
            self.look(target, 1)

    def look(self, uri, more):
        """Time windows on the array as it is now: all of it, and random ones around the events."""
        rng, disk = self.rng, mem.Disk.look(self.uri)
        edges = [t + d for t in self.times or [self.base] for d in (-1, 0, 0, 1) if t + d >= 0]
        spans = [(0, None)] + [(rng.choice([0, 0, rng.choice(edges)]), rng.choice([None, *edges])) for _ in range(more)]
        for start, end in dict.fromkeys(s for s in spans if s[1] is None or s[0] <= s[1]):
            window = Window(uri, start, end, rng.choice(self.more))
            window.schema = self.model.version(mem.NEVER if end is None else end).schema
            try:
                window.schema, window.answer, window.doubts = self.model.read(disk, start, end)
            except (mem.Refused, mem.Unknown) as silence:
                window.silence = silence
            self.windows.append(window)
            if start or end is not None:
                self.features.add("time travel")


def lossless(attr):
    """Without the filter that changes what was written: the model knows the cells as they were given."""
    attr.pipeline = [step for step in attr.pipeline if step[0] != schema_gen.SCALE_FLOAT]
    return attr


def current_domain(rng, schema, places):
    """Bounds per dimension inside the domain, which leave something of the places to write to; None where a dimension has no integer bounds."""
    if any(d.is_var or d.datatype in FLOATS for d in schema.dims):
        return None
    out = []
    for number, dim in enumerate(schema.dims):
        lo, hi = dim.domain
        first = rng.choice([lo, rng.randint(lo, places[number][0] if places else hi)])
        least = places[number][0] if places else first
        out.append((first, rng.choice([hi, rng.randint(least, hi), min(hi, least + dim.window + 3)])))
    return out


def grown(rng, dim, limit):
    lo, hi = dim.domain
    return rng.choice([limit[0], lo, rng.randint(lo, limit[0])]), rng.choice([limit[1], hi, rng.randint(limit[1], hi)])


def within(pool, dim, limit):
    if limit is None:
        return pool
    kept = [p for p in pool if limit[0] <= int(np.frombuffer(p, dim.dtype)[0]) <= limit[1]]
    return kept or [np.array([limit[0]], dim.dtype).tobytes()]


def extended(rng, enumeration):
    """The same enumeration with more members."""
    count = rng.choice([1, 2, 5])
    longer = copy.copy(enumeration)
    if enumeration.offsets is not None:
        fresh = [f"more{len(enumeration.values) + i}" for i in range(count)]
        pieces = enumeration.pieces() + [m.encode() for m in fresh]
        longer.offsets = np.cumsum([0] + [len(p) for p in pieces[:-1]]).astype(np.uint64)
    else:
        dtype = np.dtype(schema_gen.DATATYPES[enumeration.datatype][1])
        numbers = [v for v in range(200, 256) if v not in enumeration.values][:count]
        pieces = enumeration.pieces() + [np.array([n], dtype).tobytes() for n in numbers]
        known = np.frombuffer(enumeration.raw, dtype).tolist()
        if set(known) & set(numbers):
            return enumeration
        fresh = np.array(numbers, dtype).view("<u8").tolist() if enumeration.datatype == "FLOAT64" else numbers
    longer.raw, longer.values = b"".join(pieces), enumeration.values + fresh
    return longer


def modest(rng, schema, release):
    """Takes out of a schema what an old release does not know."""
    if release < (2, 0):
        datatype = next((d.datatype for d in schema.dims if d.datatype in INTEGERS or (d.datatype in FLOATS and schema.sparse)), None)
        if datatype is None:
            schema.dims = [schema_gen.dense_dim(rng, d.name, "INT32", 5) for d in schema.dims]
        else:
            like = next(d for d in schema.dims if d.datatype == datatype)
            schema.dims = [replace(like, name=d.name) for d in schema.dims] if schema.sparse else schema.dims
        schema.allows_dups = False
    for dim in schema.dims:
        limit = schema_gen.int_range_of(dim.datatype)[1] if not schema.sparse else None
        if limit and dim.domain[1] - dim.domain[0] >= limit:  # old releases lose their way in such wide domains
            dim.domain = (dim.domain[0], dim.domain[0] + dim.window + 20)
        if "TIME_" in dim.datatype and release < (2, 3):
            dim.datatype = "INT64"
        dim.pipeline = old_filters(dim.pipeline, release) if release >= (2, 0) else []
        if dim.extent is None and not dim.is_var and release < (2, 2):
            dim.extent = dim.dtype.type(dim.domain[1] - dim.domain[0]) / 2 if dim.datatype in FLOATS else schema_gen.integer_extent(rng, *dim.domain, dim.datatype)
    if schema.cell_order == HILBERT and release < (2, 2):
        schema.cell_order = ROW_MAJOR
    for attr in schema.attrs or [schema_gen.random_attr(rng, "only")]:
        modest_attribute(rng, attr, release)
        if attr not in schema.attrs:
            schema.attrs.append(attr)
        attr.name = attr.name or "named"
    schema.coords, schema.offsets, schema.validity = (old_filters(p, release) for p in (schema.coords, schema.offsets, schema.validity))
    schema.features = schema_gen.describe(schema)


def modest_attribute(rng, attr, release):
    known = INTEGERS + FLOATS + ["STRING_ASCII", "STRING_UTF8"] + (["DATETIME_MS", "DATETIME_DAY", "TIME_NS"] if release >= (2, 3) else []) + (["CHAR"] if release >= (2, 1) else [])
    if attr.datatype not in known:
        attr.datatype, attr.ncell, attr.fill, attr.pipeline = rng.choice(INTEGERS + FLOATS), 1, None, []
    attr.nullable = attr.nullable and release >= (2, 3)
    if release < (2, 17):
        attr.enumeration = None
    if release < (2, 1) or (attr.fill and release < (2, 3)):
        attr.fill = None
    attr.fill_valid = attr.fill_valid if attr.nullable and attr.fill else 0
    attr.pipeline = old_filters(attr.pipeline, release)
    attr.tame = any(number == schema_gen.DOUBLE_DELTA for number, _ in attr.pipeline)


def old_filters(pipeline, release):
    """Without the filters a release lacks (checksums since 2.0, dictionaries 2.10, XOR 2.12, delta 2.16), and without bit width reduction, which some old releases get wrong for wide ranges."""
    limit = 10 if release < (2, 0) else 13 if release < (2, 10) else 14 if release < (2, 12) else 16 if release < (2, 17) else 99
    return [(number, options) for number, options in pipeline if number <= limit and number != schema_gen.BWR]


def begin(seed, folder, libraries):
    """The history of a seed before anything happened. Seeds that begin with o start with an old release and may go on with newer ones."""
    rng = random.Random(seed)
    releases = [None]
    if seed.startswith("o"):
        first = rng.randrange(len(libraries))
        releases = [libraries[first], *sorted(rng.sample(libraries[first + 1 :], min(len(libraries) - first - 1, rng.choice([0, 0, 1, 2]))), key=libraries.index)]
        releases += [None] if rng.random() < 0.4 else []
    return History(rng, folder, releases)


def go_on(history, number):
    """One release's part of a history, in this process (a child)."""
    history.work_with(history.releases[number])
    if number == 0:
        history.create()
    many = history.rng.choice([1, 2, 3, 4, 6, 8, 12])
    history.live(many if history.current else -(-many // 2))


def finish(history):
    """Chooses the windows; the installed libtiledb tells how far old releases have widened boxes."""
    if not history.current:
        if history.releases[-1]:
            history.work_with(None)
        dims = [] if history.model.sparse else [d.dtype for d in history.schema.dims]
        try:
            facts = fragment_facts(history.ctx, history.uri, dims)
        except TileDBError as refusal:
            facts = {}
            history.note(f"fragment info refused: {refusal}", "refused fragment info")
        for fragment in history.model.fragments.values():
            box = facts.get(fragment.name, (None, None))[1]
            if fragment.inputs and box and box != fragment.box:
                history.note(f"the box of {fragment.name} is {box} instead of {fragment.box}", "widened box")
                fragment.fit(box)
    history.look(history.uri, history.rng.choice([2, 3, 4]))


__all__ = ["begin", "go_on", "finish", "Window"]
