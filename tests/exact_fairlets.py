"""Tiny posteriors of fairlets and clusters, enumerated with losses by double loops, from the formulas of the papers."""

from functools import cached_property
from itertools import product

import numpy as np

from bayesfair.fairlets.compositions import anchor_group, capacities
from bayesfair.fairness.groups import Groups
from bayesfair.gibbs.fairlets import LOSS_C, LOSS_F, new_state
from bayesfair.gibbs.loss import NAMES, Loss, Minkowski, resolve_loss
from bayesfair.gibbs.over_fairlets import make_fairlets
from bayesfair.gibbs.target import Table

CASES = {  # group sizes, composition, clusters
    "1:1": ((3, 3), "auto", 2),
    "floor/ceil": ((3, 4), 3, 2),
    "floor/ceil hubs": ((4, 5), 2, 1),
    "three groups": ((3, 3, 3), "auto", 2),
    "unequal, one alone": ((3, 3), ((1, 2), (1, 0), (1, 1)), 2),
    "unequal, a group of one, weighted": ((1, 4), ((1, 1), (0, 2), (0, 1)), 2),
    "unequal hubs, one lacks a group": ((3, 4), ((2, 1), (0, 2), (1, 1)), 2),
    "1:1, weighted": ((3, 3), "auto", 2),
    "floor/ceil, weighted": ((3, 4), 3, 2),
    "two-member hubs, weighted": ((6,), 3, 2),
    "two hubs, weighted": ((5,), 2, 2),
}
LOSSES = *NAMES, "minkowski", "own divergence", "own pair"
LAMBDA_F, LAMBDA_C = 0.7, 1.9


def own_divergence(x, m):
    return (x[0] - m[0]) ** 2 + 0.5 * (x[1] - m[1]) ** 2


def own_pair(x, y):
    return abs(x[0] - y[0]) + (x[1] - y[1]) ** 2


def loss_code(loss):
    """The loss as kernels read it."""
    given = {"minkowski": Minkowski(3.0), "own divergence": Loss(own_divergence), "own pair": Loss(pair=own_pair)}
    return resolve_loss(given.get(loss, loss)).code()


def divergence(loss, x, y):
    if loss == "kmeans":
        return ((x - y) ** 2).sum()
    if loss == "kl":
        return (x * np.log(x / y) - x + y).sum()
    if loss == "itakura-saito":
        return (x / y - np.log(x / y) - 1).sum()
    if loss == "binary":
        return (x * np.log(x / y) + (1 - x) * np.log((1 - x) / (1 - y))).sum()
    if loss.startswith("own"):
        return (own_pair if loss == "own pair" else own_divergence)(x, y)
    power = 1.0 if loss == "manhattan" else 3.0
    return (np.abs(x - y) ** power).sum() ** (1 / power)


def of_pairs(loss):
    return loss in ("manhattan", "minkowski", "own pair")


