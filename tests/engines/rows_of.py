"""Problems of engines from arrays, in as many blocks as a test wants."""

from types import SimpleNamespace

import jax
import numpy as np

from bayesfair.engines import fmc, tilted_kmeans, variational
from bayesfair.engines.affinities import nearest_neighbors
from bayesfair.engines.base import Data
from bayesfair.engines.row_split import RowSplit
from bayesfair.engines.tables import Columns
from bayesfair.fairness import encode_groups


def rows_of(tree, n_blocks=1):
    """`Rows` of a tree of arrays (rows, ..)."""
    split = RowSplit(None, (len(jax.tree.leaves(tree)[0]),))
    return split.in_blocks(lambda some: jax.tree.map(lambda part: np.asarray(part)[some], tree), n_blocks)


def in_order(values, n_obs):
    """Arrays (blocks, .., rows) as (obs, ..)."""
    return RowSplit(None, (n_obs,)).in_order(values)


def targeted(X, code, target, objective, weight=None, n_blocks=1):
    """The problem of `VariationalFairClustering`; weights are of mean 1."""
    weight = np.ones(len(X)) if weight is None else weight
    links = links_of_neighbours(X, weight) if objective == "ncut" else ()
    parts = np.asarray(X, np.float32), np.asarray(code, np.int32), np.asarray(weight, np.float32)
    rows = rows_of(variational.SoftRows(*parts), n_blocks)
    return variational.TargetedRows(rows, np.float32(len(X)), np.asarray(target, np.float32), links)


def links_of_neighbours(X, weight):
    return variational.links_of(nearest_neighbors(X, variational.NEIGHBOURS), weight)


def fair(x, levels, group, weight=None):
    """The problem of `FairMixture`, of scaled rows and the codes of their levels."""
    groups, columns = encode_groups(group), Columns(np.asarray(x, np.float32), np.asarray(levels, np.int32))
    as_they_are = SimpleNamespace(scaled=lambda x: x, codes=lambda codes: codes)
    return fmc.fair_rows(Data(columns, groups, weight, 0, RowSplit(None, (len(x),), groups)), as_they_are)


def tilted(Z, tilt, learning_rate=0.05, weight=None, n_blocks=1):
    """The problem of `TiltedKMeans`."""
    weight = np.ones(len(Z)) if weight is None else weight
    parts = (np.asarray(part, np.float32) for part in (Z, np.square(Z).sum(1), weight))
    rows = rows_of(tilted_kmeans.WeightedRows(*parts), n_blocks)
    return tilted_kmeans.TiltedRows(rows, *map(np.float32, (np.sum(weight), tilt, learning_rate)))
