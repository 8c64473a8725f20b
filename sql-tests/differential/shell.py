"""Drives `tiledb-sql`: many statements in one process, and the blame on the right one when something goes wrong.

Each question is a `COPY (…) TO 'file.arrow'` on a line of its own. The shell reads the script from its standard input, goes on after an error and names the line, so every error finds
its question. A batch whose process dies or hangs is split until the guilty statement stands alone.
"""

import os
import re
import subprocess
from dataclasses import dataclass

import compare

ERROR = re.compile(r"^Error \(stdin, line (\d+)\): ", re.M)


@dataclass
class Ask:
    """One question in its place: the settings and the table it runs with, and the file its answer goes to."""

    prelude: list
    sql: str
    out: str

    def statement(self):
        return f"COPY ({self.sql}) TO '{self.out}' STORED AS ARROW"

    def statements(self):
        return [*self.prelude, self.statement()]


@dataclass
class Answer:
    table: object = None  # pyarrow table
    failure: str = None  # panic, timeout, error
    message: str = ""


class Shell:
    def __init__(self, binary, batch_timeout=300, single_timeout=30, variables=None):
        self.variables = variables or {}
        self.binary, self.batch_timeout, self.single_timeout = binary, batch_timeout, single_timeout

    def run(self, asks, script_path):
        """{ask.out: Answer} for a batch; the script is left at `script_path`."""
        answers = {}
        if asks:
            self._run(asks, script_path, answers)
        return answers

    def _run(self, asks, script_path, answers):
        for ask in asks:
            if os.path.exists(ask.out):
                os.remove(ask.out)
        lines, owner = script(asks)
        with open(script_path, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
        status, stderr = self._execute(script_path, len(asks))
        if status in (0, 1):
            errors = by_question(stderr, owner)
            for number, ask in enumerate(asks):
                # The statement that fails halfway leaves a file that looks complete; one without rows may leave none.
                answers[ask.out] = blame(errors[number]) if number in errors else Answer(compare.read_file(ask.out) if os.path.exists(ask.out) else None)
        elif len(asks) == 1:
            answers[asks[0].out] = Answer(failure="timeout", message="no answer in time") if status == "timeout" else Answer(failure="panic", message=f"exit status {status}\n{stderr[-3000:]}")
        else:
            half = -(-len(asks) // 2)
            self._run(asks[:half], script_path, answers)
            self._run(asks[half:], script_path, answers)

    def _execute(self, script_path, count):
        seconds = self.single_timeout if count == 1 else self.batch_timeout + count
        with open(script_path, "rb") as source, subprocess.Popen([*self.binary, "-q"], stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ | self.variables) as shell:
            for _ in range(seconds):  # that this process runs: being held up is no hang
                try:
                    stderr = shell.communicate(timeout=1)[1]
                    return shell.returncode, stderr.decode(errors="replace")
                except subprocess.TimeoutExpired:
                    pass
            shell.kill()
        return "timeout", ""


def script(asks):
    """(statements, one per line; for each line the questions that depend on it)"""
    lines, owner, last, users = [], [], None, None
    for number, ask in enumerate(asks):
        if ask.prelude != last:
            users = []
            lines += [f"{statement};" for statement in ask.prelude]
            owner += [users] * len(ask.prelude)
            last = ask.prelude
        users.append(number)
        lines.append(f"{ask.statement()};")
        owner.append([number])
    return lines, owner


def by_question(stderr, owner):
    """{question: its first error}"""
    marks, errors = list(ERROR.finditer(stderr)), {}
    for mark, following in zip(marks, [*marks[1:], None]):
        text = stderr[mark.end() : following.start() if following else len(stderr)].strip()
        for number in owner[int(mark[1]) - 1]:
            errors.setdefault(number, text)
    return errors


def blame(message):
    panic = any(sign in message for sign in ("panicked", "internal error:", "this is a bug"))  # the shell tells a panic as an internal error
    return Answer(failure="panic" if panic else "error", message=message[-3000:])
