"""Formats that no library here can write, made from a neighbour's files by what the two differ in.

Format 1 is format 2 with other version numbers, except that a coordinates file without a compressor is not split by dimension
(libtiledb 1.4's and 1.5's sources differ in nothing else that is stored). libtiledb 2.30 reads the result.

Format 23 is format 22 with optional sections at the end of the footer of a fragment: for sparse fragments, where the first and the last
coordinates of each tile in global order are stored (the format's specification, "Optional section"). No released library reads it, so
the answers are those that libtiledb gave before the change.
"""

import re
import struct
import zlib

from capi import TYPES
from tdbarray import VAR

HEADER = struct.Struct("<IQQBQBI")


def generic(data, at):
    """(contents, position behind) of the generic tile at a position; its pipeline is libtiledb's own: gzip."""
    version, persisted, size, _, _, encryption, pipeline = HEADER.unpack_from(data, at)
    assert encryption == 0
    end = at + HEADER.size + pipeline + persisted
    position = at + HEADER.size + pipeline
    (chunks,) = struct.unpack_from("<Q", data, position)
    position += 8
    out = b""
    for _ in range(chunks):
        _, filtered, metadata = struct.unpack_from("<III", data, position)
        position += 12 + metadata
        out += zlib.decompress(data[position:position + filtered])
        position += filtered
    assert len(out) == size and position == end
    return out, end


def reversioned(data, at, version, contents=None):
    """The generic tile at a position with another version in its header, and other contents."""
    old, _ = generic(data, at)
    contents = old if contents is None else contents
    head = list(HEADER.unpack_from(data, at))
    pipeline = data[at + HEADER.size:at + HEADER.size + head[6]]
    packed = zlib.compress(contents)
    # Compression metadata: one part of data, none of metadata.
    body = struct.pack("<QIII", 1, len(contents), len(packed), 16) + struct.pack("<IIII", 0, 1, len(contents), len(packed)) + packed
    head[0], head[1], head[2] = version, len(body), len(contents)
    return HEADER.pack(*head) + pipeline + body


def restamped(contents, version):
    """Contents whose first field is the version."""
    return struct.pack("<I", version) + contents[4:]


# --- format 1 ---------------------------------------------------------------------------------------------------------


def to_version_1(path):
    """Turns an array of format 2 into one of format 1."""
    schema = path / "__array_schema.tdb"
    data = schema.read_bytes()
    contents, _ = generic(data, 0)
    schema.write_bytes(reversioned(data, 0, 1, restamped(contents, 1)))
    for metadata in path.glob("*/__fragment_metadata.tdb"):
        data = metadata.read_bytes()
        contents, end = generic(data, 0)
        assert end == len(data)
        metadata.write_bytes(reversioned(data, 0, 1, restamped(contents, 1)))
        coords = metadata.with_name("__coords.tdb")
        if coords.exists():
            coords.write_bytes(zipped(coords.read_bytes()))


def zipped(data):
    """Coordinates of two dimensions without compressor, one chunk per dimension, as tiles of interleaved cells; others as they are."""
    out, at = b"", 0
    while at < len(data):
        (chunks,) = struct.unpack_from("<Q", data, at)
        at += 8
        parts = []
        for _ in range(chunks):
            original, filtered, metadata = struct.unpack_from("<III", data, at)
            if chunks != 2 or original != filtered or metadata:
                return data
            parts.append(data[at + 12:at + 12 + filtered])
            at += 12 + filtered
        cells = b"".join(parts[0][i:i + 4] + parts[1][i:i + 4] for i in range(0, len(parts[0]), 4))
        half = len(cells) // 2
        out += struct.pack("<Q", 2) + b"".join(struct.pack("<III", half, half, 0) + c for c in (cells[:half], cells[half:]))
    return out


# --- format 23 --------------------------------------------------------------------------------------------------------


