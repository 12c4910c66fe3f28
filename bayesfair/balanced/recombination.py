"""Cooled starts, then strangers, then children, who take each centre from one of two parents; cooled from a middle temperature.

The genetic search of Gribel and Vidal (2019, HG-means) with annealing under the balance constraint as its local search: a start
that placed all centres but one well lends them to others, where more starts from nothing would each err somewhere.
"""

import numpy as np

from bayesfair.balanced.annealing import Annealer, Cooled
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.fairness.balanced import exactly, is_exact

REHEATED = 8  # parts of the starts' loss per row: the temperature at which children begin
EXACTLY = 2  # generations under exact balance, where less is asked for
SAME = 1e-4  # of the loss: closer starts count as one
SAMPLE = 20_000  # rows that are annealed; all of them cool the best starts at the end
ALL_ROWS = 4  # temperature at which they do, in units of the coldest one


def search(problem: BalancedProblem, n_starts, generations, rng, *, finalists=None, done=lambda _: None) -> Cooled:
    """The cooled starts that are cheapest and differ, best first, after `generations` of as many children; `done(1)` is
    called after each. `finalists`: how many are wanted, all of `n_starts` unless given."""
    some = sample(problem.code, SAMPLE, rng)
    few = problem.of(some)
    annealer = Annealer.of(few, rng, np.bincount(problem.code))
    alive = bred(few, annealer, n_starts, generations if n_starts > 1 else 0, done).run(slice(finalists))
    if len(some) == len(problem.code):
        return alive
    everyone = Annealer.of(problem, rng)
    temperature = ALL_ROWS * everyone.coldest(alive.loss.min() / len(problem.code))
    return sorted_by_loss(everyone.cool(alive.centers, temperature, alive.mu))


def bred(problem: BalancedProblem, annealer: Annealer, n_starts, generations, done) -> Cooled:
    """What is alive after the generations, best first: `strangers` are the first of them, and children of two all others.

    Where a Balance is asked for, the first starts and generations are balanced exactly: they fulfil every bound, and their
    duals are found sooner. A bound that is loosened begins where a tighter one does.
    """
    asked = annealer
    if generations > EXACTLY and not is_exact(problem.constraint):
        annealer = asked.under(exactly(problem.constraint, annealer.rows.sizes))
    alive = sorted_by_loss(annealer.from_one_cluster(n_starts, problem.n_clusters))
    for generation in range(generations):
        if generation == EXACTLY and annealer is not asked:
            alive = alive._replace(mu=asked.multipliers.nearest(annealer.multipliers.alpha(alive.mu)))
            annealer = asked
        temperature = np.median(alive.loss) / annealer.rows.total / REHEATED
        if not 0 < temperature < np.inf:
            break
        centers, mu = (
            children(alive, annealer.rng) if generation else (strangers(problem, n_starts, annealer.rng), None)
        )
        alive = survivors(alive, annealer.cool(centers, temperature, mu))
        done(1)
    return alive


def children(alive: Cooled, rng):
    """(centres, duals) of as many children as are alive."""
    n_starts = len(alive.loss)
    parents = [rng.choice(n_starts, 2, replace=False) for _ in range(n_starts)]
    return map(np.stack, zip(*(recombined(*map(alive.run, pair), rng) for pair in parents)))


def strangers(problem: BalancedProblem, n_starts, rng):
    """Rows as centres (starts, clusters, dim), each drawn by what it would pay in the nearest of those before it (k-means++,
    Arthur and Vassilvitskii 2007): they find small clusters far from the others, which one centre for all never splits into."""
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
    """Rows (at most about `most`), in order, drawn at random within groups: every group keeps its share, and a row."""
    if len(code) <= most:
        return np.arange(len(code))
    members = [np.flatnonzero(code == group) for group in range(code.max() + 1)]
    few = [rng.permutation(rows)[: max(1, round(most * len(rows) / len(code)))] for rows in members]
    return np.sort(np.concatenate(few))


def recombined(mother, father, rng):
    """(centres (clusters, dim), duals), each from one of the two, whose clusters were paired by distance."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    paired = linear_sum_assignment(cdist(mother.centers, father.centers, "sqeuclidean"))[1]
    first = rng.random(len(paired)) < 0.5
    centers = np.where(first[:, None], mother.centers, father.centers[paired])
    return centers, np.where(first, mother.mu, father.mu[:, paired])


def survivors(parents: Cooled, children: Cooled) -> Cooled:
    """As many as there were, the best first: of starts whose losses are the same, the best; then others."""
    everyone = sorted_by_loss(Cooled(*(np.concatenate(pair) for pair in zip(parents, children))))
    with np.errstate(invalid="ignore"):  # of two that are not balanced
        new = np.diff(everyone.loss, prepend=-np.inf) > SAME * np.abs(everyone.loss)
    return everyone.run(np.argsort(~new, kind="stable")[: len(parents.loss)])


def sorted_by_loss(cooled: Cooled) -> Cooled:
    return cooled.run(np.argsort(cooled.loss, kind="stable"))
