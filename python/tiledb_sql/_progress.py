"""How far statements are, shown while a call waits for them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import NamedTuple, TextIO, Union


class Progress(NamedTuple):
    """How far a statement is, as the function ``progress`` of :func:`connect` gets it.

    ``fraction`` is between 0 and 1, or None while the amount of work is unknown. ``text`` is what has been done and how long the rest may
    take. ``done`` is true in the last call for a statement, which also comes after a failure.
    """

    fraction: float | None
    seconds: float
    text: str
    done: bool


ProgressOption = Union[Callable[[Progress], object], bool, None]
"""A function that gets :class:`Progress`; False for nothing; True or None for a line on stderr, if that is a terminal or a notebook."""

_Report = Callable[[Union[float, None], float, str, bool], None]

_BAR = 24
_WIDTH = 79

# The thread whose statement has the line. Statements of other threads show nothing meanwhile.
_shown_by: int | None = None
_lock = threading.Lock()


def reporter(option: ProgressOption) -> _Report | None:
    """The function that the engine calls; None if nobody looks."""
    if option is False:
        return None
    if option is None or option is True:
        return _show_line if _is_watched(sys.stderr) else None
    if not callable(option):
        raise TypeError(f"progress is a function, True or False, not {type(option).__name__}")
    call = option

    def report(fraction: float | None, seconds: float, text: str, done: bool) -> None:
        call(Progress(fraction, seconds, text, done))

    return report


def _is_watched(stream: TextIO | None) -> bool:
    """Whether a person sees the stream at once: in a terminal or a notebook."""
    if stream is None:
        return False
    try:
        if stream.isatty():
            return True
    except (AttributeError, ValueError):
        return False
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def _show_line(fraction: float | None, seconds: float, text: str, done: bool) -> None:
    global _shown_by
    me = threading.get_ident()
    with _lock:
        if _shown_by not in (None, me):
            return
        _shown_by = None if done else me
    line = "" if done else _line(fraction, text)[:_WIDTH]
    try:
        # Spaces clear the line in notebooks, too, which know no escapes.
        sys.stderr.write(f"\r{line:<{_WIDTH}}\r{line}")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        # A statement doesn't fail because nobody sees how far it is.
        pass


def _line(fraction: float | None, text: str) -> str:
    if fraction is None:
        return f" {text}"
    full = int(fraction * _BAR)
    return f" [{'#' * full}{'.' * (_BAR - full)}] {int(fraction * 100):3} %  {text}"
