"""Replica exchange over the inverse temperature, to cross between modes that no jump connects.

The replica at beta has the law p(z)^beta. With a prior of lambda that is (b + L)^(-beta D), with L the total loss and
D = a + N d / h the degrees: the law of z if lambda ~ Gamma(beta D, b + L). So each replica draws its own lambda, and
the inner target's moves, which are given lambda, serve all replicas.
"""

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesfair._arrays import on_device
from bayesfair._check import check_integer
from bayesfair._draws import Statistic
from bayesfair._progress import progress
from bayesfair.gibbs.problem import Problem
from bayesfair.gibbs.run import Chains, Run, forward
from bayesfair.gibbs.sweep import in_turn
from bayesfair.gibbs.target import Target, as_pytree
from bayesfair.gibbs.thinning import TRIPS

RATIO, FEWEST_ROWS = 0.6, 10  # ratio of neighbours on the default ladder; rows that the hottest replica sees
N_REPLICAS = 16
HOTTEST = 0.1  # degrees of freedom per row that the hottest replica sees
WINDOWS = 16, 16, 8, 4, 2  # windows are the warm-up over these; all but the last end with a new ladder
FEWEST_TRIPS = 1  # per chain in the last window; the draws last several windows
FEWEST_SWEEPS = 64  # shortest warm-up that can decide
LEAST = 1e-3  # least share of rejections between neighbours
OWN = "came_from_hottest", "round_trips", "accepted"  # fields of a `TemperedState` beside the inner target's
FIGURES = "accepted", "round_trips"  # reported fields of a `TemperedState`
FIRST_KEY = 1 << 22  # number of the first chain of the trial


