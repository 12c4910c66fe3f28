"""Any target in replicas at several inverse temperatures, whose states the sweep exchanges: a wrapper, in one file.

The replica at beta has the law p(z)^beta. With a prior of lambda that is (b + L)^(-beta D), L the total loss and
D = a + N d / h the degrees: the law of z where lambda ~ Gamma(beta D, b + L), so that each replica draws a lambda of its own
and the inner target's moves, which are given lambda, serve all of them.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesfair.gibbs.moves.replicas import ExchangeReplicas, InEachReplica
from bayesfair.gibbs.target import Target, as_pytree

__all__ = ["Tempered", "TemperedState"]


class TemperedState(NamedTuple):
    """replicas: states of the inner target, stacked, the hottest first. came_from_hottest: has this one been the hottest since
    it was the coldest? round_trips: states so far that came from the hottest replica to the coldest. accepted: sums of the
    shares of exchanges of neighbours."""

    replicas: Any
    came_from_hottest: Int[Array, " replicas"]
    round_trips: Int[Array, ""]
    accepted: Float[Array, " pairs"]


OWN = "came_from_hottest", "round_trips", "accepted"  # of a state, beside the inner target's


@as_pytree
class Tempered(Target):
    """The draws are those of the coldest replica, at beta = 1, which has the inner target's law."""

    inner: Target
    betas: Float[Array, " replicas"]  # increasing, the last one 1

    @property
    def statistics(self):
        return self.inner.statistics

    @property
    def n_obs(self):
        return self.inner.n_obs

    @property
    def n_clusters(self):
        return self.inner.n_clusters

    @property
    def n_fairlets(self):
        return self.inner.n_fairlets

    @property
    def keeps_fairlets(self):
        return self.inner.keeps_fairlets

    @property
    def looks_per_row(self):
        return len(self.betas) * self.inner.looks_per_row

    @property
    def state_dims(self):
        inner = {name: ("replica", *dims) for name, dims in self.inner.state_dims.items()}
        return {**inner, "came_from_hottest": ("replica",)}

    def replicate(self, states) -> TemperedState:
        """Every chain's state in all of its replicas, inverse temperatures times beta."""
        n, chains = len(self.betas), len(jax.tree.leaves(states)[0])
        many = jax.tree.map(lambda part: jnp.repeat(part[:, None], n, axis=1), states)
        many = many._replace(temperatures=jax.tree.map(lambda part: part * self.betas, many.temperatures))
        nobody, none = jnp.zeros((chains, n), jnp.int32), jnp.zeros((chains, n - 1), self.betas.dtype)
        return TemperedState(many, nobody, nobody[:, 0], none)

    def begun(self, states: TemperedState) -> TemperedState:
        """The same with nothing counted yet."""
        return states._replace(round_trips=jnp.zeros_like(states.round_trips), accepted=jnp.zeros_like(states.accepted))

    def moves(self, settings):
        fixed = self.inner if self.inner.prior is None else replace(self.inner, prior=None)
        return InEachReplica(fixed.moves(settings)), ExchangeReplicas()

    def open(self, state):
        return state._replace(replicas=jax.vmap(self.inner.open)(state.replicas))

    def close(self, opened):
        return opened._replace(replicas=jax.vmap(self.inner.close)(opened.replicas))

    def labels(self, state):
        return self.inner.labels(_coldest(state))

    def losses(self, state):
        return self.inner.losses(_coldest(state))

    def report(self, state):
        return self.inner.report(_coldest(state))

    def write(self, states):
        own = {name: np.asarray(getattr(states, name)) for name in OWN}
        return {**self.inner.write(states.replicas), **own}

    def read(self, arrays):
        return TemperedState(self.inner.read(arrays), **{name: arrays[name] for name in OWN})

    def energies(self, state) -> Float[Array, " replicas"]:
        """V of each replica's state, p(z)^beta being proportional to exp(-beta V)."""
        inner, replicas = self.inner, state.replicas
        if inner.prior is None:
            return -jax.vmap(lambda one: inner.log_density(one, _coldest(state).temperatures))(replicas)
        loss = jax.vmap(lambda one: inner.total_loss(inner.losses(one)))(replicas)
        power = inner.prior.shape + inner.degrees
        return power * (jnp.log(inner.prior.rate + loss) - jnp.log(inner.prior.rate + loss[-1]))

    def drawn_temperatures(self, key, state):
        """Of every replica given its state; where they are fixed they stay where they are."""
        inner, replicas = self.inner, state.replicas
        if inner.prior is None:
            return replicas.temperatures
        rate = inner.prior.rate + jax.vmap(lambda one: inner.total_loss(inner.losses(one)))(replicas)
        drawn = jax.random.gamma(key, self.betas * (inner.prior.shape + inner.degrees)) / rate
        return jax.vmap(inner.with_dispersion)(replicas.temperatures, drawn)


def _coldest(state: TemperedState):
    return jax.tree.map(lambda part: part[-1], state.replicas)
