"""Find the modes of the posterior: many short runs from different starts, grouped by where they end.

With conjugate centres runs are grouped by their centres, in units of the posterior's spread; with other losses by the distance
of their labels in bits, relative to how far a run itself moves.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import delayed
from scipy.optimize import linear_sum_assignment

from bayesfair._arrays import MANY
from bayesfair._partitions import partition_distance
from bayesfair.gibbs.chance import seeded
from bayesfair.gibbs.modes.jump import UNLIMITED, paths_of
from bayesfair.gibbs.modes.places import Places, draw_many
from bayesfair.gibbs.run import copied, learnt
from bayesfair.gibbs.target import empty_room
from bayesfair.gibbs.units import UnitState

FEWEST_SWEEPS = 48  # least sweeps of a start; a shorter warm-up has fewer starts
MOST_SWEEPS = 1000
SNAPSHOTS = 12  # of every run, in the second half of its sweeps
CENTERS = 16  # draws of the centres given the clusters of a snapshot
NEAR = 3.0  # distance of centres, in spreads, up to which two runs share a mode
OWN = 1.5  # distance of labels up to which two runs share a mode, relative to how far each of them moves
FURTHER = 4  # of so many starts one begins from the best of the others
AGREED = 16  # starts that end in one mode, half of all at least, after which others are left out
AT_ONCE = 10_000_000  # visits of a task, so that Ctrl-C is heard
STUCK = 25  # passes for every one that a sweep takes, after which a run does not come into the balanced set
FIRST_CHAIN = 1 << 20  # number of the generator of the first run of the search


class Snapshot(NamedTuple):
    """A run on its way: scalars (None if its labels do not come into balance), lambda, and centres (n, K, d) drawn there.

    `labels`: those of the first snapshot, if there are no centres to tell runs by.
    """

    state: Any
    scalars: np.ndarray | None
    lam: float = np.nan
    centers: np.ndarray | None = None
    labels: np.ndarray | None = None


class Settled(NamedTuple):
    """The end of a run: its state, labels of its first and last snapshot, means of scalars, and its centres with spreads."""

    state: Any
    first: np.ndarray | None  # None with conjugate centres
    labels: np.ndarray
    lp: float  # NaN if there is no density
    loss: float
    lam: float
    center: np.ndarray | None  # (K, d) in coordinates; None without conjugate centres
    spread: np.ndarray | None

    @property
    def score(self) -> float:
        """Higher is better."""
        return -self.loss if np.isnan(self.lp) else self.lp


@dataclass
class Mode:
    """A mode: its runs, best first, and how many starts ended there."""

    runs: list[Settled]
    starts: int

    @property
    def best(self) -> Settled:
        return self.runs[0]


class Search:
    """Runs of a search: the law, joblib tasks, how many runs and sweeps there were, and a bar that shows these."""

    def __init__(self, law, tasks, bar):
        self.law, self.paths, self.tasks, self.bar = law, paths_of(law), tasks, bar
        self.made, self.spent = 0, 0

    def words(self):
        """A generator that no other run has."""
        self.made += 1
        return seeded(self.law.table.seed, FIRST_CHAIN + self.made)

    def spend(self, n_sweeps):
        """Count sweeps that were made."""
        self.spent += n_sweeps
        self.bar.update(n_sweeps)

    def settle(self, states, n_sweeps) -> list[Settled | None]:
        """Run every state for so many sweeps, with a generator of its own; None for runs that do not come into balance."""
        law, begun, n_learn = self.law, [copied(state) for state in states], n_sweeps // 2
        apart, most = max(1, (n_sweeps - n_learn) // SNAPSHOTS), max(1, AT_ONCE // len(law.table.X))
        if not self.made:  # compile in this thread alone, before several would
            snapshots(law, self.paths, learnt(law, copied(states[0]), 1), 1, 1, True)
        for state in begun:
            state.words[:] = self.words()
        for done in range(0, n_learn, most):
            piece = min(most, n_learn - done)
            begun = self.tasks(delayed(learnt)(law, state, piece) for state in begun)
            self.spend(len(begun) * piece)
        seen, piece = [[] for _ in begun], min(max(1, most // apart), SNAPSHOTS)
        for done in range(0, SNAPSHOTS, piece):
            number = min(piece, SNAPSHOTS - done)
            task = delayed(snapshots)
            alive = [at for at, own in enumerate(seen) if not own or own[-1].scalars is not None]
            more = self.tasks(task(law, self.paths, begun[at], apart, number, done == 0) for at in alive)
            for at, further in zip(alive, more):
                seen[at] += further
                begun[at] = further[-1].state
            self.spend(len(begun) * number * apart)
        return [summed_up(law, own) for own in seen]


def find_modes(search: Search, n_starts: int, n_sweeps: int, num_chains: int) -> tuple[list[Mode], int]:
    """(the modes that the starts of the law lead to, best first, how many starts were run).

    One in FURTHER starts from the best run of the others with one centre moved. The second half of the starts is left out if
    at least AGREED have ended in one mode. From the best run of every mode chains go on once more: they show its spread, and
    merge runs that had not yet arrived.
    """
    n_further = n_starts // FURTHER if search.paths is not None and len(search.law.table.X) < MANY else 0
    starts, rng = search.law.starts(n_starts - n_further), np.random.default_rng(search.law.table.seed)
    parts, runs, modes = 2 if n_starts >= 2 * AGREED else 1, [], []
    for part in range(parts):
        runs += search.settle(starts[part::parts], n_sweeps)
        modes = grouped(runs)
        if n_further and modes:
            further = relocated(search.law, search.paths, modes[0].best.state, n_further // parts, rng)
            runs += search.settle(further, n_sweeps)
            modes = grouped(runs)
        if len(modes) == 1 and None not in runs:
            break
    if len(modes) < 2:
        return modes, len(runs)
    further = n_starts * n_sweeps // (4 * len(modes))
    copies = max(1, min(num_chains, further // (2 * SNAPSHOTS)))
    begun, n_sweeps = [mode.best.state for mode in modes for _ in range(copies)], max(further // copies, 2 * SNAPSHOTS)
    again = search.settle(begun, n_sweeps)
    arrived = grouped(again)
    for home in arrived:
        home.starts = 0
    for at, mode in enumerate(modes):
        own = {id(run) for run in again[at * copies : (at + 1) * copies]}
        home = max(arrived, key=lambda there: sum(id(run) in own for run in there.runs))
        home.starts += mode.starts
    return arrived, len(runs)


def relocated(law, paths, state, number: int, rng) -> list:
    """States like this one with one of its centres moved to a unit, one that pays much more likely: k-means cannot do that."""
    n_clusters, states = law.table.n_clusters, []
    x, weight, cluster = paths.clustered(state)
    means = np.stack([np.average(x[cluster == k], 0, weight[cluster == k]) for k in range(n_clusters)])
    cost = weight * law.table.loss.dissimilarity.divergence(x, means[cluster])
    if not cost.sum() > 0:
        return []
    for _ in range(number):
        centers = means.copy()
        centers[rng.integers(n_clusters)] = x[rng.choice(len(x), p=cost / cost.sum())]
        moved = paths.from_centers(state, centers)
        states += [moved] if len(np.unique(law.labels(moved))) == n_clusters else []
    return states


def snapshots(law, paths, state, apart, number, is_first) -> list[Snapshot]:
    """One task: a run every so many sweeps, as long as it comes into balance."""
    seen = []
    for at in range(number):
        seen.append(snapshot(law, paths, state, apart, is_first and at == 0))
        if seen[-1].scalars is None:
            break
    return seen


def snapshot(law, paths, state, apart, is_first) -> Snapshot:
    """A run some sweeps later."""
    scalars = sweeps_later(law, state, apart)
    if paths is None:
        return Snapshot(state, scalars, labels=law.labels(state).copy() if is_first else None)
    if scalars is None:
        return Snapshot(state, scalars)
    lam, mass, total = paths.sums(state)
    centers = np.empty((CENTERS, *total.shape))
    draw_many(state.words, law.code, lam, mass, total, centers)
    return Snapshot(state, scalars, lam, centers)


def sweeps_later(law, state, number) -> np.ndarray | None:
    """The scalars after so many sweeps, in place; None if labels do not come into balance."""
    visits = STUCK * number * len(law.table.X) if law.state_type is UnitState else UNLIMITED
    room = empty_room(law, 1)
    return room.scalars[0] if law.advance(state, number, visits, room, 0) else None


def summed_up(law, seen: list[Snapshot]) -> Settled | None:
    """The end of a run that was seen so often."""
    if any(one.scalars is None for one in seen):
        return None
    of = dict(zip(law.statistics, np.mean([one.scalars for one in seen], axis=0)))
    place = (None, None) if seen[-1].centers is None else located([one.centers for one in seen])
    state, lam = seen[-1].state, float(np.mean([one.lam for one in seen]))
    return Settled(state, seen[0].labels, law.labels(state), of.get("lp", np.nan), of["clustering_loss"], lam, *place)


def located(centers: list[np.ndarray]):
    """Mean and spread (K, d) of draws of centres (n, K, d) from several snapshots, numbered as in the last one."""
    center, spread = centers[-1].mean(0), centers[-1].std(0)
    numbered = [drawn[:, matched((center, spread), (drawn.mean(0), drawn.std(0)))[0]] for drawn in centers]
    drawn = np.concatenate(numbered)
    return drawn.mean(0), drawn.std(0)


def matched(place, other):
    """(the cluster of `other` that matches each cluster, distances in spreads of the tighter one); each is (center, spread)."""
    (center, spread), (center_there, spread_there) = place, other
    apart = np.square(center[:, None] - center_there) / (2 * np.square(np.minimum(spread[:, None], spread_there)))
    apart = apart.mean(-1)
    rows, columns = linear_sum_assignment(apart)
    return columns, np.sqrt(apart[rows, columns])


def grouped(runs: list[Settled | None]) -> list[Mode]:
    """Runs that ended in the same place together, the best place first."""
    modes: list[Mode] = []
    for run in sorted((run for run in runs if run is not None), key=lambda run: -run.score):
        home = next((mode for mode in modes if in_one_place(mode.best, run)), None)
        if home is None:
            modes.append(Mode([run], 1))
        else:
            home.runs.append(run)
            home.starts += 1
    return modes


def in_one_place(a: Settled, b: Settled) -> bool:
    """Are centres within NEAR spreads, or labels no farther apart than OWN times what a run moves by itself?"""
    if a.center is not None:
        return bool(matched((a.center, a.spread), (b.center, b.spread))[1].max() < NEAR)
    own = max(partition_distance(run.first[None], run.labels)[0] for run in (a, b))
    return bool(partition_distance(a.labels[None], b.labels)[0] <= OWN * own)


def numbered_alike(modes: list[Mode]) -> list[np.ndarray]:
    """For every mode which of its clusters are those of the first mode, in their order."""
    first = modes[0].best
    return [matched((first.center, first.spread), (mode.best.center, mode.best.spread))[0] for mode in modes]


def places_of(modes: list[Mode]) -> tuple[Places, list[list[np.ndarray]]]:
    """(where the modes are, over all their runs, clusters numbered alike; for every run which of its clusters these are)."""
    found, numbers = [], []
    for mode, number in zip(modes, numbered_alike(modes)):
        best = mode.best.center[number], mode.best.spread[number]
        own = [matched(best, (run.center, run.spread))[0] for run in mode.runs]
        center = np.stack([run.center[n] for run, n in zip(mode.runs, own)])
        spread = np.stack([run.spread[n] for run, n in zip(mode.runs, own)])
        lam = np.mean([run.lam for run in mode.runs])
        found.append((center.mean(0), np.sqrt(np.square(spread).mean(0) + center.var(0)), lam))
        numbers.append(own)
    return Places(*(np.stack(part) for part in zip(*found))), numbers
