"""A wrapper in one file: any target with fixed temperatures, in replicas at several of them that exchange states."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesfair.gibbs import Statistic, Target, as_pytree, exchange, in_turn


@as_pytree
class Replicated(Target):
    """The replica at beta = 1, the last one, has the inner target's law; its state is a stack of the inner target's."""

    inner: Target
    betas: Float[Array, " replicas"]

    @property
    def statistics(self):
        return self.inner.statistics

    @property
    def n_obs(self):
        return self.inner.n_obs

    @property
    def n_clusters(self):
        return self.inner.n_clusters

    def replicate(self, states):
        """States of the chains, each as many times as there are betas, temperatures times beta."""
        n = len(self.betas)
        many = jax.tree.map(lambda part: jnp.repeat(part[:, None], n, axis=1), states)
        return many._replace(temperatures=jax.tree.map(lambda part: part * self.betas, many.temperatures))

    def open(self, state):
        return jax.vmap(self.inner.open)(state)

    def close(self, opened):
        return jax.vmap(self.inner.close)(opened)

    def labels(self, state):
        return self.inner.labels(jax.tree.map(lambda part: part[-1], state))

    def report(self, opened):
        return self.inner.report(jax.tree.map(lambda part: part[-1], opened))


@dataclass(frozen=True)
class InEachReplica:
    """The inner target's moves in every replica."""

    moves: tuple

    def __call__(self, key, target, state):
        keys = jax.random.split(key, len(target.betas))
        state, stats = jax.vmap(lambda key, one: in_turn(key, target.inner, one, self.moves))(keys, state)
        return state, {name: values[-1] for name, values in stats.items()}


@dataclass(frozen=True)
class Exchange:
    """States of neighbouring replicas change places; temperatures stay where they are."""

    sign: int = 1  # -1 is a planted bug

    statistics = {"exchange_rate": Statistic("figure")}  # noqa: RUF012

    def __call__(self, key, target, state):
        coldest = jax.tree.map(lambda part: part[-1], state.temperatures)
        energy = -self.sign * jax.vmap(lambda one: target.inner.log_density(one, coldest))(state)
        order, accepted = exchange(key, energy, target.betas)
        moved = jax.tree.map(lambda part: part[order], state)
        return moved._replace(temperatures=state.temperatures), {"exchange_rate": accepted.mean()}
