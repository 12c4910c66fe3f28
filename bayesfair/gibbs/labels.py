"""The posterior directly on balanced labellings (DESIGN 2.6): p(z) ~ exp(-lambda L(z)) on S, without fairlets."""

from functools import cached_property
from typing import Literal

import numpy as np
from sklearn.base import BaseEstimator

from bayesfair._check import check_integer, message
from bayesfair._draws import Statistic
from bayesfair._settings import Count, Positive
from bayesfair.balanced.centroids import centroids_of
from bayesfair.balanced.labels import cooled_labels
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.fairlets.dissimilarity import SquaredEuclidean
from bayesfair.fairness.balanced import balance_constraint, is_exact
from bayesfair.fairness.bounded_sizes import balance_of
from bayesfair.fairness.guarantee import Guarantee
from bayesfair.gibbs.balance import WITHIN, Balance, at_least, families, within_one_row
from bayesfair.gibbs.chance import seeded
from bayesfair.gibbs.loss import refuse_start, refuse_value
from bayesfair.gibbs.modes.jump import with_jumps_of
from bayesfair.gibbs.target import Room, Table, check_temperature, is_fixed
from bayesfair.gibbs.temperature import start_dispersion
from bayesfair.gibbs.units import FAILED, INSIDE, LAMBDA, LOSS, VISITS, Units, UnitState, new_state
from bayesfair.gibbs.walk import WEAKEST, Schedule, go_on, learn

STATISTICS = {
    "lp": Statistic("quantity"),
    "clustering_loss": Statistic("quantity", power=1),
    "lambda_c": Statistic("parameter", power=-1),
}
STUCK = 1_000  # visits for every one in S above which a chain is stuck, and passes before that is judged


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

    name = "labels"
    moves_fairlets = False

    def __init__(
        self,
        min_balance: Literal["exact"] | Positive = "exact",
        crossed: bool = True,
        size_min: Count | None = None,
        size_max: Count | None = None,
    ):
        self.min_balance = min_balance
        self.crossed = crossed
        self.size_min = size_min
        self.size_max = size_max

    def prepare(self, table: Table, memory=None) -> "LabelsLaw":
        """Prepare the law of a table.

        Parameters
        ----------
        table : Table
            What is sampled.
        memory : dict, optional
            Arrays of the run that continues, see `LabelsLaw.memory`.

        Returns
        -------
        LabelsLaw
        """
        remedy = f"There are {len(table.X)} rows: ask for fewer."
        check_integer("n_clusters", table.n_clusters, maximum=len(table.X), remedy=remedy)
        check_temperature(table, 1, "one number for target='labels'", "Give lambda alone: there are no fairlets.")
        return with_jumps_of(LabelsLaw(table, self), memory)

    def balance(self, groups, room=1) -> Balance:
        """Describe the balanced set for kernels: combinations are the groups, attributes their `parts`.

        Parameters
        ----------
        groups : Groups
            The groups of the rows.
        room : float, default 1
            Combinations are less than so many rows from their share.

        Returns
        -------
        Balance
        """
        codes = [part.code[groups.code] for part in groups.parts] or [groups.code]
        group, first, of_cell = families(codes, None if groups.attributes else groups.code)
        sizes = {"size_min": self.size_min, "size_max": self.size_max}
        if self.min_balance == "exact":
            slack = np.where(np.arange(first[-1]) < first[1], room - 1 + WITHIN, WITHIN)
            return within_one_row(group, first, of_cell, **sizes, slack=slack)
        return at_least(self.min_balance, group, first, of_cell, **sizes)


