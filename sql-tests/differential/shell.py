"""Drives `tiledb-sql`: many statements in one process, and the blame on the right one when something goes wrong.

Each question is a `COPY (…) TO 'file.arrow'`. A batch whose process fails, hangs or leaves a file out is split until the guilty statement stands alone.
"""

import os
import subprocess
from dataclasses import dataclass

import compare


@dataclass
class Ask:
    """One question in its place: the settings and the table it runs with, and the file its answer goes to."""

    prelude: list
    sql: str
    out: str

    def statements(self):
        return [*self.prelude, f"COPY ({self.sql}) TO '{self.out}' STORED AS ARROW"]


@dataclass
class Answer:
    table: object = None  # pyarrow table
    failure: str = None  # panic, timeout, error
    message: str = ""


class Shell:
    def __init__(self, binary, batch_timeout=180, single_timeout=30):
        self.binary, self.batch_timeout, self.single_timeout = binary, batch_timeout, single_timeout

    def run(self, asks, script_path):
        """{ask.out: Answer} for a batch."""
        answers = {}
        self._run(asks, script_path, answers)
        return answers

    def _run(self, asks, script_path, answers):
        for ask in asks:
            if os.path.exists(ask.out):
                os.remove(ask.out)
        status, stderr = self._execute(asks, script_path)
        clean = status == 0 and "panicked" not in stderr
        suspects = []
        # A statement that fails halfway leaves a file that looks complete: the last one of a process that failed proves nothing.
        last = None if clean else next((ask for ask in reversed(asks) if os.path.exists(ask.out)), None)
        for ask in asks:
            if ask is not last and (clean or "panicked" not in stderr) and os.path.exists(ask.out) and (table := _load(ask.out)) is not None:
                answers[ask.out] = Answer(table)
            elif clean:  # an answer without rows may leave no file
                answers[ask.out] = Answer(None)
            else:
                suspects.append(ask)
        if len(asks) == 1:
            if suspects:
                answers[asks[0].out] = _blame(status, stderr)
            return
        if not suspects:
            return
        step = 1 if len(suspects) <= 4 else -(-len(suspects) // 2) if len(suspects) == len(asks) else len(suspects)
        for start in range(0, len(suspects), step):
            self._run(suspects[start : start + step], script_path, answers)

    def _execute(self, asks, script_path):
        lines, last = [], None
        for ask in asks:
            lines += [f"{s};" for s in (ask.statements() if ask.prelude != last else ask.statements()[-1:])]
            last = ask.prelude
        with open(script_path, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
        timeout = self.single_timeout if len(asks) == 1 else self.batch_timeout
        try:
            done = subprocess.run([*self.binary, "-q", "-f", script_path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
        except subprocess.TimeoutExpired:
            return "timeout", ""
        text = done.stdout.decode(errors="replace")
        complaints = "\n".join(line for line in text.splitlines() if "panicked" in line)
        return done.returncode, done.stderr.decode(errors="replace") + complaints


def _load(path):
    try:
        return compare.read_file(path)
    except Exception:  # cut short by a crash
        return None


def _blame(status, stderr):
    if status == "timeout":
        return Answer(failure="timeout", message="no answer in time")
    if "panicked" in stderr:
        return Answer(failure="panic", message=stderr[-3000:])
    kind = "error" if status >= 0 and status not in (101, 134, 139) else "panic"
    return Answer(failure=kind, message=f"exit status {status}\n{stderr[-3000:]}")