def exchange(key, energy, betas):
    """Order (replicas,) of the states after as many rounds of `swap` as replicas, and the share of swaps accepted (pairs,)."""
    n_rounds = 2 * ((len(betas) + 1) // 2)

    def one(order, part):
        key, parity = part
        moved, accepted = swap(key, energy[order], betas, parity)
        return order[moved], accepted

    rounds = jax.random.split(key, n_rounds), jnp.arange(n_rounds) % 2
    order, accepted = jax.lax.scan(one, jnp.arange(len(betas)), rounds)
    return order, 2 * accepted.mean(0)  # every pair is tried in every other round


def swap(key, energy, betas, parity):
    """One round: the order (replicas,) after swaps of the pairs (r, r + 1) with r of this parity, and which were made.

    The probability is min(1, exp((beta_{r+1} - beta_r) (V_{r+1} - V_r))), V = `energy` (replicas,).
    """
    n_pairs = len(betas) - 1
    log_ratio = jnp.diff(betas) * jnp.diff(energy)
    accepted = (jnp.arange(n_pairs) % 2 == parity) & (jnp.log(jax.random.uniform(key, (n_pairs,))) < log_ratio)
    takes_next, takes_last = jnp.append(accepted, False), jnp.insert(accepted, 0, False)
    return jnp.arange(n_pairs + 1) + takes_next - takes_last, accepted


def ladder(n_obs, ratio=RATIO):
    """Inverse temperatures for `ReplicaExchange`, a geometric sequence that ends at 1.

    The hottest replica sees about ten rows.

    Parameters
    ----------
    n_obs : int, at least 1
        Number of rows.
    ratio : float, default 0.6
        Ratio of neighbours, between 0 and 1. Neighbours exchange states often if 1 - ratio is below about sqrt(2 / p) for
        p parameters.

    Returns
    -------
    numpy.ndarray
        Increasing.

    Raises
    ------
    ValueError
        If there is no row.

    Examples
    --------
    >>> import bayesfair as bf
    >>> float(bf.models.ladder(100)[-1])
    1.0
    """
    check_integer("n_obs", n_obs)
    n_steps = max(1, int(np.ceil(np.log(max(n_obs / FEWEST_ROWS, 1)) / -np.log(ratio))))
    return ratio ** np.arange(n_steps, -1.0, -1.0)


class TemperedState(NamedTuple):
    """State of the replicas and of their exchanges."""

    replicas: Any  # states of the inner target, stacked, the hottest first
    came_from_hottest: Int[Array, " replicas"]  # was this state the hottest after it was last the coldest?
    round_trips: Int[Array, ""]  # states so far that travelled from the hottest replica to the coldest
    accepted: Float[Array, " pairs"]  # sums of the shares of accepted exchanges of neighbours


@as_pytree
class Tempered(Target):
    """Target of all replicas. Draws are those of the coldest one, at beta = 1, which has the inner target's law."""

    inner: Target
    betas: Float[Array, " replicas"]  # increasing to 1

    statistics, n_obs, n_clusters, n_units, n_fairlets, keeps_fairlets = (
        property(attrgetter(f"inner.{name}"))
        for name in ("statistics", "n_obs", "n_clusters", "n_units", "n_fairlets", "keeps_fairlets")
    )

    @property
    def looks_per_row(self):
        return len(self.betas) * self.inner.looks_per_row

    @property
    def state_dims(self):
        inner = {name: ("replica", *dims) for name, dims in self.inner.state_dims.items()}
        return {**inner, "came_from_hottest": ("replica",)}

    def replicate(self, states):
        """The chains' states in all of their replicas, with inverse temperatures times beta."""
        n, chains = len(self.betas), len(jax.tree.leaves(states)[0])
        many = jax.tree.map(lambda part: np.repeat(np.asarray(part)[:, None], n, axis=1), states)
        many = many._replace(lambdas=jax.tree.map(lambda part: part * np.asarray(self.betas), many.lambdas))
        nobody, none = np.zeros((chains, n), np.int32), np.zeros((chains, n - 1), self.betas.dtype)
        return TemperedState(many, nobody, nobody[:, 0], none)

    def begun(self, states):
        """The same states with counts reset."""
        return states._replace(round_trips=np.zeros_like(states.round_trips), accepted=np.zeros_like(states.accepted))

    def moves(self, settings):
        fixed = self.inner if self.inner.prior is None else replace(self.inner, prior=None)
        return InEachReplica(fixed.moves(settings)), ExchangeReplicas()

    def open(self, state):
        return state._replace(replicas=jax.vmap(self.inner.open)(state.replicas))

    def close(self, opened):
        return opened._replace(replicas=jax.vmap(self.inner.close)(opened.replicas))

    def labels(self, state):
        return self.inner.labels(_coldest(state))

    def fairlet(self, state):
        return self.inner.fairlet(_coldest(state))

    def losses(self, state):
        return self.inner.losses(_coldest(state))

    def scalars(self, state):
        return self.inner.scalars(_coldest(state))

    def write(self, states):
        own = {name: np.asarray(getattr(states, name)) for name in OWN}
        return {**self.inner.write(states.replicas), **own}

    def read(self, arrays):
        return TemperedState(self.inner.read(arrays), **{name: arrays[name] for name in OWN})

    def energies(self, state) -> Float[Array, " replicas"]:
        """V of each replica's state; p(z)^beta is proportional to exp(-beta V)."""
        inner, replicas = self.inner, state.replicas
        if inner.prior is None:
            return -jax.vmap(lambda one: inner.log_density(one, _coldest(state).lambdas))(replicas)
        loss = jax.vmap(lambda one: inner.total_loss(inner.losses(one)))(replicas)
        power = inner.prior.shape + inner.degrees
        return power * (jnp.log(inner.prior.rate + loss) - jnp.log(inner.prior.rate + loss[-1]))

    def drawn_temperatures(self, key, state):
        """Inverse temperatures of every replica given its state, or beta times those that are fixed."""
        inner, replicas = self.inner, state.replicas
        if inner.prior is None:  # not those before, which may be of another ladder
            return jax.tree.map(lambda part: part[-1] * self.betas, replicas.lambdas)
        rate = inner.prior.rate + jax.vmap(lambda one: inner.total_loss(inner.losses(one)))(replicas)
        drawn = jax.random.gamma(key, self.betas * (inner.prior.shape + inner.degrees)) / rate
        return jax.vmap(inner.with_dispersion)(replicas.lambdas, drawn)


def _coldest(state: TemperedState):
    return jax.tree.map(lambda part: part[-1], state.replicas)


@dataclass(frozen=True)
class InEachReplica:
    """Runs the inner target's moves given lambda in all replicas at once; reports those of the coldest."""

    moves: tuple

    def __call__(self, key, target, state):
        keys = jax.random.split(key, len(target.betas))
        replicas, stats = jax.vmap(lambda key, one: in_turn(key, target.inner, one, self.moves))(keys, state.replicas)
        return state._replace(replicas=replicas), {name: values[-1] for name, values in stats.items()}


@dataclass(frozen=True)
class ExchangeReplicas:
    """Neighbours exchange states; then every replica draws its inverse temperature, which the exchange integrated out."""

    statistics = {"exchange_rate": Statistic("figure"), TRIPS: Statistic("figure")}  # noqa: RUF012

    def __call__(self, key, target, state):
        of_exchange, of_temperatures = jax.random.split(key)
        order, accepted = exchange(of_exchange, target.energies(state), target.betas)
        replicas, hot = jax.tree.map(lambda part: part[order], (state.replicas, state.came_from_hottest))
        replicas, trips = replicas._replace(lambdas=state.replicas.lambdas), state.round_trips + hot[-1]
        state = TemperedState(replicas, hot.at[-1].set(0).at[0].set(1), trips, state.accepted + accepted)
        drawn = target.drawn_temperatures(of_temperatures, state)
        state = state._replace(replicas=replicas._replace(lambdas=drawn))
        return state, {"exchange_rate": accepted.mean(), TRIPS: trips.astype(jnp.float32)}


def temper(problem: Problem, states, num_warmup: int, progress_bar=False) -> tuple[Problem, Run] | None:
    """(the problem in replicas, a run of it from the chains' states) if they make round trips in a trial, else None.

    Inverse temperatures are spaced so that all neighbours exchange equally often (Syed, Bouchard-Côté, Deligiannidis and
    Doucet 2022, Journal of the Royal Statistical Society B 84, section 5).
    """
    if num_warmup < FEWEST_SWEEPS:
        return None
    hottest = HOTTEST * (problem.target.loss.degree or 1.0) / problem.target.x.shape[1]
    target = with_replicas(problem.target, np.geomspace(hottest, 1.0, N_REPLICAS))
    states = target.replicate(states)
    chains = Chains.of(problem._replace(target=target), len(states.round_trips))
    run = chains.run(states, FIRST_KEY)
    with progress(sum(num_warmup // share for share in WINDOWS), "replicas", progress_bar) as bar:
        for share in WINDOWS[:-1]:
            run, accepted, _ = _window(run, target, num_warmup // share, bar)
            target = with_replicas(problem.target, spaced(target.betas, 1 - accepted))
        run, _, trips = _window(run, target, num_warmup // WINDOWS[-1], bar)
    if trips < FEWEST_TRIPS:
        return None
    return problem._replace(target=target), chains.run(target.begun(run.states))


def _window(run: Run, target, n_sweeps, bar):
    """(the run after `n_sweeps`, the share of accepted exchanges of each pair, round trips of a chain)."""
    before = run.states
    run, _, _ = forward(run, target, n_sweeps, bar)
    accepted, trips = (np.asarray(getattr(run.states, name) - getattr(before, name), float) for name in FIGURES)
    return run, accepted.mean(0) / n_sweeps, trips.mean()


def spaced(betas, rejected):
    """As many inverse temperatures between the same ends, with equal rejections between neighbours."""
    barrier = np.append(0.0, np.cumsum(np.maximum(rejected, LEAST)))
    at = np.linspace(0, barrier[-1], len(barrier))
    return np.exp(np.interp(at, barrier, np.log(np.asarray(betas, float))))


def with_replicas(target: Target, betas) -> Tempered:
    """The target in replicas at these inverse temperatures."""
    return Tempered(target, on_device(betas, target.x.dtype))