class Tiny:
    """A posterior with all of its states (fairlet of every row, cluster of every fairlet) and their losses."""

    def __init__(self, case, loss):
        self.loss, (sizes, composition, self.n_clusters) = loss, CASES[case]
        rng = np.random.default_rng(len(case))
        self.X = rng.uniform(0.05, 0.95, (sum(sizes), 2)) * {"kl": 3, "itakura-saito": 3, "binary": 1}.get(loss, 2)
        self.code = np.repeat(np.arange(len(sizes)), sizes)
        self.held, n_obs = capacities(np.array(sizes), composition), len(self.X)
        self.weight = np.resize([2.0, 1, 3, 1, 1, 4, 2], n_obs) if "weighted" in case else np.ones(n_obs)
        self.anchor, self.m = anchor_group(self.held), len(self.held.lower)
        decompositions = list(self._decompositions())
        clusterings = [c for c in product(range(self.n_clusters), repeat=self.m) if len(set(c)) == self.n_clusters]
        self.states = list(product(decompositions, clusterings))
        groups = Groups(self.code.astype(np.int32), tuple(map(str, range(len(sizes)))))
        table = Table(self.X, groups, self.weight, self.n_clusters, None, (LAMBDA_F, LAMBDA_C), 1.0, 0)
        self.data = make_fairlets(table, groups, self.held, False)
        self.loss_code = loss_code(loss)

    def _decompositions(self):
        """All ways to fill fairlets within the capacities; with anchors, fairlet i keeps the i-th of them."""
        parts = []
        for g in range(self.held.lower.shape[1]):
            size = int((self.code == g).sum())
            choices = [tuple(range(size))] if g == self.anchor else product(range(self.m), repeat=size)
            low, high = self.held.lower[:, g], self.held.upper[:, g]
            counts = [(c, np.bincount(c, minlength=self.m)) for c in choices]
            parts.append([c for c, n in counts if (n >= low).all() and (n <= high).all()])
        return (sum(part, ()) for part in product(*parts))

    @cached_property
    def losses(self):
        """(L_f, L_c) of every state."""
        of_fairlets = {f: self.fairlet_loss(np.array(f)) for f in {f for f, _ in self.states}}
        fairlet = np.array([of_fairlets[f] for f, _ in self.states])
        return fairlet, np.array([self.clustering_loss(np.array(f), np.array(c)) for f, c in self.states])

    @property
    def mean_size(self):
        return len(self.X) / self.m

    def mean(self, rows):
        return np.average(self.X[rows], 0, self.weight[rows])

    def fairlet_loss(self, fairlet):
        total, w = 0.0, self.weight
        for i in range(self.m):
            rows = np.flatnonzero(fairlet == i)
            if self.anchor is None:
                total += sum(w[j] * divergence(self.loss, self.X[j], self.mean(rows)) for j in rows)
                continue
            (a,) = [j for j in rows if self.code[j] == self.anchor]
            for j in rows[rows != a]:
                middle, paid = (self.X[j] + self.X[a]) / 2, 2 * w[j] * w[a] / (w[j] + w[a])
                if of_pairs(self.loss):
                    total += paid * divergence(self.loss, self.X[j], self.X[a])
                else:
                    total += paid * 2 * sum(divergence(self.loss, self.X[r], middle) for r in (j, a))
        return total

    def clustering_loss(self, fairlet, cluster):
        centers = np.array([self.mean(np.flatnonzero(fairlet == i)) for i in range(self.m)])
        weights, total = np.bincount(fairlet, self.weight) / self.mean_size, 0.0
        for k in range(self.n_clusters):
            own = np.flatnonzero(cluster == k)
            if of_pairs(self.loss):
                pairs = [
                    weights[i] * weights[j] * divergence(self.loss, centers[i], centers[j]) for i in own for j in own
                ]
                total += sum(pairs) / (2 * weights[own].sum())
            else:
                mean = np.average(centers[own], 0, weights[own])
                total += sum(weights[i] * divergence(self.loss, centers[i], mean) for i in own)
        return total

    def joint(self):
        """Eq. (9)."""
        fairlet, clustering = self.losses
        return normalise(-LAMBDA_F * fairlet - LAMBDA_C * clustering)

    def fairlets_alone(self):
        """B ~ exp(-lambda_f L_f), with every clustering as likely as another."""
        return normalise(-LAMBDA_F * self.losses[0])

    def state(self, at, words=None):
        """The kernels' state."""
        fairlet, cluster = at
        lam = LAMBDA_C / self.mean_size
        words = np.arange(1, 5, dtype=np.uint64) if words is None else words
        return new_state(words, self.data, self.loss_code, fairlet, cluster, self.n_clusters, LAMBDA_F, lam)

    def key(self, state):
        """(fairlets, clusters) of a state, numbered by the anchors; the losses that it keeps must be right."""
        number = np.arange(self.m) if self.anchor is None else np.argsort(state.anchor)
        found = tuple(np.argsort(number)[state.fairlet].tolist()), tuple(state.cluster[number].tolist())
        fairlet_loss, clustering_loss = self._by_state[found]
        np.testing.assert_allclose(state.value[LOSS_F], fairlet_loss, atol=1e-9)
        np.testing.assert_allclose(state.value[LOSS_C], clustering_loss * self.mean_size, atol=1e-9)
        return found

    @cached_property
    def _by_state(self):
        return dict(zip(self.states, zip(*self.losses)))


def normalise(log):
    weights = np.exp(log - log.max())
    return weights / weights.sum()
