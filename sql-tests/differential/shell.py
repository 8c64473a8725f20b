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
        failed, panicked = status != 0, "panicked" in stderr
        done = [i for i, ask in enumerate(asks) if os.path.exists(ask.out)]
        if len(asks) == 1 and (failed or panicked):
            answers[asks[0].out] = _blame(status, stderr)
        elif panicked or (failed and status != 1):  # nothing is known about the others
            half = -(-len(asks) // 2)
            self._run(asks[:half], script_path, answers)
            self._run(asks[half:], script_path, answers)
        elif failed:  # by an error: the statement that fails halfway leaves a file that looks complete, so the last file proves nothing
            last = done[-1] if done else 0
            self._take(asks[:last], answers)
            for ask in asks[last : last + 2]:
                self._run([ask], script_path, answers)
            if asks[last + 2 :]:
                self._run(asks[last + 2 :], script_path, answers)
        else:
            self._take(asks, answers)

    def _take(self, asks, answers):
        """The answers of statements that ran to their end; one without rows may leave no file."""
        for ask in asks:
            answers[ask.out] = Answer(compare.read_file(ask.out) if os.path.exists(ask.out) else None)

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


def _blame(status, stderr):
    if status == "timeout":
        return Answer(failure="timeout", message="no answer in time")
    if any(sign in stderr for sign in ("panicked", "internal error:", "this is a bug")):  # the shell tells a panic as an internal error
        return Answer(failure="panic", message=stderr[-3000:])
    kind = "error" if status >= 0 and status not in (101, 134, 139) else "panic"
    return Answer(failure=kind, message=f"exit status {status}\n{stderr[-3000:]}")
