"""A run: warm-up, chunks of draws with a progress bar, a clean stop on Ctrl-C, and a state to resume from."""

import time
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Int, UInt

from bayesfair._check import message, tell, tell_of_interruption
from bayesfair._draws import Draws, FairletDraws
from bayesfair._jit import jit
from bayesfair._progress import one_step, progress
from bayesfair.distributed.messages import agreed
from bayesfair.gibbs.problem import Problem
from bayesfair.gibbs.sweep import every_move, run_chunk, statistics_of
from bayesfair.gibbs.target import Target
from bayesfair.gibbs.thinning import cluster_sizes
from bayesfair.gibbs.threads import compile_once, in_threads

CHUNK_BYTES = 32_000_000  # of labels that the sampler holds at a time, all chains together
MAX_CHUNK = 64
CHUNK_SECONDS = 0.5  # longest time without progress and without a check for Ctrl-C, past the first chunk
WINDOW = 32  # sweeps of the warm-up between adaptations of the moves


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
        """The fairlets of these draws."""
        return FairletDraws(fairlet, None if self.number == self.of else self.done + which)


class Run(NamedTuple):
    """A run that can be continued."""

    keys: UInt[Array, "chains 2"]
    sweep: int  # how many are done
    states: Any
    moves: tuple
    fairlets: KeepFairlets | None = None  # for targets with fairlets (`HasFairlets`)


class Chains(NamedTuple):
    """Chains that run side by side: the target, the moves of a sweep, the seed, and how many there are."""

    target: Target
    moves: tuple
    seed: int
    number: int

    @classmethod
    def of(cls, problem: Problem, number: int):
        return cls(problem.target, problem.target.moves(problem.settings), problem.settings.seed, number)

    def run(self, states, first=0) -> Run:
        """A run of these chains from these states, numbered from `first` on."""
        return Run(chain_keys(self.seed, self.number, first), 0, states, self.moves)


def start_run(problem: Problem, num_chains: int) -> Run:
    """Chains at the target's starts, with the target's moves."""
    table, settings, target = problem
    return Chains.of(problem, num_chains).run(target.starts(table, settings, num_chains))


def chain_keys(seed: int, num_chains: int, first=0) -> UInt[Array, "chains 2"]:
    """One key per chain, numbered from `first` on; sweep t of a chain uses fold_in(key, t)."""
    return _keys_of(jax.random.PRNGKey(seed), np.arange(first, first + num_chains, dtype=np.uint32))


@jit
def _keys_of(key, chains):
    return jax.vmap(lambda chain: jax.random.fold_in(key, chain))(chains)


def warm_up(run: Run, target: Target, num_warmup: int, progress_bar=False) -> tuple[Run, dict[str, np.ndarray]]:
    """Discard `num_warmup` sweeps; return the run and the reports, {name: (chains, sweeps)}, with sizes of clusters.

    After every WINDOW sweeps, moves that can adapt get the means of the reports, pooled over chains. Complaints of moves
    at the end become warnings.
    """
    done, chunks, changed, tried = 0, [], 0, defaultdict(set)  # `changed`: number of chunks when moves last changed
    with one_step("compiling", progress_bar):  # beforehand: the bar judges by the first sweeps when all will be done
        advance(run, target, 0, 1)
    with progress(num_warmup, "warm-up", progress_bar) as bar:
        for n_sweeps in _pace(num_warmup, _chunk_length(run, target), bar, WINDOW):
            run, rows, scalars = advance(run, target, n_sweeps, 1)
            done += n_sweeps
            chunks.append({**scalars, **cluster_sizes(rows["labels"], target.n_clusters)})
            if done % WINDOW == 0:
                moves = _adapted(run.moves, target, _recent(chunks[changed:]), tried)
                changed = changed if moves == run.moves else len(chunks)
                run = run._replace(moves=moves)
    for move in every_move(run.moves) if chunks[changed:] else ():
        if hasattr(move, "complaint") and (text := move.complaint(_recent(chunks[changed:]), WINDOW)):
            tell(text, RuntimeWarning)
    return run, _whole(chunks)


