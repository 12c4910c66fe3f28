"""Chains as joblib tasks: chunks of draws, bit for bit the same under every backend and however a run is cut."""

import time
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from bayesfair._check import tell_of_interruption
from bayesfair._draws import Draws
from bayesfair._progress import progress
from bayesfair.gibbs.target import Room

CHUNK_SECONDS = 0.5  # after which Ctrl-C is heard
FIRST_VISITS = 20_000  # of the first call of a chain; later ones follow the clock, which no draw depends on


class Chunk(NamedTuple):
    """What a task returns: the state, which another process has changed in a copy, and the filled part of its room."""

    state: object
    room: Room
    done: int


def advance(law, state, thinning, visits, room, first) -> Chunk:
    """One task: go on with one chain."""
    return Chunk(state, room, law.advance(state, thinning, visits, room, first))


def empty_room(law, n_draws: int) -> Room:
    """Space for the draws of one chain."""
    n_obs, kind = len(law.table.X), np.min_scalar_type(-law.table.n_clusters)
    return Room(
        np.empty((n_draws, n_obs), kind), np.empty((0, n_obs), np.int32), np.empty((n_draws, len(law.statistics)))
    )


def draw(law, states: list, num_draws: int, thinning: int = 1, *, n_jobs=None, progress_bar=False):
    """(states, Draws): `num_draws` more draws of every chain. Ctrl-C keeps the draws that all chains have made."""
    chains = [Chunk(state, empty_room(law, num_draws), 0) for state in states]
    visits = FIRST_VISITS
    with (
        Parallel(n_jobs=n_jobs or -1, prefer="threads", max_nbytes=None) as pool,
        progress(num_draws, "draws", progress_bar) as bar,
    ):
        try:
            while min(chain.done for chain in chains) < num_draws:
                began, before = time.perf_counter(), min(chain.done for chain in chains)
                chains = pool(
                    delayed(advance)(law, state, thinning, visits, room, done) for state, room, done in chains
                )
                bar.update(min(chain.done for chain in chains) - before)
                seconds = time.perf_counter() - began
                visits = int(min(2 * visits, max(visits * CHUNK_SECONDS / max(seconds, 1e-6), FIRST_VISITS / 20)))
        except KeyboardInterrupt:
            made = min(chain.done for chain in chains)
            if not made:
                raise
            tell_of_interruption(made, num_draws)
            num_draws = made
    return [chain.state for chain in chains], _draws(law, chains, num_draws)


def _draws(law, chains, num_draws) -> Draws:
    labels = np.stack([chain.room.labels[:num_draws] for chain in chains])
    scalars = np.stack([chain.room.scalars[:num_draws] for chain in chains])
    named = {name: np.ascontiguousarray(scalars[..., at]) for at, name in enumerate(law.statistics)}
    return Draws(labels, named, law.statistics)