def to_version_23(path, spec):
    """Turns an array of format 22, whose coordinates have no filters, into one of format 23."""
    for schema in (path / "__schema").iterdir():
        if schema.is_file():
            data = schema.read_bytes()
            contents, end = generic(data, 0)
            schema.write_bytes(reversioned(data, 0, 23, restamped(contents, 23)) + data[end:])
    for commit in list((path / "__commits").iterdir()):
        commit.rename(commit.with_name(re.sub(r"_22(\.[a-z]+)$", r"_23\1", commit.name)))
        if commit.suffix == ".vac":
            raise NotImplementedError("names inside")
    for fragment in list((path / "__fragments").iterdir()):
        fragment = fragment.rename(fragment.with_name(re.sub("_22$", "_23", fragment.name)))
        metadata = fragment / "__fragment_metadata.tdb"
        metadata.write_bytes(fragment_metadata(metadata.read_bytes(), fragment, spec))


def fragment_metadata(data, fragment, spec):
    (length,) = struct.unpack("<Q", data[-8:])
    footer = data[-8 - length:-8]
    slots = len(spec.dims) + len(spec.attrs) + 1
    has_timestamps = (fragment / "t.tdb").exists()
    slots += has_timestamps
    # The last offsets of the footer: rtree, eight per slot, fragment statistics, processed conditions.
    count = 1 + 8 * slots + 2
    offsets = list(struct.unpack(f"<{count}Q", footer[-8 * count:]))
    assert offsets[0] == 0 and max(offsets) < len(data)
    first_sum = offsets[1 + 6 * slots]
    starts = sorted(set(offsets))
    tiles = {at: reversioned(data, at, 23) for at in starts}
    added = [reversioned(data, 0, 23, c) for c in bounds(fragment, spec)] if spec.sparse else []
    out, moved, bound_offsets = b"", {}, []
    for at in starts:
        if at == first_sum:
            for tile in added:
                bound_offsets.append(len(out))
                out += tile
        moved[at] = len(out)
        out += tiles[at]
    footer = struct.pack("<I", 23) + footer[4:-8 * count] + struct.pack(f"<{count}Q", *[moved[o] for o in offsets])
    if added:
        footer += struct.pack("<IQI", 1, 0, 8 * len(added)) + struct.pack(f"<{len(added)}Q", *bound_offsets)
    else:
        footer += struct.pack("<I", 0)
    return out + footer + struct.pack("<Q", len(footer))


def bounds(fragment, spec):
    """For each dimension the first coordinates of the tiles, then for each the last ones, as the sections hold them."""
    sections = ([], [])
    for i, d in enumerate(spec.dims):
        fixed = tiles(fragment / f"d{i}.tdb")
        for which, section in zip((0, -1), sections):
            if d.cell_val_num == VAR:
                values = []
                for offsets, values_of_tile in zip(fixed, tiles(fragment / f"d{i}_var.tdb")):
                    starts = [*struct.unpack(f"<{len(offsets) // 8}Q", offsets), len(values_of_tile)]
                    at = 0 if which == 0 else len(starts) - 2
                    values.append(values_of_tile[starts[at]:starts[at + 1]])
                starts, var = [sum(map(len, values[:k])) for k in range(len(values))], b"".join(values)
                section.append(struct.pack("<QQ", 8 * len(starts), len(var)) + struct.pack(f"<{len(starts)}Q", *starts) + var)
            else:
                width = TYPES[d.type][1]
                values = b"".join(t[:width] if which == 0 else t[-width:] for t in fixed)
                section.append(struct.pack("<QQ", len(values), 0) + values)
    return sections[0] + sections[1]


def tiles(path):
    """The contents of the tiles of a file without filters."""
    data, at, out = path.read_bytes(), 0, []
    while at < len(data):
        (chunks,) = struct.unpack_from("<Q", data, at)
        at += 8
        contents = b""
        for _ in range(chunks):
            original, filtered, metadata = struct.unpack_from("<III", data, at)
            assert original == filtered and metadata == 0
            contents += data[at + 12:at + 12 + filtered]
            at += 12 + filtered
        out.append(contents)
    return out
