"""Posteriors with two modes that moves hardly ever cross, enumerated: four heaps at the corners of a rectangle, K = 2."""

from functools import cached_property
from itertools import permutations, product

import numpy as np

from bayesfair.fairness.groups import Groups
from bayesfair.gibbs.joint import Joint
from bayesfair.gibbs.labels import Labels
from bayesfair.gibbs.loss import resolve_loss
from bayesfair.gibbs.optimal import Optimal
from bayesfair.gibbs.target import Dispersion, Table

CORNERS = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
HEAPS = {"labels": (4, 4, 4, 4), "optimal": (4, 4, 4, 4), "joint": (4, 2, 4, 2)}
SCALE = {"labels": (1.6, 1.56), "optimal": (1.6, 1.56), "joint": (1.6, 1.5)}
TARGETS = {"labels": Labels, "optimal": Optimal, "joint": Joint}
LAM = 1.2
SAMPLED = Dispersion(120.0, 60.0)


class TwoModes:
    """All labellings of a target, their law (lambda integrated out where it is sampled), and to which mode each belongs."""

    def __init__(self, name, prior=None, seed=0):
        rng = np.random.default_rng(3)
        self.name, self.prior = name, prior
        self.X = np.repeat(CORNERS * SCALE[name], HEAPS[name], axis=0) + 0.25 * rng.normal(size=(sum(HEAPS[name]), 2))
        self.group = np.tile([0, 1], len(self.X) // 2)
        temperature = prior or ((LAM,) if name == "labels" else (LAM / 2, 2 * LAM))
        groups = Groups(self.group.astype(np.int32), ("a", "b"))
        weight, degrees = np.ones(len(self.X)), 4.0  # fewer than there are, so that lambda is not sure
        table = Table(self.X, groups, weight, 2, resolve_loss("kmeans"), temperature, degrees, seed)
        self.law = TARGETS[name]().prepare(table)

    @property
    def sides(self):
        """The clusterings by the first coordinate, and by the second."""
        return (self.X > 0).astype(int).T

    def state(self, mode, chain=0):
        """A chain's state in a mode."""
        labels, lam = self.sides[mode], LAM
        if self.name == "labels":
            return self.law.state(chain, labels, lam)
        fairlet = self.law.fairlet
        return self.law.state(chain, fairlet, labels[np.unique(fairlet, return_index=True)[1]], lam / 2, lam)

    @cached_property
    def enumerated(self):
        """{labels, the first row in cluster 0: probability}."""
        return dict(self._labellings() if self.name == "labels" else self._clusterings())

    @property
    def masses(self):
        """Of both modes."""
        return self.masses_of(self.enumerated)

    def masses_of(self, law):
        """Of both modes, by {labels: probability}: a labelling belongs to the one with which it agrees on more rows."""
        z, p = np.array(list(law)), np.array(list(law.values()))
        z = z ^ z[:, :1]
        agree = [np.maximum((z == side).mean(1), (z != side).mean(1)) for side in self.sides]
        return p[agree[0] > agree[1]].sum(), p[agree[0] < agree[1]].sum()

    def log_law(self, loss):
        """log p of an energy, the sum of losses in units of lambda."""
        if self.prior is None:
            return -LAM * loss
        return -(self.prior.shape + 4.0) * np.log(self.prior.rate + loss)

    def _labellings(self):
        z = np.array(list(product(range(2), repeat=len(self.X) - 1)), np.int8)
        z = np.concatenate([np.zeros((len(z), 1), np.int8), z], 1)
        counts = np.stack([[(z[:, self.group == g] == k).sum(1) for k in (0, 1)] for g in (0, 1)])
        size = counts.sum(0)
        inside = (np.abs(counts - 0.5 * size) < 1 - 1e-9).all((0, 1)) & (size > 0).all(0)
        z = z[inside]
        p = normalised(self.log_law(squares(self.X, np.ones(len(self.X)), z)))
        return zip(map(tuple, z.tolist()), p)

    def _clusterings(self):
        """With every matching of the two groups, or the optimal one."""
        a, b = np.flatnonzero(self.group == 0), np.flatnonzero(self.group == 1)
        if self.name == "optimal":
            mate = {f: i for i, f in enumerate(self.law.fairlet[a])}
            matchings = [tuple(np.argsort([mate[f] for f in self.law.fairlet[b]]))]
        else:
            matchings = list(permutations(range(len(b))))
        cluster = np.array([c for c in product(range(2), repeat=len(a)) if len(set(c)) == 2], np.int8)
        logs, labels = [], []
        for matching in matchings:
            other = b[list(matching)]
            fairlets = np.square(self.X[a] - self.X[other]).sum()
            loss = squares((self.X[a] + self.X[other]) / 2, np.full(len(a), 2.0), cluster)
            logs.append(self.log_law(0.5 * fairlets + loss))
            z = np.empty((len(cluster), len(self.X)), np.int8)
            z[:, a], z[:, other] = cluster, cluster
            labels.append(z ^ z[:, :1])
        labels, p = np.concatenate(labels), normalised(np.concatenate(logs))
        unique, of = np.unique(labels, axis=0, return_inverse=True)
        return zip(map(tuple, unique.tolist()), np.bincount(of.ravel(), p))


def squares(x, weight, z):
    """Sum of weighted squares around the means of the clusters of z (states, n)."""
    total = (weight * np.square(x).sum(1)).sum()
    for k in (0, 1):
        inside = (z == k) * weight
        total = total - np.square(inside @ x).sum(1) / inside.sum(1)
    return total


def normalised(log):
    p = np.exp(log - log.max())
    return p / p.sum()
