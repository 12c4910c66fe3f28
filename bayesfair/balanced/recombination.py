"""Recombine cooled starts: each child takes every centre from one of two parents and cools from a middle temperature.

This is the genetic search of Gribel and Vidal (2019, HG-means) with annealing under the balance constraint as its local
search. A start with all centres but one well placed passes them on, while more independent starts would each fail
somewhere. The first parents are cooled starts and random ones.
"""

import numpy as np

from bayesfair.balanced.annealing import Annealer, Cooled, Multipliers
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.fairness.balanced import exactly, is_exact

REHEATED = 8  # children begin at the starts' loss per row over this
EXACTLY = 2  # generations under exact balance, if less is asked for
SAME = 1e-4  # relative to the loss: closer starts count as one
SAMPLE = 10_000  # rows that are annealed; all of them cool the best starts at the end
ALL_ROWS = 16  # the temperature at which they do, relative to the coldest one


def search(problem: BalancedProblem, n_starts, generations, rng, *, finalists=None, done=lambda _: None) -> Cooled:
    """The cheapest distinct cooled starts, best first, after `generations` of as many children.

    `done(1)` is called after the first starts and after each generation.
    `finalists`: how many to return, by default `n_starts`.
    """
    some = sample(problem.code, SAMPLE, rng)
    few = problem._replace(X=problem.X[some], code=problem.code[some], weight=problem.weight[some])
    annealer = Annealer.of(few, rng, np.bincount(problem.code))
    alive = bred(few, annealer, n_starts, generations if n_starts > 1 else 0, done).run(slice(finalists))
    if len(some) == len(problem.code):
        return alive
    everyone = Annealer.of(problem, rng)
    temperature = ALL_ROWS * everyone.coldest(alive.loss.min() / len(problem.code))
    return sorted_by_loss(everyone.cool(alive.centers, temperature, alive.mu))


def bred(problem: BalancedProblem, annealer: Annealer, n_starts, generations, done) -> Cooled:
    """The survivors of all generations, best first: the first generation are `strangers`, the others children of two.

    If a Balance is asked for, the first starts and generations are balanced exactly: they satisfy every bound, and
    their duals are found sooner. A looser bound starts from the survivors of a tighter one.
    """
    asked = annealer
    if generations > EXACTLY and not is_exact(problem.constraint):
        annealer = asked._replace(multipliers=Multipliers.of(exactly(problem.constraint, annealer.rows.sizes)))
    alive = sorted_by_loss(annealer.from_one_cluster(n_starts, problem.n_clusters))
    done(1)
    for generation in range(generations):
        if generation == EXACTLY and annealer is not asked:
            alive = alive._replace(mu=asked.multipliers.nearest(annealer.multipliers.alpha(alive.mu)))
            annealer = asked
        temperature = np.median(alive.loss) / annealer.rows.total / REHEATED
        if not 0 < temperature < np.inf:
            break
        rng = annealer.rng
        centers, mu = children(alive, rng) if generation else (strangers(problem, n_starts, rng), None)
        alive = survivors(alive, annealer.cool(centers, temperature, mu))
        done(1)
    return alive


def children(alive: Cooled, rng):
    """(centres, duals) of as many children as parents."""
    n_starts = len(alive.loss)
    parents = [rng.choice(n_starts, 2, replace=False) for _ in range(n_starts)]
    return map(np.stack, zip(*(recombined(*map(alive.run, pair), rng) for pair in parents)))


def strangers(problem: BalancedProblem, n_starts, rng):
    """Random rows as centres (starts, clusters, dim), drawn by cost at the nearest earlier one (k-means++).

    They find small clusters far from the others, which a split of one common centre never does.
    """
    X, _, weight, _, loss, n_clusters = problem
    centers = np.empty((n_starts, n_clusters, X.shape[1]))
    for start in centers:
        paid = np.full(len(X), np.inf)
        for k in range(n_clusters):
            running = np.cumsum(weight if k == 0 else paid)
            row = min(np.searchsorted(running, rng.random() * running[-1], side="right"), len(X) - 1)
            start[k] = X[row]
            paid = np.minimum(paid, loss.distances(X, start[None, k], weight)[:, 0])
    return centers


def sample(code, most, rng):
    """About `most` rows, in order, drawn within groups: every group keeps its share, and at least one row."""
    if len(code) <= most:
        return np.arange(len(code))
    members = [np.flatnonzero(code == group) for group in range(code.max() + 1)]
    few = [rng.permutation(rows)[: max(1, round(most * len(rows) / len(code)))] for rows in members]
    return np.sort(np.concatenate(few))


def recombined(mother, father, rng):
    """(centres (clusters, dim), duals), each from one of two parents whose clusters are paired by distance."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    paired = linear_sum_assignment(cdist(mother.centers, father.centers, "sqeuclidean"))[1]
    first = rng.random(len(paired)) < 0.5
    centers = np.where(first[:, None], mother.centers, father.centers[paired])
    return centers, np.where(first, mother.mu, father.mu[:, paired])


def survivors(parents: Cooled, children: Cooled) -> Cooled:
    """The best of both, as many as before; starts with the same loss count once, unless too few are left."""
    everyone = sorted_by_loss(Cooled(*(np.concatenate(pair) for pair in zip(parents, children))))
    with np.errstate(invalid="ignore"):  # both losses are infinite if neither is balanced
        new = np.diff(everyone.loss, prepend=-np.inf) > SAME * np.abs(everyone.loss)
    return everyone.run(np.argsort(~new, kind="stable")[: len(parents.loss)])


def sorted_by_loss(cooled: Cooled) -> Cooled:
    return cooled.run(np.argsort(cooled.loss, kind="stable"))
