"""SOMA experiments as AnnData."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tiledb_sql as ts
from tiledb_sql import _anndata

anndata = pytest.importorskip("anndata")
sparse = pytest.importorskip("scipy.sparse")

ROOT = Path(__file__).resolve().parents[2]
CELLS, GENES = 60, 20
# Numbers of cells have gaps, as after a filter.
CELL_IDS = [3 * i + i % 2 for i in range(CELLS)]


def values() -> np.ndarray:
    """The expression of all genes in all cells: about a quarter isn't 0."""
    rng = np.random.default_rng(3)
    made = rng.integers(1, 100, (CELLS, GENES)).astype(np.float32) / 4
    made[rng.random((CELLS, GENES)) < 0.75] = 0
    return made


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> ts.Group:
    """An experiment of 60 cells and 20 genes: sparse X, a dense and a sparse layer, obsm, varm."""
    con = ts.connect()
    root = str(tmp_path_factory.mktemp("soma") / "experiment")
    matrix = values()

    def group(path: str, *members: str) -> None:
        con.sql(f"SELECT * FROM tiledb_create_group('{root}{path}')")

    def member(path: str, name: str) -> None:
        con.sql(f"SELECT * FROM tiledb_add_member('{root}{path}', '{name}', name => '{name}')")

    def table(path: str, rows: pd.DataFrame, keys: str, *options: str) -> None:
        con.register("rows", rows)
        con.sql(
            f"COPY (SELECT * FROM rows) TO '{root}{path}' STORED AS TILEDB PARTITIONED BY ({keys}) "
            f"OPTIONS ({', '.join(options) or chr(39) + 'tiledb.capacity' + chr(39) + ' ' + chr(39) + '10' + chr(39)})"
        )

    def coordinates(made: np.ndarray, ids: Any) -> pd.DataFrame:
        i, j = np.nonzero(made)
        return pd.DataFrame({"soma_dim_0": np.asarray(ids)[i], "soma_dim_1": j, "soma_data": made[i, j]})

    group("")
    for path in ["/ms", "/ms/RNA", "/ms/RNA/X", "/ms/RNA/obsm", "/ms/RNA/varm", "/ms/protein"]:
        group(path)
    obs = pd.DataFrame(
        {"soma_joinid": CELL_IDS, "obs_id": [f"cell{i}" for i in CELL_IDS], "cell_type": [("B", "T", "NK")[i % 3] for i in range(CELLS)],
         "depth": range(CELLS)}
    )
    table("/obs", obs, "soma_joinid", """'tiledb.attr.cell_type.enumeration' '["B", "T", "NK"]'""")
    table("/ms/RNA/var", pd.DataFrame({"soma_joinid": range(GENES), "var_id": [f"gene{j}" for j in range(GENES)]}), "soma_joinid")
    table("/ms/RNA/X/data", coordinates(matrix, CELL_IDS), "soma_dim_0, soma_dim_1")
    table("/ms/RNA/X/doubled", coordinates(2 * matrix, CELL_IDS), "soma_dim_0, soma_dim_1")
    table("/ms/protein/var", pd.DataFrame({"soma_joinid": [0], "var_id": ["CD20"]}), "soma_joinid")
    wide = np.zeros((max(CELL_IDS) + 1, GENES), np.float32)
    wide[CELL_IDS] = matrix + 1
    dense = pd.DataFrame(
        {"soma_dim_0": np.repeat(range(len(wide)), GENES), "soma_dim_1": np.tile(range(GENES), len(wide)), "soma_data": wide.reshape(-1)}
    )
    table("/ms/RNA/X/dense", dense, "soma_dim_0, soma_dim_1", "'tiledb.array_type' 'dense'")
    table("/ms/RNA/obsm/pca", coordinates(np.arange(1.0, 3 * CELLS + 1).reshape(CELLS, 3), CELL_IDS), "soma_dim_0, soma_dim_1")
    table("/ms/RNA/varm/loadings", coordinates(np.arange(1.0, 2 * GENES + 1).reshape(GENES, 2), range(GENES)), "soma_dim_0, soma_dim_1")
    for path, name in [("", "obs"), ("", "ms"), ("/ms", "RNA"), ("/ms", "protein"), ("/ms/RNA", "var"), ("/ms/RNA", "X"), ("/ms/RNA", "obsm"),
                       ("/ms/RNA", "varm"), ("/ms/protein", "var"), ("/ms/RNA/X", "data"), ("/ms/RNA/X", "doubled"), ("/ms/RNA/X", "dense"),
                       ("/ms/RNA/obsm", "pca"), ("/ms/RNA/varm", "loadings")]:  # fmt: skip
        member(path, name)
    opened = con.open(root)
    assert isinstance(opened, ts.Group)
    return opened


