"""The registry: each theme's module declares its arrays with `@case`; `make.py` builds and reads them."""

from dataclasses import dataclass, field


@dataclass
class Case:
    """One golden array. `proves` is the line in INDEX.md; `windows` are time-travel reads in ms, inclusive.

    `fails`: libtiledb itself cannot read the array as it is now, and why; only windows have expected files.
    `refused`: libtiledb reads the array, but the project's type mapping must refuse a value in it (no expected file);
    `config`: settings of libtiledb for reading back (a key; another reader where the default one fails);
    `options`: table options every read needs; `rows`: how many there must be;
    `twin`: libtiledb cannot read the array; the expected files are those of the same case built with `config={}`;
    `layouts`: whether the reading is repeated in another order and compared; `durations`: an additional expected file for the option `tiledb.time_as = duration`.
    """

    name: str
    build: object
    proves: str
    features: list
    windows: list = field(default_factory=list)
    refused: str = None
    fails: str = None
    durations: bool = False
    layouts: bool = True
    rows: int = None
    config: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)
    twin: bool = False


CASES = []


def case(name, proves, *features, **more):
    def register(build):
        CASES.append(Case(name, build, proves, list(features), **more))
        return build

    return register


def load_all():
    from cases import (commits, consolidation, coordinates, delete_conditions, dense, deletes, encrypted, enumerations, datatypes, filters, labels, metadata, orders, ours, showcase, sparse, time_travel, versions)  # noqa: F401

    names = [c.name for c in CASES]
    doubled = {n for n in names if names.count(n) > 1}
    if doubled:
        raise SystemExit(f"array names used twice: {doubled}")
    return sorted(CASES, key=lambda c: c.name)