class LabelsLaw:
    """A prepared target of labels: see `target.Law`."""

    statistics, state_type = STATISTICS, UnitState

    def __init__(self, table: Table, target: Labels):
        self.table, self.target = table, target
        self.constraint = balance_constraint(
            table.groups, target.min_balance, table.n_clusters, size_min=target.size_min, size_max=target.size_max
        )
        balance = balance_of(self.constraint)
        self.balance = target.balance(table.groups, balance.room if is_exact(balance) else 1)

    @property
    def guarantee(self) -> Guarantee:
        """What holds in every draw."""
        balance, target = balance_of(self.constraint), self.target
        bounds = {"size_min": target.size_min, "size_max": target.size_max}
        if is_exact(balance):
            return Guarantee("exact", room=balance.room, **bounds)
        return Guarantee("min_balance", min_balance=float(target.min_balance), **bounds)

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
        loss = self.table.loss
        return Schedule(loss.has_conjugate_centers, 0 if loss.has_centers else 1, *self.table.gamma)

    @property
    def problem(self) -> BalancedProblem:
        """Whose solutions are starts."""
        table = self.table
        known = centroids_of(table.loss.dissimilarity) or centroids_of(SquaredEuclidean())
        weight = table.weight / table.weight.mean()
        return BalancedProblem(table.X, table.groups.code, weight, self.constraint, known, table.n_clusters)

    def starts(self, num_chains: int) -> list[UnitState]:
        """Cooled labellings, a different one in each chain; lambda suits the best of them."""
        labels, _ = cooled_labels(self.problem, num_chains, self.table.seed)
        return self.starts_at(labels)

    def starts_at(self, labels) -> list[UnitState]:
        """States of chains at balanced labels (chains, N); lambda suits the best of them."""
        table = self.table
        states = [self.state(chain, own, 1.0) for chain, own in enumerate(labels)]
        best = int(np.argmin([state.number[LOSS] for state in states]))
        if is_fixed(table.temperature):
            lam = table.temperature[0]
        else:
            lam = start_dispersion(table, labels[best], states[best].number[LOSS])
        for state in states:
            state.number[LAMBDA] = lam
        return states

    def state(self, chain: int, labels, lam: float) -> UnitState:
        """A chain's state from scratch."""
        words = seeded(self.table.seed, chain)
        state = new_state(words, labels, self.units, self.code, self.balance, self.table.n_clusters, WEAKEST, lam)
        if not np.isfinite(state.number[LOSS]):
            refuse_start(self.table.loss, self.table.X, state.label, range(len(labels)))
        return state

    @property
    def memory(self) -> dict:
        """Arrays that a continued run needs beside its table and states."""
        return {}

    @property
    def looks_per_sweep(self) -> float:
        """Looks at a row and a coordinate of a centre, or what takes as long."""
        return len(self.table.X) * (20 + self.table.n_clusters * self.table.X.shape[1])

    def learn(self, state: UnitState, passes: int):
        """Sweeps that learn the penalties of the relaxed law, in place."""
        learn(self.units, self.code, self.balance, self.schedule, state, passes)
        self._refuse_failure(state)

    def advance(self, state: UnitState, thinning: int, visits: int, room: Room, first: int) -> int:
        numbers = np.empty((len(room.scalars), 2))
        args = self.units, self.code, self.balance, self.schedule, state, thinning, visits
        last = go_on(*args, room.labels, numbers, first)
        self._refuse_failure(state)
        lam, loss = numbers[first:last].T
        lp = -lam * loss
        if self.schedule.shape > 0:
            lp += (self.schedule.shape - 1) * np.log(lam) - self.schedule.rate * lam
        room.scalars[first:last] = np.stack([lp, loss, lam], 1)
        return last

    def _refuse_failure(self, state: UnitState):
        """Raise a ValueError if a loss of the user's own was not finite, or if a chain does not come into S."""
        if state.step[FAILED]:
            refuse_value(state.number[LOSS], f"row {state.step[FAILED] - 1}, when it moved")
        visits, inside = int(state.step[VISITS]), int(state.step[INSIDE])
        if visits > STUCK * len(state.label) and STUCK * inside < visits:
            rule, got = (
                "leave room for rows to move",
                f"a chain that was balanced after {inside:,} of {visits:,} visits",
            )
            remedy = "Ask for a lower min_balance, fewer attributes, wider bounds on sizes, or fewer clusters."
            raise ValueError(message("target", rule, got, remedy))

    def labels(self, state: UnitState) -> np.ndarray:
        return state.label


def table_cells(code):
    """(cell, order, first): the combination of every row, and the rows of every combination."""
    order = np.argsort(code, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(code))])
    return np.asarray(code, np.int32), order.astype(np.int64), first.astype(np.int64)
