"""Ctrl-C at random moments of reading and writing. ``INTERRUPTS=300`` tries that many; the default is a few."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

# An interrupted import of these would fail forever.
import numpy  # noqa: F401
import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
import pytest

import tiledb_sql as ts

COUNT = int(os.environ.get("INTERRUPTS", "24"))
ROWS = 10_000

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Ctrl-C goes to the whole console there")


class Interrupter:
    """Sends Ctrl-C to the main thread once, after some seconds; and waits until it has come."""

    def __init__(self, after: float) -> None:
        self.timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))

    def run(self, work: "Callable[[], object]") -> "tuple[bool, float]":
        """Whether the work was interrupted, and the seconds that it took."""
        ended = None
        began = time.monotonic()
        try:
            self.timer.start()
            work()
            ended = time.monotonic() - began
            # The work was faster.
            time.sleep(10)
        except KeyboardInterrupt:
            pass
        return ended is None, time.monotonic() - began if ended is None else ended


def state(con: ts.Session, uri: Path) -> "tuple[int, int, int]":
    rows = con.sql(f"SELECT count(*), sum(x), sum(v) FROM '{uri}'").fetchall()[0]
    return int(rows[0]), int(rows[1] or 0), int(rows[2] or 0)


def test_ctrl_c_at_random_moments(tmp_path: Path) -> None:
    seed = int(os.environ.get("INTERRUPTS_SEED", str(random.randrange(1 << 30))))
    print(f"INTERRUPTS_SEED={seed}")
    rng = random.Random(seed)
    con = ts.connect()
    uri = tmp_path / "t"
    con.sql(
        f"""CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{uri}'
        OPTIONS ('tiledb.capacity' '1000')"""
    )
    con.sql(f"INSERT INTO t SELECT value, value AS v FROM generate_series(1, {ROWS})")
    array = con.open(uri)
    assert isinstance(array, ts.Array)
    everything = f"SELECT * FROM '{uri}'"
    reads: "list[Callable[[], object]]" = [
        lambda: con.sql(everything).to_arrow(),
        lambda: con.sql(f"SELECT v % 7 AS k, count(*) FROM '{uri}' GROUP BY k ORDER BY k").fetchall(),
        lambda: con.sql(f"SELECT count(*) FROM '{uri}' a JOIN '{uri}' b ON a.v = b.v + 1").to_pandas(),
        lambda: array.scan(["v"], where="x % 5 = 0").to_numpy(),
        lambda: repr(con.sql(f"SELECT * FROM '{uri}' ORDER BY v DESC")),
    ]
    # What each write makes of the number of rows, of the sum of x and of the sum of v.
    added = ROWS // 2
    new = f"SELECT value + 1000000, 1 FROM generate_series(1, {added})"
    writes: "list[tuple[Callable[[], object], Callable[[tuple[int, int, int]], tuple[int, int, int]]]]" = [
        (
            lambda: con.sql(f"INSERT INTO t {new}"),
            lambda s: (s[0] + added, s[1] + added * 1_000_000 + added * (added + 1) // 2, s[2] + added),
        ),
        (lambda: con.sql("UPDATE t SET v = v + 1 WHERE x <= 5000"), lambda s: (s[0], s[1], s[2] + 5_000)),
        (lambda: array.delete("x > 1000000"), lambda s: (ROWS, ROWS * (ROWS + 1) // 2, s[2] - (s[0] - ROWS))),
        (lambda: array.consolidate().fetchall(), lambda s: s),
        (lambda: array.vacuum(min_age="0").fetchall(), lambda s: s),
    ]
    interrupted = slow = late = 0
    before = state(con, uri)
    # The seconds that each kind of work took last: Ctrl-C comes while it runs, at any moment.
    durations: "dict[object, float]" = {}
    for round_ in range(COUNT):
        is_read = rng.random() < 0.4
        if is_read:
            work, after = rng.choice(reads), before
        else:
            has_new = before[0] > ROWS
            # Rows with new keys are there or not.
            work, change = rng.choice([w for i, w in enumerate(writes) if (i != 0 or not has_new) and (i != 2 or has_new)])
            after = change(before)
        wait = rng.random() * durations.get(work, 0.05)
        was_interrupted, seconds = Interrupter(wait).run(work)
        interrupted += was_interrupted
        slow += was_interrupted and seconds - wait > 1
        durations[work] = durations.get(work, 0.05) * 1.3 if was_interrupted else seconds
        found = state(con, uri)
        assert found in (before, after), f"round {round_} of the seed {seed}: {found} is neither {before} nor {after}"
        # A commit that was under way may end a moment later, but none is undone.
        time.sleep(0.05)
        settled = state(con, uri)
        assert settled in (found, after), f"round {round_} of the seed {seed}: {settled} comes after {found}"
        late += settled != found
        before = settled
    assert interrupted > COUNT // 4
    assert slow <= COUNT // 20 + 1
    assert late <= COUNT // 20 + 1
    print(f"{interrupted} of {COUNT} interrupted, {slow} slowly; {late} commits came late")
    # Only files that were never completed may be left.
    assert {row[0] for row in array.check()} <= {"leftover"}
    array.vacuum(min_age="0")
    assert state(con, uri) == before


def test_ctrl_c_is_noticed_within_three_tenths_of_a_second(con: ts.Session, weather: str) -> None:
    slow = con.sql(
        f"SELECT sum(temperature * b.value) FROM '{weather}' CROSS JOIN generate_series(1, 100000000) b WHERE b.value % 3 < 2"
    )
    waits = []
    for _ in range(5):
        sent: "list[float]" = []

        def send() -> None:
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        threading.Timer(0.3, send).start()
        with pytest.raises(KeyboardInterrupt):
            slow.fetchall()
        waits.append(time.monotonic() - sent[0])
    # The machine may be busy once.
    assert sorted(waits)[3] < 0.3, waits
