"""A move of one's own in one file: two fairlets exchange their clusters."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from bayesfair.gibbs import Statistic, as_pytree
from bayesfair.gibbs.targets.joint import Joint


@dataclass(frozen=True)
class ExchangeClusters:
    """Two fairlets drawn at random exchange clusters, by Metropolis' rule: sizes stay, and the proposal is symmetric."""

    forgets_lambda: bool = False  # a planted bug

    statistics = {"exchange_rate": Statistic("figure")}  # noqa: RUF012

    def law(self, target, state, i, j):
        """(log acceptance ratio, clusters after it) of fairlets i and j."""
        cluster = state.cluster.at[i].set(state.cluster[j]).at[j].set(state.cluster[i])
        after = target.log_density(state._replace(cluster=cluster), state.lambdas)
        change = after - target.log_density(state, state.lambdas)
        return (change / state.lambdas.clustering if self.forgets_lambda else change), cluster

    def __call__(self, key, target, state):
        key_pair, key_accept = jax.random.split(key)
        i, j = jax.random.randint(key_pair, (2,), 0, target.n_fairlets)
        log_ratio, cluster = self.law(target, state, i, j)
        accepted = jnp.log(jax.random.uniform(key_accept)) < log_ratio
        stats = {"exchange_rate": accepted.astype(target.x.dtype)}
        return state._replace(cluster=jnp.where(accepted, cluster, state.cluster)), stats


@as_pytree
class JointWithExchange(Joint):
    """The joint target with one more move in its sweep."""

    def moves(self, settings):
        return *super().moves(settings), ExchangeClusters()
