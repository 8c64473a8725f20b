"""Queries as lazy frames of Polars."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ._engine import EngineBatches, EngineDataset
from ._errors import missing_extra
from ._query import Query

if TYPE_CHECKING:
    import polars as _polars

# Frames of this size cost nothing in Polars.
_FRAME_ROWS = 100_000


def lazy_frame(query: Query) -> _polars.LazyFrame:
    """The rows of a query as a lazy frame. The engine reads the columns and the rows that Polars asks for."""
    try:
        import polars
        from polars.io.plugins import register_io_source
    except ImportError:
        raise missing_extra("polars", "polars") from None
    engine = EngineDataset.of(query._engine)
    if engine is None:
        return query.to_polars().lazy()
    names = query.columns
    schema = polars.DataFrame(engine.scan(names, limit=0).collect()).schema

    def read(
        with_columns: list[str] | None, predicate: _polars.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[_polars.DataFrame]:
        shown = names if with_columns is None else with_columns
        condition = None if predicate is None else _json(predicate)
        # The engine knows only a part of the conditions. So rows are counted after Polars has filtered them, too.
        scan = engine.scan(shown, condition, n_rows if predicate is None else None)
        left = n_rows
        for rows in EngineBatches.of(scan, batch_size or _FRAME_ROWS) or ():
            frame = polars.DataFrame(rows)
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            if frame.height:
                yield frame
            if left == 0:
                return

    return register_io_source(read, schema=schema, validate_schema=False)


def _json(predicate: _polars.Expr) -> str | None:
    """The tree of an expression. Polars calls its form unstable; unknown parts aren't pushed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return predicate.meta.serialize(format="json")
    except Exception:
        return None
