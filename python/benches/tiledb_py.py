"""How fast are boxes and rows, beside TileDB-Py?

    python python/benches/tiledb_py.py                 # in a folder for temporary files
    python python/benches/tiledb_py.py /fast/disk

Both read the same arrays: a dense one of 50 million cells (float64, tiles of a million, zstd), and a sparse one of ten million rows.
Each case runs in a process of its own, once to warm up and then five times; the shortest time counts. Memory is the peak of the
process above what it had before the first read. TileDB-Py makes DataFrames with pandas 2 only, so its interpreter may be another one:
``TILEDB_PYTHON=/path/to/python``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = {
    "dense box of 50 M cells into NumPy": ("dense[:, :]", "dense['v'][:, :]"),
    "dense box of 1 % into NumPy": ("dense[100:800, 2000:2714]", "dense['v'][100:800, 2000:2714]"),
    "a dense cell": ("dense[4321, 1234]", "dense['v'][4321, 1234]"),
    "sparse array of 10 M rows into pandas": ("sparse.df[:]", "sparse.scan().to_pandas()"),
}

MEASURE = """
import json, resource, sys, time
library, folder, code = sys.argv[1:]
if library == "tiledb":
    import tiledb
    dense, sparse = tiledb.open(folder + "/dense"), tiledb.open(folder + "/sparse")
else:
    import tiledb_sql
    dense, sparse = tiledb_sql.open(folder + "/dense"), tiledb_sql.open(folder + "/sparse")
read = compile(code, "case", "eval")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before, times = peak(), []
for _ in range(6):
    began = time.perf_counter()
    found = eval(read)
    times.append(time.perf_counter() - began)
    if "[" in code and not hasattr(found, "columns"):
        found = found["v"] if isinstance(found, dict) else found
        print(float(found.ravel()[::9973].sum()) if hasattr(found, "ravel") else float(found), file=sys.stderr)
    else:
        print(len(found), round(float(found["v"].sum()), 3), file=sys.stderr)
    del found
print(json.dumps([min(times[1:]), peak() - before]))
"""

MAKE = """
import sys
import numpy as np, pyarrow as pa
import tiledb_sql as ts
folder = sys.argv[1]
con = ts.connect()
con.sql(f"CREATE EXTERNAL TABLE d (y BIGINT, x BIGINT, v DOUBLE NOT NULL, PRIMARY KEY (y, x)) STORED AS TILEDB LOCATION '{folder}/dense' "
        "OPTIONS ('tiledb.array_type' 'dense', 'tiledb.dim.y.domain' '[0, 6999]', 'tiledb.dim.x.domain' '[0, 7142]', "
        "'tiledb.dim.y.tile' '1000', 'tiledb.dim.x.tile' '1000', 'tiledb.attr.v.filters' 'zstd(3)')")
dense = con.open(folder + "/dense")
rng = np.random.default_rng(1)
dense[...] = np.round(rng.random(dense.shape) * 1000) / 4
x = rng.permutation(10_000_000)
con.write({"x": x, "k": (x % 1000).astype("int32"), "v": rng.random(len(x))}, folder + "/sparse", ["x"], choose_by="types")
"""


def measured(python: str, library: str, folder: str, code: str) -> tuple[float, int, str]:
    """Seconds, megabytes, and what was read."""
    run = subprocess.run([python, "-c", MEASURE, library, folder, code], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(run.stderr)
    seconds, megabytes = json.loads(run.stdout)
    return seconds, megabytes, run.stderr


def main() -> None:
    """Prints a row for each case."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        subprocess.run([sys.executable, "-c", MAKE, folder], check=True)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        print(f"{size / 1e6:.0f} MB in arrays\n")
        print("| case | TileDB-Py | this package | faster by | memory |\n|---|---|---|---|---|")
        for case, (theirs, ours) in CASES.items():
            other = measured(os.environ.get("TILEDB_PYTHON", sys.executable), "tiledb", folder, theirs)
            own = measured(sys.executable, "tiledb_sql", folder, ours)
            if other[2] != own[2]:
                sys.exit(f"{case}: other values\n{other[2]}\n{own[2]}")
            print(
                f"| {case} | {other[0] * 1e3:.1f} ms | {own[0] * 1e3:.1f} ms | {other[0] / own[0]:.1f} × | "
                f"{other[1]} MB and {own[1]} MB |"
            )


if __name__ == "__main__":
    main()
