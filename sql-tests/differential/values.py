"""Random raw cells, with a taste for trouble: type limits, NaN payloads, -0.0, infinities, NaT, dates before 1970, empty strings, NUL bytes, non-ASCII text."""

import struct

import numpy as np

from fieldtypes import BINARIES, FLOATS, INTEGERS, NAT, NS_PER, TEXTS, VAR, WIDE_TEXTS, int_range, size_of

F64_ODD = [0x0, 0x8000000000000000, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001,
           0x1, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x3FF0000000000000, 0x3FB999999999999A]
F32_ODD = [0x0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7FC00001, 0xFFC00000, 0x7F800001, 0x1, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0x3DCCCCCD]
TEXT_PIECES = ["", "a", "b", "ab", "abc", "Z", "0", " ", "é", "ß", "日本", "\U0001F600", "\0", "a\0", "%", "_", "'", '"', "\\", "~", "\x7f", "NULL", "x" * 13, "prefix-"]
ASCII_PIECES = ["a", "b", "ab", "abc", "Z", "0", " ", "%", "_", "'", "~", "NULL", "x" * 13, "prefix-", ""]
YEARS = 5_000_000


def temporal_bounds(datatype):
    """Raw bounds inside which every value of a date/time type has a column value (NaT is outside)."""
    kind, unit = datatype.split("_")
    whole = (-(2**63) + 1, 2**63 - 1)
    if unit in ("PS", "FS", "AS"):
        return whole
    if kind == "TIME":
        return 0, 86400 * 10**9 // NS_PER[unit] - 1
    days = {"YEAR": YEARS, "MONTH": YEARS * 12, "WEEK": (2**31 - 1) // 7, "DAY": 2**31 - 1}
    seconds = {"HR": (2**63 - 1) // 3600, "MIN": (2**63 - 1) // 60}
    bound = days.get(unit) or seconds.get(unit)
    return (-bound, bound) if bound else whole


def random_scalar(rng, datatype, tame=False, nat=True):
    """One raw element as bytes."""
    if datatype in FLOATS:
        return random_float(rng, datatype, tame)
    if datatype == "BOOL":
        return bytes([rng.randint(0, 1)])
    code = "<i8" if "TIME_" in datatype else None
    low, high = int_range(datatype) if datatype in INTEGERS else temporal_bounds(datatype)
    if tame:
        value = rng.randint(0, min(high, 100))
    else:
        value = rng.choice([low, high, 0, 1, low + 1, high - 1, rng.randint(low, high), rng.randint(max(low, -50), min(high, 50)), rng.randint(max(low, -50), min(high, 50))])
        value = max(low, min(high, value))
        if code and nat and rng.random() < 0.08:
            value = NAT
    return np.array([value], code or f"<{'u' if datatype[0] == 'U' else 'i'}{size_of(datatype)}").tobytes()


def random_float(rng, datatype, tame):
    letter, odd, uint = ("f", F32_ODD, "I") if datatype == "FLOAT32" else ("d", F64_ODD, "Q")
    if not tame and rng.random() < 0.3:
        return struct.pack("<" + uint, rng.choice(odd))
    value = rng.choice([rng.uniform(-10, 10), float(rng.randint(-50, 50)), rng.uniform(0, 1e6), rng.uniform(-1e30, 1e30) if not tame else 1.5])
    return struct.pack("<" + letter, value)


def random_text(rng, longest, pieces=TEXT_PIECES):
    """Text of at most `longest` UTF-8 bytes."""
    out = ""
    for _ in range(rng.choice([0, 1, 1, 2, 3, 8, 40])):
        piece = rng.choice(pieces)
        if len((out + piece).encode()) > longest:
            break
        out += piece
    return out


def random_cell(rng, attr):
    """One raw cell of an attribute."""
    if attr.enumeration:
        members = len(attr.enumeration.values)
        low, high = int_range(attr.datatype)
        code = rng.randint(0, members - 1) if rng.random() < 0.92 else rng.choice([low, high, members, -1])
        return np.array([max(low, min(high, code, ))], attr.dtype).tobytes()
    if attr.datatype in WIDE_TEXTS:
        pieces = [p for p in TEXT_PIECES if all(ord(c) < 0xFFFF for c in p)] if "UCS2" in attr.datatype else TEXT_PIECES
        return random_text(rng, attr.max_length, pieces).encode(WIDE_TEXTS[attr.datatype])
    if attr.datatype in TEXTS:
        if attr.is_var:
            return random_text(rng, attr.max_length).encode()
        raw = random_text(rng, attr.ncell).encode()
        return raw + rng.choice([b"\0", b" ", b"q"]) * (attr.ncell - len(raw))
    if attr.datatype in BINARIES:
        length = rng.choice([0, 1, 2, 5, attr.max_length]) if attr.is_var else attr.ncell
        return rng.choice([rng.randbytes(length), b"\0" * length, b"\xff" * length])
    count = rng.choice([0, 1, 2, 5]) if attr.is_var else attr.ncell
    return b"".join(random_scalar(rng, attr.datatype, attr.tame, nat=attr.ncell == 1) for _ in range(count))


def one_element(attr):
    """The smallest legal fill value of a variable attribute."""
    if attr.datatype in WIDE_TEXTS:
        return "q".encode(WIDE_TEXTS[attr.datatype])
    return b"q" if attr.datatype in TEXTS + BINARIES else b"\0" * size_of(attr.datatype)


__all__ = ["random_cell", "random_scalar", "random_text", "temporal_bounds", "one_element", "VAR"]
