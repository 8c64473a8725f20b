"""Arrays that other processes open again: how datasets and xarray pickle them, without keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._errors import missing_extra

if TYPE_CHECKING:
    import pyarrow.dataset as _dataset

    from ._array import Array


def array_dataset(array: Array, time_unit: str | None) -> _dataset.Dataset:
    """The dataset of an array, which can be pickled if the array can be opened again."""
    try:
        from ._dataset import dataset_of
    except ImportError:
        raise missing_extra("pyarrow", "arrow") from None
    found = recipe(array)
    return dataset_of(array.scan(), time_unit, None if found is None else (_dataset_again, (*found, time_unit)))


def recipe(array: Array) -> tuple[str, Any] | None:
    """The URI and the time of an array in the session that the process shares. Other sessions may have keys of their own."""
    from ._session import _shared_session

    if array._session is not _shared_session():
        return None
    return array.uri, array._at


def reopen(uri: str, at: Any) -> Array:
    """The array of a recipe."""
    from ._array import Array
    from ._session import _shared_session

    return Array(_shared_session(), uri, at)


def _dataset_again(uri: str, at: Any, time_unit: str | None) -> _dataset.Dataset:
    return array_dataset(reopen(uri, at), time_unit)
