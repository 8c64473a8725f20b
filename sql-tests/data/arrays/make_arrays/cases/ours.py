"""Arrays that `tiledb-sql` writes, by the statements in `ours.sql`: what libtiledb reads of them guards what this project writes.

The built shell is `target/debug/tiledb-sql`, or what the variable TILEDB_SQL names.
"""

import os
import pathlib
import re
import subprocess

from cases import case
from cases.encrypted import CONFIG, KEY, OPTIONS

FOLDER = pathlib.Path(__file__).resolve().parents[2]
SHELL = os.environ.get("TILEDB_SQL", str(FOLDER.parents[2] / "target" / "debug" / "tiledb-sql"))
HEAD = re.compile(r"(?P<name>\w+)(?: \[(?P<windows>[^]]*)\])?(?P<key> \(key\))?: (?P<proves>.*)")


def builder(statements):
    def build(path):
        sql = statements.replace("$ARRAY", str(path)).replace("$KEY", KEY)
        done = subprocess.run([SHELL, "-q", "--format", "json"], input=sql, capture_output=True, text=True)
        if done.returncode or done.stderr:
            raise AssertionError(f"{SHELL} ended with {done.returncode}: {done.stderr}")

    return build


for section in re.split(r"^--- ", (FOLDER / "ours.sql").read_text(), flags=re.M)[1:]:
    head, statements = section.split("\n", 1)
    head = HEAD.fullmatch(head)
    windows = [tuple(map(int, window.split("-"))) for window in (head["windows"] or "").split(", ") if window]
    more = {"config": CONFIG, "options": OPTIONS} if head["key"] else {}
    case(head["name"], f"written by this project: {head['proves']}", "ours", windows=windows, **more)(builder(statements))
