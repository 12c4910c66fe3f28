"""A target of one's own in one file: Gibbs k-means on the rows themselves, every cluster used, nobody balanced."""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bayesfair.gibbs import STATIC, Loss, Statistic, Target, Units, as_pytree


class Labelling(NamedTuple):
    """Where a chain of `FreeLabels` is."""

    label: Int[Array, " obs"]
    lambdas: Float[Array, ""]


@as_pytree
class FreeLabels(Target):
    """p(z) proportional to exp(-lambda L(z)), every cluster used; lambda is the second of the pair that is asked for."""

    x: Float[Array, "obs dim"]
    loss: Loss = field(metadata=STATIC)
    n_clusters: int = field(metadata=STATIC)

    statistics = {  # noqa: RUF012
        "lp": Statistic("quantity"),
        "loss_of_labels": Statistic("quantity", power=1),
        "lambda_of_labels": Statistic("parameter", power=-1),
    }

    @classmethod
    def make(cls, table, settings):
        return cls(jnp.asarray(table.X, jnp.float32), settings.loss, settings.n_clusters)

    @property
    def n_obs(self):
        return self.x.shape[0]

    def starts(self, table, settings, num_chains):
        label = jnp.arange(self.n_obs, dtype=jnp.int32) % self.n_clusters
        labels = jnp.stack([jnp.roll(label, chain) for chain in range(num_chains)])
        return Labelling(labels, jnp.full(num_chains, settings.inverse_temperature[1], jnp.float32))

    def moves(self, settings):
        return (MoveOne(),)

    def labels(self, state):
        return state.label

    def losses(self, state):
        units = Units(self.x, jnp.ones(self.n_obs, self.x.dtype), state.label)
        return self.loss.cluster_losses(units, self.n_clusters).sum()

    def log_density(self, state, lambdas):
        return -lambdas * self.losses(state)

    def scalars(self, state):
        lp = self.log_density(state, state.lambdas)
        return {"lp": lp, "loss_of_labels": self.losses(state), "lambda_of_labels": state.lambdas}

    def read(self, arrays):
        return Labelling(**arrays)


@dataclass(frozen=True)
class MoveOne:
    """A row drawn at random goes to another cluster drawn at random, by Metropolis' rule."""

    statistics = {"single_rate": Statistic("figure")}  # noqa: RUF012

    def law(self, target, state, i, k):
        """Log acceptance ratio of moving row i to cluster k."""
        after = state._replace(label=state.label.at[i].set(k))
        used = jnp.zeros(target.n_clusters, bool).at[after.label].set(True).all()
        change = target.log_density(after, state.lambdas) - target.log_density(state, state.lambdas)
        return jnp.where(used, change, -jnp.inf)

    def __call__(self, key, target, state):
        key_row, key_cluster, key_accept = jax.random.split(key, 3)
        i = jax.random.randint(key_row, (), 0, target.n_obs)
        k = jax.random.randint(key_cluster, (), 0, target.n_clusters)
        accepted = jnp.log(jax.random.uniform(key_accept)) < self.law(target, state, i, k)
        label = state.label.at[i].set(jnp.where(accepted, k, state.label[i]).astype(state.label.dtype))
        return state._replace(label=label), {"single_rate": accepted.astype(target.x.dtype)}
