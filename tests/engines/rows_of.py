"""Problems of engines from arrays, in as many blocks as a test wants."""

from functools import partial
from types import SimpleNamespace

import jax
import numpy as np

from bayesfair._affinities import nearest_neighbors
from bayesfair._tables import Columns
from bayesfair.engines import fmc, tkm, variational
from bayesfair.engines.data import Data, RowSplit
from bayesfair.engines.families import Components
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


def random_components(covariance_type, k, d, n_levels=0, seed=0):
    """Parameters of a mixture, float32."""
    rng = np.random.default_rng(seed)
    shape = {"isotropic": (), "diag": (k, d), "full": (k, d, d)}[covariance_type]
    parts = rng.normal(size=k), rng.normal(size=(k, d)), 0.3 * rng.normal(size=shape), rng.normal(size=(k, n_levels))
    return Components(*(np.asarray(part, np.float32) for part in parts))


def mixture_at(family, problem, parameters, rule, solver="em"):
    """The state of `FairMixture` at given parameters."""
    states = fmc.start_states(family, problem, parameters, rule, 0.02, 0, solver)
    return jax.tree.map(lambda part: np.asarray(part)[0], states)


@partial(jax.jit, static_argnums=0)
def loss_at(family, parameters, problem, rule):
    """What `FairMixture` minimises, of all rows."""
    shares = fmc.shares_of(family, parameters, problem._replace(used=None), rule.temperature)
    return fmc.penalty_of_shares(shares, rule) - shares.log_density


def tilted(Z, tilt, learning_rate=0.05, weight=None, n_blocks=1):
    """The problem of `TiltedKMeans`."""
    weight = np.ones(len(Z)) if weight is None else weight
    parts = (np.asarray(part, np.float32) for part in (Z, np.square(Z).sum(1), weight))
    rows = rows_of(tkm.WeightedRows(*parts), n_blocks)
    return tkm.TiltedRows(rows, *map(np.float32, (np.sum(weight), tilt, learning_rate)))
