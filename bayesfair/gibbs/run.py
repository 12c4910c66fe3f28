"""Chains as joblib tasks: a warm-up, then draws in chunks, with a progress bar and a clean stop on Ctrl-C.

A chunk is what Ctrl-C may lose: its chains go on from copies of their states, which replace these when all chains have made
their draws. Draws are bit for bit the same under every backend, and however a run is cut into chunks and tasks.
"""

import time
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

from bayesfair._check import tell_of_interruption
from bayesfair._draws import Draws, FairletDraws
from bayesfair._progress import one_step, progress
from bayesfair.gibbs.convergence import Convergence
from bayesfair.gibbs.target import Room, empty_room
from bayesfair.gibbs.thinning import cluster_sizes

CHUNK_SECONDS = 0.5  # longest time without progress and without a check for Ctrl-C
CHUNK_BYTES = 64_000_000  # of labels in a chunk, all chains together
FIRST_VISITS = 20_000  # of the first task of a chain; later ones follow the clock, which no draw depends on


class KeepFairlets(NamedTuple):
    """Which draws keep their fairlets: `number` of every `of`, evenly spaced, after `done` earlier draws."""

    number: int = 1
    of: int = 1
    done: int = 0

    def among(self, n_draws: int) -> Int[np.ndarray, " kept"]:
        """Which of the next `n_draws` draws keep them."""
        draws = np.arange(n_draws)
        return draws[(self.done + draws) * self.number % self.of < self.number]

    def of_draws(self, fairlet, which) -> FairletDraws:
        """The fairlets of the draws `which`, from the first one after those done."""
        return FairletDraws(fairlet, None if self.number == self.of else self.done + which)


