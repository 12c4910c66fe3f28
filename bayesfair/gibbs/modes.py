"""Find the modes of the posterior: many short runs from different starts, grouped by where they end.

With conjugate centres, runs are grouped by their centres in units of posterior spread; with other losses, by the
distance of labels in bits.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment

from bayesfair._arrays import on_device, stack
from bayesfair._jit import jit
from bayesfair._partitions import partition_distance
from bayesfair._progress import one_step, progress
from bayesfair.gibbs.capabilities import HasUnits
from bayesfair.gibbs.loss import cluster_means
from bayesfair.gibbs.moves.mode_jumps import Modes
from bayesfair.gibbs.problem import Problem
from bayesfair.gibbs.run import Chains, Run, forward
from bayesfair.gibbs.threads import in_threads, of_every_chain

FEWEST_SWEEPS = 48  # least sweeps per start; a shorter warm-up has fewer starts
MOST_SWEEPS = 1000
SNAPSHOTS = 12  # snapshots of every start, in the second half of its sweeps
CENTER_DRAWS = 64  # draws of the centres given the labels of a snapshot
NEAR = 3.0  # distance of centres, in spreads of both, up to which two starts share a mode
FURTHER = 4  # one start in so many begins from the best of the others
FIRST_KEY = 1 << 20  # number of the first chain of the search


class CenterLaw(NamedTuple):
    """Law of a snapshot's centres given its labels: mean and variance of their coordinates, and lambda."""

    mean: np.ndarray
    variance: np.ndarray
    dispersion: np.ndarray


class Found(NamedTuple):
    """End of one start: its last state and labels, and statistics of its snapshots."""

    state: Any
    labels: np.ndarray
    first_labels: np.ndarray | None  # of the first snapshot; None if centres have a law
    lp: np.ndarray  # NaN if there is no density
    loss: np.ndarray
    centers: CenterLaw | None

    @property
    def score(self) -> float:
        """Higher is better: the mean log density, or minus the loss."""
        value = self.lp.mean() if np.isfinite(self.lp).all() else -self.loss.mean()
        return float(np.nan_to_num(value, nan=-np.inf))


@dataclass
class Mode:
    """A mode: its runs, best first, how many starts led there, and its centres with spread (None if the loss has none)."""

    members: list[Found]
    starts: int = 0
    center: np.ndarray | None = None
    spread: np.ndarray | None = None
    dispersion: float = np.nan

    @property
    def best(self) -> Found:
        return self.members[0]

    def pool(self, size):
        """States of `size` chains in this mode, stacked."""
        return stack([self.members[at % len(self.members)].state for at in range(size)])


