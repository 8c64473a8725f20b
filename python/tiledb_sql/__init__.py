"""SQL on TileDB arrays.

>>> import tiledb_sql as ts
>>> ts.sql("SELECT 6 * 7 AS answer").fetchall()
[(42,)]

A path or URL of an array is a table name, as in ``FROM './weather'`` or ``FROM 's3://bucket/weather'``.
"""

from ._array import Array, Group
from ._engine import __version__
from ._errors import (
    ConflictError,
    Error,
    ExistsError,
    InvalidError,
    MemoryLimitError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedError,
)
from ._progress import Progress
from ._from_xarray import from_xarray
from ._query import Query
from ._session import Session, connect, open, register, sql, write

__all__ = [
    "Array",
    "ConflictError",
    "Error",
    "ExistsError",
    "Group",
    "InvalidError",
    "MemoryLimitError",
    "NotFoundError",
    "PermissionDeniedError",
    "Progress",
    "Query",
    "Session",
    "UnsupportedError",
    "__version__",
    "connect",
    "from_xarray",
    "open",
    "register",
    "sql",
    "write",
]
