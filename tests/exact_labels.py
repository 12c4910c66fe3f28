"""Tiny posteriors on balanced labellings, enumerated."""

from dataclasses import dataclass
from functools import cache
from itertools import product

import jax
import numpy as np
from exact import QUICKLY, naive_clustering_loss, normalise, weights_of

from bayesfair.fairness import Groups
from bayesfair.fairness.balanced import balance_constraint
from bayesfair.fairness.bounded_sizes import bounded
from bayesfair.fairness.groups import groups_for_fit
from bayesfair.gibbs import Settings, Table
from bayesfair.gibbs.labellings import Labelling
from bayesfair.gibbs.losses import resolve_loss
from bayesfair.gibbs.targets.labels import Labels

LAMBDA = 1.3


def of_sizes(*sizes):
    return Groups(np.repeat(np.arange(len(sizes)), sizes), tuple(f"g{j}" for j in range(len(sizes))))


ATTRIBUTES = groups_for_fit([["F", "n"], ["F", "s"], ["F", "s"], ["M", "n"], ["M", "s"], ["M", "n"]], 6, crossed=False)
CASES = {  # groups, min_balance, clusters; bounds on sizes where there are any
    "1:1": (of_sizes(3, 3), "exact", 2),
    "1:1, three clusters": (of_sizes(3, 3), "exact", 3),
    "2:3": (of_sizes(2, 3), "exact", 2),
    "sizes that do not divide": (of_sizes(2, 5), "exact", 2),
    "three groups": (of_sizes(2, 2, 3), "exact", 2),
    "a group of one": (of_sizes(1, 5), "exact", 3),
    "at least a third": (of_sizes(3, 4), 1 / 3, 2),
    "equal shares": (of_sizes(3, 3), 1.0, 2),
    "attributes": (ATTRIBUTES, "exact", 2),
    "2:3, weighted": (of_sizes(2, 3), "exact", 2),
    "three groups, weighted": (of_sizes(2, 2, 3), "exact", 2),
    "sizes that do not divide, of 3 or 4": (of_sizes(2, 5), "exact", 2, {"size_min": 3}),
    "attributes, at least 0.4, of 2 to 4": (ATTRIBUTES, 0.4, 2, {"size_min": 2, "size_max": 4}),
    "a group of one, weighted, up to 3": (of_sizes(1, 5), "exact", 3, {"size_max": 3}),
}
EVERY = [  # every kind of constraint and every family of losses: each pair is a program for every move
    ("three groups", "kmeans"),
    ("equal shares", "binary"),
    ("attributes, at least 0.4, of 2 to 4", "kl"),
    ("a group of one, weighted, up to 3", "itakura-saito"),
    ("2:3, weighted", "manhattan"),
]


@dataclass(frozen=True, eq=False)
class Tiny:
    """A target with all of its labellings: each is made once and told apart by identity."""

    target: Labels
    X: np.ndarray
    weight: np.ndarray  # (obs,), whole numbers: how many rows each is
    labels: np.ndarray  # (states, obs)
    index: dict

    def state(self, label):
        return Labelling(label, np.asarray(LAMBDA, self.target.x.dtype))


def tiny(case, loss="kmeans", *, prior=None, dtype=np.float64):
    return _tiny(case, loss, prior, dtype, jax.config.jax_enable_x64)


@cache
def _tiny(case, loss, prior, dtype, x64):
    groups, min_balance, n_clusters, *bounds = CASES[case]
    n_obs = len(groups.code)
    rng = np.random.default_rng(len(case))
    X = rng.uniform(0.05, 0.95, (n_obs, 2)) * (1 if loss == "binary" else 2)
    constraint, weight = balance_constraint(groups, min_balance), weights_of(case, n_obs)
    constraint = bounded(constraint, n_clusters, n_obs, **dict(*bounds))
    table = Table(X, groups, None if (weight == 1).all() else weight)
    target = Labels.of(table, constraint, Settings(n_clusters, resolve_loss(loss, 3.0), prior or (LAMBDA,)), dtype)
    labels = balanced_labellings(groups, constraint, n_clusters)
    return Tiny(target, X, weight, labels, {tuple(row): s for s, row in enumerate(labels.tolist())})


def balanced_labellings(groups, constraint, n_clusters):
    every = np.array(list(product(range(n_clusters), repeat=len(groups.code))), np.int32)
    member = np.eye(n_clusters, dtype=int)[every]  # (labellings, obs, clusters)
    counts = np.stack([member[:, groups.code == g].sum(1) for g in range(len(groups.names))], -1)
    return every[constraint.satisfied(counts).all(-1)]


@cache
def losses(t: Tiny, loss):
    return np.array([naive_clustering_loss(t, loss, np.arange(len(label)), label) for label in t.labels])


def law(t: Tiny, loss):
    return normalise(-LAMBDA * losses(t, loss))


def all_states(t: Tiny, function):
    """`function(labelling)` of every state, stacked, in one compiled call."""
    compiled = jax.jit(jax.vmap(lambda label: function(t.state(label))), compiler_options=QUICKLY)
    return jax.tree.map(np.asarray, compiled(t.labels))
