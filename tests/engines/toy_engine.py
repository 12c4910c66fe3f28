"""k-means on rows that give up part of their group's mean: an engine in one file, by the exported protocol alone."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from sklearn.cluster import kmeans_plusplus

import bayesfair as bf


class Rows(NamedTuple):
    x: Any  # (obs, dim)
    weight: Any  # (obs,)


class CentredKMeans(bf.engines.Engine):
    """Clusters of rows x - blend * (mean of the row's group): the larger `blend`, the less a group keeps together."""

    def __init__(self, n_clusters=3, *, blend=1.0, n_init=4, max_iter=100, tol=1e-6, random_state=None):
        self.n_clusters = n_clusters
        self.blend = blend
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def check_settings(self):
        if not 0 <= self.blend <= 1:
            raise ValueError(f"`blend` must lie in [0, 1], got {self.blend}. 0 is plain k-means.")

    def problem(self, data):
        bf.engines.check_distinct(data.X, self.n_clusters)
        Z = self.standardised(data, precision=np.float32)
        means = bf.fairlets.fairlet_centers(Z, data.groups.code, data.weight)
        moved = Z - self.blend * means[data.groups.code]
        return Rows(jnp.asarray(moved, jnp.float32), jnp.asarray(data.weight, jnp.float32))

    def starts(self, rows, data):
        rng, x = np.random.RandomState(data.seed), np.asarray(rows.x)
        settings = {"sample_weight": data.weight, "random_state": rng}
        return np.stack([kmeans_plusplus(x, self.n_clusters, **settings)[0] for _ in range(self.n_init)])

    @staticmethod
    def step(rows, centers):
        """Lloyd's iteration of one run: new centres, and the cost per row of the rows nearest to them."""
        x, weight = rows
        member = weight[:, None] * (nearest(x, centers)[:, None] == jnp.arange(len(centers)))
        size = member.sum(0)[:, None]
        centers = jnp.where(size > 0, member.T @ x / jnp.maximum(size, 1e-30), centers)
        return centers, weight @ squared(x, centers).min(1) / weight.sum()

    def set_attributes(self, outcome, rows, data):
        x = rows.x
        self.labels_ = np.asarray(nearest(x, outcome.state))
        self.cluster_centers_ = self._scaling.points(outcome.state)

    def objective_of(self, losses):
        return self._scaling.cost(losses)


def squared(x, centers):
    return jnp.square(x[:, None] - centers).sum(2)


def nearest(x, centers):
    return squared(x, centers).argmin(1)
