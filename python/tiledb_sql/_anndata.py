"""SOMA experiments as AnnData."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ._array import Array, Group
from ._errors import InvalidError, missing_extra
from ._text import name_in_sql

if TYPE_CHECKING:
    import anndata as _anndata
    import numpy as _numpy

# A matrix is read in slabs of about so many values, so that only the result takes much memory.
_SLAB_VALUES = 1 << 20

_ID = "soma_joinid"


def anndata_of(
    group: Group,
    obs: str | None,
    var: str | None,
    X: str | None,
    measurement: str | None,
    layers: Sequence[str],
    obsm: Sequence[str],
    varm: Sequence[str],
) -> _anndata.AnnData:
    """The cells and genes of an experiment that meet conditions in SQL."""
    try:
        import anndata
        import numpy  # noqa: F401
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
        import scipy.sparse  # noqa: F401
    except ImportError as error:
        raise missing_extra(error.name or "anndata", "anndata") from None
    place = f"ms/{_measurement(group, measurement)}"
    cells = _Axis(_array(group, "obs"), obs)
    genes = _Axis(_array(group, f"{place}/var"), var)
    matrices = {name: _matrix(group, f"{place}/X/{name}", cells, genes) for name in [*([] if X is None else [X]), *layers]}
    return anndata.AnnData(
        X=None if X is None else matrices[X],
        obs=cells.frame("obs_id"),
        var=genes.frame("var_id"),
        layers={name: matrices[name] for name in layers},
        obsm={name: _rows(_array(group, f"{place}/obsm/{name}"), cells) for name in obsm},
        varm={name: _rows(_array(group, f"{place}/varm/{name}"), genes) for name in varm},
    )


def _measurement(group: Group, wanted: str | None) -> str:
    """The measurement of this name, or the only one that has values."""
    parts = [path.split("/") for path in group._paths]
    known = sorted({path[1] for path in parts if len(path) > 1 and path[0] == "ms"})
    if not known:
        raise InvalidError(f"{group.uri} isn't a SOMA experiment: it has no measurement below 'ms'; it has {', '.join(group.members)}")
    if wanted is not None:
        if wanted not in known:
            raise KeyError(f"{group.uri} has no measurement {wanted!r}; it has {', '.join(known)}")
        return wanted
    filled = sorted({path[1] for path in parts if len(path) == 4 and path[0] == "ms" and path[2] == "X"})
    found = filled or known
    if len(found) > 1:
        raise InvalidError(f"{group.uri} has the measurements {', '.join(found)}: choose one with measurement=")
    return found[0]


def _array(group: Group, path: str) -> Array:
    found = group[path]
    if not isinstance(found, Array):
        raise InvalidError(f"{path} of {group.uri} is a group, not an array")
    return found


class _Axis:
    """The cells or the genes that meet a condition, in the order of their numbers."""

    def __init__(self, array: Array, condition: str | None) -> None:
        import numpy

        self._array = array
        self._condition = condition
        rows = array._call("tiledb_scan")
        where = "" if condition is None else f" WHERE {condition}"
        self._rows = array._session.sql(f"SELECT * FROM {rows}{where} ORDER BY {_ID}").to_arrow()
        #: Their numbers, in order.
        self.ids: _numpy.ndarray[Any, Any] = self._rows[_ID].to_numpy().astype(numpy.int64)

    def frame(self, names: str) -> Any:
        """The columns, with the names of the rows as index."""
        frame = self._rows.to_pandas()
        if names in frame.columns:
            return frame.set_index(names)
        frame.index = [str(number) for number in self.ids]
        return frame

    def within(self, dimension: str, first: int, last: int) -> str:
        """The condition on a dimension for the members between two places."""
        low, high = int(self.ids[first]), int(self.ids[last])
        between = f"{dimension} BETWEEN {low} AND {high}"
        if self._condition is None or high - low == last - first:
            return between
        rows = self._array._call("tiledb_scan")
        return f"{between} AND {dimension} IN (SELECT {_ID} FROM {rows} WHERE ({self._condition}) AND {_ID} BETWEEN {low} AND {high})"

    def places(self, ids: _numpy.ndarray[Any, Any]) -> tuple[_numpy.ndarray[Any, Any], _numpy.ndarray[Any, Any]]:
        """The places of numbers, and which of the numbers are members."""
        import numpy

        found = numpy.minimum(numpy.searchsorted(self.ids, ids), len(self.ids) - 1)
        return found, self.ids[found] == ids


def _matrix(group: Group, path: str, cells: _Axis, genes: _Axis) -> Any:
    """The values of the cells and genes: a sparse matrix by rows, or a dense one if the array is dense."""
    import numpy
    import scipy.sparse

    array = _array(group, path)
    shape = (len(cells.ids), len(genes.ids))
    if array.is_dense:
        return _dense(array, cells, genes)
    dtype = array.scan(["soma_data"], limit=0).to_arrow().column(0).to_numpy().dtype
    if 0 in shape:
        return scipy.sparse.csr_matrix(shape, dtype=dtype)
    pieces = list(_slabs(array, cells, genes, dtype))
    stored = sum(piece.nnz for piece in pieces)
    index = numpy.int32 if max(stored, *shape) < 2**31 else numpy.int64
    starts = numpy.zeros(shape[0] + 1, index)
    numpy.cumsum(numpy.concatenate([numpy.diff(piece.indptr) for piece in pieces]), out=starts[1:])
    # One part after the other goes into its place, so that never more than two copies of the matrix are there.
    places = numpy.empty(stored, index)
    values = numpy.empty(stored, dtype)
    end = stored
    while pieces:
        piece = pieces.pop()
        places[end - piece.nnz : end] = piece.indices
        values[end - piece.nnz : end] = piece.data
        end -= piece.nnz
    return scipy.sparse.csr_matrix((values, places, starts), shape=shape, copy=False)


def _slabs(array: Array, cells: _Axis, genes: _Axis, dtype: Any) -> Iterator[Any]:
    """Matrices of some of the cells each, and of all genes."""
    import scipy.sparse

    counted = array._session.sql(f"SELECT count(*) FROM {array._call('tiledb_scan')}").fetchall()[0][0]
    known = int(cells.ids[-1]) + 1
    step = max(int(_SLAB_VALUES * known / max(counted, 1)), 1)
    columns = genes.within("soma_dim_1", 0, len(genes.ids) - 1)
    for first in range(0, len(cells.ids), step):
        last = min(first + step, len(cells.ids)) - 1
        where = f"{cells.within('soma_dim_0', first, last)} AND {columns}"
        found = array.scan(["soma_dim_0", "soma_dim_1", "soma_data"], where).to_arrow()
        i, is_cell = cells.places(found["soma_dim_0"].to_numpy())
        j, is_gene = genes.places(found["soma_dim_1"].to_numpy())
        values = found["soma_data"].to_numpy()
        kept = is_cell & is_gene
        if not kept.all():
            i, j, values = i[kept], j[kept], values[kept]
        shape = (last - first + 1, len(genes.ids))
        yield scipy.sparse.coo_matrix((values, (i - first, j)), shape=shape, dtype=dtype).tocsr()


def _dense(array: Array, cells: _Axis, genes: _Axis) -> Any:
    import numpy

    values = array["soma_data"]
    if len(cells.ids) == 0 or len(genes.ids) == 0:
        return numpy.zeros((len(cells.ids), len(genes.ids)))
    low, high = int(genes.ids[0]), int(genes.ids[-1]) + 1
    step = max(_SLAB_VALUES // (high - low), 1)
    made: Any = None
    for first in range(0, len(cells.ids), step):
        ids = cells.ids[first : first + step]
        box = numpy.ma.getdata(values[int(ids[0]) : int(ids[-1]) + 1, low:high])
        if made is None:
            made = numpy.empty((len(cells.ids), len(genes.ids)), box.dtype)
        made[first : first + step] = box[numpy.ix_(ids - ids[0], genes.ids - low)]
    return made


def _rows(array: Array, axis: _Axis) -> Any:
    """A matrix of numbers for each member of an axis, as obsm and varm hold them."""
    import numpy

    if len(axis.ids) == 0:
        return numpy.zeros((0, 1))
    columns = array.dims[1]
    width = int(columns.domain[1]) + 1 if columns.domain else 0
    if array.is_dense:
        box = numpy.ma.getdata(array["soma_data"][int(axis.ids[0]) : int(axis.ids[-1]) + 1, :])
        return box[axis.ids - axis.ids[0]]
    found = array.scan(
        ["soma_dim_0", "soma_dim_1", "soma_data"], axis.within(name_in_sql("soma_dim_0"), 0, len(axis.ids) - 1)
    ).to_arrow()
    places, is_member = axis.places(found["soma_dim_0"].to_numpy())
    there = found["soma_dim_1"].to_numpy()
    # The domain of a sparse array may be much wider than what was written.
    width = min(width, int(there.max()) + 1 if len(there) else 1)
    values = found["soma_data"].to_numpy()
    made = numpy.full((len(axis.ids), width), numpy.nan, numpy.result_type(values.dtype, numpy.float32))
    made[places[is_member], there[is_member]] = values[is_member]
    return made
