"""Cooled starts recombined: children take each centre from one of two parents, and are cooled again from a middle temperature.

The genetic search of Gribel and Vidal (2019, HG-means) with annealing under the balance constraint as its local search: a start
that placed all centres but one well lends them to others, where more starts from nothing would each err somewhere.
"""

import numpy as np

from bayesfair.balanced.annealing import Annealer, Cooled
from bayesfair.balanced.problem import BalancedProblem

__all__ = ["search"]

REHEATED = 8  # parts of a parent's loss per row: the temperature at which children begin
SAME = 1e-4  # of the loss: closer starts count as one
SAMPLE = 100_000  # rows that are annealed; all of them cool the best starts at the end
ALL_ROWS = 4  # temperature at which they do, in units of the coldest one


def search(problem: BalancedProblem, n_starts, generations, rng, *, finalists=None, done=lambda _: None) -> Cooled:
    """The cooled starts that are cheapest and differ, best first, after `generations` of as many children; `done(1)` is
    called after each. `finalists`: how many are wanted, all of `n_starts` unless given."""
    some = sample(problem.code, SAMPLE, rng)
    alive = bred(problem.of(some), n_starts, generations if n_starts > 1 else 0, rng, done).run(slice(finalists))
    if len(some) == len(problem.code):
        return alive
    everyone = Annealer.of(problem, rng)
    return sorted_by_loss(everyone.cool(alive.centers, ALL_ROWS * everyone.coldest(alive.loss.min() / len(some))))


def bred(problem: BalancedProblem, n_starts, generations, rng, done) -> Cooled:
    """What is alive after the generations, best first."""
    annealer = Annealer.of(problem, rng)
    alive = sorted_by_loss(annealer.from_one_cluster(n_starts, problem.n_clusters))
    for _ in range(generations):
        temperature = np.median(alive.loss) / len(problem.X) / REHEATED
        if temperature <= 0:
            break
        parents = [rng.choice(n_starts, 2, replace=False) for _ in range(n_starts)]
        centers = np.stack([recombined(*alive.centers[pair], rng) for pair in parents])
        alive = survivors(alive, annealer.cool(centers, temperature))
        done(1)
    return alive


def sample(code, most, rng):
    """Rows (at most about `most`), in order, drawn at random within groups: every group keeps its share, and a row."""
    if len(code) <= most:
        return np.arange(len(code))
    members = [np.flatnonzero(code == group) for group in range(code.max() + 1)]
    few = [rng.permutation(rows)[: max(1, round(most * len(rows) / len(code)))] for rows in members]
    return np.sort(np.concatenate(few))


def recombined(mother, father, rng):
    """Centres (clusters, dim), each from one of the two, which were paired by distance."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    father = father[linear_sum_assignment(cdist(mother, father, "sqeuclidean"))[1]]
    return np.where(rng.random(len(mother))[:, None] < 0.5, mother, father)


def survivors(parents: Cooled, children: Cooled) -> Cooled:
    """As many as there were, the best first: of starts whose losses are the same, the best; then others."""
    everyone = sorted_by_loss(Cooled(*(np.concatenate(pair) for pair in zip(parents, children))))
    new = np.diff(everyone.loss, prepend=-np.inf) > SAME * np.abs(everyone.loss)
    return everyone.run(np.argsort(~new, kind="stable")[: len(parents.loss)])


def sorted_by_loss(cooled: Cooled) -> Cooled:
    return cooled.run(np.argsort(cooled.loss, kind="stable"))
