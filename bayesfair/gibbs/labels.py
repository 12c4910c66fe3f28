"""The posterior directly on balanced labellings (DESIGN 2.6): p(z) ~ exp(-lambda L(z)) on S, without fairlets."""

from functools import cached_property
from typing import Literal

import numpy as np
from sklearn.base import BaseEstimator

from bayesfair._check import message
from bayesfair._draws import Statistic
from bayesfair.balanced.centroids import centroids_of
from bayesfair.balanced.labels import cooled_labels
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.fairlets.dissimilarity import SquaredEuclidean
from bayesfair.fairness.balanced import balance_constraint
from bayesfair.gibbs.balance import Balance, at_least, families, within_one_row
from bayesfair.gibbs.chance import seeded
from bayesfair.gibbs.target import Dispersion, Room, Table
from bayesfair.gibbs.temperature import start_dispersion
from bayesfair.gibbs.units import LAMBDA, LOSS, Units, UnitState, new_state
from bayesfair.gibbs.walk import Schedule, go_on, learn

STATISTICS = {
    "lp": Statistic("quantity"),
    "clustering_loss": Statistic("quantity", power=1),
    "lambda_c": Statistic("parameter", power=-1),
}
WEAKEST = 6.0  # penalty of a row beyond a bound, before it is learnt


class Labels(BaseEstimator):
    """Balanced labels without fairlets.

    Parameters
    ----------
    min_balance : "exact" or float above zero, default "exact"
        "exact": in every cluster each group's count differs by less than one row from its share of the data. A number: the
        least balance of every cluster, at most the balance of the data.
    crossed : bool, default True
        Whether combinations of several sensitive columns are balanced beside each column by itself.
    size_min : int, at least 1, optional
        The least rows of every cluster in every draw. Rows count, not weights.
    size_max : int, at least 1, optional
        The most rows of a cluster, like `size_min`.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.Labels(min_balance=0.8)
    Labels(min_balance=0.8)
    """

    promise = "labels"

    def __init__(
        self,
        min_balance: Literal["exact"] | float = "exact",
        crossed: bool = True,
        size_min: int | None = None,
        size_max: int | None = None,
    ):
        self.min_balance = min_balance
        self.crossed = crossed
        self.size_min = size_min
        self.size_max = size_max

    def prepare(self, table: Table) -> "LabelsLaw":
        """The law of this table."""
        given = table.temperature
        if isinstance(given, tuple) and not isinstance(given, Dispersion) and len(given) != 1:
            remedy = "Give lambda alone: there are no fairlets."
            raise ValueError(message("inverse_temperature", "be one number for target='labels'", "a pair", remedy))
        return LabelsLaw(table, self)

    def balance(self, groups) -> Balance:
        """The balanced set for kernels: combinations are the groups, attributes their `parts`."""
        codes = [part.code for part in groups.parts or (groups,)]
        kept = families(codes, groups.code if self.crossed else None)
        sizes = {"size_min": self.size_min, "size_max": self.size_max}
        if self.min_balance == "exact":
            return within_one_row(*kept, **sizes)
        return at_least(self.min_balance, *kept, **sizes)


class LabelsLaw:
    """A prepared target of labels: see `target.Law`."""

    statistics = STATISTICS

    def __init__(self, table: Table, target: Labels):
        self.table, self.target = table, target
        self.constraint = balance_constraint(
            table.groups, target.min_balance, table.n_clusters, size_min=target.size_min, size_max=target.size_max
        )
        self.balance = target.balance(table.groups)

    @cached_property
    def units(self) -> Units:
        """The rows, and the rows of every combination of groups."""
        cell = table_cells(self.table.groups.code)
        return Units(self.table.X, self.table.weight, *cell)

    @cached_property
    def code(self):
        """The loss as kernels read it."""
        return self.table.loss.code()

    @cached_property
    def schedule(self) -> Schedule:
        """What a pass is: visits alone where they suffice; losses of pairs swap rows too."""
        prior = self.table.temperature
        shape, rate = (
            (prior.shape + self.table.degrees, float(prior.rate)) if isinstance(prior, Dispersion) else (0.0, 0.0)
        )
        pairs = 1 if self.table.loss.has_conjugate_centers else 0
        return Schedule(pairs, 0 if self.table.loss.has_centers else 1, shape, rate)

    def starts(self, num_chains: int) -> list[UnitState]:
        """Cooled labellings, a different one in each chain; lambda suits the best of them."""
        table = self.table
        known = centroids_of(table.loss.dissimilarity) or centroids_of(SquaredEuclidean())
        weight = table.weight / table.weight.mean()
        problem = BalancedProblem(table.X, table.groups.code, weight, self.constraint, known, table.n_clusters)
        labels, _ = cooled_labels(problem, num_chains, table.seed)
        states = [self.state(chain, own, 1.0) for chain, own in enumerate(labels)]
        best = int(np.argmin([state.number[LOSS] for state in states]))
        if isinstance(table.temperature, tuple) and not isinstance(table.temperature, Dispersion):
            lam = table.temperature[0]
        else:
            lam = start_dispersion(table, labels[best], states[best].number[LOSS])
        for state in states:
            state.number[LAMBDA] = lam
        return states

    def state(self, chain: int, labels, lam: float) -> UnitState:
        """A chain's state from scratch."""
        words = seeded(self.table.seed, chain)
        return new_state(words, labels, self.units, self.code, self.balance, self.table.n_clusters, WEAKEST, lam)

    def warm_up(self, state: UnitState, passes: int):
        """Learn the penalties of the relaxed law, in place."""
        learn(self.units, self.code, self.balance, self.schedule, state, passes)

    def advance(self, state: UnitState, thinning: int, visits: int, room: Room, first: int) -> int:
        numbers = np.empty((len(room.scalars), 2))
        per = thinning * len(self.table.X)
        args = self.units, self.code, self.balance, self.schedule, state, per, visits
        last = go_on(*args, room.labels, numbers, first)
        lam, loss = numbers[first:last].T
        lp = -lam * loss
        if self.schedule.shape > 0:
            lp += (self.schedule.shape - 1) * np.log(lam) - self.schedule.rate * lam
        room.scalars[first:last] = np.stack([lp, loss, lam], 1)
        return last

    def labels(self, state: UnitState) -> np.ndarray:
        return state.label


def table_cells(code):
    """(cell, order, first): the combination of every row, and the rows of every combination."""
    order = np.argsort(code, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(code))])
    return np.asarray(code, np.int32), order.astype(np.int64), first.astype(np.int64)