def n_search_starts(num_starts: int, num_chains: int, num_warmup: int) -> int:
    """Number of starts that the warm-up's sweeps allow: two or more whole batches of chains, or none."""
    batches = min(max(2, -(-num_starts // num_chains)), num_warmup // FEWEST_SWEEPS)
    return num_chains * batches if num_starts > 0 and batches > 1 else 0


def find_modes(problem: Problem, num_chains: int, n_starts: int, num_warmup: int, progress_bar=False) -> list[Mode]:
    """The modes that `n_starts` starts lead to, best first.

    The target's own starts, and then starts that vary the best of these, are settled and grouped. From the best run of
    every group chains continue: they show the mode's spread, and merge runs that had not yet arrived.
    """
    table, settings, target = problem
    n_further = num_chains * (n_starts // FURTHER // num_chains)
    sweeps = min(num_chains * num_warmup // n_starts, MOST_SWEEPS)
    rng = np.random.default_rng(settings.seed)
    with one_step("starts", progress_bar):  # fairlets and clusters
        starts = target.starts(table, settings, n_starts - n_further)
    with progress(_length(n_starts, num_chains, sweeps), "modes", progress_bar) as bar:
        search = Search(Chains.of(problem, num_chains), bar)
        settled = search.settle(starts, sweeps)
        del starts  # all their labels
        best = max(settled, key=lambda one: one.score)
        further = target.further_starts(table, settings, best.state, n_further, rng) if n_further else None
        if further is not None:
            settled += search.settle(further, sweeps)
        places = group(settled)
        chains = [Mode([place.best]).pool(num_chains) for place in places]
        sweeps = max(min(num_warmup // (2 * len(places)), sweeps), SNAPSHOTS)
        again = search.settle(jax.tree.map(lambda *parts: np.concatenate(parts), *chains), sweeps)
    return [located(mode) for mode in _counted(group(again), places, again)]


def _counted(modes: list[Mode], places: list[Mode], again: list[Found]) -> list[Mode]:
    """The modes with their numbers of starts: those of a place count for the mode where most chains from there went."""
    size = len(again) // len(places)
    for at, place in enumerate(places):
        own = {id(run) for run in again[at * size : (at + 1) * size]}
        home = max(modes, key=lambda mode: sum(id(run) in own for run in mode.members))
        home.starts += len(place.members)
    return modes


class Search:
    """Runs of the search, `num_chains` at a time: the shape of the run itself, so that nothing compiles twice."""

    def __init__(self, chains: Chains, bar):
        self.chains, self.bar = chains, bar
        self.next_chain = FIRST_KEY

    def settle(self, states, sweeps) -> list[Found]:
        """Run every state for this many sweeps."""
        n_states, number, ends = len(jax.tree.leaves(states)[0]), self.chains.number, []
        self.bar.total = max(self.bar.total, self.bar.n + _length(n_states, number, sweeps))
        for at in range(0, n_states, number):
            rows = np.arange(at, at + number) % n_states  # the first states pad the last batch
            batch = jax.tree.map(lambda part: np.asarray(part)[rows], states)  # noqa: B023
            run = self.chains.run(batch, self.next_chain)
            ends += _settled(run, self.chains.target, sweeps, self.bar)[: n_states - at]
            self.next_chain += number
        return ends


def _length(n_states, num_chains, sweeps):
    """Sweeps that `Search.settle` needs for this many states."""
    return -(-n_states // num_chains) * sum(_steps(sweeps))


def _steps(sweeps) -> list[int]:
    """Sweeps before each snapshot."""
    step = max(1, sweeps // 2 // SNAPSHOTS)
    return [max(1, sweeps - step * (SNAPSHOTS - 1)), *[step] * (SNAPSHOTS - 1)]


def _settled(run: Run, target, sweeps, bar) -> list[Found]:
    laws, chunks, first = [], [], None
    for step in _steps(sweeps):
        run, labels, scalars = forward(run, target, step, bar)
        first = labels if first is None else first
        laws.append(center_law(run, target))
        chunks.append(scalars)
    unknown, states = np.full((len(labels), 1), np.nan), jax.tree.map(np.asarray, run.states)
    lp, loss = (
        np.concatenate([np.asarray(one.get(name, unknown), float) for one in chunks], axis=1)
        for name in ("lp", "clustering_loss")
    )
    law = None if laws[0] is None else CenterLaw(*map(np.stack, zip(*laws)))

    def one(at):
        centers = None if law is None else _in_one_numbering(*(part[:, at] for part in law))
        state, first_labels = jax.tree.map(lambda part: part[at], states), first[at] if law is None else None
        return Found(state, labels[at], first_labels, lp[at], loss[at], centers)

    return [one(at) for at in range(len(first))]


def center_law(run: Run, target) -> CenterLaw | None:
    """Law of every chain's centres; None if the loss has none in whose coordinates chains can jump."""
    if not can_jump(target):
        return None
    keys = jax.vmap(jax.random.fold_in, (0, None))(run.keys, run.sweep)
    law = in_threads(lambda chains: _center_law(target, *chains), (keys, run.states))
    return CenterLaw(*map(np.asarray, law))


def can_jump(target) -> bool:
    """Do the target's moves and loss have paths between modes?"""
    if not isinstance(target, HasUnits) or target.n_clusters == 1:
        return False
    if not (target.clusters_are_independent or target.path_moves()):
        return False
    augmentation = target.loss.augmentation
    return augmentation is not None and augmentation.log_measure is not None


@jit
def _center_law(target, keys, states):
    def one(key, state):
        state, loss = target.open(state), target.loss
        means = cluster_means(target.units_of(state), target.n_clusters)
        draw = jax.vmap(lambda key: loss.coordinates(loss.draw_centers(key, state.lambda_c, means)))
        drawn = draw(jax.random.split(key, CENTER_DRAWS))
        return drawn.mean(0), drawn.var(0), target.dispersion_of(state.lambdas)

    return of_every_chain(one, keys, states)


def _in_one_numbering(mean, variance, dispersion) -> CenterLaw:
    """The snapshots' centres in float64, numbered as in the last snapshot."""
    mean, variance = mean.astype(float), variance.astype(float)
    for at in range(len(mean) - 1):
        order, _ = matched(mean[-1], variance[-1], mean[at], variance[at])
        mean[at], variance[at] = mean[at][order], variance[at][order]
    return CenterLaw(mean, variance, dispersion.astype(float))


def matched(center, variance, other, other_variance):
    """(the matching cluster of `other` for each cluster, distances in spreads of the tighter one)."""
    apart = np.square(center[:, None] - other) / (2 * np.minimum(variance[:, None], other_variance))
    apart = apart.mean(-1)
    rows, columns = linear_sum_assignment(apart)
    return columns, np.sqrt(apart[rows, columns])


def group(settled: list[Found]) -> list[Mode]:
    """Group starts that ended in the same place, the best place first."""
    modes: list[Mode] = []
    for one in sorted(settled, key=lambda one: -one.score):
        home = next((mode for mode in modes if same_place(mode.best, one)), None)
        if home is None:
            modes.append(Mode([one]))
        else:
            home.members.append(one)
    return modes


def same_place(a: Found, b: Found) -> bool:
    """Are two starts in one mode: centres within NEAR spreads, or labels no farther apart than a start's own?"""
    if a.centers is None:
        own = max(partition_distance(one.first_labels[None], one.labels)[0] for one in (a, b))
        return bool(partition_distance(a.labels[None], b.labels)[0] <= 1.5 * own)
    one, other = (center_and_variance(found.centers) for found in (a, b))
    return bool(matched(*one, *other)[1].max() < NEAR)


def center_and_variance(law: CenterLaw):
    """Centres over all snapshots and their variance: that given the labels, times one factor for the labels' part."""
    within, between = law.variance.mean(0), law.mean.var(0)
    added = (between / within).mean(-1, keepdims=True)
    return law.mean.mean(0), within * (1 + added)


def located(mode: Mode) -> Mode:
    """The mode with its centres over all members."""
    if mode.best.centers is None:
        return mode
    first, variance = center_and_variance(mode.best.centers)
    laws = []
    for one in mode.members:
        center, own = center_and_variance(one.centers)
        order, _ = matched(first, variance, center, own)
        laws.append(CenterLaw(one.centers.mean[:, order], one.centers.variance[:, order], one.centers.dispersion))
    center, variance = center_and_variance(CenterLaw(*map(np.concatenate, zip(*laws))))
    dispersion = float(np.concatenate([law.dispersion for law in laws]).mean())
    return Mode(mode.members, mode.starts, center, np.sqrt(variance), dispersion)


def modes_table(modes: list[Mode], dtype) -> Modes:
    """The table of modes for jumps: clusters of any two modes are matched."""
    partner = np.tile(np.arange(len(modes[0].center)), (len(modes), len(modes), 1))
    for a, one in enumerate(modes):
        for b, other in enumerate(modes[a + 1 :], a + 1):
            order, _ = matched(one.center, np.square(one.spread), other.center, np.square(other.spread))
            partner[a, b], partner[b, a] = order, np.argsort(order)
    stacked = (np.stack([getattr(mode, name) for mode in modes]) for name in ("center", "spread", "dispersion"))
    return Modes(*(on_device(part, dtype) for part in stacked), on_device(partner, jnp.int32))