class Chains:
    """The chains of a run: a prepared target, their states, and the joblib tasks that go on with them."""

    def __init__(self, law, states: list, n_jobs=None, keep: KeepFairlets | None = None):
        self.law, self.states, self.keep = law, states, keep
        self._visits = FIRST_VISITS
        self._pool = tasks(n_jobs)

    def compile(self, progress_bar=False):
        """Compile in this thread alone, before several would, by the first visit of a chain that nobody keeps."""
        with one_step("compiling", progress_bar):
            advance(self.law, copied(self.states[0]), 1, 1, self._room(1), 0)

    def learn(self, n_sweeps: int):
        """Sweeps of the warm-up in which every chain adapts its moves."""
        self.states = self._pool(delayed(learnt)(self.law, copied(state), n_sweeps) for state in self.states)

    def draws(self, n_draws: int, thinning: int) -> Draws:
        """The next draws of all chains, `thinning` sweeps apart."""
        parts = [(copied(state), self._room(n_draws), 0) for state in self.states]
        while any(done < n_draws for *_, done in parts):
            began, behind = time.perf_counter(), [at for at, (*_, done) in enumerate(parts) if done < n_draws]
            parts_of_draws = (
                delayed(advance)(self.law, state, thinning, self._visits, room, done)
                for state, room, done in map(parts.__getitem__, behind)
            )
            for at, part in zip(behind, self._pool(parts_of_draws)):
                parts[at] = part
            if any(done < n_draws for *_, done in parts):  # visits were too few, so all of them were made
                seconds = max(time.perf_counter() - began, 1e-6)
                faster = max(self._visits * CHUNK_SECONDS / seconds, FIRST_VISITS / 20)
                self._visits = int(min(2 * self._visits, faster))
        self.states = [state for state, *_ in parts]
        draws = self._as_draws([room for _, room, _ in parts])
        if self.keep is not None:
            self.keep = self.keep._replace(done=self.keep.done + n_draws)
        return draws

    def _room(self, n_draws) -> Room:
        return empty_room(self.law, n_draws, 0 if self.keep is None else n_draws)

    def _as_draws(self, rooms) -> Draws:
        smallest = np.min_scalar_type(-self.law.table.n_clusters)
        labels = np.stack([room.labels.astype(smallest) for room in rooms])
        scalars, fairlets = np.stack([room.scalars for room in rooms]), None
        if self.keep is not None:
            which = self.keep.among(labels.shape[1])
            kept = np.stack([room.fairlets[which] for room in rooms])
            fairlets = self.keep.of_draws(kept.astype(np.min_scalar_type(-self.law.n_fairlets)), which)
        named = {name: np.ascontiguousarray(scalars[..., at]) for at, name in enumerate(self.law.statistics)}
        return Draws(labels, named, self.law.statistics, fairlets)

    @property
    def longest(self) -> int:
        """Most draws of a chunk."""
        return max(1, CHUNK_BYTES // (4 * len(self.states) * len(self.law.table.X)))


def tasks(n_jobs=None) -> Parallel:
    """What runs joblib tasks: threads on all processors, or as the context and `n_jobs` say."""
    _, of_context = get_active_backend()
    threads = n_jobs if n_jobs is not None else None if of_context not in (None, 1) else -1
    return Parallel(n_jobs=threads, prefer="threads", max_nbytes=None)


def copied(state):
    """A chain's state in arrays of its own."""
    return type(state)(*(part.copy() for part in state))


def advance(law, state, thinning, visits, room, first):
    """One task: (the state, the room, the number of the next draw) of one chain after about `visits` more visits."""
    return state, room, law.advance(state, thinning, visits, room, first)


def learnt(law, state, n_sweeps):
    """One task: the state of one chain after `n_sweeps` sweeps in which its moves adapt."""
    law.learn(state, n_sweeps)
    return state


def warm_up(chains: Chains, num_warmup: int, progress_bar=False) -> dict[str, np.ndarray]:
    """Discard `num_warmup` sweeps, in whose first half moves adapt; {name: (chains, sweeps)} of the second half's scalars."""
    reports, n_learn = [], num_warmup // 2
    with progress(num_warmup, "warm-up", progress_bar) as bar:
        for n_sweeps in _pace(n_learn, chains, bar):
            chains.learn(n_sweeps)
        for n_sweeps in _pace(num_warmup - n_learn, chains, bar):
            draws = chains.draws(n_sweeps, 1)
            reports.append({**draws.scalars, **cluster_sizes(draws.labels, chains.law.table.n_clusters)})
    names = reports[0] if reports else ()
    return {name: np.concatenate([one[name] for one in reports], axis=1) for name in names}


class InMemory:
    """Collects draws in arrays of their full size.

    Anything with `done` (how many) and `append(chains, draws)`, which takes a chunk as a whole or not at all, can replace it.
    """

    def __init__(self, num_draws: int):
        self._num_draws, self._parts, self._last = num_draws, None, (0, None)

    @property
    def done(self) -> int:
        return self._last[0]

    @property
    def states(self) -> list:
        """Of the chains, after the last chunk."""
        return self._last[1]

    def append(self, chains: Chains, draws: Draws):
        if self._parts is None:
            self._keep = (
                None if chains.keep is None else chains.keep._replace(done=chains.keep.done - draws.labels.shape[1])
            )
            n_kept = 0 if self._keep is None else len(self._keep.among(self._num_draws))
            self._like = draws
            self._parts = self._room(draws.labels), {name: self._room(v) for name, v in draws.scalars.items()}
            self._fairlets = None if draws.fairlets is None else self._room(draws.fairlets.fairlet, n_kept)
        into = slice(self.done, self.done + draws.labels.shape[1])
        labels, scalars = self._parts
        labels[:, into] = draws.labels
        for name, values in draws.scalars.items():
            scalars[name][:, into] = values
        if draws.fairlets is not None:
            first, last = (len(self._keep.among(end)) for end in (into.start, into.stop))
            self._fairlets[:, first:last] = draws.fairlets.fairlet
        self._last = into.stop, chains.states  # in one assignment, so that an interrupt leaves no half chunk

    def _room(self, part, length=None):
        shape = part.shape[0], self._num_draws if length is None else length, *part.shape[2:]
        return np.empty(shape, part.dtype)

    @property
    def draws(self) -> Draws:
        labels, scalars = self._parts
        made, fairlets = {name: values[:, : self.done] for name, values in scalars.items()}, None
        if self._fairlets is not None:
            which = self._keep.among(self.done)
            fairlets = self._keep.of_draws(self._fairlets[:, : len(which)], which)
        return Draws(labels[:, : self.done], made, self._like.statistics, fairlets)


def draw(chains: Chains, num_draws: int, thinning: int, into, progress_bar=False):
    """Make `num_draws` draws per chain `into` a collector, `thinning` sweeps apart. Ctrl-C keeps the chunks made so far."""
    try:
        with progress(num_draws, "draws", progress_bar) as bar:
            watch = Convergence(chains.law.table.n_clusters)
            for n_draws in _pace(num_draws, chains, bar):
                draws = chains.draws(n_draws, thinning)
                into.append(chains, draws)
                if bar.is_seen:
                    bar.tell(*watch.told(draws))
    except KeyboardInterrupt:
        if not into.done:
            raise
        tell_of_interruption(into.done, num_draws)


def _pace(total: int, chains: Chains, bar):
    """Sizes of chunks that add up to `total`, each of about CHUNK_SECONDS: the clock decides when Ctrl-C is heard."""
    done, wish = 0, max(1, FIRST_VISITS // len(chains.law.table.X))
    while done < total:
        size = min(wish, chains.longest, total - done)
        began = time.perf_counter()
        yield size
        seconds = time.perf_counter() - began
        done += size
        bar.update(size)
        wish = max(1, min(2 * wish, int(size * CHUNK_SECONDS / max(seconds, 1e-6))))