def test_a_whole_experiment(experiment: ts.Group) -> None:
    found = experiment.to_anndata()
    assert isinstance(found, anndata.AnnData)
    assert found.shape == (CELLS, GENES)
    assert sparse.issparse(found.X) and found.X.format == "csr" and found.X.has_sorted_indices
    assert found.X.dtype == np.float32
    np.testing.assert_array_equal(found.X.toarray(), values())
    assert list(found.obs_names) == [f"cell{i}" for i in CELL_IDS]
    assert list(found.var_names) == [f"gene{j}" for j in range(GENES)]
    assert found.obs["cell_type"].dtype == "category"
    assert found.obs["depth"].tolist() == list(range(CELLS))


@pytest.mark.parametrize("slab", [1, 40, 1 << 20])
def test_conditions(experiment: ts.Group, slab: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_anndata, "_SLAB_VALUES", slab)
    found = experiment.to_anndata(
        obs="cell_type = 'B' AND depth >= 10", var="var_id <> 'gene3'", layers=["doubled", "dense"], obsm=["pca"], varm=["loadings"]
    )
    cells = [i for i in range(CELLS) if i % 3 == 0 and i >= 10]
    genes = [j for j in range(GENES) if j != 3]
    expected = values()[np.ix_(cells, genes)]
    assert found.obs["depth"].tolist() == cells
    np.testing.assert_array_equal(found.X.toarray(), expected)
    np.testing.assert_array_equal(found.layers["doubled"].toarray(), 2 * expected)
    np.testing.assert_array_equal(found.layers["dense"], expected + 1)
    np.testing.assert_array_equal(found.obsm["pca"], np.arange(1.0, 3 * CELLS + 1).reshape(CELLS, 3)[cells])
    np.testing.assert_array_equal(found.varm["loadings"], np.arange(1.0, 2 * GENES + 1).reshape(GENES, 2)[genes])


def test_nothing_is_found(experiment: ts.Group) -> None:
    assert experiment.to_anndata(obs="depth < 0").shape == (0, GENES)
    assert experiment.to_anndata(var="var_id = 'none'").shape == (CELLS, 0)
    assert experiment.to_anndata(X=None).X is None


def test_the_example() -> None:
    group = ts.open(ROOT / "examples/data/experiment")
    assert isinstance(group, ts.Group)
    found = group.to_anndata(obs="cell_type = 'T'", var="gene IN ('CD3E', 'MS4A1')")
    np.testing.assert_array_equal(found.X.toarray(), [[7, 0], [8, 0.5]])
    assert list(found.obs_names) == ["1", "2"]
    assert found.var["gene"].tolist() == ["CD3E", "MS4A1"]


def test_what_is_no_experiment(experiment: ts.Group, tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="protein"):
        experiment.to_anndata(measurement="ATAC")
    with pytest.raises(KeyError, match="counts"):
        experiment.to_anndata(X="counts")
    with pytest.raises(ts.Error, match="nothing"):
        experiment.to_anndata(obs="nothing = 1")
    ts.sql(f"SELECT * FROM tiledb_create_group('{tmp_path / 'empty'}')")
    empty = ts.open(tmp_path / "empty")
    assert isinstance(empty, ts.Group)
    with pytest.raises(ts.InvalidError, match="isn't a SOMA experiment"):
        empty.to_anndata()
