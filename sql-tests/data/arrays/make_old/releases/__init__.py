"""The registry: what is written once per format version. See `make.py`."""

import pathlib
import tarfile
from dataclasses import dataclass, field

from forge import to_version_1

BUNDLED = 22


@dataclass
class Case:
    """One golden array of one version; the fields are those `make_arrays` knows, and `steps`: [(whose library, what it does), …].

    `same_as`: where libtiledb cannot read what it should, the array of another version with the same cells that it can read.
    `forge`: a change to the finished array, after libtiledb has read it.
    A step is a function of an `OldArray`; each runs in a process of its own, which has loaded nothing but that version's library.
    """

    name: str
    proves: str
    features: list
    steps: list
    windows: list = field(default_factory=list)
    version: int = None
    same_as: str = None
    twin: bool = False
    fails: str = None
    forge: object = None
    refused: str = None
    durations: bool = False
    layouts: bool = True
    rows: int = None
    config: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)


CASES = []


def forge_1(a):
    to_version_1(a.path)


def each(name, versions, proves, *features, same_as=lambda v: None, **more):
    """Declares an array per version. The function takes the version and returns the steps, or writes the array itself (one step)."""

    def register(steps):
        for v in versions:
            found = steps(v)
            if callable(found):
                found = [(v, found)]
            if v == 1:
                found = [step for version, work in found for step in ([(2, work), (2, forge_1)] if version == 1 else [(version, work)])]
            CASES.append(Case(f"v{v:02}_{name}", proves, list(features), found, version=v, same_as=same_as(v) and f"v{same_as(v):02}_{name}", **more))
        return steps

    return register


def theirs(name, proves, *features):
    """An array that stands in `origin.tar.xz` as libtiledb's own tests have it."""

    def unpack(a):
        with tarfile.open(pathlib.Path(__file__).parent.parent / "origin.tar.xz") as archive:
            members = [member for member in archive if member.name.startswith(f"{name}/")]
            archive.extractall(a.path.parent, members, filter="data")

    CASES.append(Case(name, proves, list(features), [(BUNDLED, unpack)], version=int(name[1:3])))


def load_all():
    from releases import basics, bitsort, datatypes, history, newest, pipelines  # noqa: F401

    names = [c.name for c in CASES]
    doubled = {n for n in names if names.count(n) > 1}
    if doubled:
        raise SystemExit(f"array names used twice: {doubled}")
    return sorted(CASES, key=lambda c: c.name)
