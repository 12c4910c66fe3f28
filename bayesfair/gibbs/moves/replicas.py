"""The sweep of a `Tempered` target: the inner target's moves in every replica, then exchanges of their states."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from bayesfair._draws import Statistic
from bayesfair.gibbs.replicas import exchange
from bayesfair.gibbs.sweep import in_turn

__all__ = ["TRIPS", "ExchangeReplicas", "InEachReplica"]

TRIPS = "round_trips"  # in the chain so far, states that came from the hottest replica to the coldest


@dataclass(frozen=True)
class InEachReplica:
    """The inner target's moves given inverse temperatures, in all replicas at once; reported is the coldest."""

    moves: tuple

    def __call__(self, key, target, state):
        keys = jax.random.split(key, len(target.betas))
        replicas, stats = jax.vmap(lambda key, one: in_turn(key, target.inner, one, self.moves))(keys, state.replicas)
        return state._replace(replicas=replicas), {name: values[-1] for name, values in stats.items()}


@dataclass(frozen=True)
class ExchangeReplicas:
    """Neighbours exchange states; then every replica draws its inverse temperature, of which the exchange knew nothing."""

    statistics = {"exchange_rate": Statistic("figure"), TRIPS: Statistic("figure")}  # noqa: RUF012

    def __call__(self, key, target, state):
        of_exchange, of_temperatures = jax.random.split(key)
        order, accepted = exchange(of_exchange, target.energies(state), target.betas)
        temperatures = state.replicas.temperatures
        replicas, hot = jax.tree.map(lambda part: part[order], (state.replicas, state.came_from_hottest))
        trips = state.round_trips + hot[-1]
        state = state._replace(
            replicas=replicas._replace(temperatures=temperatures),
            came_from_hottest=hot.at[-1].set(0).at[0].set(1),
            round_trips=trips,
            accepted=state.accepted + accepted,
        )
        drawn = target.drawn_temperatures(of_temperatures, state)
        state = state._replace(replicas=state.replicas._replace(temperatures=drawn))
        return state, {"exchange_rate": accepted.mean(), TRIPS: trips.astype(jnp.float32)}
