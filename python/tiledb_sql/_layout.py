"""How datasets of xarray lie in groups of arrays. The names of variables and of their attributes are those of TileDB-CF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: The metadata key of a group that lists the variables which are coordinates, one a line.
COORDINATES = "tiledb_sql.coordinates"

#: The dimension of the arrays that hold variables without dimensions.
AXIS_OF_SCALARS = "__scalar"

_ATTRIBUTE = "__tiledb_attr."


def attribute_name(variable: str, dims: tuple[str, ...]) -> str:
    """The attribute of a variable. A column can't have the name of a dimension."""
    return f"{variable}.data" if variable in dims else variable


def variable_name(attribute: str) -> str:
    """The variable of an attribute."""
    return attribute.removesuffix(".data").removesuffix(".index")


def metadata_key(attribute: str, key: str) -> str:
    """The metadata key of an attribute of a variable."""
    return f"{_ATTRIBUTE}{attribute}.{key}"


def attribute_metadata(
    metadata: Mapping[str, Any], attributes: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The metadata of an array or a group, and that of its variables."""
    plain: dict[str, Any] = {}
    of_variables: dict[str, dict[str, Any]] = {}
    for key, value in metadata.items():
        if not key.startswith(_ATTRIBUTE):
            plain[key] = value
            continue
        # Names may have points.
        owners = [name for name in attributes if key.startswith(metadata_key(name, ""))]
        if owners:
            owner = max(owners, key=len)
            of_variables.setdefault(variable_name(owner), {})[key.removeprefix(metadata_key(owner, ""))] = value
    return plain, of_variables
