"""The engine's log as records of ``logging``: those of its module ``tiledb_engine::scan`` belong to the logger
``tiledb_sql.tiledb_engine.scan``."""

from __future__ import annotations

import atexit
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging as _logging

_NAME = "tiledb_sql"

# A level that no record has. Loggers remember whether they take it, until a level changes anywhere.
_PROBE = 1


def levels() -> list[tuple[str, int]] | None:
    """The levels of the loggers of the engine's modules; None if they haven't changed since the last call."""
    logging = sys.modules.get("logging")
    if logging is None:
        return None
    root: _logging.Logger = logging.getLogger(_NAME)
    if _PROBE in getattr(root, "_cache", ()):
        return None
    root.isEnabledFor(_PROBE)
    disabled = root.manager.disable

    def level(logger: _logging.Logger) -> int:
        return sys.maxsize if logger.disabled else max(logger.getEffectiveLevel(), disabled + 1)

    found = [("", level(root))]
    for name, logger in list(root.manager.loggerDict.items()):
        if name.startswith(_NAME + ".") and isinstance(logger, logging.Logger):
            found.append((name[len(_NAME) + 1 :].replace(".", "::"), level(logger)))
    return found


def emit(records: list[tuple[str, int, str, int, str, float, str]], dropped: int) -> None:
    """Gives records to their loggers."""
    import logging

    for target, level, file, line, text, created, thread in records:
        logger = logging.getLogger(f"{_NAME}.{target.replace('::', '.')}")
        if not logger.isEnabledFor(level):
            continue
        record = logger.makeRecord(logger.name, level, file, line, text, (), None)
        record.relativeCreated += (created - record.created) * 1000
        record.created = created
        record.msecs = created % 1 * 1000
        record.threadName = thread
        logger.handle(record)
    if dropped:
        logging.getLogger(_NAME).warning("%d records of the log came too fast, and were dropped", dropped)


def flush_at_exit() -> None:
    """Hands over what is left when the interpreter ends."""
    from ._engine import flush_log

    atexit.register(flush_log)