def _each(change, moves) -> tuple:
    """The moves, those inside others too, each one changed."""

    def one(move):
        return replace(move, moves=_each(change, move.moves)) if hasattr(move, "moves") else change(move)

    return tuple(map(one, moves))


def _adapted(moves, target, recent, tried):
    """The moves as they adapt to what was `recent`; each may note what it did in its own set."""

    def one(move):
        return move.adapt(target, recent, tried[type(move)]) if hasattr(move, "adapt") else move

    return _each(one, moves)


def _recent(chunks) -> dict[str, float]:
    """Means over the last window, or over all sweeps if there were fewer."""
    return {name: float(values[:, -WINDOW:].mean(dtype=float)) for name, values in _whole(chunks).items()}


def _whole(chunks) -> dict[str, np.ndarray]:
    """Join the scalars of consecutive chunks, for the names in the last one; {} without chunks."""
    names = chunks[-1] if chunks else ()
    return {name: np.concatenate([chunk[name] for chunk in chunks], axis=1) for name in names}


def tuning(moves) -> dict[str, int]:
    """The settings found by the warm-up, by name, for a file."""
    return {name: getattr(move, name) for move in every_move(moves) for name in getattr(move, "tunes", ())}


def tuned(moves, values) -> tuple:
    """The moves with the settings from `tuning`."""
    return _each(lambda move: replace(move, **{name: values[name] for name in getattr(move, "tunes", ())}), moves)


class InMemory:
    """Collects draws in arrays of their full size.

    Anything with `done` (how many) and `append(run, draws)`, which takes a chunk as a whole or not at all, can replace it.
    """

    def __init__(self, num_draws: int, fairlets: KeepFairlets | None = None):
        self._num_draws, self._keep, self._last = num_draws, fairlets, (None, 0)

    def append(self, run: Run, draws: Draws):
        if self.done == 0:
            self._labels = self._room(draws.labels)
            self._scalars = {name: self._room(values) for name, values in draws.scalars.items()}
            self._statistics = draws.statistics
            if draws.fairlets is not None:
                self._which = self._keep.among(self._num_draws)
                self._fairlet = self._room(draws.fairlets.fairlet, len(self._which))
        into = slice(self.done, self.done + draws.labels.shape[1])
        self._labels[:, into] = draws.labels
        for name, values in draws.scalars.items():
            self._scalars[name][:, into] = values
        if draws.fairlets is not None:
            first, last = np.searchsorted(self._which, (into.start, into.stop))
            self._fairlet[:, first:last] = draws.fairlets.fairlet
        self._last = run, into.stop  # in one assignment, so that an interrupt leaves no half chunk

    def _room(self, part, length=None):
        return np.empty((part.shape[0], self._num_draws if length is None else length, *part.shape[2:]), part.dtype)

    @property
    def run(self) -> Run:
        return self._last[0]

    @property
    def done(self) -> int:
        return self._last[1]

    @property
    def draws(self) -> Draws:
        scalars, fairlets = {name: values[:, : self.done] for name, values in self._scalars.items()}, None
        if self._keep is not None:
            which = self._which[: np.searchsorted(self._which, self.done)]
            fairlets = self._keep.of_draws(self._fairlet[:, : len(which)], which)
        return Draws(self._labels[:, : self.done], scalars, self._statistics, fairlets)


