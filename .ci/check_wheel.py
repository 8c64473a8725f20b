#!/usr/bin/env python3
"""Checks wheels of the Python package: their size, their files, and, in a fresh virtual environment, how fast they are imported.

A wheel that isn't for this interpreter is not imported.
"""

import pathlib
import subprocess
import sys
import tempfile
import venv
import zipfile

MOST_BYTES = 35_000_000
MOST_IMPORT_MS = 100

# The quickest of several imports, in processes of their own; and what it must not bring along.
IMPORT = """
import sys, time
began = time.perf_counter()
import tiledb_sql
took = time.perf_counter() - began
heavy = {"numpy", "pyarrow", "pandas", "polars", "xarray", "duckdb", "logging", "asyncio"} & set(sys.modules)
assert not heavy, f"import tiledb_sql also imports {sorted(heavy)}"
print(took * 1000)
"""
QUERY = "import tiledb_sql as ts; assert ts.sql('SELECT 6 * 7 AS n').fetchall() == [(42,)]"


def problems_of(wheel: pathlib.Path) -> list[str]:
    """What is wrong with the file."""
    found = []
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size} bytes")
    if size > MOST_BYTES:
        found.append(f"{size} bytes, expected at most {MOST_BYTES}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        engine = [name for name in names if name.startswith("tiledb_sql/_engine") and name.endswith((".so", ".pyd"))]
        if len(engine) != 1:
            found.append(f"expected one extension module, found {engine}")
        for wanted in ["tiledb_sql/py.typed", "tiledb_sql/_engine.pyi"]:
            if wanted not in names:
                found.append(f"no {wanted}")
        licenses = [name for name in names if ".dist-info/licenses/" in name]
        for wanted in ["LICENSE", "THIRD-PARTY.txt"]:
            if not any(name.endswith(f"/{wanted}") for name in licenses):
                found.append(f"no {wanted}: run .ci/licenses before the build")
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
        if "License-Expression: Apache-2.0" not in text:
            found.append("the metadata has no License-Expression")
        required = [line for line in text.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
        if required:
            found.append(f"it requires {required}")
    return found


def problems_when_imported(wheel: pathlib.Path) -> list[str]:
    """What is wrong with the package in an environment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        programs = pathlib.Path(folder) / ("Scripts" if sys.platform == "win32" else "bin")
        python = programs / "python"
        installed = subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", wheel.resolve()], capture_output=True, text=True)
        if installed.returncode != 0:
            if "not a supported wheel on this platform" in installed.stderr:
                print("  not for this interpreter")
                return []
            return [installed.stderr]

        def run(*command: object) -> str:
            return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, cwd=folder).stdout

        # The first one reads the file from the disk, and compiles the sources.
        times = [float(run(python, "-c", IMPORT)) for _ in range(6)]
        print(f"  imported in {times[0]:.0f} ms at first, then in {min(times[1:]):.0f} ms")
        run(python, "-c", QUERY)
        if run(programs / "tiledb-sql", "-q", "--format", "csv", "-c", "SELECT 6 * 7 AS n") != "n\n42\n":
            return ["the shell doesn't work"]
        if min(times) > MOST_IMPORT_MS:
            return [f"imported in {min(times):.0f} ms, expected at most {MOST_IMPORT_MS}"]
    return []


def main() -> int:
    failed = False
    for wheel in map(pathlib.Path, sys.argv[1:]):
        for problem in problems_of(wheel) + problems_when_imported(wheel):
            print(f"  {problem}", file=sys.stderr)
            failed = True
    return int(failed or len(sys.argv) < 2)


if __name__ == "__main__":
    sys.exit(main())
