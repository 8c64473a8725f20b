"""The exceptions of the package."""


class Error(Exception):
    """A statement failed.

    ``kind`` is what went wrong, in a word: ``"syntax"`` and ``"plan"`` for the text of a statement, ``"execution"`` while it runs;
    ``"not_found"``, ``"not_an_array"``, ``"is_a_group"``, ``"not_a_group"``, ``"is_an_array"``, ``"already_exists"``,
    ``"permission_denied"``, ``"encryption"``, ``"external"``, ``"invalid"``, ``"unsupported"``, ``"conflict"``, ``"corrupt"``,
    ``"storage"``, ``"out_of_memory"`` or ``"internal"``.
    """

    kind: str = "execution"


class NotFoundError(Error, FileNotFoundError):
    """There is no such array, group, file or table."""

    kind = "not_found"


class ExistsError(Error, FileExistsError):
    """There is an array, a group or a file already."""

    kind = "already_exists"


class PermissionDeniedError(Error, PermissionError):
    """The store or the system refuses access."""

    kind = "permission_denied"


class InvalidError(Error, ValueError):
    """A value or an option makes no sense."""

    kind = "invalid"


class UnsupportedError(Error, NotImplementedError):
    """Something that can't be done."""

    kind = "unsupported"


class MemoryLimitError(Error, MemoryError):
    """A query needs more memory than it may take."""

    kind = "out_of_memory"


class ConflictError(Error):
    """Another writer changed the array meanwhile: run the statement again."""

    kind = "conflict"


_CLASSES = {
    "already_exists": ExistsError,
    "not_found": NotFoundError,
    "permission_denied": PermissionDeniedError,
    "invalid": InvalidError,
    "unsupported": UnsupportedError,
    "out_of_memory": MemoryLimitError,
    "conflict": ConflictError,
}


def make(kind: str, text: str) -> Error:
    """The exception for an error of the engine."""
    error = _CLASSES.get(kind, Error)(text)
    error.kind = kind
    return error


def missing_extra(module: str, extra: str) -> ImportError:
    """The exception for an optional library that isn't installed."""
    return ImportError(
        f"this needs {module}, which isn't installed: pip install 'tiledb-sql[{extra}]'",
        name=module,
    )
