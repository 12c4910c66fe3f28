"""Replica exchange over the inverse temperature, where it makes round trips: how modes are crossed that no jump crosses."""

import jax.numpy as jnp
import numpy as np

from bayesfair._progress import progress
from bayesfair.gibbs.problem import Problem
from bayesfair.gibbs.run import Run, chain_keys, forward
from bayesfair.gibbs.target import Target
from bayesfair.gibbs.targets.tempered import Tempered

__all__ = ["temper", "with_replicas"]

N_REPLICAS = 16
HOTTEST = 0.1  # degrees of freedom per person that the hottest replica sees
WINDOWS = 16, 16, 8, 4, 2  # shares of the warm-up, one over these; the ladder is spaced anew after all but the last
FEWEST_TRIPS = 1  # of a chain in the last window: draws, with thinning from the warm-up, are worth several windows
FEWEST_SWEEPS = 64  # of a warm-up that can tell
LEAST = 1e-3  # share of rejections between neighbours
FIGURES = "accepted", "round_trips"  # of a `TemperedState`
FIRST_KEY = 1 << 22  # chains of the trial have numbers from here on


def temper(problem: Problem, states, num_warmup: int, progress_bar=False) -> tuple[Problem, Run] | None:
    """(the problem in replicas, a run of it from these states of the chains), where they made round trips; None where not.

    The trial takes `num_warmup` sweeps of all replicas. Inverse temperatures are spaced so that all neighbours exchange as
    often (Syed, Bouchard-Côté, Deligiannidis and Doucet 2022, Journal of the Royal Statistical Society B 84, section 5).
    """
    if num_warmup < FEWEST_SWEEPS:
        return None
    target = with_replicas(problem.target, first_ladder(problem.target))
    states, moves, seed = target.replicate(states), target.moves(problem.settings), problem.settings.seed
    num_chains = len(states.round_trips)
    run = Run(chain_keys(seed, num_chains, FIRST_KEY), 0, states, moves)
    with progress(sum(num_warmup // share for share in WINDOWS), "replicas", progress_bar) as bar:
        for share in WINDOWS[:-1]:
            run, accepted, _ = _window(run, target, num_warmup // share, bar)
            target = with_replicas(problem.target, spaced(target.betas, 1 - accepted))
        run, _, trips = _window(run, target, num_warmup // WINDOWS[-1], bar)
    if trips < FEWEST_TRIPS:
        return None
    return problem._replace(target=target), Run(chain_keys(seed, num_chains), 0, target.begun(run.states), moves)


def _window(run: Run, target, n_sweeps, bar):
    """(the run after so many sweeps, the share of exchanges of each pair that was accepted, round trips of a chain)."""
    before = run.states
    run, _, _ = forward(run, target, n_sweeps, bar)
    accepted, trips = (np.asarray(getattr(run.states, name) - getattr(before, name), float) for name in FIGURES)
    return run, accepted.mean(0) / n_sweeps, trips.mean()


def first_ladder(target: Target):
    """Inverse temperatures, in equal ratios, from where the hottest replica has lost the data up to 1."""
    degree = target.loss.degree or 1.0
    hottest = HOTTEST * degree / target.x.shape[1]
    return np.geomspace(hottest, 1.0, N_REPLICAS)


def spaced(betas, rejected):
    """As many inverse temperatures, between the same ends, with as many rejections between any two neighbours."""
    barrier = np.append(0.0, np.cumsum(np.maximum(rejected, LEAST)))
    at = np.linspace(0, barrier[-1], len(barrier))
    return np.exp(np.interp(at, barrier, np.log(np.asarray(betas, float))))


def with_replicas(target: Target, betas) -> Tempered:
    """The target in replicas at these inverse temperatures."""
    return Tempered(target, jnp.asarray(betas, target.x.dtype))