def draw(
    run: Run, target: Target, num_draws: int, thinning: int = 1, progress_bar=False, into=None
) -> tuple[Run, Draws] | None:
    """Make `num_draws` draws per chain, `thinning` sweeps apart; None if they go `into` another collector.

    Ctrl-C keeps the draws made so far, if any.
    """
    statistics = statistics_of(target, run.moves)
    kept = InMemory(num_draws, run.fairlets) if into is None else into
    try:
        with progress(num_draws, "draws", progress_bar) as bar:
            for n_draws in _pace(num_draws, _chunk_length(run, target), bar):
                keep = run.fairlets
                run, rows, scalars = advance(run, target, n_draws, thinning)
                draws = _kept(rows["labels"], scalars, statistics)
                if keep is not None:
                    which = keep.among(n_draws)
                    draws = draws._replace(fairlets=keep.of_draws(rows["fairlet"][:, which], which))
                    run = run._replace(fairlets=keep._replace(done=keep.done + n_draws))
                kept.append(run, draws)
    except KeyboardInterrupt:
        if not kept.done:
            raise
        tell_of_interruption(kept.done, num_draws)
    return None if into is not None else (kept.run, kept.draws)


def _kept(labels, scalars, statistics) -> Draws:
    """The draws of a chunk without scalars that only the warm-up reads; undeclared scalars are an error."""
    if undeclared := sorted(set(scalars) - set(statistics)):
        rule, got = "declare every scalar that is reported", f"none of {undeclared}"
        remedy = "Name them in the `statistics` of the move or target that reports them."
        raise ValueError(message("statistics", rule, got, remedy))
    kept = {name: kind for name, kind in statistics.items() if kind.kind != "tuning"}
    return Draws(labels, {name: scalars[name] for name in kept}, kept)


def advance(run: Run, target: Target, n_draws: int, thinning: int):
    """(the run afterwards, what is kept of every row {name: (chains, n_draws, obs)}, reported scalars)."""
    length, chains, fairlets = _chunk_length(run, target), (run.keys, run.states), run.fairlets is not None

    def chunk(chains, n_draws=n_draws):
        numbers = run.sweep, n_draws, thinning
        states, rows, scalars = run_chunk(target, chains, numbers, run.moves, length, fairlets=fairlets)
        # Copies: a view would keep the whole chunk, which is mostly empty if sweeps are slow.
        return states, jax.tree.map(lambda part: np.asarray(part)[:, :n_draws].copy(), (rows, scalars))

    def compile_first(one):
        compile_once(partial(chunk, one, n_draws=0), (run.moves, length, fairlets), (target, one))

    states, (rows, scalars) = in_threads(chunk, chains, compile_first)
    number = run.sweep + thinning * np.arange(1, n_draws + 1)
    for move in every_move(run.moves):
        if getattr(move, "period", 1) > 1:  # NaN for draws in whose last sweep it was idle
            for name in move.statistics:
                scalars[name] = np.where(number % move.period == 0, scalars[name], np.nan)
    return run._replace(sweep=run.sweep + n_draws * thinning, states=states), rows, scalars


def forward(run: Run, target: Target, n_sweeps: int, bar):
    """Run `n_sweeps` and keep none: (the run afterwards, labels (chains, obs), the last sweep's scalars)."""
    for size in _pace(n_sweeps, n_sweeps, bar):
        run, rows, scalars = advance(run, target, 1, size)
    return run, rows["labels"][:, 0], scalars


def _chunk_length(run: Run, target: Target) -> int:
    """Draws in one compiled call; fixed by the problem alone, so that it compiles once."""
    of_row = 1 if run.fairlets is None else 1 + np.min_scalar_type(-target.n_fairlets).itemsize
    return int(np.clip(CHUNK_BYTES // (run.keys.shape[0] * target.n_obs * of_row), 1, MAX_CHUNK))


def _pace(total: int, longest: int, bar, window: int | None = None):
    """Sizes of chunks that add up to `total`, none across a multiple of `window`, each of about CHUNK_SECONDS.

    So the clock (process 0's if chains are shared) decides when Ctrl-C is heard; draws never depend on it.
    """
    done, wish, window = 0, 1, window or total
    while done < total:
        size = min(wish, longest, total - done, window - done % window)
        began = time.perf_counter()
        yield size
        seconds = time.perf_counter() - began
        done += size
        bar.update(size)
        wish = agreed(max(1, min(2 * wish, int(size * CHUNK_SECONDS / max(seconds, 1e-6)))))
